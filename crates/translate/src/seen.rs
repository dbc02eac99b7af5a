//! Server-sent events that are passed on as they came, and what has to be known of them.

use bytes::Bytes;

use crate::events::{EventFacts, ProviderError, is_preface};
use crate::json::{Edits, JsonError, Kind, Tape};
use crate::sse::SseEvent;
use crate::usage::{ServiceTier, TokenUsage};

/// What the events of a stream said so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The tokens that the provider counted.
    pub usage: Option<TokenUsage>,
    /// Events with data.
    pub events: u64,
    /// Tokens, where the provider does not count: about one for each event, and more for a long one.
    pub tokens: u64,
    /// Events up to the last one in which the provider counted tokens of the answer.
    counted_to: u64,
    /// Whether an event came that says more than that a reply begins, and is no error.
    pub has_begun: bool,
    /// Whether an event came that is or may be a part of an answer.
    pub has_answer: bool,
    /// Whether the last event of a complete stream came.
    pub is_complete: bool,
    /// The service tier that an event named last.
    pub tier: Option<ServiceTier>,
    /// The provider's first error.
    pub error: Option<ProviderError>,
}

/// Bytes of an event with one token, give or take the names of its fields.
const EVENT_BYTES: usize = 512;
/// Events that may follow those counts in a complete stream.
const EVENTS_BEHIND_COUNTS: u64 = 8;

impl Seen {
    /// Counts an event with data.
    pub fn count(&mut self, data: &[u8]) {
        self.events += 1;
        self.tokens += (data.len().saturating_sub(EVENT_BYTES) as u64 / 4).max(1);
    }

    /// Takes note of what an event counts.
    pub fn counts(&mut self, usage: Option<TokenUsage>) {
        if usage.is_some_and(|usage| usage.completion > 0) {
            self.counted_to = self.events;
        }
    }

    /// What a provider counted, with no fewer tokens than came, unless it counted them at the end.
    pub fn charged(&self, counted: TokenUsage) -> TokenUsage {
        match self.is_complete && self.events - self.counted_to <= EVENTS_BEHIND_COUNTS {
            true => counted,
            // what a provider counts when its stream begins is not what it sent
            false => TokenUsage { completion: counted.completion.max(self.tokens), ..counted },
        }
    }

    /// Looks at an event. What is passed on of it: without a usage that the caller did not ask for, if that is to be removed.
    ///
    /// # Errors
    /// The event has data that is no JSON.
    pub fn look(&mut self, event: SseEvent, strips_usage: bool) -> Result<Bytes, JsonError> {
        let Some(data) = event.data() else { return Ok(event.into_raw()) };
        if data.trim_ascii().is_empty() {
            return Ok(event.into_raw()); // a sign of life of some servers
        }
        self.count(data);
        if data.trim_ascii() == b"[DONE]" {
            (self.has_begun, self.is_complete) = (self.has_answer, true);
            return Ok(event.into_raw());
        }
        let tape = Tape::parse(data)?;
        let root = tape.root(data);
        if root.kind() != Kind::Object {
            return Err(JsonError::Syntax { offset: 0, expected: "an object" });
        }
        let EventFacts { usage, is_last, error } = EventFacts::named(event.name(), root);
        let of_response = || root.at(&["response", "service_tier"]);
        self.tier = ServiceTier::of(root.get("service_tier").or_else(of_response)).or(self.tier);
        self.is_complete |= is_last;
        self.error = self.error.take().or(error);
        // a chunk with the usage alone is none
        self.has_answer |= root.get("choices").is_none_or(|choices| choices.items().next().is_some());
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
}

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
    use crate::sse::SseDecoder;

    const STREAM: &str = concat!(
        ": ping\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\",\\\"usage\\\":null\"}}]}\r\n\r\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
        "data: [DONE]\n\n",
    );

    /// What is passed on of a stream that comes in parts, and what was seen.
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
                tokens: 4,
                counted_to: 3,
                has_begun: true,
                has_answer: true,
                is_complete: true,
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

    #[test]
    fn a_stream_without_a_choice_has_no_answer() {
        let answer = |stream: &str| {
            let (_, seen) = pass(&[stream.as_bytes()], false);
            (seen.has_answer, seen.has_begun, seen.is_complete)
        };
        let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n";
        assert_eq!(answer("data: [DONE]\n\n"), (false, false, true));
        assert_eq!(answer(&format!("{usage}data: [DONE]\n\n")), (false, false, true));
        assert_eq!(answer("data: {\"choices\":[{\"delta\":{}}]}\n\ndata: [DONE]\n\n"), (true, true, true));
        assert_eq!(answer("data: {\"type\":\"message_stop\"}\n\n"), (true, true, true));
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
