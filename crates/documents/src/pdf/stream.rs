//! Decodes streams within a limit of bytes.
//!
//! The library decodes a stream as a whole, so a few bytes can become gigabytes. The largest size that the filters can give is
//! computed first; only where that is over the limit is the real size measured, by decoding without keeping.

use flate2::read::DeflateDecoder;
use hayro_syntax::Filter;
use hayro_syntax::object::dict::keys::{DECODE_PARMS, DP, EARLY_CHANGE};
use hayro_syntax::object::{Dict, Stream};
use std::borrow::Cow;
use std::io::Read;

/// Filters of one stream; real files have up to 3.
const FILTERS_MAX: usize = 8;

/// The reason why a stream has no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamError {
    /// It decodes to more than the limit.
    TooLarge,
    /// Its filters can't read it.
    Broken,
}

/// The decoded data of a stream, at most `max` bytes.
pub(super) fn decode<'a>(stream: &Stream<'a>, max: usize) -> Result<Cow<'a, [u8]>, StreamError> {
    check_size(stream, max)?;
    let data = stream.decoded_data().map_err(|_| StreamError::Broken)?;
    if data.len() > max { Err(StreamError::TooLarge) } else { Ok(data) }
}

/// Refuses a stream that decodes to more than `max` bytes.
pub(super) fn check_size(stream: &Stream<'_>, max: usize) -> Result<(), StreamError> {
    let filters = stream.filters();
    if filters.len() > FILTERS_MAX {
        return Err(StreamError::TooLarge);
    }
    let raw = stream.raw_data();
    let factor =
        filters.iter().fold(1, |factor: usize, &filter| factor.saturating_mul(largest_factor(filter)));
    if raw.len().saturating_mul(factor) <= max {
        return Ok(());
    }
    let mut data = raw;
    for (at, &filter) in filters.iter().enumerate() {
        let is_last = at + 1 == filters.len();
        data = match filter {
            Filter::FlateDecode if is_last => return within(flate_size(&data, max), max),
            Filter::FlateDecode => flate(&data, max)?.into(),
            Filter::LzwDecode if is_last => {
                return within(lzw_size(&data, is_early(stream.dict()), max), max);
            }
            Filter::Ascii85Decode => ascii_85(&data).into(),
            Filter::AsciiHexDecode => data.get(..data.len() / 2).unwrap_or_default().to_vec().into(),
            Filter::RunLengthDecode if is_last => return within(run_length_size(&data), max),
            Filter::Crypt => data,
            Filter::LzwDecode | Filter::RunLengthDecode => return Err(StreamError::TooLarge),
            Filter::CcittFaxDecode | Filter::Jbig2Decode | Filter::DctDecode | Filter::JpxDecode => {
                return Err(StreamError::Broken);
            }
        };
    }
    within(data.len(), max)
}

fn within(size: usize, max: usize) -> Result<(), StreamError> {
    if size > max { Err(StreamError::TooLarge) } else { Ok(()) }
}

/// The most bytes that one byte can become.
fn largest_factor(filter: Filter) -> usize {
    match filter {
        Filter::FlateDecode => 1_032,
        Filter::LzwDecode => 2_560,
        Filter::RunLengthDecode => 64,
        Filter::Ascii85Decode => 4,
        Filter::AsciiHexDecode
        | Filter::Crypt
        | Filter::CcittFaxDecode
        | Filter::Jbig2Decode
        | Filter::DctDecode
        | Filter::JpxDecode => 1,
    }
}

/// The bytes of a Flate stream without its header; as lenient as the library.
fn deflate_body(data: &[u8]) -> &[u8] {
    match data {
        [method, flags, body @ ..]
            if method & 0x0f == 8
                && (u16::from(*method) << 8 | u16::from(*flags)).is_multiple_of(31)
                && flags & 0x20 == 0 =>
        {
            body
        }
        _ => data,
    }
}

