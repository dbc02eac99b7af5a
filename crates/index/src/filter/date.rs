//! Dates: strings in the format of RFC 3339.

/// The instant that a date (`2024-02-29`: midnight UTC) or date-time with offset (`2024-02-29T12:00:00.5+01:00`, `…Z`) of RFC
/// 3339 stands for, in microseconds since 1970 UTC; `None` for any other string.
///
/// Finer fractions are cut. A leap second (`23:59:60Z`) is the second that follows it. `24:00`, days that the month doesn't have and
/// times without an offset are no dates.
pub fn instant(text: &str) -> Option<i64> {
    todo!()
}
