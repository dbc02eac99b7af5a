//! Guardrails on a stream of events: each text of the reply passes through a window of its own, which releases nothing that may be the beginning
//! of a finding; events are sent with the text that was released, or later. Strings that are complete in their event are checked there. The
//! arguments of a tool, and answers that are JSON, are held until they end, because only whole JSON can be changed and stay JSON. Comments and
//! unknown fields of events, which no client reads, are not passed on.

use std::ops::Range;
use std::sync::Arc;

use weir_translate::SseEvent;
use weir_translate::conversation::{Api, Kind, Lane, Pieces, pieces_of};
use weir_translate::json::{Edits, Tape, Value, unescaped, write_string};

use super::vocabulary::is_name;
use super::walk::{Reading, Walk};
use super::{Checks, Direction, Report, StreamMode};
use crate::{Action, Placeholders, redact_parts};
use form::Form;
use text_state::TextState;

mod form;
mod text_state;

/// Checks the events of one stream.
pub struct StreamFilter {
    api: Api,
    checks: Arc<Checks>,
    /// Those of the request.
    placeholders: Arc<Placeholders>,
    /// Names of models that are no text.
    models: Vec<String>,
    /// The placeholders of the reply so far, so that a value has the same one wherever it is repeated.
    own: Placeholders,
    /// The calls of tools that are running, as index, path and id.
    calls: Vec<(u32, String, String)>,
    /// The names and ids of them and of others so far, as index, path and text.
    names: Vec<(u32, String, String)>,
    lanes: Vec<LaneState>,
    /// Texts that have ended: a server may still continue one.
    ended: Vec<EndedText>,
    /// The end of the answer's last text, if something may have begun in it that the next one completes.
    open_text: String,
    /// That of the last event that had one.
    form: Option<Form>,
    /// Whether something was found in the event's strings that are complete in it.
    has_found: bool,
    report: Report,
}

struct LaneState {
    lane: Lane,
    text: TextState,
    /// The last event of the lane before and behind its text, without what else it has: text that is released later is sent in its form.
    template: (Vec<u8>, Vec<u8>),
    /// The escape of half a character at its end, whose other half comes with the next piece.
    half: Vec<u8>,
}

/// What a text that goes on after its end is checked with.
struct EndedText {
    lane: Lane,
    /// All of a text that was held as JSON, as the provider wrote it.
    json: String,
    /// The end of any other text, if something may have begun in it.
    open_text: String,
}

/// A rule that blocks found something: nothing more is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedBy(pub String);

impl StreamFilter {
    /// Before the first event. `placeholders`: those of the request. `models`: the names of models in events, which are no text.
    pub fn new(
        api: Api,
        checks: Arc<Checks>,
        placeholders: Arc<Placeholders>,
        models: Vec<String>,
    ) -> StreamFilter {
        let own = checks.placeholders_of_output(&placeholders);
        let (calls, names, lanes, ended) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        StreamFilter {
            api,
            checks,
            placeholders,
            models,
            own,
            calls,
            names,
            lanes,
            ended,
            open_text: String::new(),
            form: None,
            has_found: false,
            report: Report::default(),
        }
    }

    /// Takes whole events and appends what can be sent to `out`.
    ///
    /// # Errors
    /// [`BlockedBy`]; what was appended is sent before.
    pub fn push(&mut self, events: &[u8], out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        SseEvent::all(events).iter().try_for_each(|event| self.push_event(event, out))
    }

