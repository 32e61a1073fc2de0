//! A fault-injecting disk: every fault is reported precisely, and nothing is lost by it.

use crate::common::*;
use catchment_disk::{
    CompletionKind, Disk, DiskConfig, DiskError, EngineChoice, FaultControl, FaultPlan, Presence,
};

fn with_plan(plan: FaultPlan) -> (Disk, tempfile::TempDir, FaultControl) {
    with_config(plan, config(EngineChoice::Auto))
}

fn with_config(plan: FaultPlan, config: DiskConfig) -> (Disk, tempfile::TempDir, FaultControl) {
    let control = plan.control.clone();
    let disk = Disk::new(DiskConfig { faults: Some(plan), ..config }).expect("a disk");
    (disk, tempfile::tempdir().expect("a temporary folder"), control)
}

#[test]
fn a_failed_write_is_reported_and_the_others_are_not_touched() {
    let plan = FaultPlan { write_errors: vec![(2, libc::EIO)], ..FaultPlan::default() };
    let (mut disk, folder, control) = with_plan(plan);
    let path = path(folder.path(), "a.catch");
    let file = disk.create(&path).expect("a new file");
    let mut completions = Vec::new();
    for index in 0..6 {
        write(&mut disk, file, index * BLOCK, 1, index as u8 + 1, &mut completions);
    }
    completions.extend(drain(&mut disk));
    let failed: Vec<_> = completions.iter().filter(|c| c.result.is_err()).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((failed[0].offset, failed[0].bytes, failed[0].token), (8_192, 4_096, 3));
    assert_eq!(failed[0].result.as_ref().map_err(|e| e.raw_os_error()), Err(Some(libc::EIO)));
    assert_eq!((buffers_free(&disk), control.writes()), (4, 6));
    disk.finish(file, 2 * BLOCK as u64);
    all_good(&drain(&mut disk));
    let expected = [vec![1; BLOCK], vec![2; BLOCK]].concat();
    assert_eq!(std::fs::read(&path).expect("the file"), expected);
}

#[test]
fn a_write_that_is_cut_short_twice_goes_on_where_it_stopped() {
    for engine in [EngineChoice::Auto, EngineChoice::Portable] {
        // Of six blocks three are written, then two of three, then the last one.
        let plan = FaultPlan { short_writes: vec![1, 2], ..FaultPlan::default() };
        let (mut disk, folder, control) = with_config(plan, config(engine));
        let path = path(folder.path(), "a.catch");
        let file = disk.create(&path).expect("a new file");
        let mut completions = Vec::new();
        for (offset, blocks, value) in [(0, 1, 1), (1, 6, 2)] {
            write(&mut disk, file, offset * BLOCK, blocks, value, &mut completions);
            completions.extend(drain(&mut disk));
        }
        all_good(&completions);
        let written: Vec<u64> = completions.iter().map(|one| one.bytes / BLOCK as u64).collect();
        assert_eq!((written, control.writes()), (vec![1, 6], 4));
        disk.finish(file, 7 * BLOCK as u64);
        all_good(&drain(&mut disk));
        let expected = [vec![1; BLOCK], vec![2; 6 * BLOCK]].concat();
        assert_eq!(std::fs::read(&path).expect("the file"), expected);
    }
}

#[test]
fn after_a_failed_write_a_sync_does_not_say_that_all_is_durable() {
    let plan = FaultPlan { write_errors: vec![(0, libc::ENOSPC)], ..FaultPlan::default() };
    let (mut disk, folder, _) = with_plan(plan);
    let file = disk.create(&path(folder.path(), "a")).expect("a new file");
    write(&mut disk, file, 0, 1, 1, &mut Vec::new());
    disk.sync(file, 7).expect("few syncs");
    let completions = drain(&mut disk);
    assert_eq!(error_numbers(&completions), [Some(libc::ENOSPC), Some(libc::ENOSPC)]);
    assert_eq!((completions[1].kind, completions[1].token), (CompletionKind::Sync, 7));
    // A file without such a write is unaffected.
    let other = disk.create(&path(folder.path(), "b")).expect("a new file");
    write(&mut disk, other, 0, 1, 1, &mut Vec::new());
    disk.sync(other, 8).expect("few syncs");
    all_good(&drain(&mut disk));
}

