//! See `titan::fuzzing::blob_index`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::blob_index(data));
