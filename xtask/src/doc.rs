//! Documentation: it builds without warnings, and every public item has an example.
//!
//! An item counts if users can name it through `blitzen`: a struct, enum, union, trait,
//! function, method, constant, type alias or macro. Modules, fields, variants, associated
//! types, the methods of trait impls and what is deprecated need none of their own. rustdoc's JSON
//! output says what exists; [`Walk`] follows the re-exports from `blitzen`'s root through the
//! crates behind it. Only what compiles on this platform is seen.
//!
//! An example is a code block that `cargo test` compiles, so a block marked `text` or `ignore`
//! is none. Nor is one that names a crate behind `blitzen`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde_json::Value;

use crate::sh::{self, Context, Failure, Outcome, Tally};

/// rustdoc describes every item, so that private modules on the way to a re-exported item
/// can be followed; [`Walk`] looks at visibility itself.
const JSON_FLAGS: &str = "-Zunstable-options --output-format=json \
    --document-private-items --document-hidden-items --cap-lints=allow";

/// `--missing [filter]` only lists the items without an example, those with `filter` in their
/// file's or their own path.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    if let Some(position) = args.iter().position(|arg| arg == "--missing") {
        let filter = args.get(position + 1).map_or("", String::as_str);
        let survey = survey()?;
        let chosen = |item: &&Missing| item.file.contains(filter) || item.path.contains(filter);
        let missing: Vec<&Missing> = survey.missing.iter().filter(chosen).collect();
        print_by_file(&missing);
        println!("{} items without an example", missing.len());
        return Ok(Tally::default());
    }
    build()?;
    let survey = survey()?;
    let found = survey.missing.len();
    println!(
        "{} of {} public items have an example",
        survey.items - found,
        survey.items
    );
    let tally = Tally {
        passed: survey.items - found,
        failed: found,
    };
    if tally.failed > 0 {
        print_by_file(&survey.missing.iter().collect::<Vec<_>>());
        return Err(Failure {
            why: format!("{found} items are without an example"),
            tally,
        });
    }
    Ok(tally)
}

