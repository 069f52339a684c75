//! See `titan::fuzzing::properties`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::properties(data));
