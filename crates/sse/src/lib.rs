//! Server-sent events, by the parsing rules of the HTML standard (section 9.2.6), with the bytes of each event as they came.
//!
//! Lines end by LF, CR or CRLF. A line is a field (`data`, `event`, `id`, `retry`) or, after a colon, a comment. An empty line ends an event. A byte
//! order mark before the first line is dropped. Every byte is looked at a fixed number of times, however the stream is cut into chunks.

#![forbid(unsafe_code)]

use std::ops::Range;

use bytes::{Buf as _, Bytes, BytesMut};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event, or comments and fields without data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    raw: Bytes,
    data: Data,
}

/// The value of the lines `data`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Data {
    None,
    /// One line: the range of its value in the event.
    Line(Range<usize>),
    /// Several lines, joined by LF.
    Lines(Bytes),
}

impl SseEvent {
    /// The bytes of one event, which may lack the empty line at its end.
    pub fn new(raw: Bytes) -> SseEvent {
        let data = data_of(&raw);
        SseEvent { raw, data }
    }

    /// The events of a part of a stream that is cut between events.
    pub fn all(part: &[u8]) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new(usize::MAX);
        decoder.push(Bytes::copy_from_slice(part));
        let mut events = Vec::new();
        while let Ok(Some(event)) = decoder.next_event() {
            events.push(event);
        }
        events.extend(decoder.rest());
        events
    }

    /// The bytes as they came, with the empty line that ends the event.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The bytes as they came.
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// The data; `None` for an event without a field `data`, which clients skip.
    pub fn data(&self) -> Option<&[u8]> {
        match &self.data {
            Data::None => None,
            Data::Line(range) => Some(&self.raw[range.clone()]),
            Data::Lines(joined) => Some(joined),
        }
    }

    /// The data, if it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.data()?).ok()
    }

    /// The range of the data in the raw bytes; `None` where it has no line or several.
    pub fn data_at(&self) -> Option<Range<usize>> {
        match &self.data {
            Data::Line(range) => Some(range.clone()),
            Data::None | Data::Lines(_) => None,
        }
    }

    /// The value of the last field `event`; empty without one.
    pub fn name(&self) -> &[u8] {
        fields(&self.raw).filter(|(field, _)| *field == b"event").last().map_or(b"", |(_, at)| &self.raw[at])
    }

    /// The events that were meant where empty lines are missing: each ends by its line of data.
    pub fn separated(&self) -> Vec<SseEvent> {
        let (mut events, mut fields_of_one) = (Vec::new(), Vec::new());
        for (field, at) in fields(&self.raw) {
            fields_of_one.extend_from_slice(&[field, b": ", &self.raw[at], b"\n"].concat());
            if field == b"data" {
                fields_of_one.push(b'\n');
                events.push(SseEvent::new(std::mem::take(&mut fields_of_one).into()));
            }
        }
        events
    }

    /// Whether it consists of comments: servers send them as signs of life.
    pub fn is_comment(&self) -> bool {
        let mut fields = fields(&self.raw).map(|(field, _)| field.is_empty()).peekable();
        fields.peek().is_some() && fields.all(|is_comment| is_comment)
    }

    /// Whether every line is the field `event` or `data`: nothing else is sent to the client by it.
    pub fn has_only_data(&self) -> bool {
        fields(&self.raw).all(|(field, _)| matches!(field, b"data" | b"event"))
    }
}

fn data_of(raw: &[u8]) -> Data {
    let mut lines = fields(raw).filter(|(field, _)| *field == b"data").map(|(_, at)| at);
    let Some(first) = lines.next() else { return Data::None };
    let Some(second) = lines.next() else { return Data::Line(first) };
    let mut joined = raw[first].to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.push(b'\n');
        joined.extend_from_slice(&raw[line]);
    }
    Data::Lines(joined.into())
}

/// The fields of an event: name, and where the value stands. The name of a comment is empty.
fn fields(raw: &[u8]) -> impl Iterator<Item = (&[u8], Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < raw.len() {
            let start = at;
            let end = memchr::memchr2(b'\n', b'\r', &raw[start..]).map_or(raw.len(), |end| start + end);
            at = end + 1;
            if start == end {
                continue;
            }
            let line = &raw[start..end];
            let Some(colon) = memchr::memchr(b':', line) else { return Some((line, end..end)) };
            let value = start + colon + 1;
            let value = value + usize::from(raw[value..end].first() == Some(&b' '));
            return Some((&line[..colon], value..end));
        }
        None
    })
}

/// An event has more bytes than may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLarge;

