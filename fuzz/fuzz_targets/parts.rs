//! What the targets of office files share. The input is a part of the file: a fuzzer that writes archives would spend its time on their checksums.

use std::io::{Cursor, Write};

use weir_documents::{Format, Limits, extract};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Relationships of a main part to `part.xml`.
#[allow(dead_code, reason = "not all targets have them")]
pub(crate) const RELATIONSHIPS: &str = r#"<Relationships><Relationship Id="a" Type="x/slide" Target="part.xml"/></Relationships>"#;

/// An archive of the parts, without compression.
pub(crate) fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in parts {
        writer.start_file(*name, options).expect("a name of a part");
        writer.write_all(bytes).expect("memory takes all bytes");
    }
    writer.finish().expect("memory takes all bytes").into_inner()
}

/// Reads a file of these parts with and without what is hidden: no panic, and pages that tile the text.
pub(crate) fn check(format: Format, parts: &[(&str, &[u8])]) {
    let file = archive(parts);
    for hidden_text in [false, true] {
        let limits = Limits { hidden_text, comments: !hidden_text, ..Limits::default() };
        let Ok(extracted) = extract(&file, format, &limits) else { continue };
        let end = extracted.pages.iter().fold(0, |start, page| {
            assert!(page.end >= start && extracted.text.is_char_boundary(page.end));
            page.end
        });
        assert!(extracted.pages.is_empty() || end == extracted.text.len());
    }
}
