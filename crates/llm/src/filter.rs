//! Guardrails on a stream of events: each text of the reply passes through a window of its own, which releases nothing that may be the beginning
//! of a finding; events are sent with the text that was released, or later.

use std::ops::Range;
use std::sync::Arc;

use serde::de::IgnoredAny;
use weir_config::{Direction, StreamMode};
use weir_guardrails::{Placeholders, Restorer, RuleSet, Window};

use crate::Api;
use crate::frames::{data_of, end_of_first_event};
use crate::guard::{Guard, Report};
use crate::pieces::{Kind, Lane, Pieces, pieces};
use crate::texts::{decoded, replaced, texts, write_escaped};

/// The text that is held while a stream is buffered has no bound of its own: replies have one.
const NO_BOUND: usize = usize::MAX;

/// Checks the events of one stream.
pub(crate) struct StreamFilter {
    api: Api,
    guard: Arc<Guard>,
    /// Those of the request.
    placeholders: Arc<Placeholders>,
    lanes: Vec<LaneState>,
    report: Report,
}

struct LaneState {
    lane: Lane,
    mode: StreamMode,
    window: Option<Window>,
    restorer: Option<Restorer>,
    /// The text of a buffered stream.
    held: String,
    /// An event of the lane, and the place of the text in it: what is released after the lane's last event is sent in its form.
    template: (Vec<u8>, Range<usize>),
}

/// A rule that blocks found something: nothing more is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockedBy(pub(crate) String);

impl StreamFilter {
    pub(crate) fn new(api: Api, guard: Arc<Guard>, placeholders: Arc<Placeholders>) -> StreamFilter {
        StreamFilter { api, guard, placeholders, lanes: Vec::new(), report: Report::default() }
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
            match is_whole(event) {
                true => self.push_event(event, out)?,
                false => self.push_cut_event(event, out)?,
            }
        }
        Ok(())
    }

    /// Releases what is held at the end of the stream, and tells what was found.
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

    /// An event without the empty line behind it, which the end of the stream cut. It is completed, because more may be released after it; a part
    /// of its data is not sent, because nothing in it can be checked.
    fn push_cut_event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        let data = data_of(event).map_or(&b""[..], |data| &event[data]);
        if data != b"[DONE]" && serde_json::from_slice::<IgnoredAny>(data).is_err() {
            return Ok(());
        }
        self.push_event(&[event.trim_ascii_end(), b"\n\n"].concat(), out)
    }

    fn push_event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        let Some(data_at) = data_of(event) else {
            out.extend_from_slice(event);
            return Ok(());
        };
        // data that is no UTF-8 is no JSON: nothing in it can be checked or read by a client
        let Ok(data) = std::str::from_utf8(&event[data_at.clone()]) else { return Ok(()) };
        let Pieces { texts: found, ended, ends_all, has_more, repeats } = pieces(self.api, data);
        let (mut edits, mut has_text) = (Vec::new(), false);
        for (lane, range) in &found {
            let text = decoded(&data.as_bytes()[range.clone()]).unwrap_or_default();
            let inside = data_at.start + range.start + 1..data_at.start + range.end - 1;
            let released = self.pass(*lane, &text, event, &inside)?;
            has_text |= !released.is_empty();
            if released != text {
                edits.push((inside, released));
            }
        }
        let ends = ends_all || self.lanes.iter().any(|state| ended.contains(&state.lane.0));
        if ends {
            if has_text {
                // the pieces of this event stand before what is released now
                write_edited(event, &edits, out);
                let inside =
                    |range: &Range<usize>| data_at.start + range.start + 1..data_at.start + range.end - 1;
                edits = found.iter().map(|(_, range)| (inside(range), String::new())).collect();
            }
            self.end_lanes(|lane| ends_all || ended.contains(&lane.0), out)?;
        }
        if repeats {
            return self.push_repeated(event, data_at, out);
        }
        if has_more || has_text && !ends {
            write_edited(event, &edits, out);
        }
        Ok(())
    }

    /// What of a piece can be sent now.
    fn pass(
        &mut self,
        lane: Lane,
        text: &str,
        event: &[u8],
        inside: &Range<usize>,
    ) -> Result<String, BlockedBy> {
        let index = match self.lanes.iter().position(|state| state.lane == lane) {
            Some(index) => index,
            None => {
                self.lanes.push(LaneState::new(lane, &self.guard, &self.placeholders));
                self.lanes.len() - 1
            }
        };
        let state = &mut self.lanes[index];
        if !text.is_empty() || state.template.0.is_empty() {
            state.template = (event.to_vec(), inside.clone());
        }
        state.push(text).map_err(|rule| self.blocked(index, rule))
    }

    /// An event that repeats whole texts.
    fn push_repeated(
        &mut self,
        event: &[u8],
        data_at: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockedBy> {
        let data = &event[data_at.clone()];
        let mut edits = Vec::new();
        for span in texts(data) {
            let text = span.text(data);
            let mut state = LaneState::new((0, Kind::Answer, 0), &self.guard, &self.placeholders);
            let mut released = state.push(&text).map_err(|rule| self.blocked_by(&state, rule))?;
            state.finish(&mut released).map_err(|rule| self.blocked_by(&state, rule))?;
            if *released != *text {
                edits.push((data_at.start + span.range.start..data_at.start + span.range.end, released));
            }
        }
        out.extend_from_slice(&replaced(event, &edits));
        Ok(())
    }

    /// Sends what is held of lanes that end.
    fn end_lanes(&mut self, ends: impl Fn(&Lane) -> bool, out: &mut Vec<u8>) -> Result<(), BlockedBy> {
        let mut index = 0;
        while index < self.lanes.len() {
            if !ends(&self.lanes[index].lane) {
                index += 1;
                continue;
            }
            let mut state = self.lanes.remove(index);
            let mut released = String::new();
            let ended = state.finish(&mut released);
            if !released.is_empty() {
                let (template, range) = &state.template;
                write_edited(template, &[(range.clone(), released)], out);
            }
            self.count(&state);
            ended.map_err(|rule| self.name(rule))?;
        }
        Ok(())
    }

    fn blocked(&mut self, lane: usize, rule: usize) -> BlockedBy {
        let state = self.lanes.remove(lane);
        self.blocked_by(&state, rule)
    }

    fn blocked_by(&mut self, state: &LaneState, rule: usize) -> BlockedBy {
        self.count(state);
        self.name(rule)
    }

    fn name(&self, rule: usize) -> BlockedBy {
        let rules = self.guard.output.as_ref().map(|rules| rules.rules()[rule].name.clone());
        BlockedBy(rules.unwrap_or_default())
    }

    fn count(&mut self, state: &LaneState) {
        let Some((window, rules)) = state.window.as_ref().zip(self.guard.output.as_ref()) else { return };
        for (rule, &count) in rules.rules().iter().zip(window.counts()) {
            if count > 0 {
                self.report.add(Direction::Output, rule, count);
            }
        }
    }
}

