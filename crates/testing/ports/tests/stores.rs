//! The store in memory, as any store.

use std::path::{Path, PathBuf};

use catchment_agent::FileId;
use catchment_ports::conformance::{
    BUFFER_BYTES, BUFFERS, Faults, FolderSubject, Subject, check_folder,
};
use catchment_ports::{MemoryFiles, MemoryStore, StoreFaults, StoreTimes, VirtualClock};

const ALWAYS: u64 = 1_000_000;

struct InMemory {
    store: MemoryStore,
    files: MemoryFiles,
    clock: VirtualClock,
}

impl Subject for InMemory {
    type Store = MemoryStore;

    fn store(&mut self) -> &mut MemoryStore {
        &mut self.store
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("folder").join(name)
    }

    fn create(&mut self, name: &str) -> FileId {
        self.store.create(&self.path(name))
    }

    fn wait(&mut self) {
        let next_ns = self.clock.now_ns() + 1_000_000;
        let due_ns = Some(self.store.watch().due_ns()).filter(|&due_ns| due_ns < u64::MAX);
        self.clock.advance_to(due_ns.unwrap_or(next_ns));
    }

    fn pass(&mut self) {
        self.clock.advance_to(self.clock.now_ns() + 10_000_000);
    }

    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        self.files.all().into_iter().find(|(other, _)| other == path).map(|(_, bytes)| bytes)
    }

    fn set(&mut self, faults: Faults) -> bool {
        let always = |fails| if fails { ALWAYS } else { 0 };
        self.store.watch().set_faults(StoreFaults {
            write_errors: always(faults.writes),
            sync_errors: always(faults.syncs),
            open_errors: always(faults.opens),
            finish_errors: always(faults.finishes),
            text_errors: always(faults.texts),
            hangs: always(faults.hang),
            full_ns: faults.full.then_some((0, u64::MAX)),
            ..StoreFaults::default()
        });
        true
    }
}

impl FolderSubject for InMemory {
    fn truncate(&mut self, path: &Path, bytes: u64) {
        self.files.truncate(path, bytes);
    }

    fn remove(&mut self, path: &Path) {
        self.files.remove(path);
    }
}

#[test]
fn the_store_in_memory_is_a_store_whatever_the_order_in_which_it_completes() {
    for seed in 0..50 {
        println!("seed {seed}");
        check_folder(|| {
            let clock = VirtualClock::at(1);
            let times = StoreTimes {
                operation_ns_max: 20_000_000,
                open_ns_max: 20_000_000,
                sync_interval_ns: 1_000_000_000,
                ..StoreTimes::default()
            };
            let buffers = (BUFFERS, BUFFER_BYTES);
            let store = MemoryStore::new((clock.clone(), seed), buffers, times);
            InMemory { files: store.files(), store, clock }
        });
    }
}
