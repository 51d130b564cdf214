//! The facts about a package's surface that its users can rely on.
//!
//! A fact has a key, which starts with a public path, and a value. Two packages are compared
//! key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::library::{Def, Library, Named, kind};
use super::render::{NEVER, Renderer, has_attribute, number_parameters, text};

/// Facts by key.
pub(super) type Surface = BTreeMap<String, Fact>;

/// One thing that a user can rely on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) value: String,
    /// The bounds under which it holds: `T0: Bound`.
    pub(super) bounds: BTreeSet<String>,
    pub(super) sort: Sort,
}

/// Whether the façade may offer more than tokio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// No: more would change what programs mean, or make the compiler refuse or warn.
    Exact,
    /// Yes: a method or an implementation that tokio does not have, or one with fewer bounds,
    /// breaks no program.
    AtLeast,
}

/// The value of an auto trait that is not implemented.
const NOT_IMPLEMENTED: &str = "no";

impl Fact {
    /// Whether every program that relies on `self` can rely on `offered`.
    pub(super) fn is_met_by(&self, offered: &Self) -> bool {
        if self.sort == Sort::Exact || offered.sort == Sort::Exact {
            return self.value == offered.value && self.bounds == offered.bounds;
        }
        if self.value == NOT_IMPLEMENTED {
            return true;
        }
        let (wanted_relaxed, wanted) = split_relaxed(&self.bounds);
        let (offered_relaxed, offered_bounds) = split_relaxed(&offered.bounds);
        self.value == offered.value
            && offered_bounds.is_subset(&wanted)
            && wanted_relaxed.is_subset(&offered_relaxed)
    }
}

/// Separates `T: ?Sized`, which allows more, from bounds that ask for something.
fn split_relaxed(bounds: &BTreeSet<String>) -> (BTreeSet<&String>, BTreeSet<&String>) {
    bounds.iter().partition(|bound| bound.contains(": ?"))
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)?;
        let bounds: Vec<&str> = self.bounds.iter().map(String::as_str).collect();
        match bounds.is_empty() {
            true => Ok(()),
            false => write!(f, " where {}", bounds.join(", ")),
        }
    }
}

/// Implementations that users cannot rely on: of unstable traits, and of those that only
/// the compiler looks at.
const IGNORED_TRAITS: [&str; 3] = [
    "core::marker::Freeze",
    "core::marker::UnsafeUnpin",
    "core::marker::StructuralPartialEq",
];

/// Only the names.
pub(super) fn names(library: &Library) -> Surface {
    let fact = |(path, named): (&String, &Named)| {
        let value = match named {
            Named::Def(def) => kind(library.item(def)).to_owned(),
            Named::Foreign(path) => path.split(' ').next().unwrap_or_default().to_owned(),
        };
        (path.clone(), exact(macro_kind(value)))
    };
    library.names.iter().map(fact).collect()
}

/// Everything: signatures, bounds, implementations, fields, variants, attributes.
pub(super) fn details(library: &Library) -> Surface {
    let mut surface = Surface::new();
    for (path, named) in &library.names {
        match named {
            Named::Foreign(target) => {
                let is_macro = path.ends_with(" macro");
                let value = match is_macro {
                    true => macro_kind(target.split(' ').next().unwrap_or_default().to_owned()),
                    false => target.clone(),
                };
                surface.insert(path.clone(), exact(value));
            }
            Named::Def(def) => match library.public_path(def) {
                Some(chosen) if chosen != path => {
                    surface.insert(path.clone(), exact(format!("= {chosen}")));
                }
                _ => Details {
                    library,
                    surface: &mut surface,
                    path: path.clone(),
                }
                .enter(def),
            },
        }
    }
    surface
}

fn exact(value: impl Into<String>) -> Fact {
    Fact {
        value: value.into(),
        bounds: BTreeSet::new(),
        sort: Sort::Exact,
    }
}

/// A macro by example and one by a procedure are used alike.
fn macro_kind(kind: String) -> String {
    match kind.as_str() {
        "proc_macro" => "macro".to_owned(),
        _ => kind,
    }
}

/// Enters the facts about one item.
struct Details<'a> {
    library: &'a Library,
    surface: &'a mut Surface,
    path: String,
}

