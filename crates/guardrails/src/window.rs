//! Guardrails on a stream.
//!
//! Text is released up to the first place at which something may have begun that more text completes; what is held is scanned again with
//! the next piece. So the output is the redaction of the whole text, however it is cut. Something that is longer than the window is
//! redacted or blocked before it is known whether it is a finding, and its rest is dropped.

use std::sync::Arc;

use crate::injection::{Event, SPAN_BYTES};
use crate::pattern::State;
use crate::scan::{CONTEXT_BYTES, Cause, Pass};
use crate::text::Text;
use crate::{Action, Finding, Placeholders, RuleSet};

/// Smallest window in bytes: everything but secrets and patterns is shorter.
pub const WINDOW_BYTES_MIN: usize = 512;

/// A finding of a rule that blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// The position of the rule in its set.
    pub rule: usize,
    /// Bytes of the stream before the finding; they were released, with placeholders.
    pub offset: usize,
}

/// Checks a stream piece by piece.
#[derive(Debug)]
pub struct Window {
    rules: Arc<RuleSet>,
    placeholders: Placeholders,
    bytes_max: usize,
    /// Text for context, then the held text.
    buffer: String,
    /// The first byte of the held text.
    held: usize,
    /// Bytes of the stream before the buffer.
    offset: usize,
    /// Phrases of prompt injection that began before the held text, relative to the buffer.
    events: Vec<Event>,
    /// What is being dropped.
    dropping: Option<Dropping>,
    counts: Vec<u64>,
    blocked: Option<Blocked>,
}

/// The rest of something that was longer than the window.
#[derive(Debug, Clone, Copy)]
enum Dropping {
    /// Up to the next blank.
    Word,
    /// A token or private key: up to a character that neither has, or after the key's last line.
    Key {
        /// Hyphens seen of those around `END … PRIVATE KEY`.
        hyphens: u8,
    },
    /// As long as the pattern could match.
    Pattern(usize, State),
}

impl Window {
    /// A window over a stream that begins, which holds at most `bytes_max` bytes, or [`WINDOW_BYTES_MIN`] if that is more.
    ///
    /// `placeholders` are those of the request, so that a value has the same one in both directions.
    pub fn new(rules: Arc<RuleSet>, placeholders: Placeholders, bytes_max: usize) -> Window {
        let counts = vec![0; rules.rules().len()];
        let bytes_max = bytes_max.max(WINDOW_BYTES_MIN);
        let (buffer, events) = (String::new(), Vec::new());
        let (held, offset, dropping, blocked) = (0, 0, None, None);
        Window { rules, placeholders, bytes_max, buffer, held, offset, events, dropping, counts, blocked }
    }

    /// Takes the next piece and appends to `out` what can be released. After a finding that blocks, nothing is released any more.
    pub fn push(&mut self, text: &str, out: &mut String) -> Option<Blocked> {
        let rest = self.drop_rest(text);
        self.buffer.push_str(rest);
        self.advance(false, out)
    }

    /// Releases what is held when the stream has ended.
    pub fn finish(&mut self, out: &mut String) -> Option<Blocked> {
        self.advance(true, out)
    }

