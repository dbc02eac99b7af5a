//! Replies that are streams of server-sent events (WHATWG HTML, section 9.2): counts their events, takes their times and
//! shows whether a stream is whole.
//!
//! An event is a block with at least one `data` line, ended by a blank line. Comments such as `: ping` are none.

use std::time::{Duration, Instant};

use memchr::{memchr, memchr2, memmem};

use crate::client::{Failure, FailureKind};
use crate::plan::StreamExpect;

/// The last event of a stream of OpenAI's dialect.
const DONE: &[u8] = b"[DONE]";
/// Beginning of a line that is kept: longer than `data: [DONE]`, so that a cut line never equals it.
const LINE_BYTES_KEPT: usize = 16;
/// Most gaps that are recorded of one reply.
const GAPS_MAX: usize = 65_536;
/// The prefix of a value that differs between two replies to the same request.
const ID: &[u8] = b"\"id\":\"";

/// The instants of one reply.
#[derive(Debug, Default)]
pub(crate) struct StreamTimes {
    /// When the head was complete.
    pub(crate) first_byte: Option<Instant>,
    /// End of the first event.
    pub(crate) first_event: Option<Instant>,
    /// Time between the ends of two events; zero for events that were read together.
    pub(crate) gaps: Vec<Duration>,
    /// Events, `[DONE]` included.
    pub(crate) events: u64,
    last_event: Option<Instant>,
}

/// Receives the streams of one connection, one after the other.
pub(crate) struct StreamCheck<'a> {
    expect: &'a StreamExpect,
    events: EventScanner,
    times: StreamTimes,
}

impl<'a> StreamCheck<'a> {
    pub(crate) fn new(expect: &'a StreamExpect) -> StreamCheck<'a> {
        StreamCheck { expect, events: EventScanner::default(), times: StreamTimes::default() }
    }

    /// Forgets the last reply; keeps its memory.
    pub(crate) fn begin(&mut self) {
        let mut gaps = std::mem::take(&mut self.times.gaps);
        gaps.clear();
        self.times = StreamTimes { gaps, ..StreamTimes::default() };
        self.events = EventScanner::default();
    }

    pub(crate) fn on_head(&mut self, now: Instant) {
        self.times.first_byte = Some(now);
    }

    pub(crate) fn on_body(&mut self, piece: &[u8], now: Instant) {
        for _ in 0..self.events.scan(piece) {
            self.times.events += 1;
            match self.times.last_event {
                None => self.times.first_event = Some(now),
                Some(last) if self.times.gaps.len() < GAPS_MAX => self.times.gaps.push(now - last),
                Some(_) => {}
            }
            self.times.last_event = Some(now);
        }
    }

    pub(crate) fn times(&self) -> &StreamTimes {
        &self.times
    }

    /// Whether the reply's whole body has to be kept for `result`.
    pub(crate) fn needs_body(&self) -> bool {
        self.expect.reference.is_some()
    }

    /// Whether the last reply, which must be complete, is a whole stream. `body` is empty unless it's needed.
    pub(crate) fn result(&self, body: &[u8]) -> Result<(), Failure> {
        let events = self.times.events;
        if !self.events.is_done {
            let detail = format!("the stream ended after {events} events without `data: [DONE]`");
            return Err(Failure::new(FailureKind::StreamTruncated, detail));
        }
        if events < self.expect.events_min {
            let detail = format!("the stream has {events} events instead of {}", self.expect.events_min);
            return Err(Failure::new(FailureKind::StreamTruncated, detail));
        }
        match &self.expect.reference {
            Some(reference) => compare(&without_ids(body), reference),
            None => Ok(()),
        }
    }
}

fn compare(body: &[u8], reference: &[u8]) -> Result<(), Failure> {
    if body == reference {
        return Ok(());
    }
    let equal = body.iter().zip(reference).take_while(|(found, wanted)| found == wanted).count();
    let detail = format!(
        "without ids the stream has {} bytes, the reference {}; they differ from byte {equal} on",
        body.len(),
        reference.len()
    );
    Err(Failure::new(FailureKind::StreamDiffers, detail))
}

/// The bytes without the values of `"id":"…"`, which differ between two replies to the same request.
pub(crate) fn without_ids(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memmem::find(rest, ID) {
        let (before, after) = rest.split_at(at + ID.len());
        out.extend_from_slice(before);
        rest = &after[memchr(b'"', after).unwrap_or(after.len())..];
    }
    out.extend_from_slice(rest);
    out
}

/// Finds the ends of events in pieces of any size.
#[derive(Default)]
struct EventScanner {
    /// The beginning of the current line.
    line: Vec<u8>,
    /// Whether the last byte was CR: an LF behind it is part of the same line end.
    after_cr: bool,
    /// Whether the current block has a `data` line.
    has_data: bool,
    /// Whether the last `data` line is `[DONE]`.
    is_done: bool,
}

impl EventScanner {
    /// The number of events that end in `bytes`.
    fn scan(&mut self, mut bytes: &[u8]) -> usize {
        let mut count = 0;
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let is_rest_of_crlf = self.after_cr && end == 0 && bytes[0] == b'\n';
            self.keep(&bytes[..end]);
            if !is_rest_of_crlf {
                count += usize::from(self.end_line());
            }
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
        }
        if !bytes.is_empty() {
            self.after_cr = false;
            self.keep(bytes);
        }
        count
    }

