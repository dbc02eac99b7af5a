//! Options of commands in texts: words with a hyphen before them, as in `find -name`.

use tantivy::Term;
use tantivy::query::{BooleanQuery, Query as Matcher, TermQuery};
use tantivy::schema::IndexRecordOption;
use weir_ranking::Visible;

use super::LexicalView;
use crate::{LexicalError, Result};

/// Words before an option, nearest first, one of which a text must have.
const WORDS_BEFORE: usize = 4;
/// Maximum number of texts that are read for an option, first those that were added first.
const TEXTS_MAX: usize = 256;

impl LexicalView {
    /// Whether an existing chunk has `-option`, hyphen included, and one of the last words of `before` that are no stop words.
    /// `text_of` reads title and text of a chunk.
    pub fn has_option(
        &self,
        before: &str,
        option: &str,
        existing: Visible<'_>,
        text_of: &dyn Fn(u32) -> Option<String>,
    ) -> Result<bool> {
        let mut words = weir_text::query_terms(before, self.language, None).terms;
        let words = words.split_off(words.len().saturating_sub(WORDS_BEFORE));
        let option_terms = weir_text::sequence(option, self.language);
        if words.is_empty() || option_terms.is_empty() {
            return Ok(false);
        }
        let term = |text: &str| -> Box<dyn Matcher> {
            let term = Term::from_field_text(self.fields.text, text);
            Box::new(TermQuery::new(term, IndexRecordOption::Basic))
        };
        let any_word = BooleanQuery::union(words.iter().map(|word| term(&word.text)).collect());
        let mut needed: Vec<Box<dyn Matcher>> = option_terms.iter().map(|text| term(text)).collect();
        needed.push(Box::new(any_word));
        let matching = self.matching(&BooleanQuery::intersection(needed), existing.tombstones.len());
        let matching = matching.map_err(LexicalError::during("search"))?;
        let existing = matching.chunk_ids().filter(|chunk_id| existing.contains(*chunk_id));
        Ok(existing.take(TEXTS_MAX).filter_map(text_of).any(|text| contains_option(&text, option)))
    }
}

/// Whether the text has the word behind a hyphen that begins a word.
fn contains_option(text: &str, option: &str) -> bool {
    // groff prints U+2010 and U+2212 in manual pages
    let is_hyphen = |c: char| matches!(c, '-' | '\u{2010}' | '\u{2011}' | '\u{2212}');
    text.match_indices(option).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + option.len()..]);
        let begins =
            before.strip_suffix(is_hyphen).is_some_and(|before| !before.ends_with(char::is_alphanumeric));
        begins && !after.starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::contains_option;

    #[test]
    fn an_option_is_a_whole_word_behind_a_hyphen() {
        let check =
            |text: &str, is_option: bool| assert_eq!(contains_option(text, "name"), is_option, "{text}");
        check("find . -name x", true);
        check("-name", true);
        check("`-name`, **-name**, [-name]", true);
        check("find --name", true);
        check("find \u{2212}name", true);
        check("find name", false);
        check("first-name", false);
        check("-names -rename -Name", false);
        check("größe-name -n ame", false);
    }
}