/// Cuts a stream into events. A chunk that ends with an event is not copied.
#[derive(Debug)]
pub struct SseDecoder {
    event_bytes_max: usize,
    /// The beginning of an event whose end has not come; all of it has been looked at.
    partial: BytesMut,
    /// Bytes not yet scanned.
    chunk: Bytes,
    /// Whether the stream has not begun: it may begin with a byte order mark.
    is_first: bool,
    /// Whether the line has no byte yet.
    is_line_empty: bool,
    /// Whether the last byte was a CR: an LF after it belongs to the same line end.
    is_after_cr: bool,
}

impl SseDecoder {
    /// A decoder of events of at most `event_bytes_max` bytes.
    pub fn new(event_bytes_max: usize) -> SseDecoder {
        SseDecoder {
            event_bytes_max,
            partial: BytesMut::new(),
            chunk: Bytes::new(),
            is_first: true,
            is_line_empty: true,
            is_after_cr: false,
        }
    }

    /// Adds a chunk. The events before it must have been taken.
    pub fn push(&mut self, mut chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "events are taken before the next chunk is added");
        if self.is_first {
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(&chunk);
                chunk = self.partial.split().freeze();
            }
            if chunk.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&chunk) {
                self.partial.extend_from_slice(&chunk);
                return;
            }
            self.is_first = false;
            if chunk.starts_with(BYTE_ORDER_MARK) {
                chunk.advance(BYTE_ORDER_MARK.len());
            }
        }
        self.chunk = chunk;
    }

    /// The next event that is complete. An empty line behind another one is an event without data.
    ///
    /// # Errors
    /// [`EventTooLarge`].
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, EventTooLarge> {
        let end = self.end_of_event();
        let part = self.chunk.split_to(end.unwrap_or(self.chunk.len()));
        if self.partial.len() + part.len() > self.event_bytes_max {
            return Err(EventTooLarge);
        }
        if end.is_none() {
            self.partial.extend_from_slice(&part);
            return Ok(None);
        }
        let raw = if self.partial.is_empty() {
            part
        } else {
            self.partial.extend_from_slice(&part);
            self.partial.split().freeze()
        };
        Ok(Some(SseEvent::new(raw)))
    }

    /// The bytes behind the last event at the end of the stream. The standard drops it; some servers leave out the last empty line.
    pub fn rest(&mut self) -> Option<SseEvent> {
        let raw = self.partial.split().freeze();
        (!raw.is_empty()).then(|| SseEvent::new(raw))
    }

    /// The offset in the chunk after the next empty line.
    fn end_of_event(&mut self) -> Option<usize> {
        let bytes = &self.chunk[..];
        let mut at = 0;
        if self.is_after_cr && bytes.first() == Some(&b'\n') {
            at = 1;
        }
        if !bytes.is_empty() {
            self.is_after_cr = false;
        }
        while at < bytes.len() {
            let Some(length) = memchr::memchr2(b'\n', b'\r', &bytes[at..]) else {
                self.is_line_empty = false;
                return None;
            };
            let is_empty = self.is_line_empty && length == 0;
            self.is_line_empty = true;
            let is_cr = bytes[at + length] == b'\r';
            at += length + 1;
            if is_cr {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.is_after_cr = true,
                }
            }
            if is_empty {
                return Some(at);
            }
        }
        None
    }
}

/// Bytes of events that follow each other. Those of a single event are not copied.
#[derive(Default)]
pub struct JoinedBytes {
    first: Bytes,
    all: Vec<u8>,
}

