//! Checks of whole conversations: every text and number of a request, of its reply and of the events of a stream, in the APIs of
//! [`weir_translate`].

mod file;
mod joined;
mod json_text;
#[cfg(test)]
mod planted;
mod stream;
#[cfg(test)]
mod tests;
mod vocabulary;
mod walk;

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use weir_translate::conversation::Api;
use weir_translate::json::Tape;

use crate::{Action, Placeholders, Rule, RuleSet, redact, redact_parts};
use walk::{Reading, Walk, checked_text, field_of_tokens};

pub use stream::{BlockedBy, StreamFilter};
pub use walk::texts;

/// The direction of the checked text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Text of callers.
    Input,
    /// Text of models.
    Output,
}

impl Direction {
    /// Its name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Input => "input",
            Direction::Output => "output",
        }
    }
}

/// How a streamed answer is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamMode {
    /// It is passed on as it comes, and checked at its end: findings are reported, not removed.
    Audit,
    /// Text is held back as long as it may be the beginning of a finding.
    #[default]
    Window,
    /// It is held back until its end.
    Buffer,
}

/// Why a request or its answer is not passed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A rule that blocks found something.
    #[error("a rule that blocks found something: {rule}")]
    Blocked {
        /// Where.
        direction: Direction,
        /// The name of the rule.
        rule: String,
    },
    /// A field of the request has tokens in place of text.
    #[error("`{field}` is given as tokens, which guardrails can't read")]
    Tokens {
        /// The field.
        field: &'static str,
    },
}

/// The rules of a conversation, in one set for each direction, so that a text is read once.
#[derive(Debug, Default)]
pub struct Checks {
    /// For requests.
    pub input: Option<Arc<RuleSet>>,
    /// For answers. The same set as for requests gives a value the same placeholder in both.
    pub output: Option<Arc<RuleSet>>,
    /// Whether placeholders in the answer are replaced by what they stand for.
    pub restores: bool,
    /// How streams are checked.
    pub mode: StreamMode,
    /// Bytes of text that a window may hold back.
    pub window_bytes: usize,
}

/// The findings, in the order of their first occurrence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report(Vec<Reported>);

/// How often a rule found something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Where.
    pub direction: Direction,
    /// The name of the rule.
    pub rule: String,
    /// The action: `flag`, `redact` or `block`.
    pub action: &'static str,
    /// How often.
    pub count: u64,
}

impl Checks {
    /// Checks a request: its body, with placeholders if something had to be redacted. `models`: the names of models in it.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn check_input(
        &self,
        body: &Bytes,
        models: &[String],
        placeholders: &mut Placeholders,
        report: &mut Report,
    ) -> Result<Bytes, Refused> {
        let Some(rules) = &self.input else { return Ok(body.clone()) };
        let json = without_bom(body);
        let tape = Tape::parse(json).ok().filter(|_| changes_texts(rules));
        if let Some(field) = tape.as_ref().and_then(|tape| field_of_tokens(tape.root(json))) {
            return Err(Refused::Tokens { field });
        }
        let walk = Walk { models, ..Walk::default() };
        let edited = checked(body, walk, Some(rules), placeholders, Direction::Input, report)?;
        Ok(edited.map_or_else(|| body.clone(), Bytes::from))
    }

    /// A source with placeholders for what the rules for requests redact or block. It is no reason to refuse the request of a caller who did not
    /// write it.
    pub fn redact_source(&self, text: &str, placeholders: &mut Placeholders, report: &mut Report) -> String {
        match &self.input {
            Some(rules) => redacted(text, rules, Direction::Input, placeholders, report),
            None => text.to_owned(),
        }
    }

    /// A text that the gateway adds to an answer, as the caller is given it: without findings of the rules for answers, and with the values that the
    /// placeholders of the request stand for. `own`: the placeholders of the answer.
    pub fn redact_added(
        &self,
        text: &str,
        own: &mut Placeholders,
        of_request: &Placeholders,
        report: &mut Report,
    ) -> String {
        let text = match &self.output {
            Some(rules) => redacted(text, rules, Direction::Output, own, report),
            None => text.to_owned(),
        };
        if self.restores { of_request.restore(&text) } else { text }
    }

    /// Checks a whole reply, and puts back what placeholders of the request stand for. `models`: the names of models in it.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn check_output(
        &self,
        api: Api,
        body: Bytes,
        models: &[String],
        placeholders: &Placeholders,
        report: &mut Report,
    ) -> Result<Bytes, Refused> {
        let rules = self.output.as_deref();
        let restores = Some(placeholders).filter(|placeholders| self.restores && !placeholders.is_empty());
        if rules.is_none() && restores.is_none() {
            return Ok(body);
        }
        let mut own = self.placeholders_of_output(placeholders);
        let removes_tokens = rules.is_some_and(changes_texts);
        let has_embeddings = !api.has_completion();
        let walk = Walk { models, removes_tokens, has_embeddings, restores, ..Walk::default() };
        let edited = checked(&body, walk, rules, &mut own, Direction::Output, report)?;
        Ok(edited.map_or(body, Bytes::from))
    }

    /// Whether a stream may differ from what the provider sent.
    pub fn changes_streams(&self) -> bool {
        self.mode != StreamMode::Audit && self.output.as_deref().is_some_and(changes_texts)
    }

    /// The placeholders with which the check of an answer begins: those of its request if the rules are the same, else none, and none that the
    /// request has.
    pub fn placeholders_of_output(&self, of_input: &Placeholders) -> Placeholders {
        let is_same = self.input.as_ref().zip(self.output.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
        if is_same {
            return of_input.clone();
        }
        let mut placeholders = Placeholders::new();
        of_input.iter().for_each(|(placeholder, _)| placeholders.reserve(placeholder));
        placeholders
    }
}

