//! No PDF panics, and the pages of one that is read tile its text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::{Format, Limits};

fuzz_target!(|file: &[u8]| {
    let limits = Limits { pdf_stream_bytes: 1 << 20, pdf_bytes: 8 << 20, pdf_operators: 200_000, pdf_forms: 1_000, ..Limits::default() };
    if let Ok(extracted) = weir_documents::extract(file, Format::Pdf, &limits) {
        assert!(extracted.pages.is_sorted_by_key(|page| page.end));
        assert_eq!(extracted.pages.last().map(|page| page.end), Some(extracted.text.len()));
        assert_ne!(extracted.title.as_deref(), Some(""));
    }
});
