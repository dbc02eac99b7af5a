//! Adapter of our text analysis to Tantivy's tokenizer interface.

use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer};
use weir_text::{Analyser, Language};

/// The tokenizer's name in the schema.
pub(super) const TOKENIZER: &str = "weir";

/// The tokenizer for a language.
pub(super) fn tokenizer(language: Language) -> TextAnalyzer {
    TextAnalyzer::from(Adapter::new(language))
}

/// Analyses a whole text at once; the buffers are reused for the next text.
struct Adapter {
    language: Language,
    analyser: Analyser,
    /// All terms of the text, one after the other.
    terms: String,
    /// End of each term in `terms`, and its position in the text.
    ends: Vec<(usize, usize)>,
    token: Token,
}

impl Adapter {
    fn new(language: Language) -> Adapter {
        Adapter {
            language,
            analyser: Analyser::new(language),
            terms: String::new(),
            ends: Vec::new(),
            token: Token::default(),
        }
    }
}

impl Clone for Adapter {
    fn clone(&self) -> Adapter {
        Adapter::new(self.language)
    }
}

impl Tokenizer for Adapter {
    type TokenStream<'a> = Terms<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Terms<'a> {
        self.terms.clear();
        self.ends.clear();
        self.token.reset();
        let (terms, ends) = (&mut self.terms, &mut self.ends);
        self.analyser.analyse(text, |token| {
            terms.push_str(token.text);
            ends.push((terms.len(), token.position));
        });
        Terms { terms: &self.terms, ends: &self.ends, start: 0, token: &mut self.token }
    }
}

/// The terms of one text. Offsets are not set: the index does not store them.
struct Terms<'a> {
    terms: &'a str,
    ends: &'a [(usize, usize)],
    start: usize,
    token: &'a mut Token,
}

impl TokenStream for Terms<'_> {
    fn advance(&mut self) -> bool {
        let Some((&(end, position), rest)) = self.ends.split_first() else { return false };
        self.token.text.clear();
        self.token.text.push_str(&self.terms[self.start..end]);
        self.token.position = position;
        self.ends = rest;
        self.start = end;
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
