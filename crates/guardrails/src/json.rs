//! Keys, values and numbers of JSON.

use crate::parts::{spans, starts};
use crate::{Detect, Finding, PartFindings, RuleSet};

/// Longest number that is looked at in plain notation.
const PLAIN_BYTES_MAX: usize = 64;

impl RuleSet {
    /// Scans a JSON text. `parts`: at odd places its keys and values without quotes and escapes, at even ones what stands between them.
    ///
    /// Each key and value is scanned, and all parts as one text. A finding of the whole is one in each key and value of which it has something, so
    /// that these can be replaced, and one that only flags in the first of them. Only where it has nothing of any is it one between them.
    pub(crate) fn scan_json(&self, parts: &[&str]) -> PartFindings {
        let mut inside = vec![Vec::new(); parts.len()];
        for (place, findings) in inside.iter_mut().enumerate().filter(|(place, _)| is_value(*place)) {
            if is_number(parts, place) {
                self.scan_number(parts[place], findings);
            } else {
                self.scan(parts[place], findings);
            }
        }
        let (text, starts) = (parts.concat(), starts(parts));
        let mut findings = self.unresolved(&text);
        findings.retain(|finding| {
            let place = starts.partition_point(|start| *start <= finding.start) - 1;
            let is_fraction = is_number(parts, place)
                && self.is_in_fraction(finding, parts[place], finding.start - starts[place]);
            !is_fraction && !self.is_overrun(finding, parts, &starts, &inside)
        });
        let mut whole = Vec::new();
        self.resolve(&text, findings, &mut whole);
        for finding in &whole {
            let spans = spans(finding, parts, &starts);
            let has_value = spans.iter().any(|span| is_value(span.part));
            let count = if self.is_strict(finding.rule) { spans.len() } else { 1 };
            for span in spans.iter().filter(|span| !has_value || is_value(span.part)).take(count) {
                inside[span.part].push(Finding { start: span.start, end: span.end, ..*finding });
            }
        }
        for findings in &mut inside {
            let overlapping = std::mem::take(findings);
            self.separate(overlapping, findings);
        }
        PartFindings { inside, crossing: Vec::new() }
    }

    /// Whether a finding is what a pattern such as `\S+` finds at the end of a key or value by itself, and only goes on behind it.
    fn is_overrun(
        &self,
        finding: &Finding,
        parts: &[&str],
        starts: &[usize],
        inside: &[Vec<Finding>],
    ) -> bool {
        if !matches!(self.rules()[finding.rule].detect, Detect::Pattern(_)) {
            return false;
        }
        let spans = spans(finding, parts, starts);
        let [first, _, ..] = &spans[..] else { return false };
        let found = (finding.rule, first.start, parts[first.part].len());
        let is_same = |own: &Finding| (own.rule, own.start, own.end) == found;
        is_value(first.part) && inside[first.part].iter().any(is_same)
    }

    /// Appends the findings in a number as JSON writes it to `out`, by position.
    ///
    /// The number is checked as it is written and, if it has a fraction or an exponent, in plain notation, in which a finding is one of the
    /// whole number: `4.111111111111111e15` is the number of a card. Of one that is too long in it, the digits alone are checked. A placeholder
    /// is no number, so where a finding is redacted, a JSON string with the redacted text replaces the number.
    pub fn scan_number(&self, number: &str, out: &mut Vec<Finding>) {
        let scanned = |text: &str| {
            let mut findings = Vec::new();
            self.scan(text, &mut findings);
            findings.retain(|finding| !self.is_in_fraction(finding, text, finding.start));
            findings
        };
        let mut findings = scanned(number);
        let Some(plain) = plain_notation(number) else { return out.append(&mut findings) };
        let in_plain = scanned(&plain);
        findings.extend(in_plain.iter().map(|finding| Finding { start: 0, end: number.len(), ..*finding }));
        if !findings.is_empty() {
            self.resolve(number, findings, out);
        }
    }

    /// Whether a finding that begins here has digits of a number's fraction alone, such as those of a probability, which are none of a card or phone.
    fn is_in_fraction(&self, finding: &Finding, number: &str, start: usize) -> bool {
        let is_written = matches!(
            self.rules()[finding.rule].detect,
            Detect::Pattern(_) | Detect::Words(_) | Detect::Length { .. }
        );
        !is_written && number.find('.').is_some_and(|point| point < start)
    }
}

/// Whether a part of a JSON text is a number.
fn is_number(parts: &[&str], place: usize) -> bool {
    let is_first = |first: char| first == '-' || first.is_ascii_digit();
    is_value(place) && !parts[place - 1].ends_with('"') && parts[place].starts_with(is_first)
}

/// Whether a part of a JSON text is a key or a value.
fn is_value(part: usize) -> bool {
    part % 2 == 1
}

/// The number without exponent and without zeros at its ends. Of one that would be too long, the digits alone. `None` if it has neither a fraction nor
/// an exponent, or is a small fraction.
fn plain_notation(number: &str) -> Option<String> {
    if !number.contains(['.', 'e', 'E']) {
        return None;
    }
    let (mantissa, exponent) = match number.find(['e', 'E']) {
        Some(at) => (&number[..at], number[at + 1..].parse::<i64>().ok()),
        None => (number, Some(0)),
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let written = format!("{whole}{fraction}");
    let without_first = written.trim_start_matches('0');
    let zeros = written.len() - without_first.len();
    let digits = without_first.trim_end_matches('0');
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // how many digits stand before the point; if negative, how many zeros behind it
    let point = exponent.and_then(|exponent| {
        exponent.checked_add_unsigned(whole.len() as u64)?.checked_sub_unsigned(zeros as u64)
    });
    let is_short =
        |point: &i64| digits.len() <= PLAIN_BYTES_MAX && point.unsigned_abs() <= PLAIN_BYTES_MAX as u64;
    match point.filter(is_short).map(usize::try_from) {
        Some(Ok(point)) => {
            let padded = format!("{digits:0<point$}");
            let (whole, fraction) = padded.split_at(point);
            let dot = if fraction.is_empty() { "" } else { "." };
            Some(format!("{sign}{whole}{dot}{fraction}"))
        }
        // such as a probability, which has as many digits as a card
        Some(Err(_)) if !fraction.is_empty() => None,
        Some(Err(_)) | None => Some(format!("{sign}{digits}")),
    }
}
