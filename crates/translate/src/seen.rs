//! Server-sent events that are passed on as they came, and what has to be known of them.

use bytes::Bytes;

use crate::answer_size::AnswerPart;
use crate::events::{EventFacts, ProviderError, is_preface};
use crate::json::{Edits, Kind, Tape, Value};
use crate::usage::{ServiceTier, TokenUsage};
use weir_sse::SseEvent;

/// The facts of a stream's events so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The tokens that the provider counted.
    pub usage: Option<TokenUsage>,
    /// Events with data.
    pub events: u64,
    /// Tokens, where the provider does not count: at least one for each event, and one for each four bytes of text.
    pub tokens: u64,
    /// Events up to the last one in which the provider counted tokens of the answer.
    counted_to: u64,
    /// Whether an event came that says more than that a reply begins, and is no error.
    pub has_begun: bool,
    /// Whether an event came that is or may be a part of an answer.
    pub has_answer: bool,
    /// Whether the last event of a complete stream came.
    pub is_complete: bool,
    /// Whether events have a `type`, as those of messages and responses: one of them is the last.
    is_typed: bool,
    /// Bits of the choices that have begun; all for an index of 128 or more, which is not followed.
    begun: u128,
    /// Bits of the choices that have a `finish_reason`.
    finished: u128,
    /// The service tier that an event named last.
    pub tier: Option<ServiceTier>,
    /// The provider's first error.
    pub error: Option<ProviderError>,
}

/// Events that may follow those counts in a complete stream.
const EVENTS_BEHIND_COUNTS: u64 = 8;

impl Seen {
    /// Counts an event with data, which is read unless it is no JSON.
    pub fn count(&mut self, event: Option<Value<'_>>) {
        self.events += 1;
        match event.map(AnswerPart::of) {
            Some(AnswerPart::Piece(tokens)) => self.tokens += tokens.max(1),
            Some(AnswerPart::Whole(tokens)) => self.tokens = tokens.max(self.tokens + 1),
            None => self.tokens += 1,
        }
    }

    /// Takes note of what an event counts.
    pub fn counts(&mut self, usage: Option<TokenUsage>) {
        if usage.is_some_and(|usage| usage.completion > 0) {
            self.counted_to = self.events;
        }
    }

    /// The provider's counts, with no fewer tokens than the estimated `tokens`, unless it counted them at the end.
    pub fn charged(&self, counted: TokenUsage, tokens: u64) -> TokenUsage {
        match (self.is_complete || self.is_finished())
            && self.events - self.counted_to <= EVENTS_BEHIND_COUNTS
        {
            true => counted,
            // what a provider counts when its stream begins is not what it sent
            false => TokenUsage { completion: counted.completion.max(tokens), ..counted },
        }
    }

    /// Looks at an event. What is passed on of it: without a usage that the caller did not ask for, if that is to be removed.
    ///
    /// # Errors
    /// Why the stream is broken: the event has data that is no JSON, or ends what has no answer or is not at its end.
    pub fn look(&mut self, event: SseEvent, strips_usage: bool) -> Result<Bytes, String> {
        let Some(data) = event.data() else { return Ok(event.into_raw()) };
        if data.trim_ascii().is_empty() {
            return Ok(event.into_raw()); // a sign of life of some servers
        }
        if data.trim_ascii() == b"[DONE]" {
            self.count(None);
            self.has_begun = self.has_answer;
            if self.error.is_none() && (self.is_typed || !self.has_answer) {
                let reason = if self.has_answer { CUT } else { "it has no answer" };
                return Err(reason.to_owned());
            }
            self.is_complete = true;
            return Ok(event.into_raw());
        }
        let tape = Tape::parse(data).map_err(|error| format!("an event is not JSON: {error}"))?;
        let root = tape.root(data);
        if root.kind() != Kind::Object {
            return Err("an event is not a JSON object".to_owned());
        }
        self.count(Some(root));
        let EventFacts { usage, is_last, error } = EventFacts::named(event.name(), root);
        let of_response = || root.at(&["response", "service_tier"]);
        self.tier = ServiceTier::of(root.get("service_tier").or_else(of_response)).or(self.tier);
        self.is_complete |= is_last;
        self.error = self.error.take().or(error);
        match root.get("choices") {
            // a chunk with the usage alone is none
            Some(choices) => choices.items().for_each(|choice| self.follow(choice)),
            None => self.is_typed |= root.get("type").is_some(),
        }
        self.has_answer |= self.begun != 0 || root.get("choices").is_none();
        self.has_begun = self.has_begun || self.error.is_none() && !is_preface(root);
        self.counts(usage);
        if let Some(usage) = usage {
            let usage = self.usage.unwrap_or_default().merged(usage);
            self.usage = Some(TokenUsage { tier: usage.tier.or(self.tier), ..usage });
        }
        let Some(place) = root.entry_range("usage").filter(|_| strips_usage) else {
            return Ok(event.into_raw());
        };
        if usage.is_some() && root.get("choices").is_some_and(|choices| choices.items().next().is_none()) {
            return Ok(Bytes::new());
        }
        let mut edits = Edits::default();
        edits.replace(place, Vec::new());
        let edited = edits.apply(data);
        Ok(match event.data_at() {
            Some(at) => [&event.raw()[..at.start], &edited, &event.raw()[at.end..]].concat().into(),
            None => rewritten(&event, &edited),
        })
    }

