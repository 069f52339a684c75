//! See `titan::fuzzing::range_tombstones`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan::fuzzing::range_tombstones(data));
