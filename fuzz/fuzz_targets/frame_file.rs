//! Arbitrary bytes as a frame file: opened, walked, read whole, repaired.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| catchment_frame::fuzz_file(data));
