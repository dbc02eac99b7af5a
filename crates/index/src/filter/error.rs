//! What can be wrong with a filter.

use super::{CONDITIONS_MAX, DEPTH_MAX, LIST_VALUES_MAX};

/// A filter that can't be used, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", place(pointer))]
pub struct FilterError {
    /// JSON pointer (RFC 6901) to the place at fault; empty for the whole filter.
    pub pointer: String,
    /// What is wrong there, and what to do.
    pub problem: FilterProblem,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { "filter".to_owned() } else { format!("filter, at `{pointer}`") }
}

/// What is wrong with a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterProblem {
    /// The text is no JSON.
    #[error("this is not JSON ({message}): give an object such as {{\"year\": 2020}}")]
    NotJson {
        /// What the parser of JSON says, with line and column.
        message: String,
    },
    /// A filter that is a string, a number, an array …
    #[error("a filter is an object such as {{\"year\": 2020}}, but this is {found}")]
    NotAnObject {
        /// The kind of value that was found, with its article.
        found: &'static str,
    },
    /// `and` or `or` without a list, or with an empty one.
    #[error(
        "`{operator}` takes a list of one or more filters; a metadata key of that name is reached by \
         {{\"type\": \"eq\", \"key\": \"{operator}\", \"value\": …}}"
    )]
    NotAList {
        /// `and` or `or`.
        operator: String,
    },
    /// `not` around something that is no object.
    #[error(
        "`not` takes a filter; a metadata key of that name is reached by \
         {{\"type\": \"eq\", \"key\": \"not\", \"value\": …}}"
    )]
    NotAFilter,
    /// `{"year": {}}`
    #[error("the condition has no operator: write for instance {{\"gte\": 2020}}")]
    NoOperator,
    /// `{"year": {"greater": 2020}}`
    #[error("unknown operator `{name}`: {remedy}; operators are eq, ne, gt, gte, lt, lte, in, nin, exists")]
    UnknownOperator {
        /// As it was given.
        name: String,
        /// What was probably meant.
        remedy: String,
    },
    /// The form of OpenAI with a key too many or too few.
    #[error(
        "this form takes {{\"type\": operator, \"key\": string, \"value\": …}} or {{\"type\": \"and\" or \"or\", \"filters\": […]}} \
         and nothing else; a metadata key called `type` is reached by {{\"type\": {{\"eq\": …}}}}"
    )]
    Form,
    /// A value that the operator can't take.
    #[error("`{operator}` takes {expected}, but this is {found}")]
    Value {
        /// The operator.
        operator: &'static str,
        /// The kinds of value that it takes.
        expected: &'static str,
        /// The kind that was found, with its article.
        found: &'static str,
    },
    /// Too many filters within filters.
    #[error("the filter is nested deeper than {DEPTH_MAX} levels: write it flatter")]
    TooDeep,
    /// Too many conditions.
    #[error("the filter has more than {CONDITIONS_MAX} conditions: use `in` for several values of one key")]
    TooManyConditions,
    /// Too long a list.
    #[error("the list has {values} values, more than {LIST_VALUES_MAX}: split it over several requests")]
    TooManyValues {
        /// Values that were given.
        values: usize,
    },
}
