//! What comes from outside, against the lists of `deny.toml`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::licence::is_allowed;
use crate::metadata::{array, cargo_metadata, string};
use crate::{assert_none, root};

/// A package that some target of ours is built from.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    licence: String,
}

fn deny_toml() -> toml::Table {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml exists");
    text.parse().expect("deny.toml is TOML")
}

/// The list at `section.key` of deny.toml. A missing list is an error: it must never mean "everything is fine".
fn list(section: &str, key: &str) -> Vec<toml::Value> {
    let table = deny_toml();
    let found = table.get(section).and_then(|section| section.get(key)).and_then(toml::Value::as_array);
    found.unwrap_or_else(|| panic!("deny.toml has no list `{section}.{key}`")).clone()
}

fn strings(values: &[toml::Value]) -> Vec<String> {
    values.iter().map(|value| value.as_str().expect("a list of strings").to_owned()).collect()
}

/// The `crate` of each row of a list: `name`, `name@version` (exact) or `name:version` (and what follows it after a dot).
fn crate_specs(section: &str, key: &str) -> Vec<String> {
    let of_row = |row: &toml::Value| {
        row.get("crate").and_then(toml::Value::as_str).expect("a row names a crate").to_owned()
    };
    list(section, key).iter().map(of_row).collect()
}

fn matches(spec: &str, name: &str, version: &str) -> bool {
    if let Some((spec_name, exact)) = spec.split_once('@') {
        return spec_name == name && exact == version;
    }
    match spec.split_once(':') {
        Some((spec_name, start)) => {
            spec_name == name && (start == version || version.starts_with(&format!("{start}.")))
        }
        None => spec == name,
    }
}

/// Ids of the packages that our crates are built from: everything reachable without a step that only tests take.
fn ids_in_graph(metadata: &Value) -> BTreeSet<&str> {
    let nodes: BTreeMap<&str, &Value> =
        array(&metadata["resolve"], "nodes").iter().map(|node| (string(node, "id"), node)).collect();
    let is_built = |used: &&Value| array(used, "dep_kinds").iter().any(|kind| string(kind, "kind") != "dev");
    let mut open: Vec<&str> = array(metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(array(nodes[id], "deps").iter().filter(is_built).map(|used| string(used, "pkg")));
        }
    }
    reached
}

/// Every package that any target of deny.toml is built from.
fn packages() -> BTreeSet<Package> {
    let mut packages = BTreeSet::new();
    for target in strings(&list("graph", "targets")) {
        let metadata = cargo_metadata(&["--filter-platform", &target]);
        let ids = ids_in_graph(&metadata);
        let in_graph =
            array(&metadata, "packages").iter().filter(|package| ids.contains(string(package, "id")));
        packages.extend(in_graph.map(|package| Package {
            name: string(package, "name").to_owned(),
            version: string(package, "version").to_owned(),
            licence: string(package, "license").to_owned(),
        }));
    }
    assert!(packages.len() > 30, "only {} packages: the graph was not read", packages.len());
    packages
}

#[test]
fn every_licence_is_on_the_list() {
    let allowed = strings(&list("licenses", "allow"));
    let breaches: Vec<String> = packages()
        .iter()
        .filter(|package| !is_allowed(&package.licence, &allowed))
        .map(|package| format!("{}@{}: `{}`", package.name, package.version, package.licence))
        .collect();
    assert_none("licences that deny.toml doesn't allow", &breaches);
}

#[test]
fn no_banned_crate_is_used() {
    let banned = crate_specs("bans", "deny");
    let breaches: Vec<String> = packages()
        .iter()
        .filter(|package| banned.iter().any(|spec| matches(spec, &package.name, &package.version)))
        .map(|package| format!("{}@{}", package.name, package.version))
        .collect();
    assert_none("crates that deny.toml bans (`cargo tree -i NAME` shows who wants them)", &breaches);
}

#[test]
fn no_crate_comes_in_two_versions_unless_listed() {
    let skipped = crate_specs("bans", "skip");
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages() {
        if !skipped.iter().any(|spec| matches(spec, &package.name, &package.version)) {
            versions.entry(package.name).or_default().push(package.version);
        }
    }
    let breaches: Vec<String> = versions
        .into_iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| format!("{name}: {}", versions.join(", ")))
        .collect();
    assert_none(
        "crates in two versions (`cargo tree -d`); avoid one, or list it in deny.toml with a reason",
        &breaches,
    );
}

#[test]
fn a_spec_matches_its_versions_only() {
    assert!(matches("syn", "syn", "2.0.1"));
    assert!(matches("syn@2.0.1", "syn", "2.0.1"));
    assert!(!matches("syn@2.0", "syn", "2.0.1"));
    assert!(matches("syn:2", "syn", "2.0.1"));
    assert!(!matches("syn:2", "syn", "20.0.1"));
    assert!(!matches("syn:2", "synstructure", "2.0.1"));
}
