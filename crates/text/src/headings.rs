//! Headings of Markdown, the sections below them, and the trail of headings above a chunk.

use std::ops::Range;

/// Blanks before a heading or a fence, at most: more make a block of code.
const INDENT_MAX: usize = 3;
const LEVEL_MAX: usize = 6;
/// Fewest characters of an underline that makes the line above it a heading.
const UNDERLINE_MIN: usize = 3;
/// Fewest characters of a fence around code.
const FENCE_MIN: usize = 3;

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Heading {
    /// 1 is the outermost.
    level: usize,
    /// The first byte of its line that is no blank.
    start: usize,
    /// The end of its last line.
    end: usize,
    /// Its words.
    words: Range<usize>,
}

/// The sections of a text as spans that tile it: each begins with a heading, but the first may begin without one. A heading directly above a
/// deeper one is in the same section.
pub(crate) fn sections(text: &str) -> Vec<Range<usize>> {
    let mut starts = vec![0];
    let mut before: Option<Heading> = None;
    for heading in headings(text) {
        let is_below = before.is_some_and(|before| {
            before.level < heading.level && text[before.end..heading.start].trim().is_empty()
        });
        if !is_below && heading.start > 0 {
            starts.push(heading.start);
        }
        before = Some(heading);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// For each chunk, the spans of the headings that it stands under, outermost first: not those that the chunk itself begins with.
///
/// `chunks` are spans of `text` in the order of their begin.
pub fn heading_trails(text: &str, chunks: &[Range<usize>]) -> Vec<Vec<Range<usize>>> {
    let mut headings = headings(text).into_iter().peekable();
    let mut open: Vec<Heading> = Vec::new();
    let mut trail_at = |at: usize| {
        while let Some(heading) = headings.next_if(|heading| heading.start < at) {
            open.retain(|outer| outer.level < heading.level);
            open.push(heading);
        }
        let own = headings.peek().filter(|next| text[at..next.start.max(at)].trim().is_empty());
        let deepest = own.map_or(LEVEL_MAX, |own| own.level - 1);
        let is_above = |heading: &&Heading| {
            heading.level <= deepest && heading.words.end <= at && !heading.words.is_empty()
        };
        let above = open.iter().filter(is_above);
        above.map(|heading| heading.words.clone()).collect()
    };
    chunks.iter().map(|chunk| trail_at(chunk.start)).collect()
}

/// The headings of a text, in order: lines that begin with `#`, and lines that are underlined with `=` or `-`. Code between fences has none.
fn headings(text: &str) -> Vec<Heading> {
    let mut found = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    // the only line of a paragraph so far, which may be underlined
    let (mut line_before, mut is_after_blank): (Option<Range<usize>>, bool) = (None, true);
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let (at, line) = (start, whole.trim_end_matches(['\n', '\r']));
        start += whole.len();
        let marks = fence_of(line);
        if let Some((mark, length)) = fence {
            let ends =
                marks.is_some_and(|(own, count, rest)| own == mark && count >= length && rest.is_empty());
            fence = fence.filter(|_| !ends);
            continue;
        }
        if let Some((mark, length, rest)) = marks
            && !(mark == '`' && rest.contains('`'))
        {
            fence = Some((mark, length));
            (line_before, is_after_blank) = (None, true);
            continue;
        }
        let end = at + line.len();
        if let Some((level, words)) = hash_heading(line) {
            let (start, words) = (end - line.trim_start().len(), at + words.start..at + words.end);
            found.push(Heading { level, start, end, words });
            (line_before, is_after_blank) = (None, true);
        } else if let Some((words, level)) = line_before.take().zip(underline_level(line)) {
            let blanks = words.len() - text[words.clone()].trim_start().len();
            let words = words.start + blanks..words.start + text[words.clone()].trim_end().len();
            found.push(Heading { level, start: words.start, end, words });
            is_after_blank = true;
        } else {
            let is_blank = line.trim().is_empty();
            let may_be_underlined =
                is_after_blank && !is_blank && !line.starts_with(['-', '*', '|', '>', '\t']);
            line_before = may_be_underlined.then_some(at..end);
            is_after_blank = is_blank;
        }
    }
    found
}

/// The text after up to three blanks.
fn indented(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ');
    (line.len() - rest.len() <= INDENT_MAX).then_some(rest)
}

/// The character, the length and the rest of a line that begins or ends code.
fn fence_of(line: &str) -> Option<(char, usize, &str)> {
    let rest = indented(line)?;
    let mark = rest.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let after = rest.trim_start_matches(mark);
    let length = rest.len() - after.len();
    (length >= FENCE_MIN).then(|| (mark, length, after.trim()))
}

/// The level of a heading that begins with `#`, and where its words are in the line.
fn hash_heading(line: &str) -> Option<(usize, Range<usize>)> {
    let marked = indented(line)?;
    let rest = marked.trim_start_matches('#');
    let level = marked.len() - rest.len();
    if !(1..=LEVEL_MAX).contains(&level) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let words = rest.trim();
    // a closing sequence of `#` stands behind a blank
    let open = words.trim_end_matches('#');
    let words = if open.is_empty() || open.ends_with([' ', '\t']) { open.trim_end() } else { words };
    let from = line.len() - rest.trim_start().len();
    let from = if words.is_empty() { line.len() } else { from };
    Some((level, from..from + words.len()))
}

/// The level of a heading whose underline this is.
fn underline_level(line: &str) -> Option<usize> {
    let rule = indented(line)?.trim_end();
    let is_of = |mark: char| rule.len() >= UNDERLINE_MIN && rule.chars().all(|c| c == mark);
    if is_of('=') {
        return Some(1);
    }
    is_of('-').then_some(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: level and words of each heading.
    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let found = headings(text);
        let found: Vec<_> = found.iter().map(|one| (one.level, &text[one.words.clone()])).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn headings_begin_with_hashes_or_are_underlined() {
        check("# A b\n##  C ##\n### D#\r\n#\n", &[(1, "A b"), (2, "C"), (3, "D#"), (1, "")]);
        check("   # A\n    # code\n\t# code\n", &[(1, "A")]);
        check("#A\n####### B\n#5 is\n", &[]);
        check("Title\n=====\n\nPart\n---\nText", &[(1, "Title"), (2, "Part")]);
        check("two\nlines\n---\n", &[]);
        check("a | b\n---|---\n\n- item\n---\n\n--\n\n---\n", &[]);
        check("", &[]);
    }

    #[test]
    fn code_between_fences_has_no_headings() {
        check("```sh\n# comment\n~~~\n```\n# A", &[(1, "A")]);
        check("~~~~\n# comment\n~~~\n# more\n~~~~ \n# A", &[(1, "A")]);
        check("```\n# never closed", &[]);
        check("```inline``` code\n# A", &[(1, "A")]);
    }

    #[test]
    fn sections_begin_with_headings_and_tile_the_text() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<&str> = sections(text).into_iter().map(|span| &text[span]).collect();
            assert_eq!(found, expected);
        };
        check("x\n# A\n\n## B\ny\n## C\n# D\n", &["x\n", "# A\n\n## B\ny\n", "## C\n", "# D\n"]);
        check("# A\nx", &["# A\nx"]);
        check("x", &["x"]);
    }

    #[test]
    fn a_trail_has_the_headings_above_a_chunk_and_not_its_own() {
        let text = "# A\n\nx\n\n## B\n\ny\n\nz\n\n#### C\n\nw\n\n# D\n\n## E\n\nv";
        let at = |part: &str| text.find(part).unwrap();
        let trails = |parts: &[&str]| {
            let chunks: Vec<_> = parts.iter().map(|part| at(part)..text.len()).collect();
            let trails = heading_trails(text, &chunks);
            let words = |trail: &Vec<Range<usize>>| trail.iter().map(|span| &text[span.clone()]).collect();
            trails.iter().map(words).collect::<Vec<Vec<&str>>>()
        };
        assert_eq!(trails(&["# A", "x", "## B", "z"]), [vec![], vec!["A"], vec!["A"], vec!["A", "B"]]);
        assert_eq!(
            trails(&["#### C", "w", "# D", "v"]),
            [vec!["A", "B"], vec!["A", "B", "C"], vec![], vec!["D", "E"]]
        );
    }
}