fn flate_size(data: &[u8], max: usize) -> usize {
    let mut decoder = DeflateDecoder::new(deflate_body(data));
    let (mut size, mut buffer) = (0, [0; 16 << 10]);
    while size <= max {
        match decoder.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => size += read,
        }
    }
    size
}

fn flate(data: &[u8], max: usize) -> Result<Vec<u8>, StreamError> {
    let mut out = Vec::new();
    // a damaged end leaves the bytes before it
    let _ = DeflateDecoder::new(deflate_body(data)).take(max as u64 + 1).read_to_end(&mut out);
    within(out.len(), max).map(|()| out)
}

fn is_early(dict: &Dict<'_>) -> bool {
    let parameters =
        dict.get::<Dict<'_>>(DECODE_PARMS).or_else(|| dict.get::<Dict<'_>>(DP)).unwrap_or_default();
    parameters.get::<u8>(EARLY_CHANGE) != Some(0)
}

/// The decoded size of LZW data: the same table as a decoder has, of lengths alone.
fn lzw_size(data: &[u8], is_early: bool, max: usize) -> usize {
    const CLEAR: usize = 256;
    const END: usize = 257;
    let (mut lengths, mut last, mut size) = (Vec::<usize>::new(), 0, 0_usize);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for &byte in data {
        bits = bits << 8 | u32::from(byte);
        held += 8;
        let width = match lengths.len() + 258 + usize::from(is_early) {
            ..512 => 9,
            512..1_024 => 10,
            1_024..2_048 => 11,
            _ => 12,
        };
        if held < width {
            continue;
        }
        held -= width;
        let code = (bits >> held) as usize & ((1 << width) - 1);
        let length = match code {
            CLEAR => {
                lengths.clear();
                last = 0;
                continue;
            }
            END => break,
            0..CLEAR => 1,
            _ => lengths.get(code - 258).copied().unwrap_or(last + 1),
        };
        size = size.saturating_add(length);
        if size > max {
            break;
        }
        if last > 0 && lengths.len() < 4_096 - 258 {
            lengths.push(last + 1);
        }
        last = length;
    }
    size
}

fn run_length_size(data: &[u8]) -> usize {
    let (mut at, mut size) = (0, 0);
    while let Some(&length) = data.get(at) {
        match length {
            0..128 => {
                size += usize::from(length) + 1;
                at += usize::from(length) + 2;
            }
            128 => break,
            129.. => {
                size += 257 - usize::from(length);
                at += 2;
            }
        }
    }
    size
}

fn ascii_85(data: &[u8]) -> Vec<u8> {
    let (mut out, mut group, mut count) = (Vec::with_capacity(data.len() / 5 * 4), 0_u32, 0);
    for &byte in data {
        match byte {
            b'z' if count == 0 => out.extend([0; 4]),
            b'!'..=b'u' => {
                group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                count += 1;
                if count == 5 {
                    out.extend(group.to_be_bytes());
                    (group, count) = (0, 0);
                }
            }
            b'~' => break,
            _ => {}
        }
    }
    if count > 1 {
        for _ in count..5 {
            group = group.wrapping_mul(85).wrapping_add(84);
        }
        out.extend(group.to_be_bytes().iter().take(count - 1));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;

    #[test]
    fn sizes_are_those_of_a_decoder() {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&[7; 100_000]).unwrap();
        let data = encoder.finish().unwrap();
        assert_eq!(flate_size(&data, usize::MAX), 100_000);
        assert_eq!(flate(&data, 100_000).unwrap(), [7; 100_000]);
        assert_eq!(flate(&data, 99_999), Err(StreamError::TooLarge));
        // the example of the specification: -----A---B
        assert_eq!(lzw_size(&[0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01], true, usize::MAX), 10);
        assert_eq!(run_length_size(&[1, 5, 6, 0x81, 9, 128, 0]), 130);
        assert_eq!(ascii_85(b"87cURD]i,\"Ebo80~>"), b"Hello World!");
    }
}
