//! Guardrails on a stream of events: each text of the reply passes through a window of its own, which releases nothing that may be the beginning
//! of a finding; events are sent with the text that was released, or later. Strings that are complete in their event are checked there. The
//! arguments of a tool, and answers that are JSON, are held until they end, because only whole JSON can be changed and stay JSON. Comments and
//! unknown fields of events, which no client reads, are not passed on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use weir_translate::SseEvent;
use weir_translate::conversation::{Api, Kind, Lane, Pieces, pieces_of};
use weir_translate::json::{Edits, Tape, Value, unescaped};

use super::walk::{Reading, Walk};
use super::{Checks, Direction, Report, StreamMode};
use crate::place::Place;
use crate::{Action, PartFindings, Placeholders, Restorer, redact_parts};
use earlier::EarlierStrings;
use form::Form;
use joined::{Chain, EndedText, is_whole_json};
use lanes::{LaneState, WORK_MIN, WORK_PER_BYTE};
use text_state::TextState;
use write::{Sequence, Template, without_repeated, write_event};

mod earlier;
mod form;
mod joined;
mod lanes;
mod text_state;
mod write;

/// Texts, calls and names that one stream has at most: what is checked together is looked up among all of them.
const PLACES_MAX: usize = 2048;
/// The name of the rule that stops such a stream.
const PLACES_RULE: &str = "at most 2,048 texts and calls in a stream";

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
    earlier: EarlierStrings,
    lanes: Vec<LaneState>,
    /// Texts that have ended: a server may still continue one.
    ended: Vec<EndedText>,
    /// The ends of the last texts that were joined, if something may have begun in them that the next ones complete.
    open_texts: Vec<(Chain, String)>,
    /// Where in the texts of an answer its next one begins: an address may have begun in the text before.
    places: Vec<(u32, Place)>,
    /// Texts of chains that were repeated whole, with their items and parts: the end of each and of those before it, and the place behind it.
    repeated: BTreeMap<(Chain, (u32, u32)), (String, Place)>,
    /// That of the last event that had one.
    form: Option<Form>,
    /// Whether the name of the event is passed on.
    keeps_name: bool,
    /// Whether something was found in the event's strings that are complete in it.
    has_found: bool,
    sequence: Sequence,
    /// The remaining work.
    work: usize,
    report: Report,
}

/// A piece of an event, and what of it is sent there.
struct Piece {
    lane: Lane,
    place: Range<usize>,
    /// As it came.
    text: String,
    released: String,
    /// Whether it begins or ends with half a character, which is sent whole.
    is_cut: bool,
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
        let (calls, lanes, ended) = (Vec::new(), Vec::new(), Vec::new());
        StreamFilter {
            api,
            checks,
            placeholders,
            models,
            own,
            calls,
            earlier: EarlierStrings::default(),
            lanes,
            ended,
            open_texts: Vec::new(),
            places: Vec::new(),
            repeated: BTreeMap::new(),
            form: None,
            keeps_name: true,
            has_found: false,
            sequence: Sequence::default(),
            work: WORK_MIN,
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
        self.end_lanes(|_| true, &mut [], out)
    }

