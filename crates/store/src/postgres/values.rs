//! Values of parameters and columns in PostgreSQL's types.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::text;
use crate::tx::Value;
use crate::value::Cell;

impl ToSql for Value<'_> {
    fn to_sql(&self, type_: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *self {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) if *type_ == Type::FLOAT8 => (number as f64).to_sql(type_, out),
            Value::Integer(number) if *type_ == Type::INT4 => i32::try_from(number)?.to_sql(type_, out),
            Value::Integer(number) => number.to_sql(type_, out),
            Value::Real(number) => number.to_sql(type_, out),
            Value::Text(text) => text::escape(text).to_sql(type_, out),
            Value::Bytes(bytes) => bytes.to_sql(type_, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        type_: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let is_expected = match self {
            Value::Null => true,
            Value::Integer(_) => matches!(*type_, Type::INT8 | Type::INT4 | Type::FLOAT8),
            Value::Real(_) => *type_ == Type::FLOAT8,
            Value::Text(_) => *type_ == Type::TEXT,
            Value::Bytes(_) => *type_ == Type::BYTEA,
        };
        if !is_expected {
            return Err(format!("{self:?} is no {type_}").into());
        }
        self.to_sql(type_, out)
    }
}

/// A column of a row.
pub(crate) fn cell(row: &tokio_postgres::Row, column: usize) -> Cell<'_> {
    let Some(type_) = row.columns().get(column).map(tokio_postgres::Column::type_) else {
        return Cell::Unreadable;
    };
    match *type_ {
        Type::INT8 => read(row.try_get(column), |number| Some(Cell::Integer(number))),
        Type::INT4 => read(row.try_get(column), |number: i32| Some(Cell::Integer(i64::from(number)))),
        Type::BOOL => read(row.try_get(column), |is_true: bool| Some(Cell::Integer(i64::from(is_true)))),
        Type::FLOAT8 => read(row.try_get(column), |number| Some(Cell::Real(number))),
        Type::TEXT => read(row.try_get(column), |stored: &str| text::unescape(stored).map(Cell::Text)),
        Type::BYTEA => read(row.try_get(column), |bytes| Some(Cell::Bytes(bytes))),
        _ => Cell::Unreadable,
    }
}

fn read<'a, T>(
    column: Result<Option<T>, tokio_postgres::Error>,
    cell: impl FnOnce(T) -> Option<Cell<'a>>,
) -> Cell<'a> {
    match column {
        Ok(Some(value)) => cell(value).unwrap_or(Cell::Unreadable),
        Ok(None) => Cell::Null,
        Err(_) => Cell::Unreadable,
    }
}
