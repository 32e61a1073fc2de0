//! Arbitrary bytes as a GWF file: opened by its FrTOC and by walking, read whole.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| catchment_interop::gwf::fuzz_file(data));
