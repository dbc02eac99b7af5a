//! Numbers of JSON.

use crate::{Finding, RuleSet};

/// Longest number that is looked at in plain notation.
const PLAIN_BYTES_MAX: usize = 64;

impl RuleSet {
    /// Appends the findings in a number as JSON writes it to `out`, by position.
    ///
    /// The number is checked as it is written and, if it has a fraction or an exponent, in plain notation, in which a finding is one of the
    /// whole number: `4.111111111111111e15` is the number of a card. A placeholder is no number, so where a finding is redacted, a JSON
    /// string with the redacted text stands in place of the number.
    pub fn scan_number(&self, number: &str, out: &mut Vec<Finding>) {
        let mut findings = Vec::new();
        self.scan(number, &mut findings);
        let Some(plain) = plain_notation(number) else { return out.append(&mut findings) };
        let mut in_plain = Vec::new();
        self.scan(&plain, &mut in_plain);
        findings.extend(in_plain.iter().map(|finding| Finding { start: 0, end: number.len(), ..*finding }));
        if !findings.is_empty() {
            self.resolve(number, findings, out);
        }
    }
}

/// The number without exponent and without zeros at the end of its fraction. `None` if it has neither a fraction nor an exponent, or is too
/// long.
fn plain_notation(number: &str) -> Option<String> {
    if !number.contains(['.', 'e', 'E']) {
        return None;
    }
    let (mantissa, exponent) = match number.find(['e', 'E']) {
        Some(at) => (&number[..at], number[at + 1..].parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = usize::try_from(i32::try_from(whole.len()).ok()?.checked_add(exponent)?).ok()?;
    if point > PLAIN_BYTES_MAX
        || digits.len() > PLAIN_BYTES_MAX
        || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let padded = format!("{digits:0<point$}");
    let (whole, fraction) = padded.split_at(point);
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{}{dot}{fraction}", whole.trim_start_matches('0')))
}
