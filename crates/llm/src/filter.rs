//! Guardrails on a stream of events: each text of the reply passes through a window of its own, which releases nothing that may be the beginning
//! of a finding; events are sent with the text that was released, or later. Strings that are complete in their event are checked there. The
//! arguments of a tool are held until they end, because only whole JSON can be changed and stay JSON. Comments and unknown fields of events, which no
//! client reads, are not passed on.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use weir_config::{Direction, StreamMode};
use weir_guardrails::{Action, Placeholders, Restorer, Window, redact};
use weir_translate::json::{Edits, Tape, Value, unescaped, write_string};
use weir_upstream::SseEvent;

use crate::Api;
use crate::frames::end_of_first_event;
use crate::guard::{Guard, Report};
use crate::pieces::{Kind, Lane, Pieces, pieces_of};
use crate::strings::{Reading, Walk};
use crate::vocabulary::is_name;

/// The text that is held while a stream is buffered has no bound of its own: replies have one.
const NO_BOUND: usize = usize::MAX;

/// Checks the events of one stream.
pub(crate) struct StreamFilter {
    api: Api,
    guard: Arc<Guard>,
    /// Those of the request.
    placeholders: Arc<Placeholders>,
    /// Names of models that are no text.
    models: Vec<String>,
    /// The placeholders of the reply so far, so that a value has the same one wherever it is repeated.
    own: Placeholders,
    /// The calls of tools that are running, as index, path and id.
    calls: Vec<(u32, String, String)>,
    lanes: Vec<LaneState>,
    report: Report,
}

struct LaneState {
    lane: Lane,
    text: TextState,
    /// The last event of the lane before and behind its text, without what else it has: text that is released later is sent in its form.
    template: (Vec<u8>, Vec<u8>),
}

/// What is known of one text.
struct TextState {
    mode: StreamMode,
    window: Option<Window>,
    /// Those of the request, if they are restored.
    placeholders: Option<Arc<Placeholders>>,
    /// Made at the first letter of the text.
    restorer: Option<Restorer>,
    /// The text that is released when it is whole.
    held: String,
    /// Whether it is held until then.
    is_held: bool,
}

/// A rule that blocks found something: nothing more is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockedBy(pub(crate) String);

impl StreamFilter {
    pub(crate) fn new(
        api: Api,
        guard: Arc<Guard>,
        placeholders: Arc<Placeholders>,
        models: Vec<String>,
    ) -> StreamFilter {
        let own = guard.placeholders_of_output(&placeholders);
        let (calls, lanes, report) = (Vec::new(), Vec::new(), Report::default());
        StreamFilter { api, guard, placeholders, models, own, calls, lanes, report }
    }

    /// Takes whole events and appends what can be sent to `out`.
    ///
    /// # Errors
    /// [`BlockedBy`]; what was appended is sent before.
    pub(crate) fn push(&mut self, events: &[u8], out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        let mut rest = events;
        while !rest.is_empty() {
            let (event, after) = rest.split_at(end_of_first_event(rest));
            rest = after;
            self.push_event(&SseEvent::new(Bytes::copy_from_slice(event)), out)?;
        }
        Ok(())
    }

