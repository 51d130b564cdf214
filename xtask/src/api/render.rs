//! Types, bounds and signatures as text that is the same for two packages if a user cannot tell
//! them apart.
//!
//! N1. A definition is named by its public path, whatever crate it is in.
//! N2. Generic parameters are numbered, and arguments have no names.
//! N3. Lifetimes are left out, except `'static`.
//! N4. An `async fn`, a function that returns `impl Future`, and one that returns a future
//!     whose type has no public path, are the same.
//! N5. Bounds are predicates in alphabetical order, wherever they are written.

use std::collections::BTreeSet;

use serde_json::Value;

use super::library::{Def, Library, Named, kind};

/// Renders the parts of one item.
pub(super) struct Renderer<'a> {
    library: &'a Library,
    /// The crate whose ids it resolves.
    number: usize,
    /// What `Self` stands for, unless it is a parameter.
    self_type: Option<String>,
}

/// Marks the name of a generic parameter until it is numbered.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

/// A bound that nothing meets.
pub(super) const NEVER: &str = "never";

impl<'a> Renderer<'a> {
    pub(super) fn new(library: &'a Library, number: usize) -> Self {
        Self {
            library,
            number,
            self_type: None,
        }
    }

    pub(super) fn with_self(mut self, self_type: String) -> Self {
        self.self_type = Some(self_type);
        self
    }

    pub(super) fn ty(&self, ty: &Value) -> String {
        let Some((kind, inner)) = ty.as_object().and_then(|object| object.iter().next()) else {
            return "_".to_owned();
        };
        match kind.as_str() {
            "resolved_path" => self.path(inner),
            "generic" => match (inner.as_str(), &self.self_type) {
                (Some("Self"), Some(self_type)) => self_type.clone(),
                (Some("Self"), None) => "Self".to_owned(),
                (name, _) => format!("{OPEN}{}{CLOSE}", name.unwrap_or_default()),
            },
            "primitive" => match inner.as_str().unwrap_or_default() {
                "unit" => "()".to_owned(),
                name => name.to_owned(),
            },
            "tuple" => format!("({})", self.list(inner, |ty| self.ty(ty))),
            "slice" => format!("[{}]", self.ty(inner)),
            "array" => format!("[{}; {}]", self.ty(&inner["type"]), text(&inner["len"])),
            "borrowed_ref" => format!(
                "&{}{}{}",
                is_static(&inner["lifetime"]),
                if inner["is_mutable"] == true {
                    "mut "
                } else {
                    ""
                },
                self.ty(&inner["type"])
            ),
            "raw_pointer" => format!(
                "*{} {}",
                if inner["is_mutable"] == true {
                    "mut"
                } else {
                    "const"
                },
                self.ty(&inner["type"])
            ),
            "impl_trait" => match self.output_of_future(inner) {
                Some(output) => format!("future({output})"),
                None => format!("impl {}", self.bounds(inner).join(" + ")),
            },
            "dyn_trait" => {
                let traits = inner["traits"].as_array().into_iter().flatten();
                let mut parts: Vec<String> = traits.map(|each| self.path(&each["trait"])).collect();
                if inner["lifetime"] == "'static" {
                    parts.push("'static".to_owned());
                }
                format!("dyn {}", parts.join(" + "))
            }
            "qualified_path" => {
                let implemented = match inner["trait"].get("id") {
                    Some(_) => format!(" as {}", self.path(&inner["trait"])),
                    None => String::new(),
                };
                format!(
                    "<{}{implemented}>::{}{}",
                    self.ty(&inner["self_type"]),
                    text(&inner["name"]),
                    self.args(&inner["args"])
                )
            }
            "function_pointer" => format!("fn{}", self.signature(&inner["sig"], false)),
            _ => ty.to_string(),
        }
    }

    /// A path with its arguments.
    pub(super) fn path(&self, path: &Value) -> String {
        let args = self.args(&path["args"]);
        let foreign = |name: &str| {
            let path = name.rsplit(' ').next().unwrap_or_default().to_owned();
            match (path.as_str(), args.strip_suffix('>')) {
                // std's alias of `Result`.
                ("std::io::error::Result", Some(args)) => {
                    format!("core::result::Result{args}, std::io::error::Error>")
                }
                _ => format!("{path}{args}"),
            }
        };
        match self.library.resolve(self.number, &path["id"]) {
            Named::Foreign(name) => foreign(&name),
            Named::Def(def) => match self.library.public_path(&def) {
                Some(public) => format!("{public}{args}"),
                None => self.unnameable(&def, &path["args"]),
            },
        }
    }