#[test]
fn a_full_disk_fails_writes_until_space_is_back() {
    let config = DiskConfig { preallocate_bytes: 0, ..config(EngineChoice::Auto) };
    let (mut disk, folder, control) = with_config(FaultPlan::default(), config);
    let file = disk.create(&path(folder.path(), "a")).expect("a new file");
    control.set_space(Some(5 * BLOCK as u64 + 100));
    let mut numbers = Vec::new();
    for index in 0..3 {
        write(&mut disk, file, index * 3 * BLOCK, 3, 1, &mut Vec::new());
        numbers.extend(error_numbers(&drain(&mut disk)));
    }
    // The second was written in part: two blocks of three.
    assert_eq!(numbers, [None, Some(libc::ENOSPC), Some(libc::ENOSPC)]);
    assert_eq!((control.writes(), buffers_free(&disk)), (4, 4));
    disk.finish(file, 3 * BLOCK as u64);
    all_good(&drain(&mut disk));
    control.refuse_opens(Some(libc::ENOSPC));
    let error = disk.create(&path(folder.path(), "b")).expect_err("the disk is full");
    assert_eq!(error.io().and_then(std::io::Error::raw_os_error), Some(libc::ENOSPC));
    ask_for(&mut disk, &path(folder.path(), "b"));
    assert!(matches!(taken(&mut disk), Err(DiskError::Create { .. })));
    control.refuse_opens(None);
    control.set_space(None);
    ask_for(&mut disk, &path(folder.path(), "b"));
    let file = taken(&mut disk).expect("a new file");
    write(&mut disk, file, 0, 3, 1, &mut Vec::new());
    all_good(&drain(&mut disk));
}

#[test]
fn space_comes_back_at_the_poll_that_the_plan_says() {
    let plan = FaultPlan { space_back: Some((10, 1 << 20)), ..FaultPlan::default() };
    // Not enough for any preallocation.
    plan.control.set_space(Some(0));
    let (mut disk, folder, control) = with_plan(plan);
    let file = disk.create(&path(folder.path(), "a")).expect("a new file");
    loop {
        write(&mut disk, file, 0, 1, 1, &mut Vec::new());
        if drain(&mut disk)[0].result.is_ok() {
            break;
        }
    }
    assert!(control.polls() >= 10);
}

#[test]
fn a_stalled_disk_holds_up_nothing_but_its_completions() {
    let (mut disk, folder, control) = with_plan(FaultPlan::default());
    let file = disk.create(&path(folder.path(), "a")).expect("a new file");
    control.stall(true);
    for index in 0..4 {
        write(&mut disk, file, index * BLOCK, 1, 1, &mut Vec::new());
    }
    let mut completions = Vec::new();
    for _ in 0..100 {
        assert_eq!(disk.poll(&mut completions), 0);
    }
    assert!(disk.try_buffer().is_none());
    assert_eq!(disk.pending(), 4);
    control.stall(false);
    completions.extend(drain(&mut disk));
    all_good(&completions);
    assert_eq!((completions.len(), buffers_free(&disk)), (4, 4));
}

#[test]
fn a_stall_of_so_many_polls_ends_by_itself() {
    let plan = FaultPlan { stalls: vec![(1, 50)], ..FaultPlan::default() };
    let (mut disk, folder, control) = with_plan(plan);
    let file = disk.create(&path(folder.path(), "a")).expect("a new file");
    for index in 0..3 {
        write(&mut disk, file, index * BLOCK, 1, 1, &mut Vec::new());
    }
    all_good(&drain(&mut disk));
    assert!(control.polls() >= 50);
}

#[test]
fn a_stalled_disk_can_be_dropped() {
    let (mut disk, folder, control) = with_plan(FaultPlan::default());
    let path = path(folder.path(), "a");
    let file = disk.create(&path).expect("a new file");
    control.stall(true);
    write(&mut disk, file, 0, 1, 5, &mut Vec::new());
    disk.finish(file, BLOCK as u64);
    drop(disk);
    assert_eq!(std::fs::read(&path).expect("the file"), vec![5; BLOCK]);
}

