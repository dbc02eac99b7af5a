//! No RTF file panics, and its pages tile its text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::{Format, Limits, extract};

fuzz_target!(|input: &[u8]| {
    if let Ok(extracted) = extract(input, Format::Rtf, &Limits::default()) {
        assert!(extracted.pages.iter().all(|page| extracted.text.is_char_boundary(page.end)));
        assert!(extracted.pages.last().is_none_or(|page| page.end == extracted.text.len()));
    }
});
