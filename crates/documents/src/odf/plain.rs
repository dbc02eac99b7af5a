//! The text of an element as one line: a note, a comment, a cell.

use std::borrow::Cow;

use crate::Failure;
use crate::xml::{Event, Xml};

/// The text of an element.
#[derive(Debug, Default)]
pub(super) struct PlainText {
    /// The text of its paragraphs, with spaces between them.
    pub(super) text: String,
    /// The comments in it.
    pub(super) comments: Vec<String>,
}

impl PlainText {
    /// Reads the element whose start was the last event, at most `bytes_max` of its text.
    pub(super) fn read(xml: &mut Xml<'_>, bytes_max: usize) -> Result<PlainText, Failure> {
        let mut plain = PlainText::default();
        let end = xml.depth();
        // the paragraphs that are open, and where a comment in them began
        let (mut paragraphs, mut comment) = (0_usize, None);
        while let Some(event) = xml.next()? {
            match event {
                Event::Open(tag) => match tag.name() {
                    "note-citation" | "creator" | "date" | "ruby-text" | "tracked-changes" => xml.skip()?,
                    "frame" if is_slide_furniture(&tag.attr("class").unwrap_or_default()) => xml.skip()?,
                    "annotation" => comment = comment.or(Some(plain.text.len())),
                    "p" | "h" => paragraphs += 1,
                    "s" | "tab" | "line-break" => plain.space(),
                    _ => {}
                },
                Event::Close(tag) => {
                    match tag.name() {
                        "p" | "h" => {
                            paragraphs = paragraphs.saturating_sub(1);
                            plain.space();
                        }
                        "annotation" => {
                            let text = comment.take().map(|start| plain.text.split_off(start));
                            plain.comments.extend(text.map(|text| text.trim().to_owned()));
                        }
                        _ => {}
                    }
                    if xml.depth() < end {
                        break;
                    }
                }
                Event::Text(text) if paragraphs > 0 && plain.text.len() + text.len() <= bytes_max => {
                    plain.text.push_str(&collapse(&text))
                }
                Event::Text(_) => {}
            }
        }
        plain.text.truncate(plain.text.trim_end().len());
        Ok(plain)
    }

    fn space(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
    }
}

/// Whether a frame of a slide has its footer, date or number.
pub(super) fn is_slide_furniture(class: &str) -> bool {
    matches!(class, "header" | "footer" | "date-time" | "page-number")
}

/// White space as one space, which is its meaning in OpenDocument.
pub(super) fn collapse(text: &str) -> Cow<'_, str> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
    let mut after_space = false;
    let is_plain = text.chars().all(|c| {
        let again = after_space && is_space(c);
        after_space = is_space(c);
        !again && (c == ' ' || !is_space(c))
    });
    if is_plain {
        return Cow::Borrowed(text);
    }
    let mut collapsed = String::with_capacity(text.len());
    for character in text.chars() {
        if !is_space(character) {
            collapsed.push(character);
        } else if !collapsed.ends_with(' ') {
            collapsed.push(' ');
        }
    }
    Cow::Owned(collapsed)
}