    fn keep(&mut self, bytes: &[u8]) {
        let spare = LINE_BYTES_KEPT - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(spare)]);
    }

    /// Whether an event ends by this line.
    fn end_line(&mut self) -> bool {
        let ends_event = self.line.is_empty() && std::mem::take(&mut self.has_data);
        if let Some(data) = self.line.strip_prefix(b"data:") {
            self.has_data = true;
            self.is_done = data.trim_ascii_start() == DONE;
        }
        self.line.clear();
        ends_event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        "data: {\"id\":\"a1\",\"n\":1}\n\n: ping\n\nevent: x\ndata: {\"id\":\"a1\"}\n\ndata: [DONE]\n\n";

    /// The number of events and whether the last one is `[DONE]`, read in pieces of `step` bytes.
    fn scan(text: &str, step: usize) -> (usize, bool) {
        let mut scanner = EventScanner::default();
        let count = text.as_bytes().chunks(step).map(|piece| scanner.scan(piece)).sum();
        (count, scanner.is_done)
    }

    #[test]
    fn events_are_found_in_pieces_of_any_size_with_every_line_end() {
        for line_end in ["\n", "\r\n", "\r"] {
            let text = STREAM.replace('\n', line_end);
            for step in 1..=text.len() {
                assert_eq!(scan(&text, step), (3, true), "{line_end:?} {step}");
            }
        }
    }

    #[test]
    fn comments_and_blank_lines_are_no_events() {
        assert_eq!(scan("\n\n: a\n\n\nid: 7\n\n", 99), (0, false));
        assert_eq!(scan("data: a\ndata: b\n\n", 99), (1, false));
    }

    #[test]
    fn a_stream_is_done_only_by_its_last_data() {
        assert_eq!(scan("data:[DONE]\n\n", 99), (1, true));
        assert_eq!(scan("data: [DONE]\n\ndata: more\n\n", 99), (2, false));
        assert_eq!(scan("data: [DONE] and more\n\n", 99), (1, false));
        assert_eq!(scan("data: [DONE", 99), (0, false));
    }

    fn result(expect: &StreamExpect, text: &str) -> Result<(), (FailureKind, String)> {
        let mut check = StreamCheck::new(expect);
        check.on_body(text.as_bytes(), Instant::now());
        check.result(text.as_bytes()).map_err(|failure| (failure.kind, failure.detail))
    }

    #[test]
    fn a_stream_without_its_end_or_with_too_few_events_is_truncated() {
        let expect = StreamExpect { events_min: 3, reference: None };
        assert_eq!(result(&expect, STREAM), Ok(()));
        let (kind, detail) = result(&expect, "data: a\n\n").unwrap_err();
        assert_eq!(kind, FailureKind::StreamTruncated);
        assert_eq!(detail, "the stream ended after 1 events without `data: [DONE]`");
        let (kind, detail) = result(&expect, "data: a\n\ndata: [DONE]\n\n").unwrap_err();
        assert_eq!(kind, FailureKind::StreamTruncated);
        assert_eq!(detail, "the stream has 2 events instead of 3");
    }

    #[test]
    fn a_stream_may_differ_from_the_reference_in_ids_alone() {
        let expect = StreamExpect::new(0, Some(STREAM.as_bytes()));
        assert_eq!(result(&expect, &STREAM.replace("a1", "another")), Ok(()));
        let (kind, detail) = result(&expect, &STREAM.replace("\"n\":1", "\"n\":2")).unwrap_err();
        assert_eq!(kind, FailureKind::StreamDiffers);
        assert!(detail.ends_with("they differ from byte 19 on"), "{detail}");
        assert!(result(&expect, &STREAM.replace(": ping\n\n", "")).is_err());
    }

    #[test]
    fn an_id_without_an_end_is_cut_off() {
        assert_eq!(without_ids(b"{\"id\":\"a\",\"x\":\"b\"}"), b"{\"id\":\"\",\"x\":\"b\"}");
        assert_eq!(without_ids(b"{\"id\":\"a"), b"{\"id\":\"");
        assert_eq!(without_ids(b"plain"), b"plain");
    }

    #[test]
    fn times_are_those_of_the_ends_of_events() {
        let expect = StreamExpect::default();
        let mut check = StreamCheck::new(&expect);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        check.on_head(at(1));
        check.on_body(b"data: a\n", at(2));
        check.on_body(b"\ndata: b\n\n", at(5));
        check.on_body(b"data: [DONE]\n\n", at(9));
        let times = check.times();
        assert_eq!((times.first_byte, times.first_event, times.events), (Some(at(1)), Some(at(5)), 3));
        assert_eq!(times.gaps, [Duration::ZERO, Duration::from_millis(4)]);
        check.begin();
        assert_eq!((check.times().first_byte, check.times().events, check.times().gaps.len()), (None, 0, 0));
        assert!(check.result(b"").is_err());
    }
}
