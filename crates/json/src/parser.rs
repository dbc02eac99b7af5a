//! Reads a text into its values, in one pass.

use super::{DEPTH_MAX, JsonError, Kind, Node, VALUES_MAX};

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    /// The arrays and objects that are not closed.
    open: Vec<usize>,
    /// Whether no string so far has a byte above 0x7F.
    is_ascii: bool,
}

/// The values of a text, which is checked to be UTF-8.
pub(super) fn nodes(text: &[u8]) -> Result<Vec<Node>, JsonError> {
    let mut parser = Parser { text, at: 0, nodes: Vec::with_capacity(32), open: Vec::new(), is_ascii: true };
    let parsed = parser.document();
    // texts in English are read without a pass for UTF-8 alone
    if !parser.is_ascii || parsed.is_err() {
        std::str::from_utf8(text).map_err(|error| JsonError::Utf8(error.valid_up_to()))?;
    }
    parsed.map(|()| parser.nodes)
}

impl Parser<'_> {
    fn document(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        loop {
            if self.begin_value()? {
                continue;
            }
            if self.end_values()? {
                return match self.at == self.text.len() {
                    true => Ok(()),
                    false => self.expected("the end"),
                };
            }
        }
    }

    /// Reads a value, or the beginning of an array or object. Whether another value follows in it.
    fn begin_value(&mut self) -> Result<bool, JsonError> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'"') => self.string()?,
            Some(b'{') => return self.open_container(Kind::Object, b'}'),
            Some(b'[') => return self.open_container(Kind::Array, b']'),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal(b"true", Kind::True)?,
            Some(b'f') => self.literal(b"false", Kind::False)?,
            Some(b'n') => self.literal(b"null", Kind::Null)?,
            _ => return self.expected("a value"),
        };
        self.push(kind, start)?;
        Ok(false)
    }

    fn open_container(&mut self, kind: Kind, end: u8) -> Result<bool, JsonError> {
        if self.open.len() == DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        self.open.push(self.nodes.len());
        self.at += 1;
        self.push(kind, self.at - 1)?;
        self.skip_space();
        if self.peek() == Some(end) {
            return Ok(false); // closed by `end_values`
        }
        if kind == Kind::Object {
            self.key()?;
        }
        Ok(true)
    }

    /// After a value: closes what ends here. Whether the document ends, or another value follows.
    fn end_values(&mut self) -> Result<bool, JsonError> {
        loop {
            self.skip_space();
            let Some(&container) = self.open.last() else { return Ok(true) };
            let is_object = self.nodes[container].kind == Kind::Object;
            let is_empty = container + 1 == self.nodes.len();
            match self.peek() {
                Some(b',') if !is_empty => {
                    self.at += 1;
                    self.skip_space();
                    if is_object {
                        self.key()?;
                    }
                    return Ok(false);
                }
                Some(b'}') if is_object => self.close(container),
                Some(b']') if !is_object => self.close(container),
                _ => return self.expected(if is_object { "`,` or `}`" } else { "`,` or `]`" }),
            }
        }
    }

    fn close(&mut self, container: usize) {
        self.at += 1;
        self.open.pop();
        let after = self.nodes.len() as u32;
        let node = &mut self.nodes[container];
        (node.end, node.after) = (self.at as u32, after);
    }

    fn key(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return self.expected("a key in quotes");
        }
        let kind = self.string()?;
        self.push(kind, start)?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return self.expected("`:`");
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    fn push(&mut self, kind: Kind, start: usize) -> Result<(), JsonError> {
        if self.nodes.len() == VALUES_MAX {
            return Err(JsonError::TooManyValues);
        }
        let after = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { kind, start: start as u32, end: self.at as u32, after });
        Ok(())
    }

    fn string(&mut self) -> Result<Kind, JsonError> {
        self.at += 1;
        let mut kind = Kind::Plain;
        loop {
            let rest = &self.text[self.at..];
            let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            let (has_control, is_ascii) = controls(&rest[..plain]);
            self.is_ascii &= is_ascii;
            if has_control {
                let control = rest.iter().position(|&byte| byte < b' ').unwrap_or_default();
                self.at += control;
                return self.expected("an escape for the control character");
            }
            self.at += plain + 1;
            match rest.get(plain) {
                Some(b'"') => return Ok(kind),
                Some(_) => self.escape()?,
                None => {
                    self.at = self.text.len();
                    return self.expected("`\"`");
                }
            }
            kind = Kind::Escaped;
        }
    }

    /// The bytes after a backslash.
    fn escape(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = self.text.get(self.at + 1..self.at + 5);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return self.expected("`u` with four hexadecimal digits");
                }
                self.at += 5;
            }
            _ => return self.expected("an escape of JSON"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Kind, JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { self.expected("a digit") } else { Ok(()) }
    }

    fn literal(&mut self, word: &'static [u8], kind: Kind) -> Result<Kind, JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return self.expected("a value");
        }
        self.at += word.len();
        Ok(kind)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, JsonError> {
        Err(JsonError::Syntax { offset: self.at, expected })
    }
}

/// Whether a byte is a control character, and whether all are ASCII. Words of eight bytes are tested, four in a turn: of a loop over single bytes
/// it depends on the profile of the build whether the compiler makes it fast, and a slow one takes longer than all else of a long request.
#[inline(never)]
pub(super) fn controls(bytes: &[u8]) -> (bool, bool) {
    let repeat = |byte| u64::from_ne_bytes([byte; 8]);
    let (mut below, mut above) = ([0; 4], [0; 4]);
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for ((below, above), word) in below.iter_mut().zip(&mut above).zip(block.as_chunks().0) {
            // a byte below 0x20 has its highest bit set by the subtraction; other bytes have it before, or not at all without a borrow from such a byte
            let word = u64::from_ne_bytes(*word);
            *below |= word.wrapping_sub(repeat(b' ')) & !word;
            *above |= word;
        }
    }
    let any = |words: [u64; 4]| words.into_iter().fold(0, |all, one| all | one) & repeat(0x80) != 0;
    (any(below) || rest.iter().any(|&byte| byte < b' '), !any(above) && rest.is_ascii())
}
