//! See `titan::fuzzing::entity`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::entity(data));
