//! One text of a stream on its way through its window.

use std::sync::Arc;

use weir_translate::conversation::Kind;

use super::super::{Checks, StreamMode};
use super::EndedText;
use crate::{Placeholders, Restorer, Window};

/// The text that is held while a stream is buffered has no bound of its own: replies have one.
const NO_BOUND: usize = usize::MAX;

/// What is known of one text.
pub(super) struct TextState {
    pub(super) mode: StreamMode,
    pub(super) window: Option<Window>,
    pub(super) restorer: Option<Restorer>,
    /// The text that is released when it is whole.
    pub(super) held: String,
    /// Whether it is held until then, and checked as JSON; `None` as long as its beginning does not tell.
    pub(super) is_json: Option<bool>,
    /// The end of the text that it continues, if something may have begun there. Then its beginning is held until it is as long as a window.
    pub(super) before: String,
    pub(super) bound: usize,
    /// The same at its own end.
    pub(super) open_text: String,
    /// How much of what is held was sent, as JSON that seemed to have ended.
    pub(super) sent_bytes: usize,
}

impl TextState {
    /// `own`: the placeholders of the reply so far.
    pub(super) fn new(
        kind: Kind,
        checks: &Checks,
        placeholders: &Arc<Placeholders>,
        own: Placeholders,
    ) -> TextState {
        let bound = if checks.mode == StreamMode::Buffer { NO_BOUND } else { checks.window_bytes };
        let restores = checks.restores && !placeholders.is_empty();
        TextState {
            mode: checks.mode,
            window: checks.output.as_ref().map(|rules| Window::new(rules.clone(), own, bound)),
            restorer: restores.then(|| Restorer::new(placeholders.clone())),
            held: String::new(),
            is_json: match checks.changes_streams() || restores {
                true => (kind == Kind::Arguments).then_some(true),
                false => Some(false),
            },
            before: String::new(),
            bound,
            open_text: String::new(),
            sent_bytes: 0,
        }
    }

    /// Continues a text that seemed to have ended.
    pub(super) fn go_on(&mut self, ended: EndedText) {
        if ended.json.is_empty() {
            self.before.push_str(&ended.open_text);
            return;
        }
        self.before.clear();
        self.is_json = Some(true);
        self.sent_bytes = ended.json.len();
        self.held = ended.json;
    }

    /// What can be sent after a piece, or the rule that blocks it.
    pub(super) fn push(&mut self, text: &str) -> Result<String, usize> {
        if self.is_json != Some(false) {
            self.held.push_str(text);
            self.is_json = self.is_json.or_else(|| is_json(&self.held));
            if self.is_json != Some(false) {
                return Ok(String::new());
            }
            let held = std::mem::take(&mut self.held);
            return self.push_text(&held);
        }
        self.push_text(text)
    }

    /// The same for a text that is not held until its end.
    pub(super) fn push_text(&mut self, text: &str) -> Result<String, usize> {
        let continued;
        let mut text = text;
        if !self.before.is_empty() {
            self.held.push_str(text);
            if self.held.len() < self.bound {
                return Ok(String::new());
            }
            continued = self.continued()?;
            text = &continued;
        }
        let mut checked = String::with_capacity(text.len());
        match (&mut self.window, self.mode) {
            (None, _) => checked.push_str(text),
            (Some(_), StreamMode::Buffer) => self.held.push_str(text),
            (Some(window), StreamMode::Window) => {
                if let Some(blocked) = window.push(text, &mut checked) {
                    return Err(blocked.rule);
                }
            }
            (Some(window), StreamMode::Audit) => {
                // the reply is not changed: what the window releases is dropped
                window.push(text, &mut String::new());
                checked.push_str(text);
            }
        }
        Ok(self.restored(checked))
    }

    /// What is held, without what began in the text before.
    fn continued(&mut self) -> Result<String, usize> {
        let held = std::mem::take(&mut self.held);
        match &mut self.window {
            Some(window) if !self.before.is_empty() => {
                let before = std::mem::take(&mut self.before);
                window.continue_from(&before, &held).map_err(|blocked| blocked.rule)
            }
            _ => Ok(held),
        }
    }

    fn restored(&mut self, checked: String) -> String {
        let Some(restorer) = &mut self.restorer else { return checked };
        let mut restored = String::with_capacity(checked.len());
        restorer.push(&checked, &mut restored);
        restored
    }

    /// Appends what was held.
    pub(super) fn finish(&mut self, out: &mut String) -> Result<(), usize> {
        let mut checked = String::new();
        // with what began before it, a text that is shorter than the window may be completed by the next one
        let joined = (!self.before.is_empty()).then(|| [&*self.before, &*self.held].concat());
        let held = self.continued()?;
        let mut blocked = None;
        if let Some(window) = &mut self.window {
            blocked = window.push(&held, &mut checked);
            self.open_text = match joined {
                Some(joined) => window.open_text_of(&joined),
                None => window.open_text().to_owned(),
            };
            blocked = blocked.or_else(|| window.finish(&mut checked));
        }
        // the text of an audited reply was sent already
        let is_audit = self.mode == StreamMode::Audit;
        if !is_audit {
            out.push_str(&self.restored(checked));
        }
        if let Some(restorer) = &mut self.restorer {
            restorer.finish(out);
        }
        blocked.filter(|_| !is_audit).map_or(Ok(()), |blocked| Err(blocked.rule))
    }
}

/// Whether a text that begins so is JSON: an object, or a list that is neither a placeholder nor the number of a source; `None` if more of it is needed
/// to tell.
fn is_json(begin: &str) -> Option<bool> {
    let begin = begin.trim_start();
    let is_of =
        |letters: &'static str| move |letter: char| letters.contains(letter) || letter.is_whitespace();
    let first = begin.chars().next()?;
    if !matches!(first, '{' | '[') {
        return Some(false);
    }
    let inside = begin.trim_start_matches(is_of("{["));
    match inside.chars().next()? {
        '"' | '}' => return Some(true),
        _ if first == '{' => return Some(false),
        _ => {}
    }
    let behind =
        inside.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    let rest = behind.trim_start_matches(is_of("]"));
    let count = |text: &str, letter: char| text.matches(letter).count();
    let opened = count(&begin[..begin.len() - inside.len()], '[');
    let is_open = count(&behind[..behind.len() - rest.len()], ']') < opened;
    Some(rest.chars().next()? == ',' && is_open)
}
