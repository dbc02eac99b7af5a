//! The information that a file has of itself: title, author, dates, labels of pages.

use crate::numbers::{Numbering, render};
use crate::pdf::strings;
use hayro_syntax::Pdf;
use hayro_syntax::object::dict::keys::{KIDS, METADATA, P, S};
use hayro_syntax::object::{Array, DateTime, Dict, Object, ObjectIdentifier, Stream, String as PdfString};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};

/// Bytes of the XMP packet that are read.
const XMP_BYTES_MAX: usize = 1 << 20;

/// Bytes of a value.
const VALUE_BYTES_MAX: usize = 1_000;

/// Nodes and ranges of the tree of page labels.
const LABELS_MAX: usize = 20_000;

/// Title and metadata.
pub(super) fn info(pdf: &Pdf, catalog: &Dict<'_>) -> (Option<String>, Map<String, Value>) {
    let declared = pdf.metadata();
    let xmp = catalog
        .get::<Stream<'_>>(METADATA)
        .and_then(|stream| crate::pdf::stream::decode(&stream, XMP_BYTES_MAX).ok());
    let xmp = xmp.map(|xmp| String::from_utf8_lossy(&xmp).into_owned()).unwrap_or_default();
    let value = |bytes: &Option<Box<[u8]>>, element: &str| {
        let value = bytes.as_deref().and_then(strings::line).or_else(|| xmp_value(&xmp, element));
        value.map(|value| shortened(value, VALUE_BYTES_MAX))
    };
    let mut metadata = Map::new();
    let texts = [
        ("author", value(&declared.author, "dc:creator")),
        ("subject", value(&declared.subject, "dc:description")),
        ("keywords", value(&declared.keywords, "pdf:Keywords")),
        ("created", declared.creation_date.map(date).or_else(|| xmp_value(&xmp, "xmp:CreateDate"))),
        ("modified", declared.modification_date.map(date).or_else(|| xmp_value(&xmp, "xmp:ModifyDate"))),
    ];
    for (name, value) in texts {
        metadata.extend(value.map(|value| (name.to_owned(), Value::String(value))));
    }
    (value(&declared.title, "dc:title").filter(|title| !title.eq_ignore_ascii_case("untitled")), metadata)
}

/// The value cut at a character.
fn shortened(mut value: String, bytes: usize) -> String {
    value.truncate(value.floor_char_boundary(bytes));
    value
}

/// A date as RFC 3339 has it.
fn date(date: DateTime) -> String {
    let DateTime { year, month, day, hour, minute, second, utc_offset_hour, utc_offset_minute } = date;
    let zone = if (utc_offset_hour, utc_offset_minute) == (0, 0) {
        "Z".to_owned()
    } else {
        format!(
            "{}{:02}:{utc_offset_minute:02}",
            if utc_offset_hour < 0 { '-' } else { '+' },
            utc_offset_hour.unsigned_abs()
        )
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}")
}

/// The text of the first element of that name in an XMP packet, or the value of the attribute.
fn xmp_value(xmp: &str, name: &str) -> Option<String> {
    let attribute = || {
        let (_, rest) = xmp.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    let element = || {
        let (_, rest) = xmp.split_once(&format!("<{name}"))?;
        let (inner, _) = rest.split_once(&format!("</{name}>"))?;
        inner.split_once('>').map(|(_, inner)| inner)
    };
    let inner = element().or_else(attribute)?;
    let mut text = String::new();
    // the tags of lists are left out
    for piece in inner.split('<') {
        text.push_str(piece.split_once('>').map_or(piece, |(_, after)| after));
        text.push(' ');
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}

/// The labels of `count` pages; none for a page whose label is its number.
pub(super) fn page_labels(catalog: &Dict<'_>, pdf: &Pdf, count: usize) -> Vec<Option<String>> {
    let mut ranges = BTreeMap::new();
    let mut waiting: Vec<Dict<'_>> = catalog.get::<Dict<'_>>(b"PageLabels".as_slice()).into_iter().collect();
    let mut seen: HashSet<ObjectIdentifier> = HashSet::new();
    while let Some(node) = waiting.pop() {
        if let Some(kids) = node.get::<Array<'_>>(KIDS) {
            for reference in kids.raw_iter().take(LABELS_MAX).filter_map(|kid| kid.as_obj_ref()) {
                let id: ObjectIdentifier = reference.into();
                if seen.len() < LABELS_MAX && seen.insert(id) {
                    waiting.extend(pdf.xref().get::<Dict<'_>>(id));
                }
            }
        }
        let Some(pairs) = node.get::<Array<'_>>(b"Nums".as_slice()) else { continue };
        let mut items = pairs.flex_iter();
        while let (Some(first), Some(Object::Dict(range))) = (items.next::<u32>(), items.next::<Object<'_>>())
        {
            if ranges.len() >= LABELS_MAX {
                break;
            }
            ranges.insert(first as usize, Range::new(&range));
        }
    }
    let mut range: Option<(usize, &Range)> = None;
    let label = |page: usize| {
        range = ranges.get(&page).map(|next| (page, next)).or(range);
        let (first, range) = range?;
        Some(range.label(page - first)).filter(|label| !label.is_empty() && *label != (page + 1).to_string())
    };
    (0..count).map(label).collect()
}

/// Pages that are numbered together.
struct Range {
    style: Option<u8>,
    prefix: String,
    start: u64,
}

impl Range {
    fn new(range: &Dict<'_>) -> Range {
        let style = match range.get::<Object<'_>>(S) {
            Some(Object::Name(name)) => name.first().copied(),
            _ => None,
        };
        let prefix = range
            .get::<PdfString<'_>>(P)
            .and_then(|prefix| strings::line(prefix.as_bytes()))
            .unwrap_or_default();
        Range {
            style,
            prefix: shortened(prefix, 100),
            start: u64::from(range.get::<u32>(b"St".as_slice()).unwrap_or(1)),
        }
    }

    fn label(&self, offset: usize) -> String {
        let number = self.start + offset as u64;
        let numbering = match self.style {
            Some(b'D') => Numbering::Decimal,
            Some(b'r' | b'R') => Numbering::Roman { upper: self.style == Some(b'R') },
            Some(b'a' | b'A') => Numbering::Letters { upper: self.style == Some(b'A') },
            _ => return self.prefix.clone(),
        };
        let number =
            u32::try_from(number).map_or_else(|_| number.to_string(), |number| render(number, numbering));
        format!("{}{number}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_xmp_are_text() {
        let xmp = "<dc:title><rdf:Alt><rdf:li xml:lang=\"x\">A &amp; B</rdf:li></rdf:Alt></dc:title><x xmp:CreateDate=\"2024\"/>";
        assert_eq!(xmp_value(xmp, "dc:title").as_deref(), Some("A & B"));
        assert_eq!(xmp_value(xmp, "xmp:CreateDate").as_deref(), Some("2024"));
        assert_eq!(xmp_value(xmp, "dc:creator"), None);
    }
}
