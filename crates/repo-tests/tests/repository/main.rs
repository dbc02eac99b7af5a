//! Tests of the repository itself.
//!
//! The table of crates in `docs/architecture.md` is compared with what `cargo metadata` reports. Clippy and the compiler
//! check what a single file shows (unsafe code, clocks, printing), and cargo-deny checks dependencies from outside.
//! Each test lists every violation, so that one run shows all of them.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "every target of this package is a test")]

mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use walkdir::WalkDir;

/// The binary's crate: no other crate may depend on it, not even in tests.
const BINARY: &str = "weir";
/// Crates that contain unsafe code; the roots of all others forbid it.
const CRATES_WITH_UNSAFE: [&str; 2] = ["kernels", "mapped"];
/// Crates whose results depend on their arguments alone. Their `clippy.toml` is a link to `PURE_CLIPPY`, which bans clocks.
const PURE_CRATES: [&str; 15] = [
    "api",
    "documents",
    "encoder",
    "filter",
    "guardrails",
    "json",
    "kernels",
    "policy",
    "prices",
    "quantization",
    "query",
    "ranking",
    "schema",
    "text",
    "translate",
];
/// The clippy settings of pure crates, from the repository's root.
const PURE_CLIPPY: &str = "crates/clippy-pure.toml";
/// Longest Rust file.
const FILE_LINES_MAX: usize = 600;
/// Largest crate, in lines of its folder `src` outside of tests.
const CRATE_LINES_MAX: usize = 10_000;
/// The same for crates that stay smaller: the stages of a chat request are read from top to bottom.
const SMALLER_CRATES: [(&str, usize); 1] = [("llm", 5_000)];
/// Crates with a second program of integration tests. An access outside of a slice ends the program of `bounds`, and with it the tests beside it.
const CRATES_WITH_TWO_TEST_PROGRAMS: [&str; 1] = ["kernels"];
/// File and folder names that do not say what is inside.
const VAGUE_NAMES: [&str; 8] = ["common", "helper", "helpers", "misc", "types", "util", "utilities", "utils"];

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the root of the repository exists")
}

/// Fails with all violations, one per line.
#[track_caller]
fn assert_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}

/// One crate of the workspace.
struct Crate {
    /// Names of the workspace's crates that it is built from.
    uses: BTreeSet<String>,
    /// The same, of its tests and examples.
    tests_use: BTreeSet<String>,
    manifest: PathBuf,
    /// Root files of the library and the binaries.
    roots: Vec<PathBuf>,
    /// Names of the programs of integration tests.
    test_programs: Vec<String>,
}

/// The crates of the workspace by name, without the prefix `weir-`.
fn crates() -> BTreeMap<String, Crate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    array(&metadata["packages"])
        .iter()
        .map(|package| (short_name(&package["name"]), read_crate(package)))
        .collect()
}

fn read_crate(package: &Value) -> Crate {
    // Only a dependency by path has a `path`.
    let ours = array(&package["dependencies"]).iter().filter(|used| used["path"].is_string());
    let (tests_use, uses): (Vec<_>, Vec<_>) = ours.partition(|used| used["kind"] == "dev");
    let names = |used: Vec<&Value>| used.iter().map(|used| short_name(&used["name"])).collect();
    let is_root =
        |target: &&Value| array(&target["kind"]).iter().any(|kind| *kind == "lib" || *kind == "bin");
    Crate {
        uses: names(uses),
        tests_use: names(tests_use),
        manifest: string(&package["manifest_path"]).into(),
        roots: array(&package["targets"])
            .iter()
            .filter(is_root)
            .map(|t| string(&t["src_path"]).into())
            .collect(),
        test_programs: array(&package["targets"])
            .iter()
            .filter(|target| array(&target["kind"]).iter().any(|kind| *kind == "test"))
            .map(|target| string(&target["name"]).to_owned())
            .collect(),
    }
}

fn short_name(name: &Value) -> String {
    let name = string(name);
    name.strip_prefix("weir-").unwrap_or(name).to_owned()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("cargo metadata has this array")
}

fn string(value: &Value) -> &str {
    value.as_str().expect("cargo metadata has this string")
}

/// The table of crates in an architecture page: for each crate the workspace's crates in its column `may use`.
///
/// A row is `| crate | what it is | may use | never |`. `may use` is a list with commas; `-` is an empty list, and a
/// path such as `std::arch` is not a crate of ours.
fn documented_graph(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    let is_ours = |name: &&str| !["", "-", "—"].contains(name) && !name.contains("::");
    rows.map(cells)
        .map(|cells| {
            let uses = cells[3].split(',').map(str::trim).filter(is_ours).map(str::to_owned).collect();
            (cells[1].clone(), uses)
        })
        .collect()
}

