//! Guardrails on a stream.
//!
//! Text is released up to the first place at which something may have begun that more text completes; what is held is scanned again with
//! the next piece. So the output is the redaction of the whole text, however it is cut. Something that is longer than the window is
//! redacted or blocked before it is known whether it is a finding, and its rest is dropped.
//!
//! Characters that are not shown do not count, so that they cannot fill the window; there may be three times as many bytes of them.

use std::sync::Arc;

use crate::injection::{Event, SPAN_BYTES};
use crate::normalise::{View, locate, normalise, shown, shown_before, without_repeated_invisible};
use crate::pattern::State;
use crate::scan::{CONTEXT_BYTES, Cause};
use crate::views::{Scan, Source};
use crate::{Action, Finding, Placeholders, RuleSet, redact_parts};

/// Smallest window in bytes: everything but secrets and patterns is shorter.
pub const WINDOW_BYTES_MIN: usize = 512;

/// Bytes before the held text in which what is shown there is looked for.
const CONTEXT_WITH_INVISIBLE_BYTES_MAX: usize = 64 * CONTEXT_BYTES;
/// How many times the size of a window its text may have while what is shown of it fits.
const INVISIBLE_RATIO_MAX: usize = 4;

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
    /// Bytes of the buffer that normalisation does not change.
    unchanged: usize,
    /// Bytes of the stream before the buffer.
    offset: usize,
    /// Phrases of prompt injection that began before the held text, relative to the buffer.
    events: Vec<Event>,
    /// The text that is being dropped.
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
        view: View,
    },
    /// As long as the pattern could match in this view.
    Pattern(usize, State, View),
}

