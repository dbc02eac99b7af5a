//! The events of an XML part, within limits.
//!
//! No DTD is read, and no entity but the five of XML and character references. End tags need not match: producers of office
//! files nest correctly, and a hostile file gains nothing. Names come without their prefix.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use quick_xml::Reader;
use quick_xml::events::{BytesEnd, BytesStart, Event as Raw};

use crate::Failure;
use crate::budget::Budget;

/// Attributes of an element that are looked at.
const ATTRIBUTES_MAX: usize = 64;
/// Bytes in which an XML declaration is looked for.
const DECLARATION_BYTES: usize = 200;

/// An event of an XML part.
pub(crate) enum Event<'a> {
    /// The start of an element.
    Open(Tag<'a>),
    /// The end of an element; an empty element has one too.
    Close(EndTag<'a>),
    /// Text with its references resolved.
    Text(Cow<'a, str>),
}

/// The start of an element.
pub(crate) struct Tag<'a>(BytesStart<'a>);

impl Tag<'_> {
    /// The name without its prefix.
    pub(crate) fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }

    /// The name with its prefix.
    pub(crate) fn full_name(&self) -> &str {
        self.0.name().into_inner()
    }

    /// The first attribute with the name, whatever its prefix.
    pub(crate) fn attr(&self, name: &str) -> Option<Cow<'_, str>> {
        self.find(|key| key.rsplit(':').next() == Some(name))
    }

    /// The attribute with the name as a number.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.attr(name)?.trim().parse().ok()
    }

    /// The attribute `r:id`, whatever the prefix, and not `id`.
    pub(crate) fn relation(&self) -> Option<Cow<'_, str>> {
        self.find(|key| key.ends_with(":id"))
    }

    /// Whether the attribute is absent or says yes: a property of an office file is on where its element stands alone.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.attr(name).is_none_or(|value| !matches!(&*value, "0" | "false" | "off" | "none"))
    }

    /// Whether the attribute is present and says yes.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.attr(name).is_some_and(|value| matches!(&*value, "1" | "true" | "on"))
    }

    fn find(&self, matches: impl Fn(&str) -> bool) -> Option<Cow<'_, str>> {
        let mut attributes = self.0.attributes();
        let attributes = attributes.with_checks(false).take(ATTRIBUTES_MAX).flatten();
        let value = attributes.into_iter().find(|attribute| matches(attribute.key.as_ref()))?.value;
        match value {
            Cow::Borrowed(raw) => quick_xml::escape::unescape(raw).ok(),
            Cow::Owned(raw) => Some(Cow::Owned(quick_xml::escape::unescape(&raw).ok()?.into_owned())),
        }
    }
}

/// The end of an element.
pub(crate) struct EndTag<'a>(BytesEnd<'a>);

impl EndTag<'_> {
    /// The name without its prefix.
    pub(crate) fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }
}

/// Reads the events of an XML part.
pub(crate) struct Xml<'a> {
    reader: Reader<&'a [u8]>,
    budget: &'a Budget<'a>,
    depth: usize,
}

impl<'a> Xml<'a> {
    /// Reads `text`, a part that [`decode`] decoded.
    pub(crate) fn new(text: &'a str, budget: &'a Budget<'a>) -> Xml<'a> {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        config.expand_empty_elements = true;
        Xml { reader, budget, depth: 0 }
    }

    /// The next event, or `None` at the end of the part.
    pub(crate) fn next(&mut self) -> Result<Option<Event<'a>>, Failure> {
        loop {
            let event = self
                .reader
                .read_event()
                .map_err(|error| Failure::DamagedFile(format!("its XML is broken: {error}")))?;
            self.budget.take_event()?;
            match event {
                Raw::Start(tag) | Raw::Empty(tag) => {
                    self.depth += 1;
                    if self.depth > self.budget.limits.xml_depth {
                        let limit = self.budget.limits.xml_depth;
                        return Err(Failure::FileLimit(format!(
                            "its XML is nested deeper than {limit} elements"
                        )));
                    }
                    return Ok(Some(Event::Open(Tag(tag))));
                }
                Raw::End(tag) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(Some(Event::Close(EndTag(tag))));
                }
                Raw::Text(text) => return Ok(Some(Event::Text(text.into_inner()))),
                Raw::CData(text) => return Ok(Some(Event::Text(text.into_inner()))),
                Raw::GeneralRef(reference) => {
                    let text = match reference.resolve_char_ref() {
                        Ok(Some(character)) => Cow::Owned(character.to_string()),
                        Ok(None) | Err(_) => Cow::Borrowed(entity(&reference)),
                    };
                    return Ok(Some(Event::Text(text)));
                }
                Raw::Comment(_) | Raw::Decl(_) | Raw::PI(_) | Raw::DocType(_) => {}
                Raw::Eof => return Ok(None),
            }
        }
    }

    /// The number of elements that are open.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Passes over the rest of the element whose start was the last event.
    pub(crate) fn skip(&mut self) -> Result<(), Failure> {
        let end = self.depth.saturating_sub(1);
        while self.depth > end {
            if self.next()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The text of the element whose start was the last event, up to its end, at most `bytes_max`.
    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<String, Failure> {
        let end = self.depth.saturating_sub(1);
        let mut text = String::new();
        while self.depth > end {
            match self.next()? {
                Some(Event::Text(piece)) if text.len() + piece.len() <= bytes_max => text.push_str(&piece),
                Some(Event::Text(_) | Event::Open(_) | Event::Close(_)) => {}
                None => break,
            }
        }
        Ok(text)
    }
}

/// The five entities of XML; nothing for others.
fn entity(name: &str) -> &'static str {
    match name {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        _ => "",
    }
}

/// The text of a part: by its byte order mark, else as it declares, else UTF-8. Bytes that are no UTF-8 are read as Windows-1252.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let encoding = Encoding::for_bom(bytes).map(|(encoding, _)| encoding).or_else(|| match bytes {
        [b'<', 0, ..] => Some(UTF_16LE),
        [0, b'<', ..] => Some(UTF_16BE),
        _ => declared(bytes),
    });
    match encoding {
        Some(encoding) if encoding != UTF_8 => encoding.decode(bytes).0,
        _ => utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
    }
}

/// The encoding of an XML declaration. Parts that declare UTF-16 and are none are read as UTF-8.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARATION_BYTES)];
    let head = std::str::from_utf8(head.split(|byte| *byte == b'>').next()?).ok()?;
    let value = head.strip_prefix("<?xml")?.split("encoding").nth(1)?.trim_start_matches([' ', '=']);
    let label = value.split(['"', '\'']).nth(1)?;
    Encoding::for_label(label.as_bytes()).filter(|encoding| encoding.is_ascii_compatible())
}

/// UTF-8, with the bytes that are none read as Windows-1252.
pub(crate) fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&WINDOWS_1252.decode_without_bom_handling(chunk.invalid()).0);
    }
    Cow::Owned(text)
}
