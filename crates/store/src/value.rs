//! Values of statements and rows, the same for every database.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{Error, Result};

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// A value of a parameter.
pub(crate) trait AsValue {
    fn as_value(&self) -> Value<'_>;
}

/// The values of a statement's parameters `$1`, `$2`, …
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($value.as_value()),*] };
}
pub(crate) use values;

impl AsValue for i64 {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(*self)
    }
}

/// Numbers beyond `i64` do not occur in a store; as bounds, they are as good as the highest one that does.
impl AsValue for u64 {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl AsValue for usize {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl AsValue for u32 {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl AsValue for i32 {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl AsValue for bool {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl AsValue for f64 {
    fn as_value(&self) -> Value<'_> {
        Value::Real(*self)
    }
}

impl AsValue for str {
    fn as_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl AsValue for String {
    fn as_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl AsValue for [u8] {
    fn as_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl AsValue for Vec<u8> {
    fn as_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<const N: usize> AsValue for [u8; N] {
    fn as_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<T: AsValue> AsValue for Option<T> {
    fn as_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, AsValue::as_value)
    }
}

impl<T: AsValue + ?Sized> AsValue for &T {
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

/// The value of a column.
#[derive(Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    /// A text that is not UTF-8, or a type that the store does not write.
    Unreadable,
}

/// A column has no value of the type that is written there.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a column of the store has a value of another type than was written")]
pub(crate) struct Undecodable;

impl From<Undecodable> for Error {
    fn from(undecodable: Undecodable) -> Error {
        Error::Failed { source: Arc::new(undecodable) }
    }
}

/// A type that a column can be read as.
pub(crate) trait FromCell: Sized {
    fn from_cell(cell: Cell<'_>) -> Option<Self>;
}

impl FromCell for i64 {
    fn from_cell(cell: Cell<'_>) -> Option<i64> {
        if let Cell::Integer(number) = cell { Some(number) } else { None }
    }
}

/// Other integers.
macro_rules! from_integer {
    ($($integer:ty),*) => {
        $(impl FromCell for $integer {
            fn from_cell(cell: Cell<'_>) -> Option<$integer> {
                <$integer>::try_from(i64::from_cell(cell)?).ok()
            }
        })*
    };
}
from_integer!(u64, usize, u32, i32);

impl FromCell for bool {
    fn from_cell(cell: Cell<'_>) -> Option<bool> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl FromCell for f64 {
    fn from_cell(cell: Cell<'_>) -> Option<f64> {
        match cell {
            Cell::Real(number) => Some(number),
            Cell::Integer(number) => Some(number as f64),
            Cell::Null | Cell::Text(_) | Cell::Bytes(_) | Cell::Unreadable => None,
        }
    }
}

impl FromCell for String {
    fn from_cell(cell: Cell<'_>) -> Option<String> {
        if let Cell::Text(text) = cell { Some(text.into_owned()) } else { None }
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: Cell<'_>) -> Option<Vec<u8>> {
        if let Cell::Bytes(bytes) = cell { Some(bytes.to_vec()) } else { None }
    }
}

impl<const N: usize> FromCell for [u8; N] {
    fn from_cell(cell: Cell<'_>) -> Option<[u8; N]> {
        if let Cell::Bytes(bytes) = cell { bytes.try_into().ok() } else { None }
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: Cell<'_>) -> Option<Option<T>> {
        if matches!(cell, Cell::Null) { Some(None) } else { T::from_cell(cell).map(Some) }
    }
}

/// The value of a column of any type, as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl FromCell for Owned {
    fn from_cell(cell: Cell<'_>) -> Option<Owned> {
        match cell {
            Cell::Null => Some(Owned::Null),
            Cell::Integer(number) => Some(Owned::Integer(number)),
            Cell::Real(number) => Some(Owned::Real(number)),
            Cell::Text(text) => Some(Owned::Text(text.into_owned())),
            Cell::Bytes(bytes) => Some(Owned::Bytes(bytes.to_vec())),
            Cell::Unreadable => None,
        }
    }
}

impl AsValue for Owned {
    fn as_value(&self) -> Value<'_> {
        match self {
            Owned::Null => Value::Null,
            Owned::Integer(number) => Value::Integer(*number),
            Owned::Real(number) => Value::Real(*number),
            Owned::Text(text) => Value::Text(text),
            Owned::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// The error for a row that is not what was written.
pub(crate) fn damaged(what: &'static str, row: impl Into<String>) -> Error {
    Error::Damaged { what, row: row.into() }
}

/// Reports rows that cannot be decoded as damaged.
pub(crate) trait OrDamaged<T> {
    /// Maps the error to [`Error::Damaged`] for the row that `row` names.
    fn or_damaged(self, what: &'static str, row: impl FnOnce() -> String) -> Result<T>;
}

impl<T> OrDamaged<T> for Result<T, Undecodable> {
    fn or_damaged(self, what: &'static str, row: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|Undecodable| damaged(what, row()))
    }
}
