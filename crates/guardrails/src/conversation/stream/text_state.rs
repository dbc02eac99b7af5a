//! One text of a stream on its way through its window.

use std::sync::Arc;

use weir_translate::conversation::Kind;

use super::super::{Checks, StreamMode};
use super::joined::{EndedText, Ends};
use crate::place::Place;
use crate::{Placeholders, Restorer, Window};

/// The text that is held while a stream is buffered has no bound of its own: replies have one.
const NO_BOUND: usize = usize::MAX;

/// The state of one text.
pub(super) struct TextState {
    pub(super) mode: StreamMode,
    pub(super) window: Option<Window>,
    pub(super) restorer: Option<Restorer>,
    /// The text that is released when it is whole.
    pub(super) held: String,
    /// Whether it is held until then, and checked as JSON; `None` until its beginning decides.
    pub(super) is_json: Option<bool>,
    beginning: Beginning,
    /// The ends of the texts that it continues. Unless they are empty, its beginning is held until it is as long as a window.
    pub(super) before: Ends,
    pub(super) bound: usize,
    /// Its own.
    pub(super) open_text: Ends,
    /// How much of what is held was sent before, as JSON that seemed to have ended.
    pub(super) sent_bytes: usize,
    /// Whether that is so because it seemed to have ended, and not because it began with its event.
    pub(super) is_late: bool,
}

impl TextState {
    /// `own`: the placeholders of the reply so far. `place`: where the text begins.
    pub(super) fn new(
        kind: Kind,
        checks: &Checks,
        placeholders: &Arc<Placeholders>,
        own: Placeholders,
        place: Place,
    ) -> TextState {
        let bound = if checks.mode == StreamMode::Buffer { NO_BOUND } else { checks.window_bytes };
        let restores = checks.restores && !placeholders.is_empty();
        TextState {
            mode: checks.mode,
            window: checks.output.as_ref().map(|rules| Window::new(rules.clone(), own, bound)),
            restorer: restores.then(|| Restorer::at(placeholders.clone(), place)),
            held: String::new(),
            is_json: match checks.changes_streams() || restores {
                true => (kind == Kind::Arguments).then_some(true),
                false => Some(false),
            },
            beginning: Beginning::default(),
            before: Ends::default(),
            bound,
            open_text: Ends::default(),
            sent_bytes: 0,
            is_late: false,
        }
    }

    /// Continues a text that seemed to have ended.
    pub(super) fn go_on(&mut self, ended: EndedText) {
        if ended.json.is_empty() {
            self.before.own = ended.open_text;
            return;
        }
        if self.before.joined == ended.open_text {
            // the whole is checked as JSON
            self.before.joined.clear();
        }
        self.is_json = Some(true);
        self.is_late = !ended.is_begun;
        self.sent_bytes = ended.json.len();
        self.held = ended.json;
    }

