//! The parts of a message: which are its text, which are attachments.

use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders};
use memchr::memmem;
use weir_text::HtmlPage;

use crate::{Attachment, Failure, Limits};

use super::body::{decode_text, decode_transfer, unwrap_flowed};
use super::{attachment, file_name, split_head};

/// Bytes of an HTML part: a tree of HTML takes many times its size.
const HTML_BYTES_MAX: usize = 16 << 20;

/// The content of a part.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) text: String,
    pub(super) attachments: Vec<Attachment>,
    /// Whether the text comes from a plain part.
    is_plain: bool,
}

/// The walk over the parts of one message.
pub(super) struct Walk<'p, 'l> {
    parser: &'p MessageParser,
    limits: &'l Limits,
    parts: usize,
}

impl<'p, 'l> Walk<'p, 'l> {
    pub(super) fn new(parser: &'p MessageParser, limits: &'l Limits) -> Walk<'p, 'l> {
        Walk { parser, limits, parts: 0 }
    }

    /// The text and attachments of a message.
    pub(super) fn message(mut self, bytes: &[u8]) -> Result<Collected, Failure> {
        self.part(bytes, 0, false)
    }

    /// Reads a part. In a digest, a part without a type is a message.
    fn part(&mut self, bytes: &[u8], depth: usize, in_digest: bool) -> Result<Collected, Failure> {
        self.parts += 1;
        if self.parts > self.limits.mail_parts {
            return Err(Failure::FileLimit(format!("it has more than {} parts", self.limits.mail_parts)));
        }
        if depth > self.limits.mail_depth {
            return Err(Failure::FileLimit(format!(
                "its parts are nested deeper than {}",
                self.limits.mail_depth
            )));
        }
        let (head, body) = split_head(bytes);
        let headers = self.parser.parse_headers(head).unwrap_or_else(no_headers);
        let kind = Kind::of(&headers, in_digest);
        if let (Kind::Multipart(subtype), Some(boundary)) = (&kind, attribute(&headers, "boundary")) {
            return self.multipart(subtype, &boundary, body, depth);
        }
        let transfer = headers.content_transfer_encoding().unwrap_or_default();
        let bytes = decode_transfer(transfer, body);
        let is_attachment = headers
            .content_disposition()
            .is_some_and(|disposition| disposition.ctype().eq_ignore_ascii_case("attachment"))
            || headers.attachment_name().is_some();
        let attach = |extension: &str| Collected {
            attachments: vec![attachment(&headers, bytes.to_vec(), self.parts, extension)],
            ..Collected::default()
        };
        Ok(match kind {
            Kind::Message => Collected {
                attachments: vec![self.attached_message(&headers, &bytes)],
                ..Collected::default()
            },
            Kind::Plain if is_attachment => attach(".txt"),
            Kind::Html if is_attachment => attach(".html"),
            Kind::Plain | Kind::Multipart(_) => {
                let text =
                    decode_text(attribute(&headers, "charset").as_deref(), &bytes).replace("\r\n", "\n");
                let is_flowed =
                    attribute(&headers, "format").is_some_and(|format| format.eq_ignore_ascii_case("flowed"));
                let deletes_space =
                    attribute(&headers, "delsp").is_some_and(|delsp| delsp.eq_ignore_ascii_case("yes"));
                let text = if is_flowed { unwrap_flowed(&text, deletes_space) } else { text };
                Collected { text, is_plain: true, ..Collected::default() }
            }
            Kind::Html if bytes.len() > HTML_BYTES_MAX => {
                return Err(Failure::FileLimit(format!(
                    "its HTML part has more than {HTML_BYTES_MAX} bytes"
                )));
            }
            Kind::Html => {
                let text = decode_text(attribute(&headers, "charset").as_deref(), &bytes);
                Collected { text: HtmlPage::parse(&text).text, ..Collected::default() }
            }
            Kind::Other(_) if is_decoration(&kind, &headers) => Collected::default(),
            Kind::Other(subtype) => attach(&format!(".{}", file_name(&subtype))),
        })
    }

    fn multipart(
        &mut self,
        subtype: &str,
        boundary: &str,
        body: &[u8],
        depth: usize,
    ) -> Result<Collected, Failure> {
        if subtype == "encrypted" {
            return Err(Failure::Encrypted);
        }
        let mut children = Vec::new();
        for part in split_parts(body, boundary.as_bytes()) {
            children.push(self.part(part, depth + 1, subtype == "digest")?);
        }
        let mut all = Collected::default();
        if subtype == "alternative" {
            let has_text = |child: &&Collected| !child.text.trim().is_empty();
            let chosen = children
                .iter()
                .filter(has_text)
                .find(|child| child.is_plain)
                .or_else(|| children.iter().find(has_text));
            if let Some(chosen) = chosen {
                all.text.clone_from(&chosen.text);
                all.is_plain = chosen.is_plain;
            }
        } else {
            let texts: Vec<&str> =
                children.iter().map(|child| child.text.trim()).filter(|text| !text.is_empty()).collect();
            all.text = texts.join("\n\n");
            all.is_plain = children.iter().all(|child| child.is_plain || child.text.is_empty());
        }
        all.attachments = children.into_iter().flat_map(|child| child.attachments).collect();
        Ok(all)
    }

