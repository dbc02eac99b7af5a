//! The filter language: conditions on metadata, in JSON.
//!
//! ```json
//! {"year": {"gte": 2019, "lt": 2022}, "author.name": "Ada", "or": [{"lang": {"in": ["en", "de"]}}, {"draft": {"exists": false}}]}
//! {"type": "and", "filters": [{"type": "eq", "key": "author.name", "value": "Ada"}]}
//! ```
//! The first is our own form, the second that of OpenAI's vector stores; both may be mixed. [`Filter::evaluate`] is the specification:
//! directly over JSON, and slow. An index stores the values from [`flatten`] and must select the same documents.
//!
//! - **Paths.** The keys down to a value, joined by dots. A key that contains a dot (`{"a.b": 1}`) and a nested
//!   key (`{"a": {"b": 1}}`) are therefore the same path; if a document has both, both count. Arrays add nothing to a
//!   path: their elements, and the values of objects in them, have the path of the array.
//! - **Values.** Strings, numbers, booleans. `null`, empty arrays and objects are no value. A condition holds
//!   if any value at its path satisfies its test.
//! - **Comparison.** Only values of one kind compare ([`Value::compare`]): numbers exactly, two dates by their
//!   [timestamps](parse_timestamp), other strings by code point.

#![forbid(unsafe_code)]

mod canonical;
mod date;
mod error;
mod evaluate;
mod parse;
#[cfg(test)]
mod tests;
mod value;

pub use date::parse_timestamp;
pub use error::{FilterError, FilterProblem};
pub use evaluate::flatten;
pub use value::{Number, Value};

use std::collections::BTreeSet;

/// Maximum nesting of filters, the outermost included.
pub const DEPTH_MAX: usize = 64;
/// Maximum number of conditions in one filter.
pub const CONDITIONS_MAX: usize = 1024;
/// Maximum number of values in the list of one `in` or `nin`.
pub const LIST_VALUES_MAX: usize = 10_000;
/// Maximum nesting of objects and arrays in metadata. Filters ignore deeper values; the JSON parser rejects such documents anyway.
pub const METADATA_DEPTH_MAX: usize = 128;

/// A condition on a document's metadata.
///
/// A parsed filter has at most [`CONDITIONS_MAX`] conditions and 2 × [`DEPTH_MAX`] + 4 levels, so recursion over it is safe.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All of these. If empty: every document.
    And(Vec<Filter>),
    /// At least one of these. If empty: no document.
    Or(Vec<Filter>),
    /// Not this one.
    Not(Box<Filter>),
    /// At least one value at `path` satisfies `test`.
    Condition {
        /// Keys joined by dots.
        path: String,
        /// The requirement on one value.
        test: Test,
    },
}

/// A requirement on one value.
///
/// The other operators are combinations: `ne` and `nin` are `Not` of `Equals` and `In` ("no value is"), `exists: false` and
/// `eq: null` are `Not` of `Exists`, and `null` in a list adds that as an alternative.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Any value.
    Exists,
    /// Equal by [`Value::compare`].
    Equals(Value),
    /// Equal to one of these. If empty: never satisfied.
    In(Vec<Value>),
    /// A string with this prefix. In the query language only (`author:Ada*`), not in JSON filters.
    StartsWith(String),
    /// In this order relative to a number or a string; the value is never a boolean.
    Compare(Comparison, Value),
}

/// The operators that compare by order.
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
    /// Parses a filter from JSON text, in either form. Every document passes `{}`.
    ///
    /// # Errors
    /// [`FilterError`] with a JSON pointer and a remedy: invalid JSON, unknown operators, values of the wrong kind, or a filter beyond
    /// [`DEPTH_MAX`], [`CONDITIONS_MAX`] or [`LIST_VALUES_MAX`].
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        let json = serde_json::from_str(text).map_err(|error| {
            let problem = match error.to_string() {
                // serde_json nests at most 127 levels, and has no other sign of this error
                message if message.starts_with("recursion limit exceeded") => FilterProblem::TooDeep,
                message => FilterProblem::NotJson { message },
            };
            FilterError { pointer: String::new(), problem }
        })?;
        Filter::from_value(&json)
    }

    /// Parses a filter from parsed JSON.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn from_value(json: &serde_json::Value) -> Result<Filter, FilterError> {
        parse::parse(json)
    }

    /// The conjunction of two filters.
    #[must_use]
    pub fn and(a: Filter, b: Filter) -> Filter {
        let mut filters = a.into_conjuncts();
        filters.extend(b.into_conjuncts());
        if filters.len() == 1 { filters.remove(0) } else { Filter::And(filters) }
    }

    fn into_conjuncts(self) -> Vec<Filter> {
        if let Filter::And(filters) = self { filters } else { vec![self] }
    }

    /// JSON pointer (RFC 6901) to the first mention of `path` in the JSON text of a filter: the key before a condition, or the
    /// value of `key` in OpenAI's form. `None` if the filter is invalid or doesn't mention it.
    pub fn pointer_to(path: &str, text: &str) -> Option<String> {
        parse::pointer_to(&serde_json::from_str(text).ok()?, path)
    }

    /// The paths of its conditions, sorted and distinct.
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
