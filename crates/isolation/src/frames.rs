//! The child's output: frames of a kind, a length (`u32`, little-endian) and the bytes of that length.
//!
//! The parent trusts none of it: it limits frames and their sum, and checks text and pages.

use std::io::{self, Write};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weir_documents::{Attachment, Extracted, Failure, Lost, Page, Warning};

use crate::sandbox::Protections;

/// Most bytes of a frame.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Bytes of kind and length.
const HEAD_BYTES: usize = 5;

/// Most bytes of the facts of a file, its page map included.
const FACTS_BYTES_MAX: usize = 16 << 20;

/// Most bytes of all attachments of a file.
const ATTACHMENTS_BYTES_MAX: usize = 128 << 20;

/// The protections that hold, as JSON: the first frame.
const PROTECTIONS: u8 = b'P';
/// A part of the text.
const TEXT: u8 = b'T';
/// A part of [`Facts`], as JSON.
const FACTS: u8 = b'J';
/// A part of the bytes of all attachments, one after the other.
const ATTACHMENTS: u8 = b'A';
/// A [`Failure`], as JSON.
const FAILURE: u8 = b'F';
/// The number of the page that is read next, from 0.
const PAGE: u8 = b'G';
/// The end.
const END: u8 = b'E';

/// An [`Extracted`] without its text and the bytes of its attachments.
#[derive(Default, Serialize, Deserialize)]
struct Facts {
    title: Option<String>,
    metadata: Map<String, Value>,
    pages: Vec<Page>,
    warnings: Vec<Warning>,
    /// Names and lengths.
    attachments: Vec<(String, usize)>,
    lost: Vec<Lost>,
    is_archive: bool,
}

/// Writes the protections that hold.
pub(crate) fn write_protections(out: &mut impl Write, protections: &Protections) -> io::Result<()> {
    write_frame(out, PROTECTIONS, &serde_json::to_vec(protections)?)
}

/// Reports that a page is read next. A gateway that is gone is noticed when the result is written.
pub(crate) fn report_page(number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let mut out = io::stdout().lock();
    let _ = write_frame(&mut out, PAGE, &number.to_le_bytes()).and_then(|()| out.flush());
}

/// Writes a result and the end.
pub(crate) fn write_result(out: &mut impl Write, result: Result<Extracted, Failure>) -> io::Result<()> {
    match result {
        Ok(extracted) => write_extracted(out, extracted)?,
        Err(failure) => write_frame(out, FAILURE, &serde_json::to_vec(&failure)?)?,
    }
    write_frame(out, END, &[])?;
    out.flush()
}

fn write_extracted(out: &mut impl Write, extracted: Extracted) -> io::Result<()> {
    let Extracted { text, title, metadata, pages, warnings, attachments, lost, is_archive } = extracted;
    write_parts(out, TEXT, text.as_bytes())?;
    let lengths = attachments.iter().map(|one| (one.name.clone(), one.bytes.len())).collect();
    let facts = Facts { title, metadata, pages, warnings, attachments: lengths, lost, is_archive };
    write_parts(out, FACTS, &serde_json::to_vec(&facts)?)?;
    attachments.iter().try_for_each(|one| write_parts(out, ATTACHMENTS, &one.bytes))
}

fn write_parts(out: &mut impl Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(FRAME_BYTES_MAX).try_for_each(|part| write_frame(out, kind, part))
}

fn write_frame(out: &mut impl Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&[kind])?;
    out.write_all(&(bytes.len() as u32).to_le_bytes())?;
    out.write_all(bytes)
}

/// Collects the frames of a child.
#[derive(Default)]
pub(crate) struct Output {
    /// Bytes of a frame that is not complete.
    pending: Vec<u8>,
    text_bytes_max: usize,
    text: Vec<u8>,
    facts: Vec<u8>,
    attachments: Vec<u8>,
    failure: Option<Failure>,
    protections: Option<Protections>,
    /// The page that is being read, and since when.
    page: Option<(usize, Instant)>,
    is_complete: bool,
}

impl Output {
    pub(crate) fn new(text_bytes_max: usize) -> Output {
        Output { text_bytes_max, ..Output::default() }
    }

    /// Whether the child sent its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The page that is being read, from 0, and since when.
    pub(crate) fn page(&self) -> Option<(usize, Instant)> {
        self.page
    }

    /// The protections that the child has, once it said so.
    pub(crate) fn protections(&self) -> Option<&Protections> {
        self.protections.as_ref()
    }

    /// Takes bytes of the child's output. An error says what is wrong with them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let [kind, length @ ..] = *head;
            let length = u32::from_le_bytes(length) as usize;
            if length > FRAME_BYTES_MAX {
                return Err("a frame of its output is too long");
            }
            let Some((frame, after)) = after.split_at_checked(length) else { break };
            self.take(kind, frame)?;
            rest = after;
        }
        self.pending = rest.to_vec();
        Ok(())
    }

    fn take(&mut self, kind: u8, frame: &[u8]) -> Result<(), &'static str> {
        if self.is_complete {
            return Err("its output goes on after its end");
        }
        match kind {
            PROTECTIONS => {
                self.protections = Some(serde_json::from_slice(frame).map_err(|_| MALFORMED)?);
            }
            TEXT => append(&mut self.text, frame, self.text_bytes_max)?,
            FACTS => append(&mut self.facts, frame, FACTS_BYTES_MAX)?,
            ATTACHMENTS => append(&mut self.attachments, frame, ATTACHMENTS_BYTES_MAX)?,
            FAILURE => self.failure = Some(serde_json::from_slice(frame).map_err(|_| MALFORMED)?),
            PAGE => {
                let number = frame.try_into().map(u32::from_le_bytes).map_err(|_| MALFORMED)?;
                self.page = Some((number as usize, Instant::now()));
            }
            END => self.is_complete = true,
            _ => return Err(MALFORMED),
        }
        Ok(())
    }

    /// The result, checked.
    pub(crate) fn finish(self) -> Result<Result<Extracted, Failure>, &'static str> {
        if !self.is_complete {
            return Err("its output ends too early");
        }
        if let Some(failure) = self.failure {
            return Ok(Err(failure));
        }
        let text = String::from_utf8(self.text).map_err(|_| "its text is not UTF-8")?;
        let facts: Facts = serde_json::from_slice(&self.facts).map_err(|_| MALFORMED)?;
        check_pages(&text, &facts.pages)?;
        let attachments = split(&self.attachments, facts.attachments)?;
        let Facts { title, metadata, pages, warnings, lost, is_archive, .. } = facts;
        let title = title.filter(|title| !title.trim().is_empty());
        Ok(Ok(Extracted { text, title, metadata, pages, warnings, attachments, lost, is_archive }))
    }
}

