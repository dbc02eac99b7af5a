//! No slide panics the reader of presentations, and its pages tile its text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::Format;

mod parts;

const SLIDES: &[u8] = br#"<presentation><sldId id="1" r:id="a"/></presentation>"#;

fuzz_target!(|part: &[u8]| {
    let relationships = parts::RELATIONSHIPS.as_bytes();
    parts::check(Format::Pptx, &[("ppt/presentation.xml", SLIDES), ("ppt/_rels/presentation.xml.rels", relationships), ("ppt/part.xml", part)]);
});
