//! The text of HTML pages: rules one by one, whole pages against recorded texts, random pages against a model of
//! browsers, and all of these in Chromium where it is installed.
#![allow(clippy::disallowed_methods, reason = "`UPDATE_FIXTURES` is read by a test")]

mod chromium;
mod pages;
mod random;
mod rules;
