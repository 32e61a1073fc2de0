//! Arbitrary bytes as a column of each codec: decoded, and encoded and decoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| catchment_codec::fuzz_column(data));
