//! Analysis, chunks and the text of HTML pages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod analysis;
mod chunking;
mod html;
