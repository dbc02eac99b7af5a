//! Readers of document files: bytes in, text with pages out.
//!
//! Each format is a module with one function `extract(bytes, limits) -> Result<Extracted, Failure>`. The text uses the forms of
//! Markdown for headings (`# `), list items (`- `) and rows (tabs), so that chunking sees the structure. Nothing here opens a
//! file, a socket or a clock: a caller that reads files of strangers runs this in a process with limits.

#![forbid(unsafe_code)]

mod archive;
mod budget;
mod docx;
mod epub;
mod format;
mod limits;
mod mail;
mod numbers;
mod odf;
mod ooxml;
mod output;
mod package;
mod pdf;
mod pptx;
mod rtf;
mod xlsx;
mod xml;

pub use archive::{Archive, unpack};
pub use format::{Format, is_picture};
pub use limits::Limits;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the readers. It increases when they extract another text, title or page from the same bytes, so that stored files are
/// read again when they are sent again.
pub const READER_VERSION: u32 = 1;

/// The text of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Extracted {
    /// The text, with a blank line between paragraphs.
    pub text: String,
    /// The title that the file declares; never empty.
    pub title: Option<String>,
    /// Facts that the file declares, such as `author`, `created`, `from`, `to`, `subject`. Values are strings, numbers or lists
    /// of strings.
    pub metadata: Map<String, Value>,
    /// The pages, slides, sheets, chapters or messages, in order. Their ranges tile `text`; empty for a format without pages.
    pub pages: Vec<Page>,
    /// Parts that were left out or could not be read, one entry for each kind.
    pub warnings: Vec<Warning>,
    /// Files within this file that are documents of their own, such as attachments of a message.
    pub attachments: Vec<Attachment>,
    /// Pages and members that could not be read, each with its reason; the others were.
    pub lost: Vec<Lost>,
    /// Whether the file is an archive: no text, and its members as attachments.
    pub is_archive: bool,
}

/// A part of a file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The number of a page, a range of them (`12-15`), or the path of a member.
    pub part: String,
    /// The stable name of the reason, such as `broken_page` or the code of a [`Failure`].
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

/// A range of the text that stands on one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The end of the page in `Extracted::text`, in bytes. It begins where the page before it ends.
    pub end: usize,
    /// The label that readers see: `iv`, the name of a sheet, the `href` of a chapter. Absent where it is the number of the page.
    pub label: Option<String>,
    /// Whether the place is estimated, as in formats that leave pages to the program that shows them.
    pub approximate: bool,
}

/// A part that was left out, with the number of its occurrences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A stable name such as `hidden_text`, `broken_page`, `text_limit`.
    pub code: String,
    /// A sentence for people, with the remedy where there is one.
    pub message: String,
    /// How often it occurred.
    pub count: u64,
}

/// A file within a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The name that the outer file gives: no path (`/` and `\` are replaced by `_`), except of a member of an archive, whose path is relative and
    /// without `..`.
    pub name: String,
    /// The bytes, decoded.
    pub bytes: Vec<u8>,
}

/// The reason why a file has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "code", content = "detail", rename_all = "snake_case")]
pub enum Failure {
    /// The kind is known and not read, or not known. The text names the kind and the remedy.
    #[error("{0}")]
    UnsupportedFormat(String),
    /// The file needs a password.
    #[error("the file is encrypted: remove its password and send it again")]
    Encrypted,
    /// The file is not readable as its format.
    #[error("the file is damaged: {0}")]
    DamagedFile(String),
    /// The file has pages and no text, as scans have.
    #[error("the file has no text: {0}")]
    NoText(String),
    /// A limit other than those of text and pages was reached.
    #[error("the file is over a limit: {0}")]
    FileLimit(String),
}

impl Failure {
    /// The stable name of the reason.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Failure::UnsupportedFormat(_) => "unsupported_format",
            Failure::Encrypted => "encrypted",
            Failure::DamagedFile(_) => "damaged_file",
            Failure::NoText(_) => "no_text",
            Failure::FileLimit(_) => "file_limit",
        }
    }
}

/// Extracts the text of a file of the format `format`.
///
/// # Errors
/// A [`Failure`] where there is no text to index. Limits on text and pages cut the text and are a [`Warning`].
pub fn extract(bytes: &[u8], format: Format, limits: &Limits) -> Result<Extracted, Failure> {
    match format {
        Format::Pdf => pdf::extract(bytes, limits),
        Format::Docx => docx::extract(bytes, limits),
        Format::Pptx => pptx::extract(bytes, limits),
        Format::Xlsx => xlsx::extract(bytes, limits),
        Format::Odt | Format::Ods | Format::Odp => odf::extract(bytes, limits),
        Format::Epub => epub::extract(bytes, limits),
        Format::Rtf => rtf::extract(bytes, limits),
        Format::Eml => mail::extract(bytes, limits),
        Format::Mbox => mail::extract_mbox(bytes, limits),
    }
}
