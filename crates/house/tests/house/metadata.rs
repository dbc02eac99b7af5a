//! What `cargo metadata` knows.

use std::process::Command;

use serde_json::Value;

use crate::root;

/// `cargo metadata` of this workspace, from the lock file as it stands, with more arguments.
pub(crate) fn cargo_metadata(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// The elements of an array in the metadata; a missing array is an error, never empty.
pub(crate) fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("cargo metadata has no array `{key}`"))
}

/// A string in the metadata; empty when it is null or missing.
pub(crate) fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
