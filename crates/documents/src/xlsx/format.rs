//! Number formats of a workbook: a value becomes what its reader sees.
//!
//! Dates are written as ISO 8601 whatever their format, because `3/4/2024` says less. Of a format with sections, the one for
//! the value is taken. Fractions are written as decimal numbers.

/// How the value of a cell is shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Format {
    /// As the program sees fit.
    General,
    /// A day, a time of day, or both; a time may count hours over 24.
    Date { day: bool, time: bool, elapsed: bool },
    /// A number by sections: positive, negative, zero.
    Number(Vec<Section>),
}

/// One section of a format.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Section {
    prefix: String,
    suffix: String,
    has_digits: bool,
    decimals_min: usize,
    decimals_max: usize,
    has_thousands: bool,
    /// Each divides the value by 1000.
    scaling_commas: i32,
    is_percent: bool,
    /// Digits of the exponent, with its sign; 0 for none.
    exponent_digits: usize,
    is_general: bool,
    integer_digits_min: usize,
}

/// Most decimal places.
const DECIMALS_MAX: usize = 30;
/// Characters of a format that are read.
const FORMAT_CHARS_MAX: usize = 1000;

impl Format {
    /// The format of a built-in number.
    pub(super) fn built_in(id: u32) -> Format {
        let code = match id {
            1 => "0",
            2 => "0.00",
            3 | 37 | 38 => "#,##0",
            4 | 39 | 40 => "#,##0.00",
            5 | 6 => "$#,##0",
            7 | 8 => "$#,##0.00",
            9 => "0%",
            10 => "0.00%",
            11 | 48 => "0.00E+00",
            14..=17 | 27..=31 | 36 | 50..=58 => "yyyy-mm-dd",
            18..=21 | 32..=35 | 45 | 47 => "hh:mm:ss",
            22 => "yyyy-mm-dd hh:mm",
            46 => "[h]:mm:ss",
            _ => "General",
        };
        Format::parse(code)
    }

    /// Reads the code of a format.
    pub(super) fn parse(code: &str) -> Format {
        let code: Vec<char> = code.chars().take(FORMAT_CHARS_MAX).collect();
        let (day, time, elapsed) = date_parts(&code);
        if day || time || elapsed {
            return Format::Date { day, time: time || elapsed, elapsed };
        }
        let sections: Vec<Section> = sections(&code).into_iter().take(3).map(Section::parse).collect();
        match sections.first() {
            Some(first)
                if first.is_general
                    && first.prefix.is_empty()
                    && first.suffix.is_empty()
                    && sections.len() == 1 =>
            {
                Format::General
            }
            Some(_) => Format::Number(sections),
            None => Format::General,
        }
    }

    /// A number as a reader sees it. `from_1904` is the calendar of the workbook.
    pub(super) fn show(&self, value: f64, from_1904: bool) -> String {
        match self {
            Format::General => general(value),
            Format::Date { day, time, elapsed } => {
                date(value, *day, *time, *elapsed, from_1904).unwrap_or_else(|| general(value))
            }
            Format::Number(sections) => show_number(sections, value),
        }
    }
}

