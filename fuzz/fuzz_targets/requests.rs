//! See `titan_campaigns::fuzz::requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan_campaigns::fuzz::requests(data));
