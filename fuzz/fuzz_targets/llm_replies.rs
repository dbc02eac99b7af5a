//! The whole reply of a provider: see [`weir_llm::fuzzing::check_reply`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| weir_llm::fuzzing::check_reply(body));
