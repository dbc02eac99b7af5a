//! No message and no mailbox panics; names of attachments are no paths.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::{Format, Limits, extract};

fuzz_target!(|input: &[u8]| {
    for format in [Format::Eml, Format::Mbox] {
        if let Ok(extracted) = extract(input, format, &Limits::default()) {
            assert!(extracted.attachments.iter().all(|attachment| !attachment.name.contains(['/', '\\'])));
            assert!(extracted.pages.last().is_none_or(|page| page.end == extracted.text.len()));
        }
    }
});
