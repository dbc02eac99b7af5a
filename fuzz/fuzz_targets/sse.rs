//! A stream of server-sent events that is cut anywhere is read as the whole stream. Input: the lengths of the chunks, then the stream.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weir_upstream::{EventTooLarge, SseEvent, SseParser};

/// Small, so that events beyond the limit are found too.
const EVENT_BYTES_MAX: usize = 64;

fn parse<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<SseEvent>, Result<(), EventTooLarge>) {
    let (mut parser, mut events) = (SseParser::new(EVENT_BYTES_MAX), Vec::new());
    for chunk in chunks {
        let mut chunk = Bytes::copy_from_slice(chunk);
        loop {
            match parser.next_event(&mut chunk) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
        assert!(chunk.is_empty(), "a chunk is taken as a whole");
    }
    (events, Ok(()))
}

fuzz_target!(|input: (Vec<u8>, &[u8])| {
    let (lengths, stream) = input;
    let mut rest = stream;
    let mut chunks = Vec::with_capacity(lengths.len() + 1);
    for length in lengths {
        let (chunk, after) = rest.split_at(rest.len().min(usize::from(length)));
        chunks.push(chunk);
        rest = after;
    }
    chunks.push(rest);
    assert_eq!(parse(chunks.into_iter()), parse(std::iter::once(stream)));
});