    /// Releases what is held at the end of the stream.
    ///
    /// # Errors
    /// [`BlockedBy`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        self.end_lanes(|_| true, out)
    }

    /// What was found in lanes that have ended.
    pub fn report(&self) -> &Report {
        &self.report
    }

    fn push_event(&mut self, event: &SseEvent, out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        let Some(data) = event.data() else {
            // an empty line, or a comment, of which the sign of life is kept
            let is_blank = event.raw().trim_ascii().is_empty();
            out.extend_from_slice(if is_blank { event.raw() } else { b":\n\n" });
            return Ok(());
        };
        if data.trim_ascii() == b"[DONE]" {
            self.end_lanes(|_| true, out)?;
            write_event(event, data, &Edits::default(), out);
            return Ok(());
        }
        if let Some(pieces) = self.form.as_ref().and_then(|form| form.pieces(data)) {
            return self.push_pieces(event, data, pieces, None, out);
        }
        // nothing in data that is no JSON can be checked, or read by a client; the stream is broken by it
        let Ok(tape) = Tape::parse(data) else { return Ok(()) };
        let root = tape.root(data);
        self.push_pieces(event, data, pieces_of(self.api, root), Some(root), out)
    }

    /// `root`: what the data is, unless all around its text was checked in an event of the same form.
    fn push_pieces(
        &mut self,
        event: &SseEvent,
        data: &[u8],
        pieces: Pieces,
        root: Option<Value<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockedBy> {
        let form_of_event = root.and_then(|_| Form::of(data, &pieces));
        let Pieces { texts: found, ended, calls, once, begins, ends_all, has_more } = pieces;
        self.begin_calls(calls, out)?;
        let places: Vec<Range<usize>> = found.iter().map(|(_, range)| range.clone()).collect();
        // JSON that went on after its end is held until no more can come
        let ends =
            |state: &LaneState| ends_all || ended.contains(&state.lane.index) && state.text.sent_bytes == 0;
        if found.is_empty() {
            // texts that end are sent before what repeats them
            self.end_lanes(ends, out)?;
        }
        let mut edits = Edits::default();
        if let Some(root) = root {
            edits = self.complete_strings(root, &places)?;
            if self.checks.changes_streams() {
                without_repeated(root, &mut edits);
            }
            self.form = form_of_event.filter(|_| edits.is_empty() && !self.has_found);
        }
        for (index, path, place) in &once {
            self.name_goes_on(*index, path, &data[place.clone()], |text| {
                edits.replace_by_string(place.clone(), text);
            })?;
        }
        if let Some(place) = begins {
            self.begin(&unescaped(&data[place]).unwrap_or_default())?;
        }
        // of the form in which text is sent later, each other text is empty
        let mut form = edits.clone();
        places.iter().for_each(|place| form.replace_by_string(place.clone(), ""));
        once.iter().for_each(|(.., place)| form.replace(place.clone(), b"null".to_vec()));
        let (mut pieces, mut has_text) = (Vec::new(), false);
        for (lane, range) in found {
            let literal = self.with_half(&lane, &data[range.clone()]);
            let text = unescaped(&literal).unwrap_or_default();
            let alone = if lane.kind == Kind::Other { self.whole(&text)? } else { None };
            let passed = alone.as_deref().unwrap_or(&text);
            let released = self.pass(lane, passed, || template(event, &form, data, &range))?;
            has_text |= !released.is_empty();
            let is_changed = released != text || literal != data[range.clone()];
            pieces.push((range, released, is_changed));
        }
        if has_text && self.lanes.iter().any(ends) {
            // the pieces of this event stand before what is released now
            let mut before = edits.clone();
            for (range, released, is_changed) in &mut pieces {
                before.replace_by_string(range.clone(), &std::mem::take(released));
                *is_changed = true;
            }
            write_event(event, data, &before, out);
        }
        self.end_lanes(ends, out)?;
        let has_text = pieces.iter().any(|(_, released, _)| !released.is_empty());
        for (range, released, is_changed) in pieces {
            if is_changed {
                edits.replace_by_string(range, &released);
            }
        }
        if has_more || has_text {
            write_event(event, data, &edits, out);
        }
        Ok(())
    }

    /// Takes note of calls of tools that name themselves; those of another id at the same place have ended.
    fn begin_calls(&mut self, calls: Vec<(u32, String, String)>, out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        for (index, path, id) in calls {
            match self.calls.iter_mut().find(|call| (call.0, &call.1) == (index, &path)) {
                // some servers repeat the id in each event of a call
                Some(call) if call.2 == id => continue,
                Some(call) => call.2 = id,
                None => self.calls.push((index, path.clone(), id)),
            }
            self.names.retain(|name| name.0 != index || !name.1.starts_with(&path));
            let is_of_call = |lane: &Lane| lane.index == index && lane.path.starts_with(&path);
            self.end_lanes(|state| is_of_call(&state.lane), out)?;
            self.ended.retain(|ended| !is_of_call(&ended.lane));
        }
        Ok(())
    }

    /// Checks a name together with what came of it before: some clients append it. `change` gets what it becomes.
    fn name_goes_on(
        &mut self,
        index: u32,
        path: &str,
        name: &[u8],
        change: impl FnOnce(&str),
    ) -> Result<(), BlockedBy> {
        let name = unescaped(name).unwrap_or_default();
        let place = self.names.iter().position(|(of, at, _)| (*of, at.as_str()) == (index, path));
        let Some(place) = place else {
            self.names.push((index, path.to_owned(), name));
            return Ok(());
        };
        let before = self.names[place].2.clone();
        // some servers repeat it in each event
        if name.is_empty() || before == name {
            return Ok(());
        }
        let checks = self.checks.clone();
        let changed = self.complete(&[&before, &name], Reading::Text, &checks, true)?;
        if let Some([_, name]) = changed.as_deref() {
            change(name);
        }
        self.names[place].2.push_str(&name);
        Ok(())
    }

    /// Takes in a text that is complete in its event and that further events continue.
    fn begin(&mut self, text: &str) -> Result<(), BlockedBy> {
        let mut state = TextState::new(Kind::Answer, &self.checks, &self.placeholders, self.own.clone());
        state.before = std::mem::take(&mut self.open_text);
        let pushed = state.push_text(text).and_then(|_| state.finish(&mut String::new()));
        self.open_text = state.open_text;
        pushed.map_err(|rule| self.name(rule))
    }

    /// The changes to strings that are complete in an event.
    fn complete_strings(&mut self, root: Value<'_>, places: &[Range<usize>]) -> Result<Edits, BlockedBy> {
        self.has_found = false;
        let checks = self.checks.clone();
        let placeholders = self.placeholders.clone();
        let models = std::mem::take(&mut self.models);
        let walk = Walk {
            skipped: places,
            joined: &[],
            removes_tokens: checks.changes_streams(),
            models: &models,
            restores: checks.restores.then_some(&*placeholders),
        };
        // the events of responses repeat texts that were counted
        let is_new = !self.api.repeats_texts();
        let edits = walk.edits(root, &mut |texts, reading| self.complete(texts, reading, &checks, is_new));
        self.models = models;
        edits
    }

    /// What whole texts become, which their reader takes for one. `is_new`: whether what is found in them is counted.
    fn complete(
        &mut self,
        texts: &[&str],
        reading: Reading,
        checks: &Checks,
        is_new: bool,
    ) -> Result<Option<Vec<String>>, BlockedBy> {
        let Some(rules) = &checks.output else { return Ok(None) };
        let found = reading.scan(texts, rules);
        let mut is_redacted = false;
        for rule in found.rules() {
            self.has_found = true;
            let rule = &rules.rules()[rule];
            if is_new && reading.is_counted(rule.action) {
                self.report.add(Direction::Output, rule, 1);
            }
            if rule.action == Action::Block && checks.mode != StreamMode::Audit {
                return Err(BlockedBy(rule.name.clone()));
            }
            is_redacted |= rule.action == Action::Redact;
        }
        let is_changed = is_redacted && checks.mode != StreamMode::Audit && reading != Reading::Again;
        Ok(is_changed.then(|| redact_parts(texts, &found, rules, &mut self.own)))
    }

    /// The JSON string of a piece with the half of a character that the piece before ended with, and without the half at its own end.
    fn with_half(&mut self, lane: &Lane, literal: &[u8]) -> Vec<u8> {
        let (text, half) = literal[..literal.len() - 1].split_at(start_of_half(literal));
        let index = match self.lanes.iter().position(|state| state.lane == *lane) {
            Some(index) => index,
            None if half.is_empty() => return literal.to_vec(),
            None => self.begin_lane(lane.clone()),
        };
        let before = std::mem::replace(&mut self.lanes[index].half, half.to_vec());
        [b"\"", &*before, &text[1..], b"\""].concat()
    }

    /// What becomes of a text that may be complete in its event or go on in the next ones, as that of an unknown field may.
    fn whole(&mut self, text: &str) -> Result<Option<String>, BlockedBy> {
        let checks = self.checks.clone();
        if let Ok(None) = self.complete(&[text], Reading::Text, &checks, false) {
            return Ok(None); // what is flagged is counted where it goes on
        }
        let changed = self.complete(&[text], Reading::Text, &checks, true)?;
        Ok(changed.and_then(|mut texts| texts.pop()))
    }

    /// What of a piece can be sent now.
    fn pass(
        &mut self,
        lane: Lane,
        text: &str,
        template: impl FnOnce() -> (Vec<u8>, Vec<u8>),
    ) -> Result<String, BlockedBy> {
        let index = match self.lanes.iter().position(|state| state.lane == lane) {
            Some(index) => index,
            None => self.begin_lane(lane),
        };
        let state = &mut self.lanes[index];
        if !text.is_empty() || state.template.0.is_empty() {
            state.template = template();
        }
        match state.text.push(text) {
            Ok(released) => Ok(released),
            Err(rule) => {
                let state = self.lanes.remove(index);
                Err(self.blocked_by(&state.text, rule))
            }
        }
    }

    fn begin_lane(&mut self, lane: Lane) -> usize {
        let mut text = TextState::new(lane.kind, &self.checks, &self.placeholders, self.own.clone());
        if self.checks.mode != StreamMode::Audit {
            if lane.kind == Kind::Answer {
                text.before = std::mem::take(&mut self.open_text);
            }
            if let Some(index) = self.ended.iter().position(|ended| ended.lane == lane) {
                text.go_on(self.ended.swap_remove(index));
            }
        }
        self.lanes.push(LaneState { lane, text, template: Default::default(), half: Vec::new() });
        self.lanes.len() - 1
    }

    /// Sends what is held of lanes that end.
    fn end_lanes(&mut self, ends: impl Fn(&LaneState) -> bool, out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        let mut index = 0;
        while index < self.lanes.len() {
            if !ends(&self.lanes[index]) {
                index += 1;
                continue;
            }
            let LaneState { lane, mut text, template: (head, tail), .. } = self.lanes.remove(index);
            let mut released = String::new();
            let is_json = text.is_json.unwrap_or_else(|| !text.held.trim().is_empty());
            let mut json = String::new();
            let ended = if is_json {
                json = std::mem::take(&mut text.held);
                text.open_text =
                    text.window.as_ref().map(|window| window.open_text_of(&json)).unwrap_or_default();
                self.whole_json(&json, text.sent_bytes, &mut released)
            } else {
                text.finish(&mut released).map_err(|rule| self.name(rule))
            };
            if !released.is_empty() {
                out.extend_from_slice(&head);
                write_string(out, &released);
                out.extend_from_slice(&tail);
            }
            self.count(&text);
            if lane.kind == Kind::Answer {
                self.open_text = std::mem::take(&mut text.open_text);
            }
            if !json.is_empty() || !text.open_text.is_empty() {
                self.ended.push(EndedText { lane, json, open_text: text.open_text });
            }
            if let Some(window) = text.window {
                self.own = window.into_placeholders();
            }
            ended?;
        }
        Ok(())
    }

    /// Appends arguments of a tool, or an answer that is JSON, after a check as JSON. Of those that were taken for ended, `sent_bytes` were sent before:
    /// their rest is appended if nothing is found in the whole, since it cannot be changed any more and stay JSON.
    fn whole_json(&mut self, held: &str, sent_bytes: usize, out: &mut String) -> Result<(), BlockedBy> {
        let checks = self.checks.clone();
        let placeholders = self.placeholders.clone();
        let restores = checks.restores.then_some(&*placeholders).filter(|_| sent_bytes == 0);
        let walk = Walk { restores, ..Walk::default() };
        match walk.text(held, &mut |texts, reading| self.complete(texts, reading, &checks, true))? {
            Some(changed) if sent_bytes == 0 => out.push_str(&changed),
            Some(_) => {}
            None => out.push_str(&held[sent_bytes..]),
        }
        Ok(())
    }

    fn blocked_by(&mut self, state: &TextState, rule: usize) -> BlockedBy {
        self.count(state);
        self.name(rule)
    }

    fn name(&self, rule: usize) -> BlockedBy {
        let rules = self.checks.output.as_ref().map(|rules| rules.rules()[rule].name.clone());
        BlockedBy(rules.unwrap_or_default())
    }

    fn count(&mut self, state: &TextState) {
        let Some((window, rules)) = state.window.as_ref().zip(self.checks.output.as_ref()) else { return };
        for (rule, &count) in rules.rules().iter().zip(window.counts()) {
            if count > 0 {
                self.report.add(Direction::Output, rule, count);
            }
        }
    }
}

