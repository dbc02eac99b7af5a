//! Compiling rules, and deciding between findings that overlap.

use std::collections::{BTreeMap, HashSet};

use crate::injection::{DenyLists, Phrases};
use crate::normalise::{has_tags, shown};
use crate::pattern::Pattern;
use crate::scan::Kinds;
use crate::views::{Scan, Source};
use crate::words::{self, Vocabulary, WORD_BYTES_MAX};
use crate::{Action, Detect, Finding, Rule, RuleError};

/// Longest name of a rule.
pub(crate) const NAME_BYTES_MAX: usize = 32;

/// Rules that are ready to scan. Compile once, share between threads.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    labels: Vec<String>,
    pub(crate) kinds: Kinds,
    /// Whether there is a rule that is neither a pattern nor a length.
    pub(crate) has_detectors: bool,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) phrases: Option<Phrases>,
    pub(crate) deny_lists: DenyLists,
    pub(crate) patterns: Vec<(usize, Pattern)>,
    pub(crate) length: Option<(usize, usize)>,
    allowed_words: HashSet<String>,
    allowed_patterns: Vec<Pattern>,
}

impl RuleSet {
    /// Checks and compiles rules.
    pub fn compile(rules: &[Rule]) -> Result<RuleSet, RuleError> {
        check_names(rules)?;
        let mut set = RuleSet {
            rules: rules.to_vec(),
            labels: rules.iter().map(|rule| rule.name.to_ascii_uppercase()).collect(),
            kinds: Kinds::default(),
            has_detectors: false,
            vocabulary: Vocabulary::default(),
            phrases: None,
            deny_lists: DenyLists::default(),
            patterns: Vec::new(),
            length: None,
            allowed_words: HashSet::new(),
            allowed_patterns: Vec::new(),
        };
        for (index, rule) in rules.iter().enumerate() {
            set.add(index, rule)?;
        }
        Ok(set)
    }

    /// The rules, in the order in which they were given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Appends the findings in a text to `out`, by position. They do not overlap: of rules whose findings overlap, the one with the
    /// strongest action is named, then the one with the longest finding. A finding that is redacted or blocked covers all such findings
    /// that it overlaps, so that no part of them is left.
    pub fn scan(&self, text: &str, out: &mut Vec<Finding>) {
        let findings = self.unresolved(text);
        if !findings.is_empty() {
            self.resolve(text, findings, out);
        }
    }

    /// The findings in a text, which may overlap, in no order.
    pub(crate) fn unresolved(&self, text: &str) -> Vec<Finding> {
        let source = Source { text, is_final: true, from: 0, unchanged: 0, offset: 0, carried: &[] };
        Scan::run(self, source, false).findings
    }

    /// The name of a rule in placeholders.
    pub(crate) fn label(&self, rule: usize) -> &str {
        &self.labels[rule]
    }

    /// Whether what a rule finds must not be passed on.
    pub(crate) fn is_strict(&self, rule: usize) -> bool {
        self.rules[rule].action >= Action::Redact
    }

    /// Whether there is a rule whose findings must not be passed on.
    pub(crate) fn has_strict(&self) -> bool {
        (0..self.rules.len()).any(|rule| self.is_strict(rule))
    }

    /// The first of the rules with the strongest action.
    pub(crate) fn strictest(&self) -> usize {
        let strongest = self.rules.iter().map(|rule| rule.action).max();
        self.rules.iter().position(|rule| Some(rule.action) == strongest).unwrap_or(0)
    }

    /// Removes what is allowed, and appends the others without overlaps.
    pub(crate) fn resolve(&self, text: &str, mut findings: Vec<Finding>, out: &mut Vec<Finding>) {
        if !self.allowed_words.is_empty() || !self.allowed_patterns.is_empty() {
            findings.retain(|finding| !self.is_allowed(&text[finding.start..finding.end]));
        }
        self.separate(findings, out);
    }

