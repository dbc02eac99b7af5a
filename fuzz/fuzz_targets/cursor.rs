//! No cursor panics; only what was sealed is taken, and it leads where it was made for.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_store::{CollectionId, GenerationId};

// the gateway keeps it to itself
#[allow(dead_code, reason = "the target needs a part of it")]
#[path = "../../crates/gateway/src/http/cursor.rs"]
mod cursor;

use cursor::{Binding, Cursor, RequestHash, Seal};

static SEAL: LazyLock<Seal> = LazyLock::new(|| Seal::of_folder(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target"))));

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
        assert!(SEAL.open(&binding, text).is_err(), "nobody sealed it");
    }
    let _ = binding.read(bytes);
    let made = Cursor { reached: number(2), offset: number(3), degraded: Vec::new(), order: Vec::new() };
    let text = SEAL.close(&binding, &made);
    assert_eq!(SEAL.open(&binding, &text), Ok(made));
    let elsewhere = Binding { collection: CollectionId(!binding.collection.0), ..binding };
    assert!(SEAL.open(&elsewhere, &text).is_err());
    let place = number(0) as usize % text.len();
    let changed = [&text[..place], if text[place..].starts_with('A') { "B" } else { "A" }, &text[place + 1..]];
    assert!(SEAL.open(&binding, &changed.concat()).is_err());
});
