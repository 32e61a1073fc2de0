//! Arbitrary bytes as a packet of a channel link: parsed, and what is accepted encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| catchment_wire::fuzz_link(data));
