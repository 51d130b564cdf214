//! Licences, versions, bans and sources of all dependencies, by the rules in `deny.toml`.
//!
//! cargo-deny takes longer to build than most steps take to run, so it is used where it is
//! installed, and elsewhere the rules are read here: those that `deny.toml` uses, with
//! cargo-deny's meaning. Security advisories need cargo-deny and its database:
//! `cargo deny check advisories`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Deserialize;
use serde_json::Value;

use crate::sh::{self, Context, Failure, Outcome, Tally};
use crate::toolchain;

/// The only place that dependencies may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    exclude: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
    #[serde(default)]
    exceptions: Vec<LicenseException>,
}

/// Licences that one crate may have.
#[derive(Deserialize)]
struct LicenseException {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

impl Licenses {
    /// Whether a crate may have the licence.
    fn allow(&self, name: &str, license: &str) -> bool {
        let excepted = self.exceptions.iter();
        let mut excepted = excepted.filter(|exception| exception.name == name);
        is_allowed(license, &self.allow)
            || excepted.any(|exception| is_allowed(license, &exception.allow))
    }
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
    #[serde(default)]
    skip: Vec<Skip>,
}

/// A version that may be there beside another one of the same crate.
#[derive(Deserialize)]
struct Skip {
    /// `name@version`, where the version may be cut after any of its numbers.
    #[serde(rename = "crate")]
    spec: String,
}

impl Skip {
    fn is_of(&self, name: &str, version: &str) -> bool {
        let Some((skipped, prefix)) = self.spec.split_once('@') else {
            return false;
        };
        let rest = version.strip_prefix(prefix);
        skipped == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// A crate on which only `wrappers` may depend directly.
#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    wrappers: BTreeSet<String>,
}

pub(crate) fn run(_: &[String]) -> Outcome<Tally> {
    if toolchain::succeeds(sh::cargo().args(["deny", "--version"])) {
        sh::run(sh::cargo().args(["deny", "check", "bans", "licenses", "sources"]))?;
        return Ok(Tally::default());
    }
    let file = sh::root().join("deny.toml");
    let rules = toml::from_str(&fs::read_to_string(&file).context(file.display())?);
    let rules: Rules = rules.context(file.display())?;
    let mut metadata = sh::cargo();
    metadata.args(["metadata", "--format-version", "1", "--all-features"]);
    let metadata: Value =
        serde_json::from_str(&sh::read(&mut metadata)?).context("reading cargo's metadata")?;
    let packages = reachable(&metadata, &rules.graph.exclude)?;
    let complaints = complaints(&packages, &rules);
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{} packages checked", packages.len());
    if complaints.is_empty() {
        Ok(Tally::default())
    } else {
        Err(Failure::from(format!(
            "{} dependencies break the rules of deny.toml",
            complaints.len()
        )))
    }
}

/// A package of the dependency graph.
struct Package {
    name: String,
    version: String,
    license: String,
    /// `None` for the workspace's own.
    source: Option<String>,
    /// The names of those that depend on it directly.
    dependents: BTreeSet<String>,
}

/// The workspace's packages without `excluded`, and all that they depend on.
fn reachable(metadata: &Value, excluded: &BTreeSet<String>) -> Outcome<Vec<Package>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        packages.insert(
            text(&package["id"]),
            Package {
                name: text(&package["name"]),
                version: text(&package["version"]),
                license: text(&package["license"]),
                source: package["source"].as_str().map(str::to_owned),
                dependents: BTreeSet::new(),
            },
        );
    }
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let to = list(&node["deps"])
            .iter()
            .map(|dep| text(&dep["pkg"]))
            .collect();
        edges.insert(text(&node["id"]), to);
    }
    let members = list(&metadata["workspace_members"]);
    let mut open: Vec<String> = members.iter().map(text).collect();
    open.retain(|id| !excluded.contains(&packages[id].name));
    let mut seen: BTreeSet<String> = open.iter().cloned().collect();
    while let Some(id) = open.pop() {
        let name = packages[&id].name.clone();
        for dependency in edges.get(&id).into_iter().flatten() {
            let package = packages
                .get_mut(dependency)
                .ok_or("cargo's metadata lacks a package")?;
            package.dependents.insert(name.clone());
            if seen.insert(dependency.clone()) {
                open.push(dependency.clone());
            }
        }
    }
    packages.retain(|id, _| seen.contains(id));
    Ok(packages.into_values().collect())
}

