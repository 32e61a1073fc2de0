//! A disk whose folder is on a network file system, for which a file system of the test stands in.
//! As root, with `/dev/fuse`; without, the tests say so and end.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use catchment_disk::{
    CompletionKind, Disk, DiskConfig, DiskHelpers, EngineChoice, FileId, SYNCS_MAX,
};
use catchment_fixtures::wait_while;
use catchment_network_folder::{NetworkFolder, Operation, Refused};

use crate::common::*;

/// Long enough for anything else, and the end of a test that waits for what does not come.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn a_close_that_hangs_does_not_delay_the_next_file() {
    for engine in [EngineChoice::Auto, EngineChoice::Portable] {
        let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
        let mut disk = Disk::new(config(engine)).expect("a disk");
        let [first, second] = ["a", "b"].map(|name| path(remote.path(), name));
        let file = disk.create(&first).expect("a new file");
        let mut completions = Vec::new();
        write(&mut disk, file, 0, 4, 1, &mut completions);
        let stalled = remote.stall(Operation::Close);
        let (done, is_done) = sync_channel(1);
        // Elsewhere, so that a disk that waits for the close fails, and does not wait for ever.
        let let_go = std::thread::spawn(move || {
            let in_time = is_done.recv_timeout(LONG).is_ok();
            drop(stalled);
            in_time
        });
        disk.finish(file, 4 * BLOCK as u64);
        wait_while(|| {
            disk.poll(&mut completions);
            remote.waiting(Operation::Close) == 0
        });
        let next = disk.create(&second).expect("a new file");
        write(&mut disk, next, 0, 4, 2, &mut completions);
        disk.sync(next, 7).expect("few syncs");
        while of_kind(&completions, CompletionKind::Sync).is_empty() {
            wait(&mut disk, &mut completions);
        }
        // It is finished when it is closed.
        assert!(of_kind(&completions, CompletionKind::Finished).is_empty(), "{completions:?}");
        done.send(()).expect("somebody waits for it");
        assert!(let_go.join().expect("no panic"), "the disk waited for the close");
        disk.finish(next, 4 * BLOCK as u64);
        completions.extend(drain(&mut disk));
        all_good(&completions);
        assert_eq!(of_kind(&completions, CompletionKind::Finished).len(), 2);
        for (path, value) in [(first, 1), (second, 2)] {
            assert_eq!(std::fs::read(path).expect("the file"), vec![value; 4 * BLOCK]);
        }
    }
}

#[test]
fn without_direct_writes_and_preallocation_short_writes_are_written_and_said() {
    for engine in [EngineChoice::Auto, EngineChoice::Portable] {
        let refused = Refused { direct: true, blocks: true };
        let Some(remote) = NetworkFolder::mount(refused) else { return };
        remote.halve_writes(true);
        let mut disk = Disk::new(config(engine)).expect("a disk");
        let path = path(remote.path(), "a");
        let file = disk.create(&path).expect("a new file");
        let mut completions = Vec::new();
        for index in 0..20 {
            write(&mut disk, file, index * 16 * BLOCK, 16, index as u8, &mut completions);
        }
        disk.sync(file, 0).expect("few syncs");
        disk.finish(file, 320 * BLOCK as u64);
        completions.extend(drain(&mut disk));
        all_good(&completions);
        let read = std::fs::read(&path).expect("the file");
        let written = (0..20).flat_map(|value| vec![value; 16 * BLOCK]);
        assert!(read.into_iter().eq(written));
        let refusals: Vec<_> = disk.stats().refusals().collect();
        assert!(refusals[0].starts_with("refuses direct writes (O_DIRECT)"), "{refusals:?}");
        assert!(refusals[1].starts_with("does not preallocate (fallocate)"), "{refusals:?}");
    }
}

