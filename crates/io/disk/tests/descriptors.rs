//! A process with no descriptors left still gets its next file. A separate program, because the
//! limit applies to the whole process.

mod common;

use std::fs::File;

use catchment_agent::Store as _;
use catchment_disk::{Disk, EngineChoice, PageCache};
use common::*;

#[test]
fn files_are_opened_and_finished_where_others_have_taken_all_descriptors() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut disk = Disk::new(config(EngineChoice::Auto)).expect("a disk");
    let first = disk.create(&path(folder.path(), "0")).expect("a new file");
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let mut taken_by_others = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken_by_others.push(file);
    }
    assert!(!taken_by_others.is_empty(), "there were some");
    ask_for(&mut disk, &path(folder.path(), "1"));
    let second = taken(&mut disk).expect("the next file");
    for file in [first, second] {
        write(&mut disk, file, 0, 1, 1, &mut Vec::new());
        disk.finish(file, BLOCK as u64);
    }
    all_good(&drain(&mut disk));
    let mut trends = PageCache::new(BLOCK, None);
    let trend = trends.create(&path(folder.path(), "2")).expect("another one");
    assert!(trends.sync(trend, 0), "its folder is opened for it");
    let mut completions = Vec::new();
    trends.poll(&mut completions);
    all_good(&completions);
}
