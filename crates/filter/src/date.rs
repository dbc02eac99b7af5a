//! Dates in metadata: strings in the format of RFC 3339.

use jiff::civil::{Date, DateTime, Time};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const MICROS_PER_MINUTE: i64 = 60_000_000;

/// Microseconds from 1970-01-01T00:00:00Z to a date of RFC 3339 (`2024-02-29`: midnight UTC) or a date-time with an offset
/// (`2024-02-29T12:00:00.5+01:00`, `…Z`). `None` for any other string.
///
/// Digits beyond microseconds are truncated. A leap second (`23:59:60Z`) equals the second after it. `24:00`, invalid days and times
/// without an offset are not dates. The grammar is narrower than jiff's parsers, which also accept `20240229`, `2024-02-29T12` or
/// `…+01`: accepting those would change the order of stored strings.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.as_bytes().split_at_checked(DATE.len())?;
    has_shape(date, DATE).then_some(())?;
    let date = Date::new(digits(&date[..4]), digits(&date[5..7]) as i8, digits(&date[8..]) as i8).ok()?;
    if time.is_empty() {
        return Some(micros_since_epoch(date.to_datetime(Time::midnight())));
    }
    parse_time(date, time)
}

// `d` is a digit, `T` the separator of date and time.
const DATE: &[u8] = b"dddd-dd-dd";
const TIME: &[u8] = b"Tdd:dd:dd";
const OFFSET: &[u8] = b"dd:dd";

/// Whether `text` has the length of `shape`, with digits and separators in the same positions.
fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    let fits = |(byte, expected): (&u8, &u8)| match expected {
        b'd' => byte.is_ascii_digit(),
        b'T' => b"Tt ".contains(byte),
        separator => byte == separator,
    };
    text.len() == shape.len() && text.iter().zip(shape).all(fits)
}

/// The number of at most four digits.
fn digits(digits: &[u8]) -> i16 {
    digits.iter().fold(0, |number, digit| number * 10 + i16::from(digit - b'0'))
}

/// Reads `T12:00:00.5+01:00` after a date.
fn parse_time(date: Date, text: &[u8]) -> Option<i64> {
    let (time, rest) = text.split_at_checked(TIME.len())?;
    has_shape(time, TIME).then_some(())?;
    let (fraction_micros, rest) = parse_fraction(rest)?;
    let offset_micros = parse_offset_minutes(rest)? * MICROS_PER_MINUTE;
    let (hour, minute, second) = (digits(&time[1..3]), digits(&time[4..6]), digits(&time[7..]));
    // jiff has no leap seconds: read the last second of the minute, and add one
    let leap_seconds = i16::from(second == 60);
    let local = Time::new(hour as i8, minute as i8, (second - leap_seconds) as i8, 0).ok()?;
    let utc =
        micros_since_epoch(date.to_datetime(local)) - offset_micros + i64::from(leap_seconds) * 1_000_000;
    let is_midnight = utc.rem_euclid(24 * 60 * MICROS_PER_MINUTE) == 0;
    (leap_seconds == 0 || is_midnight).then_some(utc + fraction_micros)
}

/// Reads an optional fraction such as `.123456789`: microseconds, and the remaining text.
fn parse_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else { return Some((0, text)) };
    let (fraction, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let digit_at = |index: usize| fraction.get(index).map_or(0, |digit| i64::from(digit - b'0'));
    (!fraction.is_empty()).then(|| ((0..6).fold(0, |micros, index| micros * 10 + digit_at(index)), rest))
}

/// Reads `Z` or `+01:00`: the offset of local time from UTC, in minutes.
fn parse_offset_minutes(text: &[u8]) -> Option<i64> {
    let (sign, offset) = match text.split_first()? {
        (b'Z' | b'z', []) => return Some(0),
        (b'+', offset) => (1, offset),
        (b'-', offset) => (-1, offset),
        _ => return None,
    };
    has_shape(offset, OFFSET).then_some(())?;
    let (hours, minutes) = (digits(&offset[..2]), digits(&offset[3..]));
    (hours < 24 && minutes < 60).then_some(sign * i64::from(hours * 60 + minutes))
}

/// For whole seconds. Civil time, because the range of `jiff::Timestamp` ends a day before the year 9999 does.
fn micros_since_epoch(time: DateTime) -> i64 {
    time.duration_since(EPOCH).as_secs() * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::parse_timestamp;

    #[track_caller]
    fn check(text: &str, seconds: impl Into<Option<f64>>) {
        assert_eq!(
            parse_timestamp(text),
            seconds.into().map(|seconds: f64| (seconds * 1e6).round() as i64),
            "{text}"
        );
    }

    #[test]
    fn dates_and_date_times_are_parsed() {
        check("1970-01-01", 0.0);
        check("1969-12-31", -86_400.0);
        check("1970-01-01T00:00:00Z", 0.0);
        check("2024-02-29", 1_709_164_800.0);
        check("2000-02-29T23:59:59z", 951_868_799.0);
        check("2001-09-09 01:46:40Z", 1_000_000_000.0);
        check("1985-04-12t23:20:50.52Z", 482_196_050.52);
        check("0000-01-01", -62_167_219_200.0);
        assert_eq!(parse_timestamp("9999-12-31T23:59:59.999999999Z"), Some(253_402_300_799_999_999));
    }

    #[test]
    fn offsets_are_converted_to_utc() {
        check("1996-12-19T16:39:57-08:00", 851_042_397.0);
        check("1970-01-01T00:00:00+23:59", -86_340.0);
        check("1937-01-01T12:00:27.87+00:20", -1_041_337_172.13);
        check("1970-01-01T00:00:00-00:00", 0.0);
        check("1970-01-01T00:00:00+24:00", None);
        check("1970-01-01T00:00:00+01:60", None);
        check("1970-01-01T00:00:00+0100", None);
        check("1970-01-01T00:00:00+01", None);
        check("1970-01-01T00:00:00Z+01:00", None);
    }

    #[test]
    fn days_that_the_calendar_lacks_are_not_dates() {
        check("2023-02-29", None);
        check("1900-02-29", None);
        check("2024-02-30", None);
        check("2024-04-31", None);
        check("2024-00-10", None);
        check("2024-13-10", None);
        check("2024-01-00", None);
        check("2024-01-32", None);
    }

    #[test]
    fn impossible_times_are_not_dates() {
        check("2024-01-01T24:00:00Z", None);
        check("2024-01-01T23:60:00Z", None);
        check("2024-01-01T23:59:61Z", None);
        check("2024-01-01T12:00:60Z", None);
        check("2016-12-31T23:59:60Z", 1_483_228_800.0);
        check("1990-12-31T15:59:60-08:00", 662_688_000.0);
    }

    #[test]
    fn other_formats_are_not_dates() {
        for text in [
            "",
            "2024",
            "2024-01",
            "2024-1-1",
            "20240101",
            "+2024-01-01",
            "２０２４-01-01",
            " 2024-01-01",
            "2024-01-01 ",
            "2024-01-01T",
            "2024-01-01T12",
            "2024-01-01T12:00Z",
            "2024-01-01T12:00:00",
            "2024-01-01T12:00:00.Z",
            "2024-01-01T12:00:00,5Z",
            "2024-01-01X12:00:00Z",
            "2024-01-01T12:00:00é",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn digits_beyond_microseconds_are_cut_off() {
        assert_eq!(parse_timestamp("1970-01-01T00:00:00.0000019Z"), Some(1));
        assert_eq!(parse_timestamp("1969-12-31T23:59:59.9999999Z"), Some(-1));
    }
}
