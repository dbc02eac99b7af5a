//! Texts that their reader takes for one: the parts of a message.
//!
//! `4111 1111` at the end of a part and `1111 1111` at the beginning of the next are a card number for the model. So the parts are scanned
//! each, and then as one text, of which the findings count that cross from one part into another.

use crate::{Action, Finding, Placeholders, RuleSet};

/// The findings in the parts of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartFindings {
    /// For each part the findings inside of it, as [`RuleSet::scan`] gives them.
    pub inside: Vec<Vec<Finding>>,
    /// The others, by position. They overlap each other nowhere, and no finding inside of a part whose action is as strong.
    pub crossing: Vec<CrossingFinding>,
}

/// A finding that begins in one part and ends in a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossingFinding {
    /// The position of the rule in its set.
    pub rule: usize,
    /// Where it is: two spans at least, in the order of the parts. Parts of which it has nothing are left out.
    pub spans: Vec<PartSpan>,
}

/// Some bytes of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSpan {
    /// The position of the part.
    pub part: usize,
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl PartFindings {
    /// Whether there is no finding.
    pub fn is_empty(&self) -> bool {
        self.crossing.is_empty() && self.inside.iter().all(Vec::is_empty)
    }

    /// The rules of all findings: those inside of parts, then those that cross parts.
    pub fn rules(&self) -> impl Iterator<Item = usize> {
        let inside = self.inside.iter().flatten().map(|finding| finding.rule);
        inside.chain(self.crossing.iter().map(|finding| finding.rule))
    }
}

impl RuleSet {
    /// Scans texts that follow each other without a sign between them, and are read as one.
    ///
    /// [`Length`](crate::Detect::Length) counts each part on its own.
    pub fn scan_parts(&self, parts: &[&str]) -> PartFindings {
        let mut found = PartFindings::default();
        for part in parts {
            let mut inside = Vec::new();
            self.scan(part, &mut inside);
            found.inside.push(inside);
        }
        if parts.iter().filter(|part| !part.is_empty()).count() < 2 {
            return found;
        }
        let starts = starts(parts);
        let mut inside = found.inside_whole(&starts);
        inside.sort_unstable_by_key(|finding| finding.start);
        let mut whole = Vec::new();
        self.scan(&parts.concat(), &mut whole);
        for finding in whole {
            let spans = spans(&finding, parts, &starts);
            if spans.len() < 2 {
                continue;
            }
            let first = inside.partition_point(|other| other.end <= finding.start);
            let overlapping = inside[first..].iter().take_while(|other| other.start < finding.end);
            let strongest = overlapping.map(|other| self.action(other)).max();
            if strongest.is_none_or(|strongest| strongest < self.action(&finding)) {
                found.crossing.push(CrossingFinding { rule: finding.rule, spans });
            }
        }
        for crossing in &found.crossing {
            for span in &crossing.spans {
                // A weaker finding within another one is a part of it.
                found.inside[span.part].retain(|other| other.end <= span.start || other.start >= span.end);
            }
        }
        found
    }

    fn action(&self, finding: &Finding) -> Action {
        self.rules()[finding.rule].action
    }
}

impl PartFindings {
    /// The findings inside of parts by their position in the whole text.
    fn inside_whole(&self, starts: &[usize]) -> Vec<Finding> {
        let moved = |(inside, start): (&Vec<Finding>, &usize)| {
            let start = *start;
            let finding = |finding: &Finding| Finding {
                start: finding.start + start,
                end: finding.end + start,
                ..*finding
            };
            inside.iter().map(finding).collect::<Vec<_>>()
        };
        self.inside.iter().zip(starts).flat_map(moved).collect()
    }
}

/// The parts with a placeholder for each finding whose rule redacts or blocks. That of a finding that crosses parts is in the first of
/// them for all of it; its rest is removed from the others. `found` are the findings of [`RuleSet::scan_parts`] in these parts.
pub fn redact_parts(
    parts: &[&str],
    found: &PartFindings,
    rules: &RuleSet,
    placeholders: &mut Placeholders,
) -> Vec<String> {
    let (whole, starts) = (parts.concat(), starts(parts));
    placeholders.reserve(&whole);
    let mut findings = found.inside_whole(&starts);
    findings.extend(found.crossing.iter().filter_map(|crossing| {
        let (first, last) = (crossing.spans.first()?, crossing.spans.last()?);
        Some(Finding {
            start: starts[first.part] + first.start,
            end: starts[last.part] + last.end,
            rule: crossing.rule,
        })
    }));
    findings.retain(|finding| rules.is_strict(finding.rule));
    findings.sort_unstable_by_key(|finding| finding.start);
    let mut out: Vec<String> = parts.iter().map(|part| String::with_capacity(part.len())).collect();
    let mut copied = 0;
    for finding in &findings {
        copy(copied..finding.start, parts, &starts, &mut out);
        let part = starts.partition_point(|start| *start <= finding.start) - 1;
        out[part].push_str(placeholders.placeholder(rules, finding.rule, &whole[finding.start..finding.end]));
        copied = finding.end;
    }
    copy(copied..whole.len(), parts, &starts, &mut out);
    out
}

/// Appends a range of the whole text to the parts in which it is.
fn copy(range: std::ops::Range<usize>, parts: &[&str], starts: &[usize], out: &mut [String]) {
    let finding = Finding { start: range.start, end: range.end, rule: 0 };
    for span in spans(&finding, parts, starts) {
        out[span.part].push_str(&parts[span.part][span.start..span.end]);
    }
}

/// Where each part begins in the whole text.
pub(crate) fn starts(parts: &[&str]) -> Vec<usize> {
    let mut next = 0;
    let start = |part: &&str| {
        next += part.len();
        next - part.len()
    };
    parts.iter().map(start).collect()
}

/// The parts of a finding in the whole text.
pub(crate) fn spans(finding: &Finding, parts: &[&str], starts: &[usize]) -> Vec<PartSpan> {
    let first = starts.partition_point(|start| *start <= finding.start).saturating_sub(1);
    let rest = parts[first..].iter().zip(&starts[first..]);
    let touched = rest.take_while(|(_, start)| **start < finding.end).enumerate();
    let span = |(place, (text, start)): (usize, (&&str, &usize))| PartSpan {
        part: first + place,
        start: finding.start.saturating_sub(*start).min(text.len()),
        end: (finding.end - *start).min(text.len()),
    };
    touched.map(span).filter(|span| span.start < span.end).collect()
}
