//! A stream of server-sent events that is cut anywhere is read as the whole stream. Input: the lengths of the chunks, then the stream.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weir_translate::{EventTooLarge, SseDecoder};

/// Small, so that events beyond the limit are found too.
const EVENT_BYTES_MAX: usize = 64;

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Result<(), EventTooLarge>) {
    let (mut decoder, mut datas) = (SseDecoder::new(EVENT_BYTES_MAX), Vec::new());
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => datas.extend(event.data().map(<[u8]>::to_vec)),
                Ok(None) => break,
                Err(error) => return (datas, Err(error)),
            }
        }
    }
    (datas, Ok(()))
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
    assert_eq!(decode(chunks.into_iter()), decode(std::iter::once(stream)));
});