    /// The findings in lanes that have ended.
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
        self.keeps_name = self.is_name_clean(event)?;
        if data.trim_ascii() == b"[DONE]" {
            self.end_lanes(|_| true, &mut [], out)?;
            write_event(event, data, &Edits::default(), self.keeps_name, out);
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
        let texts = pieces.texts.len() + pieces.begins.len();
        if self.places_held().max(texts) > PLACES_MAX {
            return Err(BlockedBy(PLACES_RULE.to_owned()));
        }
        self.work = self.work.saturating_add(WORK_PER_BYTE * data.len());
        let form_of_event = root.and_then(|_| Form::of(data, &pieces));
        let Pieces { texts: mut found, ended, calls, begins, repeats, ends_all, has_more, .. } = pieces;
        let (unnumbered, numbers, complete, names) =
            (pieces.unnumbered, pieces.numbers, pieces.complete, pieces.names);
        self.begin_calls(calls, out)?;
        let mut places: Vec<Range<usize>> =
            found.iter().chain(&begins).map(|(_, place)| place.clone()).collect();
        places.sort_unstable_by_key(|place| place.start);
        // JSON that went on after its end is held until no more can come
        let ends = |state: &LaneState| ends_all || ended.contains(&state.lane.index) && !state.text.is_late;
        if found.is_empty() {
            // texts that end are sent before what repeats them
            self.end_lanes(ends, &mut [], out)?;
        }
        let mut edits = Edits::default();
        if let Some(root) = root {
            let placeholders = self.placeholders.clone();
            let restores = self.checks.restores.then_some(&*placeholders);
            edits = self.complete_strings(root, &places, restores)?;
            if self.checks.changes_streams() {
                without_repeated(root, &mut edits);
                numbers.iter().for_each(|number| edits.replace(number.clone(), b"null".to_vec()));
            }
            let are_repeated = self.complete_go_on(complete, data, &mut edits)?;
            self.form = form_of_event.filter(|_| are_repeated && edits.is_empty() && !self.has_found);
            if let Some(form) = &mut self.form {
                form.template.0 = Arc::new(Template::new(event, data, &edits, self.keeps_name));
            }
        }
        self.repeated(repeats, data, &mut edits)?;
        self.spend(texts * (self.places_held() + edits.len()))?;
        // what is removed goes on nowhere
        let is_removed = |(_, place): &(Lane, Range<usize>)| edits.covers(place);
        let has_more = has_more || found.iter().any(is_removed);
        found.retain(|piece| !is_removed(piece));
        let checked = checked_pieces(&found, &mut edits);
        for (lane, place) in begins {
            edits.take(&place);
            if let Some(text) = self.begin(lane, &data[place.clone()], out)? {
                edits.replace_by_string(place, &text);
            }
        }
        let mut sent: Vec<Piece> = Vec::with_capacity(found.len());
        let template = if found.is_empty() { None } else { Some(self.template_of(event, data, &edits)?) };
        for ((lane, place), checked) in found.into_iter().zip(checked) {
            if data[place.clone()] != *b"\"\"" || lane.kind == Kind::Arguments {
                self.end_others(&lane, &mut sent, out)?;
            }
            let literal = checked.as_deref().unwrap_or(&data[place.clone()]);
            let at = names.binary_search_by_key(&place.start, |(start, _)| *start);
            let names = at.ok().map(|at| names[at].1);
            let mut piece = self.piece(lane, place, literal, names, template.clone())?;
            piece.is_cut |= checked.is_some();
            sent.push(piece);
        }
        let is_whole_call = |state: &LaneState| {
            unnumbered.contains(&state.lane) && !state.text.is_late && is_whole_json(&state.text.held)
        };
        self.end_lanes(|state| ends(state) || is_whole_call(state), &mut sent, out)?;
        let has_text = sent.iter().any(|piece| !piece.released.is_empty());
        for Piece { place, text, released, is_cut, .. } in sent {
            if is_cut || released != text {
                edits.replace_by_string(place, &released);
            }
        }
        if has_more || has_text {
            if let Some(root) = root {
                self.sequence.pass(root, &mut edits);
            }
            write_event(event, data, &edits, self.keeps_name, out);
        }
        Ok(())
    }

    /// Takes in a piece, in its quotes. `names`: the hash of its names.
    fn piece(
        &mut self,
        lane: Lane,
        place: Range<usize>,
        piece: &[u8],
        names: Option<u64>,
        template: Option<(Arc<Template>, Option<Range<usize>>)>,
    ) -> Result<Piece, BlockedBy> {
        let template = template.map(|(template, of_form)| (template, of_form.unwrap_or(place.clone())));
        let literal = self.with_half(&lane, piece, names);
        let text = unescaped(&literal).unwrap_or_default();
        let alone = if lane.kind == Kind::Other { self.whole(&text)? } else { None };
        let released = self.pass(&lane, alone.as_deref().unwrap_or(&text), names, template)?;
        let is_cut = literal != piece;
        Ok(Piece { lane, place, text, released, is_cut })
    }

