//! Conditions on points, as Qdrant evaluates them.

use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{Condition, FieldCondition, Filter, Match, Range, Value};
use tonic::Status;

use crate::state::{Payload, Stored, id_of};

/// Whether a point passes a filter.
///
/// # Errors
/// INVALID_ARGUMENT for conditions that are not implemented here.
pub(crate) fn passes(filter: &Filter, id: &str, point: &Stored) -> Result<bool, Status> {
    let Filter { should, must, must_not, min_should } = filter;
    if min_should.is_some() {
        return Err(not_here("min_should"));
    }
    let holds = |condition: &Condition| holds(condition, id, point);
    for condition in must {
        if !holds(condition)? {
            return Ok(false);
        }
    }
    for condition in must_not {
        if holds(condition)? {
            return Ok(false);
        }
    }
    let mut any = should.is_empty();
    for condition in should {
        any |= holds(condition)?;
    }
    Ok(any)
}

/// Refuses a filter with matches that are not implemented here, also where no point is compared with it.
///
/// # Errors
/// INVALID_ARGUMENT.
pub(crate) fn check(filter: &Filter) -> Result<(), Status> {
    let conditions = filter.must.iter().chain(&filter.must_not).chain(&filter.should);
    for condition in conditions.filter_map(|condition| condition.condition_one_of.as_ref()) {
        if let ConditionOneOf::Filter(inner) = condition {
            check(inner)?;
        } else if let ConditionOneOf::Field(FieldCondition { r#match: Some(wanted), .. }) = condition {
            matches(wanted, &Value::default())?;
        }
    }
    Ok(())
}

/// As [`passes`]; every point passes no filter.
pub(crate) fn passes_optional(filter: Option<&Filter>, id: &str, point: &Stored) -> Result<bool, Status> {
    filter.map_or(Ok(true), |filter| passes(filter, id, point))
}

fn holds(condition: &Condition, id: &str, point: &Stored) -> Result<bool, Status> {
    match &condition.condition_one_of {
        Some(ConditionOneOf::Field(field)) => field_holds(field, &point.payload),
        Some(ConditionOneOf::Filter(filter)) => passes(filter, id, point),
        Some(ConditionOneOf::HasId(ids)) => {
            let ids = ids.has_id.iter().map(id_of).collect::<Result<Vec<_>, _>>()?;
            Ok(ids.iter().any(|one| one == id))
        }
        Some(ConditionOneOf::IsEmpty(empty)) => Ok(values_at(&point.payload, &empty.key).is_empty()),
        Some(ConditionOneOf::HasVector(has)) => Ok(point.vectors.contains_key(&has.has_vector)),
        Some(ConditionOneOf::IsNull(_) | ConditionOneOf::Nested(_) | ConditionOneOf::Slice(_)) => {
            Err(not_here("is_null, nested and slice"))
        }
        None => Err(Status::invalid_argument("Malformed condition")),
    }
}

fn field_holds(field: &FieldCondition, payload: &Payload) -> Result<bool, Status> {
    let FieldCondition {
        key,
        r#match,
        range,
        geo_bounding_box: None,
        geo_radius: None,
        values_count: None,
        geo_polygon: None,
        datetime_range: None,
        is_empty: None,
        is_null: None,
    } = field
    else {
        return Err(not_here("geo, datetime, count and emptiness in a field condition"));
    };
    let values = values_at(payload, key);
    match (r#match, range) {
        (Some(wanted), None) => {
            let mut any = false;
            for value in values {
                any |= matches(wanted, value)?;
            }
            Ok(any)
        }
        (None, Some(range)) => Ok(values.into_iter().any(|value| is_in(range, value))),
        (Some(_), Some(_)) | (None, None) => Err(Status::invalid_argument("Malformed field condition")),
    }
}

fn matches(wanted: &Match, value: &Value) -> Result<bool, Status> {
    let text = match &value.kind {
        Some(Kind::StringValue(text)) => Some(text),
        _ => None,
    };
    Ok(match &wanted.match_value {
        Some(MatchValue::Keyword(keyword)) => text == Some(keyword),
        Some(MatchValue::Keywords(keywords)) => text.is_some_and(|text| keywords.strings.contains(text)),
        Some(MatchValue::Integer(integer)) => value.kind == Some(Kind::IntegerValue(*integer)),
        Some(MatchValue::Integers(integers)) => match value.kind {
            Some(Kind::IntegerValue(integer)) => integers.integers.contains(&integer),
            _ => false,
        },
        Some(MatchValue::Boolean(boolean)) => value.kind == Some(Kind::BoolValue(*boolean)),
        Some(_) => return Err(not_here("matches of texts and exceptions")),
        None => return Err(Status::invalid_argument("Malformed match")),
    })
}

fn is_in(range: &Range, value: &Value) -> bool {
    let number = match value.kind {
        Some(Kind::IntegerValue(integer)) => integer as f64,
        Some(Kind::DoubleValue(double)) => double,
        _ => return false,
    };
    range.lt.is_none_or(|bound| number < bound)
        && range.gt.is_none_or(|bound| number > bound)
        && range.lte.is_none_or(|bound| number <= bound)
        && range.gte.is_none_or(|bound| number >= bound)
}

/// The values at a path: elements of arrays have the path of the array.
pub(crate) fn values_at<'p>(payload: &'p Payload, path: &str) -> Vec<&'p Value> {
    let mut found = Vec::new();
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    if let Some(value) = payload.get(first) {
        collect(value, rest, &mut found);
    }
    found
}

fn collect<'p>(value: &'p Value, path: Option<&str>, found: &mut Vec<&'p Value>) {
    match (&value.kind, path) {
        (Some(Kind::ListValue(list)), _) => list.values.iter().for_each(|value| collect(value, path, found)),
        (Some(Kind::StructValue(inner)), Some(path)) => found.extend(values_at(&inner.fields, path)),
        (None | Some(Kind::NullValue(_)), _) => {}
        (Some(_), None) => found.push(value),
        (Some(_), Some(_)) => {}
    }
}

fn not_here(what: &str) -> Status {
    Status::invalid_argument(format!("this server does not implement {what}"))
}
