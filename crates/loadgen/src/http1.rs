//! An HTTP/1.1 response parser without IO (RFC 9112, sections 4 to 7): heads by `httparse`; bodies by length, by chunks
//! or up to the end of the connection. Input may be cut anywhere.

use memchr::memchr;

/// Most headers in one response.
const HEADERS_MAX: usize = 64;
/// Longest chunk-size line (with extensions) or trailer line.
const LINE_BYTES_MAX: usize = 4096;

/// Why a message is not valid HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A parsed response head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Whether the head allows another request on this connection.
    pub(crate) keep_alive: bool,
    pub(crate) body: Body,
    /// Bytes of the head, including its empty line.
    pub(crate) len: usize,
}

/// How the body is framed, and how much of it is still to be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// This many more bytes.
    Length(u64),
    /// Chunks, and the position within them.
    Chunked(Chunk),
    /// All bytes until the server closes the connection.
    UntilClose,
}

/// Position within a chunked body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    SizeLine,
    Data(u64),
    DataEnd,
    Trailer,
    Done,
}

/// Parses the head of a response. `None` when `bytes` is only a part of it.
///
/// `is_head`: the request was `HEAD`, whose response has no body.
pub(crate) fn parse_head(bytes: &[u8], is_head: bool) -> Result<Option<Head>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let len = match response.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("it has more than 64 headers")),
        Err(_) => return Err(Malformed("the head isn't HTTP/1.1")),
    };
    let status = response.code.unwrap_or(0);
    let framing = Framing::read(response.headers)?;
    let body = framing.body(status, is_head);
    let keep_alive =
        !framing.close && body != Body::UntilClose && (response.version == Some(1) || framing.keep_alive);
    Ok(Some(Head { status, keep_alive, body, len }))
}

/// The headers that frame the body and the connection.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Framing {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Framing, Malformed> {
        let mut framing = Framing::default();
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                framing.add_length(header.value)?;
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                framing.add_encoding(header.value)?;
            } else if header.name.eq_ignore_ascii_case("connection") {
                framing.close |= has_token(header.value, b"close");
                framing.keep_alive |= has_token(header.value, b"keep-alive");
            }
        }
        if framing.chunked && framing.length.is_some() {
            return Err(Malformed("it has both content-length and transfer-encoding"));
        }
        Ok(framing)
    }

    fn add_length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        let digits = value.trim_ascii();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Malformed("content-length isn't a number"));
        }
        let text = std::str::from_utf8(digits).unwrap_or_default();
        let length = text.parse().map_err(|_| Malformed("content-length is too large"))?;
        if self.length.is_some_and(|l| l != length) {
            return Err(Malformed("the content-lengths differ"));
        }
        self.length = Some(length);
        Ok(())
    }

    fn add_encoding(&mut self, value: &[u8]) -> Result<(), Malformed> {
        if self.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Err(Malformed("its transfer-encoding isn't chunked"));
        }
        self.chunked = true;
        Ok(())
    }

    fn body(&self, status: u16, is_head: bool) -> Body {
        if is_head || matches!(status, 100..=199 | 204 | 304) {
            return Body::Length(0);
        }
        match (self.chunked, self.length) {
            (true, _) => Body::Chunked(Chunk::SizeLine),
            (false, Some(length)) => Body::Length(length),
            (false, None) => Body::UntilClose,
        }
    }
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|b| *b == b',').any(|t| t.trim_ascii().eq_ignore_ascii_case(token))
}

impl Body {
    /// Whether the whole body was decoded; never true of a body that ends with the connection.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Body::Length(0) | Body::Chunked(Chunk::Done))
    }

    /// Decodes a prefix of `bytes`, passes its content to `on_content` and returns the length of the prefix.
    /// The caller passes the rest again, with more bytes behind it.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        mut on_content: impl FnMut(&[u8]),
    ) -> Result<usize, Malformed> {
        match self {
            Body::Length(left) => Ok(take_content(left, bytes, &mut on_content)),
            Body::UntilClose => {
                on_content(bytes);
                Ok(bytes.len())
            }
            Body::Chunked(chunk) => {
                let mut taken = 0;
                while let Some(step) = chunk.step(&bytes[taken..], &mut on_content)? {
                    taken += step;
                }
                Ok(taken)
            }
        }
    }
}

impl Chunk {
    /// Decodes one element: its number of bytes, or `None` when more input is needed or the body is complete.
    fn step(&mut self, bytes: &[u8], on_content: &mut impl FnMut(&[u8])) -> Result<Option<usize>, Malformed> {
        match self {
            Chunk::SizeLine => self.size_line(bytes),
            Chunk::Data(_) if bytes.is_empty() => Ok(None),
            Chunk::Data(left) => {
                let taken = take_content(left, bytes, on_content);
                if *left == 0 {
                    *self = Chunk::DataEnd;
                }
                Ok(Some(taken))
            }
            Chunk::DataEnd if bytes.len() < 2 => Ok(None),
            Chunk::DataEnd if bytes.starts_with(b"\r\n") => {
                *self = Chunk::SizeLine;
                Ok(Some(2))
            }
            Chunk::DataEnd => Err(Malformed("a chunk is longer than its size")),
            Chunk::Trailer => self.trailer(bytes),
            Chunk::Done => Ok(None),
        }
    }

