//! The title of a text: its first heading, by the rules of its markup.

use super::kinds::Heading;

/// The first heading of `text`.
pub(super) fn first_heading(heading: Heading, text: &str) -> Option<String> {
    match heading {
        Heading::None => None,
        Heading::Markdown => markdown(text),
        Heading::RestructuredText => restructured_text(text),
        Heading::AsciiDoc => asciidoc(text),
        Heading::Org => org(text),
    }
}

/// The first heading outside code blocks: `# …` to `###### …`, or a line underlined with `=`.
fn markdown(text: &str) -> Option<String> {
    let mut is_code = false;
    let mut above = "";
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
        } else if !is_code {
            let level = line.len() - line.trim_start_matches('#').len();
            let rest = line.get(level..).unwrap_or_default();
            if (1..=6).contains(&level) && rest.starts_with([' ', '\t']) {
                let heading = rest.trim().trim_end_matches('#').trim();
                if !heading.is_empty() {
                    return Some(heading.to_owned());
                }
            } else if line.len() >= 2 && line.bytes().all(|byte| byte == b'=') && !above.is_empty() {
                return Some(above.to_owned());
            }
        }
        above = line;
    }
    None
}

/// The first line that is underlined, over its whole length, with one punctuation character.
fn restructured_text(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim_end);
    let mut pairs = lines.clone().zip(lines.skip(1));
    let is_title = |line: &str| !line.is_empty() && !line.starts_with([' ', '.']) && !is_underline(line);
    let found = pairs
        .find(|(line, below)| is_title(line) && is_underline(below) && below.len() >= line.chars().count());
    found.map(|(line, _)| line.to_owned())
}

/// Whether a line repeats one punctuation character.
fn is_underline(line: &str) -> bool {
    let first = line.bytes().next();
    first.is_some_and(|first| first.is_ascii_punctuation() && line.bytes().all(|byte| byte == first))
}

/// The first line with `= …`, or with more of them.
fn asciidoc(text: &str) -> Option<String> {
    text.lines().find_map(|line| after_markers(line, '='))
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

/// What follows repeated markers and a space at the beginning of a line.
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
