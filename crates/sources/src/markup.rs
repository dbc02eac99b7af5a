//! Titles without markup.

/// Bytes of a heading whose markup is removed; a longer one stays as it is.
const HEADING_BYTES_MAX: usize = 1000;

/// The elements that headings have. Other names in angle brackets are text: `Vec<u8>`.
const TAGS: [&str; 18] = [
    "a", "b", "br", "code", "del", "em", "font", "i", "img", "kbd", "picture", "q", "s", "small", "span",
    "strong", "sub", "sup",
];

/// A heading of Markdown, or of markup like it, as a reader sees it: without emphasis, code marks, targets of links, tags and
/// attributes.
pub(crate) fn plain(heading: &str) -> String {
    if heading.len() > HEADING_BYTES_MAX {
        return heading.to_owned();
    }
    let heading = without_attributes(heading.trim());
    let mut shown = String::new();
    let mut rest = heading;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\\' if after.starts_with(|c: char| c.is_ascii_punctuation()) => {
                shown.extend(after.chars().next());
                &after[1..]
            }
            '`' => {
                let marks = rest.len() - rest.trim_start_matches('`').len();
                match rest[marks..].split_once(&rest[..marks]) {
                    Some((code, after)) => {
                        shown.push_str(code.trim());
                        after
                    }
                    None => {
                        shown.push_str(&rest[..marks]);
                        &rest[marks..]
                    }
                }
            }
            '!' if after.starts_with('[') => after,
            '[' => match link(rest) {
                Some((text, after)) => {
                    shown.push_str(&plain(text));
                    after
                }
                None => {
                    shown.push('[');
                    after
                }
            },
            '<' => match tag(rest) {
                Some((text, after)) => {
                    shown.push_str(text);
                    after
                }
                None => {
                    shown.push('<');
                    after
                }
            },
            '&' => match entity(rest) {
                Some((text, after)) => {
                    shown.push_str(text);
                    after
                }
                None => {
                    shown.push('&');
                    after
                }
            },
            '*' | '_' | '~' => {
                let run = rest.len() - rest.trim_start_matches(c).len();
                if !is_emphasis(c, run, &rest[run..], &shown, heading) {
                    shown.push_str(&rest[..run]);
                }
                &rest[run..]
            }
            _ => {
                shown.push(c);
                after
            }
        };
    }
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a run of `*`, `_` or `~` opens or closes emphasis: it touches a word, of which `_` is no part, and the heading has
/// more of these marks.
fn is_emphasis(mark: char, run: usize, after: &str, before: &str, heading: &str) -> bool {
    let touches_before = before.ends_with(|c: char| !c.is_whitespace());
    let touches_after = after.starts_with(|c: char| !c.is_whitespace());
    let is_in_word = before.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric);
    let mark_count = heading.matches(mark).count();
    match mark {
        '~' => run == 2 && mark_count >= 4,
        '_' => mark_count > run && (touches_before || touches_after) && !is_in_word,
        _ => mark_count > run && (touches_before || touches_after),
    }
}

/// The heading without `{#id .class}` at its end.
fn without_attributes(heading: &str) -> &str {
    let attributes =
        heading.strip_suffix('}').and_then(|open| open.rfind('{').map(|at| (at, &open[at + 1..])));
    match attributes {
        Some((at, inner)) if inner.trim_start_matches(':').trim().starts_with(['#', '.']) => {
            heading[..at].trim_end()
        }
        Some(_) | None => heading,
    }
}

/// The text of `[text](target)`, `[text][label]` or `[text]` before one of these, and what follows the link.
fn link(rest: &str) -> Option<(&str, &str)> {
    let end = closing(rest, '[', ']')?;
    let (text, after) = (&rest[1..end], &rest[end + 1..]);
    let after_target = match after.chars().next() {
        Some('(') => closing(after, '(', ')').map(|end| &after[end + 1..]),
        Some('[') => closing(after, '[', ']').map(|end| &after[end + 1..]),
        Some(_) | None => None,
    };
    after_target.map(|after| (text, after))
}

/// Where the bracket closes that `text` begins with.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// The shown text of a tag, which is empty, or of an address in angle brackets, and what follows it.
fn tag(rest: &str) -> Option<(&str, &str)> {
    let (inner, after) = rest[1..].split_once('>')?;
    if inner.contains("://") || inner.contains('@') && !inner.contains(' ') {
        return Some((inner, after));
    }
    let name = inner.trim_start_matches('/');
    let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
    let is_tag = inner.starts_with("!--") || TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(name));
    is_tag.then_some(("", after))
}

fn entity(rest: &str) -> Option<(&str, &str)> {
    let entities =
        [("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " ")];
    entities.iter().find_map(|(name, text)| Some((*text, rest.strip_prefix(name)?)))
}

#[cfg(test)]
mod tests {
    use super::{HEADING_BYTES_MAX, plain};

    #[test]
    fn headings_are_shown_without_markup() {
        for (heading, shown) in [
            ("Plain, 2 * 3 * 4 and a_b_c", "Plain, 2 * 3 * 4 and a_b_c"),
            ("**Bold** and *emphasis*, __both__ _too_", "Bold and emphasis, both too"),
            ("`snake_case` and ``a ` b``", "snake_case and a ` b"),
            ("[Link *text*](https://example.org/a_(b)) end", "Link text end"),
            ("[Label][ref] [not a link] [ ]", "Label [not a link] [ ]"),
            ("![logo](logo.png) Name [![badge](b.svg)](ci)", "logo Name badge"),
            ("Install {#install .big}", "Install"),
            ("Use {braces}", "Use {braces}"),
            ("<a name=\"x\"></a>Anchors <https://example.org>", "Anchors https://example.org"),
            ("Vec<u8> a < b &amp; c<sup>2</sup><BR/><!-- d -->", "Vec<u8> a < b & c2"),
            (r"\*Not emphasis\* C\#", "*Not emphasis* C#"),
            ("~~old~~ new ~ x", "old new ~ x"),
            ("__init__.py and *args, 5*", "init.py and args, 5"),
            ("`open", "`open"),
            ("a **b", "a **b"),
            ("[a](b", "[a](b"),
            ("***", "***"),
        ] {
            assert_eq!(plain(heading), shown, "{heading}");
        }
        let (nested, long) = ("[".repeat(HEADING_BYTES_MAX), "*a ".repeat(HEADING_BYTES_MAX));
        assert_eq!(plain(&nested), nested);
        assert_eq!(plain(&long), long);
    }
}
