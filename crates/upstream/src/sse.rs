//! Server-sent events, by the parsing rules of the HTML standard (section 9.2.6).
//!
//! Lines end by LF, CR or CRLF. A line is a field (`data`, `event`, `id`, `retry`) or, after a colon, a comment. An empty line ends
//! an event. Bytes that are not UTF-8 become U+FFFD. An event that the stream cuts off is dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::{Stream, StreamExt as _};

use crate::{ReplyBody, Result};

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The field `event`; empty if there was none, which means `message`.
    pub event: String,
    /// The lines of the fields `data`, separated by LF.
    pub data: String,
    /// The last `id` of the stream so far.
    pub id: String,
    /// The last `retry` of the stream so far: how long a client should wait before it reconnects.
    pub retry: Option<Duration>,
}

/// The events of a reply. The stream ends after the first error; an event that is too large is an [`UpstreamError::Reply`](crate::UpstreamError::Reply).
pub struct SseEvents {
    body: ReplyBody,
    parser: SseParser,
    /// What is not parsed yet of the last chunk.
    chunk: Bytes,
}

impl SseEvents {
    pub(crate) fn new(body: ReplyBody, event_bytes_max: usize) -> SseEvents {
        SseEvents { body, parser: SseParser::new(event_bytes_max), chunk: Bytes::new() }
    }
}

