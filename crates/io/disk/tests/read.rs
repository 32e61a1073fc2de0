//! Reading, listing and repairing files.

use std::os::unix::fs::FileExt;

use crate::common::path;
use catchment_disk::{Disk, DiskConfig, DiskError, EditFile, ReadFile, list_folder, sync_folder};
use catchment_frame::ReadAt;

#[test]
fn reads_are_positioned_and_short_only_at_the_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = path(folder.path(), "a");
    std::fs::write(&path, "0123456789").expect("a file");
    let file = ReadFile::open(&path).expect("the file");
    assert_eq!(file.bytes().expect("a size"), 10);
    let mut buffer = [0; 4];
    assert_eq!(file.read_at(3, &mut buffer).expect("a read"), 4);
    assert_eq!(&buffer, b"3456");
    assert_eq!(file.read_at(8, &mut buffer).expect("a read"), 2);
    assert_eq!(&buffer, b"8956");
    assert_eq!(file.read_at(10, &mut buffer).expect("a read"), 0);
    assert_eq!(file.read_at(u64::MAX / 4, &mut buffer).expect("a read"), 0);
    assert!(file.read_at(u64::MAX, &mut buffer).is_err());
    std::fs::write(&path, "0123456789ab").expect("it grows");
    assert_eq!(file.bytes().expect("a size"), 12);
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let missing = path(folder.path(), "missing.catch");
    let error = ReadFile::open(&missing).expect_err("it is not there");
    assert!(matches!(error, DiskError::Path { action: "open", .. }));
    assert!(error.to_string().contains("missing.catch: No such file"), "{error}");
    assert!(EditFile::open(&missing).is_err());
    assert!(!missing.exists(), "repair makes no files");
    assert!(list_folder(&missing).is_err());
}

#[test]
fn a_file_is_repaired_in_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = path(folder.path(), "a");
    std::fs::write(&path, "good, then torn").expect("a file");
    let file = EditFile::open(&path).expect("the file");
    file.write_at(4, b" and TOC").expect("a write");
    file.truncate(12).expect("a cut");
    file.sync().expect("a sync");
    assert_eq!(std::fs::read(&path).expect("the file"), b"good and TOC");
}

#[test]
fn a_folder_is_listed_in_order() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in [("b.catch", 3), ("a.catch", 5)] {
        std::fs::write(path(folder.path(), name), vec![0; bytes]).expect("a file");
    }
    std::fs::create_dir(path(folder.path(), "c")).expect("a folder");
    sync_folder(folder.path()).expect("a sync");
    let entries = list_folder(folder.path()).expect("the folder");
    let listed: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.bytes, e.is_folder)).collect();
    assert_eq!(listed, [("a.catch", 5, false), ("b.catch", 3, false), ("c", 0, true)]);
    assert_eq!(entries[0].path, path(folder.path(), "a.catch"));
}

#[test]
fn a_file_that_is_being_written_cannot_be_edited() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = path(folder.path(), "a");
    let config = DiskConfig { buffer_bytes: 4096, buffer_count: 2, ..DiskConfig::default() };
    let mut disk = Disk::new(config).expect("a disk");
    disk.create(&path).expect("a file");
    let error = EditFile::open(&path).expect_err("it is busy").to_string();
    assert!(error.contains("being written"), "{error}");
    drop(disk);
    assert!(EditFile::open(&path).is_ok(), "its writer is gone");
}

#[test]
fn holes_are_passed_over_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let file = std::fs::File::create(&path).expect("creates");
    let (data, end) = (5_u64 << 20, 50 << 20);
    file.write_all_at(b"here", data).expect("writes");
    file.set_len(end).expect("grows");
    let file = ReadFile::open(&path).expect("opens");
    for offset in [0, 4_096, data, data + 3] {
        let found = file.next_data(offset).expect("there is something");
        assert!((offset..=data.max(offset)).contains(&found), "{found} from {offset}");
    }
    // A file system without holes reports that everything may be data.
    for offset in [20 << 20, end - 1] {
        assert!([None, Some(offset)].contains(&file.next_data(offset)));
    }
    assert!(file.next_data(u64::MAX).is_none());
    let mut byte = [0];
    assert_eq!((file.read_at(data, &mut byte).expect("reads"), byte), (1, *b"h"));
}
