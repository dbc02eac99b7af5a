//! A reply as bytes.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use weir_translate::{ServiceTier, TokenUsage};

use crate::{Kept, REPLY_BYTES_MAX};

/// Version of the layout of [`Head`]; a change of it, or of [`TokenUsage`], needs another one.
const FORMAT: u8 = 1;
/// Replies are compressed in the background. At this level it takes a few milliseconds for the largest one.
const COMPRESSION_LEVEL: i32 = 1;

/// The head before the compressed body.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    usage: [u64; 11],
    tier: &'a str,
    cost_nanos: u64,
    lines: &'a [u8],
    body_bytes: usize,
}

/// A reply, compressed. `None` where it can't be, for want of memory.
pub(crate) fn encode(kept: &Kept) -> Option<Vec<u8>> {
    let tier = kept.usage.tier;
    let head = Head {
        usage: counts(&kept.usage),
        tier: tier.as_ref().map_or("", ServiceTier::name),
        cost_nanos: kept.cost_nanos,
        lines: &lines(&kept.headers),
        body_bytes: kept.body.len(),
    };
    let mut bytes = postcard::to_extend(&head, vec![FORMAT]).ok()?;
    bytes.extend(zstd::bulk::compress(&kept.body, COMPRESSION_LEVEL).ok()?);
    Some(bytes)
}

/// The reply of [`encode`]; `None` for anything else, another version included.
pub(crate) fn decode(bytes: &[u8]) -> Option<Kept> {
    let Some((&FORMAT, rest)) = bytes.split_first() else { return None };
    let (head, body) = postcard::take_from_bytes::<Head<'_>>(rest).ok()?;
    let body_bytes = Some(head.body_bytes).filter(|bytes| *bytes <= REPLY_BYTES_MAX)?;
    let body = zstd::bulk::decompress(body, body_bytes).ok().filter(|body| body.len() == body_bytes)?;
    let tier = ServiceTier::new(head.tier).filter(|tier| !tier.name().is_empty());
    let usage = usage(head.usage, tier);
    Some(Kept { body: Bytes::from(body), headers: headers(head.lines), usage, cost_nanos: head.cost_nanos })
}

fn counts(usage: &TokenUsage) -> [u64; 11] {
    let TokenUsage {
        prompt,
        cached,
        cache_write,
        cache_write_1h,
        prompt_audio,
        prompt_image,
        completion,
        reasoning,
        completion_audio,
        completion_image,
        searches,
        tier: _,
    } = *usage;
    [
        prompt,
        cached,
        cache_write,
        cache_write_1h,
        prompt_audio,
        prompt_image,
        completion,
        reasoning,
        completion_audio,
        completion_image,
        searches,
    ]
}

fn usage(counts: [u64; 11], tier: Option<ServiceTier>) -> TokenUsage {
    let [
        prompt,
        cached,
        cache_write,
        cache_write_1h,
        prompt_audio,
        prompt_image,
        completion,
        reasoning,
        completion_audio,
        completion_image,
        searches,
    ] = counts;
    TokenUsage {
        prompt,
        cached,
        cache_write,
        cache_write_1h,
        prompt_audio,
        prompt_image,
        completion,
        reasoning,
        completion_audio,
        completion_image,
        searches,
        tier,
    }
}

/// Headers as lines.
pub(crate) fn lines(headers: &HeaderMap) -> Vec<u8> {
    let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 2).sum();
    let mut lines = Vec::with_capacity(bytes);
    for (name, value) in headers {
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.push(b':');
        lines.extend_from_slice(value.as_bytes());
        lines.push(b'\n'); // not in any value
    }
    lines
}

/// The headers of [`lines`].
pub(crate) fn headers(lines: &[u8]) -> HeaderMap {
    let header = |line: &[u8]| {
        let colon = memchr::memchr(b':', line)?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        Some((name, HeaderValue::from_bytes(&line[colon + 1..]).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in lines.split(|byte| *byte == b'\n').filter_map(header) {
        headers.append(name, value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let headers = HeaderMap::from_iter([
            (HeaderName::from_static("content-type"), HeaderValue::from_static("a/b; c: d")),
            (HeaderName::from_static("x-a"), HeaderValue::from_bytes(b"\xe9").unwrap()),
        ]);
        let usage = usage(std::array::from_fn(|place| place as u64 + 1), ServiceTier::new("flex"));
        Kept { body: Bytes::from("event ".repeat(1_000)), headers, usage, cost_nanos: 7 }
    }

    #[test]
    fn a_reply_is_read_as_it_was_written_and_smaller() {
        let bytes = encode(&kept()).unwrap();
        assert!(bytes.len() < 200, "{}", bytes.len());
        assert_eq!(decode(&bytes), Some(kept()));
        let plain = Kept { usage: TokenUsage::default(), body: Bytes::new(), ..kept() };
        assert_eq!(decode(&encode(&plain).unwrap()), Some(plain));
    }

    #[test]
    fn another_version_and_other_bytes_are_no_reply() {
        let bytes = encode(&kept()).unwrap();
        let mut newer = bytes.clone();
        newer[0] += 1;
        for other in [&newer[..], &[], &[FORMAT], b"text"] {
            assert_eq!(decode(other), None, "{other:?}");
        }
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "{end}");
        }
        let too_large = Kept { body: vec![0; REPLY_BYTES_MAX + 1].into(), ..kept() };
        assert_eq!(decode(&encode(&too_large).unwrap()), None);
    }
}
