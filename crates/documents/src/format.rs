//! The format of a file, by its content first and its name second.

use std::fmt;

/// A format that this crate reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Portable Document Format.
    Pdf,
    /// Word documents (Office Open XML).
    Docx,
    /// PowerPoint presentations (Office Open XML).
    Pptx,
    /// Excel workbooks (Office Open XML).
    Xlsx,
    /// OpenDocument text.
    Odt,
    /// OpenDocument spreadsheets.
    Ods,
    /// OpenDocument presentations.
    Odp,
    /// Books of XHTML pages.
    Epub,
    /// Rich Text Format.
    Rtf,
    /// One e-mail message.
    Eml,
    /// A mailbox of e-mail messages.
    Mbox,
}

impl Format {
    /// The usual extension of the format, without a dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Format::Pdf => "pdf",
            Format::Docx => "docx",
            Format::Pptx => "pptx",
            Format::Xlsx => "xlsx",
            Format::Odt => "odt",
            Format::Ods => "ods",
            Format::Odp => "odp",
            Format::Epub => "epub",
            Format::Rtf => "rtf",
            Format::Eml => "eml",
            Format::Mbox => "mbox",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}
