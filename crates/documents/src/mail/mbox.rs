//! The messages of a mailbox.

use std::borrow::Cow;

use memchr::memmem;

/// The line that begins a message.
const FROM: &[u8] = b"From ";

/// The messages of a mailbox, without the lines that begin them.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = if bytes.starts_with(FROM) { Some(after_line(bytes)) } else { None };
    std::iter::from_fn(move || {
        let bytes = rest?;
        let end = next_message(bytes);
        rest = end.map(|end| after_line(&bytes[end..]));
        Some(unquoted(&bytes[..end.unwrap_or(bytes.len())]))
    })
}

fn after_line(bytes: &[u8]) -> &[u8] {
    memchr::memchr(b'\n', bytes).map_or(&[], |end| &bytes[end + 1..])
}

/// Where the next message begins: a line `From …` behind a blank line.
fn next_message(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(FROM) {
        return Some(0);
    }
    let is_behind_blank_line = |at: usize| {
        bytes[..at].ends_with(b"\n\n")
            || bytes[..at].ends_with(b"\n\r\n")
            || matches!(&bytes[..at], b"\n" | b"\r\n")
    };
    memmem::find_iter(bytes, b"\nFrom ").map(|at| at + 1).find(|at| is_behind_blank_line(*at))
}

/// A message whose lines `>From …` are `From …` again.
fn unquoted(message: &[u8]) -> Cow<'_, [u8]> {
    if memmem::find(message, b">From ").is_none() {
        return Cow::Borrowed(message);
    }
    let mut plain = Vec::with_capacity(message.len());
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        let quotes = line.iter().take_while(|byte| **byte == b'>').count();
        let is_quoted = quotes > 0 && line[quotes..].starts_with(FROM);
        plain.extend_from_slice(&line[usize::from(is_quoted)..]);
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mailbox: &str, expected: &[&str]) {
        let found: Vec<_> = messages(mailbox.as_bytes())
            .map(|message| String::from_utf8(message.into_owned()).unwrap())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_message_begins_behind_a_blank_line() {
        check(
            "From a\nX: 1\n\nFrom here on\n\nFrom b\r\nY: 2\r\n\r\n>From c\r\n>>From d\r\n",
            &["X: 1\n\n", "\n", "Y: 2\r\n\r\nFrom c\r\n>From d\r\n"],
        );
        check("From a\nX: 1\n\nbody\nFrom here\n\nFrom b\n", &["X: 1\n\nbody\nFrom here\n\n", ""]);
        check("no mailbox", &[]);
    }
}
