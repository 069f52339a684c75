//! See `titan::fuzzing::index`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::index(data));
