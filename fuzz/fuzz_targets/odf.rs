//! No OpenDocument file panics the reader, and its pages tile its text. The first byte says whether it is text, sheets or slides.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::Format;

mod parts;

fuzz_target!(|input: &[u8]| {
    let Some((kind, part)) = input.split_first() else { return };
    let format = [Format::Odt, Format::Ods, Format::Odp][usize::from(kind % 3)];
    parts::check(format, &[("content.xml", part)]);
});
