//! Server-sent events as bytes: whole events are passed on as they came, and what has to be known of them is found without parsing them.

use std::ops::Range;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use memchr::{memmem, memrchr_iter};
use weir_translate::TokenUsage;

use crate::Api;

/// Upper bound of the bytes of one event.
pub(crate) const EVENT_BYTES_MAX: usize = 16 << 20;

/// An event has more than [`EVENT_BYTES_MAX`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// Cuts chunks after the last whole event. A chunk that ends with an event is passed on without a copy.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The start of an event whose end has not come.
    partial: BytesMut,
}

impl Frames {
    /// The whole events that are there after `chunk`; empty if there is none.
    pub(crate) fn push(&mut self, mut chunk: Bytes) -> Result<Bytes, EventTooLarge> {
        if self.partial.is_empty() {
            let whole = chunk.split_to(end_of_events(&chunk));
            self.partial.extend_from_slice(&chunk);
            return Ok(whole);
        }
        if self.partial.len() + chunk.len() > EVENT_BYTES_MAX {
            return Err(EventTooLarge);
        }
        self.partial.extend_from_slice(&chunk);
        let end = end_of_events(&self.partial);
        Ok(self.partial.split_to(end).freeze())
    }

    /// What came after the last whole event.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.partial.split().freeze()
    }
}

/// The offset after the last empty line.
fn end_of_events(bytes: &[u8]) -> usize {
    let is_end = |at: &usize| {
        let before = &bytes[..*at];
        before.ends_with(b"\n") || before.ends_with(b"\n\r")
    };
    memrchr_iter(b'\n', bytes).find(is_end).map_or(0, |at| at + 1)
}

/// The offset after the first empty line, which may be the first line: it counts as an event without data, wherever chunks are cut.
pub(crate) fn end_of_first_event(bytes: &[u8]) -> usize {
    if let Some(empty) = [&b"\n"[..], b"\r\n"].into_iter().find(|line| bytes.starts_with(line)) {
        return empty.len();
    }
    let mut ends = memchr::memchr_iter(b'\n', bytes).filter_map(|at| {
        let rest = &bytes[at + 1..];
        let empty = [&b"\n"[..], b"\r\n"].into_iter().find(|end| rest.starts_with(end))?;
        Some(at + 1 + empty.len())
    });
    ends.next().unwrap_or(bytes.len())
}

/// Where the data of an event stands: after the field's name, without the end of the line.
pub(crate) fn data_of(event: &[u8]) -> Option<Range<usize>> {
    let field = if event.starts_with(b"data:") { 0 } else { memmem::find(event, b"\ndata:")? + 1 };
    let start = field + b"data:".len();
    let start = start + usize::from(event.get(start) == Some(&b' '));
    let end = memchr::memchr2(b'\n', b'\r', &event[start..]).map_or(event.len(), |end| start + end);
    Some(start..end)
}

/// What whole events tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The tokens that the provider counted.
    pub(crate) usage: Option<TokenUsage>,
    /// Events with data: about one for each token, where the provider does not count.
    pub(crate) events: u64,
    /// Whether the last event of a complete stream came.
    pub(crate) is_complete: bool,
    /// Whether the provider sent an error event.
    pub(crate) is_error: bool,
}

impl Seen {
    /// Looks at whole events of an API.
    pub(crate) fn look(&mut self, events: &[u8], api: Api) {
        let mut start = 0;
        while start < events.len() {
            let rest = &events[start..];
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let line = &rest[..end];
            start += end;
            if line.starts_with(b"data:") {
                self.events += 1;
                self.is_complete |= api.is_last(line);
            }
            self.is_error |= api.is_error(line);
        }
        if let Some(usage) = TokenUsage::of_events(events) {
            self.usage = Some(self.usage.unwrap_or_default().merged(usage));
        }
    }
}

const NULL: &[u8] = b",\"usage\":null";
/// Made once: every event of a stream is searched.
static NULL_FINDER: LazyLock<memmem::FinderRev<'static>> = LazyLock::new(|| memmem::FinderRev::new(NULL));
static NO_CHOICES_FINDER: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(b"\"choices\":[]"));

/// The events without the usage that the caller did not ask for: chunks that have nothing else, and `"usage":null` of the others.
pub(crate) fn without_usage(events: Bytes) -> Bytes {
    if !TokenUsage::is_named(&events) {
        return events;
    }
    let mut kept = Vec::with_capacity(events.len());
    let mut rest: &[u8] = &events;
    while !rest.is_empty() {
        let end = end_of_first_event(rest);
        let (event, after) = rest.split_at(end);
        rest = after;
        let is_usage = NO_CHOICES_FINDER.find(event).is_some() && TokenUsage::find(event).is_some();
        if is_usage {
            continue;
        }
        match NULL_FINDER.rfind(event) {
            Some(at) => {
                kept.extend_from_slice(&event[..at]);
                kept.extend_from_slice(&event[at + NULL.len()..]);
            }
            None => kept.extend_from_slice(event),
        }
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        ": ping\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\",\\\"usage\\\":null\"}}]}\r\n\r\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
        "data: [DONE]\n\n",
    );

    #[test]
    fn events_cut_at_every_byte_come_out_whole_and_unchanged() {
        for at in 0..=STREAM.len() {
            let (mut frames, mut out, mut seen) = (Frames::default(), Vec::new(), Seen::default());
            for part in [&STREAM[..at], &STREAM[at..]] {
                let whole = frames.push(Bytes::copy_from_slice(part.as_bytes())).unwrap();
                assert!(whole.is_empty() || whole.ends_with(b"\n\n") || whole.ends_with(b"\r\n\r\n"));
                seen.look(&whole, Api::ChatCompletions);
                out.extend_from_slice(&whole);
            }
            assert_eq!(std::str::from_utf8(&out), Ok(STREAM), "{at}");
            let usage = TokenUsage { prompt: 3, completion: 2, ..TokenUsage::default() };
            assert_eq!(
                seen,
                Seen { usage: Some(usage), events: 4, is_complete: true, is_error: false },
                "{at}"
            );
        }
    }

    #[test]
    fn usage_is_removed_and_nothing_else() {
        let kept = without_usage(Bytes::from_static(STREAM.as_bytes()));
        let expected = concat!(
            ": ping\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\",\\\"usage\\\":null\"}}]}\r\n\r\n",
            "data: [DONE]\n\n",
        );
        assert_eq!(std::str::from_utf8(&kept), Ok(expected));
        let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":3}}"#;
        let kept = without_usage(format!("data: 1\n\n\r\n{usage}\r\n\r\n").into());
        assert_eq!(kept, "data: 1\n\n\r\n", "an empty line is no part of the event behind it");
    }

    #[test]
    fn the_rest_of_a_stream_that_ends_early_is_kept() {
        let mut frames = Frames::default();
        assert_eq!(frames.push(Bytes::from_static(b"data: 1\n\ndata")).unwrap(), "data: 1\n\n");
        assert_eq!(frames.rest(), "data");
    }
}
