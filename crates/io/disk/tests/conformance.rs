//! Behaviour common to all engines, on a disk file system and in memory.

use std::time::Duration;

use crate::common::*;
use catchment_disk::{CompletionKind, Disk, DiskConfig, DiskError, ReadFile, list_folder};
use proptest::prelude::*;

#[test]
fn written_blocks_read_back_and_a_finished_file_has_its_final_size() {
    with_all(|config, folder| {
        let mut disk = Disk::new(config).expect("a disk");
        let path = path(folder, "a.catch");
        let file = disk.create(&path).expect("a new file");
        let mut completions = Vec::new();
        // More than the preallocation of 1 MiB, so that it is extended on the way.
        for index in 0..40 {
            let offset = index * 16 * BLOCK;
            write(&mut disk, file, offset, 16, index as u8 + 1, &mut completions);
        }
        let final_bytes = 40 * 16 * BLOCK - 5 * BLOCK;
        disk.finish(file, final_bytes as u64);
        completions.extend(drain(&mut disk));
        all_good(&completions);
        assert_eq!(of_kind(&completions, CompletionKind::Write).len(), 40);
        let finished = of_kind(&completions, CompletionKind::Finished);
        assert_eq!((finished.len(), finished[0].bytes), (1, final_bytes as u64));
        assert_eq!(completions.last().map(|last| last.kind), Some(CompletionKind::Finished));
        let bytes = std::fs::read(&path).expect("the file");
        assert_eq!(bytes.len(), final_bytes);
        for (index, block) in bytes.chunks(16 * BLOCK).enumerate() {
            assert!(block.iter().all(|&byte| byte == index as u8 + 1), "write {index}");
        }
        assert_eq!(buffers_free(&disk), 4);
    });
}

#[test]
fn an_existing_file_is_refused_and_left_as_it_is() {
    with_all(|config, folder| {
        let path = path(folder, "kept.catch");
        std::fs::write(&path, "recorded before").expect("a file");
        let mut disk = Disk::new(config).expect("a disk");
        let error = disk.create(&path).expect_err("it exists");
        assert!(matches!(error, DiskError::Exists { .. }), "{error}");
        assert!(error.to_string().contains("kept.catch exists already"), "{error}");
        ask_for(&mut disk, &path);
        assert!(matches!(taken(&mut disk), Err(DiskError::Exists { .. })));
        drop(disk);
        assert_eq!(std::fs::read(&path).expect("the file"), b"recorded before");
    });
}

#[test]
fn the_next_file_is_there_when_the_first_is_full() {
    with_all(|config, folder| {
        let mut disk = Disk::new(config).expect("a disk");
        let mut file = disk.create(&path(folder, "0.catch")).expect("a new file");
        let mut completions = Vec::new();
        for index in 1..=3_u8 {
            ask_for(&mut disk, &path(folder, &format!("{index}.catch")));
            write(&mut disk, file, 0, 3, index, &mut completions);
            // One at a time.
            ask_for(&mut disk, &path(folder, "x.catch"));
            let next = loop {
                if let Some(next) = disk.take_opened() {
                    break next.expect("a new file");
                }
                wait(&mut disk, &mut completions);
            };
            disk.finish(file, 3 * BLOCK as u64);
            file = next;
        }
        disk.finish(file, 0);
        completions.extend(drain(&mut disk));
        all_good(&completions);
        for index in 0..3_u8 {
            let bytes = std::fs::read(path(folder, &format!("{index}.catch"))).expect("a file");
            assert_eq!(bytes, vec![index + 1; 3 * BLOCK]);
        }
        assert_eq!(std::fs::read(path(folder, "3.catch")).expect("a file"), b"");
        assert!(!path(folder, "x.catch").exists());
    });
}

#[test]
fn a_file_opened_ahead_and_not_taken_is_deleted_at_the_end() {
    with_all(|config, folder| {
        let mut disk = Disk::new(config.clone()).expect("a disk");
        ask_for(&mut disk, &path(folder, "asked.catch"));
        drop(disk);
        let mut disk = Disk::new(config).expect("a disk");
        ask_for(&mut disk, &path(folder, "there.catch"));
        wait_for_opened(&mut disk);
        assert_eq!(list_folder(folder).expect("the folder").len(), 1);
        drop(disk);
        assert_eq!(list_folder(folder).expect("the folder"), []);
    });
}

#[test]
fn syncs_and_files_are_bounded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut disk = Disk::new(config(catchment_disk::EngineChoice::Auto)).expect("a disk");
    let first = disk.create(&path(folder.path(), "0")).expect("a new file");
    for token in 0..catchment_disk::SYNCS_MAX {
        disk.sync(first, token as u64).expect("few syncs");
    }
    assert!(matches!(disk.sync(first, 99), Err(DiskError::TooManySyncs { limit: 16 })));
    for index in 1..catchment_disk::FILES_MAX {
        disk.create(&path(folder.path(), &index.to_string())).expect("a new file");
    }
    let error = disk.create(&path(folder.path(), "more")).expect_err("too many");
    assert!(matches!(error, DiskError::TooManyFiles { limit: 64 }), "{error}");
    assert_eq!(drain(&mut disk).len(), catchment_disk::SYNCS_MAX);
    disk.finish(first, 0);
    all_good(&drain(&mut disk));
    disk.create(&path(folder.path(), "more")).expect("there is room again");
}

