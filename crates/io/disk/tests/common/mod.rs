//! Shared by the tests of the disk: the engines and folders that must all behave alike.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use catchment_agent::{FolderStore as _, NewFile};
use catchment_disk::{
    Completion, CompletionKind, Disk, DiskConfig, EngineChoice, FaultPlan, FileId,
};

pub const BLOCK: usize = 4_096;

/// A small disk on one engine.
pub fn config(engine: EngineChoice) -> DiskConfig {
    DiskConfig {
        buffer_bytes: 16 * BLOCK,
        buffer_count: 4,
        preallocate_bytes: 1 << 20,
        engine,
        ..DiskConfig::default()
    }
}

/// Every available engine, with and without a disk that cuts writes short and reports late and out
/// of order.
pub fn every_engine() -> Vec<(String, DiskConfig)> {
    let mut all = Vec::new();
    for engine in [EngineChoice::Uring, EngineChoice::Portable] {
        if let Err(error) = Disk::new(config(engine)) {
            println!("skipped {engine:?}: {error}");
            continue;
        }
        all.push((format!("{engine:?}"), config(engine)));
        let plan = FaultPlan {
            seed: 7,
            short_writes_per_million: 300_000,
            delay_polls_max: 5,
            ..FaultPlan::default()
        };
        let faulty = DiskConfig { faults: Some(plan), ..config(engine) };
        all.push((format!("{engine:?}, short and late"), faulty));
    }
    assert!(!all.is_empty(), "the portable engine can always be had");
    all
}

/// A folder on the file system of temporary files, and one in memory if there is one.
pub fn every_folder() -> Vec<tempfile::TempDir> {
    let mut all = vec![tempfile::tempdir().expect("a temporary folder")];
    match tempfile::tempdir_in("/dev/shm") {
        Ok(folder) => all.push(folder),
        Err(error) => println!("skipped /dev/shm: {error}"),
    }
    all
}

/// Runs a check with every engine in every folder, each time in a separate folder.
pub fn with_all(check: impl Fn(DiskConfig, &Path)) {
    for (name, config) in every_engine() {
        for folder in every_folder() {
            println!("{name} in {}", folder.path().display());
            // Fault plans share their state between clones: each run gets a fresh one.
            let faults = config
                .faults
                .clone()
                .map(|plan| FaultPlan { control: catchment_disk::FaultControl::default(), ..plan });
            check(DiskConfig { faults, ..config.clone() }, folder.path());
        }
    }
}

/// Takes what has arrived, or otherwise waits until something may have; returns how much.
pub fn wait(disk: &mut Disk, completions: &mut Vec<Completion>) -> usize {
    match disk.poll(completions) {
        0 => {
            disk.sleeper().sleep(Duration::from_secs(10));
            disk.poll(completions)
        }
        came => came,
    }
}

/// Requests a file ahead.
pub fn ask_for(disk: &mut Disk, path: &Path) {
    disk.open(NewFile { path: path.to_owned(), room_bytes: 0 });
}

/// Waits until the requested file has been made.
pub fn wait_for_opened(disk: &mut Disk) {
    while disk.opened_bytes().is_none() {
        wait(disk, &mut Vec::new());
    }
}

/// Buffers that are free.
pub fn buffers_free(disk: &Disk) -> u64 {
    let stats = disk.stats();
    let (fill, buffer_bytes) = (stats.buffers(), 16 * BLOCK as u64);
    (fill.capacity() - fill.level()) / buffer_bytes
}

/// Waits until every operation accepted has given its completion.
pub fn drain(disk: &mut Disk) -> Vec<Completion> {
    let mut completions = Vec::new();
    while disk.pending() > 0 {
        wait(disk, &mut completions);
    }
    completions
}

/// Writes whole blocks of one byte value, waiting for a buffer where it must.
pub fn write(
    disk: &mut Disk,
    file: FileId,
    offset: usize,
    blocks: usize,
    value: u8,
    completions: &mut Vec<Completion>,
) {
    let mut buffer = loop {
        if let Some(buffer) = disk.try_buffer() {
            break buffer;
        }
        wait(disk, completions);
    };
    buffer[..blocks * BLOCK].fill(value);
    disk.write(file, offset as u64, buffer, blocks * BLOCK, value.into());
}

pub fn all_good(completions: &[Completion]) {
    for completion in completions {
        assert!(completion.result.is_ok(), "{completion:?}");
    }
}

pub fn of_kind(completions: &[Completion], kind: CompletionKind) -> Vec<&Completion> {
    completions.iter().filter(|completion| completion.kind == kind).collect()
}

pub fn error_numbers(completions: &[Completion]) -> Vec<Option<i32>> {
    let number = |c: &Completion| c.result.as_ref().err().and_then(std::io::Error::raw_os_error);
    completions.iter().map(number).collect()
}

/// Waits until the file opened ahead is there, or has failed.
pub fn taken(disk: &mut Disk) -> Result<FileId, catchment_disk::DiskError> {
    let mut completions = Vec::new();
    loop {
        if let Some(opened) = disk.take_opened() {
            assert!(completions.is_empty());
            return opened;
        }
        wait(disk, &mut completions);
    }
}

pub fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}
