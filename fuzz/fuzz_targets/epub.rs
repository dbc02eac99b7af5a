//! No book panics the reader, and its pages tile its text. The first byte says whether the rest is its description or a chapter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::Format;

mod parts;

const CONTAINER: &[u8] = br#"<container><rootfile full-path="c.opf"/></container>"#;
const DESCRIPTION: &[u8] = br#"<package><manifest><item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/></spine></package>"#;

fuzz_target!(|input: &[u8]| {
    let Some((kind, part)) = input.split_first() else { return };
    let (description, chapter): (&[u8], &[u8]) = if kind % 2 == 0 { (part, b"<p>x</p>") } else { (DESCRIPTION, part) };
    parts::check(Format::Epub, &[("META-INF/container.xml", CONTAINER), ("c.opf", description), ("a.xhtml", chapter)]);
});
