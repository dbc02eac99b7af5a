//! The binary `weir`.
fn main() {}
