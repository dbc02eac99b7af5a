//! Whether a place in a text is within the address of a link or an image, as Markdown, HTML and clients that make addresses clickable read it. A client
//! may open such an address without being asked, so that the server of the address receives what stands in it.

/// Longest HTML tag or address in angle brackets, in bytes. One that is longer is taken for text.
const TAG_BYTES_MAX: u32 = 4_096;

/// Schemes whose addresses need no slashes.
const SCHEMES: [&[u8]; 4] = [b"https", b"http", b"ftp", b"wss"];

/// What is known of the text so far. Every byte is looked at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkState {
    is_inside: bool,
    /// Bytes since a tag, or an address in angle brackets, has begun. White space does not end an address within one.
    tag_bytes: Option<u32>,
    /// The last bytes, in lower case.
    last: [u8; 5],
}

impl LinkState {
    /// Whether the next byte belongs to an address.
    pub(crate) fn is_inside(&self) -> bool {
        self.is_inside
    }

    /// Goes on behind a part of the text.
    pub(crate) fn pass(&mut self, part: &str) {
        part.bytes().for_each(|byte| self.pass_byte(byte));
    }

    fn pass_byte(&mut self, byte: u8) {
        let before = self.last[4];
        self.tag_bytes = self.tag_bytes.map(|bytes| bytes + 1).filter(|bytes| *bytes < TAG_BYTES_MAX);
        match byte {
            b'>' => (self.is_inside, self.tag_bytes) = (false, None),
            _ if byte.is_ascii_whitespace() => self.is_inside &= self.tag_bytes.is_some(),
            // browsers take both for a slash
            b'/' | b'\\' if matches!(before, b'/' | b'\\') => self.is_inside = true,
            // an entity may stand for any of these
            b'&' => self.is_inside = true,
            b':' if SCHEMES.iter().any(|scheme| self.last.ends_with(scheme)) => self.is_inside = true,
            _ if before == b'<' && (byte.is_ascii_alphabetic() || byte == b'/') => self.tag_bytes = Some(0),
            _ => {}
        }
        self.last.rotate_left(1);
        self.last[4] = byte.to_ascii_lowercase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_inside(before: &str) -> bool {
        let mut state = LinkState::default();
        state.pass(before);
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
        ] {
            assert!(!is_inside(before), "{before}");
        }
        let long = format!("<a {} https://a.example ", "x".repeat(5_000));
        assert!(!is_inside(&long));
    }
}