    /// A definition without a public path.
    fn unnameable(&self, def: &Def, args: &Value) -> String {
        let item = self.library.item(def);
        if kind(item) == "type_alias" {
            let renderer = Renderer::new(self.library, def.0);
            return renderer.ty(&item["inner"]["type_alias"]["type"]);
        }
        for block in self.library.impls(def) {
            let renderer = Renderer::new(self.library, block.0);
            let block = &self.library.item(block)["inner"]["impl"];
            // Only the name: its arguments may contain the type itself.
            if text(&block["trait"]["path"]).rsplit("::").next() != Some("Future") {
                continue;
            }
            let Some(output) = renderer.associated_types(block).into_iter().next() else {
                continue;
            };
            let mut output = output.split_once(" = ").map_or("", |(_, ty)| ty).to_owned();
            // The parameters of the implementation are the arguments of the path.
            let parameters = type_args(&block["for"]["resolved_path"]["args"]);
            for (parameter, arg) in parameters.into_iter().zip(type_args(args)) {
                output = output.replace(&renderer.ty(parameter), &self.ty(arg));
            }
            let quiet = if must_use(item) { "" } else { "quiet " };
            return format!("{quiet}future({output})");
        }
        "{unnameable}".to_owned()
    }

    /// The associated types of an implementation: `Name = Type`.
    pub(super) fn associated_types(&self, block: &Value) -> Vec<String> {
        let items = block["items"].as_array().into_iter().flatten();
        let mut types: Vec<String> = items
            .filter_map(|id| {
                let item = self.library.item(&(self.number, id.to_string()));
                let ty = item["inner"].get("assoc_type")?;
                Some(format!(
                    "{} = {}",
                    text(&item["name"]),
                    self.ty(&ty["type"])
                ))
            })
            .collect();
        types.sort();
        types
    }

    fn args(&self, args: &Value) -> String {
        if let Some(call) = args.get("parenthesized") {
            let output = match call["output"].is_null() {
                true => String::new(),
                false => format!(" -> {}", self.ty(&call["output"])),
            };
            return format!("({}){output}", self.list(&call["inputs"], |ty| self.ty(ty)));
        }
        let Some(args) = args.get("angle_bracketed") else {
            return String::new();
        };
        let mut parts = Vec::new();
        for arg in args["args"].as_array().into_iter().flatten() {
            if let Some(ty) = arg.get("type") {
                parts.push(self.ty(ty));
            } else if let Some(value) = arg.get("const") {
                parts.push(text(&value["expr"]));
            } else if arg["lifetime"] == "'static" {
                parts.push("'static".to_owned());
            }
        }
        for constraint in args["constraints"].as_array().into_iter().flatten() {
            let name = text(&constraint["name"]);
            let equal = &constraint["binding"]["equality"]["type"];
            parts.push(match equal.is_null() {
                false => format!("{name} = {}", self.ty(equal)),
                true => format!(
                    "{name}: {}",
                    self.bounds(&constraint["binding"]["constraint"])
                        .join(" + ")
                ),
            });
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!("<{}>", parts.join(", ")),
        }
    }

