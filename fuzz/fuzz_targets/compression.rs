//! See `titan::fuzzing::compression`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::compression(data));