impl Stream for SseEvents {
    type Item = Result<SseEvent>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let SseEvents { body, parser, chunk } = self.get_mut();
        loop {
            match parser.next_event(chunk) {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Ok(None) => {}
                Err(EventTooLarge) => {
                    chunk.clear();
                    return Poll::Ready(Some(Err(body.too_large(parser.event_bytes_max))));
                }
            }
            match ready!(body.poll_next_unpin(context)) {
                Some(Ok(next)) => *chunk = next,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// An event has more than `event_bytes_max` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLarge;

/// A parser that is fed chunk by chunk.
#[derive(Debug)]
pub struct SseParser {
    event_bytes_max: usize,
    /// The event so far. Each line of `data` ends by LF until the event is complete.
    event: SseEvent,
    /// The start of a line whose end is not there yet.
    line: Vec<u8>,
    /// Whether no line is complete yet: the first one may begin with a byte order mark.
    is_first_line: bool,
    /// Whether the last byte was a CR: an LF after it belongs to the same line end.
    is_after_cr: bool,
}

impl SseParser {
    /// A parser of events of at most `event_bytes_max` bytes.
    pub fn new(event_bytes_max: usize) -> SseParser {
        SseParser {
            event_bytes_max,
            event: SseEvent::default(),
            line: Vec::new(),
            is_first_line: true,
            is_after_cr: false,
        }
    }

    /// Takes bytes from `chunk` until an event is complete or the chunk is empty.
    ///
    /// # Errors
    /// [`EventTooLarge`].
    pub fn next_event(&mut self, chunk: &mut Bytes) -> Result<Option<SseEvent>, EventTooLarge> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.is_after_cr) && chunk[0] == b'\n' {
                chunk.advance(1);
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', chunk);
            let part = chunk.split_to(end.unwrap_or(chunk.len()));
            let SseEvent { event, data, id, .. } = &self.event;
            if event.len() + data.len() + id.len() + self.line.len() + part.len() > self.event_bytes_max {
                return Err(EventTooLarge);
            }
            if end.is_none() {
                self.line.extend_from_slice(&part);
                return Ok(None);
            }
            self.is_after_cr = chunk.get_u8() == b'\r';
            let event = match self.line.is_empty() {
                true => self.end_line(&part),
                false => {
                    let mut line = std::mem::take(&mut self.line);
                    line.extend_from_slice(&part);
                    self.end_line(&line)
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// The event that the line completes.
    fn end_line(&mut self, line: &[u8]) -> Option<SseEvent> {
        let mark: &[u8] = if std::mem::take(&mut self.is_first_line) { b"\xEF\xBB\xBF" } else { b"" };
        let line = String::from_utf8_lossy(line.strip_prefix(mark).unwrap_or(line));
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                self.event.data.push_str(value);
                self.event.data.push('\n');
            }
            "event" => value.clone_into(&mut self.event.event),
            "id" if !value.contains('\0') => value.clone_into(&mut self.event.id),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                let milliseconds = value.parse().ok();
                self.event.retry = milliseconds.map(Duration::from_millis).or(self.event.retry);
            }
            _ => {}
        }
        None
    }

    /// The event, unless it has no `data`. The id and the reconnection time stay.
    fn end_event(&mut self) -> Option<SseEvent> {
        let next = SseEvent { id: self.event.id.clone(), retry: self.event.retry, ..SseEvent::default() };
        let mut event = std::mem::replace(&mut self.event, next);
        event.data.pop()?;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same rules over a whole text, as the standard words them.
    fn parse_whole(text: &[u8]) -> Vec<SseEvent> {
        let text = String::from_utf8_lossy(text).into_owned();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
        let (mut events, mut event) = (Vec::new(), SseEvent::default());
        let mut lines: Vec<&str> = text.split('\n').collect();
        lines.pop(); // without a line end
        for line in lines {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "" if line.is_empty() => {
                    if !event.data.is_empty() {
                        event.data.pop();
                        events.push(event.clone());
                    }
                    event = SseEvent { id: event.id, retry: event.retry, ..SseEvent::default() };
                }
                "data" => event.data += &(value + "\n"),
                "event" => event.event = value,
                "id" if !value.contains('\0') => event.id = value,
                "retry" if !value.is_empty() && value.chars().all(|c| c.is_ascii_digit()) => {
                    event.retry = value.parse().ok().map(Duration::from_millis).or(event.retry);
                }
                _ => {}
            }
        }
        events
    }

    fn parse_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
        let mut parser = SseParser::new(1 << 20);
        let mut events = Vec::new();
        for chunk in chunks {
            let mut chunk = Bytes::copy_from_slice(chunk);
            while let Some(event) = parser.next_event(&mut chunk).unwrap() {
                events.push(event);
            }
            assert!(chunk.is_empty());
        }
        events
    }

    /// Parses the text whole and at every split point; `expected` has the name, the data and the id of each event.
    #[track_caller]
    fn check(text: &[u8], expected: &[(&str, &str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())).collect();
        let found = parse_chunks([text]);
        let shown: Vec<_> = found.iter().cloned().map(|event| (event.event, event.data, event.id)).collect();
        assert_eq!(shown, expected, "{}", text.escape_ascii());
        assert_eq!(parse_whole(text), found);
        for split in 0..=text.len() {
            let (before, after) = text.split_at(split);
            assert_eq!(parse_chunks([before, after]), found, "split at {split}");
        }
        assert_eq!(parse_chunks(text.chunks(1)), found, "byte by byte");
    }

    #[test]
    fn events_of_every_form_are_read_at_every_split_point() {
        check(b"data: a\n\ndata:b\r\rdata:  c\r\n\r\n", &[("", "a", ""), ("", "b", ""), ("", " c", "")]);
        check(b"data: a\ndata: b\ndata\n\n", &[("", "a\nb\n", "")]);
        check(b"data\n\ndata\ndata\n\ndata:", &[("", "", ""), ("", "\n", "")]);
        check(b": comment\n:\n\nevent: e\nid: 1\ndata: {\"a\": 1}\n\n", &[("e", "{\"a\": 1}", "1")]);
        check(b"id: 1\n\nevent: lost\n\ndata: a\n\nid\ndata: b\n\n", &[("", "a", "1"), ("", "b", "")]);
        check(b"id: a\0b\ndata: a\nDATA: x\n data: y\nother: z\n\n", &[("", "a", "")]);
        check(b"\xEF\xBB\xBFdata: a\n\n\xEF\xBB\xBFdata: b\n\n", &[("", "a", "")]);
        check("data: ä€𝄞\n\n".as_bytes(), &[("", "ä€𝄞", "")]);
        check(b"data: \xE2\x82\ndata: \xFF\n\n", &[("", "\u{fffd}\n\u{fffd}", "")]);
        check(b"data: [DONE]\r\n\r\ndata: cut off\r\n", &[("", "[DONE]", "")]);
        check(b"", &[]);
    }

    #[test]
    fn the_reconnection_time_is_a_number_of_milliseconds() {
        let retry = |text: &[u8]| parse_chunks([text])[0].retry;
        assert_eq!(retry(b"retry: 250\ndata: a\n\n"), Some(Duration::from_millis(250)));
        assert_eq!(retry(b"retry: 7\n\nretry: 2s\nretry\ndata: a\n\n"), Some(Duration::from_millis(7)));
        assert_eq!(retry(b"retry: -1\ndata: a\n\n"), None);
    }

    #[test]
    fn an_event_has_a_limit_and_comments_do_not_count() {
        let parse = |text: &str| SseParser::new(10).next_event(&mut Bytes::from(text.to_owned()));
        assert_eq!(parse("data: 1234\n\n").unwrap().unwrap().data, "1234");
        assert_eq!(parse("data: 12345\n\n"), Err(EventTooLarge));
        assert_eq!(parse(":234567890a"), Err(EventTooLarge), "a line without an end");
        assert_eq!(parse(&"data:\n".repeat(6)), Ok(None));
        assert_eq!(parse(&"data:\n".repeat(7)), Err(EventTooLarge), "each line keeps its end");
        assert_eq!(parse(&":2345678\n".repeat(9)), Ok(None));
        assert_eq!(parse(&(":2345678\n".repeat(9) + "data:a\n\n")).unwrap().unwrap().data, "a");
    }

    const PARTS: &[&[u8]] = &[
        b"data",
        b"event",
        b"id",
        b"retry",
        b":",
        b" ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"x",
        b"12",
        b"\0",
        b"\xEF\xBB\xBF",
        b"\xE2\x82",
        b"\xAC",
        b"data: y\n\n",
    ];

    proptest! {
        #[test]
        fn any_stream_in_any_chunks_is_read_as_the_whole_text(
            parts in proptest::collection::vec(
                proptest::sample::select(PARTS),
                0..60,
            ),
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
            prop_assert_eq!(parse_chunks(chunks), parse_whole(&text));
        }
    }
}