/// Writes an event with changes to its data. Without any, an event of plain fields is written as it came.
fn write_event(event: &SseEvent, data: &[u8], edits: &Edits, out: &mut Vec<u8>) {
    match event.data_at() {
        Some(data_at) if event.has_only_data() && has_known_name(event) && is_whole(event.raw()) => {
            out.extend_from_slice(&event.raw()[..data_at.start]);
            out.extend_from_slice(&edits.apply(data));
            out.extend_from_slice(&event.raw()[data_at.end..]);
        }
        _ => {
            write_head(event, out);
            write_line(&edits.apply(data), out);
            out.extend_from_slice(b"\n\n");
        }
    }
}

/// Removes what some servers send beside a piece: the whole message so far, whose end may be a part of a finding.
fn without_repeated(chunk: Value<'_>, edits: &mut Edits) {
    for choice in chunk.get("choices").into_iter().flat_map(Value::items) {
        if let Some(message) =
            choice.get("message").filter(|message| !message.is_null() && choice.get("delta").is_some())
        {
            edits.replace(message.range(), b"null".to_vec());
        }
    }
}

/// Where the first half of a surrogate pair begins that ends a JSON string, as an escape: some servers cut texts between both halves. The end of the
/// text if there is none.
fn start_of_half(literal: &[u8]) -> usize {
    const ESCAPE_BYTES: usize = "\\ud83d".len();
    let end = literal.len() - 1;
    let Some(start) = end.checked_sub(ESCAPE_BYTES).filter(|start| *start > 0) else { return end };
    let escape = literal[start..end].to_ascii_lowercase();
    let is_half = escape.starts_with(b"\\ud") && matches!(escape[3], b'8' | b'9' | b'a' | b'b');
    let backslashes = literal[..start].iter().rev().take_while(|byte| **byte == b'\\').count();
    if is_half && backslashes % 2 == 0 { start } else { end }
}

/// An event before and behind a place in its data.
fn template(event: &SseEvent, form: &Edits, data: &[u8], place: &Range<usize>) -> (Vec<u8>, Vec<u8>) {
    let (before, behind) = form.apply_around(data, place.clone());
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    write_head(event, &mut head);
    write_line(&before, &mut head);
    write_line(&behind, &mut tail);
    tail.extend_from_slice(b"\n\n");
    (head, tail)
}

fn write_head(event: &SseEvent, out: &mut Vec<u8>) {
    if !event.name().is_empty() && has_known_name(event) {
        out.extend_from_slice(&[b"event: ", event.name(), b"\n"].concat());
    }
    out.extend_from_slice(b"data: ");
}

/// Writes JSON in one line: a line feed stands between values only.
fn write_line(json: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(json);
    out[start..].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
}

fn has_known_name(event: &SseEvent) -> bool {
    std::str::from_utf8(event.name()).is_ok_and(is_name)
}

fn is_whole(event: &[u8]) -> bool {
    [&b"\n\n"[..], b"\r\n\r\n", b"\n\r\n", b"\r\r"].into_iter().any(|end| event.ends_with(end))
}

#[cfg(test)]
mod tests;
