//! Thousands of damaged model folders: each is refused with a reason, or embeds finite numbers. None panics or aborts.

#![allow(clippy::print_stdout, reason = "prints what became of the folders")]

mod mutation;

use std::path::Path;

use mutation::{Choices, Folders, Outcome};

/// Folders in `make test`, and by `make attack`.
const FOLDERS: [u64; 2] = [2_000, 200_000];

/// Bytes of the choices for one folder.
const CHOICES_BYTES: usize = 160;

/// Random numbers from a seed (SplitMix64).
fn random_bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    (0..CHOICES_BYTES / 8).flat_map(|_| next().to_le_bytes()).collect()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a setting of the tests, not of the product")]
fn damaged_folders_are_refused_or_embed_finite_numbers() {
    let is_full = std::env::var_os("WEIR_ATTACK").is_some_and(|length| length == "full");
    let target = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny");
    let folders = Folders::new(&fixtures, target.path());
    let count = FOLDERS[usize::from(is_full)];
    let embedding = (0..count)
        .filter(|seed| {
            let bytes = random_bytes(*seed);
            let checked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| folders.check(Choices(&bytes))));
            checked.unwrap_or_else(|_| panic!("folder {seed} panicked")) == Outcome::Embeds
        })
        .count();
    println!("held  {count} damaged model folders: {embedding} embed finite numbers, the others are refused");
    // the damage is neither always nor never noticed
    assert!((count as usize / 20..count as usize * 19 / 20).contains(&embedding), "{embedding} of {count}");
}
