//! How a query is read: what it may mean depends on the documents that exist for the caller.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use weir_policy::Caller;
use weir_query::{Reading, Vocabulary};
use weir_ranking::{Selection, Visible};
use weir_text::Language;

use super::known_fields::KnownFields;
use crate::Result;
use crate::embedded::Embedded;
use crate::embedded::snapshot::Snapshot;
use crate::search::TITLE;

impl Embedded {
    /// Reads a query if that needs nothing but its text and the language.
    pub(crate) fn read_query_alone(&self, text: &str) -> Option<Reading> {
        let vocabulary = LanguageOnly { language: self.settings().language, is_sufficient: Cell::new(true) };
        let reading = weir_query::parse_auto(text, &vocabulary);
        vocabulary.is_sufficient.get().then_some(reading)
    }

    /// See [`crate::Engine::read_query`]. Blocking, and not limited.
    pub fn read_query(&self, caller: &Caller, text: &str) -> Result<Reading> {
        let snapshot = self.snapshot();
        let existing =
            caller.filter.as_ref().map(|filter| self.inner.existing.of(&snapshot, filter)).transpose()?;
        let own = existing.as_ref().map(|existing| &*existing.selection);
        let vocabulary = CallerVocabulary {
            snapshot: &snapshot,
            own,
            known_fields: KnownFields::new(&snapshot, own),
            fields: RefCell::default(),
            language: self.settings().language,
            failure: RefCell::new(Ok(())),
        };
        let reading = weir_query::parse_auto(text, &vocabulary);
        let failure = vocabulary.failure.into_inner();
        snapshot.check()?;
        failure.map(|()| reading)
    }
}

/// Whether the word is a function word of the collection's language, or of English, whose `AND` and `NOT` the operators are.
fn is_stop_word(word: &str, language: Language) -> bool {
    weir_text::is_stop_word(word, language) || weir_text::is_stop_word(word, Language::English)
}

/// The vocabulary of a language, which notes when documents are asked for.
struct LanguageOnly {
    language: Language,
    is_sufficient: Cell<bool>,
}

impl Vocabulary for LanguageOnly {
    fn has_field(&self, name: &str) -> bool {
        if name != TITLE {
            self.is_sufficient.set(false);
        }
        true
    }

    fn has_option(&self, _: &str, _: &str) -> bool {
        self.is_sufficient.set(false);
        false
    }

    fn is_stop_word(&self, word: &str) -> bool {
        is_stop_word(word, self.language)
    }
}

/// The vocabulary of the documents that exist for a caller.
struct CallerVocabulary<'a> {
    snapshot: &'a Snapshot,
    /// The chunks that pass the caller's mandatory filter.
    own: Option<&'a Selection>,
    known_fields: KnownFields<'a>,
    /// The fields asked for so far, and whether they are known.
    fields: RefCell<HashMap<String, bool>>,
    language: Language,
    /// The last error of reading the index.
    failure: RefCell<Result<()>>,
}

impl Vocabulary for CallerVocabulary<'_> {
    fn has_field(&self, name: &str) -> bool {
        let mut fields = self.fields.borrow_mut();
        *fields.entry(name.to_owned()).or_insert_with(|| self.known_fields.has(name))
    }

    fn has_option(&self, before: &str, option: &str) -> bool {
        let existing = Visible { tombstones: &self.snapshot.tombstones, selection: self.own };
        let text_of = |chunk_id| self.snapshot.title_and_text(chunk_id);
        match self.snapshot.lexical.has_option(before, option, existing, &text_of) {
            Ok(has_option) => has_option,
            Err(error) => {
                *self.failure.borrow_mut() = Err(error.into());
                false
            }
        }
    }

    fn is_stop_word(&self, word: &str) -> bool {
        is_stop_word(word, self.language)
    }
}