    /// Takes note of calls of tools that name themselves. Those of another id at the same place have ended, but some clients go by the place alone.
    fn begin_calls(&mut self, calls: Vec<(u32, String, String)>, out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        for (index, path, id) in calls {
            match self.calls.iter_mut().find(|call| (call.0, &call.1) == (index, &path)) {
                // some servers repeat the id in each event of a call
                Some(call) if call.2 == id => continue,
                Some(call) => call.2 = id,
                None => self.calls.push((index, path.clone(), id)),
            }
            let is_of_call = |lane: &Lane| lane.index == index && lane.path.starts_with(&path);
            self.end_lanes(|state| is_of_call(&state.lane) && !state.text.is_late, &mut [], out)?;
            self.ended.retain_mut(|ended| {
                if ended.is_whole && is_of_call(&ended.lane) {
                    // only the end of whole JSON is checked with what follows, which is another call's
                    ended.json.clear();
                }
                !ended.is_empty()
            });
        }
        Ok(())
    }

    /// Takes in a text that is complete in its event and that further events continue. What it becomes, if it changes.
    fn begin(&mut self, lane: Lane, literal: &[u8], out: &mut Vec<u8>) -> Result<Option<String>, BlockedBy> {
        let Ok(tape) = Tape::parse(literal) else { return Ok(None) };
        let checked = self.complete_strings(tape.root(literal), &[], None)?.apply(literal);
        let begun = (lane.index, lane.kind, lane.part);
        let is_open = |state: &LaneState| (state.lane.index, state.lane.kind, state.lane.part) == begun;
        self.end_lanes(|state| is_open(state) && !state.text.is_late, &mut [], out)?;
        self.end_others(&lane, &mut [], out)?;
        let index = self.begin_lane(lane, None);
        let LaneState { lane, mut text, .. } = self.lanes.remove(index);
        let mut released = match text.push(&unescaped(&checked).unwrap_or_default()) {
            Ok(released) => released,
            Err(rule) => return Err(self.blocked_by(&text, rule)),
        };
        self.end(lane, text, true, &mut released)?;
        Ok(Some(released).filter(|released| unescaped(literal).as_ref() != Some(released)))
    }

    /// The replacements of whole texts, which their reader takes for one. `is_new`: whether findings in them are counted.
    fn complete(
        &mut self,
        texts: &[&str],
        reading: Reading,
        checks: &Checks,
        is_new: bool,
    ) -> Result<Option<Vec<String>>, BlockedBy> {
        let Some(rules) = &checks.output else { return Ok(None) };
        self.found(texts, &reading.scan(texts, rules), reading, checks, is_new)
    }

    /// The same of texts in which this was found.
    fn found(
        &mut self,
        texts: &[&str],
        found: &PartFindings,
        reading: Reading,
        checks: &Checks,
        is_new: bool,
    ) -> Result<Option<Vec<String>>, BlockedBy> {
        let Some(rules) = &checks.output else { return Ok(None) };
        let mut is_redacted = false;
        for rule in found.rules() {
            self.has_found = true;
            let rule = &rules.rules()[rule];
            if is_new && reading.is_counted(rule.action) {
                self.report.add(Direction::Output, rule, 1);
            }
            let is_refused =
                rule.action == Action::Block || rule.action == Action::Redact && reading == Reading::Fixed;
            if is_refused && checks.mode != StreamMode::Audit {
                return Err(BlockedBy(rule.name.clone()));
            }
            is_redacted |= rule.action == Action::Redact;
        }
        let is_changed = is_redacted && checks.mode != StreamMode::Audit && reading != Reading::Again;
        Ok(is_changed.then(|| redact_parts(texts, found, rules, &mut self.own)))
    }

