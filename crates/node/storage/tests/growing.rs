//! Runs read while they grow.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::common;
use crate::signal;
use catchment_storage::{Ending, Follow, Followed, Growing, NewRun, Run, RunWriter, WriteOptions};
use common::{Recipe, key};
use signal::Signal;

/// Rewrites a file's bytes, cut there and followed by zeros as from preallocation.
fn cut(path: &Path, whole: &[u8], at: u64) {
    let mut bytes = whole[..at as usize].to_vec();
    bytes.resize(bytes.len() + (1 << 20), 0);
    std::fs::write(path, bytes).expect("writes");
}

/// A run's files, and their final contents.
struct Growth {
    made: common::Made,
    whole: Vec<Vec<u8>>,
}

impl Growth {
    /// Two files of four frames; the first is cut after its header, the second does not exist.
    fn begin() -> Self {
        let recipe =
            Recipe { files: vec![vec![2, 3, 4, 5], vec![1, 2, 3, 4]], ..Recipe::default() };
        let made = recipe.make();
        let read = |path| std::fs::read(path).expect("reads");
        let whole = made.files.iter().map(read).collect();
        let growth = Self { made, whole };
        std::fs::remove_file(&growth.made.files[1]).expect("deletes");
        growth.grow(0, 0);
        growth
    }

    /// Makes a file contain that many frames; with all frames, it is closed.
    fn grow(&self, file: usize, frames: usize) {
        let (path, whole) = (&self.made.files[file], &self.whole[file]);
        match self.made.frames[file].get(frames) {
            Some((next, _)) => cut(path, whole, next.offset),
            None => std::fs::write(path, whole).expect("writes"),
        }
    }
}

#[test]
fn a_run_that_is_refreshed_knows_every_frame_that_came() {
    let growth = Growth::begin();
    let mut run = Run::open(growth.made.path()).expect("opens");
    assert_eq!((run.event_count(), run.frames().len()), (0, 0));
    let mut frames = 0;
    for (file, counts) in [[1, 2, 2, 3, 4], [0, 1, 2, 3, 4]].into_iter().enumerate() {
        for count in counts {
            growth.grow(file, count);
            let came = run.refresh().expect("reads");
            let now = 4 * file + count;
            assert_eq!(came.frames, now - frames, "file {file}, {count} frames");
            frames = now;
            assert_eq!(run.frames().len(), frames);
            // Columns decoded before stay unchanged.
            let events = run.event_count();
            assert!(events == 0 || run.find(key(events - 1)).expect("reads").is_some());
        }
    }
    assert!(run.closed() && run.ended() && run.at_rest().expect("reads"));
    assert_eq!(run.event_count(), 24);
    assert_eq!(run.refresh().expect("reads"), Default::default());
}

#[test]
fn a_follower_gets_each_frame_once_and_ends_with_the_run() {
    let growth = Growth::begin();
    // A writer is active: the first file is locked, as by a recorder.
    let recorder = std::fs::File::open(&growth.made.files[0]).expect("opens");
    recorder.try_lock().expect("locks");
    let mut follow = Follow::open(growth.made.path(), Duration::from_millis(1)).expect("opens");
    assert_eq!(follow.try_next().expect("reads"), None);
    assert!(!follow.ended());
    let mut got = Vec::new();
    let mut take = |follow: &mut Follow| {
        while let Some(frame) = follow.try_next().expect("reads") {
            got.push(frame);
        }
        got.len()
    };
    for (frames, wanted) in [(1, 1), (3, 3), (3, 3), (4, 4)] {
        // Written in place, so that the lock stays on it.
        let mut file = std::fs::OpenOptions::new().write(true).open(&growth.made.files[0]);
        let end =
            growth.made.frames[0].get(frames).map_or(growth.whole[0].len() as u64, |f| f.0.offset);
        let bytes = &growth.whole[0][..end as usize];
        file.as_mut().expect("opens").write_all(bytes).expect("writes");
        if frames == 4 {
            file.expect("opens").set_len(end).expect("cuts");
        }
        assert_eq!(take(&mut follow), wanted);
    }
    assert!(!follow.ended(), "the recorder has the lock, and the file's TOC does not say the end");
    growth.grow(1, 2);
    let next = std::fs::File::open(&growth.made.files[1]).expect("opens");
    next.try_lock().expect("locks");
    drop(recorder);
    assert_eq!(take(&mut follow), 6);
    assert!(!follow.ended());
    growth.grow(1, 4);
    assert_eq!(take(&mut follow), 8);
    assert_eq!(follow.try_next().expect("reads"), None);
    assert!(follow.ended());
    let frames: Vec<_> = (0..8).map(Followed::Events).collect();
    assert_eq!(got, frames);
}

