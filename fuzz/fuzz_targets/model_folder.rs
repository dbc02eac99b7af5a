//! A damaged model folder is refused with a reason, or embeds finite numbers.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

// shared with the test `folders` of weir-encoder
#[path = "../../crates/encoder/tests/encoder/folders/mutation.rs"]
mod mutation;

use mutation::{Choices, Folders};

/// Damaged folders are written here, one for each process.
static FOLDERS: LazyLock<Folders> = LazyLock::new(|| {
    // that of libFuzzer aborts at every panic, also at those of the `tokenizers` crate, which become refusals
    drop(std::panic::take_hook());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = root.join("target").join(format!("model_folder-{}", std::process::id()));
    Folders::new(&root.join("../fixtures/tiny"), &target)
});

fuzz_target!(|bytes: &[u8]| {
    FOLDERS.check(Choices(bytes));
});
