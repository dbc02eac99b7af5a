//! The body of a chat request, of each API: see [`weir_llm::fuzzing::check_request`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| weir_llm::fuzzing::check_request(body));
