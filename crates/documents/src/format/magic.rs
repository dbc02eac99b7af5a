//! Kinds of files that are known and not read.

use memchr::memmem;

use crate::Failure;

use super::{is_text, unsupported};

/// A kind that isn't read.
pub(super) struct Kind {
    /// Its name in the plural.
    pub(super) name: &'static str,
    pub(super) remedy: &'static str,
    /// Where its mark stands, and the mark.
    marks: &'static [(usize, &'static [u8])],
}

/// The first bytes of a compound file, the container of the binary formats of Office.
pub(super) const OLE: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];

const OCR: &str = "recognise its text first (OCR) and send the text, or name a server that does in the gateway's setting extract.url";
/// The remedy for archives.
pub(super) const UNPACK: &str = "send the files in it; .zip and .tar.gz are unpacked where the gateway's setting extract.archives is true";

/// The name of pictures.
pub(super) const PICTURES: &str = "pictures";

const KINDS: [Kind; 12] = [
    Kind {
        name: PICTURES,
        remedy: OCR,
        marks: &[
            (0, b"\x89PNG\r\n\x1a\n"),
            (0, b"\xff\xd8\xff"),
            (0, b"GIF87a"),
            (0, b"GIF89a"),
            (0, b"II*\0"),
            (0, b"MM\0*"),
            (8, b"WEBP"),
            (4, b"ftypheic"),
            (4, b"ftypmif1"),
            (4, b"ftypavif"),
            (0, b"\0\0\0\x0cJXL "),
            (0, b"\0\0\0\x0cjP  "),
            (0, b"8BPS"),
        ],
    },
    Kind {
        name: "programs",
        remedy: "send documents",
        marks: &[
            (0, b"\x7fELF"),
            (0, b"MZ"),
            (0, b"\xcf\xfa\xed\xfe"),
            (0, b"\xce\xfa\xed\xfe"),
            (0, b"\xca\xfe\xba\xbe"),
            (0, b"\0asm"),
        ],
    },
    Kind {
        name: "archives",
        remedy: UNPACK,
        marks: &[
            (0, b"\x1f\x8b"),
            (0, b"BZh"),
            (0, b"\xfd7zXZ\0"),
            (0, b"7z\xbc\xaf\x27\x1c"),
            (0, b"Rar!\x1a\x07"),
            (0, b"\x28\xb5\x2f\xfd"),
            (257, b"ustar"),
            (0, b"!<arch>\n"),
            (0, b"MSCF"),
        ],
    },
    Kind {
        name: "sound and video files",
        remedy: "send a transcript",
        marks: &[
            (0, b"ID3"),
            (0, b"OggS"),
            (0, b"fLaC"),
            (4, b"ftyp"),
            (8, b"WAVE"),
            (8, b"AVI "),
            (0, b"\x1aE\xdf\xa3"),
            (0, b"MThd"),
        ],
    },
    Kind {
        name: "fonts",
        remedy: "send documents",
        marks: &[(0, b"wOFF"), (0, b"wOF2"), (0, b"OTTO"), (0, b"\0\x01\0\0\0")],
    },
    Kind {
        name: "SQLite databases",
        remedy: "export its tables as CSV or JSON lines",
        marks: &[(0, b"SQLite format 3\0")],
    },
    Kind {
        name: "Parquet and Arrow files",
        remedy: "export it as CSV or JSON lines",
        marks: &[(0, b"PAR1"), (0, b"ARROW1")],
    },
    Kind { name: "DjVu documents", remedy: "convert it to PDF", marks: &[(0, b"AT&TFORM")] },
    Kind {
        name: "Kindle books",
        remedy: "convert it to EPUB",
        marks: &[(60, b"BOOKMOBI"), (60, b"TEXtREAd")],
    },
    Kind {
        name: "PostScript files",
        remedy: "convert it to PDF",
        marks: &[(0, b"%!PS"), (0, b"\xc5\xd0\xd3\xc6")],
    },
    Kind {
        name: "Outlook archives (.pst)",
        remedy: "export its messages as .eml or .mbox",
        marks: &[(0, b"!BDN")],
    },
    Kind {
        name: "pickled Python objects",
        remedy: "send documents",
        marks: &[(0, b"\x80\x04\x95"), (0, b"\x80\x05\x95")],
    },
];

/// Letters that are no proof of a kind by themselves.
const LETTERS_MAX: usize = 4;

/// The kind that the content shows, if it is known and not read.
pub(super) fn unsupported_kind(bytes: &[u8]) -> Option<&'static Kind> {
    // the mark of a bitmap is two letters: its reserved bytes are 0 too
    if bytes.starts_with(b"BM") && bytes.get(6..10) == Some(&[0; 4]) {
        return KINDS.first();
    }
    // a text can begin with a few letters that mark binary files
    let may_be_text = |mark: &[u8]| mark.len() <= LETTERS_MAX && mark.iter().all(u8::is_ascii_alphanumeric);
    KINDS.iter().find(|kind| {
        let has = |at: usize, mark: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
        kind.marks.iter().any(|(at, mark)| has(*at, mark) && !(may_be_text(mark) && is_text(bytes)))
    })
}

/// The reason why a compound file isn't read: encrypted, or a binary format of Office.
pub(super) fn compound_file(bytes: &[u8]) -> Failure {
    let has = |name: &str| {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        memmem::find(bytes, &name).is_some()
    };
    if has("EncryptedPackage") {
        Failure::Encrypted
    } else if has("WordDocument") {
        unsupported(DOC, "save it as .docx or PDF")
    } else if has("Workbook") || has("Book") {
        unsupported(XLS, "save it as .xlsx or CSV")
    } else if has("PowerPoint Document") {
        unsupported(PPT, "save it as .pptx or PDF")
    } else if has("__properties_version1.0") || has("__substg1.0_") {
        unsupported(MSG, "save it as .eml")
    } else {
        unsupported("binary files of Office programs", "save it in the current format or as PDF")
    }
}

const DOC: &str = "Word documents of before 2007 (.doc)";
const XLS: &str = "Excel workbooks of before 2007 (.xls)";
const PPT: &str = "PowerPoint presentations of before 2007 (.ppt)";
const MSG: &str = "Outlook messages (.msg)";

/// The reason why a binary file with the extension isn't read, if the extension is known.
pub(super) fn by_extension(extension: &str) -> Option<Failure> {
    Some(match extension {
        "doc" | "dot" => unsupported(DOC, "save it as .docx or PDF"),
        "xls" | "xlt" => unsupported(XLS, "save it as .xlsx or CSV"),
        "ppt" | "pps" => unsupported(PPT, "save it as .pptx or PDF"),
        "msg" => unsupported(MSG, "save it as .eml"),
        "xlsb" => unsupported("binary Excel workbooks (.xlsb)", "save it as .xlsx"),
        _ => return None,
    })
}
