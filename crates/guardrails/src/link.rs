//! Whether a place in a text is within the address of a link or an image, as Markdown, HTML and clients that make addresses clickable read it. A client
//! may open such an address without being asked, so that the server of the address receives its content.

/// Schemes whose addresses need no slashes.
const SCHEMES: [&[u8]; 4] = [b"https", b"http", b"ftp", b"wss"];

/// The state after the text so far. Every byte is looked at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkState {
    is_inside: bool,
    /// Whether white space does not end the address, because it stands between signs.
    enclosed: Option<Enclosed>,
    /// Whether a tag, or an address in angle brackets, has begun. White space does not end an address within one.
    is_tag: bool,
    /// The quote of an attribute's value in it.
    quote: Option<u8>,
    /// Whether the next quote begins such a value.
    is_value: bool,
    /// The opening sign before the word, if it ends by a sign.
    opened: Option<Enclosed>,
    /// Whether nothing but blanks stood behind that.
    is_blank: bool,
    /// The last bytes, in lower case.
    last: [u8; 5],
}

/// A pair of signs around an address.
#[derive(Debug, Clone, Copy)]
struct Enclosed {
    open: u8,
    close: u8,
    /// How many pairs have begun within it.
    depth: u32,
}

impl LinkState {
    /// Whether the next byte belongs to an address.
    pub(crate) fn is_inside(&self) -> bool {
        self.is_inside
    }

    /// Goes on behind a byte of the text.
    pub(crate) fn pass_byte(&mut self, byte: u8) {
        let before = self.last[4];
        if self.ends_tag(byte) {
            (self.is_inside, self.is_tag) = (false, false);
        }
        if byte.is_ascii_whitespace() {
            self.is_inside &= self.is_tag || self.enclosed.is_some();
        }
        self.pass_enclosed(byte);
        let begins = match byte {
            // browsers take both for a slash
            b'/' | b'\\' => matches!(before, b'/' | b'\\'),
            b':' => SCHEMES.iter().any(|scheme| self.last.ends_with(scheme)),
            b'.' => self.last.ends_with(b"www") && !self.last[1].is_ascii_alphanumeric(),
            _ => false,
        };
        if begins && !self.is_inside {
            (self.is_inside, self.enclosed) = (true, self.opened);
        }
        // an entity may stand for any of these
        self.is_inside |= byte == b'&';
        if before == b'<' && (byte.is_ascii_alphabetic() || byte == b'/') {
            (self.is_tag, self.quote) = (true, None);
        }
        self.open(byte, before);
        self.last.rotate_left(1);
        self.last[4] = byte.to_ascii_lowercase();
    }

    /// Whether a tag ends by a byte: a `>` that is not in the value of an attribute.
    fn ends_tag(&mut self, byte: u8) -> bool {
        match (self.quote, byte) {
            (Some(quote), _) if self.is_tag => {
                self.quote = (byte != quote).then_some(quote);
                return false;
            }
            (_, b'"' | b'\'') if self.is_tag && self.is_value => self.quote = Some(byte),
            _ => {}
        }
        self.is_value = byte == b'=' || self.is_value && byte.is_ascii_whitespace();
        byte == b'>' && (self.is_tag || self.enclosed.is_none())
    }

    fn pass_enclosed(&mut self, byte: u8) {
        let Some(enclosed) = &mut self.enclosed else { return };
        if byte == enclosed.close {
            match enclosed.depth.checked_sub(1) {
                Some(depth) => enclosed.depth = depth,
                // the address may go on to the next blank
                None => self.enclosed = None,
            }
        } else if byte == enclosed.open {
            enclosed.depth += 1;
        }
        if !self.is_inside {
            self.enclosed = None;
        }
    }

    /// Takes note of a sign that an address may begin behind.
    fn open(&mut self, byte: u8, before: u8) {
        let begins = !(before.is_ascii_alphanumeric() || matches!(before, b'.' | b',' | b'!' | b'?' | b')'));
        let close = match byte {
            b'(' => Some(b')'),
            b'{' => Some(b'}'),
            b'"' | b'\'' | b'`' if begins => Some(byte),
            _ => None,
        };
        if let Some(close) = close {
            self.opened = Some(Enclosed { open: byte, close, depth: 0 });
            self.is_blank = true;
        } else if !byte.is_ascii_whitespace() {
            self.is_blank = false;
        } else if !self.is_blank {
            self.opened = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_inside(before: &str) -> bool {
        let mut state = LinkState::default();
        before.bytes().for_each(|byte| state.pass_byte(byte));
        state.is_inside()
    }

    #[test]
    fn addresses_are_seen_however_they_are_written() {
        for before in [
            "see ![x](https://a.example/?q=",
            "![x](//a.example/",
            "![x](/\\a.example/",
            "[1]: HTTPS:a.example/",
            "![x](https:&#47;&#47;a.example/",
            "![x](<https://a.example/? ",
            "<img src = \"https://a.example/?\n",
            "{\"a\":\"https:\\/\\/a.example/",
            "see www.a.example/?q=",
            "<style>a{background:url( \"https://a.example/? ",
            "<style>a{background:url( ' https://a.example/? ",
            "<img alt=\">\" src=\"https://a.example/? ",
            "<img src=' https://a.example/?a>b ",
            "\\href{https://a.example/ ",
            "![x](https://a.example/?q=(a) ",
            "![x](https://a.example/?q=(a)b)",
        ] {
            assert!(is_inside(before), "{before}");
        }
    }

    #[test]
    fn text_beside_an_address_is_text() {
        for before in [
            "",
            "Write to ",
            "[write](mailto:",
            "see https://a.example/ or ",
            "see <https://a.example/> or",
            "a < b, https://a.example ",
            "1/2 and ",
            "e-mail:",
            "it's at https://a.example/ or ",
            "\"hi\", https://a.example/ or ",
            "see (https://a.example/) or ",
            "see \"https://a.example/\" or ",
            "(R&D, ask ",
            "awww. ",
        ] {
            assert!(!is_inside(before), "{before}");
        }
        let long = format!("<a {} https://a.example ", "x".repeat(5_000));
        assert!(is_inside(&long) && !is_inside(&format!("{long}> ")));
    }
}