    /// Takes note of a choice that begins, goes on or ends.
    fn follow(&mut self, choice: Value<'_>) {
        let index = choice.get("index").map_or(Some(0), Value::as_u64);
        let bit = index.and_then(|index| 1_u128.checked_shl(index.try_into().ok()?));
        self.begun |= bit.unwrap_or(u128::MAX);
        let is_set = |reason: &Value<'_>| !reason.is_null() && !reason.is("");
        if choice.get("finish_reason").filter(is_set).is_some() {
            self.finished |= bit.unwrap_or_default();
        }
    }

    /// Whether each choice that has begun has its `finish_reason`.
    fn is_finished(&self) -> bool {
        self.finished != 0 && self.begun & !self.finished == 0
    }

    /// Ends a stream whose body has ended: what follows its last event. Some servers leave out `[DONE]` behind the `finish_reason` of each choice.
    ///
    /// # Errors
    /// Why it is not complete.
    pub fn finish(&mut self) -> Result<&'static [u8], String> {
        if self.is_complete {
            return Ok(b"");
        }
        self.is_complete = self.is_finished();
        if self.is_complete { Ok(b"data: [DONE]\n\n") } else { Err(CUT.to_owned()) }
    }
}

const CUT: &str = "the stream ended before its last event";

/// An event with other data, in one line: no line feed is within a string of JSON.
fn rewritten(event: &SseEvent, json: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(json.len() + 32);
    if !event.name().is_empty() {
        out.extend_from_slice(&[b"event: ", event.name(), b"\n"].concat());
    }
    out.extend_from_slice(b"data: ");
    out.extend(json.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
    out.extend_from_slice(b"\n\n");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sse::SseDecoder;

    const STREAM: &str = concat!(
        ": ping\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\",\\\"usage\\\":null\"}}]}\r\n\r\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
        "data: [DONE]\n\n",
    );

    /// The passed bytes of a stream that arrives in parts, and the facts of its events.
    fn pass(parts: &[&[u8]], strips_usage: bool) -> (String, Seen) {
        let (mut decoder, mut seen, mut out) = (SseDecoder::new(1 << 20), Seen::default(), Vec::new());
        for part in parts {
            decoder.push(Bytes::copy_from_slice(part));
            while let Some(event) = decoder.next_event().unwrap() {
                out.extend_from_slice(&seen.look(event, strips_usage).unwrap());
            }
        }
        out.extend(decoder.rest().into_iter().flat_map(SseEvent::into_raw));
        (String::from_utf8(out).unwrap(), seen)
    }

    #[test]
    fn events_cut_at_every_byte_come_out_whole_and_unchanged() {
        for at in 0..=STREAM.len() {
            let (before, after) = STREAM.as_bytes().split_at(at);
            let (passed, seen) = pass(&[before, after], false);
            assert_eq!(passed, STREAM, "{at}");
            let usage = TokenUsage { prompt: 3, completion: 2, ..TokenUsage::default() };
            let expected = Seen {
                usage: Some(usage),
                events: 4,
                tokens: 6,
                counted_to: 3,
                has_begun: true,
                has_answer: true,
                is_complete: true,
                is_typed: false,
                begun: 1,
                finished: 0,
                tier: None,
                error: None,
            };
            assert_eq!(seen, expected, "{at}");
        }
    }

    #[test]
    fn usage_is_removed_and_nothing_else() {
        let expected = concat!(
            ": ping\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\",\\\"usage\\\":null\"}}]}\r\n\r\n",
            "data: [DONE]\n\n",
        );
        assert_eq!(pass(&[STREAM.as_bytes()], true).0, expected);
        let first = "data: {\"usage\" : null , \"choices\":[1]}\n\n\n";
        assert_eq!(pass(&[first.as_bytes()], true).0, "data: {\"choices\":[1]}\n\n\n");
        let only = "data: {\"usage\":{\"prompt_tokens\":3},\"choices\":[1]}\n\n";
        assert_eq!(pass(&[only.as_bytes()], true).0, "data: {\"choices\":[1]}\n\n");
    }

    #[test]
    fn an_event_of_several_lines_without_its_usage_is_one_of_one_line() {
        let event = concat!(
            "event: x\ndata: {\ndata: \"choices\":[{\"delta\":{\"content\":\"a\"}}],\n",
            "data: \"usage\":null,\ndata: \"id\":1}\n\n"
        );
        let (passed, _) = pass(&[event.as_bytes()], true);
        let passed = SseEvent::new(passed.into_bytes().into());
        assert_eq!(passed.name(), b"x");
        let data = passed.text().unwrap();
        let json: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(json, serde_json::json!({"choices": [{"delta": {"content": "a"}}], "id": 1}));
    }

    /// The bytes behind the last event of a stream, or the reason why it is broken.
    fn end(events: &[&str]) -> Result<String, String> {
        let mut seen = Seen::default();
        for data in events {
            let event = SseEvent::new(format!("data: {data}\n\n").into_bytes().into());
            let passed = seen.look(event.clone(), false)?;
            assert_eq!(passed, *event.raw());
        }
        let is_complete = seen.is_complete;
        let end = seen.finish().map(|end| String::from_utf8_lossy(end).into_owned());
        assert!(!is_complete || end == Ok(String::new()), "{events:?}");
        end
    }

    #[test]
    fn tokens_are_at_least_the_events_and_a_quarter_of_the_bytes_of_text() {
        let mut seen = Seen::default();
        let mut check = |event: &str, expected: u64| {
            let tape = Tape::parse(event.as_bytes()).unwrap();
            seen.count(Some(tape.root(event.as_bytes())));
            assert_eq!(seen.tokens, expected, "{event}");
        };
        let text = "a".repeat(40);
        check(r#"{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#, 1);
        check(&format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#), 11);
        check(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, 12);
        // the answer again
        check(&format!(r#"{{"choices":[{{"message":{{"content":"{text}"}}}}]}}"#), 13);
        check(&format!(r#"{{"choices":[{{"message":{{"content":"{text}{text}"}}}}]}}"#), 20);
    }

    #[test]
    fn a_stream_without_a_choice_has_no_answer() {
        let none = || Err("it has no answer".to_owned());
        assert_eq!(end(&["[DONE]"]), none());
        assert_eq!(end(&[r#"{"choices":[],"usage":{"prompt_tokens":9}}"#, "[DONE]"]), none());
        assert_eq!(end(&[r#"{"choices":[{"delta":{}}]}"#, "[DONE]"]), Ok(String::new()));
        assert_eq!(end(&[r#"{"type":"message_stop"}"#]), Ok(String::new()));
    }

    #[test]
    fn a_stream_is_complete_by_its_last_event_or_the_reasons_of_all_choices() {
        let (cut, done) = (|| Err(CUT.to_owned()), || Ok("data: [DONE]\n\n".to_owned()));
        let going = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#;
        let ended = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":9}}"#;
        assert_eq!(end(&[]), cut());
        assert_eq!(end(&[going]), cut());
        assert_eq!(end(&[going, r#"{"choices":[{"delta":{},"finish_reason":""}]}"#]), cut());
        assert_eq!(end(&[going, ended]), done());
        assert_eq!(end(&[going, ended, usage, going]), done(), "a chunk behind the end");
        for second in ["1", "127", "128", "1e3", "-1", "\"a\""] {
            let other = going.replace("\"index\":0", &format!("\"index\":{second}"));
            assert_eq!(end(&[going, &other, ended]), cut(), "{second}");
            assert_eq!(end(&[going, &other, ended, "[DONE]"]), Ok(String::new()), "{second}");
            let both = other.replace("null", "\"stop\"");
            let expected = if matches!(second, "1" | "127") { done() } else { cut() };
            assert_eq!(end(&[going, &other, ended, &both]), expected, "{second}");
        }
        // of responses and messages, `[DONE]` is no end
        let delta = r#"{"type":"response.output_text.delta","delta":"a"}"#;
        assert_eq!(end(&[delta]), cut());
        assert_eq!(end(&[delta, "[DONE]"]), cut());
        assert_eq!(end(&[delta, r#"{"type":"response.completed","response":{}}"#]), Ok(String::new()));
    }

    #[test]
    fn data_that_is_no_json_is_an_error() {
        for data in ["data: {\"choices\":[\n\n", "data: ping\n\n", "data: \u{fffd}\n\n"] {
            let event = SseEvent::new(Bytes::copy_from_slice(data.as_bytes()));
            assert!(Seen::default().look(event, false).is_err(), "{data}");
        }
        let blank = SseEvent::new(Bytes::from_static(b"data:\n\n"));
        assert_eq!(Seen::default().look(blank, false).unwrap(), "data:\n\n");
    }
}