    /// Releases what is held at the end of the stream.
    ///
    /// # Errors
    /// [`BlockedBy`].
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        self.end_lanes(|_| true, out)
    }

    /// What was found in lanes that have ended.
    pub(crate) fn report(&self) -> &Report {
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
        // nothing in data that is no JSON can be checked, or read by a client; the stream is broken by it
        let Ok(tape) = Tape::parse(data) else { return Ok(()) };
        let root = tape.root(data);
        let Pieces { texts: found, ended, calls, once, ends_all, has_more } = pieces_of(self.api, root);
        for (index, path, id) in calls {
            match self.calls.iter_mut().find(|call| (call.0, &call.1) == (index, &path)) {
                // some servers repeat the id in each event of a call
                Some(call) if call.2 == id => continue,
                Some(call) => call.2 = id,
                None => self.calls.push((index, path.clone(), id)),
            }
            self.end_lanes(|lane| lane.index == index && lane.path.starts_with(&path), out)?;
        }
        let places: Vec<Range<usize>> = found.iter().map(|(_, range)| range.clone()).collect();
        let ends = |lane: &Lane| ends_all || ended.contains(&lane.index);
        if found.is_empty() {
            // texts that end are sent before what repeats them
            self.end_lanes(ends, out)?;
        }
        let mut edits = self.complete_strings(root, &places)?;
        // of the form in which text is sent later, each other text is empty
        let mut form = edits.clone();
        places.iter().for_each(|place| form.replace_by_string(place.clone(), ""));
        once.iter().for_each(|place| form.replace(place.clone(), b"null".to_vec()));
        let (mut pieces, mut has_text) = (Vec::new(), false);
        for (lane, range) in found {
            let text = unescaped(&data[range.clone()]).unwrap_or_default();
            let released = self.pass(lane, &text, || template(event, &form, data, &range))?;
            has_text |= !released.is_empty();
            pieces.push((range, released, text));
        }
        if has_text && self.lanes.iter().any(|state| ends(&state.lane)) {
            // the pieces of this event stand before what is released now
            let mut before = edits.clone();
            for (range, released, _) in &mut pieces {
                before.replace_by_string(range.clone(), &std::mem::take(released));
            }
            write_event(event, data, &before, out);
        }
        self.end_lanes(ends, out)?;
        let has_text = pieces.iter().any(|(_, released, _)| !released.is_empty());
        for (range, released, text) in pieces {
            if released != text {
                edits.replace_by_string(range, &released);
            }
        }
        if has_more || has_text {
            write_event(event, data, &edits, out);
        }
        Ok(())
    }

    /// The changes to strings that are complete in an event.
    fn complete_strings(&mut self, root: Value<'_>, places: &[Range<usize>]) -> Result<Edits, BlockedBy> {
        let guard = self.guard.clone();
        let placeholders = self.placeholders.clone();
        let models = std::mem::take(&mut self.models);
        let walk = Walk {
            skipped: places,
            removes_tokens: guard.changes_streams(),
            models: &models,
            restores: guard.restores.then_some(&*placeholders),
        };
        let edits = walk.edits(root, &mut |text, reading| self.complete(text, reading, &guard));
        self.models = models;
        edits
    }

    /// What a whole text becomes.
    fn complete(&mut self, text: &str, reading: Reading, guard: &Guard) -> Result<Option<String>, BlockedBy> {
        let Some(rules) = &guard.output else { return Ok(None) };
        let mut findings = Vec::new();
        rules.scan(text, &mut findings);
        let mut is_redacted = false;
        for finding in &findings {
            let rule = &rules.rules()[finding.rule];
            // the events of responses repeat texts that were counted
            if self.api != Api::Responses && reading.is_counted(rule.action) {
                self.report.add(Direction::Output, rule, 1);
            }
            if rule.action == Action::Block && guard.mode != StreamMode::Audit {
                return Err(BlockedBy(rule.name.clone()));
            }
            is_redacted |= rule.action == Action::Redact;
        }
        let is_changed = is_redacted && guard.mode != StreamMode::Audit && reading == Reading::First;
        Ok(is_changed.then(|| redact(text, &findings, rules, &mut self.own)))
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
            None => {
                let text = TextState::new(lane.kind, &self.guard, &self.placeholders, self.own.clone());
                self.lanes.push(LaneState { lane, text, template: Default::default() });
                self.lanes.len() - 1
            }
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

    /// Sends what is held of lanes that end.
    fn end_lanes(&mut self, ends: impl Fn(&Lane) -> bool, out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        let mut index = 0;
        while index < self.lanes.len() {
            if !ends(&self.lanes[index].lane) {
                index += 1;
                continue;
            }
            let LaneState { lane, mut text, template: (head, tail) } = self.lanes.remove(index);
            let mut released = String::new();
            let ended = match lane.kind {
                Kind::Arguments if text.is_held => {
                    self.arguments(&std::mem::take(&mut text.held), &mut released)
                }
                Kind::Answer | Kind::Reasoning | Kind::Refusal | Kind::Arguments | Kind::Other => {
                    text.finish(&mut released).map_err(|rule| self.name(rule))
                }
            };
            if !released.is_empty() {
                out.extend_from_slice(&head);
                write_string(out, &released);
                out.extend_from_slice(&tail);
            }
            self.count(&text);
            if let Some(window) = text.window {
                self.own = window.into_placeholders();
            }
            ended?;
        }
        Ok(())
    }

    /// Appends the arguments of a tool after a check as JSON.
    fn arguments(&mut self, held: &str, out: &mut String) -> Result<(), BlockedBy> {
        let guard = self.guard.clone();
        let placeholders = self.placeholders.clone();
        let walk = Walk { restores: guard.restores.then_some(&*placeholders), ..Walk::default() };
        let changed = walk.text(held, &mut |text, reading| self.complete(text, reading, &guard))?;
        out.push_str(changed.as_deref().unwrap_or(held));
        Ok(())
    }

    fn blocked_by(&mut self, state: &TextState, rule: usize) -> BlockedBy {
        self.count(state);
        self.name(rule)
    }

    fn name(&self, rule: usize) -> BlockedBy {
        let rules = self.guard.output.as_ref().map(|rules| rules.rules()[rule].name.clone());
        BlockedBy(rules.unwrap_or_default())
    }

    fn count(&mut self, state: &TextState) {
        let Some((window, rules)) = state.window.as_ref().zip(self.guard.output.as_ref()) else { return };
        for (rule, &count) in rules.rules().iter().zip(window.counts()) {
            if count > 0 {
                self.report.add(Direction::Output, rule, count);
            }
        }
    }
}