/// Splits a format at the semicolons outside of quotes.
fn sections(code: &[char]) -> Vec<&[char]> {
    let (mut parts, mut start, mut quoted, mut at) = (Vec::new(), 0, false, 0);
    while at < code.len() {
        match code[at] {
            '"' => quoted = !quoted,
            '\\' if !quoted => at += 1,
            ';' if !quoted => {
                parts.push(&code[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&code[start.min(code.len())..]);
    parts
}

/// Whether the first section has parts of a day, of a time, of elapsed time.
fn date_parts(code: &[char]) -> (bool, bool, bool) {
    let (mut day, mut time, mut elapsed) = (false, false, false);
    let section = sections(code)[0];
    // `General` has letters of dates
    if section.iter().collect::<String>().to_ascii_lowercase().contains("general") {
        return (false, false, false);
    }
    let (mut quoted, mut at) = (false, 0);
    while at < section.len() {
        match section[at] {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '\\' | '_' | '*' => at += 1,
            '[' => {
                let end =
                    section[at..].iter().position(|c| *c == ']').map_or(section.len(), |length| at + length);
                elapsed |= matches!(section.get(at + 1), Some('h' | 'H' | 'm' | 's' | 'S'))
                    && section[at + 1..end].iter().all(|c| *c == section[at + 1]);
                at = end;
            }
            'y' | 'Y' | 'd' | 'D' => day = true,
            'm' | 'M' if section.iter().all(|c| !matches!(c, '0' | '#' | '?')) => {
                day |= section.iter().all(|c| !matches!(c, 'h' | 'H' | 's' | 'S'));
            }
            'h' | 'H' | 's' | 'S' => time = true,
            _ => {}
        }
        at += 1;
    }
    (day, time, elapsed)
}

impl Section {
    /// A section with the word `General`, and text before and behind it.
    fn general(code: &[char]) -> Option<Section> {
        let text: String = code.iter().collect();
        let at = text.to_ascii_lowercase().find("general")?;
        let literal = |code: &str| Section::parse(&code.chars().collect::<Vec<_>>()).prefix;
        let suffix = literal(&text[at + "general".len()..]);
        Some(Section { is_general: true, prefix: literal(&text[..at]), suffix, ..Section::default() })
    }

    fn parse(code: &[char]) -> Section {
        if let Some(section) = Section::general(code) {
            return section;
        }
        let mut section = Section::default();
        let (mut in_decimals, mut pending_commas, mut at) = (false, 0, 0);
        while at < code.len() {
            let literal = if section.has_digits { &mut section.suffix } else { &mut section.prefix };
            match code[at] {
                '"' => {
                    let end = code[at + 1..]
                        .iter()
                        .position(|c| *c == '"')
                        .map_or(code.len(), |length| at + 1 + length);
                    literal.extend(&code[at + 1..end]);
                    at = end;
                }
                '\\' => {
                    at += 1;
                    literal.extend(code.get(at));
                }
                // a space as wide as the next character; a character that fills the cell
                '_' | '*' => {
                    if code[at] == '_' {
                        literal.push(' ');
                    }
                    at += 1;
                }
                '[' => {
                    let end =
                        code[at..].iter().position(|c| *c == ']').map_or(code.len(), |length| at + length);
                    if code.get(at + 1) == Some(&'$') {
                        literal.extend(code[at + 2..end].iter().take_while(|c| **c != '-'));
                    }
                    at = end;
                }
                '0' | '#' | '?' => {
                    section.has_thousands |= pending_commas > 0 && !in_decimals;
                    pending_commas = 0;
                    section.has_digits = true;
                    section.digit(code[at], in_decimals);
                }
                ',' if section.has_digits => pending_commas += 1,
                '.' => {
                    section.scaling_commas += std::mem::take(&mut pending_commas);
                    in_decimals = true;
                    section.has_digits = true;
                }
                '%' => {
                    section.is_percent = true;
                    literal.push('%');
                }
                'E' | 'e' if matches!(code.get(at + 1), Some('+' | '-')) => {
                    let digits = code[at + 2..].iter().take_while(|c| matches!(c, '0' | '#' | '?')).count();
                    section.exponent_digits = digits.max(1);
                    at += 1 + digits;
                }
                '@' => section.is_general = true,
                other => literal.push(other),
            }
            at += 1;
        }
        section.scaling_commas += pending_commas;
        section
    }

    fn digit(&mut self, digit: char, in_decimals: bool) {
        if !in_decimals {
            self.integer_digits_min += usize::from(digit == '0');
        } else if self.decimals_max < DECIMALS_MAX {
            self.decimals_max += 1;
            if digit == '0' {
                self.decimals_min = self.decimals_max;
            }
        }
    }
}

/// Shows a number by the section for its sign.
fn show_number(sections: &[Section], value: f64) -> String {
    let (section, magnitude, sign) = match sections {
        [_, negative, ..] if value < 0.0 => (negative, -value, ""),
        [_, _, zero] if value == 0.0 => (zero, value, ""),
        [positive, ..] => (positive, value.abs(), if value < 0.0 { "-" } else { "" }),
        [] => return general(value),
    };
    let body = if section.is_general {
        general(magnitude)
    } else if !section.has_digits {
        String::new()
    } else {
        section.digits(magnitude)
    };
    let is_nothing = sign == "-" && body.chars().all(|c| matches!(c, '0' | '.' | ','));
    format!("{}{}{body}{}", if is_nothing { "" } else { sign }, section.prefix, section.suffix)
        .trim()
        .to_owned()
}

impl Section {
    /// The digits of a number that isn't negative.
    fn digits(&self, value: f64) -> String {
        if !value.is_finite() {
            return general(value);
        }
        let value =
            if self.is_percent { value * 100.0 } else { value } / 1000_f64.powi(self.scaling_commas.min(10));
        if self.exponent_digits > 0 {
            let text = format!("{value:.*e}", self.decimals_max);
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) =
                exponent.strip_prefix('-').map_or(("+", exponent), |exponent| ("-", exponent));
            return format!("{digits}E{sign}{exponent:0>width$}", width = self.exponent_digits);
        }
        // a half is rounded away from zero, as in Excel: the decimal form of the value decides, not its binary one
        let nudged = value * (1.0 + f64::EPSILON);
        let text = format!("{nudged:.*}", self.decimals_max);
        let (integer, decimals) = text.split_once('.').unwrap_or((&text, ""));
        let kept = decimals.trim_end_matches('0').len().max(self.decimals_min);
        let integer = if integer == "0" && self.integer_digits_min == 0 && kept > 0 { "" } else { integer };
        let integer = format!("{integer:0>width$}", width = self.integer_digits_min.min(DECIMALS_MAX));
        let integer = if self.has_thousands { grouped(&integer) } else { integer };
        if kept == 0 { integer } else { format!("{integer}.{}", &decimals[..kept]) }
    }
}

/// Commas between thousands.
fn grouped(integer: &str) -> String {
    let mut text = String::new();
    for (at, digit) in integer.char_indices() {
        if at > 0 && (integer.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number without a format: at most 10 decimal places, no zeros at the end.
pub(super) fn general(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    if !(1e-4..1e15).contains(&value.abs()) {
        return format!("{value}");
    }
    let text = format!("{value:.10}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A date as ISO 8601, or `None` where the number is none.
fn date(value: f64, day: bool, time: bool, elapsed: bool, from_1904: bool) -> Option<String> {
    const LAST_DAY: f64 = 2_958_466.0; // 31 December 9999
    const SECONDS_PER_DAY: i64 = 86_400;
    if !(0.0..LAST_DAY).contains(&value) {
        return None;
    }
    let seconds = (value * SECONDS_PER_DAY as f64).round() as i64;
    if elapsed && !day {
        return Some(clock(seconds));
    }
    let days = seconds / SECONDS_PER_DAY + if from_1904 { 1462 } else { 0 };
    let of_day = clock(seconds % SECONDS_PER_DAY);
    match (day, time) {
        (true, false) => Some(civil(days)),
        (true, true) => Some(format!("{} {of_day}", civil(days))),
        (false, _) => Some(of_day),
    }
}

/// Hours and minutes, and seconds unless they are 0.
fn clock(seconds: i64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if seconds == 0 {
        format!("{hours:02}:{minutes:02}")
    } else {
        format!("{hours:02}:{minutes:02}:{seconds:02}")
    }
}

/// The date of a day number of the 1900 calendar, in which 29 February 1900 exists.
fn civil(days: i64) -> String {
    const UNIX_EPOCH: i64 = 25_569;
    const DAYS_TO_MARCH_OF_YEAR_0: i64 = 719_468;
    // algorithm `civil_from_days` of Howard Hinnant
    let days = days + i64::from(days < 60) - UNIX_EPOCH + DAYS_TO_MARCH_OF_YEAR_0;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, value: f64, expected: &str) {
        assert_eq!(Format::parse(code).show(value, false), expected, "{value} as {code}");
    }

    #[test]
    fn numbers_are_shown_as_a_reader_of_the_sheet_sees_them() {
        check("General", 0.300_000_000_000_000_04, "0.3");
        check("General", 1e308, &format!("{}", 1e308));
        check("0.00%", 0.125, "12.50%");
        check("0%", 0.075, "8%");
        check("#,##0.00 \"EUR\"", 1_234_567.891, "1,234,567.89 EUR");
        check("[$€-407]#,##0.00", 1234.5, "€1,234.50");
        check("#,##0.00\\ [$€-1]", -12.0, "-12.00 €");
        check("#,##0;(#,##0);\"-\"", -1234.0, "(1,234)");
        check("#,##0;(#,##0);\"-\"", 0.0, "-");
        check("_-* #,##0.00\\ _€_-", 5.0, "5.00");
        check("0.00E+00", 12345.0, "1.23E+04");
        check("#,##0,\"k\"", 1_234_567.0, "1,235k");
        check("000000", 42.0, "000042");
        check("0.##", 1.5, "1.5");
        check("0.##", 2.0, "2");
        check("0.00", 1.005, "1.01");
        check("0", -0.2, "0");
        check("\"open\";\"closed\"", 1.0, "open");
        check("General\" kg\"", 3.5, "3.5 kg");
        check("@", 7.0, "7");
    }

    #[test]
    fn dates_are_iso_8601() {
        check("yyyy\\-mm\\-dd", 45353.0, "2024-03-02");
        check("m/d/yy h:mm", 45353.75, "2024-03-02 18:00");
        check("[$-407]d. mmmm yyyy", 1.0, "1900-01-01");
        check("mmm", 61.0, "1900-03-01");
        check("hh:mm:ss", 0.5, "12:00");
        check("[h]:mm", 1.5, "36:00");
        check("yyyy", 1e9, "1000000000");
        assert_eq!(Format::parse("yyyy-mm-dd").show(0.0, true), "1904-01-01");
        assert_eq!(Format::built_in(14).show(45353.0, false), "2024-03-02");
        assert_eq!(Format::built_in(10).show(0.125, false), "12.50%");
    }
}