impl Window {
    /// A window over a stream that begins, which holds at most `bytes_max` bytes, or [`WINDOW_BYTES_MIN`] if that is more. With characters
    /// that are not shown, or are written with more bytes than the ASCII that they look like, it holds up to four times as many.
    ///
    /// `placeholders` are those of the request, so that a value has the same one in both directions.
    pub fn new(rules: Arc<RuleSet>, placeholders: Placeholders, bytes_max: usize) -> Window {
        let counts = vec![0; rules.rules().len()];
        let bytes_max = bytes_max.max(WINDOW_BYTES_MIN);
        let (buffer, events) = (String::new(), Vec::new());
        let (held, unchanged, offset, dropping, blocked) = (0, 0, 0, None, None);
        Window {
            rules,
            placeholders,
            bytes_max,
            buffer,
            held,
            unchanged,
            offset,
            events,
            dropping,
            counts,
            blocked,
        }
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

    /// The text so far, if something may have begun in it that more text completes; else nothing. Text that is not looked at any more is left out.
    pub fn open_text(&self) -> &str {
        if self.held == self.buffer.len() { "" } else { &self.buffer }
    }

    /// The [open text](Window::open_text) of a text that is not this window's, with the same rules and bound.
    pub fn open_text_of(&self, text: &str) -> String {
        let mut window = Window::new(self.rules.clone(), self.placeholders.clone(), self.bytes_max);
        // what is found in it was found already
        let _ = window.push(text, &mut String::new());
        window.open_text().to_owned()
    }

    /// Checks the beginning of a text whose reader takes it for the continuation of another one: what begins in `before`, the
    /// [open text](Window::open_text) of that one, and ends in `start`. Gives what is to be pushed in place of `start`.
    ///
    /// # Errors
    /// A finding of a rule that blocks.
    pub fn continue_from(&mut self, before: &str, start: &str) -> Result<String, Blocked> {
        let parts = [before, start];
        let mut found = self.rules.scan_parts(&parts);
        // the window finds what is inside of the text
        found.inside.iter_mut().for_each(Vec::clear);
        let mut is_redacted = false;
        for crossing in &found.crossing {
            self.counts[crossing.rule] += 1;
            match self.rules.rules()[crossing.rule].action {
                Action::Allow | Action::Flag => {}
                Action::Redact => is_redacted = true,
                Action::Block => return Err(Blocked { rule: crossing.rule, offset: self.offset }),
            }
        }
        if !is_redacted {
            return Ok(start.to_owned());
        }
        let redacted = redact_parts(&parts, &found, &self.rules, &mut self.placeholders);
        Ok(redacted.into_iter().next_back().unwrap_or_default())
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

    /// The placeholders, for the next text of the same reply.
    pub fn into_placeholders(self) -> Placeholders {
        self.placeholders
    }

    fn advance(&mut self, is_final: bool, out: &mut String) -> Option<Blocked> {
        if self.blocked.is_some() || self.held == self.buffer.len() {
            return self.blocked;
        }
        let rules = Arc::clone(&self.rules);
        let text = self.buffer.as_str();
        let (from, unchanged, offset, carried) = (self.held, self.unchanged, self.offset, &self.events[..]);
        let source = Source { text, is_final, from, unchanged, offset, carried };
        let mut scan = Scan::run(&rules, source, false);
        self.unchanged = if scan.is_changed { unchanged } else { text.len() };
        let mut end = before_crossing(&scan.findings, scan.open);
        if self.is_overlong(end) {
            // Findings that are only flagged are released instead of being held beyond the window.
            scan = Scan::run(&rules, source, true);
            end = before_crossing(&scan.findings, scan.open);
            if !rules.has_strict() && self.is_overlong(end) {
                end = text.len();
            }
        }
        let is_overlong = self.is_overlong(end);
        let cause =
            is_overlong.then_some(if end == scan.open { scan.cause } else { (Cause::Short, View::Original) });
        let mut findings = Vec::new();
        if !scan.findings.is_empty() {
            let rest: Vec<Finding> =
                scan.findings.iter().copied().filter(|finding| finding.start >= end).collect();
            scan.findings.retain(|finding| finding.end <= end);
            rules.resolve(text, std::mem::take(&mut scan.findings), &mut findings);
            scan.findings = rest;
        }
        let overlong = cause.map(|cause| (cause, overlong_rule(&rules, &scan.findings, cause.0)));
        self.events.extend(scan.events.iter().filter(|event| event.start < end as isize));
        self.release(end, &findings, out);
        if let Some((cause, rule)) = overlong {
            self.redact_overlong(cause, rule, out);
        }
        self.forget_context();
        self.blocked
    }

    /// Whether the held text from `start` on is longer than the window.
    fn is_overlong(&self, start: usize) -> bool {
        let length = self.buffer.len() - start;
        length > self.bytes_max
            && (length > self.bytes_max.saturating_mul(INVISIBLE_RATIO_MAX)
                || shown(&self.buffer[start..]).is_none_or(|shown| shown.len() > self.bytes_max))
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
    fn redact_overlong(&mut self, (cause, view): (Cause, View), rule: usize, out: &mut String) {
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
            // Characters that are not shown do not end a key.
            Cause::Key(_) if view == View::Original => Dropping::Key { hyphens: 0, view: View::Shown },
            Cause::Key(_) => Dropping::Key { hyphens: 0, view },
            Cause::Pattern(index, state) => Dropping::Pattern(index, state, view),
        });
    }

    fn block(&mut self, rule: usize, start: usize) {
        self.blocked = Some(Blocked { rule, offset: self.offset + start });
        self.buffer = String::new();
        (self.held, self.unchanged) = (0, 0);
    }

    /// Drops the remainder of a candidate that was longer than the window; returns the text after it.
    fn drop_rest<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(mut dropping) = self.dropping.take() else { return text };
        let end = match &mut dropping {
            Dropping::Word => text.find(char::is_whitespace),
            Dropping::Key { hyphens, view } => end_in_view(text, *view, |text| end_of_key(text, hyphens)),
            Dropping::Pattern(index, state, view) => {
                let pattern = &self.rules.patterns[*index].1;
                end_in_view(text, *view, |text| match pattern.advance(*state, text) {
                    Ok(next) => {
                        *state = next;
                        None
                    }
                    Err(position) => Some(text.ceil_char_boundary(position)),
                })
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
        let start = shown_before(&self.buffer, self.held, CONTEXT_BYTES, CONTEXT_WITH_INVISIBLE_BYTES_MAX);
        let forgotten = match without_repeated_invisible(&self.buffer[start..self.held]) {
            Some(context) => {
                self.buffer.replace_range(..self.held, &context);
                self.held - context.len()
            }
            None => {
                self.buffer.drain(..start);
                start
            }
        };
        self.unchanged = if self.unchanged < self.held { 0 } else { self.unchanged - forgotten };
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

impl RuleSet {
    /// The end of a text in which something may have begun that more text completes, with the text before it, up to a number of bytes.
    pub fn open_text<'t>(&self, text: &'t str, bytes_max: usize) -> &'t str {
        let source = Source { text, is_final: false, from: 0, unchanged: 0, offset: 0, carried: &[] };
        let scan = Scan::run(self, source, false);
        let open = before_crossing(&scan.findings, scan.open);
        if open == text.len() {
            return "";
        }
        // phrases of prompt injection count together
        let is_near = |event: &&Event| event.end > text.len() as isize - SPAN_BYTES;
        let event = scan.events.iter().find(is_near).map_or(open, |event| event.start as usize);
        let start = shown_before(text, open.min(event), CONTEXT_BYTES, CONTEXT_WITH_INVISIBLE_BYTES_MAX);
        &text[text.ceil_char_boundary(start.max(text.len().saturating_sub(bytes_max)))..]
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
            // Without a finding, many characters that are not shown are what is too long.
            strict.max_by_key(|rule| rules.rules()[*rule].action).unwrap_or_else(|| rules.strictest())
        }
    }
}

/// The position that `find` gives in a view of a text, in the text itself.
fn end_in_view(text: &str, view: View, find: impl FnOnce(&str) -> Option<usize>) -> Option<usize> {
    match view {
        View::Original => find(text),
        View::Shown | View::Tagged => {
            let end = find(&normalise(text, view, 0).text)?;
            Some(locate(text, view, &[end])[0].start)
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
