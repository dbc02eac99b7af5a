//! The stream of a provider, cut anywhere: see [`weir_llm::fuzzing::check_stream`]. Input: the lengths of the chunks, then the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, &[u8])| weir_llm::fuzzing::check_stream(&input.0, input.1));