/// A text of documents with placeholders for what rules redact or block.
fn redacted(
    text: &str,
    rules: &RuleSet,
    direction: Direction,
    placeholders: &mut Placeholders,
    report: &mut Report,
) -> String {
    let mut findings = Vec::new();
    rules.scan(text, &mut findings);
    for finding in &findings {
        let rule = &rules.rules()[finding.rule];
        let action = if rule.action == Action::Flag { "flag" } else { "redact" };
        report.add_named(direction, &rule.name, action, 1);
    }
    redact(text, &findings, rules, placeholders)
}

/// The body with placeholders; `None` if nothing had to be redacted. A body that is no JSON is one text, in which JSON may stand.
fn checked(
    body: &Bytes,
    walk: Walk<'_>,
    rules: Option<&RuleSet>,
    placeholders: &mut Placeholders,
    direction: Direction,
    report: &mut Report,
) -> Result<Option<Vec<u8>>, Refused> {
    let json = without_bom(body);
    let tape = Tape::parse(json).ok();
    let root = tape.as_ref().map(|tape| tape.root(json));
    let mut is_reserved = false;
    let mut check = |parts: &[&str], reading: Reading| {
        let Some(rules) = rules else { return Ok(None) };
        let found = reading.scan(parts, rules);
        let mut is_redacted = false;
        for rule in found.rules() {
            let rule = &rules.rules()[rule];
            if reading.is_counted(rule.action) {
                report.add(direction, rule, 1);
            }
            let is_fixed = reading == Reading::Fixed && rule.action == Action::Redact;
            if rule.action == Action::Block || is_fixed {
                return Err(Refused::Blocked { direction, rule: rule.name.clone() });
            }
            is_redacted |= rule.action == Action::Redact && reading != Reading::Again;
        }
        if is_redacted && !is_reserved {
            root.map(texts).unwrap_or_default().iter().for_each(|text| placeholders.reserve(text));
            is_reserved = true;
        }
        Ok(is_redacted.then(|| redact_parts(parts, &found, rules, placeholders)))
    };
    let Some(root) = root else {
        let checked = checked_text(&String::from_utf8_lossy(json), false, &mut check)?;
        return Ok(checked.map(String::into_bytes));
    };
    let edits = walk.edits(root, &mut check)?;
    Ok((!edits.is_empty()).then(|| edits.apply(json)))
}

/// A body without the byte order mark that some servers write before JSON.
fn without_bom(body: &[u8]) -> &[u8] {
    body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body)
}

/// Whether a rule changes or ends a text, so that nothing beside the text may repeat it.
fn changes_texts(rules: &RuleSet) -> bool {
    rules.rules().iter().any(|rule| matches!(rule.action, Action::Redact | Action::Block))
}

impl Report {
    /// Adds findings of a rule, unless it allows.
    pub fn add(&mut self, direction: Direction, rule: &Rule, count: u64) {
        if let Some(action) = action_name(rule.action) {
            self.add_named(direction, &rule.name, action, count);
        }
    }

    /// Adds findings of a rule with this name.
    pub fn add_named(&mut self, direction: Direction, rule: &str, action: &'static str, count: u64) {
        match self.0.iter_mut().find(|one| one.direction == direction && one.rule == rule) {
            Some(found) => found.count += count,
            None => self.0.push(Reported { direction, rule: rule.to_owned(), action, count }),
        }
    }

    /// Adds those of another report.
    pub fn extend(&mut self, other: &Report) {
        for Reported { direction, rule, action, count } in &other.0 {
            self.add_named(*direction, rule, action, *count);
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The findings by rule.
    pub fn iter(&self) -> impl Iterator<Item = &Reported> {
        self.0.iter()
    }

    /// As in the header and in the request log: `input email redact 2, output phone flag 1`.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for Reported { direction, rule, action, count } in &self.0 {
            let separator = if text.is_empty() { "" } else { ", " };
            let direction = direction.name();
            // writing to a text does not fail
            let _ = write!(text, "{separator}{direction} {rule} {action} {count}");
        }
        text
    }
}

/// The name of an action in reports and metrics; rules that allow have none.
pub fn action_name(action: Action) -> Option<&'static str> {
    match action {
        Action::Allow => None,
        Action::Flag => Some("flag"),
        Action::Redact => Some("redact"),
        Action::Block => Some("block"),
    }
}
