//! Whole numbers of requests that have a range.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Code, Invalid};

/// A whole number of a request that is not held to its range while it is read, so that whatever lies outside, negative numbers and those
/// of more than 64 bits too, is refused later in the same words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Count(i128);

/// From here on, up or down, JSON has a whole number in a float.
const WHOLE_FROM: f64 = 9_223_372_036_854_775_808.0;

impl Count {
    /// The number; 0 for what is below, and the largest there is for what is above.
    pub fn get(self) -> u64 {
        u64::try_from(self.0.max(0)).unwrap_or(u64::MAX)
    }

    /// The same in 32 bits.
    pub fn get_u32(self) -> u32 {
        u32::try_from(self.get()).unwrap_or(u32::MAX)
    }

    /// Refuses the number at `path` when it is not in `range`, which follows from `bound`: ` (the limit …)`, or nothing.
    ///
    /// # Errors
    /// `invalid_parameter` with the number and its range.
    pub(crate) fn check(self, path: &[&str], range: RangeInclusive<u64>, bound: &str) -> Result<(), Invalid> {
        let (least, most) = range.into_inner();
        if (i128::from(least)..=i128::from(most)).contains(&self.0) {
            return Ok(());
        }
        let message = format!("{} is {self}; it must be from {least} to {most}{bound}", path.join("."));
        Err(Invalid::at(Code::InvalidParameter, path, message))
    }
}

impl<N: Into<u64>> From<N> for Count {
    fn from(number: N) -> Count {
        Count(i128::from(number.into()))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

impl Visitor<'_> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of 0 or more")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
        Ok(Count(number.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
        Ok(Count(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Count, E> {
        if number.abs() < WHOLE_FROM {
            return Err(E::invalid_type(Unexpected::Float(number), &self));
        }
        Ok(Count(number as i128))
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
    fn any_whole_number_is_read_and_nothing_else() {
        let read = |json: &str| match serde_json::from_str::<Count>(json) {
            Ok(count) => format!("{count} {} {}", count.get(), serde_json::to_string(&count).unwrap()),
            Err(error) => error.to_string(),
        };
        for (json, expected) in [
            ("0", "0 0 0"),
            ("7", "7 7 7"),
            ("-1", "-1 0 0"),
            ("18446744073709551615", "18446744073709551615 18446744073709551615 18446744073709551615"),
            ("18446744073709551616", "18446744073709551616 18446744073709551615 18446744073709551615"),
            ("-9223372036854775809", "-9223372036854775808 0 0"),
            (
                "7.0",
                "invalid type: floating point `7.0`, expected a whole number of 0 or more at line 1 column 3",
            ),
            ("\"7\"", "invalid type: string \"7\", expected a whole number of 0 or more at line 1 column 3"),
            ("true", "invalid type: boolean `true`, expected a whole number of 0 or more at line 1 column 4"),
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
    }
}
