//! Our Rust files, and their code without comments, strings and tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// What an item stands under that exists in tests only.
const TEST_MARK: &str = "#[cfg(test)]";

/// One Rust file of the workspace.
pub(crate) struct Source {
    /// Path from the repository's root, with forward slashes.
    pub(crate) path: String,
    /// The file as it stands.
    pub(crate) text: String,
    /// The text with the content of comments, strings and characters left out; lines stay where they are.
    pub(crate) code: String,
    /// Whether the file is part of what we ship, and not a test, benchmark, example or build script.
    pub(crate) is_shipped: bool,
}

impl Source {
    /// The crate that the file belongs to, by its folder's name.
    pub(crate) fn house_room(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }
}

/// Every Rust file under `crates/`, sorted by path.
pub(crate) fn all_sources() -> Vec<Source> {
    let root = root();
    let mut files = Vec::new();
    collect(&root.join("crates"), &mut files);
    files.sort();
    assert!(files.len() >= 11, "only {} Rust files found: is this the right folder?", files.len());
    let load = |file: &PathBuf| {
        let text = fs::read_to_string(file).expect("a Rust file is UTF-8");
        let path = file.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
        let is_shipped = path.split('/').nth(2) == Some("src");
        Source { path, code: code_of(&text), text, is_shipped }
    };
    let mut sources: Vec<Source> = files.iter().map(load).collect();
    let tests: Vec<String> =
        sources.iter().flat_map(|source| test_modules(&source.path, &source.code)).collect();
    for source in &mut sources {
        let is_test = |module: &String| {
            source.path.strip_prefix(module).is_some_and(|rest| rest.starts_with(['.', '/']))
        };
        source.is_shipped &= !tests.iter().any(is_test);
    }
    sources
}

/// Paths, without `.rs`, of the modules that the file declares as `#[cfg(test)] mod name;`.
fn test_modules(path: &str, code: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or_default();
    let folder = match file.strip_suffix(".rs") {
        Some("lib" | "main" | "mod") | None => folder.to_owned(),
        Some(module) => format!("{folder}/{module}"),
    };
    code.split(TEST_MARK)
        .skip(1)
        .filter_map(|item| item[..length_of_item(item)].strip_suffix(';')?.split_once("mod "))
        .map(|(_, name)| format!("{folder}/{}", name.trim()))
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Leaves out what is inside comments, strings and character literals, and keeps every line break.
pub(crate) fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = length_of_prose(rest, code.chars().next_back());
        if skipped == 0 {
            code.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            code.push(' ');
            code.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
            rest = &rest[skipped..];
        }
    }
    code
}

/// Bytes of the comment, string or character literal that starts here; 0 for code. `before` is the last character of code.
fn length_of_prose(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return length_of_block_comment(rest);
    }
    if rest.starts_with('"') {
        return length_of_quoted(rest, '"');
    }
    if rest.starts_with('\'') {
        return length_of_character(rest);
    }
    let is_inside_a_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if is_inside_a_word { 0 } else { length_of_raw_string(rest) }
}

/// Block comments nest.
fn length_of_block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn length_of_quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if !is_escaped && c == quote {
            return at + 1;
        }
        is_escaped = !is_escaped && c == '\\';
    }
    rest.len()
}

/// `'x'` and `'\n'` are characters; `'static` is a lifetime, thus code.
fn length_of_character(rest: &str) -> usize {
    let mut inside = rest.chars().skip(1);
    let first = inside.next();
    if first == Some('\\') || inside.next() == Some('\'') { length_of_quoted(rest, '\'') } else { 0 }
}

/// `r"…"`, `r#"…"#` and the same after `b` or `c`.
fn length_of_raw_string(rest: &str) -> usize {
    let unprefixed = rest.trim_start_matches(['b', 'c']);
    let Some(after_r) = unprefixed.strip_prefix('r') else { return 0 };
    let body = after_r.trim_start_matches('#');
    if rest.len() - unprefixed.len() > 1 || !body.starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(after_r.len() - body.len()));
    let start = rest.len() - body.len() + 1;
    rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
}

/// The code without the items that stand under `#[cfg(test)]`. Takes code without prose.
pub(crate) fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(TEST_MARK) {
        kept.push_str(&rest[..at]);
        let item = &rest[at + TEST_MARK.len()..];
        let item_length = length_of_item(item);
        kept.extend(item[..item_length].chars().filter(|c| *c == '\n'));
        rest = &item[item_length..];
    }
    kept + rest
}

/// Bytes up to the `;` or the closing brace that ends the item at the start of `code`.
fn length_of_item(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' | ')' | ']' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Numbers of the lines (from 1) where `word` stands by itself in the code.
pub(crate) fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let has_word = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next())
        })
    };
    code.lines().enumerate().filter(|(_, line)| has_word(line)).map(|(at, _)| at + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::{code_of, lines_with_word, test_modules, without_tests};

    fn check(text: &str, code: &str) {
        assert_eq!(code_of(text).split_whitespace().collect::<Vec<_>>().join(" "), code, "of {text:?}");
    }

    #[test]
    fn comments_strings_and_characters_are_not_code() {
        check("a // unsafe\nb", "a b");
        check("a /* unsafe /* nested */ unsafe */ b", "a b");
        check(r#"a("un\"safe", b)"#, "a( , b)");
        check("a(r\"unsafe\\\", b)", "a( , b)");
        check("a(br##\"un\"#safe\"##, b)", "a( , b)");
        check(r"a('\'', '{', '\u{7d}')", "a( , , )");
        check("a::<'static>('x')", "a::<'static>( )");
        check("for r in bar {}", "for r in bar {}");
        check("let r#type = \"é\";", "let r#type = ;");
    }

    #[test]
    fn lines_keep_their_numbers() {
        assert_eq!(lines_with_word(&code_of("/* 1\n2 */\n\"\n\"; unsafe {}"), "unsafe"), [4]);
    }

    #[test]
    fn a_word_is_found_only_whole() {
        assert_eq!(lines_with_word("unsafe_code\nis_unsafe\nunsafe{", "unsafe"), [3]);
    }

    #[test]
    fn items_under_cfg_test_are_left_out() {
        let code = "a();\n#[cfg(test)]\nuse b;\nc();\n#[cfg(test)]\nfn d(g: [u8; 4]) { e({ 1 }); }\nf();";
        assert_eq!(without_tests(code).split_whitespace().collect::<Vec<_>>(), ["a();", "c();", "f();"]);
    }

    #[test]
    fn modules_for_tests_alone_are_known_by_their_path() {
        let code = "mod a; #[cfg(test)] mod b; mod c; #[cfg(test)] mod d { mod e; }";
        assert_eq!(test_modules("crates/x/src/lib.rs", code), ["crates/x/src/b"]);
        assert_eq!(test_modules("crates/x/src/y.rs", code), ["crates/x/src/y/b"]);
    }
}
