//! No Word document panics the reader, and its pages tile its text. The first byte says which part the rest is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::Format;

mod parts;

const BODY: &[u8] = b"<p><pPr><pStyle val='a'/><numId val='1'/></pPr><r><t>x</t></r><r><footnoteReference id='1'/></r></p>";
const RELATIONSHIPS: &[u8] = br#"<Relationships><Relationship Id="a" Type="x/styles" Target="styles.xml"/><Relationship Id="b" Type="x/numbering" Target="numbering.xml"/><Relationship Id="c" Type="x/footnotes" Target="footnotes.xml"/></Relationships>"#;

fuzz_target!(|input: &[u8]| {
    let Some((kind, part)) = input.split_first() else { return };
    let name = match kind % 4 {
        0 => return parts::check(Format::Docx, &[("word/document.xml", part)]),
        1 => "word/numbering.xml",
        2 => "word/styles.xml",
        _ => "word/footnotes.xml",
    };
    parts::check(Format::Docx, &[("word/document.xml", BODY), ("word/_rels/document.xml.rels", RELATIONSHIPS), (name, part)]);
});