#[test]
fn a_file_system_that_refuses_direct_writes_gets_ordinary_ones() {
    for engine in [EngineChoice::Auto, EngineChoice::Portable] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let all: Vec<_> = (0..3).map(|attempt| (attempt, libc::EINVAL)).collect();
        let plan = FaultPlan { write_errors: all, ..FaultPlan::default() };
        let config = DiskConfig { faults: Some(plan), ..config(engine) };
        let mut disk = Disk::new(config).expect("a disk");
        let path = path(folder.path(), "a");
        let file = disk.create(&path).expect("a new file");
        if !disk.stats().direct() {
            println!("skipped: {} refuses O_DIRECT at once", folder.path().display());
            continue;
        }
        // All three are submitted before the first answer is seen: each is retried alone.
        let buffers: Vec<_> = std::iter::from_fn(|| disk.try_buffer()).take(3).collect();
        for (index, mut buffer) in buffers.into_iter().enumerate() {
            buffer[..BLOCK].fill(5);
            disk.write(file, (index * BLOCK) as u64, buffer, BLOCK, 0);
        }
        all_good(&drain(&mut disk));
        assert!(!disk.stats().direct());
        disk.finish(file, 3 * BLOCK as u64);
        all_good(&drain(&mut disk));
        assert_eq!(std::fs::read(&path).expect("the file"), vec![5; 3 * BLOCK]);
    }
}

#[test]
fn interrupted_writes_are_tried_again_and_given_up_in_the_end() {
    let again = vec![(0, libc::EINTR), (1, libc::EAGAIN)];
    let (mut disk, folder, control) =
        with_plan(FaultPlan { write_errors: again, ..FaultPlan::default() });
    let file = disk.create(&path(folder.path(), "a")).expect("a new file");
    write(&mut disk, file, 0, 1, 1, &mut Vec::new());
    all_good(&drain(&mut disk));
    assert_eq!(control.writes(), 3);

    let always = (0..1_000).map(|attempt| (attempt, libc::EAGAIN)).collect();
    let (mut disk, folder, _) =
        with_plan(FaultPlan { write_errors: always, ..FaultPlan::default() });
    let file = disk.create(&path(folder.path(), "a")).expect("a new file");
    write(&mut disk, file, 0, 1, 1, &mut Vec::new());
    assert_eq!(error_numbers(&drain(&mut disk)), [Some(libc::EAGAIN)]);
    assert_eq!(buffers_free(&disk), 4);
}

#[test]
fn the_same_seed_gives_the_same_faults_and_no_buffer_is_lost() {
    let run = |seed| {
        let plan = FaultPlan {
            seed,
            write_errors_per_million: 100_000,
            short_writes_per_million: 200_000,
            delay_polls_max: 3,
            ..FaultPlan::default()
        };
        let (mut disk, folder, _) = with_plan(plan);
        let file = disk.create(&path(folder.path(), "a")).expect("a new file");
        let mut failed = Vec::new();
        let mut written = 0;
        for index in 0..200 {
            let mut completions = Vec::new();
            write(&mut disk, file, index * 4 * BLOCK, 4, 1, &mut completions);
            completions.extend(drain(&mut disk));
            written += completions.iter().filter(|c| c.result.is_ok()).count();
            failed.extend(completions.iter().filter(|c| c.result.is_err()).map(|c| c.offset));
        }
        assert_eq!(written + failed.len(), 200);
        assert_eq!(buffers_free(&disk), 4);
        disk.finish(file, 0);
        all_good(&drain(&mut disk));
        failed
    };
    let (first, again, other) = (run(1), run(1), run(2));
    assert!(!first.is_empty());
    assert_eq!(first, again);
    assert_ne!(first, other);
}

/// Bytes of the blocks that a file has.
fn blocks_bytes(path: &std::path::Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).expect("the file")) * 512
}

