//! Errors of invalid filters.

use crate::{CONDITIONS_MAX, DEPTH_MAX, LIST_VALUES_MAX};

/// An invalid filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", location(pointer))]
pub struct FilterError {
    /// JSON pointer (RFC 6901) to the invalid part; empty for the whole filter.
    pub pointer: String,
    /// The defect, and the remedy.
    pub problem: FilterProblem,
}

fn location(pointer: &str) -> String {
    if pointer.is_empty() { "filter".to_owned() } else { format!("filter, at `{pointer}`") }
}

/// The defect of a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterProblem {
    /// The text is not JSON.
    #[error("this is not JSON ({message}): give an object such as {{\"year\": 2020}}")]
    NotJson {
        /// The JSON parser's message, with line and column.
        message: String,
    },
    /// A filter that is not a JSON object.
    #[error("a filter is an object such as {{\"year\": 2020}}, but this is {found}")]
    NotAnObject {
        /// The kind of value found, with an article.
        found: &'static str,
    },
    /// `and` or `or` without a list, or with an empty list.
    #[error(
        "`{operator}` takes a list of one or more filters; to filter by a metadata key of that name, write \
         {{\"type\": \"eq\", \"key\": \"{operator}\", \"value\": …}}"
    )]
    NotAList {
        /// `and` or `or`.
        operator: String,
    },
    /// `not` with a value that is not an object.
    #[error(
        "`not` takes a filter; to filter by a metadata key of that name, write \
         {{\"type\": \"eq\", \"key\": \"not\", \"value\": …}}"
    )]
    NotAFilter,
    /// `{"must": [{…}]}`
    #[error(
        "`{name}` is not an operator of this filter language: write `{meant}` in its place; `and` and `or` take a list of filters, `not` takes one"
    )]
    ForeignCombination {
        /// The key in the request.
        name: String,
        /// `and`, `or` or `not`.
        meant: &'static str,
    },
    /// `{"year": {}}`
    #[error("the condition has no operator: write for instance {{\"gte\": 2020}}")]
    NoOperator,
    /// `{"year": {"greater": 2020}}`
    #[error("unknown operator `{name}`: {remedy}; operators are eq, ne, gt, gte, lt, lte, in, nin, exists")]
    UnknownOperator {
        /// The operator in the request.
        name: String,
        /// The operator that was probably intended, or advice.
        remedy: String,
    },
    /// OpenAI's form with a missing or an extra key.
    #[error(
        "this form takes {{\"type\": operator, \"key\": string, \"value\": …}} or {{\"type\": \"and\" or \"or\", \"filters\": […]}} \
         and nothing else; to filter by a metadata key called `type`, write {{\"type\": {{\"eq\": …}}}}"
    )]
    Form,
    /// A value of a kind that the operator does not accept.
    #[error("`{operator}` takes {expected}, but this is {found}")]
    Value {
        /// The operator.
        operator: &'static str,
        /// The kinds of value that it accepts.
        expected: &'static str,
        /// The kind of value found, with an article.
        found: &'static str,
    },
    /// More than [`DEPTH_MAX`] levels.
    #[error("the filter is nested deeper than {DEPTH_MAX} levels: reduce the nesting")]
    TooDeep,
    /// More than [`CONDITIONS_MAX`] conditions.
    #[error("the filter has more than {CONDITIONS_MAX} conditions: use `in` for several values of one key")]
    TooManyConditions,
    /// More than [`LIST_VALUES_MAX`] values in a list.
    #[error("the list has {values} values, more than {LIST_VALUES_MAX}: split it over several requests")]
    TooManyValues {
        /// Values in the list.
        values: usize,
    },
}