impl TextState {
    /// `own`: the placeholders of the reply so far.
    fn new(kind: Kind, guard: &Guard, placeholders: &Arc<Placeholders>, own: Placeholders) -> TextState {
        let bound = if guard.mode == StreamMode::Buffer { NO_BOUND } else { guard.window_bytes };
        let restores = guard.restores && !placeholders.is_empty();
        TextState {
            mode: guard.mode,
            window: guard.output.as_ref().map(|rules| Window::new(rules.clone(), own, bound)),
            restorer: None,
            placeholders: restores.then(|| placeholders.clone()),
            held: String::new(),
            is_held: kind == Kind::Arguments && (guard.changes_streams() || restores),
        }
    }

    /// What can be sent after a piece, or the rule that blocks it.
    fn push(&mut self, text: &str) -> Result<String, usize> {
        if self.is_held {
            self.held.push_str(text);
            return Ok(String::new());
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

    fn restored(&mut self, checked: String) -> String {
        let Some(placeholders) = &self.placeholders else { return checked };
        if self.restorer.is_none() {
            let begin = checked.trim_start();
            if begin.is_empty() {
                return checked;
            }
            // an answer that is JSON stays JSON; a bracket before a letter begins a placeholder
            let is_json = begin.starts_with('{')
                || begin.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with(['"', '{', '[']));
            let restorer = match is_json {
                true => Restorer::new(placeholders.spelled(escaped)),
                false => Restorer::new(placeholders.clone()),
            };
            self.restorer = Some(restorer);
        }
        let mut restored = String::with_capacity(checked.len());
        if let Some(restorer) = &mut self.restorer {
            restorer.push(&checked, &mut restored);
        }
        restored
    }

    /// Appends what was held.
    fn finish(&mut self, out: &mut String) -> Result<(), usize> {
        let mut checked = String::new();
        let held = std::mem::take(&mut self.held);
        let blocked = self
            .window
            .as_mut()
            .and_then(|window| window.push(&held, &mut checked).or_else(|| window.finish(&mut checked)));
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

/// A text as between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
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
    out.extend(json.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
}

fn has_known_name(event: &SseEvent) -> bool {
    std::str::from_utf8(event.name()).is_ok_and(is_name)
}

fn is_whole(event: &[u8]) -> bool {
    [&b"\n\n"[..], b"\r\n\r\n", b"\n\r\n", b"\r\r"].into_iter().any(|end| event.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_config::Guardrail;

    use super::*;
    use crate::guard::Guards;

    fn guard(more: &str) -> Arc<Guard> {
        let toml = format!("id = \"pii\"\ndetect = [\"email\", \"payment_card\"]\n{more}");
        let guardrail: Guardrail = toml::from_str(&toml).unwrap();
        Guards::new(&[guardrail], &weir_telemetry::Metrics::new("test"))
            .unwrap()
            .of("m", None)
            .unwrap()
            .unwrap()
    }

    fn chat(text: &str) -> String {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
    }

    const END: &str =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

    /// The text of a stream's answer, and of all its events.
    fn run(guard: &Arc<Guard>, events: &[String]) -> (Result<(), BlockedBy>, String, String) {
        let mut filter = StreamFilter::new(Api::ChatCompletions, guard.clone(), Arc::default(), Vec::new());
        let mut out = Vec::new();
        let mut ended = Ok(());
        for event in events {
            ended = filter.push(event.as_bytes(), &mut out);
            if ended.is_err() {
                break;
            }
        }
        let ended = ended.and_then(|()| filter.finish(&mut out));
        let all = String::from_utf8(out).unwrap();
        let data = all.split("\n\n").filter_map(|event| event.strip_prefix("data: {"));
        let pieces = data.map(|data| serde_json::from_str::<Value>(&format!("{{{data}")).unwrap());
        let text = pieces
            .map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned());
        (ended, text.collect(), all.clone())
    }

    #[test]
    fn a_match_is_redacted_wherever_it_is_cut() {
        let answer = "Write to ann@example.com now, or pay by 4111 1111 1111 1111. Ünder \"it\"\n";
        let expected = "Write to [EMAIL_1] now, or pay by [PAYMENT_CARD_1]. Ünder \"it\"\n";
        let guard = guard("");
        for size in 1..answer.len() {
            let chars: Vec<char> = answer.chars().collect();
            let mut events: Vec<String> =
                chars.chunks(size).map(|piece| chat(&piece.iter().collect::<String>())).collect();
            events.push(END.to_owned());
            let (ended, text, all) = run(&guard, &events);
            assert_eq!((ended, text.as_str()), (Ok(()), expected), "{size}");
            assert!(!all.contains("ann@") && all.ends_with(END), "{size}: {all}");
        }
    }

    #[test]
    fn events_without_findings_are_passed_on_byte_by_byte() {
        let events = [
            "event: message\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\\u00e9 \"}}]}\r\n\r\n"
                .to_owned(),
            ":\n\n".to_owned(),
            END.to_owned(),
        ];
        let mut filter = StreamFilter::new(Api::ChatCompletions, guard(""), Arc::default(), Vec::new());
        let mut out = Vec::new();
        events.iter().for_each(|event| filter.push(event.as_bytes(), &mut out).unwrap());
        assert_eq!(String::from_utf8(out).unwrap(), events.concat());
    }

    #[test]
    fn an_event_that_the_end_cuts_is_completed_if_it_can_be_checked() {
        let whole = chat("mail ann@example.com");
        for cut in ["\n", ""] {
            let event = whole.replace("\n\n", cut);
            let (_, text, all) = run(&guard(""), &[event]);
            assert_eq!((text.as_str(), all.ends_with("\n\n")), ("mail [EMAIL_1]", true), "{all}");
        }
        let part = r#"data: {"choices":[{"index":0,"delta":{"content":"mail ann@example.com "#;
        assert_eq!(run(&guard(""), &[part.to_owned()]).2, "");
        let done = [chat("ann@example.com"), "data: [DONE]".to_owned()];
        assert!(run(&guard(""), &done).2.ends_with("[EMAIL_1]\"},\"index\":0}]}\n\ndata: [DONE]\n\n"));
    }

    #[test]
    fn arguments_of_tools_are_checked() {
        let call = |arguments: &str| {
            let call = json!({"index": 0, "function": {"arguments": arguments}});
            format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
        };
        let events = [call("{\"to\":\"ann@exa"), call("mple.com\"}"), END.to_owned()];
        // the id is repeated in each event by some servers, and names another call after that
        let named = |event: &String, id: &str| {
            event.replace("{\"function\"", &format!("{{\"id\":\"{id}\",\"function\""))
        };
        let repeated = [
            named(&events[0], "a"),
            named(&events[1], "a"),
            named(&call("{\"n\":4111111111111111}"), "b"),
            END.to_owned(),
        ];
        for events in [events.to_vec(), repeated.to_vec()] {
            let (_, _, all) = run(&guard(""), &events);
            assert!(all.contains(r#"{\"to\":\"[EMAIL_1]\"}"#), "{all}");
            assert!(!all.contains("ann@") && !all.contains("mple.com") && !all.contains("4111"), "{all}");
            assert_eq!(all.contains(r#"{\"n\":\"[PAYMENT_CARD_1]\"}"#), events.len() == 4, "{all}");
        }
    }

    #[test]
    fn a_text_with_half_of_a_surrogate_pair_is_checked() {
        let half = r#"data: {"choices":[{"index":0,"delta":{"content":"\ud83d ann\u0040example.com "}}]}"#;
        let (ended, text, _) = run(&guard(""), &[format!("{half}\n\n"), END.to_owned()]);
        assert_eq!((ended, text.trim_start_matches('\u{fffd}')), (Ok(()), " [EMAIL_1] "));
    }

    #[test]
    fn values_that_are_no_texts_leave_events_as_they_are() {
        let null = r#"data: {"type":"content_block_delta","index":0,"delta":{"text":null}}"#;
        let text = r#"data: {"type":"content_block_delta","index":0,"delta":{"text":"ann@example.com"}}"#;
        let mut filter = StreamFilter::new(Api::Messages, guard(""), Arc::default(), Vec::new());
        let mut out = Vec::new();
        filter.push(format!("{null}\n\n{text}\n\n").as_bytes(), &mut out).unwrap();
        filter.finish(&mut out).unwrap();
        let expected = format!("{null}\n\n{}\n\n", text.replace("ann@example.com", "[EMAIL_1]"));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_finding_that_blocks_ends_the_stream_before_it() {
        let guard = guard("action = \"block\"");
        let events = [chat("It is "), chat("ann@exam"), chat("ple.com and more "), END.to_owned()];
        let (ended, text, _) = run(&guard, &events);
        assert_eq!((ended, text.as_str()), (Err(BlockedBy("email".to_owned())), "It is "));
    }

    #[test]
    fn a_buffered_stream_is_sent_at_its_end_and_an_audited_one_at_once() {
        let events = [chat("It is ann@example.com "), END.to_owned()];
        let check = |more: &str, first: &str, all: &str| {
            let guard = guard(more);
            let mut filter =
                StreamFilter::new(Api::ChatCompletions, guard.clone(), Arc::default(), Vec::new());
            let mut out = Vec::new();
            filter.push(events[0].as_bytes(), &mut out).unwrap();
            assert_eq!(String::from_utf8(out.clone()).unwrap(), first, "{more}");
            filter.push(events[1].as_bytes(), &mut out).unwrap();
            assert_eq!(filter.report().to_text(), "output email redact 1", "{more}");
            assert_eq!(run(&guard, &events).1, all, "{more}");
        };
        check("stream = \"buffer\"", "", "It is [EMAIL_1] ");
        check("stream = \"audit\"", &events[0], "It is ann@example.com ");
    }

    #[test]
    fn blocks_of_messages_are_flushed_before_they_end() {
        let delta = |text: &str| {
            let event = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
            format!("event: content_block_delta\ndata: {event}\n\n")
        };
        let stop = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
        let mut filter = StreamFilter::new(Api::Messages, guard(""), Arc::default(), Vec::new());
        let mut out = Vec::new();
        for event in [delta("mail ann@"), delta("example.com"), stop.to_owned()] {
            filter.push(event.as_bytes(), &mut out).unwrap();
        }
        let all = String::from_utf8(out).unwrap();
        assert!(all.ends_with(stop) && all.contains("[EMAIL_1]") && !all.contains("ann@"), "{all}");
    }
}
