//! The title of a text: its first heading, by the rules of its markup.

use super::kinds::Heading;
use super::markup::plain;

/// The first heading of `text`.
pub(crate) fn first_heading(heading: Heading, text: &str) -> Option<String> {
    match heading {
        Heading::None => None,
        Heading::Markdown => markdown(text),
        Heading::RestructuredText => restructured_text(text),
        Heading::AsciiDoc => asciidoc(text),
        Heading::Org => org(text),
    }
}

/// Columns by which a line of code is indented.
const CODE_INDENT: usize = 4;

/// The first heading outside code and comments: `# …` to `###### …`, or a line underlined with `=` or `-`.
fn markdown(text: &str) -> Option<String> {
    let mut fence: Option<Fence> = None;
    let mut is_comment = false;
    let mut above = "";
    for line in text.lines() {
        let text = line.trim();
        if let Some(open) = &fence {
            if open.is_closed_by(line) {
                fence = None;
            }
            continue;
        }
        is_comment |= text.starts_with("<!--");
        if is_comment {
            is_comment = !text.contains("-->");
            above = "";
            continue;
        }
        fence = Fence::opened_by(line);
        let is_code = fence.is_some() || indent_of(line) >= CODE_INDENT;
        if !is_code && let Some(heading) = marked(text).or_else(|| underlined(above, text)) {
            return Some(heading);
        }
        above = if is_code { "" } else { text };
    }
    None
}

/// The heading in `# …` to `###### …`.
fn marked(line: &str) -> Option<String> {
    let level = line.len() - line.trim_start_matches('#').len();
    let rest = line.get(level..).unwrap_or_default();
    if !(1..=6).contains(&level) || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let heading = plain(rest.trim().trim_end_matches('#'));
    (!heading.is_empty()).then_some(heading)
}

/// The line above a line of `=` or `-`, if it is a paragraph's.
fn underlined(above: &str, line: &str) -> Option<String> {
    let is_line =
        line.len() >= 2 && (line.bytes().all(|byte| byte == b'=') || line.bytes().all(|byte| byte == b'-'));
    let is_paragraph =
        !above.is_empty() && !above.starts_with(['>', '|']) && !is_list_item(above) && !is_underline(above);
    if !is_line || !is_paragraph {
        return None;
    }
    let heading = plain(above);
    (!heading.is_empty()).then_some(heading)
}

fn is_list_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = number.len() < line.len() && [". ", ") "].iter().any(|mark| number.starts_with(mark));
    is_numbered || ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
}

fn indent_of(line: &str) -> usize {
    let blank = &line[..line.len() - line.trim_start().len()];
    blank.chars().map(|c| if c == '\t' { CODE_INDENT } else { 1 }).sum()
}

/// An open code block: of at least three `` ` `` or `~`, which as many of the same close.
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Fence> {
        let text = line.trim();
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let after = text.trim_start_matches(mark);
        let length = text.len() - after.len();
        let is_fence = length >= 3 && indent_of(line) < CODE_INDENT && !(mark == '`' && after.contains('`'));
        is_fence.then_some(Fence { mark, length })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        text.len() >= self.length && text.chars().all(|c| c == self.mark) && indent_of(line) < CODE_INDENT
    }
}

/// The first line that is underlined, over its whole length, with one punctuation character.
fn restructured_text(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim_end);
    let mut pairs = lines.clone().zip(lines.skip(1));
    let is_title = |line: &str| !line.is_empty() && !line.starts_with([' ', '.']) && !is_underline(line);
    let found = pairs
        .find(|(line, below)| is_title(line) && is_underline(below) && below.len() >= line.chars().count());
    found.map(|(line, _)| plain(&without_roles(line)))
}

/// The line with the text alone of ``:role:`text <target>` ``.
fn without_roles(line: &str) -> String {
    let mut shown = String::new();
    for (index, piece) in line.split('`').enumerate() {
        let is_quoted = index % 2 == 1;
        let role = piece.rsplit_once(' ').map_or(piece, |(_, last)| last);
        let is_role = !is_quoted && role.len() > 2 && role.starts_with(':') && role.ends_with(':');
        shown.push_str(match (is_quoted, piece.rsplit_once(" <")) {
            (true, Some((text, target))) if target.ends_with('>') => text,
            _ if is_role => &piece[..piece.len() - role.len()],
            _ => piece,
        });
        shown.push('`');
    }
    shown.pop();
    shown.replace("`_", "`")
}

