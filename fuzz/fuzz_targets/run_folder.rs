//! Arbitrary files in one folder: opened as a run, audited, repaired.
#![no_main]

#[allow(dead_code, reason = "the crate's tests use the rest")]
#[path = "../../crates/node/storage/tests/folders/mod.rs"]
mod folders;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| folders::Folder::unpack(data).examine());
