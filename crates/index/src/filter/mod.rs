//! The filter language: conditions on metadata, in JSON.
//!
//! ```json
//! {"year": {"gte": 2019, "lt": 2022}, "author.name": "Ada", "or": [{"lang": {"in": ["en", "de"]}}, {"draft": {"exists": false}}]}
//! {"type": "and", "filters": [{"type": "eq", "key": "author.name", "value": "Ada"}]}
//! ```
//! The first is our own form, the second that of OpenAI's vector stores; both may be mixed. [`Filter::matches`] is the specification:
//! straight over JSON and slow. An index stores what [`flatten`] gives and must come to the same result.
//!
//! - **Paths.** The keys down to a value, joined by dots. A key that holds a dot itself (`{"a.b": 1}`) and a nested
//!   one (`{"a": {"b": 1}}`) are therefore the same path, and where both stand, both count. Arrays add nothing to a
//!   path: their elements, and the values of objects in them, stand at the path of the array.
//! - **Values.** Strings, numbers, booleans. `null`, empty arrays and objects are no value. A condition holds
//!   when any value at its path satisfies its test.
//! - **Comparing.** Only values of one kind compare ([`Value::compare`]): numbers exactly, strings that are both dates by
//!   their [`instant`], other strings by code point.

mod date;
mod error;
mod evaluate;
mod parse;
#[cfg(test)]
mod tests;
mod value;

pub use date::instant;
pub use error::{FilterError, FilterProblem};
pub use evaluate::flatten;
pub use value::{Number, Value};

use std::collections::BTreeSet;

/// Filters within filters, at most.
pub const DEPTH_MAX: usize = 64;
/// Conditions in one filter, at most.
pub const CONDITIONS_MAX: usize = 1024;
/// Values in the list of one `in` or `nin`, at most.
pub const LIST_VALUES_MAX: usize = 10_000;
/// Objects and arrays within each other in metadata, at most; what lies deeper is seen by no filter. The parser of
/// JSON refuses such documents anyway.
pub const METADATA_DEPTH_MAX: usize = 128;

/// What a document's metadata has to satisfy.
///
/// At most [`CONDITIONS_MAX`] conditions, never deeper than 2 × [`DEPTH_MAX`] + 4: it may be walked by recursion.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All of them. Without any: every document.
    And(Vec<Filter>),
    /// At least one of them. Without any: no document.
    Or(Vec<Filter>),
    /// Not this one.
    Not(Box<Filter>),
    /// Some value at `path` satisfies `test`.
    Condition {
        /// Keys joined by dots.
        path: String,
        /// What one value at the path has to be.
        test: Test,
    },
}

/// What one value has to be.
///
/// The other operators are made of these: `ne` and `nin` are `Not` around `Equals` and `In` ("no value is"), `exists: false` and
/// `eq: null` are `Not` around `Exists`, and `null` in a list is one more alternative.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Anything: the path has a value.
    Exists,
    /// Equal by [`Value::compare`].
    Equals(Value),
    /// Equal to one of them. Without any: nothing satisfies it.
    In(Vec<Value>),
    /// A string that begins so. Filters in JSON have no such operator; the query language has: `author:Ada*`.
    StartsWith(String),
    /// In this order with a number or a string; never a boolean.
    Compare(Comparison, Value),
}

/// The operators that need an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `gt`
    Greater,
    /// `gte`
    GreaterOrEqual,
    /// `lt`
    Less,
    /// `lte`
    LessOrEqual,
}

impl Filter {
    /// Reads a filter in either form. `{}` is the filter that every document passes.
    ///
    /// # Errors
    /// [`FilterError`] with the place and a remedy: unknown operators, values of the wrong kind, and what is beyond
    /// [`DEPTH_MAX`], [`CONDITIONS_MAX`] or [`LIST_VALUES_MAX`].
    pub fn parse(json: &serde_json::Value) -> Result<Filter, FilterError> {
        parse::parse(json)
    }

    /// Reads a filter from JSON as text.
    ///
    /// # Errors
    /// As [`Filter::parse`]; also when the text is not JSON. What is nested deeper than the parser of JSON follows (127) is
    /// [`FilterProblem::TooDeep`] as well.
    pub fn from_json(text: &str) -> Result<Filter, FilterError> {
        let json = serde_json::from_str(text).map_err(|error| {
            let problem = match error.to_string() {
                // serde_json tells it in no other way
                message if message.starts_with("recursion limit exceeded") => FilterProblem::TooDeep,
                message => FilterProblem::NotJson { message },
            };
            FilterError { pointer: String::new(), problem }
        })?;
        Filter::parse(&json)
    }

    /// JSON pointer (RFC 6901) to the first place in a filter, JSON as text, that names `path`: the key before a condition, or the
    /// value of `key` in OpenAI's form. `None` when no place does, or when the filter can't be read.
    pub fn place_of(path: &str, text: &str) -> Option<String> {
        parse::place_of(&serde_json::from_str(text).ok()?, path)
    }

    /// The paths that it asks for, each once, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let mut paths = BTreeSet::new();
        self.collect_paths(&mut paths);
        paths.into_iter()
    }

    fn collect_paths<'f>(&'f self, paths: &mut BTreeSet<&'f str>) {
        match self {
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter().for_each(|filter| filter.collect_paths(paths));
            }
            Filter::Not(filter) => filter.collect_paths(paths),
            Filter::Condition { path, .. } => {
                paths.insert(path);
            }
        }
    }
}