    fn size_line(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete((taken, size))) => {
                *self = if size == 0 { Chunk::Trailer } else { Chunk::Data(size) };
                Ok(Some(taken))
            }
            Ok(httparse::Status::Partial) if bytes.len() < LINE_BYTES_MAX => Ok(None),
            Ok(httparse::Status::Partial) => Err(Malformed("a chunk-size line is longer than 4096 bytes")),
            Err(_) => Err(Malformed("a chunk size isn't hexadecimal")),
        }
    }

    fn trailer(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        match memchr(b'\n', bytes) {
            Some(end) => {
                if bytes[..end].trim_ascii_end().is_empty() {
                    *self = Chunk::Done;
                }
                Ok(Some(end + 1))
            }
            None if bytes.len() < LINE_BYTES_MAX => Ok(None),
            None => Err(Malformed("a trailer line is longer than 4096 bytes")),
        }
    }
}

fn take_content(left: &mut u64, bytes: &[u8], on_content: &mut impl FnMut(&[u8])) -> usize {
    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left -= taken as u64;
    on_content(&bytes[..taken]);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<Head>, Malformed> {
        parse_head(text.replace('\n', "\r\n").as_bytes(), false)
    }

    fn body_of(text: &str) -> (Body, bool) {
        let head = head(text).unwrap().unwrap();
        (head.body, head.keep_alive)
    }

    /// Decodes `wire` in pieces of `step` bytes: the content, whether the body is complete, the number of bytes left over.
    fn decode(wire: &[u8], step: usize) -> Result<(Vec<u8>, bool, usize), Malformed> {
        let (mut body, mut content, mut pending) = (Body::Chunked(Chunk::SizeLine), Vec::new(), Vec::new());
        for piece in wire.chunks(step) {
            pending.extend_from_slice(piece);
            let taken = body.decode(&pending, |c| content.extend_from_slice(c))?;
            pending.drain(..taken);
        }
        Ok((content, body.is_complete(), pending.len()))
    }

    #[test]
    fn framing_follows_length_chunks_status_and_version() {
        let chunked = || Body::Chunked(Chunk::SizeLine);
        for (text, expected) in [
            ("HTTP/1.1 200 OK\nContent-Length: 12\n\n", (Body::Length(12), true)),
            ("HTTP/1.1 200 OK\ncontent-length: 5\nContent-Length: 5\n\n", (Body::Length(5), true)),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n\n", (chunked(), true)),
            ("HTTP/1.1 200 OK\nConnection: x, Close\nContent-Length: 0\n\n", (Body::Length(0), false)),
            ("HTTP/1.1 200 OK\n\n", (Body::UntilClose, false)),
            ("HTTP/1.1 204 No Content\n\n", (Body::Length(0), true)),
            ("HTTP/1.0 200 OK\nContent-Length: 1\n\n", (Body::Length(1), false)),
            ("HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 1\n\n", (Body::Length(1), true)),
        ] {
            assert_eq!(body_of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_partial_head_is_not_parsed() {
        let complete = b"HTTP/1.1 422 Nope\r\ncontent-length: 3\r\n\r\n";
        for cut in 0..complete.len() {
            assert_eq!(parse_head(&complete[..cut], false), Ok(None), "{cut}");
        }
        let parsed = parse_head(complete, false).unwrap().unwrap();
        assert_eq!((parsed.status, parsed.len), (422, complete.len()));
        assert_eq!(parse_head(complete, true).unwrap().unwrap().body, Body::Length(0));
    }

    #[test]
    fn ambiguous_framing_is_malformed() {
        for text in [
            "HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 1\nTransfer-Encoding: chunked\n\n",
            "HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked\n\n",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n",
            "HTTP/1.1 200 OK\nContent-Length: +1\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 99999999999999999999\n\n",
            "SMTP 220\n\n",
        ] {
            assert!(head(text).is_err(), "{text}");
        }
    }

    #[test]
    fn chunks_are_decoded_from_pieces_of_any_size() {
        let wire = b"5;ext=1\r\nhello\r\n00A\r\n, chunked!\r\n0\r\nx-sum: 1\r\n\r\n";
        for step in 1..=wire.len() {
            assert_eq!(decode(wire, step), Ok((b"hello, chunked!".to_vec(), true, 0)), "{step}");
        }
    }

    #[test]
    fn a_truncated_chunked_body_is_not_complete() {
        let wire = b"5\r\nhello\r\n0\r\n\r\n";
        for cut in 0..wire.len() {
            assert!(!decode(&wire[..cut], 4).unwrap().1, "{cut}");
        }
    }

    #[test]
    fn bytes_after_the_last_chunk_are_left_over() {
        assert_eq!(decode(b"1\r\na\r\n0\r\n\r\nHTTP", 99), Ok((b"a".to_vec(), true, 4)));
    }

    #[test]
    fn invalid_chunks_are_malformed() {
        assert!(decode(b"xyz\r\n", 99).is_err());
        assert!(decode(b"2\r\nabc\r\n", 99).is_err());
        assert!(decode(&[b'x'; 5000], 99).is_err());
        let long_trailer = [b"0\r\n".as_slice(), &[b'x'; 5000]].concat();
        assert_eq!(decode(&long_trailer, 99), Err(Malformed("a trailer line is longer than 4096 bytes")));
    }
}