fn rust_files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(folder).into_iter().filter_entry(|entry| entry.file_name() != "target");
    let files = entries.map(|entry| entry.expect("the folder is readable").into_path());
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

fn rust_files() -> Vec<PathBuf> {
    let files = rust_files_in(&root().join("crates"));
    assert!(files.len() > 100, "only {} Rust files were found", files.len());
    files
}

/// Number of lines of a source file outside of its modules for tests, and the names of such modules that are files of their own.
fn production_lines(source: &str) -> (usize, Vec<&str>) {
    let (mut count, mut test_modules) = (0, Vec::new());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if !["#[cfg(test)]", "#[cfg(any(test, fuzzing))]"].contains(&line) {
            count += 1;
            continue;
        }
        let item = lines.find(|line| !line.starts_with("#[")).unwrap_or_default();
        match item.split_once("mod ").map(|(_, name)| name) {
            Some(name) if name.ends_with(" {") => drop(lines.find(|line| *line == "}")),
            Some(name) => test_modules.push(name.trim_end_matches(';')),
            None => {}
        }
    }
    (count, test_modules)
}

/// Number of lines of all source files in a folder outside of modules for tests.
fn production_lines_of(folder: &Path) -> usize {
    let (mut counts, mut tests) = (Vec::new(), Vec::new());
    for path in rust_files_in(folder) {
        let source = fs::read_to_string(&path).expect("the file is readable");
        let (count, test_modules) = production_lines(&source);
        let is_root = ["lib", "main", "mod"].iter().any(|name| path.file_stem().unwrap() == *name);
        let modules = if is_root { path.parent().unwrap().to_owned() } else { path.with_extension("") };
        tests.extend(test_modules.into_iter().map(|name| modules.join(name)));
        counts.push((path, count));
    }
    let is_test = |path: &Path| tests.iter().any(|test| path.with_extension("").starts_with(test));
    counts.iter().filter(|(path, _)| !is_test(path)).map(|(_, count)| count).sum()
}

#[test]
fn the_crate_graph_equals_the_table_of_the_architecture_page() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("the architecture page exists");
    let documented = documented_graph(&page);
    let crates = crates();
    let mut violations = Vec::new();
    for (name, row) in &documented {
        match crates.get(name) {
            None => violations.push(format!("`{name}` has a row but is no crate")),
            Some(found) if found.uses != *row => {
                violations.push(format!("`{name}` uses {:?}, but its row says {row:?}", found.uses));
            }
            Some(_) => {}
        }
    }
    let missing = crates.keys().filter(|name| !documented.contains_key(*name));
    violations.extend(missing.map(|name| format!("`{name}` has no row")));
    assert_none(
        "the column `may use` of docs/architecture.md must list exactly the dependencies",
        &violations,
    );
}

#[test]
fn a_row_of_the_table_is_read_without_external_paths_and_dashes() {
    let page = "# Crates\n| crate | what it is | may use | never |\n|---|---|---|---|\n\
        | `a` | text, `b` | `std::arch` | no IO |\n| `b` | it | `a`, c | |\n| `c` | it | - | |\n\nend | `x` | y | z |\n";
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let expected = [("a", names(&[])), ("b", names(&["a", "c"])), ("c", names(&[]))];
    assert_eq!(documented_graph(page), expected.map(|(name, uses)| (name.to_owned(), uses)).into());
}

#[test]
fn no_crate_depends_on_the_binary_even_in_tests() {
    let depends = |found: &Crate| found.uses.contains(BINARY) || found.tests_use.contains(BINARY);
    let violations: Vec<String> =
        crates().into_iter().filter(|(_, found)| depends(found)).map(|(name, _)| name).collect();
    assert_none("these crates depend on the binary's crate", &violations);
}

#[test]
fn every_crate_inherits_the_lints_of_the_workspace() {
    let inherits = |found: &Crate| {
        fs::read_to_string(&found.manifest).unwrap().contains("\n[lints]\nworkspace = true\n")
    };
    let violations: Vec<String> =
        crates().into_iter().filter(|(_, found)| !inherits(found)).map(|(name, _)| name).collect();
    assert_none("these manifests lack `[lints]` with `workspace = true`", &violations);
}

#[test]
fn every_crate_but_kernels_and_mapped_forbids_unsafe_code() {
    let forbids = |root: &PathBuf| fs::read_to_string(root).unwrap().contains("\n#![forbid(unsafe_code)]\n");
    let safe = crates().into_iter().filter(|(name, _)| !CRATES_WITH_UNSAFE.contains(&name.as_str()));
    let violations: Vec<String> = safe
        .flat_map(|(_, found)| found.roots)
        .filter(|root| !forbids(root))
        .map(|root| root.display().to_string())
        .collect();
    assert_none("these crate roots lack `#![forbid(unsafe_code)]`", &violations);
}