/// Builds the pages; a broken link or a missing comment is an error.
fn build() -> Outcome {
    let mut command = sh::cargo();
    command
        .args(["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings");
    sh::run(&mut command)
}

/// An item without an example.
struct Missing {
    file: String,
    line: u64,
    /// How users name it.
    path: String,
}

struct Survey {
    /// How many items there are in all.
    items: usize,
    /// By file and line.
    missing: Vec<Missing>,
}

fn print_by_file(missing: &[&Missing]) {
    let mut file = "";
    for item in missing {
        if item.file != file {
            file = &item.file;
            println!("{file}");
        }
        println!("{:>6}  {}", item.line, item.path);
    }
}

/// Finds the items that users reach through `blitzen`, and those without an example.
fn survey() -> Outcome<Survey> {
    let mut walk = Walk {
        crates: describe()?,
        seen: BTreeSet::new(),
        found: Vec::new(),
        queue: VecDeque::new(),
    };
    walk.run()?;
    let items = walk.found.len();
    let mut missing: Vec<Missing> = walk
        .found
        .into_iter()
        .filter(|item| !item.has_example)
        .map(|item| item.named)
        .collect();
    missing.sort_by(|a, b| (&a.file, a.line, &a.path).cmp(&(&b.file, b.line, &b.path)));
    Ok(Survey { items, missing })
}

/// rustdoc's description of one crate.
struct Crate {
    index: HashMap<String, Value>,
    /// Where items of other crates are defined.
    paths: HashMap<String, Value>,
    root: String,
    /// Ids by the path of the definition, `blitzen_sync::mutex::Mutex`.
    by_path: HashMap<String, String>,
}

/// Runs rustdoc over the library crates and reads what it says.
fn describe() -> Outcome<BTreeMap<String, Crate>> {
    let target = sh::target().join("doc-json");
    let mut command = sh::cargo();
    command
        .args(["doc", "--quiet", "--no-deps", "--all-features"])
        // Stable's rustdoc writes the same format everywhere.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTDOCFLAGS", JSON_FLAGS)
        .env("CARGO_TARGET_DIR", &target);
    let packages = sh::library_packages()?;
    for package in &packages {
        command.args(["-p", &package.name]);
    }
    sh::run(&mut command)?;
    let mut crates = BTreeMap::new();
    for package in packages {
        let name = package.name.replace('-', "_");
        let file = target.join("doc").join(format!("{name}.json"));
        let text = std::fs::read_to_string(&file).context(file.display())?;
        let described = Crate::read(&name, &text).context(file.display())?;
        crates.insert(name, described);
    }
    Ok(crates)
}

impl Crate {
    fn read(name: &str, text: &str) -> Result<Self, String> {
        let mut json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut map = |key: &str| match json[key].take() {
            Value::Object(map) => Ok(map.into_iter().collect()),
            _ => Err(format!("rustdoc's output has no `{key}`")),
        };
        let (index, paths) = (map("index")?, map("paths")?);
        let mut this = Self {
            index,
            paths,
            root: json["root"].to_string(),
            by_path: HashMap::new(),
        };
        this.enter(name.to_owned(), this.root.clone());
        Ok(this)
    }

    /// Fills `by_path` with a module and what it defines.
    fn enter(&mut self, path: String, id: String) {
        let mut children = Vec::new();
        if let Some(item) = self.index.get(&id) {
            for child in ids(&item["inner"]["module"]["items"]) {
                if let Some(name) = self
                    .index
                    .get(&child)
                    .and_then(|item| item["name"].as_str())
                {
                    children.push((format!("{path}::{name}"), child));
                }
            }
        }
        for (path, id) in children {
            self.enter(path, id);
        }
        self.by_path.insert(path, id);
    }
}

/// An item that users can name.
struct Found {
    named: Missing,
    has_example: bool,
}

/// A walk over everything that users can name, from `blitzen`'s root.
struct Walk {
    crates: BTreeMap<String, Crate>,
    /// Crate and id of what has been visited.
    seen: BTreeSet<(String, String)>,
    found: Vec<Found>,
    queue: VecDeque<Visit>,
}

/// An item to look at.
struct Visit {
    krate: String,
    id: String,
    /// How users name it.
    path: String,
    /// Whether a re-export on the way carries an example.
    has_example: bool,
}

impl Walk {
    /// Breadth first, so that an item is listed under its shortest path.
    fn run(&mut self) -> Outcome {
        let root = self
            .crates
            .get("blitzen")
            .ok_or("there is no crate `blitzen`")?;
        self.queue.push_back(Visit {
            krate: "blitzen".to_owned(),
            id: root.root.clone(),
            path: "blitzen".to_owned(),
            has_example: false,
        });
        while let Some(visit) = self.queue.pop_front() {
            if self.seen.insert((visit.krate.clone(), visit.id.clone())) {
                self.visit(&visit);
            }
        }
        if self.found.is_empty() {
            return Err("rustdoc describes no public item".into());
        }
        Ok(())
    }

    fn visit(&mut self, visit: &Visit) {
        let Some(item) = self.crates[&visit.krate].index.get(&visit.id).cloned() else {
            return;
        };
        let inner = &item["inner"];
        if inner.get("module").is_some() {
            for id in ids(&inner["module"]["items"]) {
                self.queue_member(visit, &id);
            }
            return;
        }
        let counted = [
            "struct",
            "enum",
            "union",
            "trait",
            "function",
            "constant",
            "static",
            "type_alias",
            "macro",
            "proc_macro",
        ];
        if counted.iter().any(|kind| inner.get(kind).is_some()) {
            self.count(&item, visit.path.clone(), visit.has_example);
        }
        for id in ids(&inner["trait"]["items"]) {
            self.count_method(visit, &id, "default");
        }
        for kind in ["struct", "enum", "union"] {
            for id in ids(&inner[kind]["impls"]) {
                let block = &self.crates[&visit.krate].index.get(&id);
                let methods = match block.map(|item| &item["inner"]["impl"]) {
                    Some(block) if block["trait"].is_null() => ids(&block["items"]),
                    _ => continue,
                };
                for id in methods {
                    self.count_method(visit, &id, "public");
                }
            }
        }
    }

    /// Queues a module's member for a visit: if it is a re-export, what it stands for.
    fn queue_member(&mut self, module: &Visit, id: &str) {
        let krate = &self.crates[&module.krate];
        let Some(item) = krate.index.get(id) else {
            return;
        };
        if item["visibility"] != "public" || is_hidden(item) {
            return;
        }
        let Some(import) = item["inner"].get("use") else {
            let name = item["name"].as_str().unwrap_or_default();
            self.queue.push_back(Visit {
                krate: module.krate.clone(),
                id: id.to_owned(),
                path: format!("{}::{name}", module.path),
                has_example: false,
            });
            return;
        };
        let target = import["id"].to_string();
        let Some((krate, id)) = self.resolve(&module.krate, target) else {
            return;
        };
        let path = match import["is_glob"] == true {
            true => module.path.clone(),
            false => format!(
                "{}::{}",
                module.path,
                import["name"].as_str().unwrap_or_default()
            ),
        };
        self.queue.push_back(Visit {
            krate,
            id,
            path,
            has_example: has_example(item["docs"].as_str().unwrap_or_default()),
        });
    }

    /// Crate and id of the definition behind an id; `None` for one of a foreign crate.
    fn resolve(&self, krate: &str, id: String) -> Option<(String, String)> {
        let here = &self.crates[krate];
        if here.index.contains_key(&id) {
            return Some((krate.to_owned(), id));
        }
        let segments = here.paths.get(&id)?["path"].as_array()?;
        let segments: Vec<&str> = segments.iter().filter_map(Value::as_str).collect();
        let there = self.crates.get(*segments.first()?)?;
        let id = there.by_path.get(&segments.join("::"))?;
        Some((segments[0].to_owned(), id.clone()))
    }

    /// Counts a method or an associated constant.
    fn count_method(&mut self, owner: &Visit, id: &str, visibility: &str) {
        let Some(item) = self.crates[&owner.krate].index.get(id).cloned() else {
            return;
        };
        let inner = &item["inner"];
        let is_counted = inner.get("function").is_some() || inner.get("assoc_const").is_some();
        if is_counted && item["visibility"] == visibility {
            let name = item["name"].as_str().unwrap_or_default();
            self.count(&item, format!("{}::{name}", owner.path), false);
        }
    }

    fn count(&mut self, item: &Value, path: String, re_export_has_example: bool) {
        if is_hidden(item) || !item["deprecation"].is_null() {
            return;
        }
        let docs = item["docs"].as_str().unwrap_or_default();
        let span = &item["span"];
        self.found.push(Found {
            has_example: re_export_has_example || has_example(docs),
            named: Missing {
                file: span["filename"].as_str().unwrap_or_default().to_owned(),
                line: span["begin"][0].as_u64().unwrap_or_default(),
                path,
            },
        });
    }
}

fn ids(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(Value::to_string).collect()
}

fn is_hidden(item: &Value) -> bool {
    let attributes = item["attrs"].as_array().into_iter().flatten();
    attributes
        .map(Value::to_string)
        .any(|text| text.contains("doc(hidden)"))
}

/// Whether a doc comment has a code block that `cargo test` compiles and that users could
/// write: without the crates behind `blitzen`, which they do not depend on.
fn has_example(docs: &str) -> bool {
    let mut lines = docs.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let is_end = |line: &&str| line.trim_start().starts_with("```");
        let block = lines.by_ref().take_while(|line| !is_end(line));
        let names_inner_crate = block.fold(false, |found, line| found | line.contains("blitzen_"));
        if is_compiled(info) && !names_inner_crate {
            return true;
        }
    }
    false
}

/// Whether rustdoc compiles a block with this info string.
fn is_compiled(info: &str) -> bool {
    info.split([',', ' '])
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .all(|word| {
            matches!(word, "rust" | "no_run" | "should_panic" | "compile_fail")
                || word.starts_with("edition")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_block_that_is_compiled_is_an_example() {
        assert!(has_example("Waits.\n\n```\nwait();\n```"));
        assert!(has_example("```no_run\nserve();\n```"));
        assert!(has_example("```text\na ─ b\n```\n\n```\nwait();\n```"));
        assert!(!has_example("Waits."));
        assert!(!has_example("```text\na ─ b\n```"));
        assert!(!has_example("```ignore\nwait();\n```"));
        assert!(!has_example("```toml\na = 1\n```"));
        assert!(!has_example("```\nuse blitzen_sync::Mutex;\n```"));
    }
}
