//! PDF files with known text, hostile and damaged ones.

mod encryption;
mod features;
mod file;
mod hostile;
mod layout;
mod mutations;
mod pages;

use weir_documents::{Extracted, Failure, Format, Limits};

fn extract(bytes: &[u8]) -> Result<Extracted, Failure> {
    weir_documents::extract(bytes, Format::Pdf, &Limits::default())
}

/// The text of a file that can be read.
fn text(bytes: &[u8]) -> String {
    extract(bytes).expect("a file with text").text
}

/// How often a warning was given.
fn warned(extracted: &Extracted, code: &str) -> u64 {
    extracted.warnings.iter().find(|warning| warning.code == code).map_or(0, |warning| warning.count)
}
