//! What several nodes are sent of a spill whose files were removed or cut, and what is counted.

use catchment_disk::ReadFile;
use catchment_fixtures::Random;
use catchment_frame::{FileReader, FrameInfo};
use catchment_model::RunId;

use super::*;
use crate::config::{RecorderConfig, SourceConfig};
use crate::file::OfRun;
use crate::schema::schema;

/// Frames of several nodes, of which some are in three files of a spill.
const FILES: [&[u64]; 3] = [&[1, 5, 9], &[12, 14], &[20]];

/// A spill of several nodes whose files are closed.
fn spilled(folder: &Path, counts: &Arc<SpillCounts>) -> Spill {
    let mut spill = spilled_for("nobody:1, nobody:2", folder, counts);
    spill.close().unwrap();
    spill
}

/// A spill whose last file is open.
fn spilled_for(node: &str, folder: &Path, counts: &Arc<SpillCounts>) -> Spill {
    let source = SourceConfig::new("source".to_owned(), ([127, 0, 0, 1], 0).into());
    let config = RecorderConfig::new("".into(), vec![source]);
    let run = RunId([7; 16]);
    let identity = Identity {
        node: node.to_owned(),
        name: "run".to_owned(),
        run,
        stream: 0,
        variant: 0,
        begins: 0,
    };
    let header = OfRun::of(&config).header(run, &Arc::new(schema(&config).unwrap()), 0).encode();
    let config = SpillConfig { folder: folder.to_owned(), bytes_max: 1 << 30 };
    let mut spill = Spill::create(&config, identity, &header, counts).unwrap();
    for numbers in FILES {
        spill.close().unwrap();
        let frame = |number: &u64| {
            let info = FrameInfo { sequence: *number, ..FrameInfo::EMPTY };
            Outgoing { info, ..spill.stand_in(*number, number + 1) }
        };
        let frames: Vec<Outgoing> = numbers.iter().map(frame).collect();
        for frame in &frames {
            assert!(spill.put(frame, &config, &mut Random::new(frame.info.sequence)).is_ok());
        }
        spill.sync(frames.iter()).unwrap();
    }
    spill
}

/// The next program's.
fn left(folder: &Path, counts: &Arc<SpillCounts>) -> Spill {
    let Found::Stream(lock) = StreamLock::find(&folder.join("run")).unwrap() else {
        panic!("it is left")
    };
    Spill::left(*lock, &folder.join("run"), counts).unwrap()
}

/// The numbers of all frames that are sent, which are durable then, and what is left of the spill.
fn sent(spill: Spill) -> (Vec<u64>, Spill) {
    let mut backlog = Backlog::new(spill);
    let mut numbers = Vec::new();
    while let Some(frame) = backlog.read_dealt(&mut |_| {}) {
        numbers.push(frame.info.sequence);
    }
    assert!(backlog.is_read());
    (numbers, backlog.spill)
}

fn path(folder: &Path, index: usize) -> std::path::PathBuf {
    folder.join("run").join(format!("spill-{index:05}-{}.catch", FILES[index][0]))
}

/// Frames that are lost, and how many of them because their files were removed.
fn lost(counts: &SpillCounts) -> [u64; 2] {
    let counts = counts.read();
    [counts.frames_lost, counts.frames_removed]
}

#[test]
fn frames_are_in_the_spill_alone_from_the_first_one_of_its_files_on() {
    let folder = tempfile::tempdir().unwrap();
    let counts = Arc::<SpillCounts>::default();
    assert_eq!(counts.spilled_from(), u64::MAX);
    let mut spill = spilled(folder.path(), &counts);
    for (durable, expected) in [(0, 1), (9, 1), (10, 12), (15, 20), (21, u64::MAX)] {
        assert_eq!(spill.remove_below(durable, 0), Vec::<String>::new());
        assert_eq!(counts.spilled_from(), expected, "{durable}");
    }
}

#[test]
fn numbers_between_those_of_a_removed_file_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let counts = Arc::<SpillCounts>::default();
    let spill = spilled(folder.path(), &counts);
    std::fs::remove_file(path(folder.path(), 0)).unwrap();
    let (numbers, mut spill) = sent(spill);
    assert_eq!((numbers, lost(&counts)), (vec![12, 14, 20], [3, 3]));
    spill.remove_below(21, 0);
    assert_eq!((spill.is_empty(), counts.read().frames_forwarded), (true, 3));
}

