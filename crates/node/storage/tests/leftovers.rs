//! Space taken by a killed recorder beyond its data is freed, and nothing else.

use std::path::{Path, PathBuf};

use crate::common;
use catchment_disk::EditFile;
use catchment_storage::{Leftovers, Outcome, Run, remove_leftovers, repair, verify};
use common::Recipe;

/// A run whose recorder was killed: blocks ahead in its last file, and a file made ahead.
fn killed() -> (common::Made, PathBuf) {
    let made = Recipe { unclosed: true, ..Recipe::default() }.make();
    let ahead = made.path().join("run-00002.catch");
    std::fs::File::create(&ahead).unwrap().set_len(3 << 20).unwrap();
    (made, ahead)
}

fn bytes(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

#[test]
fn blocks_ahead_and_a_file_made_ahead_are_given_back_and_frames_stay() {
    let (made, ahead) = killed();
    let last = &made.files[1];
    let frame = made.frames[1].last().unwrap().0;
    let end = frame.offset + frame.frame_bytes;
    let before = bytes(last);
    assert_eq!(before, end + 64 * 4_096);
    // Written zeros are zeros, too.
    let file = std::fs::OpenOptions::new().write(true).open(last).unwrap();
    file.set_len(end).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; 64 * 4_096], end).unwrap();
    let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
    file.set_modified(written).unwrap();
    let found = remove_leftovers(made.path()).unwrap();
    let given = 64 * 4_096 + (3 << 20);
    let expected =
        Leftovers { removed: vec![ahead.clone()], cut: vec![last.clone()], bytes: given };
    assert_eq!(found, expected);
    assert!(!ahead.exists() && bytes(last) == end);
    assert_eq!(last.metadata().unwrap().modified().unwrap(), written, "nothing was written");
    let run = Run::open(made.path()).unwrap();
    assert_eq!((run.event_count(), run.closed()), (16, false));
    assert!(verify(&run, |_| {}).is_intact());
    assert_eq!(remove_leftovers(made.path()).unwrap(), Leftovers::default(), "nothing is left");
    assert_eq!(repair(made.path()).unwrap().files[1].outcome, Outcome::Closed);
    assert_eq!(Run::open(made.path()).unwrap().event_count(), 16);
}

#[test]
fn a_file_that_was_closed_and_not_yet_cut_is_cut_behind_its_trailer() {
    let made = Recipe::default().make();
    let before = bytes(&made.files[1]);
    let file = std::fs::OpenOptions::new().write(true).open(&made.files[1]).unwrap();
    file.set_len(before + 64 * 4_096).unwrap();
    let found = remove_leftovers(made.path()).unwrap();
    assert_eq!((found.cut, found.bytes), (vec![made.files[1].clone()], 64 * 4_096));
    let run = Run::open(made.path()).unwrap();
    assert_eq!((bytes(&made.files[1]), run.closed()), (before, true));
}

#[test]
fn a_frame_that_was_under_way_stays_for_a_repair_to_tell() {
    let (made, _) = killed();
    let frame = made.frames[1].last().unwrap().0;
    let end = frame.offset + frame.frame_bytes;
    let file = std::fs::OpenOptions::new().write(true).open(&made.files[1]).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7], end + 3 * 4_096 + 5).unwrap();
    let found = remove_leftovers(made.path()).unwrap();
    assert_eq!((found.cut.len(), bytes(&made.files[1])), (1, end + 4 * 4_096));
    // With anything in the place of the next header, the rest may be a frame.
    file.set_len(end + 64 * 4_096).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7], end + 5).unwrap();
    assert_eq!(remove_leftovers(made.path()).unwrap(), Leftovers::default());
}

#[test]
fn a_run_that_somebody_holds_is_left_alone_and_so_is_what_may_be_data() {
    let (made, ahead) = killed();
    let held = EditFile::open(&made.files[0]).unwrap();
    assert_eq!(remove_leftovers(made.path()).unwrap(), Leftovers::default());
    drop(held);
    // A file with an overwritten header is not an empty file.
    let mut damaged = std::fs::read(&made.files[0]).unwrap();
    damaged[..4_096].fill(0);
    std::fs::write(&ahead, &damaged[..damaged.len() - 4_096]).unwrap();
    let found = remove_leftovers(made.path()).unwrap();
    assert!(found.removed.is_empty() && ahead.exists());
    // A run's first file may just have been made.
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("run-00000.catch");
    std::fs::write(&first, "").unwrap();
    assert_eq!(remove_leftovers(folder.path()).unwrap(), Leftovers::default());
    assert!(first.exists());
}
