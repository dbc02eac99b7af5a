//! The texts of a stream that go on: each begins with a piece, ends by an event or with the stream, and may continue others.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use weir_translate::SseEvent;
use weir_translate::conversation::{Kind, Lane};
use weir_translate::json::Edits;

use super::super::StreamMode;
use super::joined::{Chain, EndedText, Ends, chain_of, is_whole_json, reader_of};
use super::text_state::TextState;
use super::write::Template;
use super::{BlockedBy, PLACES_RULE, Piece, StreamFilter};

/// Bytes of the events in whose frames texts are sent later.
const TEMPLATES_BYTES_MAX: usize = 32 << 20;
/// Work of a stream, in texts that are compared with another and bytes that are written again: so much for each byte that comes, and so much more.
pub(super) const WORK_PER_BYTE: usize = 64;
pub(super) const WORK_MIN: usize = 8 << 20;

pub(super) struct LaneState {
    pub(super) lane: Lane,
    pub(super) chain: Option<Chain>,
    pub(super) text: TextState,
    /// The last event of the lane, and the place of its text: text that is released later is sent in its frame.
    pub(super) template: Option<(Arc<Template>, Range<usize>)>,
    /// The escape of half a character at its end, whose other half comes with the next piece.
    pub(super) half: Vec<u8>,
}

impl LaneState {
    /// The last event.
    fn event(&self) -> Option<*const Template> {
        self.template.as_ref().map(|(template, _)| Arc::as_ptr(template))
    }
}

impl StreamFilter {
    /// The event in whose frame its texts are sent later, and the place of its text if it has a form.
    pub(super) fn template_of(
        &self,
        event: &SseEvent,
        data: &[u8],
        edits: &Edits,
    ) -> Result<(Arc<Template>, Option<Range<usize>>), BlockedBy> {
        if let Some(form) = &self.form {
            return Ok((form.template.0.clone(), Some(form.template.1.clone())));
        }
        if self.lanes.len() * data.len() > TEMPLATES_BYTES_MAX {
            let templates = self.lanes.iter().filter_map(|state| state.template.as_ref());
            let bytes: HashMap<_, _> =
                templates.map(|(template, _)| (Arc::as_ptr(template), template.len())).collect();
            if bytes.values().sum::<usize>() + data.len() > TEMPLATES_BYTES_MAX {
                return Err(BlockedBy(PLACES_RULE.to_owned()));
            }
        }
        Ok((Arc::new(Template::new(event, data, edits, self.keeps_name)), None))
    }

    /// Ends the other texts of a chain before a text of it goes on, so that it continues them, and other texts of its choice that are read before it.
    pub(super) fn end_others(
        &mut self,
        lane: &Lane,
        sent: &mut [Piece],
        out: &mut Vec<u8>,
    ) -> Result<(), BlockedBy> {
        let is_only = self.lanes.iter().all(|state| state.lane == *lane);
        if is_only || self.checks.mode == StreamMode::Audit {
            return Ok(());
        }
        let chain = chain_of(self.api, lane);
        let is_of_chain = |state: &LaneState| chain.is_some() && state.chain == chain;
        let is_window = self.checks.mode == StreamMode::Window;
        let is_shown = |kind: Kind| matches!(kind, Kind::Answer | Kind::Reasoning | Kind::Refusal);
        let is_before = |state: &LaneState| {
            let is_of_choice = state.lane.index == lane.index && state.lane.kind != lane.kind;
            is_window
                && is_of_choice
                && is_shown(state.lane.kind)
                && lane.kind != Kind::Other
                && state.text.is_json == Some(false)
        };
        let ends = |state: &LaneState| {
            state.lane != *lane && !state.text.is_late && (is_of_chain(state) || is_before(state))
        };
        self.end_lanes(ends, sent, out)
    }

    /// Takes from the work that is left.
    pub(super) fn spend(&mut self, work: usize) -> Result<(), BlockedBy> {
        let left = self.work.checked_sub(work).ok_or_else(|| BlockedBy(PLACES_RULE.to_owned()))?;
        self.work = left;
        Ok(())
    }

    /// `names`: the hash of its names.
    pub(super) fn begin_lane(&mut self, lane: Lane, names: Option<u64>) -> usize {
        let reader = reader_of(self.api, &lane);
        let place = self.places.iter().find(|(of, _)| Some(*of) == reader);
        let place = place.map(|(_, place)| place.clone()).unwrap_or_default();
        let mut text = TextState::new(lane.kind, &self.checks, &self.placeholders, self.own.clone(), place);
        let chain = chain_of(self.api, &lane);
        if self.checks.mode != StreamMode::Audit {
            if let Some(chain) = &chain {
                text.before.joined = self.take_open_text(chain);
            }
            // it was complete in earlier events
            text.before.own = names.and_then(|names| self.earlier.end(names)).unwrap_or_default();
            if let Some(index) = self.ended.iter().position(|ended| ended.is_continued_by(&lane)) {
                text.go_on(self.ended.swap_remove(index));
            }
        }
        self.lanes.push(LaneState { lane, chain, text, template: None, half: Vec::new() });
        self.lanes.len() - 1
    }

