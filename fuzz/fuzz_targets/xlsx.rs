//! No workbook panics the reader, and its pages tile its text. The first byte says which part the rest is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::Format;

mod parts;

const BOOK: &[u8] = br#"<workbook><sheets><sheet name="S" r:id="a"/></sheets></workbook>"#;
const SHEET: &[u8] = br#"<worksheet><sheetData><row r="1"><c r="A1" t="s" s="1"><v>0</v></c><c r="B1" s="1"><v>45353.5</v></c></row></sheetData></worksheet>"#;
const RELATIONSHIPS: &[u8] = br#"<Relationships><Relationship Id="a" Type="x/worksheet" Target="part.xml"/><Relationship Id="b" Type="x/sharedStrings" Target="strings.xml"/><Relationship Id="c" Type="x/styles" Target="styles.xml"/></Relationships>"#;

fuzz_target!(|input: &[u8]| {
    let Some((kind, part)) = input.split_first() else { return };
    let (sheet, name) = match kind % 3 {
        0 => (part, "xl/none.xml"),
        1 => (SHEET, "xl/strings.xml"),
        _ => (SHEET, "xl/styles.xml"),
    };
    parts::check(
        Format::Xlsx,
        &[("xl/workbook.xml", BOOK), ("xl/_rels/workbook.xml.rels", RELATIONSHIPS), ("xl/part.xml", sheet), (name, part)],
    );
});
