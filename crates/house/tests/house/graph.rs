//! Dependencies between our crates point one way, and every crate has its place in the docs.

use std::collections::{BTreeMap, BTreeSet};

use crate::metadata::{array, cargo_metadata, string};
use crate::{assert_none, root};

/// What each crate may use of the others. A crate that isn't listed here fails the test.
const MAY_USE: [(&str, &[&str]); 18] = [
    ("api", &[]),
    ("config", &["api", "text"]),
    ("encoder", &["kernels", "mapped"]),
    ("filter", &[]),
    ("house", &[]),
    ("index", &["filter", "kernels", "mapped", "policy", "text"]),
    ("inference", &["config", "encoder", "onnx", "policy", "telemetry"]),
    ("kernels", &[]),
    ("loadgen", &["api"]),
    ("mapped", &[]),
    ("onnx", &["encoder"]),
    ("policy", &["filter"]),
    ("retrieval", &["api", "config", "index", "inference", "policy", "store", "telemetry", "text"]),
    ("server", &["api", "config", "index", "inference", "policy", "retrieval", "store", "telemetry", "text"]),
    ("store", &["filter", "policy"]),
    ("telemetry", &["api", "config"]),
    ("text", &[]),
    (
        "weir",
        &[
            "api",
            "config",
            "encoder",
            "index",
            "inference",
            "onnx",
            "policy",
            "retrieval",
            "server",
            "store",
            "telemetry",
            "text",
        ],
    ),
];

/// Short names of our crates, each with its (dependency, kind): kind is empty, `dev` or `build`.
fn our_crates() -> BTreeMap<String, Vec<(String, String)>> {
    let metadata = cargo_metadata(&["--no-deps"]);
    let short = |name: &str| {
        if name == "weir" { Some(name.to_owned()) } else { name.strip_prefix("weir-").map(str::to_owned) }
    };
    array(&metadata, "packages")
        .iter()
        .map(|package| {
            let name = string(package, "name");
            let uses = array(package, "dependencies")
                .iter()
                .filter_map(|used| Some((short(string(used, "name"))?, string(used, "kind").to_owned())))
                .collect();
            (short(name).unwrap_or_else(|| panic!("crate `{name}` isn't called weir-…")), uses)
        })
        .collect()
}

#[test]
fn crates_use_only_what_the_plan_allows() {
    let plan = BTreeMap::from(MAY_USE);
    let mut breaches = Vec::new();
    for (name, uses) in our_crates() {
        let Some(allowed) = plan.get(name.as_str()) else {
            breaches.push(format!("`{name}` has no row in MAY_USE: say what it may use"));
            continue;
        };
        for (used, kind) in uses {
            if kind != "dev" && !allowed.contains(&used.as_str()) {
                breaches.push(format!("`{name}` uses `{used}`"));
            }
        }
    }
    assert_none("these dependencies are not in the plan", &breaches);
}

#[test]
fn the_plan_names_only_crates_that_exist() {
    let exist: BTreeSet<String> = our_crates().into_keys().collect();
    let planned: BTreeSet<String> = MAY_USE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(planned, exist);
}

#[test]
fn nothing_depends_on_the_binary_even_in_tests() {
    let breaches: Vec<String> = our_crates()
        .into_iter()
        .filter(|(_, uses)| uses.iter().any(|(used, _)| used == "weir"))
        .map(|(name, _)| format!("`{name}` depends on `weir`"))
        .collect();
    assert_none("nothing may depend on the binary", &breaches);
}

#[test]
fn every_crate_has_a_row_in_the_architecture_page() {
    let page =
        std::fs::read_to_string(root().join("docs/architecture.md")).expect("docs/architecture.md exists");
    let breaches: Vec<String> = our_crates()
        .into_keys()
        .filter(|name| !page.lines().any(|line| line.starts_with(&format!("| `{name}` |"))))
        .map(|name| format!("`{name}`"))
        .collect();
    assert_none("these crates have no row in the table of rooms of docs/architecture.md", &breaches);
}

#[test]
fn every_crate_obeys_the_lints_of_the_workspace() {
    let breaches: Vec<String> = our_crates()
        .into_keys()
        .filter(|name| {
            let manifest = std::fs::read_to_string(root().join("crates").join(name).join("Cargo.toml"))
                .expect("a manifest");
            let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
            let inherits =
                manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
            inherits != Some(true)
        })
        .collect();
    assert_none("these manifests lack `[lints] workspace = true`", &breaches);
}
