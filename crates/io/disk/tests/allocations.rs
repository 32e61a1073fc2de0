//! In steady state the writer thread allocates nothing.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use catchment_disk::{Disk, EngineChoice};
use common::*;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the ones that the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn writing_syncing_and_preallocating_allocate_nothing_once_warm() {
    for engine in [EngineChoice::Auto, EngineChoice::Portable] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut disk = Disk::new(config(engine)).expect("a disk");
        let file = disk.create(&path(folder.path(), "a")).expect("a new file");
        let mut completions = Vec::with_capacity(64);
        let mut warm = 0;
        // 64 MiB: the preallocation of 1 MiB is extended many times.
        for index in 0..1_000_u64 {
            if index == 100 {
                warm = ALLOCATIONS.with(Cell::get);
            }
            let buffer = loop {
                if let Some(buffer) = disk.buffer(Duration::from_secs(10), &mut completions) {
                    break buffer;
                }
            };
            disk.write(file, index * 65_536, buffer, 65_536, index);
            if index % 50 == 0 {
                disk.sync(file, index).expect("few syncs");
            }
            disk.poll(&mut completions);
            all_good(&completions);
            completions.clear();
        }
        assert_eq!(ALLOCATIONS.with(Cell::get) - warm, 0, "{}", disk.engine());
        all_good(&drain(&mut disk));
    }
}
