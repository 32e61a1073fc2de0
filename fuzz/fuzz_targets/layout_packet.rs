//! Arbitrary bytes as a packet of each declared layout of the examples.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| catchment_wire::fuzz_layout(data));