    /// An attached message, named by its subject.
    fn attached_message(&self, headers: &Message<'_>, bytes: &[u8]) -> Attachment {
        let name = file_name(headers.attachment_name().unwrap_or_default());
        let (head, _) = split_head(bytes);
        let inner = self.parser.parse_headers(head);
        let subject = inner
            .as_ref()
            .and_then(|inner| inner.subject())
            .map(file_name)
            .filter(|subject| !subject.is_empty());
        let mut name =
            if name.is_empty() { subject.unwrap_or_else(|| format!("message-{}", self.parts)) } else { name };
        if !std::path::Path::new(&name)
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("eml"))
        {
            name.push_str(".eml");
        }
        Attachment { name, bytes: bytes.to_vec() }
    }
}

/// The header fields of a part that has none. The library takes them from the first part, which must exist.
fn no_headers<'x>() -> Message<'x> {
    Message { parts: vec![MessagePart::default()], ..Message::default() }
}

/// The kind of a part.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Html,
    Message,
    Multipart(String),
    /// Anything else, with the second half of its type.
    Other(String),
}

impl Kind {
    fn of(headers: &Message<'_>, in_digest: bool) -> Kind {
        let Some(content_type) = headers.content_type() else {
            return if in_digest { Kind::Message } else { Kind::Plain };
        };
        let subtype = content_type.subtype().unwrap_or_default().to_ascii_lowercase();
        match (content_type.ctype().to_ascii_lowercase().as_str(), subtype.as_str()) {
            ("text", "html") => Kind::Html,
            ("text", "plain" | "" | "markdown" | "enriched") => Kind::Plain,
            ("message", "rfc822" | "global") => Kind::Message,
            // reports of the post office
            ("message", "delivery-status" | "disposition-notification") => Kind::Plain,
            ("multipart", _) => Kind::Multipart(subtype),
            ("text", "calendar") => Kind::Other("ics".to_owned()),
            _ => Kind::Other(subtype),
        }
    }
}

/// Whether a part is a signature or a picture that belongs to the text.
fn is_decoration(kind: &Kind, headers: &Message<'_>) -> bool {
    let is_inline = headers.content_id().is_some()
        && headers
            .content_type()
            .is_some_and(|content_type| content_type.ctype().eq_ignore_ascii_case("image"));
    is_inline
        || matches!(kind, Kind::Other(subtype) if matches!(subtype.as_str(), "pgp-signature" | "pkcs7-signature" | "x-pkcs7-signature"))
}

/// A parameter of the type of a part.
fn attribute(headers: &Message<'_>, name: &str) -> Option<String> {
    Some(headers.content_type()?.attribute(name)?.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The parts between the lines of a boundary. Without the last line, the last part ends with the text.
fn split_parts<'a>(body: &'a [u8], boundary: &[u8]) -> Vec<&'a [u8]> {
    let line = [b"--", boundary].concat();
    let mut parts = Vec::new();
    let mut start = None;
    for at in memmem::find_iter(body, &line) {
        let after = &body[at + line.len()..];
        let is_last = after.starts_with(b"--");
        let is_whole_line = is_last
            || after.trim_ascii_start().is_empty()
            || matches!(after.first(), Some(b'\r' | b'\n' | b' ' | b'\t'));
        if !(at == 0 || body[at - 1] == b'\n') || !is_whole_line {
            continue;
        }
        if let Some(start) = start {
            // the line end before a boundary belongs to the boundary
            let part: &[u8] = body.get(start..at).unwrap_or_default();
            let part = part.strip_suffix(b"\n").unwrap_or(part);
            parts.push(part.strip_suffix(b"\r").unwrap_or(part));
        }
        start = memchr::memchr(b'\n', after).map(|end| at + line.len() + end + 1);
        if is_last {
            return parts;
        }
    }
    parts.extend(start.and_then(|start| body.get(start..)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::utf8;

    #[track_caller]
    fn check(body: &str, expected: &[&str]) {
        let parts: Vec<_> = split_parts(body.as_bytes(), b"b").into_iter().map(utf8).collect();
        assert_eq!(parts, expected, "{body:?}");
    }

    #[test]
    fn parts_stand_between_lines_of_the_boundary() {
        check(
            "preamble\r\n--b\r\none\r\n--b\t\r\n\r\ntwo\r\n--b--\r\nepilogue\r\n--b\r\n",
            &["one", "\r\ntwo"],
        );
        check("--b\nno end\n--bc\n", &["no end\n--bc\n"]);
        check("no boundary at --b all", &[]);
        check("--b", &[]);
        check("--b\n--b\n--b--", &["", ""]);
    }
}