    /// Decides between findings that overlap, and appends the others.
    pub(crate) fn separate(&self, mut findings: Vec<Finding>, out: &mut Vec<Finding>) {
        findings.sort_unstable_by_key(|finding| (finding.start, finding.end, finding.rule));
        let (strict, mut flags): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| self.is_strict(finding.rule));
        let strict = self.merge(strict);
        let first = out.len();
        flags.retain(|flag| {
            let after = strict.partition_point(|found| found.end <= flag.start);
            strict.get(after).is_none_or(|found| found.start >= flag.end)
        });
        out.extend(longest(flags));
        out.extend(strict);
        out[first..].sort_unstable_by_key(|finding| finding.start);
    }

    /// Merges findings that overlap into one for the whole.
    fn merge(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let rank = |finding: &Finding| {
            (self.rules[finding.rule].action, finding.end - finding.start, usize::MAX - finding.rule)
        };
        let mut merged: Vec<(Finding, Finding)> = Vec::new();
        for finding in findings {
            match merged.last_mut() {
                Some((whole, best)) if finding.start < whole.end => {
                    whole.end = whole.end.max(finding.end);
                    if rank(&finding) > rank(best) {
                        *best = finding;
                    }
                }
                _ => merged.push((finding, finding)),
            }
        }
        merged.into_iter().map(|(whole, best)| Finding { rule: best.rule, ..whole }).collect()
    }

    /// Whether a value is allowed as it is written or as it is shown. What tag characters encode is not shown, but may be read.
    fn is_allowed(&self, value: &str) -> bool {
        let is_listed = |value: &str| {
            self.allowed_words.contains(&value.to_lowercase())
                || self.allowed_patterns.iter().any(|pattern| pattern.is_match(value))
        };
        is_listed(value) || (!has_tags(value) && shown(value).is_some_and(|value| is_listed(&value)))
    }

    fn add(&mut self, index: usize, rule: &Rule) -> Result<(), RuleError> {
        let refused = |reason| Err(RuleError::Action { rule: rule.name.clone(), reason });
        match (&rule.detect, rule.action) {
            (Detect::Words(entries), Action::Allow) => {
                check_words(rule, entries)?;
                self.allowed_words.extend(entries.iter().map(|entry| entry.to_lowercase()));
            }
            (Detect::Pattern(expression), Action::Allow) => {
                self.allowed_patterns.push(Pattern::compile(&rule.name, expression, true)?);
            }
            (_, Action::Allow) => return refused("only words and patterns can be allowed"),
            (Detect::Length { .. }, Action::Redact) => {
                return refused("text that is too long can be flagged or blocked");
            }
            (Detect::Words(entries), _) => {
                check_words(rule, entries)?;
                for entry in entries {
                    self.deny_lists.add(index, entry, &mut self.vocabulary);
                }
                self.has_detectors = true;
            }
            (Detect::Pattern(expression), _) => {
                self.patterns.push((index, Pattern::compile(&rule.name, expression, false)?));
            }
            (Detect::Length { bytes_max }, _) => {
                if let Some((first, _)) = self.length.replace((index, *bytes_max)) {
                    return Err(self.duplicate(first, index));
                }
            }
            (kind, _) => return self.add_kind(index, kind),
        }
        Ok(())
    }

    fn add_kind(&mut self, index: usize, kind: &Detect) -> Result<(), RuleError> {
        self.has_detectors = true;
        let kinds = &mut self.kinds;
        let slot = match kind {
            Detect::Email => &mut kinds.email,
            Detect::PaymentCard => &mut kinds.card,
            Detect::Iban => &mut kinds.iban,
            Detect::IpAddress => &mut kinds.ip,
            Detect::UrlWithCredentials => &mut kinds.credentials,
            Detect::UsSsn => &mut kinds.ssn,
            Detect::Phone => &mut kinds.phone,
            Detect::ApiKey => &mut kinds.key,
            Detect::Injection(origin) => {
                self.phrases = Some(Phrases::new(*origin, &mut self.vocabulary));
                &mut kinds.injection
            }
            Detect::Pattern(_) | Detect::Words(_) | Detect::Length { .. } => return Ok(()),
        };
        match slot.replace(index) {
            Some(first) => Err(self.duplicate(first, index)),
            None => Ok(()),
        }
    }

    fn duplicate(&self, first: usize, second: usize) -> RuleError {
        let name = |index: usize| self.rules[index].name.clone();
        RuleError::Duplicate { first: name(first), second: name(second) }
    }
}

/// Of findings that overlap the longest, of equally long ones the first. `findings` are ordered by their start.
fn longest(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept = Vec::new();
    let mut rest = &findings[..];
    while let Some(first) = rest.first() {
        let mut end = first.end;
        let mut count = 1;
        while let Some(next) = rest.get(count).filter(|next| next.start < end) {
            end = end.max(next.end);
            count += 1;
        }
        longest_of_chain(&rest[..count], &mut kept);
        rest = &rest[count..];
    }
    kept
}

/// The same for findings each of which overlaps one before it.
fn longest_of_chain(chain: &[Finding], kept: &mut Vec<Finding>) {
    if let [only] = chain {
        return kept.push(*only);
    }
    let mut chain = chain.to_vec();
    chain.sort_by_key(|finding| (usize::MAX - (finding.end - finding.start), finding.start, finding.rule));
    // By the start: a list in which each is inserted would take time quadratic in the length of the chain.
    let mut longest: BTreeMap<usize, Finding> = BTreeMap::new();
    for finding in chain {
        let before = longest.range(..finding.end).next_back();
        if before.is_none_or(|(_, other)| other.end <= finding.start) {
            longest.insert(finding.start, finding);
        }
    }
    kept.extend(longest.into_values());
}

fn check_names(rules: &[Rule]) -> Result<(), RuleError> {
    let mut names = HashSet::new();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    for rule in rules {
        let name = &rule.name;
        let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_part);
        if !is_valid || !names.insert(name) {
            return Err(RuleError::Name { name: name.clone(), bytes_max: NAME_BYTES_MAX });
        }
    }
    Ok(())
}

fn check_words(rule: &Rule, entries: &[String]) -> Result<(), RuleError> {
    let refused = |entry: &str| RuleError::Words {
        rule: rule.name.clone(),
        entry: entry.to_owned(),
        bytes_max: WORD_BYTES_MAX,
    };
    if entries.is_empty() {
        return Err(refused(""));
    }
    for entry in entries {
        let words = words::words(entry);
        if words.is_empty() || !words.iter().all(|(_, word)| words::is_storable(word)) {
            return Err(refused(entry));
        }
    }
    Ok(())
}
