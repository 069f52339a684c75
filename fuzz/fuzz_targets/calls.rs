//! See `titan_campaigns::fuzz::calls`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan_campaigns::fuzz::calls(data));
