//! Integers in requests, validated after parsing.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{ErrorCode, Invalid, Result};

/// An integer in a request. Parsing accepts any JSON value; [`Count::check`] then reports a value out of range, a number
/// beyond 64 bits and a value of another type with the same message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Count(Result<i128, &'static str>);

/// serde_json parses integers beyond 64 bits as floats, of at least this magnitude.
const FLOAT_INTEGER_MIN: f64 = 9_223_372_036_854_775_808.0;

impl Count {
    /// The number, saturated to 64 bits; 0 if the value is not an integer.
    pub fn get(self) -> u64 {
        u64::try_from(self.0.unwrap_or(0).max(0)).unwrap_or(u64::MAX)
    }

    /// The number, saturated to 32 bits.
    pub fn get_u32(self) -> u32 {
        u32::try_from(self.get()).unwrap_or(u32::MAX)
    }

    /// Checks that the number at `path` is in `range`. `bound` names the origin of the range, such as ` (the limit …)`, or is empty.
    ///
    /// # Errors
    /// `invalid_parameter` with the number and its range.
    pub(crate) fn check(self, path: &[&str], range: RangeInclusive<u64>, bound: &str) -> Result<()> {
        let (least, most) = range.into_inner();
        let what = match self.0 {
            Ok(number) if (i128::from(least)..=i128::from(most)).contains(&number) => return Ok(()),
            Ok(_) => "",
            Err(_) => "a whole number ",
        };
        let message = format!("{} is {self}; it must be {what}from {least} to {most}{bound}", path.join("."));
        Err(Invalid::at(ErrorCode::InvalidParameter, path, message))
    }
}

impl<N: Into<u64>> From<N> for Count {
    fn from(number: N) -> Count {
        Count(Ok(i128::from(number.into())))
    }
}

/// The number, or the type of another value: `a string`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(number) => number.fmt(f),
            Err(other) => other.fmt(f),
        }
    }
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
        Ok(Count(Ok(number.into())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
        Ok(Count(Ok(number.into())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Count, E> {
        let is_whole = number.abs() >= FLOAT_INTEGER_MIN;
        Ok(Count(if is_whole { Ok(number as i128) } else { Err("a floating-point number") }))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Count, E> {
        Ok(Count(Err(if value { "`true`" } else { "`false`" })))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Count, E> {
        Ok(Count(Err("a string")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Count, A::Error> {
        IgnoredAny.visit_seq(list).map(|_| Count(Err("a list")))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Count, A::Error> {
        IgnoredAny.visit_map(object).map(|_| Count(Err("an object")))
    }
}

impl JsonSchema for Count {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        u64::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_integer_is_parsed_and_other_values_are_named_by_type() {
        let read = |json: &str| {
            let count: Count = serde_json::from_str(json).unwrap();
            format!("{count} {} {}", count.get(), serde_json::to_string(&count).unwrap())
        };
        for (json, expected) in [
            ("0", "0 0 0"),
            ("7", "7 7 7"),
            ("-1", "-1 0 0"),
            ("18446744073709551615", "18446744073709551615 18446744073709551615 18446744073709551615"),
            ("18446744073709551616", "18446744073709551616 18446744073709551615 18446744073709551615"),
            ("-9223372036854775809", "-9223372036854775808 0 0"),
            ("7.0", "a floating-point number 0 0"),
            ("\"7\"", "a string 0 0"),
            ("true", "`true` 0 0"),
            ("[7, [8]]", "a list 0 0"),
            ("{\"a\": {\"b\": 7}}", "an object 0 0"),
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
        assert_eq!(serde_json::from_str::<Count>("1e300").unwrap().get(), u64::MAX);
    }

    #[test]
    fn a_number_outside_its_range_is_refused_with_the_range() {
        let check = |json: &str| {
            let count: Count = serde_json::from_str(json).unwrap();
            count.check(&["a", "b"], 1..=5, " (the limit `c`)").map_err(|invalid| invalid.message)
        };
        assert_eq!((check("1"), check("5")), (Ok(()), Ok(())));
        for number in ["0", "6", "-1", "100000000000000000000"] {
            assert_eq!(
                check(number),
                Err(format!("a.b is {number}; it must be from 1 to 5 (the limit `c`)"))
            );
        }
        assert_eq!(
            check("\"3\""),
            Err("a.b is a string; it must be a whole number from 1 to 5 (the limit `c`)".to_owned())
        );
    }
}
