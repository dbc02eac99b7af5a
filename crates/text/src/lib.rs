//! Normalisation, analysis, chunking with byte spans, content hash, quoting and highlighting; the text of HTML pages.
//!
//! All functions are pure (no IO, no clock) and no input makes them panic.
//! All spans are byte ranges of the input string, on character boundaries.

#![forbid(unsafe_code)]

mod analyse;
mod chunk;
mod compound;
mod fold;
mod hash;
mod headings;
mod highlight;
mod html;
mod language;
mod pages;
mod policy;
mod query;
mod script;
mod segment;
mod signature;
mod stem;
mod table;
mod unit;
mod windows;

pub use analyse::{ANALYSER_VERSION, Analyser, Token, TokenKind, analyse, sequence, words};
pub use chunk::{Chunking, TokenOffsets, chunk};
pub use hash::text_hash;
pub use headings::heading_trails;
pub use highlight::{highlight, highlight_terms, snippet};
pub use html::HtmlPage;
pub use language::Language;
pub use pages::{PageMap, PageRange};
pub use policy::{Policy, split};
pub use query::{QueryCompound, QueryTerm, QueryTerms, StopWords, is_stop_word, query_terms, word_with_term};
pub use signature::Signature;
pub use table::table_headers;
