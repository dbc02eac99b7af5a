//! Dates: strings in the format of RFC 3339.

/// The instant that a date (`2024-02-29`: midnight UTC) or date-time with offset (`2024-02-29T12:00:00.5+01:00`, `…Z`)
/// of RFC 3339 stands for, in microseconds since 1970 UTC; `None` for any other string.
///
/// Finer fractions are cut. A leap second (`23:59:60Z`) is the second that follows it. `24:00`, days that the month
/// doesn't have and times without an offset are no dates.
pub fn instant(text: &str) -> Option<i64> {
    let mut rest = text.as_bytes();
    let year = digits(&mut rest, 4)?;
    let month = after(&mut rest, b"-", 2)?;
    let day = after(&mut rest, b"-", 2)?;
    if !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) {
        return None;
    }
    let midnight = days_since_1970(year, month, day) * 86_400 * 1_000_000;
    if rest.is_empty() { Some(midnight) } else { Some(midnight + micros_of_time(rest)?) }
}

/// What stands behind the date: `T12:00:00.5+01:00`, in microseconds since midnight UTC of that date.
fn micros_of_time(mut rest: &[u8]) -> Option<i64> {
    let hour = after(&mut rest, b"Tt ", 2)?;
    let minute = after(&mut rest, b":", 2)?;
    let second = after(&mut rest, b":", 2)?;
    let micros = if rest.first() == Some(&b'.') { fraction(&mut rest)? } else { 0 };
    let minutes = hour * 60 + minute - offset_minutes(rest)?;
    let is_leap = second == 60 && minutes.rem_euclid(24 * 60) == 24 * 60 - 1;
    if hour > 23 || minute > 59 || (second > 59 && !is_leap) {
        return None;
    }
    Some((minutes * 60 + second) * 1_000_000 + micros)
}

/// `.123456789`, in microseconds.
fn fraction(rest: &mut &[u8]) -> Option<i64> {
    let length = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (fraction, behind) = rest[1..].split_at(length);
    *rest = behind;
    let place = |at: usize| fraction.get(at).map_or(0, |digit| i64::from(digit - b'0'));
    (length > 0).then(|| (0..6).fold(0, |micros, at| micros * 10 + place(at)))
}

/// `Z`, `+01:00`: how far local time is ahead of UTC.
fn offset_minutes(mut rest: &[u8]) -> Option<i64> {
    let sign = match rest.first()? {
        b'Z' | b'z' if rest.len() == 1 => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = after(&mut rest, b"+-", 2)?;
    let minutes = after(&mut rest, b":", 2)?;
    (rest.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Takes one byte out of `separators`, then a number of just `count` digits.
fn after(rest: &mut &[u8], separators: &[u8], count: usize) -> Option<i64> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    if separators.contains(first) { digits(rest, count) } else { None }
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (number, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    let add = |sum: i64, byte: &u8| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'));
    number.iter().try_fold(0, add)
}

fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Proleptic Gregorian calendar, years from 0. Counts from 1 March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::{days_since_1970, instant, is_leap_year};

    #[track_caller]
    fn check(text: &str, seconds: impl Into<Option<f64>>) {
        assert_eq!(
            instant(text),
            seconds.into().map(|seconds: f64| (seconds * 1e6).round() as i64),
            "{text}"
        );
    }

    #[test]
    fn dates_and_times_are_instants() {
        check("1970-01-01", 0.0);
        check("1969-12-31", -86_400.0);
        check("1970-01-01T00:00:00Z", 0.0);
        check("2024-02-29", 1_709_164_800.0);
        check("2000-02-29T23:59:59z", 951_868_799.0);
        check("2001-09-09 01:46:40Z", 1_000_000_000.0);
        check("1985-04-12t23:20:50.52Z", 482_196_050.52);
        check("0000-01-01", -62_167_219_200.0);
        assert_eq!(instant("9999-12-31T23:59:59.999999999Z"), Some(253_402_300_799_999_999));
    }

    #[test]
    fn offsets_lead_to_utc() {
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
    fn days_that_the_calendar_lacks_are_refused() {
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
    fn times_that_no_clock_shows_are_refused() {
        check("2024-01-01T24:00:00Z", None);
        check("2024-01-01T23:60:00Z", None);
        check("2024-01-01T23:59:61Z", None);
        check("2024-01-01T12:00:60Z", None);
        check("2016-12-31T23:59:60Z", 1_483_228_800.0);
        check("1990-12-31T15:59:60-08:00", 662_688_000.0);
    }

    #[test]
    fn what_looks_like_a_date_and_is_none_is_a_string() {
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
    fn finer_fractions_are_cut() {
        assert_eq!(instant("1970-01-01T00:00:00.0000019Z"), Some(1));
        assert_eq!(instant("1969-12-31T23:59:59.9999999Z"), Some(-1));
    }

    #[test]
    fn days_follow_each_other_through_four_centuries() {
        let mut expected = days_since_1970(1600, 1, 1);
        for year in 1600..2001 {
            for month in 1..=12 {
                for day in 1..=super::days_of(year, month) {
                    assert_eq!(days_since_1970(year, month, day), expected, "{year}-{month}-{day}");
                    expected += 1;
                }
            }
        }
        assert_eq!(expected - days_since_1970(1600, 1, 1), 401 * 365 + 98);
        assert_eq!((1600..2001).filter(|year| is_leap_year(*year)).count(), 98);
    }
}
