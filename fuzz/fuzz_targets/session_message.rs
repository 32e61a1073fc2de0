//! Arbitrary bytes as a control connection: read message by message, and each encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _count_or_fault = catchment_wire::fuzz_session(data);
});