impl LaneState {
    fn new(lane: Lane, guard: &Guard, placeholders: &Arc<Placeholders>) -> LaneState {
        let bound = if guard.mode == StreamMode::Buffer { NO_BOUND } else { guard.window_bytes };
        let window = |rules: &Arc<RuleSet>| {
            Window::new(rules.clone(), guard.placeholders_of_output(placeholders), bound)
        };
        let restores = guard.restores && !placeholders.is_empty();
        LaneState {
            lane,
            mode: guard.mode,
            window: guard.output.as_ref().map(window),
            restorer: restores.then(|| Restorer::new(placeholders.clone())),
            held: String::new(),
            template: (Vec::new(), 0..0),
        }
    }

    /// What can be sent after a piece, or the rule that blocks it.
    fn push(&mut self, text: &str) -> Result<String, usize> {
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
        let Some(restorer) = &mut self.restorer else { return checked };
        let mut restored = String::with_capacity(checked.len());
        restorer.push(&checked, &mut restored);
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

fn is_whole(event: &[u8]) -> bool {
    event == b"\n" || event == b"\r\n" || event.ends_with(b"\n\n") || event.ends_with(b"\n\r\n")
}

fn write_edited(event: &[u8], edits: &[(Range<usize>, String)], out: &mut Vec<u8>) {
    let mut at = 0;
    for (range, text) in edits {
        out.extend_from_slice(&event[at..range.start]);
        write_escaped(out, text);
        at = range.end;
    }
    out.extend_from_slice(&event[at..]);
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
        let mut filter = StreamFilter::new(Api::ChatCompletions, guard.clone(), Arc::default());
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
            "event: x\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\\u00e9 \"}}]}\r\n\r\n".to_owned(),
            ": ping\n\n".to_owned(),
            END.to_owned(),
        ];
        let mut filter = StreamFilter::new(Api::ChatCompletions, guard(""), Arc::default());
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
        let (_, _, all) = run(&guard(""), &events);
        assert!(all.contains("[EMAIL_1]") && !all.contains("ann@") && !all.contains("mple.com"), "{all}");
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
        let mut filter = StreamFilter::new(Api::Messages, guard(""), Arc::default());
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
            let mut filter = StreamFilter::new(Api::ChatCompletions, guard.clone(), Arc::default());
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
        let mut filter = StreamFilter::new(Api::Messages, guard(""), Arc::default());
        let mut out = Vec::new();
        for event in [delta("mail ann@"), delta("example.com"), stop.to_owned()] {
            filter.push(event.as_bytes(), &mut out).unwrap();
        }
        let all = String::from_utf8(out).unwrap();
        assert!(all.ends_with(stop) && all.contains("[EMAIL_1]") && !all.contains("ann@"), "{all}");
    }
}
