//! The search language: what a person types into a search box, as a tree.
//!
//! ```text
//! solar panels                  words: any of them, ranked by how well they fit
//! "solar panel"                 a phrase            sol*             a prefix
//! title:solar                   a field             +solar -wind     needed, excluded (also NOT wind)
//! solar OR wind, a AND (b c)    upper case only; words side by side bind tighter than AND, AND tighter than OR
//! ```
//! Both parsers read a text alike, character by character; they differ in what they do about a mistake: [`parse`]
//! tells its position, [`parse_forgiving`] takes the piece as text. Nothing here knows the collection: which fields
//! exist ([`Query::with_fields`]) and what a word becomes (analysis) is decided by the caller.

mod error;
mod grammar;
mod lexer;
mod render;
#[cfg(test)]
mod tests;

pub use error::{SyntaxError, SyntaxProblem};

/// Parentheses within parentheses, at most.
pub const DEPTH_MAX: usize = 32;
/// Phrases, prefixes, fields and runs of words in one query, at most.
pub const CLAUSES_MAX: usize = 256;

/// A parsed query.
///
/// At most [`CLAUSES_MAX`] leaves, and never deeper than 3 × [`DEPTH_MAX`] + 4, so that it may be walked by recursion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// A bag of words as they stand in the query, punctuation included: a document needs any one of the terms that
    /// analysis makes of it, and more of them rank higher. May be without a term (`???`, stop words): see
    /// [`Boolean`](Query::Boolean).
    Words(String),
    /// Terms next to each other, in this order. One term is a phrase as well: `-well-known` excludes the phrase.
    Phrase(String),
    /// What stands before the `*`: the last term that analysis makes of it is the beginning of a word.
    Prefix(String),
    /// A value in one field.
    Field {
        /// The name before the colon, which may belong to no field: see [`Query::with_fields`].
        name: String,
        /// What the field must hold: `Words` (one word, as it stands), `Phrase` or `Prefix`.
        value: Box<Query>,
        /// The whole as it was typed, without a sign before it: `name:value`.
        source: String,
    },
    /// A document needs every query of `must` and none of `must_not`; without any `must` it needs one of `should`.
    /// Scores of `must` and `should` are added.
    ///
    /// `a AND b` is two `must`; `a OR "b c"` is two `should`, as is `a "b c"`. There is always a `must` or a `should`.
    /// A query that analysis leaves without a term is to be left out, wherever it stands.
    Boolean {
        /// Each of them has to match.
        must: Vec<Query>,
        /// They add to the score; without a `must`, one of them has to match.
        should: Vec<Query>,
        /// None of them may match.
        must_not: Vec<Query>,
    },
}

impl Query {
    /// Names of the fields that the query asks for, in order, as often as they stand there.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Query::Words(_) | Query::Phrase(_) | Query::Prefix(_) => Vec::new(),
            Query::Field { name, .. } => vec![name],
            Query::Boolean { must, should, must_not } => {
                [must, should, must_not].into_iter().flatten().flat_map(Query::fields).collect()
            }
        }
    }

    /// The query with every field that `has_field` doesn't know turned back into the words that were typed, so that
    /// `localhost:8080` is found where no field `localhost` exists.
    pub fn with_fields(self, has_field: impl Fn(&str) -> bool) -> Query {
        if self.fields().into_iter().all(&has_field) {
            return self;
        }
        grammar::with_fields(self, &has_field).into_query()
    }
}

/// Parses a query strictly: an error with its position for what the language doesn't know.
///
/// Whatever it accepts, [`parse_forgiving`] reads alike. A text without any word is `Words`.
///
/// # Errors
/// [`SyntaxError`]: unbalanced quotes or parentheses, an operator without its operand, a field without its value,
/// a query that only excludes, or one beyond [`DEPTH_MAX`] or [`CLAUSES_MAX`].
pub fn parse(text: &str) -> Result<Query, SyntaxError> {
    parse_as(text, true)
}

/// Parses a query and takes what doesn't parse as text. Never fails.
///
/// A quote, parenthesis or operator without its partner is text, and the rest keeps its meaning. A query (or group, or
/// side of `OR`) that only excludes is text as well: it has nothing to rank, and `-verbose` may be just what is
/// searched. Beyond [`DEPTH_MAX`] or [`CLAUSES_MAX`] the whole query is text.
pub fn parse_forgiving(text: &str) -> Query {
    parse_as(text, false).unwrap_or_else(|_| as_text(text))
}

/// Errors of a forgiving parse mean that the whole query is text.
fn parse_as(text: &str, is_strict: bool) -> Result<Query, SyntaxError> {
    if lexer::is_plain(text) {
        return Ok(as_text(text));
    }
    let tokens = lexer::tokens(text, is_strict)?;
    if tokens.iter().all(lexer::Token::is_plain) {
        return Ok(as_text(text));
    }
    grammar::query(text, tokens, is_strict)
}

fn as_text(text: &str) -> Query {
    Query::Words(text.trim().to_owned())
}
