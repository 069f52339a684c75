//! See `titan::fuzzing::write_batch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::write_batch(data));