#[test]
fn clippy_bans_clocks_in_every_pure_crate() {
    let target = root().join(PURE_CLIPPY);
    let mut violations = Vec::new();
    for name in PURE_CRATES {
        let link = root().join("crates").join(name).join("clippy.toml");
        if link.canonicalize().ok().as_ref() != Some(&target) {
            violations.push(name.to_owned());
        }
    }
    assert_none("the `clippy.toml` of these crates must be a link to ../clippy-pure.toml", &violations);
}

#[test]
fn pure_crates_have_every_clippy_setting_of_the_others() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let (all, pure) = (read("clippy.toml"), read(PURE_CLIPPY));
    let missing: Vec<String> =
        all.lines().filter(|line| !pure.lines().any(|l| l == *line)).map(str::to_owned).collect();
    assert_none("clippy reads one file per crate: add these lines to crates/clippy-pure.toml", &missing);
}

/// The optimisation across all crates has the level of the crate that is linked: with `"z"`, embeddings took twice the time.
#[test]
fn the_binary_is_released_at_level_3() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, dist) = manifest.split_once("\n[profile.dist]\n").unwrap();
    let (dist, _) = dist.split_once("\n[").unwrap();
    assert!(!dist.contains("opt-level"), "{dist}");
    assert!(!manifest.contains("\n[profile.dist.package."));
}

/// Each program is compiled with what its tests share and linked with all dependencies.
#[test]
fn a_crate_has_one_program_of_integration_tests() {
    let crates = crates();
    assert!(crates.values().any(|found| !found.test_programs.is_empty()), "no program of tests was found");
    let violations: Vec<String> = crates
        .iter()
        .filter(|(name, found)| {
            let max = if CRATES_WITH_TWO_TEST_PROGRAMS.contains(&name.as_str()) { 2 } else { 1 };
            found.test_programs.len() > max
        })
        .map(|(name, found)| format!("`{name}`: {}", found.test_programs.join(", ")))
        .collect();
    assert_none("make one module of tests/CRATE/main.rs of each of these programs", &violations);
}

#[test]
fn no_rust_file_is_too_long() {
    let lines = |path: &PathBuf| fs::read_to_string(path).unwrap().lines().count();
    let counted = rust_files().into_iter().map(|path| (lines(&path), path));
    let violations: Vec<String> = counted
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, path)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert_none("split these files", &violations);
}

#[test]
fn no_crate_is_too_large() {
    let lines = |found: &Crate| production_lines_of(&found.manifest.with_file_name("src"));
    let counted: Vec<(String, usize)> = crates()
        .iter()
        .filter(|(_, found)| !found.roots.is_empty())
        .map(|(name, c)| (name.clone(), lines(c)))
        .collect();
    let all: usize = counted.iter().map(|(_, lines)| lines).sum();
    assert!(all > 10 * counted.len(), "only {all} lines were counted");
    let lines_max = |name: &str| {
        let smaller = SMALLER_CRATES.iter().find(|(smaller, _)| *smaller == name);
        smaller.map_or(CRATE_LINES_MAX, |(_, lines)| *lines)
    };
    let too_large = counted.iter().filter(|(name, lines)| *lines > lines_max(name));
    let violations: Vec<String> = too_large.map(|(name, lines)| format!("`{name}`: {lines} lines")).collect();
    assert_none("split these crates where the dependencies of their parts differ", &violations);
}

#[test]
fn lines_of_tests_are_not_production_lines() {
    let source = "//! A file.\n\nmod a;\n#[cfg(test)]\nmod agreement;\n\nfn f() {\n}\n\n\
        #[cfg(test)]\n#[allow(x)]\npub(super) mod tests {\n    fn g() {\n    }\n}\n\nfn h() {}\n";
    assert_eq!(production_lines(source), (9, vec!["agreement"]));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, source: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, source).unwrap();
    };
    write("lib.rs", "mod store;\n#[cfg(test)]\nmod tests;\n");
    write("tests.rs", "\n\n\n");
    write("store.rs", "mod rows;\n#[cfg(test)]\nmod cases;\n");
    write("store/rows.rs", "\n\n");
    write("store/cases/mod.rs", "\n\n\n\n");
    assert_eq!(production_lines_of(folder.path()), 4);
}

#[test]
fn every_file_is_named_for_what_it_contains() {
    let is_vague = |path: &PathBuf| {
        let inside = path.strip_prefix(root()).unwrap().with_extension("");
        inside.iter().any(|part| VAGUE_NAMES.iter().any(|name| part == *name))
    };
    let violations: Vec<String> =
        rust_files().into_iter().filter(is_vague).map(|path| path.display().to_string()).collect();
    assert_none("rename these files", &violations);
}
