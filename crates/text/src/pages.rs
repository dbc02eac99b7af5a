//! The pages of a document's text, and the pages of a part of it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The pages of a text, in order: each begins where the one before ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageMap(Vec<PageEnd>);

/// The end of a page in the text, its label where that is not its number, and whether the place is estimated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PageEnd(u64, Option<String>, bool);

/// The pages on which a part of a text stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRange {
    /// The number of the first page, from 1.
    pub first: u64,
    /// The number of the last page.
    pub last: u64,
    /// The label of the first page, where that is not its number.
    pub label: Option<String>,
    /// Whether the place of one of the pages is estimated.
    pub is_approximate: bool,
    /// Offsets in the text at which the further pages begin.
    pub breaks: Vec<u64>,
}

impl PageMap {
    /// Pages from `(end, label, approximate)`. `None` without pages.
    pub fn new(pages: impl IntoIterator<Item = (u64, Option<String>, bool)>) -> Option<PageMap> {
        let pages: Vec<PageEnd> =
            pages.into_iter().map(|(end, label, approximate)| PageEnd(end, label, approximate)).collect();
        (!pages.is_empty()).then_some(PageMap(pages))
    }

    /// The end of each page, its label where that is not its number, and whether the place is estimated.
    pub fn ends(&self) -> impl Iterator<Item = (u64, Option<&str>, bool)> {
        self.0.iter().map(|page| (page.0, page.1.as_deref(), page.2))
    }

    /// The pages on which the bytes of `range` stand. `None` for an empty range and one behind the last page.
    pub fn locate(&self, range: Range<u64>) -> Option<PageRange> {
        if range.is_empty() {
            return None;
        }
        let first = self.0.partition_point(|page| page.0 <= range.start);
        let last = self.0.partition_point(|page| page.0 < range.end).min(self.0.len().checked_sub(1)?);
        let pages = self.0.get(first..=last)?;
        let (ends, _) = pages.split_at(pages.len().checked_sub(1)?);
        Some(PageRange {
            first: first as u64 + 1,
            last: last as u64 + 1,
            label: pages.first()?.1.clone(),
            is_approximate: pages.iter().any(|page| page.2),
            breaks: ends.iter().map(|page| page.0).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First page, last page, label, estimated, breaks.
    type Pages<'a> = (u64, u64, Option<&'a str>, bool, &'a [u64]);

    #[track_caller]
    fn check(range: Range<u64>, expected: Option<Pages<'_>>) {
        let page = |end, label: Option<&str>, approximate| (end, label.map(str::to_owned), approximate);
        let ends =
            [page(10, Some("iv"), false), page(20, None, false), page(20, None, false), page(30, None, true)];
        let found = PageMap::new(ends).unwrap().locate(range);
        let found = found.as_ref().map(|pages| {
            (pages.first, pages.last, pages.label.as_deref(), pages.is_approximate, pages.breaks.as_slice())
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_part_stands_on_the_pages_that_have_its_bytes() {
        check(0..10, Some((1, 1, Some("iv"), false, &[])));
        check(0..11, Some((1, 2, Some("iv"), false, &[10])));
        check(10..20, Some((2, 2, None, false, &[])));
        // the third page is empty
        check(20..25, Some((4, 4, None, true, &[])));
        check(5..25, Some((1, 4, Some("iv"), true, &[10, 20, 20])));
        check(29..40, Some((4, 4, None, true, &[])));
        check(30..40, None);
        check(7..7, None);
        assert_eq!(PageMap::new([]), None);
    }
}