/// What breaks the rules.
fn complaints(packages: &[Package], rules: &Rules) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let Package {
            name,
            version,
            license,
            ..
        } = package;
        if !rules.bans.skip.iter().any(|skip| skip.is_of(name, version)) {
            versions.entry(name).or_default().push(version);
        }
        if !rules.licenses.allow(name, license) {
            complaints.push(format!(
                "{name} {version}: its licence, `{license}`, is not allowed"
            ));
        }
        if let Some(source) = package
            .source
            .as_deref()
            .filter(|source| *source != REGISTRY)
        {
            complaints.push(format!("{name} {version}: comes from {source}"));
        }
        for ban in rules.bans.deny.iter().filter(|ban| ban.name == *name) {
            for dependent in package.dependents.difference(&ban.wrappers) {
                complaints.push(format!("{dependent} must not depend on {name}"));
            }
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 {
            complaints.push(format!(
                "{name} is there in versions {}",
                versions.join(", ")
            ));
        }
    }
    complaints
}

/// Whether an SPDX expression can be met with the allowed licences alone. Older packages
/// write `/` for `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    any_of(&mut rest, allowed) && rest.is_empty()
}

/// `a OR b OR …`: AND binds more tightly.
fn any_of(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = all_of(tokens, allowed);
    while let Some(rest) = tokens.strip_prefix(&["OR"]) {
        *tokens = rest;
        met |= all_of(tokens, allowed);
    }
    met
}

/// `a AND b AND …`.
fn all_of(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = one(tokens, allowed);
    while let Some(rest) = tokens.strip_prefix(&["AND"]) {
        *tokens = rest;
        met &= one(tokens, allowed);
    }
    met
}

/// A licence, one with an exception, or an expression in parentheses.
fn one(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    if let Some(rest) = tokens.strip_prefix(&["("]) {
        *tokens = rest;
        let met = any_of(tokens, allowed);
        *tokens = tokens.strip_prefix(&[")"]).unwrap_or(&[]);
        return met;
    }
    let Some((first, rest)) = tokens.split_first() else {
        return false;
    };
    let mut license = (*first).to_owned();
    *tokens = rest;
    if let [with @ "WITH", exception, rest @ ..] = tokens {
        license = format!("{license} {with} {exception}");
        *tokens = rest;
    }
    allowed.contains(&license)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        toml::from_str(
            "[graph]\nexclude = []\n[licenses]\nallow = ['MIT', 'Unicode-3.0']\n\
             exceptions = [{ crate = 'fold', allow = ['Zlib'] }]\n\
             [bans]\ndeny = [{ crate = 'tokio', wrappers = ['hyper'] }]\n",
        )
        .unwrap()
    }

    fn package(name: &str, license: &str, dependents: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.to_owned(),
            source: Some(REGISTRY.to_owned()),
            dependents: dependents.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn a_version_is_skipped_by_any_of_its_numbers() {
        let skip = |spec: &str| Skip {
            spec: spec.to_owned(),
        };
        assert!(skip("syn@2").is_of("syn", "2.0.119"));
        assert!(skip("syn@2.0.119").is_of("syn", "2.0.119"));
        assert!(!skip("syn@2").is_of("syn", "20.0.0"));
        assert!(!skip("syn@2").is_of("syn", "3.0.9"));
        assert!(!skip("syn@2").is_of("synstructure", "2.0.1"));
        assert!(!skip("syn").is_of("syn", "2.0.119"));
    }

    #[test]
    fn an_exception_is_for_one_crate() {
        let licenses = rules().licenses;
        assert!(licenses.allow("fold", "Zlib"));
        assert!(licenses.allow("fold", "MIT"));
        assert!(!licenses.allow("unfold", "Zlib"));
    }

    #[test]
    fn a_licence_is_allowed_if_the_expression_can_be_met() {
        let allowed = rules().licenses.allow;
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(is_allowed(fine, &allowed), "{fine}");
        }
        for wrong in [
            "",
            "Apache-2.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR Apache-2.0)",
            "MIT WITH LLVM-exception",
            "MIT MIT",
        ] {
            assert!(!is_allowed(wrong, &allowed), "{wrong}");
        }
    }

    #[test]
    fn a_banned_crate_is_only_for_its_wrappers() {
        let fine = package("tokio", "MIT", &["hyper"]);
        assert!(complaints(&[fine], &rules()).is_empty());
        let wrong = package("tokio", "MIT", &["blitzen-sync", "hyper"]);
        let complaints = complaints(&[wrong], &rules());
        assert_eq!(complaints, ["blitzen-sync must not depend on tokio"]);
    }

    #[test]
    fn two_versions_and_foreign_sources_are_refused() {
        let mut other = package("syn", "MIT", &[]);
        other.version = "2.0.0".to_owned();
        other.source = Some("git+https://example.org/syn".to_owned());
        let complaints = complaints(&[package("syn", "MIT", &[]), other], &rules());
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }
}
