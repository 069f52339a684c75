//! See `titan::fuzzing::table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::table(data));