/// Whether a line repeats one punctuation character.
fn is_underline(line: &str) -> bool {
    let first = line.bytes().next();
    first.is_some_and(|first| first.is_ascii_punctuation() && line.bytes().all(|byte| byte == first))
}

/// The first line with `= …`, or with more of them.
fn asciidoc(text: &str) -> Option<String> {
    text.lines().find_map(|line| after_markers(line, '=')).map(|title| plain(&title))
}

/// The line `#+TITLE: …`, or the first with `* …`, or with more of them.
fn org(text: &str) -> Option<String> {
    const TITLE: &str = "#+title:";
    let keyword = text.lines().find_map(|line| {
        let (name, title) = line.trim().split_at_checked(TITLE.len())?;
        name.eq_ignore_ascii_case(TITLE).then(|| title.trim().to_owned())
    });
    let keyword = keyword.filter(|title| !title.is_empty());
    keyword.or_else(|| text.lines().find_map(|line| after_markers(line, '*')))
}

/// The text behind repeated markers and a space at the beginning of a line.
fn after_markers(line: &str, marker: char) -> Option<String> {
    let heading = line.trim_start_matches(marker);
    let is_heading = heading.len() < line.len() && heading.starts_with(' ') && !heading.trim().is_empty();
    is_heading.then(|| heading.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(heading: Heading, cases: &[(&str, Option<&str>)]) {
        for (text, expected) in cases {
            assert_eq!(first_heading(heading, text).as_deref(), *expected, "{text}");
        }
    }

    #[test]
    fn the_first_heading_is_found_in_both_forms_of_markdown() {
        check(
            Heading::Markdown,
            &[
                ("# A", Some("A")),
                ("intro\n```\n# no\n```\n## B ##\ntext", Some("B")),
                ("#hash\n\n###### B #", Some("B")),
                ("Title\n=====\ntext", Some("Title")),
                ("~~~\n```\n# no\n~~~\n\n# Yes", Some("Yes")),
                ("````\n```\n# no\n````x\n~~~~\n# no\n`````\n# Yes", Some("Yes")),
                ("``` a`b\n# Yes", Some("Yes")),
                ("    # code\n\t# code\n  # Yes", Some("Yes")),
                ("<!--\n# no\n-->\n<!-- # no -->\n# Yes", Some("Yes")),
                ("# [**A** `b`](c) {#d}", Some("A b")),
                ("Title\n---\ntext", Some("Title")),
                ("- item\n---\n1. item\n---\n> quote\n---\n\n---\n***\n---", None),
                ("# <a name=x></a>\n# Yes", Some("Yes")),
                ("====", None),
                ("####### seven", None),
                ("#", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn the_first_underlined_line_is_the_heading_of_restructured_text() {
        check(
            Heading::RestructuredText,
            &[
                (".. _label:\n\nTitle\n=====\n\nOther\n-----", Some("Title")),
                ("=======\n Über \n=======", None),
                ("====\nÜber\n====\ntext", Some("Über")),
                ("A long line\n---", None),
                (
                    ":mod:`os` -- ``a_b`` of `Python <https://python.org>`_\n===============================================================",
                    Some("os -- a_b of Python"),
                ),
                ("=====  =====\nA      B\n=====  =====", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn the_first_marked_line_is_the_heading_of_asciidoc_and_org() {
        check(
            Heading::AsciiDoc,
            &[(":toc:\n= Title\n== Part", Some("Title")), ("====\n== Part", Some("Part")), ("=x", None)],
        );
        check(
            Heading::Org,
            &[
                ("* Part\n#+title: Title", Some("Title")),
                ("#+TITLE:\n** Part", Some("Part")),
                ("*bold*", None),
                ("é", None),
            ],
        );
    }
}
