//! The search language: parser of what people type into a search box.
//!
//! ```text
//! solar panels                  words: any of them, ranked
//! "solar panel"                 a phrase            sol*             a prefix
//! so*r, w?r                     wildcards
//! title:solar                   a field             +solar -wind     required, excluded (also NOT wind)
//! solar OR wind, a AND (b c)    upper case only; words side by side bind tighter than AND, AND tighter than OR
//! ```
//! [`parse`] takes every operator for one, and returns the position of a syntax error. [`parse_auto`] never fails: it reads as text what
//! cannot be parsed, and what is an operator by its form but not by its place ([`AUTO_RULES`]). Text analysis is left to the caller.

#![forbid(unsafe_code)]

mod auto;
mod error;
mod grammar;
mod lexer;
mod render;
#[cfg(test)]
mod tests;

pub use auto::{AUTO_EXAMPLE_TEXT, AUTO_RULES, AutoExample, AutoRule, NoVocabulary, Vocabulary};
pub use error::{SyntaxError, SyntaxProblem};
pub use lexer::is_plain;

/// Maximum nesting of parentheses.
pub const DEPTH_MAX: usize = 32;
/// Maximum number of phrases, prefixes, fields and runs of words in a query.
pub const CLAUSES_MAX: usize = 256;

/// A parsed query.
///
/// It has at most [`CLAUSES_MAX`] leaves and 3 × [`DEPTH_MAX`] + 4 levels, so recursion over it is safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// A bag of words as in the query, punctuation included: a document must contain at least one of the terms of its analysis;
    /// more of them rank higher. Analysis may leave no term (`???`, stop words): see [`Boolean`](Query::Boolean).
    Words(String),
    /// Adjacent terms in this order. A single term is a phrase as well: `-well-known` excludes the phrase.
    Phrase(String),
    /// The text before the `*`: the last term of its analysis is a prefix.
    Prefix(String),
    /// A word in which `*` matches any letters and `?` one.
    Wildcard(String),
    /// A value in a field.
    Field {
        /// The name before the colon; after [`parse`] perhaps of no field.
        name: String,
        /// The value required: `Words` (one word, unchanged), `Phrase`, `Prefix` or `Wildcard`.
        value: Box<Query>,
        /// The source text without a preceding sign: `name:value`.
        source: String,
    },
    /// A document must match every query of `must` and none of `must_not`; without `must`, at least one of `should`. Scores of
    /// `must` and `should` are added.
    ///
    /// `a AND b` has two `must`; `a OR "b c"` has two `should`, as has `a "b c"`. At least one `must` or `should` exists. A part
    /// that analysis leaves without a term is ignored.
    Boolean {
        /// All must match.
        must: Vec<Query>,
        /// They add to the score; without `must`, at least one must match.
        should: Vec<Query>,
        /// None may match.
        must_not: Vec<Query>,
    },
}

impl Query {
    /// Names of the fields in the query, in order, with repetitions.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Query::Words(_) | Query::Phrase(_) | Query::Prefix(_) | Query::Wildcard(_) => Vec::new(),
            Query::Field { name, .. } => vec![name],
            Query::Boolean { must, should, must_not } => {
                [must, should, must_not].into_iter().flatten().flat_map(Query::fields).collect()
            }
        }
    }

    /// The texts that the query excludes, at any depth.
    pub fn excluded(&self) -> Vec<String> {
        match self {
            Query::Words(_)
            | Query::Phrase(_)
            | Query::Prefix(_)
            | Query::Wildcard(_)
            | Query::Field { .. } => Vec::new(),
            Query::Boolean { must, should, must_not } => {
                let inner = must.iter().chain(should).flat_map(Query::excluded);
                inner.chain(must_not.iter().map(Query::to_string)).collect()
            }
        }
    }
}

/// A query as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The query.
    pub query: Query,
    /// The parts that look like operators and are searched as words, in the order of the query.
    pub as_text: Vec<String>,
}

impl Reading {
    /// Reads a query without operators.
    pub fn text(text: &str) -> Reading {
        let as_text = if is_plain(text) { Vec::new() } else { vec![text.trim().to_owned()] };
        Reading { query: as_words(text), as_text }
    }
}

/// Parses a query in which every operator is meant as one. A text without any word is `Words`.
///
/// # Errors
/// [`SyntaxError`]: unbalanced quotes or parentheses, an operator without an operand, a field without a value, a query that only
/// excludes, or one beyond [`DEPTH_MAX`] or [`CLAUSES_MAX`].
pub fn parse(text: &str) -> Result<Query, SyntaxError> {
    read(text, None).map(|reading| reading.query)
}

/// Parses a query that may be pasted text. Never fails.
///
/// Text by [`AUTO_RULES`] is read as text, as are an unbalanced quote or parenthesis; the rest keeps its meaning. Beyond [`DEPTH_MAX`]
/// or [`CLAUSES_MAX`] the whole query is text.
pub fn parse_auto(text: &str, vocabulary: &dyn Vocabulary) -> Reading {
    read(text, Some(vocabulary)).unwrap_or_else(|_| Reading::text(text))
}

/// Without a vocabulary the reading is strict.
fn read(text: &str, vocabulary: Option<&dyn Vocabulary>) -> Result<Reading, SyntaxError> {
    if is_plain(text) {
        return Ok(Reading { query: as_words(text), as_text: Vec::new() });
    }
    let (tokens, mut as_text) = lexer::tokens(text, vocabulary)?;
    let query = match tokens.iter().all(lexer::Token::is_plain) {
        true => as_words(text),
        false => grammar::query(text, tokens, vocabulary.is_none(), &mut as_text)?,
    };
    as_text.sort_unstable_by_key(|span| span.start);
    let mut end = 0;
    // the value of an unknown field may have parts of its own
    as_text.retain(|span| {
        let is_apart = span.start >= end;
        end = end.max(span.end);
        is_apart
    });
    Ok(Reading { query, as_text: as_text.into_iter().map(|span| text[span].to_owned()).collect() })
}

fn as_words(text: &str) -> Query {
    Query::Words(text.trim().to_owned())
}
