//! See `titan::fuzzing::wal_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::wal_record(data));
