#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ibeam_core::peer::cli::fuzz(data));