#[test]
fn a_close_that_hangs_delays_the_end_of_no_file_of_a_disk_with_the_same_helpers() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let here = tempfile::tempdir().expect("a folder");
    let helpers = DiskHelpers::start(2, &config(EngineChoice::Auto)).expect("threads");
    let disk = || {
        let helpers = Some(helpers.clone());
        let config = DiskConfig { helpers, ..config(EngineChoice::Auto) };
        Disk::new(config).expect("a disk")
    };
    let (mut far, mut near) = (disk(), disk());
    let mut completions = Vec::new();
    let mut file = |disk: &mut Disk, folder| {
        let file = disk.create(&path(folder, "a")).expect("a new file");
        write(disk, file, 0, 4, 1, &mut completions);
        file
    };
    let (far_file, near_file) = (file(&mut far, remote.path()), file(&mut near, here.path()));
    let stalled = remote.stall(Operation::Close);
    let (done, is_done) = sync_channel(1);
    let let_go = std::thread::spawn(move || {
        let in_time = is_done.recv_timeout(LONG).is_ok();
        drop(stalled);
        in_time
    });
    far.finish(far_file, 4 * BLOCK as u64);
    wait_while(|| {
        far.poll(&mut completions);
        remote.waiting(Operation::Close) == 0
    });
    near.finish(near_file, 4 * BLOCK as u64);
    let mut ended = Vec::new();
    while of_kind(&ended, CompletionKind::Finished).is_empty() {
        wait(&mut near, &mut ended);
    }
    done.send(()).expect("somebody waits for it");
    assert!(let_go.join().expect("no panic"), "the disk waited for the other one's close");
    completions.extend(ended.into_iter().chain(drain(&mut far)));
    all_good(&completions);
}

#[test]
fn syncs_that_hang_stop_no_other_disk_of_their_thread() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let here = tempfile::tempdir().expect("a folder");
    let mut near = Disk::new(config(EngineChoice::Auto)).expect("a disk");
    let mut completions = Vec::new();
    let file = near.create(&path(here.path(), "a")).expect("a new file");
    write(&mut near, file, 0, 4, 1, &mut completions);
    // More syncs than four for each CPU, which is the kernel's limit for what waits at a time.
    let mut far: Vec<(Disk, FileId)> = (0..8)
        .map(|number: u32| {
            let beside = Some(near.waker());
            let config = DiskConfig { beside, ..config(EngineChoice::Auto) };
            let mut disk = Disk::new(config).expect("a disk");
            let file = disk.create(&path(remote.path(), &number.to_string())).expect("a new file");
            (disk, file)
        })
        .collect();
    let stalled = remote.stall(Operation::Sync);
    for (disk, file) in &mut far {
        (0..SYNCS_MAX).for_each(|token| disk.sync(*file, token as u64).expect("few syncs"));
        disk.poll(&mut Vec::new());
    }
    let (done, is_done) = sync_channel(1);
    let let_go = std::thread::spawn(move || {
        let in_time = is_done.recv_timeout(LONG).is_ok();
        drop(stalled);
        in_time
    });
    wait_while(|| remote.waiting(Operation::Sync) == 0);
    near.sync(file, 7).expect("few syncs");
    while of_kind(&completions, CompletionKind::Sync).is_empty() {
        wait(&mut near, &mut completions);
    }
    done.send(()).expect("somebody waits for it");
    assert!(let_go.join().expect("no panic"), "the disk waited for the others");
    all_good(&completions);
    for (disk, _) in &mut far {
        assert_eq!(drain(disk).len(), SYNCS_MAX);
    }
}

#[test]
fn a_sync_that_fails_and_a_quota_in_the_middle_of_a_write_are_errors_of_that_file() {
    for engine in [EngineChoice::Auto, EngineChoice::Portable] {
        let refused = Refused { blocks: true, ..Refused::default() };
        let Some(remote) = NetworkFolder::mount(refused) else { return };
        let mut disk = Disk::new(config(engine)).expect("a disk");
        let [a, b] = ["a", "b"].map(|name| path(remote.path(), name));
        let [a, b] = [a, b].map(|path| disk.create(&path).expect("a new file"));
        let mut completions = Vec::new();
        remote.limit(Some(4 * BLOCK as u64 + 100));
        write(&mut disk, a, 0, 8, 1, &mut completions);
        completions.extend(drain(&mut disk));
        assert_eq!(error_numbers(&completions), [Some(libc::ENOSPC)]);
        remote.limit(None);
        remote.fail(Operation::Sync, Some(libc::EIO));
        completions.clear();
        write(&mut disk, b, 0, 8, 1, &mut completions);
        disk.sync(b, 3).expect("few syncs");
        completions.extend(drain(&mut disk));
        assert_eq!(error_numbers(&completions), [None, Some(libc::EIO)]);
        remote.fail(Operation::Sync, None);
        disk.finish(a, 0);
        disk.finish(b, 8 * BLOCK as u64);
        // A later sync does not bring back what one that failed has lost.
        let ended = drain(&mut disk);
        let of = |file| ended.iter().find(|one| one.file == file).expect("an end");
        assert!(of(a).result.is_ok(), "{ended:?}");
        assert!(of(b).result.is_err(), "{ended:?}");
    }
}
