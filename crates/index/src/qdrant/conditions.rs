//! Filters on metadata as conditions of Qdrant.
//!
//! A filter is translated so that every document passes that the filter passes, and as good as no other: the search decides about each point
//! that it was given once more, by [`Filter::evaluate`]. Where points are counted, and not read, none may pass that the filter does not pass. What
//! can't be translated so is refused.

use weir_filter::{Comparison, Filter, Test, Value};
use weir_qdrant::api::{self, Condition, Range};
use weir_qdrant::{TENANT, has_any_text, has_integer, has_text};

use super::points::{CHUNK, DOCUMENT, PATHS, VALUES, VERSION, number_field, path_key, text_key, value_key};
use crate::{EngineKind, IndexError, Result, features};

/// Numbers beyond this are not exact in Qdrant.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The points of a tenant.
pub(super) fn of_tenant(tenant: &str) -> Condition {
    has_text(TENANT, tenant)
}

pub(super) fn of_document(id: &str) -> Condition {
    has_text(DOCUMENT, id)
}

/// The points of any of these documents.
pub(super) fn of_documents(ids: Vec<String>) -> Condition {
    has_any_text(DOCUMENT, ids)
}

pub(super) fn first_chunks() -> Condition {
    has_integer(CHUNK, 0)
}

/// Chunks of a document within `distance` of one.
pub(super) fn chunks_around(document: &str, chunk: u32, distance: u32) -> Condition {
    let range = Range {
        gte: Some(f64::from(chunk.saturating_sub(distance))),
        lte: Some(f64::from(chunk.saturating_add(distance))),
        ..Default::default()
    };
    api::Filter::must([of_document(document), Condition::range(CHUNK, range)]).into()
}

/// Chunks of a document in a version before this one.
pub(super) fn older(document: &str, version: u64) -> Condition {
    let range = Range { lt: Some(version as f64), ..Default::default() };
    api::Filter::must([of_document(document), Condition::range(VERSION, range)]).into()
}

/// Documents with a value at a path.
pub(super) fn has_path(path: &str) -> Condition {
    has_text(PATHS, path_key(path))
}

/// On which side a translated filter may differ: a string that is no date may be on either side of one, and what is rounded too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// Every document that the filter passes, and perhaps others: for points that are read.
    Upper,
    /// No other document, and perhaps not all: for points that are counted.
    Lower,
}

impl Bound {
    fn opposite(self) -> Bound {
        match self {
            Bound::Upper => Bound::Lower,
            Bound::Lower => Bound::Upper,
        }
    }
}

/// A filter as a condition.
///
/// # Errors
/// [`IndexError::NotSupported`]
pub(super) fn translated(filter: &Filter, bound: Bound) -> Result<Condition> {
    translate(filter, false, bound)
}

/// With `is_negated`, what passes the opposite.
fn translate(filter: &Filter, is_negated: bool, bound: Bound) -> Result<Condition> {
    let all = |filters: &[Filter]| {
        filters.iter().map(|one| translate(one, is_negated, bound)).collect::<Result<Vec<_>>>()
    };
    Ok(match (filter, is_negated) {
        (Filter::Not(inner), _) => translate(inner, !is_negated, bound)?,
        (Filter::And(filters), false) | (Filter::Or(filters), true) => {
            api::Filter::must(all(filters)?).into()
        }
        (Filter::And(filters), true) | (Filter::Or(filters), false) if filters.is_empty() => nothing(),
        (Filter::And(filters), true) | (Filter::Or(filters), false) => {
            api::Filter::should(all(filters)?).into()
        }
        (Filter::Condition { path, test }, false) => condition(path, test, bound)?,
        (Filter::Condition { path, test: Test::Compare(comparison, value) }, true) => {
            let is_in = compared(path, *comparison, value, bound.opposite())?;
            match (bound, value.timestamp()) {
                (_, None) => not(is_in),
                (Bound::Upper, Some(_)) => api::Filter::should([not(is_in), texts(path)]).into(),
                (Bound::Lower, Some(_)) => api::Filter::must_not([is_in, texts(path)]).into(),
            }
        }
        (Filter::Condition { path, test }, true) => not(condition(path, test, bound)?),
    })
}

/// Passes no point: every point has a tenant, and none has this one.
fn nothing() -> Condition {
    has_text(TENANT, "")
}

fn not(condition: Condition) -> Condition {
    api::Filter::must_not([condition]).into()
}

fn texts(path: &str) -> Condition {
    has_text(VALUES, text_key(path))
}

fn condition(path: &str, test: &Test, bound: Bound) -> Result<Condition> {
    Ok(match test {
        Test::Exists => has_path(path),
        Test::Equals(value) => has_text(VALUES, value_key(path, value)),
        Test::In(values) if values.is_empty() => nothing(),
        Test::In(values) => has_any_text(VALUES, values.iter().map(|value| value_key(path, value)).collect()),
        Test::Compare(comparison, value) if value.timestamp().is_some() && bound == Bound::Upper => {
            api::Filter::should([compared(path, *comparison, value, bound)?, texts(path)]).into()
        }
        Test::Compare(comparison, value) => compared(path, *comparison, value, bound)?,
        Test::StartsWith(_) => {
            return Err(IndexError::NotSupported {
                feature: "beginnings of values in filters",
                remedy: "list the values with `in`",
            });
        }
    })
}

/// Numbers or dates in this order relative to another. Those that are rounded to the same number may be on either side of it.
fn compared(path: &str, comparison: Comparison, value: &Value, bound: Bound) -> Result<Condition> {
    let (is_date, number) = match (value, value.timestamp()) {
        (_, Some(micros)) => (true, micros as f64),
        (Value::Number(number), None) => (false, number.to_f64()),
        (Value::String(_) | Value::Boolean(_), None) => {
            features::check_named(features::STRING_ORDER, EngineKind::Qdrant)?;
            return Ok(nothing());
        }
    };
    let is_exact = number.abs() < EXACT_MAX;
    let includes = match comparison {
        Comparison::GreaterOrEqual | Comparison::LessOrEqual if is_exact => true,
        Comparison::Greater | Comparison::Less if is_exact => false,
        Comparison::Greater | Comparison::GreaterOrEqual | Comparison::Less | Comparison::LessOrEqual => {
            bound == Bound::Upper
        }
    };
    let is_greater = matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
    let if_it_is = |is_it: bool| is_it.then_some(number);
    let range = Range {
        gt: if_it_is(is_greater && !includes),
        gte: if_it_is(is_greater && includes),
        lt: if_it_is(!is_greater && !includes),
        lte: if_it_is(!is_greater && includes),
    };
    Ok(Condition::range(number_field(path, is_date), range))
}
