//! See `titan::fuzzing::footer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::footer(data));