    /// Sends what is held of lanes that end: with the piece of this event if it has text, or else before it.
    pub(super) fn end_lanes(
        &mut self,
        ends: impl Fn(&LaneState) -> bool,
        sent: &mut [Piece],
        out: &mut Vec<u8>,
    ) -> Result<(), BlockedBy> {
        let mut ending: Vec<LaneState> = self.lanes.extract_if(.., |state| ends(state)).collect();
        // OpenRouter has what a model thinks twice in its events: a client may read either
        let thought = ending.iter().filter(|state| state.lane.kind == Kind::Reasoning);
        let events: HashSet<_> = thought.filter_map(LaneState::event).collect();
        let is_beside = |state: &LaneState| {
            state.lane.kind == Kind::Reasoning
                && state.text.is_json == Some(false)
                && state.event().is_some_and(|event| events.contains(&event))
        };
        if !events.is_empty() {
            ending.extend(self.lanes.extract_if(.., |state| is_beside(state)));
        }
        let (mut late, mut ended) = (Vec::<(Arc<Template>, Vec<(Range<usize>, String)>)>::new(), Ok(()));
        for LaneState { lane, text, template, .. } in ending {
            let piece = sent.iter_mut().rev().find(|piece| piece.lane == lane && !piece.text.is_empty());
            let mut released = String::new();
            ended = self.end(lane, text, false, &mut released);
            if let Some(piece) = piece {
                piece.released.push_str(&released);
            } else if let Some((template, place)) = template.filter(|_| !released.is_empty()) {
                match late.iter_mut().rev().find(|(other, _)| Arc::ptr_eq(other, &template)) {
                    Some((_, texts)) if texts.iter().all(|(other, _)| *other != place) => {
                        texts.push((place, released))
                    }
                    _ => late.push((template, vec![(place, released)])),
                }
            }
            if ended.is_err() {
                break;
            }
        }
        for (template, texts) in late {
            let start = out.len();
            template.write(texts, &mut self.sequence, out);
            self.spend(template.len() + out.len() - start)?;
        }
        ended
    }

    /// Ends a text: appends what can be sent of what is held of it. `is_begun`: whether it is complete in its event, in which it was counted.
    pub(super) fn end(
        &mut self,
        lane: Lane,
        mut text: TextState,
        is_begun: bool,
        released: &mut String,
    ) -> Result<(), BlockedBy> {
        let chain = chain_of(self.api, &lane);
        if let Some(chain) = chain.as_ref().filter(|_| text.is_late) {
            // texts were sent while this one was held
            let joined = self.take_open_text(chain);
            if !joined.is_empty() {
                text.before.joined = joined;
            }
        }
        let is_json = text.is_json.unwrap_or_else(|| !text.held.trim().is_empty());
        let mut json = String::new();
        let ended = if is_json {
            json = std::mem::take(&mut text.held);
            let is_arguments = lane.kind == Kind::Arguments;
            self.whole_json(&json, &mut text, is_arguments, !is_begun, released)
        } else {
            text.finish(released).map_err(|rule| self.name(rule))
        };
        if !is_begun || ended.is_err() {
            self.count(&text);
        }
        let Ends { own, joined } = std::mem::take(&mut text.open_text);
        if let Some(chain) = chain {
            self.set_open_text(chain, joined);
        }
        if let Some((restorer, reader)) = text.restorer.as_ref().zip(reader_of(self.api, &lane)) {
            self.places.retain(|(of, _)| *of != reader);
            self.places.push((reader, restorer.place().clone()));
        }
        let is_whole = is_whole_json(&json);
        if is_whole && is_begun {
            json.clear();
        }
        let text_so_far = EndedText { lane, json, is_whole, open_text: own, is_begun };
        if self.checks.mode != StreamMode::Audit && !text_so_far.is_empty() {
            self.ended.push(text_so_far);
        }
        if let Some(window) = text.window {
            self.own = window.into_placeholders();
        }
        ended
    }

    pub(super) fn take_open_text(&mut self, chain: &Chain) -> String {
        let index = self.open_texts.iter().position(|(other, _)| other == chain);
        index.map(|index| self.open_texts.swap_remove(index).1).unwrap_or_default()
    }

    pub(super) fn set_open_text(&mut self, chain: Chain, text: String) {
        self.take_open_text(&chain);
        if !text.is_empty() {
            self.open_texts.push((chain, text));
        }
    }
}