#[test]
fn files_removed_between_two_programs_are_counted_once() {
    for is_killed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let spill = spilled(folder.path(), &Arc::default());
        match is_killed {
            true => drop(spill),
            false => assert!(spill.hand_over(0).warnings.is_empty()),
        }
        // One before others, and the last one.
        for index in [0, 2] {
            std::fs::remove_file(path(folder.path(), index)).unwrap();
        }
        let counts = Arc::<SpillCounts>::default();
        let mut spill = left(folder.path(), &counts);
        assert_eq!(lost(&counts), [4, 4]);
        let warnings = spill.remove_below(0, 0).join("\n");
        assert!(warnings.contains("4 spilled frames are lost"), "{warnings}");
        let (numbers, spill) = sent(spill);
        assert_eq!((numbers, lost(&counts)), (vec![12, 14], [4, 4]));
        spill.hand_over(13);
        // One that forwards nothing.
        left(folder.path(), &Arc::default()).hand_over(0);
        // What is left of the other one.
        std::fs::remove_file(path(folder.path(), 1)).unwrap();
        let counts = Arc::<SpillCounts>::default();
        let spill = left(folder.path(), &counts);
        assert_eq!((lost(&counts), spill.is_empty()), ([1, 1], true));
        spill.hand_over(13);
        let counts = Arc::<SpillCounts>::default();
        assert!(left(folder.path(), &counts).is_empty());
        assert_eq!(lost(&counts), [0, 0]);
    }
}

#[test]
fn what_was_in_removed_files_is_counted_once_after_a_kill_wherever_it_was_to_go() {
    for node in ["nobody:1", "nobody:1, nobody:2", "/nobody/runs"] {
        for removed in [&[0][..], &[2], &[0, 1, 2]] {
            let folder = tempfile::tempdir().unwrap();
            drop(spilled_for(node, folder.path(), &Arc::default()));
            for &index in removed {
                std::fs::remove_file(path(folder.path(), index)).unwrap();
            }
            let frames: usize = removed.iter().map(|&index| FILES[index].len()).sum();
            let counts = Arc::<SpillCounts>::default();
            let mut spill = left(folder.path(), &counts);
            assert_eq!(lost(&counts), [frames as u64; 2], "{node}: {removed:?}");
            // A node that has nothing lacks no frames but those that are lost.
            assert_eq!(spill.begins_at(), Some(1), "{node}: {removed:?}");
            let warnings = spill.remove_below(0, 0).join("\n");
            for index in removed {
                let name = format!("spill-{index:05}-*.catch");
                assert!(warnings.contains(&name), "{warnings}");
            }
            drop(spill);
            let counts = Arc::<SpillCounts>::default();
            left(folder.path(), &counts);
            assert_eq!(lost(&counts), [0, 0], "{node}: {removed:?}");
        }
    }
}

#[test]
fn of_the_last_file_that_was_cut_the_frames_are_lost_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    drop(spilled_for("nobody:1", folder.path(), &Arc::default()));
    let (last, first) = (path(folder.path(), 2), path(folder.path(), 0));
    std::fs::remove_file(path(folder.path(), 1)).unwrap();
    std::fs::remove_file(last).unwrap();
    let second = {
        let reader = FileReader::open(ReadFile::open(&first).unwrap()).unwrap();
        reader.frames()[1].offset
    };
    std::fs::OpenOptions::new().write(true).open(&first).unwrap().set_len(second).unwrap();
    let counts = Arc::<SpillCounts>::default();
    let mut backlog = Backlog::new(left(folder.path(), &counts));
    assert_eq!(lost(&counts), [3, 3]);
    backlog.go_on_at(1, None);
    let mut numbers = Vec::new();
    while let Ok(frame) = backlog.read(&mut |_| {}) {
        numbers.extend(frame.map(|frame| (frame.info.sequence, frame.end())));
    }
    // It had frames up to number 9, and a skipped one stands for them.
    assert_eq!((numbers, backlog.spill.end()), (vec![(1, 2), (2, 10)], 10));
    assert_eq!(lost(&counts), [3 + 8, 3]);
}

#[test]
fn files_that_were_forwarded_before_a_kill_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let counts = Arc::<SpillCounts>::default();
    let mut spill = spilled(folder.path(), &counts);
    assert!(spill.remove_below(13, 0).is_empty());
    assert!(!path(folder.path(), 0).exists() && path(folder.path(), 1).exists());
    drop(spill);
    let (numbers, _) = sent(left(folder.path(), &counts));
    assert_eq!((numbers, lost(&counts)), (vec![14, 20], [0, 0]));
}

#[test]
fn of_a_file_that_was_cut_the_frames_are_lost_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    spilled(folder.path(), &Arc::default()).hand_over(0);
    let path = path(folder.path(), 0);
    let second = {
        let reader = FileReader::open(ReadFile::open(&path).unwrap()).unwrap();
        reader.frames()[1].offset
    };
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(second).unwrap();
    let counts = Arc::<SpillCounts>::default();
    let (numbers, mut spill) = sent(left(folder.path(), &counts));
    assert_eq!((numbers, lost(&counts)), (vec![1, 12, 14, 20], [2, 0]));
    let warnings = spill.remove_below(10, 0).join("\n");
    assert!(warnings.contains("2 of its frames are not there"), "{warnings}");
    assert!(path.with_extension("damaged").exists());
}
