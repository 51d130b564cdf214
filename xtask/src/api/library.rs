//! The public surface of a package, read from rustdoc's JSON of all crates it re-exports.
//!
//! rustdoc shows a re-export only as a path into another crate. So the crates are joined by the
//! paths of their definitions, and every definition gets the public paths under which a user of
//! the package finds it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde_json::Value;

use crate::sh::{Context, Outcome};

/// One crate as rustdoc describes it.
struct DocCrate(Value);

/// A definition: the number of its crate, and its id there.
pub(super) type Def = (usize, String);

/// The crates of a package, and the public paths of what they define.
pub(super) struct Library {
    crates: Vec<DocCrate>,
    /// Definitions by kind and path.
    defs: HashMap<String, Def>,
    /// The shortest public path of each definition.
    public: HashMap<Def, String>,
    /// Every public path, with what it names.
    pub(super) names: BTreeMap<String, Named>,
    /// The implementations for each definition, and those of each trait for other types.
    impls: HashMap<Def, Vec<Def>>,
}

/// What a public path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Def(Def),
    /// Something of a crate that is not part of the package: its kind and path.
    Foreign(String),
}

impl Library {
    /// Reads the crates in `files`. The first one is the package itself.
    pub(super) fn read(files: &[impl AsRef<Path>]) -> Outcome<Self> {
        let mut crates = Vec::new();
        for file in files {
            let file = file.as_ref();
            let text = std::fs::read_to_string(file).context(file.display())?;
            crates.push(DocCrate(
                serde_json::from_str(&text).context(file.display())?,
            ));
        }
        let mut library = Self {
            crates,
            defs: HashMap::new(),
            public: HashMap::new(),
            names: BTreeMap::new(),
            impls: HashMap::new(),
        };
        library.index_definitions();
        let root = (0, library.crates[0].0["root"].to_string());
        library.walk(&root, "", &mut BTreeSet::new());
        library.choose_public_paths();
        library.index_impls();
        Ok(library)
    }

    fn index_definitions(&mut self) {
        for (number, doc) in self.crates.iter().enumerate() {
            let Some(paths) = doc.0["paths"].as_object() else {
                continue;
            };
            for (id, summary) in paths {
                if summary["crate_id"] == 0 && doc.0["index"].get(id).is_some() {
                    self.defs
                        .insert(kind_and_path(summary), (number, id.clone()));
                }
            }
        }
    }

    /// The item of a definition.
    pub(super) fn item(&self, def: &Def) -> &Value {
        &self.crates[def.0].0["index"][&def.1]
    }

    /// What the id `id`, as crate `number` uses it, refers to.
    pub(super) fn resolve(&self, number: usize, id: &Value) -> Named {
        let id = id.to_string();
        let doc = &self.crates[number].0;
        if doc["index"].get(&id).is_some() {
            return Named::Def((number, id));
        }
        let summary = &doc["paths"][&id];
        let path = kind_and_path(summary);
        match self.defs.get(&path) {
            Some(def) => Named::Def(def.clone()),
            None => Named::Foreign(path),
        }
    }

    /// Enters the public items of a module under `prefix`.
    fn walk(&mut self, module: &Def, prefix: &str, open: &mut BTreeSet<Def>) {
        if !open.insert(module.clone()) {
            return;
        }
        let items = self.item(module)["inner"]["module"]["items"].clone();
        for id in items.as_array().into_iter().flatten() {
            let def = (module.0, id.to_string());
            let item = self.item(&def).clone();
            if item["visibility"] != "public" {
                continue;
            }
            let used = &item["inner"]["use"];
            let (named, name) = match used.is_null() {
                true => (Named::Def(def), item["name"].as_str().unwrap_or_default()),
                false => (
                    self.resolve(module.0, &used["id"]),
                    used["name"].as_str().unwrap_or_default(),
                ),
            };
            if used["is_glob"] == true {
                if let Named::Def(target) = named {
                    self.walk(&target, prefix, open);
                }
                continue;
            }
            let path = match prefix {
                "" => name.to_owned(),
                _ => format!("{prefix}::{name}"),
            };
            if let Named::Def(target) = &named
                && kind(self.item(target)) == "module"
            {
                let target = target.clone();
                self.names
                    .insert(format!("{path} module"), Named::Foreign("module".into()));
                self.walk(&target, &path, open);
                continue;
            }
            let kind = match &named {
                Named::Def(target) => kind(self.item(target)).to_owned(),
                Named::Foreign(path) => path.split(' ').next().unwrap_or_default().to_owned(),
            };
            // A function, a type and a macro may share a path.
            let key = match kind.as_str() {
                "function" => format!("{path} fn"),
                "macro" | "proc_macro" | "proc_attribute" => format!("{path} macro"),
                _ => path,
            };
            self.names.insert(key, named);
        }
        open.remove(module);
    }

    fn choose_public_paths(&mut self) {
        for (path, named) in &self.names {
            let Named::Def(def) = named else { continue };
            let rank = |path: &str| (path.matches("::").count(), path.to_owned());
            let chosen = self
                .public
                .entry(def.clone())
                .or_insert_with(|| path.clone());
            if rank(path) < rank(chosen) {
                *chosen = path.clone();
            }
        }
    }

    /// The public path that stands for a definition, if it has one.
    pub(super) fn public_path(&self, def: &Def) -> Option<&str> {
        self.public.get(def).map(String::as_str)
    }

    fn index_impls(&mut self) {
        let mut impls: HashMap<Def, Vec<Def>> = HashMap::new();
        for (number, doc) in self.crates.iter().enumerate() {
            for (id, item) in doc.0["index"].as_object().into_iter().flatten() {
                let block = &item["inner"]["impl"];
                if block.is_null() || !block["blanket_impl"].is_null() {
                    continue;
                }
                let def = (number, id.clone());
                let mut ty = &block["for"];
                while let Some(target) = ty["borrowed_ref"].get("type") {
                    ty = target;
                }
                let head = match ty["resolved_path"].get("id") {
                    Some(id) => self.resolve(number, id),
                    None => Named::Foreign(String::new()),
                };
                let owner = match (head, block["trait"].get("id")) {
                    (Named::Def(head), _) => Some(head),
                    (_, Some(id)) => match self.resolve(number, id) {
                        Named::Def(implemented) => Some(implemented),
                        Named::Foreign(_) => None,
                    },
                    _ => None,
                };
                if let Some(owner) = owner {
                    impls.entry(owner).or_default().push(def);
                }
            }
        }
        self.impls = impls;
    }

    /// The implementations for a type, or those of a trait for types of other crates.
    pub(super) fn impls(&self, def: &Def) -> &[Def] {
        self.impls.get(def).map_or(&[], Vec::as_slice)
    }
}

/// The kind of an item, as rustdoc names it.
pub(super) fn kind(item: &Value) -> &str {
    let inner = item["inner"].as_object();
    inner
        .and_then(|inner| inner.keys().next())
        .map_or("", String::as_str)
}

fn kind_and_path(summary: &Value) -> String {
    let path: Vec<&str> = summary["path"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    format!(
        "{} {}",
        summary["kind"].as_str().unwrap_or_default(),
        path.join("::")
    )
}
