//! The disk with each engine, and the page cache, as any store.

use std::path::{Path, PathBuf};

use crate::common::*;
use catchment_agent::FileId;
use catchment_disk::{Disk, DiskConfig, FaultControl, FaultPlan, PageCache};
use catchment_ports::conformance::{
    BUFFER_BYTES, BUFFERS, Faults, FolderSubject, Subject, check_folder, check_store,
};

const EIO: Option<i32> = Some(libc::EIO);

/// The common parts of both: a folder, and faults injected in it.
struct Bed {
    folder: tempfile::TempDir,
    control: FaultControl,
}

impl Bed {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&self, faults: Faults) {
        self.control.fail_writes(EIO.filter(|_| faults.writes));
        self.control.fail_syncs(EIO.filter(|_| faults.syncs));
        self.control.fail_finishes(EIO.filter(|_| faults.finishes));
        self.control.refuse_opens(EIO.filter(|_| faults.opens));
        self.control.set_space(faults.full.then_some(0));
        self.control.stall(faults.hang);
        let list = self.path("list");
        if faults.texts {
            std::fs::create_dir(&list).expect("no text can be written there");
        } else if list.is_dir() {
            std::fs::remove_dir(&list).expect("it is empty");
        }
    }
}

struct OnDisk {
    disk: Disk,
    bed: Bed,
}

impl Subject for OnDisk {
    type Store = Disk;

    fn store(&mut self) -> &mut Disk {
        &mut self.disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bed.path(name)
    }

    fn create(&mut self, name: &str) -> FileId {
        self.disk.create(&self.bed.path(name)).expect("a new file")
    }

    fn wait(&mut self) {
        self.disk.sleeper().sleep(std::time::Duration::from_secs(10));
    }

    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        std::fs::read(path).ok()
    }

    fn set(&mut self, faults: Faults) -> bool {
        self.bed.set(faults);
        true
    }
}

impl FolderSubject for OnDisk {
    fn truncate(&mut self, path: &Path, bytes: u64) {
        let other = std::fs::OpenOptions::new().write(true).open(path).expect("opens");
        other.set_len(bytes).expect("cuts");
    }

    fn remove(&mut self, path: &Path) {
        std::fs::remove_file(path).expect("removes");
    }
}

struct InPageCache {
    store: PageCache,
    bed: Bed,
}

impl Subject for InPageCache {
    type Store = PageCache;

    fn store(&mut self) -> &mut PageCache {
        &mut self.store
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bed.path(name)
    }

    fn create(&mut self, name: &str) -> FileId {
        self.store.create(&self.bed.path(name)).expect("a new file")
    }

    fn wait(&mut self) {}

    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        std::fs::read(path).ok()
    }

    fn set(&mut self, faults: Faults) -> bool {
        self.bed.set(faults);
        !faults.hang
    }

    fn has_bounded_buffers(&self) -> bool {
        false
    }
}

#[test]
fn a_disk_with_any_engine_is_a_store() {
    for (name, config) in every_engine() {
        for memory in [false, true] {
            if memory && tempfile::tempdir_in("/dev/shm").is_err() {
                println!("skipped: there is no /dev/shm");
                continue;
            }
            println!("{name}, in memory: {memory}");
            check_folder(|| {
                let folder =
                    if memory { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
                let control = FaultControl::default();
                let plan = config.faults.clone().unwrap_or_default();
                let plan = FaultPlan { control: control.clone(), ..plan };
                let config = DiskConfig {
                    buffer_bytes: BUFFER_BYTES,
                    buffer_count: BUFFERS,
                    preallocate_bytes: 0,
                    faults: Some(plan),
                    ..config.clone()
                };
                let disk = Disk::new(config).expect("a disk");
                OnDisk { disk, bed: Bed { folder: folder.expect("a folder"), control } }
            });
        }
    }
}

#[test]
fn the_page_cache_is_a_store() {
    check_store(|| {
        let control = FaultControl::default();
        let store = PageCache::new(BUFFER_BYTES, Some(control.clone()));
        let folder = tempfile::tempdir().expect("a folder");
        InPageCache { store, bed: Bed { folder, control } }
    });
}