#[test]
fn a_buffer_dropped_unused_is_free_again_wherever_it_was() {
    with_all(|config, _| {
        let mut disk = Disk::new(config).expect("a disk");
        let buffers: Vec<_> = std::iter::from_fn(|| disk.try_buffer()).collect();
        assert_eq!((buffers.len(), buffers_free(&disk)), (4, 0));
        assert_eq!(disk.stats().buffers().level(), disk.stats().buffers().capacity());
        for buffer in &buffers {
            assert_eq!(buffer.as_ptr().addr() % BLOCK, 0);
            assert_eq!(buffer.len(), 16 * BLOCK);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| drop(buffers));
        });
        assert_eq!(buffers_free(&disk), 4);
        assert!(disk.try_buffer().is_some());
    });
}

#[test]
fn a_disk_and_its_buffers_can_move_to_other_threads() {
    fn is_send<T: Send>() {}
    is_send::<Disk>();
    is_send::<catchment_disk::Buffer>();
    is_send::<catchment_disk::Waker>();
}

#[test]
fn a_waker_ends_a_wait_that_nothing_else_would() {
    with_all(|config, _| {
        let disk = Disk::new(config).expect("a disk");
        let waker = disk.waker();
        std::thread::scope(|scope| {
            scope.spawn(move || waker.wake());
            // If the wake were lost, the test would not end.
            disk.sleeper().sleep(Duration::from_secs(100_000));
        });
    });
}

#[test]
fn a_dropped_disk_has_written_and_finished_what_it_accepted() {
    with_all(|config, folder| {
        let mut disk = Disk::new(config).expect("a disk");
        let path = path(folder, "a.catch");
        let file = disk.create(&path).expect("a new file");
        for index in 0..4 {
            write(&mut disk, file, index * BLOCK, 1, 9, &mut Vec::new());
        }
        disk.finish(file, 4 * BLOCK as u64);
        drop(disk);
        assert_eq!(std::fs::read(&path).expect("the file"), vec![9; 4 * BLOCK]);
    });
}

#[test]
fn a_sync_is_due_after_the_interval_and_only_if_something_was_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = DiskConfig { sync_interval_ns: 100, ..config(Default::default()) };
    let mut disk = Disk::new(config).expect("a disk");
    let file = disk.create(&path(folder.path(), "a")).expect("a new file");
    assert!(!disk.sync_due(1_000));
    assert!(!disk.sync_due(2_000), "nothing was written");
    write(&mut disk, file, 0, 1, 1, &mut Vec::new());
    assert!(disk.sync_due(2_000));
    assert!(!disk.sync_due(2_099));
    assert!(disk.sync_due(2_100), "it was said, but no sync was asked for");
    disk.sync(file, 0).expect("few syncs");
    assert!(!disk.sync_due(9_000));
    all_good(&drain(&mut disk));
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    let refused = |change: fn(&mut DiskConfig)| {
        let mut config = config(Default::default());
        change(&mut config);
        let error = Disk::new(config).err().expect("refused");
        assert!(matches!(error, DiskError::Config { .. }), "{error}");
        error.to_string()
    };
    assert_eq!(
        refused(|config| config.buffer_bytes = 5_000),
        "buffer_bytes: expected a multiple of 4 KiB, up to 256 MiB, got 5000"
    );
    assert!(refused(|config| config.buffer_bytes = 0).starts_with("buffer_bytes"));
    assert!(refused(|config| config.buffer_count = 1).starts_with("buffer_count"));
    assert!(refused(|config| config.preallocate_bytes = 1).starts_with("preallocate_bytes"));
}

#[derive(Clone, Debug)]
enum Action {
    Write { block: usize, blocks: usize, value: u8 },
    Sync,
    Poll,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let write = (0_usize..300, 1_usize..=16, 1_u8..)
        .prop_map(|(block, blocks, value)| Action::Write { block, blocks, value });
    let action = prop_oneof![8 => write, 1 => Just(Action::Sync), 2 => Just(Action::Poll)];
    proptest::collection::vec(action, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_writes_leave_the_file_that_a_model_says(actions in actions()) {
        with_all(|config, folder| {
            let mut disk = Disk::new(config).expect("a disk");
            let path = path(folder, "a.catch");
            let file = disk.create(&path).expect("a new file");
            let mut model = vec![0_u8; 316 * BLOCK];
            let mut completions = Vec::new();
            let mut in_flight: Vec<(usize, usize)> = Vec::new();
            for action in &actions {
                match *action {
                    Action::Write { block, blocks, value } => {
                        // Two simultaneous writes of the same place have no order.
                        let apart = |&(other, count): &(usize, usize)| {
                            block + blocks <= other || other + count <= block
                        };
                        if !in_flight.iter().all(apart) {
                            completions.extend(drain(&mut disk));
                            in_flight.clear();
                        }
                        in_flight.push((block, blocks));
                        write(&mut disk, file, block * BLOCK, blocks, value, &mut completions);
                        model[block * BLOCK..(block + blocks) * BLOCK].fill(value);
                    }
                    Action::Sync if disk.pending() < 10 => disk.sync(file, 0).expect("few syncs"),
                    Action::Sync => {}
                    Action::Poll => {
                        disk.poll(&mut completions);
                    }
                }
            }
            disk.finish(file, model.len() as u64);
            completions.extend(drain(&mut disk));
            all_good(&completions);
            let writes = actions.iter().filter(|a| matches!(a, Action::Write { .. })).count();
            assert_eq!(of_kind(&completions, CompletionKind::Write).len(), writes);
            assert_eq!(buffers_free(&disk), 4);
            let file = ReadFile::open(&path).expect("the file");
            let mut bytes = vec![0xaa; model.len() + 10];
            assert_eq!(file.read_at(0, &mut bytes).expect("a read"), model.len());
            assert!(bytes[..model.len()] == model[..], "the file is not as the model");
        });
    }
}
