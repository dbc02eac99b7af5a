//! Headings: the lines that the outline of the file names, else short lines with large letters.

use crate::pdf::outline::Entry;
use crate::pdf::text::{TextLine, TextPage};
use std::collections::HashMap;

/// Lines that one heading may have.
const LINES_MAX: usize = 3;

/// Bytes of a heading that is found by its size.
const BYTES_MAX: usize = 200;

/// The size of a heading in sizes of the text.
const SIZE_MIN: f32 = 1.15;

/// Deepest level of a heading that is found by its size.
const LEVELS: usize = 4;

/// Characters of a number before the title of the outline: `12.3 `.
const NUMBER_MAX: usize = 10;

/// Fewest headings by which an outline is taken as complete.
const OUTLINE_MIN: usize = 2;

/// A heading, which begins with the line under whose place it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heading {
    /// From 1.
    pub(super) level: usize,
    pub(super) lines: usize,
}

/// The headings of a file, by page and line.
pub(super) type Headings = HashMap<(usize, usize), Heading>;

/// The headings of all pages.
pub(super) fn headings(pages: &[TextPage], outline: &[Entry], body_size: f32) -> Headings {
    let of_outline = by_outline(pages, outline);
    if of_outline.len() >= OUTLINE_MIN { of_outline } else { by_size(pages, body_size) }
}

fn by_outline(pages: &[TextPage], outline: &[Entry]) -> Headings {
    let mut headings = Headings::new();
    let mut letters: Option<(usize, Vec<String>)> = None;
    for entry in outline {
        let Some(page) = pages.get(entry.page) else { continue };
        if letters.as_ref().is_none_or(|(at, _)| *at != entry.page) {
            letters = Some((entry.page, page.lines.iter().map(|line| letters_of(&line.text)).collect()));
        }
        let Some((_, lines)) = &letters else { continue };
        let title = letters_of(&entry.title);
        let found = (0..lines.len()).find_map(|at| {
            let is_free = !headings.contains_key(&(entry.page, at));
            lines_of_title(&title, lines.get(at..)?).filter(|_| is_free).map(|count| (at, count))
        });
        if let Some((at, lines)) = found {
            headings.insert((entry.page, at), Heading { level: entry.level.clamp(1, 6), lines });
        }
    }
    headings
}

/// The number of lines at the start of `lines` that are the title, maybe after a number.
fn lines_of_title(title: &str, lines: &[String]) -> Option<usize> {
    if title.is_empty() {
        return None;
    }
    let mut joined = String::new();
    for (count, line) in lines.iter().take(LINES_MAX).enumerate() {
        joined.push_str(line);
        if joined.len() > title.len() + NUMBER_MAX {
            return None;
        }
        if let Some(number) = joined.strip_suffix(title)
            && is_number(number)
        {
            return Some(count + 1);
        }
    }
    None
}

/// Whether letters before a title are its number, as `12`, `a1`, `chapter3`, `iv`.
fn is_number(letters: &str) -> bool {
    let digits =
        letters.strip_prefix("chapter").or_else(|| letters.strip_prefix("appendix")).unwrap_or(letters);
    let is_short_word = digits.chars().count() <= 2;
    is_short_word || digits.chars().all(|character| character.is_numeric() || "ivxlc".contains(character))
}

fn letters_of(text: &str) -> String {
    text.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn by_size(pages: &[TextPage], body_size: f32) -> Headings {
    let mut found = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let mut at = 0;
        while at < page.lines.len() {
            let lines = lines_of_heading(page.lines.get(at..).unwrap_or_default(), body_size);
            if (1..=LINES_MAX).contains(&lines)
                && is_heading(page.lines.get(at..at + lines).unwrap_or_default())
            {
                let size = page.lines.get(at).map_or(0, |line| half_points(line.size));
                found.push(((number, at), size, lines));
            }
            at += lines.max(1);
        }
    }
    let mut sizes: Vec<i32> = found.iter().map(|&(_, size, _)| size).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let level =
        |size: i32| sizes.iter().position(|&other| other == size).map_or(1, |rank| (rank + 1).min(LEVELS));
    found.into_iter().map(|(place, size, lines)| (place, Heading { level: level(size), lines })).collect()
}

fn half_points(size: f32) -> i32 {
    (size * 2.0).round() as i32
}

/// The number of lines at the start of `lines` with the same large letters and no paragraph between them.
fn lines_of_heading(lines: &[TextLine], body_size: f32) -> usize {
    let Some(first) = lines.first().filter(|first| first.size >= SIZE_MIN * body_size && first.is_upright())
    else {
        return 0;
    };
    let mut last = first;
    let more = lines.iter().skip(1).take_while(|line| {
        let step = line.y1 - last.y1;
        let goes_on = line.is_upright()
            && half_points(line.size) == half_points(first.size)
            && step > 0.0
            && step < 1.6 * line.size;
        last = line;
        goes_on
    });
    1 + more.count()
}

fn is_heading(lines: &[TextLine]) -> bool {
    let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
    let letters = lines
        .iter()
        .flat_map(|line| line.text.chars())
        .filter(|character| character.is_alphabetic())
        .take(2)
        .count();
    let cells = lines.iter().map(|line| line.text.matches('\t').count()).max().unwrap_or(0);
    let is_sentence = lines.last().is_some_and(|line| line.text.ends_with(['.', ',', ';'])) && bytes > 40;
    bytes <= BYTES_MAX && letters == 2 && cells <= 1 && !is_sentence
}