#[test]
fn frames_of_the_next_file_wait_for_the_last_ones_of_this() {
    let growth = Growth::begin();
    let recorder = std::fs::File::open(&growth.made.files[0]).expect("opens");
    recorder.try_lock().expect("locks");
    let mut follow = Follow::open(growth.made.path(), Duration::from_millis(1)).expect("opens");
    let take = |follow: &mut Follow| {
        let next = || follow.try_next().expect("reads");
        std::iter::from_fn(next).collect::<Vec<_>>()
    };
    growth.grow(0, 2);
    growth.grow(1, 2);
    let next = std::fs::File::open(&growth.made.files[1]).expect("opens");
    next.try_lock().expect("locks");
    let seen = take(&mut follow);
    assert_eq!(seen, (0..2).map(Followed::Events).collect::<Vec<_>>());
    growth.grow(0, 4);
    let seen = take(&mut follow);
    assert_eq!(seen, (2..6).map(Followed::Events).collect::<Vec<_>>());
    // Without the recorder nothing can arrive.
    drop((recorder, next));
    assert_eq!(take(&mut follow), []);
    assert!(follow.ended());
}

#[test]
fn a_follower_of_a_run_that_nobody_writes_any_more_ends_behind_its_last_frame() {
    let growth = Growth::begin();
    growth.grow(0, 3);
    let follow = Follow::open(growth.made.path(), Duration::from_millis(1)).expect("opens");
    let frames: Result<Vec<_>, _> = follow.collect();
    assert_eq!(frames.expect("reads").len(), 3);
}

#[test]
fn whichever_thread_waits_for_a_frame_has_the_lowest_best_effort_priority() {
    // Class 2, best effort, in bits 13 and up.
    const NORMAL: libc::c_long = (2 << 13) | 4;
    const LOWEST: libc::c_long = (2 << 13) | 7;
    // SAFETY: ioprio_get takes numbers only; 1 and 0 are the calling thread.
    let priority = || unsafe { libc::syscall(libc::SYS_ioprio_get, 1, 0) };
    // Threads that it starts inherit it, whatever the priority of the test run. SAFETY: as above.
    assert_eq!(unsafe { libc::syscall(libc::SYS_ioprio_set, 1, 0, NORMAL) }, 0);
    let growth = Growth::begin();
    let recorder = std::fs::File::open(&growth.made.files[0]).expect("opens");
    recorder.try_lock().expect("locks");
    let mut follow = Follow::open(growth.made.path(), Duration::from_millis(1)).expect("opens");
    for _ in 0..2 {
        let wait = || {
            let before = priority();
            let frame = follow.next_within(Duration::from_millis(2)).expect("reads");
            (before, frame, priority())
        };
        let waited = std::thread::scope(|scope| scope.spawn(wait).join().expect("ends"));
        assert_eq!(waited, (NORMAL, None, LOWEST));
    }
    assert_eq!(priority(), NORMAL, "the thread that opened it waited for nothing");
}

#[test]
fn a_run_whose_next_file_is_not_begun_yet_has_not_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let new = NewRun::new(folder.path(), "signal", signal::schema()).expect("a run");
    let growing = Some(Growing { durable: false, listed: true });
    // A frame has four seconds, a file one frame.
    let options = WriteOptions { growing, file_time_ns: Some(1), ..WriteOptions::small() };
    let mut writer = RunWriter::create(new, options).expect("begins");
    let signal = Signal::default();
    signal.write_frame(&mut writer, 0).expect("writes");
    let mut follow = Follow::open(folder.path(), Duration::from_millis(1)).expect("opens");
    assert_eq!(follow.try_next().expect("reads"), Some(Followed::Channels(0)));
    // The first file is closed, and the next one's name is taken.
    let taken = folder.path().join("signal-00001.catch");
    std::fs::write(&taken, "").expect("writes");
    signal.write_frame(&mut writer, 1).expect_err("is there already");
    assert_eq!(follow.try_next().expect("reads"), None);
    assert!(follow.run().closed() && !follow.ended());
    std::fs::remove_file(&taken).expect("deletes");
    signal.write_frame(&mut writer, 1).expect("writes");
    assert_eq!(follow.try_next().expect("reads"), Some(Followed::Channels(1)));
    writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends");
    assert_eq!(follow.try_next().expect("reads"), None);
    assert!(follow.ended());
}

#[test]
fn a_run_stays_as_it_is_when_files_that_do_not_belong_to_it_come() {
    let growth = Growth::begin();
    growth.grow(0, 2);
    let mut run = Run::open(growth.made.path()).expect("opens");
    // A longer copy of its only file, and a file with other sources.
    let [copy, foreign] = ["copy.catch", "foreign.catch"].map(|name| growth.made.path().join(name));
    std::fs::write(&copy, &growth.whole[0]).expect("writes");
    let other = Recipe { sources: 2, ..Recipe::default() }.make();
    std::fs::copy(&other.files[1], &foreign).expect("copies");
    assert!(run.refresh().is_err());
    assert_eq!((run.event_count(), run.files().len()), (5, 1));
    assert!(run.events(1).is_ok() && !run.closed());
    std::fs::remove_file(&foreign).expect("deletes");
    std::fs::remove_file(&copy).expect("deletes");
    growth.grow(0, 3);
    assert_eq!(run.refresh().expect("reads").frames, 1);
    assert_eq!(run.event_count(), 9);
}
