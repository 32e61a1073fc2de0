//! In steady state the writer thread allocates nothing.

mod common;

use catchment_disk::{Disk, EngineChoice};
use catchment_fixtures::CountingAllocator;
use common::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

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
                warm = ALLOCATOR.count();
            }
            let buffer = loop {
                if let Some(buffer) = disk.try_buffer() {
                    break buffer;
                }
                wait(&mut disk, &mut completions);
            };
            disk.write(file, index * 65_536, buffer, 65_536, index);
            if index % 50 == 0 {
                disk.sync(file, index).expect("few syncs");
            }
            disk.poll(&mut completions);
            all_good(&completions);
            completions.clear();
        }
        assert_eq!(ALLOCATOR.count() - warm, 0, "{}", disk.engine());
        all_good(&drain(&mut disk));
    }
}
