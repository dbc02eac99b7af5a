//! No office file or book panics a reader, and its pages tile its text. The input is the main part of each format in turn: a
//! fuzzer that writes archives would spend its time on their checksums.
#![no_main]

use std::io::{Cursor, Write};

use libfuzzer_sys::fuzz_target;
use weir_documents::{Format, Limits, extract};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const SHEET: &str = r#"<workbook><sheets><sheet name="S" r:id="a"/></sheets></workbook>"#;
const SLIDES: &str = r#"<presentation><sldId id="1" r:id="a"/></presentation>"#;
const RELATIONSHIPS: &str = r#"<Relationships><Relationship Id="a" Type="x/slide" Target="part.xml"/></Relationships>"#;
const BOOK: &str = r#"<container><rootfile full-path="c.opf"/></container>"#;

/// An archive of the parts, without compression.
fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in parts {
        writer.start_file(*name, options).expect("a name of a part");
        writer.write_all(bytes).expect("memory takes all bytes");
    }
    writer.finish().expect("memory takes all bytes").into_inner()
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, part)) = input.split_first() else { return };
    let (format, bytes) = match kind % 7 {
        0 => (Format::Docx, archive(&[("word/document.xml", part)])),
        1 => (Format::Docx, archive(&[("word/document.xml", b"<p><numId val='1'/><t>x</t></p>"), ("word/numbering.xml", part)])),
        2 => (
            Format::Pptx,
            archive(&[("ppt/presentation.xml", SLIDES.as_bytes()), ("ppt/_rels/presentation.xml.rels", RELATIONSHIPS.as_bytes()), ("ppt/part.xml", part)]),
        ),
        3 => (
            Format::Xlsx,
            archive(&[("xl/workbook.xml", SHEET.as_bytes()), ("xl/_rels/workbook.xml.rels", RELATIONSHIPS.as_bytes()), ("xl/part.xml", part)]),
        ),
        4 => (Format::Odt, archive(&[("content.xml", part)])),
        5 => (Format::Epub, archive(&[("META-INF/container.xml", BOOK.as_bytes()), ("c.opf", part)])),
        _ => match Format::of(part, "input.docx") {
            Ok(Some(format)) => (format, part.to_vec()),
            Ok(None) | Err(_) => return,
        },
    };
    if let Ok(extracted) = extract(&bytes, format, &Limits::default()) {
        let end = extracted.pages.iter().fold(0, |start, page| {
            assert!(page.end >= start && extracted.text.is_char_boundary(page.end));
            page.end
        });
        assert!(extracted.pages.is_empty() || end == extracted.text.len());
    }
});
