//! Values in metadata and filters, and their comparison.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::parse_timestamp;

/// One value in metadata or in a filter.
///
/// `==` and hashing are by kind and spelling. Filters use [`compare`](Value::compare), where two spellings of one timestamp are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// A string; a date if [`parse_timestamp`] accepts it.
    String(String),
    /// A number.
    Number(Number),
    /// `true` or `false`.
    Boolean(bool),
}

/// A JSON number, exact: each number has one representation, however it was written (`1`, `1.0`, `1e0`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer from −2^63 to 2^64 − 1.
    Integer(i128),
    /// Any other finite number.
    Float(f64),
}

impl Value {
    /// The value of a JSON scalar; `None` for `null`, arrays and objects.
    pub fn from_json(json: &serde_json::Value) -> Option<Value> {
        match json {
            serde_json::Value::String(text) => Some(Value::String(text.clone())),
            serde_json::Value::Number(number) => Number::from_json(number).map(Value::Number),
            serde_json::Value::Bool(boolean) => Some(Value::Boolean(*boolean)),
            serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
        }
    }

    /// The order of two values of one kind: numbers exactly, two dates by their timestamps, other strings by code point,
    /// `false` before `true`. `None` for values of different kinds, which satisfy no condition.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::String(a), Value::String(b)) => Some(compare_strings(a, b)),
            (Value::Number(a), Value::Number(b)) => Some(a.cmp(b)),
            (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
            (Value::String(_) | Value::Number(_) | Value::Boolean(_), _) => None,
        }
    }

    /// The timestamp of a date, see [`parse_timestamp`].
    pub fn timestamp(&self) -> Option<i64> {
        match self {
            Value::String(text) => parse_timestamp(text),
            Value::Number(_) | Value::Boolean(_) => None,
        }
    }
}

/// UTF-8 has the same order by bytes and by code points.
fn compare_strings(a: &str, b: &str) -> Ordering {
    match (parse_timestamp(a), parse_timestamp(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, _) | (_, None) => a.cmp(b),
    }
}

/// −2^63 and 2^64, both exact in `f64`.
const INTEGERS: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0;

impl Number {
    /// The number of an `f64`; `None` for NaN and the infinities.
    pub fn from_f64(value: f64) -> Option<Number> {
        if INTEGERS.contains(&value) && value.fract() == 0.0 {
            return Some(Number::Integer(value as i128));
        }
        value.is_finite().then_some(Number::Float(value))
    }

    /// The nearest `f64`.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        }
    }

    fn from_json(number: &serde_json::Number) -> Option<Number> {
        match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Some(Number::Integer(integer.into())),
            (None, Some(integer)) => Some(Number::Integer(integer.into())),
            (None, None) => number.as_f64().and_then(Number::from_f64),
        }
    }
}

impl From<i64> for Number {
    fn from(integer: i64) -> Number {
        Number::Integer(integer.into())
    }
}

impl From<u64> for Number {
    fn from(integer: u64) -> Number {
        Number::Integer(integer.into())
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Number::Integer(integer) => integer.hash(state),
            Number::Float(float) => float.to_bits().hash(state),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        match (*self, *other) {
            (Number::Integer(a), Number::Integer(b)) => a.cmp(&b),
            (Number::Float(a), Number::Float(b)) => a.total_cmp(&b),
            (Number::Integer(a), Number::Float(b)) => integer_to_float(a, b),
            (Number::Float(a), Number::Integer(b)) => integer_to_float(b, a).reverse(),
        }
    }
}

/// The two are never equal, because a [`Number::Float`] is never a whole number within [`INTEGERS`]: the floor decides. The cast saturates.
fn integer_to_float(integer: i128, float: f64) -> Ordering {
    if integer <= float.floor() as i128 { Ordering::Less } else { Ordering::Greater }
}
