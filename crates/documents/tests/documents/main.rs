//! Files that the tests write, and the texts that the readers make of them.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "every target of this folder is a test")]

mod attacks;
mod features;
mod files;
mod formats;
mod mails;
mod mutations;
mod odf_features;