    /// Bounds in order, without lifetimes.
    pub(super) fn bounds(&self, bounds: &Value) -> Vec<String> {
        let mut rendered: Vec<String> = bounds
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|bound| {
                if let Some(bound) = bound.get("trait_bound") {
                    let maybe = if bound["modifier"] == "maybe" {
                        "?"
                    } else {
                        ""
                    };
                    return Some(format!("{maybe}{}", self.path(&bound["trait"])));
                }
                (bound["outlives"] == "'static").then(|| "'static".to_owned())
            })
            .collect();
        rendered.sort();
        rendered.dedup();
        rendered
    }

    /// The output, if the bounds are those of a future.
    fn output_of_future(&self, bounds: &Value) -> Option<String> {
        let rendered = self.bounds(bounds);
        let future = rendered
            .iter()
            .find_map(|bound| bound.strip_prefix("core::future::future::Future<Output = "))?;
        Some(future.strip_suffix('>')?.to_owned())
    }

    fn list(&self, values: &Value, render: impl Fn(&Value) -> String) -> String {
        let values = values.as_array().into_iter().flatten();
        values.map(render).collect::<Vec<_>>().join(", ")
    }

    /// `(A, B) -> C`.
    fn signature(&self, sig: &Value, is_async: bool) -> String {
        let inputs = self.list(&sig["inputs"], |input| self.ty(&input[1]));
        let output = match sig["output"].is_null() {
            true => "()".to_owned(),
            false => self.ty(&sig["output"]),
        };
        let output = match is_async {
            true => format!("future({output})"),
            false => output,
        };
        format!("({inputs}) -> {output}")
    }

    /// A function: qualifiers, parameters, signature. Its bounds are left to
    /// [`predicates`](Self::predicates).
    pub(super) fn function(&self, function: &Value) -> String {
        let header = &function["header"];
        let mut rendered = String::new();
        for (flag, word) in [("is_const", "const "), ("is_unsafe", "unsafe ")] {
            if header[flag] == true {
                rendered += word;
            }
        }
        rendered += "fn";
        rendered += &self.parameters(&function["generics"]);
        rendered += &self.signature(&function["sig"], header["is_async"] == true);
        rendered
    }

    /// `<A, B = Default, const N: usize>`, without lifetimes and `impl Trait`.
    pub(super) fn parameters(&self, generics: &Value) -> String {
        let mut rendered = Vec::new();
        for parameter in generics["params"].as_array().into_iter().flatten() {
            let name = text(&parameter["name"]);
            if let Some(ty) = parameter["kind"].get("type") {
                if ty["is_synthetic"] == true {
                    continue;
                }
                let default = match ty["default"].is_null() {
                    true => String::new(),
                    false => format!(" = {}", self.ty(&ty["default"])),
                };
                rendered.push(format!("{OPEN}{name}{CLOSE}{default}"));
            } else if let Some(value) = parameter["kind"].get("const") {
                rendered.push(format!("const {name}: {}", self.ty(&value["type"])));
            }
        }
        match rendered.is_empty() {
            true => String::new(),
            false => format!("<{}>", rendered.join(", ")),
        }
    }

    /// N5: every bound of the generics, as `T: Bound`.
    pub(super) fn predicates(&self, generics: &Value) -> BTreeSet<String> {
        let mut rendered = BTreeSet::new();
        let each = |subject: &str, bounds: &Value| -> Vec<String> {
            let bounds = self.bounds(bounds).into_iter();
            bounds.map(|bound| format!("{subject}: {bound}")).collect()
        };
        for parameter in generics["params"].as_array().into_iter().flatten() {
            let Some(ty) = parameter["kind"].get("type") else {
                continue;
            };
            if ty["is_synthetic"] != true {
                let name = text(&parameter["name"]);
                rendered.extend(each(&format!("{OPEN}{name}{CLOSE}"), &ty["bounds"]));
            }
        }
        for predicate in generics["where_predicates"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let Some(bound) = predicate.get("bound_predicate") else {
                continue;
            };
            match self.pinned_fields(&bound["type"]) {
                Some(fields) => rendered.extend(fields),
                None => rendered.extend(each(&self.ty(&bound["type"]), &bound["bounds"])),
            }
        }
        // `pin_project!` has a bound on this type for what is never `Unpin`.
        if rendered.iter().any(|bound| bound.contains("PhantomPinned")) {
            return BTreeSet::from([NEVER.to_owned()]);
        }
        rendered
    }

    /// What `pin_project!` asks of the pinned fields: the bounds under which the type that it
    /// makes of them is `Unpin`.
    fn pinned_fields(&self, ty: &Value) -> Option<BTreeSet<String>> {
        let path = &ty["resolved_path"];
        if !path["path"].as_str()?.ends_with("PinnedFieldsOf") {
            return None;
        }
        let origin = type_args(&path["args"]).into_iter().next()?;
        let origin = &origin["resolved_path"]["id"];
        let Named::Def(origin) = self.library.resolve(self.number, origin) else {
            return Some(BTreeSet::from([NEVER.to_owned()]));
        };
        let unpin = self.library.impls(&origin).iter().find_map(|block| {
            let renderer = Renderer::new(self.library, block.0);
            let block = &self.library.item(block)["inner"]["impl"];
            let is_unpin = block["trait"]["path"] == "Unpin" && block["is_negative"] != true;
            is_unpin.then(|| renderer.predicates(&block["generics"]))
        });
        Some(unpin.unwrap_or_else(|| BTreeSet::from([NEVER.to_owned()])))
    }
}

/// Whether an item carries `#[must_use]`.
pub(super) fn must_use(item: &Value) -> bool {
    has_attribute(item, "must_use")
}

/// Whether an item carries an attribute that rustdoc has a name for.
pub(super) fn has_attribute(item: &Value, name: &str) -> bool {
    let attributes = item["attrs"].as_array().into_iter().flatten();
    attributes
        .into_iter()
        .any(|attribute| attribute == name || attribute.get(name).is_some())
}

/// Numbers the generic parameters of all `parts` in the order in which they appear (N2).
pub(super) fn number_parameters<const N: usize>(parts: [String; N]) -> [String; N] {
    let mut names: Vec<String> = Vec::new();
    parts.map(|part| {
        let mut numbered = String::new();
        let mut rest = part.as_str();
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (name, after) = after.split_once(CLOSE).unwrap_or((after, ""));
            let number = names
                .iter()
                .position(|known| known == name)
                .unwrap_or_else(|| {
                    names.push(name.to_owned());
                    names.len() - 1
                });
            numbered += &format!("{before}T{number}");
            rest = after;
        }
        numbered + rest
    })
}

/// The types among generic arguments.
fn type_args(args: &Value) -> Vec<&Value> {
    let args = args["angle_bracketed"]["args"].as_array();
    args.into_iter()
        .flatten()
        .filter_map(|arg| arg.get("type"))
        .collect()
}

pub(super) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn is_static(lifetime: &Value) -> &'static str {
    if lifetime == "'static" {
        "'static "
    } else {
        ""
    }
}