impl Details<'_> {
    fn enter(&mut self, def: &Def) {
        let item = self.library.item(def);
        let kind = kind(item).to_owned();
        let inner = &item["inner"][&kind];
        let renderer = Renderer::new(self.library, def.0);
        self.attributes(&self.path.clone(), item);
        match kind.as_str() {
            "function" => {
                let fact = self.function(&renderer, inner, String::new(), BTreeSet::new());
                self.insert("", fact);
            }
            "struct" | "union" | "enum" => self.data(&kind, def, inner, &renderer),
            "trait" => self.interface(def, inner, &renderer),
            "type_alias" | "constant" | "static" => {
                let value = format!("{kind} {}", renderer.ty(&inner["type"]));
                self.insert("", exact(value));
            }
            _ => self.insert("", exact(kind)),
        }
    }

    fn insert(&mut self, suffix: &str, fact: Fact) {
        self.surface.insert(format!("{}{suffix}", self.path), fact);
    }

    fn attributes(&mut self, path: &str, item: &Value) {
        let mut enter = |name: &str| {
            self.surface
                .insert(format!("{path} #[{name}]"), exact("present"));
        };
        for name in ["must_use", "non_exhaustive"] {
            if has_attribute(item, name) {
                enter(name);
            }
        }
        if !item["deprecation"].is_null() {
            enter("deprecated");
        }
        let others = item["attrs"].as_array().into_iter().flatten();
        let mut others = others.filter_map(|attribute| attribute["other"].as_str());
        if others.any(|attribute| attribute.contains("TrackCaller")) {
            // It only changes the location that a panic names.
            let sort = Sort::AtLeast;
            let fact = Fact {
                sort,
                ..exact("present")
            };
            self.surface.insert(format!("{path} #[track_caller]"), fact);
        }
    }

    fn data(&mut self, kind: &str, def: &Def, inner: &Value, renderer: &Renderer<'_>) {
        let parameters = renderer.parameters(&inner["generics"]);
        let mut fact = with_bounds(
            format!("{kind}{parameters}"),
            renderer.predicates(&inner["generics"]),
        );
        let mut shape = String::new();
        if inner["kind"] == "unit" {
            shape = " unit".to_owned();
        }
        let fields = match inner["kind"]["tuple"].as_array() {
            Some(fields) => fields.clone(),
            None => inner["kind"]["plain"]["fields"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        };
        let mut has_public_field = false;
        for id in &fields {
            let field = self.library.item(&(def.0, id.to_string()));
            if field["visibility"] == "public" {
                has_public_field = true;
                let ty = renderer.ty(&field["inner"]["struct_field"]);
                let [_, ty] = number_parameters([parameters.clone(), ty]);
                self.insert(&format!(".{}", text(&field["name"])), exact(ty));
            }
        }
        // Without private fields a value can be written down, and taken apart.
        let is_open = kind == "struct"
            && !shape.starts_with(" unit")
            && has_public_field
            && fields
                .iter()
                .all(|id| self.library.item(&(def.0, id.to_string()))["visibility"] == "public");
        if is_open {
            shape = " open".to_owned();
        }
        for id in inner["variants"].as_array().into_iter().flatten() {
            let variant = self.library.item(&(def.0, id.to_string()));
            let fields = &variant["inner"]["variant"]["kind"];
            let ids = fields["tuple"]
                .as_array()
                .or_else(|| fields["struct"]["fields"].as_array());
            let types = ids.into_iter().flatten().map(|id| {
                let field = self.library.item(&(def.0, id.to_string()));
                let ty = renderer.ty(&field["inner"]["struct_field"]);
                format!("{}: {ty}", text(&field["name"]))
            });
            let types = types.collect::<Vec<_>>().join(", ");
            let [_, types] = number_parameters([parameters.clone(), types]);
            let name = format!("::{}", text(&variant["name"]));
            self.insert(&name, exact(format!("variant {types}")));
            self.attributes(&format!("{}{name}", self.path), variant);
        }
        fact.value += &shape;
        self.insert("", fact);
        for block in self.library.impls(def) {
            self.implementation(block, has_public_field);
        }
    }

    fn interface(&mut self, def: &Def, inner: &Value, renderer: &Renderer<'_>) {
        let parameters = renderer.parameters(&inner["generics"]);
        let supertraits = renderer.bounds(&inner["bounds"]).join(" + ");
        let fact = with_bounds(
            format!("trait{parameters}: {supertraits}"),
            renderer.predicates(&inner["generics"]),
        );
        self.insert("", fact);
        for id in inner["items"].as_array().into_iter().flatten() {
            let item = self.library.item(&(def.0, id.to_string()));
            let name = format!("::{}", text(&item["name"]));
            let fact = if let Some(function) = item["inner"].get("function") {
                let provided = match function["has_body"] == true {
                    true => "provided ",
                    false => "required ",
                };
                let mut fact =
                    self.function(renderer, function, parameters.clone(), BTreeSet::new());
                fact.value.insert_str(0, provided);
                fact
            } else {
                let bounds = &item["inner"]["assoc_type"]["bounds"];
                exact(format!("item: {}", renderer.bounds(bounds).join(" + ")))
            };
            self.insert(&name, fact);
            self.attributes(&format!("{}{name}", self.path), item);
        }
        for block in self.library.impls(def) {
            self.implementation(block, false);
        }
    }

    /// An `impl` block: the methods of an inherent one, or the fact that a trait is implemented.
    fn implementation(&mut self, block: &Def, has_public_field: bool) {
        let inner = &self.library.item(block)["inner"]["impl"];
        let renderer = Renderer::new(self.library, block.0);
        let for_type = renderer.ty(&inner["for"]);
        let bounds = renderer.predicates(&inner["generics"]);
        if inner["trait"].is_null() {
            let renderer = renderer.with_self(for_type.clone());
            for id in inner["items"].as_array().into_iter().flatten() {
                let item = self.library.item(&(block.0, id.to_string()));
                if item["visibility"] != "public" {
                    continue;
                }
                let name = format!("::{}", text(&item["name"]));
                let fact = match item["inner"].get("function") {
                    Some(function) => {
                        self.function(&renderer, function, for_type.clone(), bounds.clone())
                    }
                    None => exact(format!(
                        "const {}",
                        renderer.ty(&item["inner"]["assoc_const"]["type"])
                    )),
                };
                let sort = Sort::AtLeast;
                self.insert(&name, Fact { sort, ..fact });
                self.attributes(&format!("{}{name}", self.path), item);
            }
            return;
        }
        let implemented = renderer.path(&inner["trait"]);
        let without_args = implemented.split('<').next().unwrap_or_default();
        let is_drop = without_args.ends_with("::Drop");
        if implemented.contains("{unnameable}")
            || IGNORED_TRAITS.contains(&without_args)
            || (is_drop && !has_public_field)
        {
            return;
        }
        let types = renderer.associated_types(inner).join(", ");
        let [for_type, implemented, types, bounds] =
            number_parameters([for_type, implemented, types, join(bounds)]);
        let is_implemented = inner["is_negative"] != true && bounds != NEVER;
        let fact = match (is_implemented, types.as_str()) {
            (false, _) => exact(NOT_IMPLEMENTED),
            (true, "") => with_bounds("yes".to_owned(), lines(&bounds)),
            (true, types) => with_bounds(format!("yes with {types}"), lines(&bounds)),
        };
        let sort = match is_drop {
            true => Sort::Exact,
            false => Sort::AtLeast,
        };
        self.insert(
            &format!(" impl {implemented} for {for_type}"),
            Fact { sort, ..fact },
        );
    }

    /// A function with all its bounds, and those of the block that it is in.
    fn function(
        &self,
        renderer: &Renderer<'_>,
        function: &Value,
        owner: String,
        mut bounds: BTreeSet<String>,
    ) -> Fact {
        bounds.extend(renderer.predicates(&function["generics"]));
        let rendered = renderer.function(function);
        let [_, rendered, bounds] = number_parameters([owner, rendered, join(bounds)]);
        with_bounds(rendered, lines(&bounds))
    }
}

fn join(bounds: BTreeSet<String>) -> String {
    bounds.into_iter().collect::<Vec<_>>().join("\n")
}

fn lines(text: &str) -> BTreeSet<String> {
    let lines = text.split('\n').filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// A fact that holds under bounds.
fn with_bounds(value: String, bounds: BTreeSet<String>) -> Fact {
    let [value, bounds] = number_parameters([value, join(bounds)]);
    let bounds = lines(&bounds);
    Fact {
        bounds,
        ..exact(value)
    }
}
