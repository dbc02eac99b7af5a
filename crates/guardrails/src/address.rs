//! E-mail addresses, credentials in URLs, IPv6 addresses: what has a rare character in its middle.

use std::net::Ipv6Addr;
use std::ops::Range;

use crate::text::{Text, is_two_byte_letter};

/// Longest part of an e-mail address before its `@` (RFC 5321, 4.5.3.1.1).
pub(crate) const LOCAL_BYTES_MAX: usize = 64;
/// Longest domain name (RFC 1035).
const DOMAIN_BYTES_MAX: usize = 253;
/// Longest label of a domain name.
const LABEL_BYTES_MAX: usize = 63;
/// Longest user name and password in a URL.
const USERINFO_BYTES_MAX: usize = 256;
/// Fewest groups of an address whose groups are all as short as the numbers of a slice.
const SLICE_GROUPS_MIN: usize = 3;
/// Longest number of a slice, in digits.
const SLICE_DIGITS_MAX: usize = 3;
/// Longest IPv6 address in text.
const IPV6_BYTES_MAX: usize = 45;

/// Whether a byte may stand before the `@`. The RFC allows more signs, which are rare in addresses and common around them.
pub(crate) fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-' | b'\'')
}

/// The first byte of what could be the local part of an address whose `@` is at `end`.
pub(crate) fn local_start(text: &Text, end: usize) -> usize {
    let mut start = end;
    loop {
        let bytes = if is_local(text.before(start)) {
            1
        } else if start >= 2 && text.before(start) >= 0x80 && is_two_byte_letter(text.bytes[start - 2]) {
            2
        } else {
            return start;
        };
        if end - (start - bytes) > LOCAL_BYTES_MAX {
            return start;
        }
        start -= bytes;
    }
}

/// The address whose `@` is at `at`: the local part, and a domain name of at least two labels whose last has letters only.
pub(crate) fn email(text: &Text, at: usize) -> Option<Range<usize>> {
    let mut start = local_start(text, at);
    while start < at && !text.is_joined_after(start) && text.bytes[start] != b'_' {
        start += 1;
    }
    if start == at || matches!(text.before(at), b'.' | b'\'') {
        return None;
    }
    domain_end(text, at + 1).map(|end| start..end)
}

/// Where a domain name from `start` on ends.
fn domain_end(text: &Text, start: usize) -> Option<usize> {
    let (mut end, mut label) = (None, start);
    for count in 0.. {
        let label_end = label_end(text, label);
        let mut trimmed = label_end;
        while trimmed > label && text.bytes[trimmed - 1] == b'-' {
            trimmed -= 1;
        }
        if trimmed == label || label_end - label > LABEL_BYTES_MAX || text.bytes[label] == b'-' {
            break;
        }
        if count > 0 && is_top_level(&text.bytes[label..trimmed]) {
            end = Some(trimmed);
        }
        if trimmed < label_end || text.at(label_end) != b'.' || label_end - start > DOMAIN_BYTES_MAX {
            break;
        }
        label = label_end + 1;
    }
    end
}

/// The end of the label of a domain name: letters, of which those of two bytes may be in an internationalised name, digits, hyphens.
fn label_end(text: &Text, start: usize) -> usize {
    let mut end = start;
    while end - start <= LABEL_BYTES_MAX {
        let byte = text.at(end);
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            end += 1;
        } else if is_two_byte_letter(byte) {
            end += 2;
        } else {
            break;
        }
    }
    end
}

fn is_top_level(label: &[u8]) -> bool {
    label.len() >= 2
        && (label.iter().all(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80)
            || label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"xn--")))
}

/// User name and password of a URL whose `:` before `//` is at `colon`. The password must not be empty; the user name may be.
pub(crate) fn credentials(text: &Text, colon: usize) -> Option<Range<usize>> {
    if !text.before(colon).is_ascii_alphanumeric() || !text.has(colon + 1, b"//") {
        return None;
    }
    let start = colon + 3;
    let is_authority =
        |byte: u8| !matches!(byte, 0..=b' ' | b'/' | b'?' | b'#' | b'"' | b'<' | b'>' | b'\\' | 0x7F);
    let end = text.run(start, USERINFO_BYTES_MAX, is_authority);
    // A password may contain `@` by mistake: the last one ends it.
    let at = start + text.bytes[start..end].iter().rposition(|byte| *byte == b'@')?;
    let separator = start + text.bytes[start..at].iter().position(|byte| *byte == b':')?;
    (separator + 1 < at).then_some(start..at)
}

/// The start of the hexadecimal digits before a colon.
pub(crate) fn group_start(text: &Text, colon: usize) -> usize {
    let mut start = colon;
    while colon - start < 4 && text.before(start).is_ascii_hexdigit() {
        start -= 1;
    }
    start
}

/// Whether an address may be a slice of a list, such as `1::2`.
fn is_slice(address: &str) -> bool {
    let mut groups = address.split(':').filter(|group| !group.is_empty());
    let is_short = |group: &str| group.len() <= SLICE_DIGITS_MAX && group.bytes().all(|b| b.is_ascii_digit());
    groups.clone().count() < SLICE_GROUPS_MIN && groups.all(is_short)
}

/// The IPv6 address to which the colon at `colon` belongs.
pub(crate) fn ipv6(text: &Text, colon: usize) -> Option<Range<usize>> {
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
    let start = group_start(text, colon);
    if text.is_joined_before(start) || text.before(start) == b':' || !is_part(text.at(colon + 1)) {
        return None;
    }
    let mut end = text.run(start, IPV6_BYTES_MAX + 1, |byte| is_part(byte) || byte == b'.');
    while end > start
        && (text.bytes[end - 1] == b'.' || (text.bytes[end - 1] == b':' && text.before(end - 1) != b':'))
    {
        end -= 1;
    }
    if end - start > IPV6_BYTES_MAX || text.is_joined_after(end) {
        return None;
    }
    let address = &text.str[start..end];
    // `a::b` is a path in several programming languages: an address so short has a digit.
    let is_plausible = address.bytes().any(|byte| byte.is_ascii_digit()) || address.matches(':').count() >= 4;
    let has_port = text.before(start) == b'[' && text.has(end, b"]:") && text.at(end + 2).is_ascii_digit();
    (is_plausible && (has_port || !is_slice(address)) && address.parse::<Ipv6Addr>().is_ok())
        .then_some(start..end)
}