impl JoinedBytes {
    /// Appends events.
    pub fn push(&mut self, events: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = events;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&events);
    }

    /// All of them.
    pub fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Name and data of each event with data, by the rules over a whole text as the standard words them.
    fn parse_whole(text: &[u8]) -> Vec<(String, String)> {
        let text = String::from_utf8_lossy(text).into_owned();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
        let (mut events, mut name, mut data) = (Vec::new(), String::new(), String::new());
        let mut lines: Vec<&str> = text.split('\n').collect();
        lines.pop(); // without a line end
        for line in lines {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.is_empty() => {
                    if data.pop().is_some() {
                        events.push((name, data));
                    }
                    (name, data) = Default::default();
                }
                "data" => data += &format!("{value}\n"),
                "event" => name = value.to_owned(),
                _ => {}
            }
        }
        events
    }

    /// The events of a stream that comes in chunks, and all of its bytes.
    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<SseEvent>, Vec<u8>) {
        let mut decoder = SseDecoder::new(1 << 20);
        let (mut events, mut bytes) = (Vec::new(), Vec::new());
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(event);
            }
        }
        events.iter().for_each(|event| bytes.extend_from_slice(event.raw()));
        bytes.extend_from_slice(decoder.rest().as_ref().map_or(b"", |event| event.raw()));
        (events, bytes)
    }

    fn check_chunks<'a>(text: &[u8], chunks: impl IntoIterator<Item = &'a [u8]>) {
        let (events, bytes) = decode(chunks);
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found: Vec<_> =
            events.iter().filter_map(|event| Some((lossy(event.name()), lossy(event.data()?)))).collect();
        assert_eq!(found, parse_whole(text), "{}", text.escape_ascii());
        assert_eq!(bytes, text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text), "every byte is passed on");
        for event in events {
            if let Some(range) = event.data_at() {
                assert_eq!(Some(&event.raw()[range]), event.data());
            }
        }
    }

    /// Decodes the text whole and at every split point.
    #[track_caller]
    fn check(text: &[u8], expected: &[(&str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(name, data)| (name.to_string(), data.to_string())).collect();
        assert_eq!(parse_whole(text), expected, "{}", text.escape_ascii());
        for split in 0..=text.len() {
            let (before, after) = text.split_at(split);
            check_chunks(text, [before, after]);
        }
        check_chunks(text, text.chunks(1));
    }

    #[test]
    fn events_of_every_form_are_read_at_every_split_point() {
        check(b"data: a\n\ndata:b\r\rdata:  c\r\n\r\n", &[("", "a"), ("", "b"), ("", " c")]);
        check(b"data: a\ndata: b\ndata\n\n", &[("", "a\nb\n")]);
        check(b"data\n\ndata\ndata\n\ndata:", &[("", ""), ("", "\n")]);
        check(b": comment\n:\n\nevent: e\nid: 1\ndata: {\"a\": 1}\n\n", &[("e", "{\"a\": 1}")]);
        check(b"id: 1\n\nevent: lost\n\ndata: a\n\nid\ndata: b\n\n", &[("", "a"), ("", "b")]);
        check(b"data: a\nDATA: x\n data: y\nother: z\n\n", &[("", "a")]);
        check(b"\xEF\xBB\xBFdata: a\n\n\xEF\xBB\xBFdata: b\n\n", &[("", "a")]);
        check(b"\xEF\xBB\xBF\ndata: a\n\n", &[("", "a")]);
        check("data: ä€𝄞\n\n".as_bytes(), &[("", "ä€𝄞")]);
        check(b"data: \xE2\x82\ndata: \xFF\n\n", &[("", "\u{fffd}\n\u{fffd}")]);
        check(b"data: [DONE]\r\n\r\ndata: cut off\r\n", &[("", "[DONE]")]);
        check(b"\n\r\n\n\r\rdata: a\r\r\n\n", &[("", "a")]);
        check(b"", &[]);
    }

    #[test]
    fn events_without_an_empty_line_between_them_are_separated() {
        let event = SseEvent::new(Bytes::from_static(b"event: a\r\ndata: 1\r\n: x\ndata:2\nid: 3\n\n"));
        let events: Vec<_> = event.separated().iter().map(|event| event.raw().clone()).collect();
        assert_eq!(events, ["event: a\ndata: 1\n\n", ": x\ndata: 2\n\n"]);
    }

    #[test]
    fn an_event_has_a_limit_and_the_time_is_linear_in_its_bytes() {
        let decode = |text: &str| {
            let mut decoder = SseDecoder::new(12);
            decoder.push(Bytes::from(text.to_owned()));
            decoder.next_event().map(|event| event.map(|event| event.data().map(<[u8]>::to_vec)))
        };
        assert_eq!(decode("data: 1234\n\n"), Ok(Some(Some(b"1234".to_vec()))));
        assert_eq!(decode("data: 12345\n\n"), Err(EventTooLarge));
        assert_eq!(decode(":23456789abcd"), Err(EventTooLarge), "a line without an end");
        assert_eq!(decode(":comment\n\n"), Ok(Some(None)));
        // 4 MiB of empty data lines in chunks of 64 bytes: looked at once, this takes a fraction of a second; anew for each chunk, hours
        let mut decoder = SseDecoder::new(32 << 20);
        let chunk = Bytes::from("data:\n".repeat(11));
        for _ in 0..(4 << 20) / chunk.len() {
            decoder.push(chunk.clone());
            assert_eq!(decoder.next_event(), Ok(None));
        }
        decoder.push(Bytes::from_static(b"\n"));
        assert!(decoder.next_event().unwrap().is_some_and(|event| event.raw().len() > 3 << 20));
    }

    const PARTS: &[&[u8]] = &[
        b"data",
        b"event",
        b"id",
        b":",
        b" ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"x",
        b"\0",
        b"\xEF\xBB\xBF",
        b"\xE2\x82",
        b"\xAC",
        b"data: y\n\n",
    ];

    proptest! {
        #[test]
        fn any_stream_in_any_chunks_is_read_as_the_whole_text(
            parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..60),
            splits in proptest::collection::vec(1usize..9, 1..9),
        ) {
            let text = parts.concat();
            let mut rest = text.as_slice();
            let mut chunks = Vec::new();
            for length in splits.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at(rest.len().min(*length));
                chunks.push(chunk);
                rest = after;
            }
            check_chunks(&text, chunks);
        }
    }
}
