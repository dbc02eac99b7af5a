//! No text panics; only signed cursors are accepted, and only for their own request.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_store::{CollectionId, GenerationId};

// without its crate, whose dependencies are those of the store
#[allow(dead_code, reason = "the target needs a part of it")]
#[path = "../../crates/cursor/src/lib.rs"]
mod cursor;

use cursor::{Binding, Cursor, CursorKey, RequestHash};

static KEY: LazyLock<CursorKey> = LazyLock::new(|| CursorKey::of_folder(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target"))));

fuzz_target!(|bytes: &[u8]| {
    let number = |place: usize| {
        let eight = bytes.get(8 * place..8 * (place + 1)).and_then(|eight| eight.try_into().ok());
        u64::from_le_bytes(eight.unwrap_or_default())
    };
    let binding = Binding {
        collection: CollectionId(number(0).cast_signed()),
        generation: GenerationId(number(1).cast_signed()),
        request: RequestHash::of(&[bytes]),
    };
    if let Ok(text) = str::from_utf8(bytes) {
        assert!(KEY.verify(&binding, text).is_err(), "it was not signed");
    }
    let cursor = Cursor { applied_seq: number(2), offset: number(3), degraded: Vec::new(), order: Vec::new() };
    let text = KEY.sign(&binding, &cursor);
    assert_eq!(KEY.verify(&binding, &text), Ok(cursor));
    let elsewhere = Binding { collection: CollectionId(!binding.collection.0), ..binding };
    assert!(KEY.verify(&elsewhere, &text).is_err());
    let place = number(0) as usize % text.len();
    let changed = [&text[..place], if text[place..].starts_with('A') { "B" } else { "A" }, &text[place + 1..]];
    assert!(KEY.verify(&binding, &changed.concat()).is_err());
});
