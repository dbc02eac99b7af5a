//! The format of a file, by its content first and its name second.

mod archive;
mod magic;

use std::fmt;

pub(crate) use archive::is_plain_zip;

use crate::Failure;

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

/// Extensions of plain text: a file with one of them is no message, whatever it begins with.
const TEXT_EXTENSIONS: [&str; 14] = [
    "txt", "text", "md", "markdown", "rst", "html", "htm", "xhtml", "xml", "csv", "tsv", "json", "jsonl",
    "log",
];
/// Bytes of a file in which binary content shows.
const SAMPLE_BYTES: usize = 8192;
/// Bytes before `%PDF-`, at most.
const PDF_HEADER_BYTES: usize = 1024;

impl Format {
    /// All of them.
    pub const ALL: [Format; 11] = [
        Format::Pdf,
        Format::Docx,
        Format::Pptx,
        Format::Xlsx,
        Format::Odt,
        Format::Ods,
        Format::Odp,
        Format::Epub,
        Format::Rtf,
        Format::Eml,
        Format::Mbox,
    ];

    /// The format of a file: by its content, and where that says nothing by the extension of `name`.
    ///
    /// `None` for plain text, such as Markdown, HTML and CSV, which needs no reader of this crate.
    ///
    /// # Errors
    /// `UnsupportedFormat` names a kind that isn't read and the remedy; `Encrypted` and `DamagedFile` where the content shows it.
    pub fn of(bytes: &[u8], name: &str) -> Result<Option<Format>, Failure> {
        let extension = extension(name);
        let by_name = Format::of_extension(&extension);
        if bytes.is_empty() {
            return if by_name.is_some() {
                Err(Failure::DamagedFile("it is empty".to_owned()))
            } else {
                Ok(None)
            };
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return archive::format(bytes, by_name).map(Some);
        }
        if let Some(format) = by_content(bytes, &extension) {
            return Ok(Some(format));
        }
        if let Some(kind) = magic::unsupported_kind(bytes) {
            return Err(unsupported(kind.name, kind.remedy));
        }
        if bytes.starts_with(&magic::OLE) {
            return Err(magic::compound_file(bytes));
        }
        match by_name {
            Some(Format::Eml) => Ok(by_name),
            Some(format) => {
                Err(Failure::DamagedFile(format!("its name is that of a {format} file, its content is not")))
            }
            None if is_text(bytes) => Ok(None),
            None => Err(magic::by_extension(&extension).unwrap_or_else(|| {
                let kind =
                    if extension.is_empty() { "binary".to_owned() } else { format!("binary .{extension}") };
                unsupported(&format!("{kind} files of an unknown kind"), "convert it to PDF or text")
            })),
        }
    }

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

    /// The media type of the format.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Pdf => "application/pdf",
            Format::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Format::Pptx => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            Format::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Format::Odt => "application/vnd.oasis.opendocument.text",
            Format::Ods => "application/vnd.oasis.opendocument.spreadsheet",
            Format::Odp => "application/vnd.oasis.opendocument.presentation",
            Format::Epub => "application/epub+zip",
            Format::Rtf => "application/rtf",
            Format::Eml => "message/rfc822",
            Format::Mbox => "application/mbox",
        }
    }

    /// The format of files with the extension, in small letters. Templates and files with macros are read like documents.
    #[must_use]
    pub fn of_extension(extension: &str) -> Option<Format> {
        Some(match extension {
            "pdf" => Format::Pdf,
            "docx" | "docm" | "dotx" | "dotm" => Format::Docx,
            "pptx" | "pptm" | "ppsx" | "ppsm" | "potx" | "potm" => Format::Pptx,
            "xlsx" | "xlsm" | "xltx" | "xltm" => Format::Xlsx,
            "odt" | "ott" => Format::Odt,
            "ods" | "ots" => Format::Ods,
            "odp" | "otp" => Format::Odp,
            "epub" => Format::Epub,
            "rtf" => Format::Rtf,
            "eml" => Format::Eml,
            "mbox" => Format::Mbox,
            _ => return None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

/// Whether a file that begins with these bytes is a picture, such as a scanned page. No reader has a text for it.
#[must_use]
pub fn is_picture(head: &[u8]) -> bool {
    magic::unsupported_kind(head).is_some_and(|kind| kind.name == magic::PICTURES)
}

/// The failure of a kind that isn't read.
fn unsupported(kind: &str, remedy: &str) -> Failure {
    Failure::UnsupportedFormat(format!("{kind} are not read: {remedy}"))
}

/// The extension of a name in small letters; empty for none.
fn extension(name: &str) -> String {
    let file = name.rsplit(['/', '\\']).next().unwrap_or_default();
    file.rsplit_once('.').map_or_else(String::new, |(_, extension)| extension.to_ascii_lowercase())
}

/// The format that the first bytes show, except those of archives.
fn by_content(bytes: &[u8], extension: &str) -> Option<Format> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let head = &bytes[..bytes.len().min(PDF_HEADER_BYTES)];
    if text.starts_with(b"%PDF-")
        || (memchr::memmem::find(head, b"%PDF-").is_some() && (extension == "pdf" || !is_text(bytes)))
    {
        return Some(Format::Pdf);
    }
    if text.starts_with(b"{\\rtf") || (extension == "rtf" && memchr::memmem::find(head, b"{\\rtf").is_some())
    {
        return Some(Format::Rtf);
    }
    if TEXT_EXTENSIONS.contains(&extension) {
        return None;
    }
    if bytes.starts_with(b"From ") && (extension == "mbox" || is_header(after_line(bytes))) {
        return Some(Format::Mbox);
    }
    (extension != "mbox" && is_message(text)).then_some(Format::Eml)
}

fn after_line(bytes: &[u8]) -> &[u8] {
    memchr::memchr(b'\n', bytes).map_or(&[], |end| &bytes[end + 1..])
}

/// Whether the text begins with a header field.
fn is_header(text: &[u8]) -> bool {
    let name =
        text.iter().take(100).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
    name > 0 && text.get(name) == Some(&b':')
}

/// Whether the text is a message: its header fields name a sender, and two fields that only messages have.
fn is_message(text: &[u8]) -> bool {
    const FIELDS_MAX: usize = 200;
    let (mut has_sender, mut marks) = (false, 0);
    let text = &text[..text.len().min(SAMPLE_BYTES * 8)];
    for line in text.split(|byte| *byte == b'\n').take(FIELDS_MAX) {
        if line.trim_ascii().is_empty() || !(is_header(line) || matches!(line.first(), Some(b' ' | b'\t'))) {
            break;
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default().to_ascii_lowercase();
        match name.as_slice() {
            b"from" | b"sender" => has_sender = true,
            b"received" | b"return-path" | b"message-id" | b"mime-version" | b"delivered-to" | b"date"
            | b"to" | b"subject" => marks += 1,
            _ => {}
        }
    }
    has_sender && marks >= 3
}

/// Whether the first bytes are text in UTF-8, UTF-16 with its mark, or an encoding of single bytes.
fn is_text(bytes: &[u8]) -> bool {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return true;
    }
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let controls =
        sample.iter().filter(|byte| matches!(byte, 0x01..=0x08 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)).count();
    !sample.contains(&0) && controls * 100 <= sample.len()
}
