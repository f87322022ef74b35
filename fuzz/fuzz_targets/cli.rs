#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ibeam_core::cli::fuzz(data));