    /// The text that can be sent after a piece, or the rule that blocks it.
    pub(super) fn push(&mut self, text: &str) -> Result<String, usize> {
        if self.is_json != Some(false) {
            self.held.push_str(text);
            self.is_json = self.is_json.or_else(|| self.beginning.push(text));
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

    /// The held text, without findings that began in earlier texts.
    fn continued(&mut self) -> Result<String, usize> {
        let before = std::mem::take(&mut self.before);
        let mut held = std::mem::take(&mut self.held);
        if let Some(window) = &mut self.window {
            for end in before.each() {
                held = window.continue_from(end, &held).map_err(|blocked| blocked.rule)?;
            }
        }
        Ok(held)
    }

    /// Whether nothing ends in a text that began in those before, for a text that can't be changed.
    pub(super) fn stands_alone(&mut self, text: &str) -> Result<bool, usize> {
        if self.before.is_empty() {
            return Ok(true);
        }
        text.clone_into(&mut self.held);
        Ok(self.continued()? == text)
    }

    /// The ends behind a text that is not pushed.
    pub(super) fn ends_behind(&self, text: &str) -> Ends {
        self.window.as_ref().map(|window| self.before.behind(text, window)).unwrap_or_default()
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
        let joined = (!self.before.is_empty()).then(|| self.ends_behind(&self.held));
        let held = self.continued()?;
        let mut blocked = None;
        if let Some(window) = &mut self.window {
            blocked = window.push(&held, &mut checked);
            self.open_text = joined.unwrap_or_else(|| {
                let end = window.open_text().to_owned();
                Ends { own: end.clone(), joined: end }
            });
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

/// The beginning of a text that may be JSON: an object, or a list that is neither a placeholder nor the number of a source. Each letter is read once,
/// however many pieces they come in.
#[derive(Debug, Clone, Copy, Default)]
struct Beginning {
    stage: Stage,
    /// Brackets of lists that were opened, and closed.
    opened: usize,
    closed: usize,
}

#[derive(Debug, Clone, Copy, Default)]
enum Stage {
    #[default]
    Blank,
    /// Behind brackets, of which the first is that of an object or of a list.
    Object,
    List,
    /// Within a word or number.
    Word,
    /// Behind it.
    Closing,
}

impl Beginning {
    /// Whether the text is JSON; `None` if more of it is needed.
    fn push(&mut self, text: &str) -> Option<bool> {
        text.chars().find_map(|letter| self.push_letter(letter))
    }

    fn push_letter(&mut self, letter: char) -> Option<bool> {
        let is_word = letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
        match (self.stage, letter) {
            (Stage::Word, _) if is_word => {}
            (Stage::Blank | Stage::Object | Stage::List, _) if letter.is_whitespace() => {}
            (Stage::Blank, '{') => self.stage = Stage::Object,
            (Stage::Blank, '[') => (self.stage, self.opened) = (Stage::List, 1),
            (Stage::Blank, _) => return Some(false),
            (Stage::Object | Stage::List, '{') => {}
            (Stage::Object | Stage::List, '[') => self.opened += 1,
            (Stage::Object | Stage::List, '"' | '}') => return Some(true),
            (Stage::Object, _) => return Some(false),
            (Stage::List, _) if is_word => self.stage = Stage::Word,
            (Stage::List | Stage::Word | Stage::Closing, ']') => {
                (self.stage, self.closed) = (Stage::Closing, self.closed + 1);
            }
            (Stage::List | Stage::Word | Stage::Closing, _) if letter.is_whitespace() => {
                self.stage = Stage::Closing;
            }
            (Stage::List | Stage::Word | Stage::Closing, _) => {
                return Some(letter == ',' && self.closed < self.opened);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether a text is JSON, by its beginning; `None`: not known yet.
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
        let behind = inside
            .trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
        let rest = behind.trim_start_matches(is_of("]"));
        let count = |text: &str, letter: char| text.matches(letter).count();
        let opened = count(&begin[..begin.len() - inside.len()], '[');
        let is_open = count(&behind[..behind.len() - rest.len()], ']') < opened;
        Some(rest.chars().next()? == ',' && is_open)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5_000) })]

        #[test]
        fn a_beginning_in_pieces_tells_what_the_whole_text_does(
            pieces in prop::collection::vec("[\\[\\]{}\", \u{a0}a1.+é-]{0,4}", 0..6),
        ) {
            let (mut beginning, mut text, mut told) = (Beginning::default(), String::new(), None);
            for piece in pieces {
                text.push_str(&piece);
                told = told.or_else(|| beginning.push(&piece));
                prop_assert_eq!(told, is_json(&text), "{}", text);
            }
        }
    }

    #[test]
    fn a_beginning_is_read_once_however_long_it_is() {
        // read anew with each letter, this would take minutes
        let mut beginning = Beginning::default();
        assert_eq!(beginning.push("["), None);
        for _ in 0..1_000_000 {
            assert_eq!(beginning.push("a"), None);
        }
        assert_eq!(beginning.push("],"), Some(false));
    }
}