    /// Findings so far, by the position of the rule.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.buffer.len() - self.held
    }

    /// The placeholders, those given to the window included.
    pub fn placeholders(&self) -> &Placeholders {
        &self.placeholders
    }

    fn advance(&mut self, is_final: bool, out: &mut String) -> Option<Blocked> {
        if self.blocked.is_some() || self.held == self.buffer.len() {
            return self.blocked;
        }
        let rules = Arc::clone(&self.rules);
        let text = Text::new(&self.buffer, is_final);
        let run =
            |is_strict_only| Pass::run(&rules, &text, self.held, self.offset, &self.events, is_strict_only);
        let mut pass = run(false);
        let mut end = before_crossing(&pass.findings, pass.open);
        let is_overlong = |end: usize| text.len() - end > self.bytes_max;
        if is_overlong(end) {
            // Findings that are only flagged are released instead of being held beyond the window.
            pass = run(true);
            end = before_crossing(&pass.findings, pass.open);
        }
        let cause = is_overlong(end).then_some(if end == pass.open { pass.cause } else { Cause::Short });
        let mut findings = Vec::new();
        if !pass.findings.is_empty() {
            let rest: Vec<Finding> =
                pass.findings.iter().copied().filter(|finding| finding.start >= end).collect();
            pass.findings.retain(|finding| finding.end <= end);
            rules.resolve(text.str, std::mem::take(&mut pass.findings), &mut findings);
            pass.findings = rest;
        }
        let overlong = cause.map(|cause| (cause, overlong_rule(&rules, &pass.findings, cause)));
        self.events.extend(pass.events.iter().filter(|event| event.start < end as isize));
        self.release(end, &findings, out);
        if let Some((cause, rule)) = overlong {
            self.redact_overlong(cause, rule, out);
        }
        self.forget_context();
        self.blocked
    }

    /// Releases the held text before `end` with placeholders for findings, up to one that blocks.
    fn release(&mut self, end: usize, findings: &[Finding], out: &mut String) {
        let mut copied = self.held;
        for finding in findings {
            self.counts[finding.rule] += 1;
            match self.rules.rules()[finding.rule].action {
                Action::Allow | Action::Flag => {}
                Action::Redact => {
                    out.push_str(&self.buffer[copied..finding.start]);
                    let value = &self.buffer[finding.start..finding.end];
                    out.push_str(self.placeholders.placeholder(&self.rules, finding.rule, value));
                    copied = finding.end;
                }
                Action::Block => {
                    out.push_str(&self.buffer[copied..finding.start]);
                    self.block(finding.rule, finding.start);
                    return;
                }
            }
        }
        out.push_str(&self.buffer[copied..end]);
        self.held = end;
    }

    /// Redacts or blocks all that is held because it is longer than the window.
    fn redact_overlong(&mut self, cause: Cause, rule: usize, out: &mut String) {
        if self.blocked.is_some() {
            return;
        }
        self.counts[rule] += 1;
        if self.rules.rules()[rule].action == Action::Block {
            return self.block(rule, self.held);
        }
        out.push_str(self.placeholders.placeholder(&self.rules, rule, &self.buffer[self.held..]));
        self.held = self.buffer.len();
        self.dropping = Some(match cause {
            Cause::Short => Dropping::Word,
            Cause::Key(_) => Dropping::Key { hyphens: 0 },
            Cause::Pattern(index, state) => Dropping::Pattern(index, state),
        });
    }

    fn block(&mut self, rule: usize, start: usize) {
        self.blocked = Some(Blocked { rule, offset: self.offset + start });
        self.buffer = String::new();
        self.held = 0;
    }

    /// Drops the remainder of a candidate that was longer than the window; returns the text after it.
    fn drop_rest<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(mut dropping) = self.dropping.take() else { return text };
        let end = match &mut dropping {
            Dropping::Word => text.find(char::is_whitespace),
            Dropping::Key { hyphens } => end_of_key(text, hyphens),
            Dropping::Pattern(index, state) => {
                let pattern = &self.rules.patterns[*index].1;
                match pattern.advance(*state, text) {
                    Ok(next) => {
                        *state = next;
                        None
                    }
                    Err(position) => Some(text.ceil_char_boundary(position)),
                }
            }
        };
        let dropped = end.unwrap_or(text.len());
        if end.is_none() {
            self.dropping = Some(dropping);
        }
        // Keeps the text before the remainder as context.
        self.buffer.push_str(&text[..dropped]);
        self.held = self.buffer.len();
        self.forget_context();
        &text[dropped..]
    }

    /// Forgets released text of which nothing is read any more.
    fn forget_context(&mut self) {
        // Not at each piece, because the rest moves.
        if self.held < 4 * CONTEXT_BYTES {
            return;
        }
        let forgotten = self.buffer.floor_char_boundary(self.held - CONTEXT_BYTES);
        self.buffer.drain(..forgotten);
        self.held -= forgotten;
        self.offset += forgotten;
        let forgotten = forgotten as isize;
        for event in &mut self.events {
            event.start -= forgotten;
            event.end -= forgotten;
        }
        self.events.retain(|event| event.start > -2 * SPAN_BYTES);
    }
}

/// `open`, or the start of the first of findings that overlap each other and reach beyond it.
fn before_crossing(findings: &[Finding], open: usize) -> usize {
    let mut end = open;
    while let Some(start) = findings
        .iter()
        .filter(|finding| finding.start < end && finding.end > end)
        .map(|finding| finding.start)
        .min()
    {
        end = start;
    }
    end
}

/// The rule that names what is longer than the window.
fn overlong_rule(rules: &RuleSet, findings: &[Finding], cause: Cause) -> usize {
    match cause {
        Cause::Key(rule) => rule,
        Cause::Pattern(index, _) => rules.patterns[index].0,
        Cause::Short => {
            let strict = findings.iter().map(|finding| finding.rule).filter(|rule| rules.is_strict(*rule));
            strict.max_by_key(|rule| rules.rules()[*rule].action).unwrap_or(0)
        }
    }
}

/// Where the rest of a token or private key ends: at a character that neither has, or after the ten hyphens of the key's last line.
fn end_of_key(text: &str, hyphens: &mut u8) -> Option<usize> {
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'-' if *hyphens == 9 => return Some(position + 1),
            b'-' => *hyphens += 1,
            b'0'..=b'9'
            | b'a'..=b'z'
            | b'A'..=b'Z'
            | b'+'
            | b'/'
            | b'='
            | b'.'
            | b'_'
            | b'\n'
            | b'\r'
            | b'\\' => {}
            b' ' if *hyphens > 0 => {}
            _ => return Some(position),
        }
    }
    None
}
