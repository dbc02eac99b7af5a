//! Nothing runs from here: this crate exists for its tests, which check the repository itself.
