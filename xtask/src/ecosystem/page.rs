//! `docs/compatibility.md`: its tables are written here, the text around them by hand.
//!
//! A table stands between the lines `<!-- name -->` and `<!-- end of name -->`.

use std::collections::BTreeMap;
use std::fs;

use super::suites::Comparison;
use super::{Family, Mode, Results, build};
use crate::sh::{self, Context, Outcome, Tally};

const PAGE: &str = "docs/compatibility.md";

/// Writes the table of programs.
pub(super) fn write_programs(families: &[&Family], modes: &[Mode], results: &Results) -> Outcome {
    let versions = locked_versions()?;
    let mut table = String::from("| crates | what the programs do |");
    modes
        .iter()
        .for_each(|mode| table += &format!(" {} |", mode.name()));
    table += "\n|---|---|";
    modes.iter().for_each(|_| table += "---|");
    table += "\n";
    for family in families {
        let name = |name: &&str| match versions.get(*name) {
            Some(version) => format!("{name} {version}"),
            None => (*name).to_owned(),
        };
        let names: Vec<String> = family.crates.iter().map(name).collect();
        table += &format!("| {} | {} |", names.join(", "), family.about);
        for mode in modes {
            table += &format!(" {} |", results[&(family.name, *mode)].text());
        }
        table += "\n";
    }
    replace_table("programs", &table)
}

/// Writes the table of published tests.
pub(super) fn write_suites(comparisons: &[Comparison]) -> Outcome {
    let mut table = String::from("| package | blitzen | real tokio |\n|---|---|---|\n");
    for comparison in comparisons {
        let text = |Tally { passed, failed }: Tally| format!("{passed} passed, {failed} failed");
        let (facade, real) = (comparison.facade.tally, comparison.real.tally);
        let name = format!("{} {}", comparison.package, comparison.version);
        table += &format!("| {name} | {} | {} |\n", text(facade), text(real));
    }
    replace_table("suites", &table)
}

fn replace_table(name: &str, table: &str) -> Outcome {
    let path = sh::root().join(PAGE);
    let page = fs::read_to_string(&path).context(PAGE)?;
    let page = with_table(&page, name, table)
        .ok_or_else(|| format!("{PAGE} has no place for the table `{name}`"))?;
    fs::write(&path, page).context(PAGE)?;
    println!("wrote {PAGE}");
    Ok(())
}

fn with_table(page: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{table}\n{end}{after}"))
}

/// The versions in the lock file of the programs; of two versions the newer.
fn locked_versions() -> Outcome<BTreeMap<String, String>> {
    let path = build::programs().join("Cargo.lock");
    let lock = fs::read_to_string(&path).context(path.display())?;
    let value = |line: &str, key: &str| {
        let value = line.strip_prefix(key)?.strip_prefix(" = \"")?;
        Some(value.strip_suffix('"')?.to_owned())
    };
    let mut versions = BTreeMap::new();
    let mut name = None;
    // The lock file is sorted by name and version.
    for line in lock.lines() {
        name = value(line, "name").or(name);
        if let (Some(name), Some(version)) = (&name, value(line, "version")) {
            versions.insert(name.clone(), version);
        }
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_replaced_and_the_text_around_it_stays() {
        let page = "text\n<!-- a -->\nold\n<!-- end of a -->\nmore\n";
        let expected = "text\n<!-- a -->\n\nnew\n\n<!-- end of a -->\nmore\n";
        assert_eq!(with_table(page, "a", "new\n").unwrap(), expected);
        assert_eq!(with_table(page, "b", "new\n"), None);
    }

    #[test]
    fn the_page_has_a_place_for_each_table() {
        let page = fs::read_to_string(sh::root().join(PAGE)).unwrap();
        assert!(with_table(&page, "programs", "").is_some());
        assert!(with_table(&page, "suites", "").is_some());
    }
}
