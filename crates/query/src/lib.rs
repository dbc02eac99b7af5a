//! The search language: parser of what people type into a search box.
//!
//! ```text
//! solar panels                  words: any of them, ranked
//! "solar panel"                 a phrase            sol*             a prefix
//! so*r, w?r                     wildcards
//! title:solar                   a field             +solar -wind     required, excluded (also NOT wind)
//! solar OR wind, a AND (b c)    upper case only; words side by side bind tighter than AND, AND tighter than OR
//! ```
//! The two parsers differ only in syntax errors: [`parse`] returns the position, [`parse_forgiving`] treats the part as text. Parsing
//! does not depend on the collection: fields ([`Query::with_fields`]) and text analysis are resolved by the caller.

#![forbid(unsafe_code)]

mod error;
mod grammar;
mod lexer;
mod render;
#[cfg(test)]
mod tests;

pub use error::{SyntaxError, SyntaxProblem};

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
    /// A word in which `*` stands for any letters and `?` for one.
    Wildcard(String),
    /// A value in a field.
    Field {
        /// The name before the colon, perhaps of no field: see [`Query::with_fields`].
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

    /// Replaces every unknown field by the words of its source text, so that `localhost:8080` is found where no field `localhost`
    /// exists.
    pub fn with_fields(self, has_field: impl Fn(&str) -> bool) -> Query {
        if self.fields().into_iter().all(&has_field) {
            return self;
        }
        grammar::with_fields(self, &has_field).into_query()
    }
}

/// Parses a query strictly: a syntax error has a position.
///
/// For valid queries the result equals that of [`parse_forgiving`]. A text without any word is `Words`.
///
/// # Errors
/// [`SyntaxError`]: unbalanced quotes or parentheses, an operator without an operand, a field without a value, a query that only
/// excludes, or one beyond [`DEPTH_MAX`] or [`CLAUSES_MAX`].
pub fn parse(text: &str) -> Result<Query, SyntaxError> {
    parse_as(text, true)
}

/// Parses a query and treats invalid parts as text. Never fails.
///
/// An unbalanced quote or parenthesis, or an operator without an operand, is text; the rest keeps its meaning. A query (or group,
/// or side of `OR`) that only excludes is text as well: there is nothing to rank, and `-verbose` may be the text to find. Beyond
/// [`DEPTH_MAX`] or [`CLAUSES_MAX`] the whole query is text.
pub fn parse_forgiving(text: &str) -> Query {
    parse_as(text, false).unwrap_or_else(|_| as_text(text))
}

/// An error of a forgiving parse means that the whole query is text.
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
