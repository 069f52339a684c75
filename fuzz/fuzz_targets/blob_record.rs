//! See `titan::fuzzing::blob_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::blob_record(data));
