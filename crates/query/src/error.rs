//! Syntax errors of queries.

use super::{CLAUSES_MAX, DEPTH_MAX};

/// A syntax error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {position} of the query: {problem}")]
pub struct SyntaxError {
    /// Byte offset of the invalid part in the query, at a character boundary.
    pub position: usize,
    /// The error, and how to correct it.
    pub problem: SyntaxProblem,
}

/// The kind of a syntax error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxProblem {
    /// `"a b`
    #[error("the quote is not closed: add `\"` after the phrase, or remove it")]
    UnclosedQuote,
    /// `""` or `"!"`
    #[error("the phrase has no word: put words between the quotes, or remove them")]
    EmptyPhrase,
    /// `(a b`
    #[error("the parenthesis is not closed: add `)` after the group, or put the text in quotes")]
    UnclosedParenthesis,
    /// `a b)`
    #[error(
        "the closing parenthesis has no opening one: add `(` before the group, or put the text in quotes"
    )]
    UnopenedParenthesis,
    /// `()`
    #[error("the group is empty: put words between the parentheses, or remove them")]
    EmptyGroup,
    /// `AND a`, `a OR`, `a AND OR b`, `NOT`
    #[error("`{operator}` lacks an operand: add a word, or write it in lower case to search for it")]
    MissingOperand {
        /// `AND`, `OR` or `NOT`.
        operator: &'static str,
    },
    /// `title: a`, `title:(a b)`
    #[error(
        "field `{name}` has no value: write `{name}:word`, `{name}:\"two words\"` or `{name}:prefix*`, or put the text in quotes"
    )]
    NoValue {
        /// The name before the colon.
        name: String,
    },
    /// `-a`, `a OR -b`, `NOT (-a)`
    #[error("this part only excludes, so nothing can be ranked: add a word to search for")]
    OnlyExcludes,
    /// More than [`DEPTH_MAX`] nested parentheses.
    #[error("the query is nested deeper than {DEPTH_MAX} parentheses: reduce the nesting")]
    TooDeep,
    /// More than [`CLAUSES_MAX`] clauses.
    #[error("the query has more than {CLAUSES_MAX} clauses: split it into several queries, or use a filter")]
    TooManyClauses,
}
