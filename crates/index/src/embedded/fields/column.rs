//! The values of one field in one segment.

use std::cmp::Ordering;

use super::sorted::SortedColumn;
use weir_filter::{Comparison, Number, Test, Value, parse_timestamp};

/// The values of a field, by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Column {
    booleans: SortedColumn<bool>,
    numbers: SortedColumn<NumberKey>,
    /// Dates, by timestamp in microseconds, then by spelling.
    dates: SortedColumn<(i64, Box<str>)>,
    /// All other strings.
    strings: SortedColumn<Box<str>>,
}

/// Values to be added to a column, each with its row.
#[derive(Debug, Default)]
pub(crate) struct NewValues {
    booleans: Vec<(bool, u16)>,
    numbers: Vec<(NumberKey, u16)>,
    dates: Vec<((i64, Box<str>), u16)>,
    strings: Vec<(Box<str>, u16)>,
}

impl NewValues {
    pub(crate) fn push(&mut self, value: Value, row: u16) {
        match value {
            Value::Boolean(value) => self.booleans.push((value, row)),
            Value::Number(number) => self.numbers.push((NumberKey::of(number), row)),
            Value::String(text) => match parse_timestamp(&text) {
                Some(timestamp) => self.dates.push(((timestamp, text.into()), row)),
                None => self.strings.push((text.into(), row)),
            },
        }
    }
}

impl Column {
    /// A copy of this column with more values.
    pub(crate) fn with(&self, added: NewValues) -> Column {
        Column {
            booleans: self.booleans.with(added.booleans),
            numbers: self.numbers.with(added.numbers),
            dates: self.dates.with(added.dates),
            strings: self.strings.with(added.strings),
        }
    }

    /// Calls `found` with the rows that have a value satisfying `test`; rows may repeat.
    pub(crate) fn select(&self, test: &Test, mut found: impl FnMut(&[u16])) {
        match test {
            Test::Exists => {
                let rows =
                    [self.booleans.rows(), self.numbers.rows(), self.dates.rows(), self.strings.rows()];
                rows.into_iter().for_each(found);
            }
            Test::Equals(value) => self.select_equal(value, &mut found),
            Test::In(values) => values.iter().for_each(|value| self.select_equal(value, &mut found)),
            Test::StartsWith(prefix) => self.select_prefix(prefix, &mut found),
            Test::Compare(comparison, value) => self.select_compared(*comparison, value, &mut found),
        }
    }

    fn select_equal(&self, value: &Value, found: &mut impl FnMut(&[u16])) {
        match value {
            Value::Boolean(value) => found(self.booleans.rows_of(value)),
            Value::Number(number) => found(self.numbers.rows_of(&NumberKey::of(*number))),
            Value::String(text) => match parse_timestamp(text) {
                Some(timestamp) => {
                    found(self.dates.rows_between(|date| date.0 < timestamp, |date| date.0 == timestamp));
                }
                None => found(self.strings.rows_of(&text.as_str().into())),
            },
        }
    }

    fn select_prefix(&self, prefix: &str, found: &mut impl FnMut(&[u16])) {
        let begins = |text: &str| text.starts_with(prefix);
        found(self.strings.rows_between(|text| **text < *prefix, |text| begins(text)));
        self.dates.iter().filter(|((_, date), _)| begins(date)).for_each(|(_, rows)| found(rows));
    }

    fn select_compared(&self, comparison: Comparison, value: &Value, found: &mut impl FnMut(&[u16])) {
        match value {
            Value::Boolean(_) => {}
            Value::Number(number) => {
                let key = NumberKey::of(*number);
                found(within(&self.numbers, comparison, |number| number.cmp(&key)));
            }
            Value::String(text) => {
                found(within(&self.strings, comparison, |string| (**string).cmp(text)));
                match parse_timestamp(text) {
                    Some(timestamp) => found(within(&self.dates, comparison, |date| date.0.cmp(&timestamp))),
                    // compared with a string that is no date, a date is a string too, and strings have another order than dates
                    None => {
                        let matching =
                            self.dates.iter().filter(|((_, date), _)| comparison.accepts((**date).cmp(text)));
                        matching.for_each(|(_, rows)| found(rows));
                    }
                }
            }
        }
    }

    /// Whether `wanted` is true of a row that has a value.
    pub(crate) fn has_any(&self, wanted: impl Fn(&u16) -> bool) -> bool {
        let rows = [self.booleans.rows(), self.numbers.rows(), self.dates.rows(), self.strings.rows()];
        rows.into_iter().flatten().any(wanted)
    }

