//! What differs between two surfaces, and the list of what differs on purpose.

use std::collections::BTreeMap;
use std::fmt;

use super::surface::{Sort, Surface};
use crate::sh::{self, Context, Outcome};

/// In which way the façade differs from tokio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Missing,
    Extra,
    Differs,
}

impl Way {
    fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Differs => "differs",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) way: Way,
    pub(super) key: String,
    pub(super) real: String,
    pub(super) facade: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.way.word(), self.key)?;
        match self.way {
            Way::Missing => write!(f, "\n    tokio   {}", self.real),
            Way::Extra => write!(f, "\n    façade  {}", self.facade),
            Way::Differs => write!(
                f,
                "\n    tokio   {}\n    façade  {}",
                self.real, self.facade
            ),
        }
    }
}

/// Compares two surfaces key by key.
pub(super) fn compare(real: &Surface, facade: &Surface) -> Vec<Difference> {
    let mut found = Vec::new();
    for (key, fact) in real {
        let other = facade.get(key);
        let way = match other {
            None => Way::Missing,
            Some(other) if !fact.is_met_by(other) => Way::Differs,
            Some(_) => continue,
        };
        found.push(Difference {
            way,
            key: key.clone(),
            real: fact.to_string(),
            facade: other.map(ToString::to_string).unwrap_or_default(),
        });
    }
    for (key, fact) in facade {
        // What is said of an additional method breaks nothing either.
        let subject = key.split(" #[").next().unwrap_or_default();
        if real.contains_key(key) || fact.sort == Sort::AtLeast || !is_known(real, key, subject) {
            continue;
        }
        found.push(Difference {
            way: Way::Extra,
            key: key.clone(),
            real: String::new(),
            facade: fact.to_string(),
        });
    }
    found
}

/// Whether the fact is about something that the real tokio has, or is a name of its own.
fn is_known(real: &Surface, key: &str, subject: &str) -> bool {
    subject == key || real.contains_key(subject)
}

/// The differences that are deliberate: `way key | reason`. A `*` at the end of a key stands for
/// anything.
pub(super) struct Listed {
    lines: Vec<ListedLine>,
}

struct ListedLine {
    way: String,
    key: String,
    matched: bool,
}

impl Listed {
    pub(super) fn read() -> Outcome<Self> {
        let path = sh::root().join("compat/api-differences.txt");
        Self::parse(&std::fs::read_to_string(&path).context(path.display())?)
    }

    fn parse(text: &str) -> Outcome<Self> {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parse = |line: &str| {
            let (difference, reason) = line.split_once(" | ")?;
            let (way, key) = difference.split_once(' ')?;
            let known = [Way::Missing, Way::Extra, Way::Differs]
                .iter()
                .any(|each| each.word() == way);
            (known && !reason.trim().is_empty()).then(|| ListedLine {
                way: way.to_owned(),
                key: key.trim().to_owned(),
                matched: false,
            })
        };
        let parsed = lines.map(|line| {
            parse(line).ok_or_else(|| {
                format!("api-differences.txt: `{line}` is not `missing|extra|differs key | reason`")
                    .into()
            })
        });
        Ok(Self {
            lines: parsed.collect::<Outcome<_>>()?,
        })
    }

    /// Whether a difference is listed.
    pub(super) fn covers(&mut self, difference: &Difference) -> bool {
        let mut covered = false;
        for line in &mut self.lines {
            let fits = match line.key.strip_suffix('*') {
                Some(start) => difference.key.starts_with(start),
                None => difference.key == line.key,
            };
            if fits && line.way == difference.way.word() {
                line.matched = true;
                covered = true;
            }
        }
        covered
    }

    /// The lines for which no difference was found.
    pub(super) fn unused(&self) -> impl Iterator<Item = String> {
        let unused = self.lines.iter().filter(|line| !line.matched);
        unused.map(|line| format!("{} {}", line.way, line.key))
    }
}

/// The differences that are not listed, with the setups in which they were found.
#[derive(Default)]
pub(super) struct Unlisted(BTreeMap<(String, Way), (Difference, Vec<String>)>);

impl Unlisted {
    pub(super) fn add(&mut self, difference: Difference, setup: &str) {
        let key = (difference.key.clone(), difference.way);
        let entry = self.0.entry(key).or_insert((difference, Vec::new()));
        entry.1.push(setup.to_owned());
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn print(&self) {
        for (difference, setups) in self.0.values() {
            println!("{difference}\n    with    {}", setups.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::surface::Fact;
    use super::*;

    fn surface(facts: &[(&str, &str, &[&str], Sort)]) -> Surface {
        let fact = |(key, value, bounds, sort): &(&str, &str, &[&str], Sort)| {
            let fact = Fact {
                value: (*value).to_owned(),
                bounds: bounds.iter().map(|bound| (*bound).to_owned()).collect(),
                sort: *sort,
            };
            ((*key).to_owned(), fact)
        };
        facts.iter().map(fact).collect()
    }

    #[test]
    fn what_is_missing_asks_for_more_or_warns_where_tokio_does_not_is_found() {
        let real = surface(&[
            ("a::B", "struct", &[], Sort::Exact),
            ("a::B::c", "fn()", &["T0: Send"], Sort::AtLeast),
            ("a::B::d", "fn()", &["T0: Send"], Sort::AtLeast),
            ("a::B::e", "fn()", &["T0: ?Sized"], Sort::AtLeast),
            ("a::B impl Send for a::B", "yes", &[], Sort::AtLeast),
            ("a::B impl Sync for a::B", "yes", &[], Sort::AtLeast),
            ("a::B impl Unpin for a::B", "no", &[], Sort::AtLeast),
        ]);
        let facade = surface(&[
            ("a::B", "struct", &[], Sort::Exact),
            ("a::B #[must_use]", "present", &[], Sort::Exact),
            ("a::B::c", "fn()", &["T0: Send", "T0: Sync"], Sort::AtLeast),
            ("a::B::d", "fn()", &["T0: ?Sized"], Sort::AtLeast),
            ("a::B::e", "fn()", &[], Sort::AtLeast),
            ("a::B::new", "fn()", &[], Sort::AtLeast),
            ("a::B::new #[must_use]", "present", &[], Sort::Exact),
            ("a::B impl Sync for a::B", "no", &[], Sort::AtLeast),
            ("a::B impl Unpin for a::B", "yes", &[], Sort::AtLeast),
            ("a::New", "struct", &[], Sort::Exact),
        ]);
        let found = compare(&real, &facade);
        let found: Vec<_> = found.iter().map(|each| (each.way, &*each.key)).collect();
        assert_eq!(
            found,
            [
                (Way::Missing, "a::B impl Send for a::B"),
                (Way::Differs, "a::B impl Sync for a::B"),
                (Way::Differs, "a::B::c"),
                (Way::Differs, "a::B::e"),
                (Way::Extra, "a::B #[must_use]"),
                (Way::Extra, "a::New"),
            ]
        );
    }

    #[test]
    fn a_listed_difference_that_is_not_found_is_reported() {
        let mut listed = Listed::parse("missing a::* | later\nextra b | why\n").unwrap();
        let difference = |way, key: &str| Difference {
            way,
            key: key.to_owned(),
            real: String::new(),
            facade: String::new(),
        };
        assert!(listed.covers(&difference(Way::Missing, "a::C")));
        assert!(!listed.covers(&difference(Way::Extra, "a::C")));
        assert_eq!(listed.unused().collect::<Vec<_>>(), ["extra b"]);
        assert!(Listed::parse("missing a").is_err(), "no reason");
    }
}
