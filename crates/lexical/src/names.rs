//! Documents by their names: whole titles and whole ids, and the words that they begin with.
//!
//! The first chunk of each document is indexed under the normalised forms of its title and its id, each as one term. A query that
//! is the name of a document is thus found by one look-up, however often its words occur elsewhere; names that begin with it follow
//! it in the order of the terms.

use std::collections::HashSet;

use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet as _, TERMINATED};
use weir_ranking::Visible;
use weir_text::Language;

use super::LexicalView;
use crate::{LexicalError, Result};

/// Longer names are not indexed, in bytes: nobody types them.
const NAME_BYTES_MAX: usize = 200;
/// Documents with equal names, and those whose names begin with the query, at most.
const NAMED_MAX: usize = 64;
/// Names looked at per segment: of documents that exist for the caller.
const NAMES_SCANNED_MAX: usize = 256;
/// Names read per segment, those of hidden documents included.
const NAMES_READ_MAX: usize = 100_000;

/// A document whose name is the query, or begins with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedDocument {
    /// Its first chunk.
    pub chunk_id: u32,
    /// The query's length as a share of the name's; 1 for the whole name.
    pub share: f32,
}

/// The words of a title, an id or a query in lower case, separated by single spaces; `None` without a word, and for long ones.
pub fn normalised(name: &str) -> Option<String> {
    // analysis lengthens no text much
    if name.len() > 2 * NAME_BYTES_MAX {
        return None;
    }
    let mut words = String::new();
    weir_text::analyse(name, Language::None, |token| {
        if !token.is_word {
            return;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(token.text);
    });
    (!words.is_empty() && words.len() <= NAME_BYTES_MAX).then_some(words)
}

impl LexicalView {
    /// The visible documents whose title or id is the query or begins with its words, those with the whole name first. With
    /// `is_prefix` the last word may be the beginning of a word. `visible` are some of the chunks that exist for the caller.
    pub fn named(
        &self,
        query: &str,
        is_prefix: bool,
        visible: Visible<'_>,
        existing: Visible<'_>,
    ) -> Result<Vec<NamedDocument>> {
        let Some(name) = normalised(query) else { return Ok(Vec::new()) };
        let found = self.with_names(&name, is_prefix, visible, existing);
        let mut found = found.map_err(LexicalError::during("search"))?;
        found.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.chunk_id.cmp(&b.chunk_id)));
        // a title and an id may both fit
        let mut known = HashSet::new();
        found.retain(|document| known.insert(document.chunk_id));
        found.truncate(NAMED_MAX);
        Ok(found)
    }

    fn with_names(
        &self,
        name: &str,
        is_prefix: bool,
        visible: Visible<'_>,
        existing: Visible<'_>,
    ) -> tantivy::Result<Vec<NamedDocument>> {
        // names consist of words and spaces; a space precedes `!`, which precedes each letter, digit, mark and symbol of words
        let end = if is_prefix { format!("{name}{}", char::MAX) } else { format!("{name}!") };
        let mut found = Vec::new();
        for segment in self.searcher.segment_readers() {
            let index = segment.inverted_index(self.fields.name)?;
            let chunk_ids = self.chunk_ids.get(segment).unwrap_or_default();
            let mut names = index.terms().range().ge(name).lt(&end).into_stream()?;
            let (mut scanned, mut read, mut leading) = (0, 0, 0);
            while scanned < NAMES_SCANNED_MAX
                && read < NAMES_READ_MAX
                && leading < NAMED_MAX
                && names.advance()
            {
                read += 1;
                // all names exist without a mandatory filter
                let mut exists = existing.selection.is_none();
                let before = found.len();
                let share = name.len() as f32 / names.key().len() as f32;
                let mut postings =
                    index.read_postings_from_terminfo(names.value(), IndexRecordOption::Basic)?;
                while postings.doc() != TERMINATED && found.len() - before < NAMED_MAX {
                    let chunk_id = chunk_ids[postings.doc() as usize];
                    if !segment.is_deleted(postings.doc()) && visible.contains(chunk_id) {
                        found.push(NamedDocument { chunk_id, share });
                    }
                    exists = exists || existing.contains(chunk_id);
                    postings.advance();
                }
                if share < 1.0 && exists {
                    scanned += 1;
                    leading += found.len() - before;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_by_their_words() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(normalised(name).as_deref(), expected);
        check("LibSSL-dev", Some("libssl dev"));
        check("docs/The_Weir.md", Some("docs the weir md"));
        check("Python3 C++", Some("python3 c++"));
        check("  ", None);
        check("?!", None);
        let longest = "weir ".repeat(NAME_BYTES_MAX / 5);
        check(&longest, Some(longest.trim_end()));
        check(&format!("{longest}dam"), None);
        check(&"a ".repeat(100_000), None);
    }
}