#[test]
fn blocks_that_could_not_all_be_had_are_given_back() {
    let (mut disk, folder, control) = with_plan(FaultPlan::default());
    let (first, second) = (path(folder.path(), "a"), path(folder.path(), "b"));
    let file = disk.create(&first).expect("a new file");
    if blocks_bytes(&first) < 1 << 20 {
        println!("skipped: this file system does not preallocate");
        return;
    }
    control.fail_preallocations(Some(libc::ENOSPC));
    ask_for(&mut disk, &second);
    let other = taken(&mut disk).expect("a new file");
    assert_eq!((blocks_bytes(&second), disk.blocks_bytes(other)), (0, 0));
    // Beyond half of its blocks a file requests more, and gets half of them with the refusal.
    let mut completions = Vec::new();
    for index in 0..10 {
        write(&mut disk, file, index * 16 * BLOCK, 16, 1, &mut completions);
    }
    disk.look(file, 0).expect("the helper is asked");
    while disk.is_looking() {
        wait(&mut disk, &mut completions);
    }
    completions.extend(drain(&mut disk));
    all_good(&completions);
    assert_eq!((blocks_bytes(&first), disk.blocks_bytes(file)), (1 << 20, 1 << 20));
}

#[test]
fn little_is_preallocated_where_little_is_free_and_nothing_beyond_the_files_size() {
    let step = DiskConfig { preallocate_bytes: 64 << 20, ..config(EngineChoice::Auto) };
    for (config, space, expected) in [
        (step.clone(), 8 << 20, 1 << 20),
        (step.clone(), 1 << 20, 0),
        (DiskConfig { file_bytes: 3 << 20, ..step }, 1 << 30, 3 << 20),
    ] {
        let (mut disk, folder, control) = with_config(FaultPlan::default(), config);
        control.set_space(Some(space));
        let file = disk.create(&path(folder.path(), "a")).expect("a new file");
        assert_eq!(disk.blocks_bytes(file), expected);
        disk.look(file, 0).expect("the helper is asked");
        while disk.is_looking() {
            wait(&mut disk, &mut Vec::new());
        }
        assert_eq!(disk.spare_bytes(), Some(space - expected));
        let bytes = expected as usize + BLOCK;
        for offset in (0..bytes).step_by(BLOCK) {
            write(&mut disk, file, offset, 1, 1, &mut Vec::new());
        }
        // One block more than there was, and perhaps a step requested meanwhile.
        assert!(disk.spare_bytes().expect("known") < space - expected);
        all_good(&drain(&mut disk));
        disk.finish(file, BLOCK as u64);
        all_good(&drain(&mut disk));
    }
}

#[test]
fn a_file_that_was_removed_or_moved_is_known_after_a_look() {
    let (mut disk, folder, _) = with_plan(FaultPlan::default());
    let here = path(folder.path(), "a");
    let file = disk.create(&here).expect("a new file");
    let mut look = || {
        disk.look(file, 0).expect("the helper is asked");
        while disk.is_looking() {
            wait(&mut disk, &mut Vec::new());
        }
        disk.presence(file)
    };
    assert_eq!(look(), Presence::There);
    let moved = path(folder.path(), "b");
    std::fs::rename(&here, &moved).expect("moves");
    assert_eq!(look(), Presence::Elsewhere);
    std::fs::remove_file(&moved).expect("removes");
    assert_eq!(look(), Presence::Removed { others: false });
}

#[test]
fn a_file_opened_ahead_that_is_not_wanted_is_removed() {
    let (mut disk, folder, _) = with_plan(FaultPlan::default());
    let ahead = path(folder.path(), "a");
    ask_for(&mut disk, &ahead);
    wait_for_opened(&mut disk);
    assert_eq!(disk.opened_bytes(), Some(1 << 20));
    disk.discard_opened();
    assert!(disk.take_opened().is_none());
    while disk.is_removing() {
        wait(&mut disk, &mut Vec::new());
    }
    assert!(!ahead.exists() && disk.is_idle());
    ask_for(&mut disk, &ahead);
    disk.discard_opened();
    ask_for(&mut disk, &ahead);
    drop(disk);
    assert!(!ahead.exists());
}
