//! See `titan::fuzzing::liveness`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::liveness(data));
