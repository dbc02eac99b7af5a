//! Footnotes, endnotes and comments of a Word document, which are parts of their own.

use std::collections::HashMap;

use crate::Failure;
use crate::budget::Budget;
use crate::xml::{Event, Xml};

/// Notes of one kind.
const NOTES_MAX: usize = 100_000;

/// A kind of note: the word in the text, its relationship, its element, the element that refers to it.
pub(super) const KINDS: [(&str, &str, &str, &str); 3] = [
    ("footnote", "footnotes", "footnote", "footnoteReference"),
    ("endnote", "endnotes", "endnote", "endnoteReference"),
    ("comment", "comments", "comment", "commentReference"),
];

/// Reads the notes of a part: their texts by their ids, at most `bytes_max` in all.
pub(super) fn parse(
    text: &str,
    element: &str,
    budget: &Budget<'_>,
    bytes_max: usize,
) -> Result<HashMap<String, String>, Failure> {
    let mut notes = HashMap::new();
    let mut bytes_left = bytes_max;
    let (mut id, mut note, mut in_text) = (String::new(), String::new(), false);
    let mut xml = Xml::new(text, budget);
    while let Some(event) = xml.next()? {
        match event {
            Event::Open(tag) => match tag.name() {
                "t" => in_text = true,
                "tab" | "br" | "cr" => note.push(' '),
                "noBreakHyphen" => note.push('-'),
                "del" | "moveFrom" | "instrText" | "Fallback" => xml.skip()?,
                name if name == element => {
                    id = tag.attr("id").unwrap_or_default().into_owned();
                    note.clear();
                }
                _ => {}
            },
            Event::Close(tag) => match tag.name() {
                "t" => in_text = false,
                "p" => note.push(' '),
                name if name == element && notes.len() < NOTES_MAX => {
                    notes.insert(std::mem::take(&mut id), note.trim().to_owned());
                }
                _ => {}
            },
            Event::Text(text) if in_text && text.len() <= bytes_left => {
                bytes_left -= text.len();
                note.push_str(&text);
            }
            Event::Text(_) => {}
        }
    }
    Ok(notes)
}
