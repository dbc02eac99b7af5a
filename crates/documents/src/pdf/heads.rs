//! Running heads and page numbers: lines at the upper and lower end of pages that repeat.

use crate::pdf::text::{TextLine, TextPage};
use std::collections::{HashMap, HashSet};

/// Lines at each end of a page that may be running heads.
const CANDIDATES: usize = 2;

/// Least number of pages that have a running head,
const PAGES_MIN: usize = 3;

/// and the least share of them, as one of this number of pages.
const PAGES_SHARE: usize = 5;

/// Least share of the pages where a line with large letters is a running head: titles of slides repeat too.
const LARGE_SHARE: f32 = 0.6;

/// Words of a running head that differs from page to page by its numbers.
const NUMBERED_WORDS_MAX: usize = 10;

/// The part of a page that is margin.
const MARGIN: f32 = 0.08;

/// Distance of a running head in the page from the text, in its size.
const DISTANCE: f32 = 1.8;

/// A line without the numbers that differ from page to page, its size in half points, and whether it is at the upper end.
type Key = (String, i32, bool);

/// Removes running heads and page numbers.
pub(super) fn remove(pages: &mut [TextPage], body_size: f32) {
    if pages.len() < PAGES_MIN {
        return;
    }
    let mut counts: HashMap<Key, (usize, HashSet<String>)> = HashMap::new();
    for page in pages.iter() {
        let keys: HashMap<Key, &TextLine> =
            candidates(page).into_iter().map(|(at, is_top)| (&page.lines[at], is_top)).map(keyed).collect();
        for (key, line) in keys {
            let (count, texts) = counts.entry(key).or_default();
            *count += 1;
            if texts.len() < 2 {
                texts.insert(line.text.clone());
            }
        }
    }
    let all = pages.len();
    let is_head = |key: &Key, line: &TextLine| {
        let Some((count, texts)) = counts.get(key) else { return false };
        let is_large = line.size > 1.15 * body_size;
        let is_often = *count >= PAGES_MIN
            && count * PAGES_SHARE >= all
            && (!is_large || *count as f32 >= LARGE_SHARE * all as f32);
        is_often && (texts.len() == 1 || (is_short(&line.text) && !is_large))
    };
    for page in pages.iter_mut() {
        let heads: HashSet<usize> = candidates(page)
            .into_iter()
            .filter(|&(at, is_top)| {
                is_head(&keyed((&page.lines[at], is_top)).0, &page.lines[at]) && is_apart(page, at, is_top)
            })
            .map(|(at, _)| at)
            .collect();
        if heads.len() < page.lines.len() {
            let mut at = 0;
            page.lines.retain(|_| {
                at += 1;
                !heads.contains(&(at - 1))
            });
        }
    }
}

/// The lines at the ends of a page, by their place, and whether they are at the upper end.
fn candidates(page: &TextPage) -> Vec<(usize, bool)> {
    let mut order: Vec<usize> = (0..page.lines.len()).filter(|&at| page.lines[at].is_upright()).collect();
    order.sort_by(|&a, &b| page.lines[a].y1.total_cmp(&page.lines[b].y1));
    let top = order.iter().take(CANDIDATES).map(|&at| (at, true));
    let bottom = order
        .iter()
        .rev()
        .take(CANDIDATES.min(order.len().saturating_sub(CANDIDATES)))
        .map(|&at| (at, false));
    top.chain(bottom).collect()
}

fn keyed((line, is_top): (&TextLine, bool)) -> (Key, &TextLine) {
    ((without_numbers(&line.text), (line.size * 2.0).round() as i32, is_top), line)
}

/// The text with `#` for each number; a Roman number alone is a number too.
fn without_numbers(text: &str) -> String {
    let text = text.trim();
    if text.len() <= 8 && text.chars().all(|character| "ivxlcIVXLC".contains(character)) {
        return "#".to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_numeric() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(character),
        }
    }
    out
}

/// Whether a line that is not the same on all pages can be a running head and not a sentence.
fn is_short(text: &str) -> bool {
    text.split_whitespace().count() <= NUMBERED_WORDS_MAX
        && !(text.ends_with(['.', '!', '?']) && text.contains(' '))
}

/// Whether a line is in the margin, or has a distance from the text.
fn is_apart(page: &TextPage, at: usize, is_top: bool) -> bool {
    let line = &page.lines[at];
    let is_margin =
        if is_top { line.y1 < MARGIN * page.height } else { line.y0 > (1.0 - MARGIN) * page.height };
    let distance = |other: &TextLine| if is_top { other.y1 - line.y1 } else { line.y1 - other.y1 };
    let nearest = page
        .lines
        .iter()
        .map(distance)
        .filter(|&distance| distance > 0.5 * line.size)
        .fold(f32::MAX, f32::min);
    is_margin || nearest > DISTANCE * line.size
}
