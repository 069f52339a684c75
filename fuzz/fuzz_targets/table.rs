//! See `titan::fuzzing::table` and `titan_tools::fuzzing::table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    titan::fuzzing::table(data);
    titan_tools::fuzzing::table(data);
});
