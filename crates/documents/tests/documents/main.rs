//! Files of each format with known text, and files that attack a reader. All of them are made here.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod archives;
mod attacks;
mod features;
mod files;
mod formats;
mod mails;
mod mutations;
mod odf_features;
mod pdf;
