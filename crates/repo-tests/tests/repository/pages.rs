//! Pages about the code name files and functions that exist.
//!
//! A page names a file by its path from the root, in backquotes: `crates/…`. Behind such a path, with a colon, come names that the file must
//! define: functions, types and constants. A type may precede a function with `::`. Other names of a page of steps must stand in one of its files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::{assert_none, root};

/// Fewer names would mean that the pages are not read as they are written.
const NAMES_MIN: usize = 100;
/// The longest of [`pages_of_steps`]: someone reads them before a change.
const PAGE_LINES_MAX: usize = 100;

/// A name in backquotes that a page says a file defines, or the file alone.
#[derive(Debug, PartialEq)]
struct Named<'a> {
    line: usize,
    file: &'a str,
    name: Option<&'a str>,
}

/// The files in `crates` that a page names, and what it says that they define.
fn named(page: &str) -> Vec<Named<'_>> {
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let mut parts = line.split('`');
        parts.next();
        let mut file = None;
        // parts in backquotes and those behind them, in turns
        while let (Some(quoted), Some(behind)) = (parts.next(), parts.next()) {
            let line = index + 1;
            if is_path(quoted) {
                found.push(Named { line, file: quoted, name: None });
                file = (behind == ": ").then_some(quoted);
                continue;
            }
            let Some(of) = file.filter(|_| is_name(quoted)) else { continue };
            found.push(Named { line, file: of, name: Some(quoted) });
            file = [", ", " and ", " or "].contains(&behind).then_some(of);
        }
    }
    found
}

/// Whether it is one path: braces and placeholders stand for several.
fn is_path(quoted: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
    quoted.starts_with("crates/") && quoted.chars().all(is_part)
}

fn is_name(quoted: &str) -> bool {
    quoted
        .split("::")
        .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// The words of the code of these files, without comments: metrics and error codes are words of the files that define them.
fn words_of(files: &BTreeSet<&str>) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = BTreeSet::new();
    for file in files {
        let source = fs::read_to_string(root().join(file)).unwrap_or_default();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        words.extend(code.flat_map(|line| line.split(|c| !is_part(c))).map(str::to_owned));
    }
    words
}

/// Whether a source file defines a name, which may have its type before it.
fn defines(source: &str, name: &str) -> bool {
    name.split("::").all(|part| {
        let is_defined = |line: &str| {
            let mut words =
                line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
            let item = words.find(|word| {
                ["const", "enum", "fn", "macro_rules", "static", "struct", "trait", "type"].contains(word)
            });
            item.is_some_and(|item| {
                let next = words.next();
                // `const fn name`
                if item == "const" && next == Some("fn") {
                    words.next() == Some(part)
                } else {
                    next == Some(part)
                }
            })
        };
        source.lines().any(is_defined)
    })
}

/// The pages that lead through the code step by step.
fn pages_of_steps() -> Vec<PathBuf> {
    let pages = fs::read_dir(root().join("docs/architecture")).unwrap().map(|entry| entry.unwrap().path());
    pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The pages about the code.
fn pages() -> Vec<PathBuf> {
    let mut pages = pages_of_steps();
    let decisions = fs::read_dir(root().join("docs/decisions")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(decisions);
    pages.extend(["docs/architecture.md", "CONTRIBUTING.md"].map(|page| root().join(page)));
    pages
}

#[test]
fn pages_name_files_and_functions_that_exist() {
    let (mut violations, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let place = page.strip_prefix(root()).unwrap().display().to_string();
        for Named { line, file, name } in named(&text) {
            count += 1;
            let path = root().join(file);
            match name {
                None if path.exists() => {}
                None => violations.push(format!("{place}:{line}: there is no `{file}`")),
                Some(name) if fs::read_to_string(&path).is_ok_and(|source| defines(&source, name)) => {}
                Some(name) => violations.push(format!("{place}:{line}: `{file}` does not define `{name}`")),
            }
        }
    }
    assert!(count >= NAMES_MIN, "only {count} names were found");
    assert_none("correct these names", &violations);
}

#[test]
fn names_on_a_page_of_steps_stand_in_its_files() {
    const FILES_OF_ALL: [&str; 4] = [
        "crates/api/src/code.rs",
        "crates/telemetry/src/metrics.rs",
        "crates/telemetry/src/metrics/llm.rs",
        "crates/config/src/table.rs",
    ];
    let mut violations = Vec::new();
    for page in pages_of_steps() {
        let text = fs::read_to_string(&page).unwrap();
        let files = named(&text).into_iter().map(|named| named.file).chain(FILES_OF_ALL).collect();
        let words = words_of(&files);
        let name = |quoted: &&str| is_name(quoted) && quoted.chars().any(|c| c.is_ascii_alphabetic());
        for (index, line) in text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2).filter(name);
            let unknown = quoted.filter(|name| name.split("::").any(|part| !words.contains(part)));
            let place = format!("{}:{}", page.strip_prefix(root()).unwrap().display(), index + 1);
            violations.extend(unknown.map(|name| format!("{place}: `{name}`")));
        }
    }
    assert_none("no file of the page has these names", &violations);
}

#[test]
fn pages_of_steps_are_short() {
    let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
    let too_long: Vec<String> = pages_of_steps()
        .iter()
        .filter(|path| lines(path) > PAGE_LINES_MAX)
        .map(|path| path.display().to_string())
        .collect();
    assert_none("shorten these pages", &too_long);
}

/// The pages to which a page of the repository has links.
fn linked(page: &str) -> BTreeSet<PathBuf> {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter_map(|target| path.parent().unwrap().join(target).canonicalize().ok()).collect()
}

#[test]
fn every_page_is_listed() {
    const LISTS: [&str; 3] = ["docs/README.md", "docs/benchmarks.md", "docs/decisions/README.md"];
    let listed: BTreeSet<PathBuf> = LISTS.into_iter().flat_map(linked).collect();
    let files = WalkDir::new(root().join("docs")).into_iter().map(|entry| entry.unwrap().into_path());
    let pages = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let is_missing = |page: &PathBuf| !listed.contains(page) && !page.ends_with("docs/README.md");
    let missing: Vec<String> = pages.filter(is_missing).map(|page| page.display().to_string()).collect();
    assert_none("add a row for these pages to docs/README.md", &missing);
}

#[test]
fn names_behind_a_file_are_those_that_it_must_define() {
    let page = "see `crates/a.rs`: `A::open`, `close` and `MAX`, in `b` (`crates/c.rs`)\n`crates/{d,e}/f.rs`, `crates/g.rs`: x `h`";
    let all = [
        (1, "crates/a.rs", None),
        (1, "crates/a.rs", Some("A::open")),
        (1, "crates/a.rs", Some("close")),
        (1, "crates/a.rs", Some("MAX")),
        (1, "crates/c.rs", None),
        (2, "crates/g.rs", None),
    ];
    assert_eq!(named(page), all.map(|(line, file, name)| Named { line, file, name }));
}

#[test]
fn a_name_is_defined_by_an_item_and_not_by_its_use() {
    let source = "/// `open` opens.\npub(crate) struct A<'a>(&'a str);\nimpl A<'_> {\n    pub async fn open() {}\n    const fn at() {}\n}\n\
        const MAX: usize = 1;\nmacro_rules! each {\n}\nuse b::close;\n";
    for name in ["A", "A::open", "open", "at", "MAX", "each"] {
        assert!(defines(source, name), "{name}");
    }
    for name in ["close", "A::close", "B::open", "a", "opens"] {
        assert!(!defines(source, name), "{name}");
    }
}