const MALFORMED: &str = "its output is malformed";

fn append(to: &mut Vec<u8>, bytes: &[u8], most: usize) -> Result<(), &'static str> {
    if to.len() + bytes.len() > most {
        return Err("its output is longer than the limit");
    }
    to.extend_from_slice(bytes);
    Ok(())
}

/// Pages tile the text at boundaries of characters.
fn check_pages(text: &str, pages: &[Page]) -> Result<(), &'static str> {
    let ends = || pages.iter().map(|page| page.end);
    let is_sorted = ends().is_sorted();
    let is_tiling = pages.last().is_none_or(|last| last.end == text.len());
    if is_sorted && is_tiling && ends().all(|end| text.is_char_boundary(end)) {
        Ok(())
    } else {
        Err("its pages are not ranges of its text")
    }
}

fn split(bytes: &[u8], lengths: Vec<(String, usize)>) -> Result<Vec<Attachment>, &'static str> {
    let mut rest = bytes;
    let mut attachments = Vec::with_capacity(lengths.len());
    for (name, length) in lengths {
        let (own, after) = rest.split_at_checked(length).ok_or(MALFORMED)?;
        attachments.push(Attachment { name, bytes: own.to_vec() });
        rest = after;
    }
    if rest.is_empty() { Ok(attachments) } else { Err(MALFORMED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extracted() -> Extracted {
        let page = |end| Page { end, label: Some(format!("p{end}")), approximate: end > 5 };
        Extracted {
            text: "über\n\nder Seite".to_owned(),
            title: Some("Ein Titel".to_owned()),
            metadata: Map::from_iter([("author".to_owned(), "A".into())]),
            pages: vec![page(7), page(7), page(16)],
            warnings: vec![Warning { code: "a".to_owned(), message: "b".to_owned(), count: 3 }],
            attachments: vec![
                Attachment { name: "a.pdf".to_owned(), bytes: vec![7; FRAME_BYTES_MAX + 1] },
                Attachment { name: "b".to_owned(), bytes: Vec::new() },
            ],
            lost: vec![Lost { part: "4-5".to_owned(), code: "c".to_owned(), message: "d".to_owned() }],
            is_archive: false,
        }
    }

    /// Reads output that arrives in parts of `part` bytes.
    fn read(bytes: &[u8], part: usize) -> Result<Result<Extracted, Failure>, &'static str> {
        let mut output = Output::new(100);
        bytes.chunks(part).try_for_each(|part| output.push(part))?;
        output.finish()
    }

    #[test]
    fn a_result_is_read_however_it_arrives() {
        for result in [Ok(extracted()), Err(Failure::Encrypted), Err(Failure::NoText("scan".to_owned()))] {
            let mut bytes = Vec::new();
            write_result(&mut bytes, result.clone()).unwrap();
            for part in [4093, 65_536, bytes.len()] {
                assert_eq!(read(&bytes, part), Ok(result.clone()));
            }
            assert!(read(&bytes[..bytes.len() - 1], 65_536).is_err(), "cut");
        }
    }

    #[test]
    fn output_that_breaks_the_rules_is_refused() {
        let check = |extracted: Extracted, expected: &str| {
            let mut bytes = Vec::new();
            write_result(&mut bytes, Ok(extracted)).unwrap();
            assert_eq!(read(&bytes, 65_536), Err(expected));
        };
        let page = |end| Page { end, label: None, approximate: false };
        let pages = "its pages are not ranges of its text";
        check(Extracted { pages: vec![page(1), page(16)], ..extracted() }, pages);
        check(Extracted { pages: vec![page(7)], ..extracted() }, pages);
        check(Extracted { pages: vec![page(9), page(7), page(16)], ..extracted() }, pages);
        check(Extracted { pages: vec![page(usize::MAX)], ..extracted() }, pages);
        let long = Extracted { text: "a".repeat(101), pages: Vec::new(), ..extracted() };
        check(long, "its output is longer than the limit");
        let frame = |kind, length: u32| [&[kind], length.to_le_bytes().as_slice()].concat();
        assert_eq!(read(&frame(TEXT, u32::MAX), 8).unwrap_err(), "a frame of its output is too long");
        assert_eq!(read(&frame(b'?', 0), 8).unwrap_err(), MALFORMED);
        assert_eq!(read(&frame(TEXT, 7), 8).unwrap_err(), "its output ends too early");
        let twice = [frame(END, 0), frame(END, 0)].concat();
        assert_eq!(read(&twice, 10).unwrap_err(), "its output goes on after its end");
    }
}
