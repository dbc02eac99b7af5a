//! Prints the text of files with a form feed behind each page, for `bench/documents.py`.
//!
//! Between two files stands a line with a record separator (U+001E). A file that fails prints its reason on standard error.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]

use std::path::Path;
use weir_documents::{Extracted, Format, Limits};

fn main() {
    for name in std::env::args().skip(1) {
        match std::fs::read(Path::new(&name))
            .map(|bytes| weir_documents::extract(&bytes, Format::Pdf, &Limits::default()))
        {
            Ok(Ok(extracted)) => print(&extracted),
            Ok(Err(failure)) => eprintln!("{name}: {failure}"),
            Err(error) => eprintln!("{name}: {error}"),
        }
        println!("\u{1e}");
    }
}

fn print(extracted: &Extracted) {
    let mut start = 0;
    for page in &extracted.pages {
        print!("{}\u{c}", extracted.text.get(start..page.end).unwrap_or_default());
        start = page.end;
    }
}