    /// Every value with its rows: booleans, numbers, dates, other strings, each kind ascending.
    pub(crate) fn values(&self) -> impl Iterator<Item = (SortValue<'_>, &[u16])> {
        let booleans = self.booleans.iter().map(|(value, rows)| (SortValue::Boolean(*value), rows));
        let numbers = self.numbers.iter().map(|(value, rows)| (SortValue::Number(*value), rows));
        let dates =
            self.dates.iter().map(|((timestamp, text), rows)| (SortValue::Date(*timestamp, text), rows));
        let strings = self.strings.iter().map(|(text, rows)| (SortValue::String(text), rows));
        booleans.chain(numbers).chain(dates).chain(strings)
    }
}

/// A value in the sort order of documents: booleans, numbers, dates, other strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SortValue<'a> {
    Boolean(bool),
    Number(NumberKey),
    Date(i64, &'a str),
    String(&'a str),
}

impl<'a> SortValue<'a> {
    fn of(value: &'a Value) -> SortValue<'a> {
        match value {
            Value::Boolean(value) => SortValue::Boolean(*value),
            Value::Number(number) => SortValue::Number(NumberKey::of(*number)),
            Value::String(text) => match parse_timestamp(text) {
                Some(timestamp) => SortValue::Date(timestamp, text),
                None => SortValue::String(text),
            },
        }
    }

    pub(crate) fn to_value(self) -> Value {
        match self {
            SortValue::Boolean(value) => Value::Boolean(value),
            SortValue::Number(key) => Value::Number(key.number()),
            SortValue::Date(_, text) | SortValue::String(text) => Value::String(text.to_owned()),
        }
    }
}

/// The smallest value in the order of [`SortValue`].
pub(crate) fn smallest(values: Vec<Value>) -> Option<Value> {
    values.into_iter().min_by(|a, b| SortValue::of(a).cmp(&SortValue::of(b)))
}

/// The rows of values that satisfy `comparison`; `order` compares a value with the filter's.
fn within<T: Ord + Clone>(
    sorted: &SortedColumn<T>,
    comparison: Comparison,
    order: impl Fn(&T) -> Ordering,
) -> &[u16] {
    match comparison {
        Comparison::Greater => sorted.rows_between(|value| order(value).is_le(), |_| true),
        Comparison::GreaterOrEqual => sorted.rows_between(|value| order(value).is_lt(), |_| true),
        Comparison::Less => sorted.rows_between(|_| false, |value| order(value).is_lt()),
        Comparison::LessOrEqual => sorted.rows_between(|_| false, |value| order(value).is_le()),
    }
}

/// A number in 16 bytes with exact order: the nearest float, and the difference of an integer from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NumberKey {
    /// The float's bits, transformed so that they sort like the float.
    float: u64,
    /// 64-bit integers differ from the nearest float by at most 1,024.
    above: i16,
}

const SIGN: u64 = 1 << 63;

impl NumberKey {
    fn of(number: Number) -> NumberKey {
        let float = number.to_f64() + 0.0; // no negative zero
        let above = match number {
            Number::Integer(integer) => (integer - float as i128) as i16,
            Number::Float(_) => 0,
        };
        let bits = float.to_bits();
        NumberKey { float: if bits & SIGN == 0 { bits | SIGN } else { !bits }, above }
    }

    fn number(self) -> Number {
        let bits = if self.float & SIGN == 0 { !self.float } else { self.float & !SIGN };
        let float = f64::from_bits(bits);
        let integer = (float as i128).saturating_add(self.above.into());
        let is_integer = float.fract() == 0.0 && (i64::MIN.into()..=u64::MAX.into()).contains(&integer);
        if is_integer { Number::Integer(integer) } else { Number::Float(float) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_keys_preserve_order_and_round_trip() {
        let integers = [i64::MIN.into(), -9_007_199_254_740_993, -1, 0, 1];
        let large = [9_007_199_254_740_992, 9_007_199_254_740_993, i64::MAX.into(), u64::MAX.into()];
        let mut numbers: Vec<Number> = vec![Number::Float(-1e300)];
        numbers.extend(integers[..3].iter().map(|&integer| Number::Integer(integer)));
        numbers.push(Number::Float(-0.5));
        numbers.extend(integers[3..].iter().map(|&integer| Number::Integer(integer)));
        numbers.push(Number::Float(1.5));
        numbers.extend(large.iter().map(|&integer| Number::Integer(integer)));
        numbers.extend([Number::Float(18_446_744_073_709_551_616.0), Number::Float(1e300)]);
        let keys: Vec<NumberKey> = numbers.iter().map(|&number| NumberKey::of(number)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert_eq!(keys.iter().map(|key| key.number()).collect::<Vec<_>>(), numbers);
    }
}
