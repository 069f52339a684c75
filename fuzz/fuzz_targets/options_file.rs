//! See `titan::fuzzing::options_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::options_file(data));
