//! What can be wrong with a query.

use super::{CLAUSES_MAX, DEPTH_MAX};

/// A query that doesn't parse, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {position} of the query: {problem}")]
pub struct SyntaxError {
    /// Byte offset in the query, at a character border: where the part begins that is at fault.
    pub position: usize,
    /// What is wrong there, and what to do.
    pub problem: SyntaxProblem,
}

/// What is wrong with a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxProblem {
    /// `"a b`
    #[error("the quote is not closed: add `\"` behind the phrase, or remove it")]
    UnclosedQuote,
    /// `""` or `"!"`
    #[error("the phrase has no word: put words between the quotes, or remove them")]
    EmptyPhrase,
    /// `(a b`
    #[error("the parenthesis is not closed: add `)` behind the group, or put the text in quotes")]
    UnclosedParenthesis,
    /// `a b)`
    #[error("the parenthesis closes nothing: add `(` before the group, or put the text in quotes")]
    UnopenedParenthesis,
    /// `()`
    #[error("the group is empty: put words between the parentheses, or remove them")]
    EmptyGroup,
    /// `AND a`, `a OR`, `a AND OR b`, `NOT`
    #[error("`{operator}` lacks a side: put a word there, or write it in lower case to search for it")]
    LonelyOperator {
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
    #[error("this part only excludes, so that nothing is left to rank: add a word that is wanted")]
    OnlyExcludes,
    /// Too many parentheses within parentheses.
    #[error("the query is nested deeper than {DEPTH_MAX} parentheses: write it flatter")]
    TooDeep,
    /// Too many parts.
    #[error("the query has more than {CLAUSES_MAX} clauses: ask in several queries, or use a filter")]
    TooManyClauses,
}
