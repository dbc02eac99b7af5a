//! Writing events with what was changed in them.

use std::ops::Range;

use weir_translate::SseEvent;
use weir_translate::conversation::{frame, sequence_number};
use weir_translate::json::{Edits, Tape, Value};

/// Writes an event with changes to its data. Without any, an event of plain fields is written as it came.
pub(super) fn write_event(event: &SseEvent, data: &[u8], edits: &Edits, keeps_name: bool, out: &mut Vec<u8>) {
    match event.data_at().filter(|data_at| keeps_name && can_stay(event, data_at)) {
        Some(data_at) => {
            out.extend_from_slice(&event.raw()[..data_at.start]);
            out.extend_from_slice(&edits.apply(data));
            out.extend_from_slice(&event.raw()[data_at.end..]);
        }
        None => {
            write_head(event, keeps_name, out);
            write_line(&edits.apply(data), out);
            out.extend_from_slice(b"\n\n");
        }
    }
}

/// Removes what some servers send beside a piece: the whole message so far, whose end may be a part of a finding.
pub(super) fn without_repeated(chunk: Value<'_>, edits: &mut Edits) {
    for choice in chunk.get("choices").into_iter().flat_map(Value::items) {
        let has_delta = choice.get("delta").is_some_and(|delta| !delta.is_null());
        if let Some(message) = choice.get("message").filter(|message| has_delta && !message.is_null()) {
            edits.replace(message.range(), b"null".to_vec());
        }
    }
}

/// An event in whose frame texts of it are sent later.
#[derive(Debug, Default)]
pub(super) struct Template {
    head: Vec<u8>,
    data: Vec<u8>,
    edits: Edits,
}

impl Template {
    /// `edits`: changes to the data.
    pub(super) fn new(event: &SseEvent, data: &[u8], edits: &Edits, keeps_name: bool) -> Template {
        let mut head = Vec::new();
        write_head(event, keeps_name, &mut head);
        Template { head, data: data.to_vec(), edits: edits.clone() }
    }

    /// Bytes of the event.
    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    /// Writes the event with texts in the places of its pieces.
    pub(super) fn write(
        &self,
        mut texts: Vec<(Range<usize>, String)>,
        sequence: &mut Sequence,
        out: &mut Vec<u8>,
    ) {
        let Ok(tape) = Tape::parse(&self.data) else { return };
        let root = tape.root(&self.data);
        texts.sort_by_key(|(place, _)| place.start);
        let mut edits = self.edits.clone();
        sequence.pass_later(root, &mut edits);
        out.extend_from_slice(&self.head);
        write_line(&frame(root, &edits, &texts), out);
        out.extend_from_slice(b"\n\n");
    }
}

/// The numbers of the events that were sent, where events have them: they go on increasing where texts are sent in events of their own.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    last: Option<u64>,
    /// The last one that was given to another event than the provider's.
    given: Option<u64>,
}

impl Sequence {
    /// An event is sent: with its own number, or with the next one if that was given to another.
    pub(super) fn pass(&mut self, event: Value<'_>, edits: &mut Edits) {
        let Some((number, place)) = sequence_number(event) else { return };
        self.last = Some(number);
        if self.given.is_some_and(|given| number <= given) {
            self.give_next(place, edits);
        }
    }

    /// A text of an earlier event is sent in its frame, with the next number.
    fn pass_later(&mut self, event: Value<'_>, edits: &mut Edits) {
        let Some((number, place)) = sequence_number(event) else { return };
        self.last.get_or_insert(number.saturating_sub(1));
        edits.take(&place);
        self.give_next(place, edits);
    }

    fn give_next(&mut self, place: Range<usize>, edits: &mut Edits) {
        let next = self.last.max(self.given).map_or(0, |last| last.saturating_add(1));
        (self.last, self.given) = (Some(next), Some(next));
        edits.replace(place, next.to_string().into_bytes());
    }
}

fn write_head(event: &SseEvent, keeps_name: bool, out: &mut Vec<u8>) {
    if !event.name().is_empty() && keeps_name {
        out.extend_from_slice(&[b"event: ", event.name(), b"\n"].concat());
    }
    out.extend_from_slice(b"data: ");
}

/// Writes JSON in one line: a line feed stands between values only.
fn write_line(json: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(json);
    out[start..].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
}

/// Whether all around the data was checked, and the event is written as it came.
fn can_stay(event: &SseEvent, data_at: &Range<usize>) -> bool {
    let raw = &event.raw()[..];
    // of several names the last one was checked
    let around = [&raw[..data_at.start], &raw[data_at.end..]];
    let lines = around.iter().flat_map(|part| part.split(|byte| matches!(byte, b'\n' | b'\r')));
    let names = lines.filter(|line| line.starts_with(b"event")).count();
    names <= 1 && event.has_only_data() && is_whole(raw)
}

fn is_whole(event: &[u8]) -> bool {
    [&b"\n\n"[..], b"\r\n\r\n", b"\n\r\n", b"\r\r"].into_iter().any(|end| event.ends_with(end))
}
