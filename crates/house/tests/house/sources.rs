//! What may stand where in our code.

use std::path::Path;

use crate::assert_none;
use crate::source::{Source, all_sources, lines_with_word, without_tests};

/// The only rooms where `unsafe` may stand.
const UNSAFE_ROOMS: [&str; 2] = ["kernels", "mapped"];
/// Rooms that never look at a clock: their results depend on their arguments alone.
const ROOMS_WITHOUT_CLOCK: [&str; 5] = ["api", "encoder", "kernels", "policy", "text"];
/// Where printing to standard output is the purpose.
const PRINTS: [&str; 2] = ["crates/weir/src/cli", "crates/loadgen/src/"];
/// A reader should find their room in a file.
const FILE_LINES_MAX: usize = 600;
/// Names that say nothing: what is inside belongs to a noun of the vocabulary.
const EMPTY_NAMES: [&str; 8] = ["common", "helper", "helpers", "misc", "types", "util", "utilities", "utils"];

/// `path:line` of every place where one of `words` stands in what `code` sees of the sources that `applies_to` picks.
fn places(
    words: &[&str],
    applies_to: impl Fn(&Source) -> bool,
    code: impl Fn(&Source) -> String,
) -> Vec<String> {
    let mut found = Vec::new();
    for source in all_sources().iter().filter(|source| applies_to(source)) {
        let code = code(source);
        for word in words {
            found.extend(
                lines_with_word(&code, word).iter().map(|line| format!("{}:{line}: `{word}`", source.path)),
            );
        }
    }
    found
}

#[test]
fn unsafe_stands_only_in_kernels_and_mapped() {
    let is_elsewhere = |source: &Source| !UNSAFE_ROOMS.contains(&source.house_room());
    let breaches = places(&["unsafe", "unsafe_code"], is_elsewhere, |source| source.code.clone());
    assert_none("`unsafe`, or a lint level for it, outside kernels and mapped", &breaches);
}

#[test]
fn no_clock_in_the_pure_rooms() {
    let is_pure = |source: &Source| source.is_shipped && ROOMS_WITHOUT_CLOCK.contains(&source.house_room());
    let breaches = places(&["Instant::now", "SystemTime"], is_pure, |source| without_tests(&source.code));
    assert_none("a clock in a room without one: take the time as an argument", &breaches);
}

#[test]
fn only_the_command_lines_print() {
    let is_silent =
        |source: &Source| source.is_shipped && !PRINTS.iter().any(|path| source.path.starts_with(path));
    let breaches = places(&["println!", "print!"], is_silent, |source| without_tests(&source.code));
    assert_none("standard output belongs to the command lines: use `tracing`", &breaches);
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let breaches: Vec<String> = all_sources()
        .iter()
        .map(|source| (source.text.lines().count(), &source.path))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert_none("split these files by resource", &breaches);
}

#[test]
fn every_module_is_named_for_what_it_holds() {
    let is_empty_name =
        |part: &std::ffi::OsStr| part.to_str().is_some_and(|part| EMPTY_NAMES.contains(&part));
    let mut breaches: Vec<String> = all_sources()
        .iter()
        .filter(|source| Path::new(&source.path).with_extension("").iter().any(is_empty_name))
        .map(|source| source.path.clone())
        .collect();
    for name in EMPTY_NAMES {
        breaches.extend(places(&[&format!("mod {name}")], |_| true, |source| source.code.clone()));
    }
    assert_none("names that say nothing", &breaches);
}
