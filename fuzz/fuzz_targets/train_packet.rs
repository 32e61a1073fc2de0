//! Arbitrary bytes as a packet of a train: decoded, and what is accepted encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| catchment_wire::fuzz_train(data));
