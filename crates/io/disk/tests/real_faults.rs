//! Faults from the system itself: a full disk, a read-only or missing folder.

use crate::common::*;
use catchment_disk::{CompletionKind, Disk, DiskConfig, DiskError, EngineChoice};
use catchment_fixtures::SmallDisk;

#[test]
fn a_really_full_disk_fails_writes_keeps_what_was_written_and_works_again_with_space() {
    for engine in [EngineChoice::Auto, EngineChoice::Portable] {
        let Some(small) = SmallDisk::in_memory("size=8m") else { return };
        let folder = small.path();
        let filler = path(folder, "filler");
        std::fs::write(&filler, vec![1; 6 << 20]).expect("6 of 8 MiB");
        // The step of preallocation is larger than the disk: it is refused, and everything
        // continues without.
        let config = DiskConfig { preallocate_bytes: 64 << 20, ..config(engine) };
        let mut disk = Disk::new(config).expect("a disk");
        let first = path(folder, "0.catch");
        let file = disk.create(&first).expect("a new file");
        let mut completions = Vec::new();
        for index in 0..64 {
            write(&mut disk, file, index * 16 * BLOCK, 16, index as u8, &mut completions);
        }
        completions.extend(drain(&mut disk));
        let failed: Vec<_> = completions.iter().filter(|c| c.result.is_err()).collect();
        assert!(!failed.is_empty() && failed.len() < 64, "{} of 64 failed", failed.len());
        for completion in &failed {
            let error = completion.result.as_ref().expect_err("failed").raw_os_error();
            assert_eq!(error, Some(libc::ENOSPC));
        }
        assert_eq!((completions.len(), buffers_free(&disk)), (64, 4));
        let good = failed.iter().map(|c| c.offset).min().expect("some failed");
        disk.finish(file, good);
        all_good(&drain(&mut disk));
        let bytes = std::fs::read(&first).expect("the file");
        assert_eq!(bytes.len() as u64, good);
        for (index, block) in bytes.chunks(16 * BLOCK).enumerate() {
            assert!(block.iter().all(|&byte| byte == index as u8), "write {index}");
        }

        std::fs::remove_file(&filler).expect("the filler");
        ask_for(&mut disk, &path(folder, "1.catch"));
        let file = taken(&mut disk).expect("a new file");
        let mut completions = Vec::new();
        for index in 0..64 {
            write(&mut disk, file, index * 16 * BLOCK, 16, index as u8, &mut completions);
        }
        disk.finish(file, 64 * 16 * BLOCK as u64);
        completions.extend(drain(&mut disk));
        all_good(&completions);
        assert_eq!(of_kind(&completions, CompletionKind::Finished).len(), 1);
    }
}

#[test]
fn a_read_only_folder_is_named_with_its_reason() {
    let Some(small) = SmallDisk::in_memory("size=1m") else { return };
    let folder = small.path();
    small.make_read_only();
    let mut disk = Disk::new(config(EngineChoice::Auto)).expect("a disk");
    let file = path(folder, "0.catch");
    let error = disk.create(&file).expect_err("it is read-only");
    assert_eq!(error.io().map(std::io::Error::kind), Some(std::io::ErrorKind::ReadOnlyFilesystem));
    let text = error.to_string();
    assert!(text.starts_with(&format!("cannot create {}: Read-only", file.display())), "{text}");
    ask_for(&mut disk, &file);
    let later = taken(&mut disk).expect_err("it is read-only");
    assert_eq!(later.to_string(), text);
}

#[test]
fn a_folder_that_is_missing_or_no_folder_is_named_with_its_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut disk = Disk::new(config(EngineChoice::Auto)).expect("a disk");
    let error = disk.create(&path(folder.path(), "missing/0.catch")).expect_err("no folder");
    assert!(error.to_string().contains("missing/0.catch: No such file"), "{error}");
    std::fs::write(path(folder.path(), "plain"), "").expect("a file");
    let error = disk.create(&path(folder.path(), "plain/0.catch")).expect_err("no folder");
    assert!(matches!(error, DiskError::Create { .. }), "{error}");
    assert!(error.to_string().contains("plain/0.catch: Not a directory"), "{error}");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_of_the_write() {
    // Beyond the largest offset that the file system knows (16 TiB on ext4 with 4 KiB blocks).
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut disk = Disk::new(config(EngineChoice::Auto)).expect("a disk");
    let file = disk.create(&path(folder.path(), "0")).expect("a new file");
    let offset = (i64::MAX as usize - 16 * BLOCK) / BLOCK * BLOCK;
    write(&mut disk, file, offset, 1, 1, &mut Vec::new());
    let completions = drain(&mut disk);
    if completions[0].result.is_ok() {
        println!("skipped: this file system takes any offset");
        return;
    }
    assert_eq!(error_numbers(&completions), [Some(libc::EFBIG)]);
    assert_eq!(buffers_free(&disk), 4);
}
