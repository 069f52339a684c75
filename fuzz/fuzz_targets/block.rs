//! See `titan::fuzzing::block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::block(data));
