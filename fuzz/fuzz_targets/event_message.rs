//! Arbitrary bytes as a data connection of events, of channels, and of frames: read message by
//! message, and each encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _count_or_fault = catchment_wire::fuzz_events(data);
    let _count_or_fault = catchment_wire::fuzz_channels(data);
    let _count_or_fault = catchment_wire::fuzz_storage(data);
});
