//! See `titan::fuzzing::version_edit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::version_edit(data));
