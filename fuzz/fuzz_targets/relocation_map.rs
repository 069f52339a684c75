//! See `titan::fuzzing::relocation_map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::relocation_map(data));
