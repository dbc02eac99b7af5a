//! The pages of a document's text, as they are sent with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Result, require};

/// Most pages of a document.
const PAGES_MAX: usize = 100_000;
/// Most bytes of the label of a page.
const LABEL_BYTES_MAX: usize = 1_000;

/// A page of a document's text. It begins where the page before it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentPage {
    /// The offset in the text (bytes of UTF-8) at which the page ends. The last page ends with the text.
    pub end: u64,
    /// The label, such as `iv` or the name of a sheet; default: the number of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether the place is estimated; default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
}

/// Checks that pages tile a text.
pub(crate) fn check_pages(pages: &[DocumentPage], text: &str) -> Result<()> {
    let path = &["pages"];
    let count = pages.len();
    require((1..=PAGES_MAX).contains(&count), path, || {
        format!("`pages` has {count} pages; it must have 1 to {PAGES_MAX}, or be left out")
    })?;
    let mut before = 0;
    for (index, page) in pages.iter().enumerate() {
        let end = usize::try_from(page.end).unwrap_or(usize::MAX);
        let is_place = page.end >= before && text.is_char_boundary(end);
        require(is_place, path, || {
            format!(
                "page {} ends at {}; ends are byte offsets of characters in the text, from {before} to {}",
                index + 1,
                page.end,
                text.len()
            )
        })?;
        let bytes = page.label.as_ref().map_or(0, String::len);
        require(bytes <= LABEL_BYTES_MAX, path, || {
            format!("the label of page {} has {bytes} bytes; at most {LABEL_BYTES_MAX} are kept", index + 1)
        })?;
        before = page.end;
    }
    require(before == text.len() as u64, path, || {
        format!("the last page ends at {before}, and the text at {}; they must be equal", text.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_must_tile_the_text() {
        let check = |ends: &[u64], text: &str, is_right: bool| {
            let page = |end: &u64| DocumentPage { end: *end, label: None, approximate: false };
            let pages: Vec<DocumentPage> = ends.iter().map(page).collect();
            let result = check_pages(&pages, text);
            assert_eq!(result.is_ok(), is_right, "{ends:?} {text:?} {result:?}");
        };
        check(&[3], "abc", true);
        check(&[1, 1, 3], "abc", true);
        check(&[0, 3], "é.", true);
        check(&[0], "", true);
        check(&[], "abc", false);
        check(&[2], "abc", false);
        check(&[4], "abc", false);
        check(&[2, 1, 3], "abc", false);
        check(&[1, 3], "é.", false);
        check(&[u64::MAX], "abc", false);
    }
}
