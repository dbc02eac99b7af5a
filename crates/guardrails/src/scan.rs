//! One pass over a text: a table has for every byte whether a finding can begin there, and a detector looks at each such place.
//!
//! The pass can begin in the middle of a stream. Everything that a detector reads before the place where it begins is less than
//! [`CONTEXT_BYTES`] back, and [`Pass::open`] is the first place at which more text could give or change a finding.

use std::ops::Range;

use crate::injection::{self, Event, Word, Words};
use crate::text::{Text, is_two_byte_letter};
use crate::words::{NO_WORD, WORD_BYTES_MAX, is_alone, is_word, word_length, word_rest};
use crate::{Finding, RuleSet, address, number, phone, secret};

/// Bytes before the place where a pass begins that it may read.
pub(crate) const CONTEXT_BYTES: usize = 64;

/// The kinds of finding that can begin at a byte.
mod class {
    /// An ASCII letter.
    pub(super) const LETTER: u8 = 1;
    /// An ASCII digit.
    pub(super) const DIGIT: u8 = 2;
    /// A sign of which a detector wants to know, or a byte of a character that is not ASCII.
    pub(super) const SIGN: u8 = 4;
}

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => class::LETTER,
            b'0'..=b'9' => class::DIGIT,
            b'@' | b':' | b'+' | b'(' | b'-' | b'<' | b'[' | b'#' | b'!' | b'.' | b'?' | b'\n' | 0x80.. => {
                class::SIGN
            }
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// The rules of the kinds that are built in, by their position in the set.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    pub(crate) email: Option<usize>,
    pub(crate) card: Option<usize>,
    pub(crate) iban: Option<usize>,
    pub(crate) ip: Option<usize>,
    pub(crate) credentials: Option<usize>,
    pub(crate) ssn: Option<usize>,
    pub(crate) phone: Option<usize>,
    pub(crate) key: Option<usize>,
    pub(crate) injection: Option<usize>,
}

/// A pass over a text.
pub(crate) struct Pass<'t> {
    rules: &'t RuleSet,
    text: &'t Text<'t>,
    from: usize,
    /// Whether rules that only flag are left out.
    is_strict_only: bool,
    words: Words,
    /// Words before this number may belong to a phrase or an entry of which the first word was found.
    words_until: u32,
    /// The start of something whose end is not known yet: what follows it is scanned when it is, because it may belong to it.
    stopped: Option<usize>,
    /// Findings, which may overlap, in no order.
    pub(crate) findings: Vec<Finding>,
    /// Phrases and markers, in no order.
    pub(crate) events: Vec<Event>,
    /// Findings that begin before are final, and none will begin before.
    pub(crate) open: usize,
    /// The kind of finding that begins at `open`.
    pub(crate) cause: Cause,
}

/// The reasons to hold back a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something of limited length.
    Short,
    /// A secret that may go on.
    Key(usize),
    /// A match of the pattern with this number, in this state.
    Pattern(usize, crate::pattern::State),
}