    /// The JSON string of a piece with the half of a character that the piece before ended with, and without the half at its own end.
    fn with_half(&mut self, lane: &Lane, literal: &[u8], names: Option<u64>) -> Vec<u8> {
        let (text, half) = literal[..literal.len() - 1].split_at(start_of_half(literal));
        let index = match self.lanes.iter().position(|state| state.lane == *lane) {
            Some(index) => index,
            None if half.is_empty() => return literal.to_vec(),
            None => self.begin_lane(lane.clone(), names),
        };
        let before = std::mem::replace(&mut self.lanes[index].half, half.to_vec());
        [b"\"", &*before, &text[1..], b"\""].concat()
    }

    /// The replacement of a text that may be complete in its event or continue in the next ones, as that of an unknown field may.
    fn whole(&mut self, text: &str) -> Result<Option<String>, BlockedBy> {
        let checks = self.checks.clone();
        if let Ok(None) = self.complete(&[text], Reading::Text, &checks, false) {
            return Ok(None); // what is flagged is counted where it goes on
        }
        let changed = self.complete(&[text], Reading::Text, &checks, true)?;
        Ok(changed.and_then(|mut texts| texts.pop()))
    }

    /// The part of a piece that can be sent now.
    fn pass(
        &mut self,
        lane: &Lane,
        text: &str,
        names: Option<u64>,
        template: Option<(Arc<Template>, Range<usize>)>,
    ) -> Result<String, BlockedBy> {
        let index = match self.lanes.iter().position(|state| state.lane == *lane) {
            Some(index) => index,
            None if text.is_empty() => return Ok(String::new()),
            None => self.begin_lane(lane.clone(), names),
        };
        let state = &mut self.lanes[index];
        if !text.is_empty() || state.template.is_none() {
            state.template = template;
        }
        match state.text.push(text) {
            Ok(released) => Ok(released),
            Err(rule) => {
                let state = self.lanes.remove(index);
                Err(self.blocked_by(&state.text, rule))
            }
        }
    }

    /// Appends arguments of a tool, or an answer that is JSON, after a check as JSON. Of those that were taken for ended, a part was sent before: their
    /// rest is appended if nothing is found in the whole, since it cannot be changed any more and stay JSON, nor in the rest, which some clients take
    /// for a text of its own.
    fn whole_json(
        &mut self,
        held: &str,
        text: &mut TextState,
        is_arguments: bool,
        is_counted: bool,
        out: &mut String,
    ) -> Result<(), BlockedBy> {
        text.open_text = text.ends_behind(held);
        let rest = &held[text.sent_bytes..];
        let stands_alone = text.stands_alone(rest).map_err(|rule| self.name(rule))?;
        let checks = self.checks.clone();
        let placeholders = self.placeholders.clone();
        let is_new = text.sent_bytes == 0;
        let restores = checks.restores.then_some(&*placeholders).filter(|_| is_new);
        let place = RefCell::new(text.restorer.as_ref().map(|all| all.place().clone()).unwrap_or_default());
        let walk = Walk { restores, place: Some(&place), ..Walk::default() };
        let mut check = |texts: &[&str], reading: Reading| self.complete(texts, reading, &checks, is_counted);
        let changed = walk.text(held, is_arguments, &mut check)?;
        let is_same = changed.is_none() && (is_new || walk.text(rest, is_arguments, &mut check)?.is_none());
        match changed {
            Some(changed) if is_new && stands_alone => out.push_str(&changed),
            None if is_same && stands_alone => out.push_str(rest),
            Some(_) | None => {}
        }
        if let Some(restorer) = &mut text.restorer {
            *restorer = Restorer::at(placeholders, place.into_inner());
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

/// The replacements of pieces within JSON that is whole in their event. Others are checked where they continue.
fn checked_pieces(pieces: &[(Lane, Range<usize>)], edits: &mut Edits) -> Vec<Option<Vec<u8>>> {
    let is_read = |lane: &Lane| matches!(lane.kind, Kind::Other | Kind::Arguments);
    pieces.iter().map(|(lane, place)| edits.take(place).filter(|_| is_read(lane))).collect()
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

#[cfg(test)]
mod tests;