impl<'t> Pass<'t> {
    /// Scans `text` from byte `from` on. `is_strict_only` leaves out rules that only flag.
    pub(crate) fn run(rules: &'t RuleSet, text: &'t Text<'t>, from: usize, is_strict_only: bool) -> Pass<'t> {
        let mut pass = Pass {
            rules,
            text,
            from,
            is_strict_only,
            words: Words::default(),
            words_until: 0,
            stopped: None,
            findings: Vec::new(),
            events: Vec::new(),
            open: text.len(),
            cause: Cause::Short,
        };
        if rules.has_detectors {
            pass.scan_bytes();
            pass.match_words();
            if !text.is_final() {
                let tail = pass.tail_start();
                pass.hold(tail, Cause::Short);
            }
        }
        pass.match_patterns();
        pass.open = text.str.floor_char_boundary(pass.open);
        pass
    }

    fn hold(&mut self, start: usize, cause: Cause) {
        if start < self.open {
            (self.open, self.cause) = (start, cause);
        }
    }

    /// Holds from `start` on if a detector saw the end of the text, and ends the scan.
    fn stop_at_end(&mut self, start: usize, cause: Cause) {
        if self.text.take_saw_end() {
            self.hold(start, cause);
            self.stopped = Some(start);
        }
    }

    /// The rule, if there is one that is not left out.
    fn active(&self, rule: Option<usize>) -> Option<usize> {
        rule.filter(|rule| !self.is_strict_only || self.rules.is_strict(*rule))
    }

    fn scan_bytes(&mut self) {
        let bytes = self.text.bytes;
        let mut at = self.begin();
        while at < bytes.len() && self.stopped.is_none() {
            let class = CLASSES[usize::from(bytes[at])];
            if class & (class::LETTER | class::DIGIT) != 0 {
                let start = at;
                let mut classes = class;
                at += 1;
                while at < bytes.len() {
                    let class = CLASSES[usize::from(bytes[at])];
                    if class & (class::LETTER | class::DIGIT) == 0 {
                        break;
                    }
                    classes |= class;
                    at += 1;
                }
                if at < bytes.len() && bytes[at] < 0x80 && classes == class::LETTER {
                    self.ascii_word(start, at);
                    if let Some(end) = self.key(start) {
                        at = self.after_word(end);
                    }
                } else {
                    at = self.word(start, at, classes);
                }
            } else if class != 0 {
                at = self.sign(at);
            } else {
                at += 1;
            }
        }
    }

    /// Where the pass begins: after the rest of a word of which the beginning was scanned before.
    fn begin(&mut self) -> usize {
        let (text, from) = (self.text, self.from);
        // The colon of a URL may be before: what it begins is after the slashes.
        for colon in from.saturating_sub(3)..from {
            if text.bytes[colon] == b':' {
                self.credentials(colon);
            }
        }
        self.after_word(from)
    }

    /// The position itself, or the end of the word that it cuts: a scan of a stream can begin there, and what it finds must be the same.
    fn after_word(&self, position: usize) -> usize {
        let (before, after) = self.text.str.split_at(position);
        let is_inside = before.chars().next_back().is_some_and(|before| is_word(before) && !is_alone(before));
        if is_inside { position + word_rest(after) } else { position }
    }

    #[inline(always)]
    fn ascii_word(&mut self, start: usize, end: usize) {
        let index = self.words.count;
        self.words.count += 1;
        if self.rules.vocabulary.may_have(&self.text.bytes[start..end], index >= self.words_until) {
            self.look_up(start, end, index);
        }
    }

    /// Runs a detector on what begins at or after `start`, and returns where it ends.
    fn detect(
        &mut self,
        rule: Option<usize>,
        start: usize,
        cause: fn(usize) -> Cause,
        find: impl FnOnce(&Text) -> Option<Range<usize>>,
    ) -> Option<usize> {
        let rule = self.active(rule)?;
        let found = find(self.text);
        self.stop_at_end(start.max(self.from), cause(rule));
        let found = found.filter(|found| found.start >= self.from)?;
        self.findings.push(Finding { start: found.start, end: found.end, rule });
        Some(found.end)
    }

    #[inline(always)]
    fn key(&mut self, start: usize) -> Option<usize> {
        match self.text.bytes[start..].first_chunk() {
            Some(first) if !secret::may_begin(*first) => None,
            _ => self.find_key(start),
        }
    }

    fn find_key(&mut self, start: usize) -> Option<usize> {
        self.detect(self.rules.kinds.key, start, Cause::Key, |text| {
            secret::key(text, start).map(|end| start..end)
        })
    }

    fn credentials(&mut self, colon: usize) -> Option<usize> {
        self.detect(
            self.rules.kinds.credentials,
            colon,
            |_| Cause::Short,
            |text| address::credentials(text, colon),
        )
    }

    /// A word with digits, or beside characters that are not ASCII, or at the end of the text. Returns where to go on.
    fn word(&mut self, start: usize, end: usize, classes: u8) -> usize {
        let text = self.text;
        if text.bytes.get(end).is_some_and(|byte| *byte >= 0x80) {
            let whole = end + word_rest(&text.str[end..]);
            if whole > end {
                self.unicode_word(start, whole);
                return self.number_or_key(start, classes).map_or(whole, |end| self.after_word(end));
            }
        }
        if end < text.len() || text.is_final() {
            self.ascii_word(start, end);
        }
        self.number_or_key(start, classes).map_or(end, |end| self.after_word(end))
    }

    fn number_or_key(&mut self, start: usize, classes: u8) -> Option<usize> {
        let bytes = self.text.bytes;
        if bytes[start].is_ascii_digit() {
            return self.number(start);
        }
        if classes & class::DIGIT != 0 || bytes.len() < start + 4 {
            let iban = self.detect(
                self.rules.kinds.iban,
                start,
                |_| Cause::Short,
                |text| number::iban(text, start).map(|end| start..end),
            );
            if iban.is_some() {
                return iban;
            }
        }
        self.key(start)
    }

    fn number(&mut self, start: usize) -> Option<usize> {
        let kinds = &self.rules.kinds;
        if !number::may_begin(self.text, start) {
            return None;
        }
        let short = |_| Cause::Short;
        self.detect(kinds.card, start, short, |text| number::card(text, start).map(|end| start..end))
            .or_else(|| {
                self.detect(kinds.ssn, start, short, |text| number::ssn(text, start).map(|end| start..end))
            })
            .or_else(|| {
                self.detect(kinds.ip, start, short, |text| number::ipv4(text, start).map(|end| start..end))
            })
            .or_else(|| self.detect(kinds.phone, start, short, |text| phone::phone(text, start)))
    }

    /// A sign, or a character that is not ASCII. Returns where to go on.
    fn sign(&mut self, at: usize) -> usize {
        let (text, kinds) = (self.text, &self.rules.kinds);
        let short = |_| Cause::Short;
        let found = match text.bytes[at] {
            b'@' => {
                let start = address::local_start(text, at);
                self.detect(kinds.email, start, short, |text| address::email(text, at))
            }
            b':' => self.credentials(at).or_else(|| {
                self.detect(kinds.ip, address::group_start(text, at), short, |text| address::ipv6(text, at))
            }),
            b'+' | b'(' if kinds.phone.is_some() => {
                let next = text.at(at + 1);
                self.stop_at_end(at, Cause::Short);
                if next.is_ascii_digit() {
                    self.detect(kinds.phone, at, short, |text| phone::phone(text, at))
                } else {
                    None
                }
            }
            b'-' => self
                .detect(kinds.key, at, Cause::Key, |text| secret::private_key(text, at).map(|end| at..end)),
            b'<' | b'[' | b'#' | b'!' => {
                self.marker(at);
                self.end_sentence(at)
            }
            b'.' | b'?' | b'\n' => self.end_sentence(at),
            0x80.. => return self.unicode(at),
            _ => None,
        };
        found.map_or(at + 1, |end| self.after_word(end))
    }

    fn marker(&mut self, at: usize) {
        if self.active(self.rules.kinds.injection).is_none() {
            return;
        }
        let event = injection::marker(self.text, at);
        self.stop_at_end(at, Cause::Short);
        self.events.extend(event);
    }

    /// `.`, `!` and `?` before a blank, and an empty line, end a sentence.
    fn end_sentence(&mut self, at: usize) -> Option<usize> {
        let next = self.text.bytes.get(at + 1).copied().unwrap_or(0);
        let ends = match self.text.bytes[at] {
            b'.' | b'!' | b'?' => matches!(next, b' ' | b'\n' | b'\r'),
            b'\n' => next == b'\n',
            _ => false,
        };
        self.words.sentence += u32::from(ends);
        None
    }

    /// A character that is not ASCII: the first of a word, or none.
    fn unicode(&mut self, at: usize) -> usize {
        let rest = &self.text.str[at..];
        let length = word_length(rest);
        if length == 0 {
            if rest.starts_with(['。', '！', '？', '…']) {
                self.words.sentence += 1;
            }
            return at + rest.chars().next().map_or(1, char::len_utf8);
        }
        self.unicode_word(at, at + length);
        at + length
    }

    fn unicode_word(&mut self, start: usize, end: usize) {
        let text = self.text;
        let is_whole =
            end < text.len() || text.is_final() || text.str[start..].chars().next().is_some_and(is_alone);
        if is_whole {
            self.words.count += 1;
            self.look_up(start, end, self.words.count - 1);
        }
    }

    fn look_up(&mut self, start: usize, end: usize, index: u32) {
        let (vocabulary, word) = (&self.rules.vocabulary, &self.text.str[start..end]);
        if end - start > WORD_BYTES_MAX {
            return;
        }
        let Some(entry) = vocabulary.find(word) else { return };
        match vocabulary.entry(entry).reach() {
            Some(reach) => self.words_until = self.words_until.max(index + 1 + reach),
            None if index >= self.words_until => return,
            None => {}
        }
        let denied = if self.rules.deny_lists.is_empty() { NO_WORD } else { vocabulary.denied(entry, word) };
        self.words.words.push(Word { start, end, index, sentence: self.words.sentence, entry, denied });
    }

    /// Phrases of prompt injection and entries of deny lists.
    fn match_words(&mut self) {
        let (rules, text) = (self.rules, self.text);
        let mut words = std::mem::take(&mut self.words);
        words.end = self.stopped.unwrap_or(text.len());
        if let (Some(_), Some(phrases)) = (self.active(rules.kinds.injection), &rules.phrases) {
            let open = phrases.find(text, &words, &rules.vocabulary, &mut self.events);
            self.hold(open, Cause::Short);
        }
        if !rules.deny_lists.is_empty() {
            let findings = &mut self.findings;
            let open = rules
                .deny_lists
                .find(text, &words, |rule, start, end| findings.push(Finding { start, end, rule }));
            self.hold(open, Cause::Short);
        }
    }

    fn match_patterns(&mut self) {
        let (rules, text, from) = (self.rules, self.text, self.from);
        for (index, (rule, pattern)) in rules.patterns.iter().enumerate() {
            if self.active(Some(*rule)).is_none() {
                continue;
            }
            let first = self.findings.len();
            let found = pattern.matches(text.str, from);
            self.findings.extend(found.map(|found| Finding {
                start: found.start,
                end: found.end,
                rule: *rule,
            }));
            if !text.is_final()
                && let Some((start, state)) = pattern.open(text.str, from, &self.findings[first..])
            {
                self.hold(start, Cause::Pattern(index, state));
            }
        }
    }

    /// The start of the last word, or of what could be the part of an address before its `@` or first colon.
    fn tail_start(&self) -> usize {
        let text = self.text;
        let mut start = text.len();
        for character in text.str[self.from..].chars().rev() {
            let is_part = match u8::try_from(character) {
                Ok(byte) if byte.is_ascii() => address::is_local(byte) || byte == b':',
                // All that addresses take for letters, some of which Unicode does not.
                _ => is_letter_of_addresses(character) || (is_word(character) && !is_alone(character)),
            };
            if !is_part || text.len() - start + character.len_utf8() > WORD_BYTES_MAX {
                break;
            }
            start -= character.len_utf8();
        }
        start
    }
}

fn is_letter_of_addresses(character: char) -> bool {
    is_two_byte_letter(character.encode_utf8(&mut [0; 4]).as_bytes()[0])
}
