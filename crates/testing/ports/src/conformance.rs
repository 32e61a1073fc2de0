//! What every [`Store`] does, as checks that the tests of each of them call: for the disk with
//! each of its engines, for the page cache and for the store in memory.
//!
//! A check is given a [`Subject`] that is fresh. Where a store cannot have a fault (one that is
//! called and waits cannot hang) the check goes without it, and says so.

use std::path::{Path, PathBuf};

use catchment_agent::{
    Completion, CompletionKind, FileEnd, FileId, FolderStore, NewFile, OpenError, Presence, Store,
};

/// What writes are aligned to.
const BLOCK: usize = 4_096;
/// Bytes of a buffer of each subject.
pub const BUFFER_BYTES: usize = 4 * BLOCK;
/// Buffers of each subject, where they are bounded.
pub const BUFFERS: usize = 4;

/// A store, and what its tests can do to it.
pub trait Subject {
    /// The store.
    type Store: Store;

    /// It.
    fn store(&mut self) -> &mut Self::Store;

    /// Where a file of that name is.
    fn path(&self, name: &str) -> PathBuf;

    /// Makes a file of that name, without blocks ahead.
    fn create(&mut self, name: &str) -> FileId;

    /// Waits until something may have completed.
    fn wait(&mut self);

    /// Lets a moment pass in which a disk that does not hang may complete something, where time
    /// does not pass by itself.
    fn pass(&mut self) {}

    /// What a reader finds in a file; none if it is not there.
    fn read(&self, path: &Path) -> Option<Vec<u8>>;

    /// Has these faults happen from now on, and no others; false where it cannot.
    fn set(&mut self, faults: Faults) -> bool;

    /// Whether there are [`BUFFERS`] buffers, or any number.
    fn has_bounded_buffers(&self) -> bool {
        true
    }
}

/// A subject that makes its files ahead, and observes them.
pub trait FolderSubject: Subject<Store: FolderStore> {
    /// Cuts a file, as somebody else.
    fn truncate(&mut self, path: &Path, bytes: u64);

    /// Removes a file, as somebody else.
    fn remove(&mut self, path: &Path);
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Writes fail.
    pub writes: bool,
    /// Syncs fail.
    pub syncs: bool,
    /// Ends of files fail.
    pub finishes: bool,
    /// Files cannot be made.
    pub opens: bool,
    /// Texts cannot be appended.
    pub texts: bool,
    /// There is no room.
    pub full: bool,
    /// Nothing completes.
    pub hang: bool,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        writes: false,
        syncs: false,
        finishes: false,
        opens: false,
        texts: false,
        full: false,
        hang: false,
    };
}

/// Calls each check of a [`Store`] with a subject of its own.
pub fn check_store<S: Subject>(subject: impl Fn() -> S) {
    written_bytes_are_read_back(&mut subject());
    a_sync_completes_after_the_writes_before_it(&mut subject());
    a_sync_fails_if_a_write_before_it_does(&mut subject());
    a_failed_sync_stays_with_its_file(&mut subject());
    a_failed_end_is_reported(&mut subject());
    a_deleted_file_is_gone(&mut subject());
    a_full_disk_takes_writes_again_with_room(&mut subject());
    nothing_completes_while_the_disk_hangs(&mut subject());
    buffers_are_given_back(&mut subject());
    syncs_that_are_accepted_complete_once(&mut subject());
}

/// Calls each check of a [`FolderStore`] with a subject of its own.
pub fn check_folder<S: FolderSubject>(subject: impl Fn() -> S) {
    check_store(&subject);
    a_file_made_ahead_is_taken_once(&mut subject());
    a_file_that_cannot_be_made_says_why(&mut subject());
    a_file_given_up_is_removed(&mut subject());
    a_look_finds_what_became_of_a_file(&mut subject());
    an_end_finds_what_became_of_a_file(&mut subject());
    a_sync_is_due_once_something_was_written(&mut subject());
    texts_follow_each_other(&mut subject());
    a_refused_text_goes_with_the_next(&mut subject());
    a_text_that_is_appended_later_is_no_error(&mut subject());
}

/// A write of whole blocks of one value, which is also its token. Waits for a buffer.
fn write<S: Subject>(subject: &mut S, file: FileId, block: usize, value: u8, all: &mut Log) {
    let mut buffer = loop {
        if let Some(buffer) = subject.store().try_buffer() {
            break buffer;
        }
        all.poll(subject);
        subject.wait();
    };
    assert_eq!(buffer.len(), BUFFER_BYTES);
    buffer[..BLOCK].fill(value);
    subject.store().write(file, (block * BLOCK) as u64, buffer, BLOCK, value.into());
    all.expected += 1;
}

/// Completions in the order in which they came, and how many there must be.
#[derive(Default)]
struct Log {
    completions: Vec<Completion>,
    expected: usize,
}

impl Log {
    fn poll<S: Subject>(&mut self, subject: &mut S) {
        subject.store().poll(&mut self.completions);
        assert!(self.completions.len() <= self.expected, "{:?}", self.completions);
    }

    fn sync<S: Subject>(&mut self, subject: &mut S, file: FileId, token: u64) -> bool {
        let is_accepted = subject.store().sync(file, token);
        self.expected += usize::from(is_accepted);
        is_accepted
    }

    fn finish<S: Subject>(&mut self, subject: &mut S, file: FileId, end: FileEnd) {
        subject.store().finish(file, end);
        self.expected += 1;
    }

    /// Waits until all that was accepted has completed, and a little longer: nothing may come
    /// twice. What came since the last call.
    fn drain<S: Subject>(&mut self, subject: &mut S) -> Vec<Completion> {
        self.poll(subject);
        while self.completions.len() < self.expected {
            subject.wait();
            self.poll(subject);
        }
        for _ in 0..10 {
            self.poll(subject);
        }
        self.expected = 0;
        std::mem::take(&mut self.completions)
    }
}

fn all_good(completions: &[Completion]) {
    completions.iter().for_each(|one| assert!(one.result.is_ok(), "{one:?}"));
}

/// Kinds, tokens and whether it was done, in the order in which they came.
fn results(completions: &[Completion]) -> Vec<(CompletionKind, u64, bool)> {
    completions.iter().map(|one| (one.kind, one.token, one.result.is_ok())).collect()
}

fn written_bytes_are_read_back<S: Subject>(subject: &mut S) {
    let (file, other) = (subject.create("a"), subject.create("b"));
    let mut log = Log::default();
    // In another order than they stand, and twice the same place, one after the other.
    for (block, value) in [(3, 1), (0, 2), (2, 3), (1, 4)] {
        write(subject, file, block, value, &mut log);
        write(subject, other, block, value + 100, &mut log);
    }
    let mut completions = log.drain(subject);
    write(subject, file, 2, 9, &mut log);
    log.finish(subject, file, FileEnd::Cut(3 * BLOCK as u64 + 10));
    completions.extend(log.drain(subject));
    all_good(&completions);
    let end = completions.last().expect("an end");
    assert_eq!((end.kind, end.file, end.bytes), (CompletionKind::Finished, file, 12_298));
    assert_eq!((end.offset, end.token), (0, 0));
    let mut tokens: Vec<_> = completions.iter().map(|one| (one.file, one.token)).collect();
    tokens.sort_unstable();
    let of = |file, tokens: &[u64]| tokens.iter().map(|&token| (file, token)).collect::<Vec<_>>();
    let expected = [of(file, &[0, 1, 2, 3, 4, 9]), of(other, &[101, 102, 103, 104])];
    assert_eq!(tokens, expected.concat());
    for one in completions.iter().filter(|one| one.kind == CompletionKind::Write) {
        let block = match one.token % 100 {
            9 => 2,
            token => [3, 0, 2, 1][token as usize - 1],
        };
        assert_eq!((one.offset, one.bytes), (block * BLOCK as u64, BLOCK as u64));
    }
    let blocks = [[2; BLOCK], [4; BLOCK], [9; BLOCK]].concat();
    let expected = [blocks, vec![1; 10]].concat();
    assert!(subject.read(&subject.path("a")).expect("a file") == expected);
}

fn a_sync_completes_after_the_writes_before_it<S: Subject>(subject: &mut S) {
    let file = subject.create("a");
    let mut log = Log::default();
    for round in 0..8_u8 {
        for index in 0..3 {
            let value = round * 3 + index;
            write(subject, file, value.into(), value, &mut log);
        }
        assert!(log.sync(subject, file, 100 + u64::from(round)));
    }
    let completions = log.drain(subject);
    all_good(&completions);
    for (at, sync) in completions.iter().enumerate() {
        if sync.kind == CompletionKind::Sync {
            let before = |token: u64| completions[..at].iter().any(|one| one.token == token);
            let round = sync.token - 100;
            assert!((0..(round + 1) * 3).all(before), "{:?}", results(&completions));
        }
    }
}

fn a_sync_fails_if_a_write_before_it_does<S: Subject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    write(subject, file, 0, 1, &mut log);
    all_good(&log.drain(subject));
    // While the write has not completed the sync must not begin.
    let faults = Faults { writes: true, hang: true, ..Faults::NONE };
    if !subject.set(faults) {
        println!("this store cannot hang: its syncs begin when its writes have ended");
        assert!(subject.set(Faults { hang: false, ..faults }));
    }
    write(subject, file, 1, 2, &mut log);
    assert!(log.sync(subject, file, 3));
    for _ in 0..10 {
        subject.pass();
        log.poll(subject);
    }
    assert!(subject.set(Faults { hang: false, ..faults }));
    let failed = log.drain(subject);
    let (write_failed, sync_failed) =
        ((CompletionKind::Write, 2, false), (CompletionKind::Sync, 3, false));
    assert_eq!(results(&failed), [write_failed, sync_failed]);
    assert!(subject.set(Faults::NONE));
    // What could be written since does not make good what could not.
    write(subject, file, 2, 4, &mut log);
    assert!(log.sync(subject, file, 5));
    let after = log.drain(subject);
    assert_eq!(
        results(&after),
        [(CompletionKind::Write, 4, true), (CompletionKind::Sync, 5, false)]
    );
    log.finish(subject, file, FileEnd::Cut(BLOCK as u64));
    all_good(&log.drain(subject));
    assert_eq!(subject.read(&subject.path("a")), Some(vec![1; BLOCK]));
    // Another file had no such write.
    let other = subject.create("b");
    write(subject, other, 0, 6, &mut log);
    assert!(log.sync(subject, other, 7));
    all_good(&log.drain(subject));
}

fn a_failed_sync_stays_with_its_file<S: Subject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    write(subject, file, 0, 1, &mut log);
    assert!(subject.set(Faults { syncs: true, ..Faults::NONE }));
    assert!(log.sync(subject, file, 2));
    let first = log.drain(subject);
    assert_eq!(
        results(&first),
        [(CompletionKind::Write, 1, true), (CompletionKind::Sync, 2, false)]
    );
    assert!(subject.set(Faults::NONE));
    assert!(log.sync(subject, file, 3));
    assert_eq!(results(&log.drain(subject)), [(CompletionKind::Sync, 3, false)]);
    log.finish(subject, file, FileEnd::Cut(BLOCK as u64));
    assert_eq!(results(&log.drain(subject)), [(CompletionKind::Finished, 0, false)]);
    let other = subject.create("b");
    write(subject, other, 0, 4, &mut log);
    assert!(log.sync(subject, other, 5));
    log.finish(subject, other, FileEnd::Cut(BLOCK as u64));
    all_good(&log.drain(subject));
}

fn a_failed_end_is_reported<S: Subject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    write(subject, file, 0, 1, &mut log);
    all_good(&log.drain(subject));
    assert!(subject.set(Faults { finishes: true, ..Faults::NONE }));
    log.finish(subject, file, FileEnd::Cut(BLOCK as u64));
    assert_eq!(results(&log.drain(subject)), [(CompletionKind::Finished, 0, false)]);
}

fn a_deleted_file_is_gone<S: Subject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    write(subject, file, 0, 1, &mut log);
    log.finish(subject, file, FileEnd::Delete);
    let completions = log.drain(subject);
    all_good(&completions);
    let end = completions.last().expect("an end");
    assert_eq!((end.kind, end.bytes), (CompletionKind::Finished, 0));
    assert_eq!(subject.read(&subject.path("a")), None);
}

fn a_full_disk_takes_writes_again_with_room<S: Subject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    write(subject, file, 0, 1, &mut log);
    all_good(&log.drain(subject));
    assert!(subject.set(Faults { full: true, ..Faults::NONE }));
    write(subject, file, 1, 2, &mut log);
    let refused = log.drain(subject);
    let error = refused[0].result.as_ref().expect_err("there is no room");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(subject.set(Faults::NONE));
    write(subject, file, 1, 3, &mut log);
    all_good(&log.drain(subject));
    log.finish(subject, file, FileEnd::Cut(2 * BLOCK as u64));
    all_good(&log.drain(subject));
    let expected = [[1; BLOCK], [3; BLOCK]].concat();
    assert!(subject.read(&subject.path("a")).expect("a file") == expected);
}

fn nothing_completes_while_the_disk_hangs<S: Subject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    if !subject.set(Faults { hang: true, ..Faults::NONE }) {
        println!("this store cannot hang: its calls last as long as the disk takes");
        return;
    }
    for value in 1..=BUFFERS as u8 {
        write(subject, file, value.into(), value, &mut log);
    }
    assert!(log.sync(subject, file, 9));
    for _ in 0..100 {
        subject.pass();
        log.poll(subject);
    }
    assert!(log.completions.is_empty() && subject.store().try_buffer().is_none());
    assert!(subject.set(Faults::NONE));
    let completions = log.drain(subject);
    all_good(&completions);
    assert_eq!(completions.last().map(|last| last.kind), Some(CompletionKind::Sync));
}

fn buffers_are_given_back<S: Subject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    let is_bounded = subject.has_bounded_buffers();
    let take = |subject: &mut S| {
        let buffers = std::iter::from_fn(|| subject.store().try_buffer());
        buffers.take(BUFFERS + 1).collect::<Vec<_>>()
    };
    let expected = BUFFERS + usize::from(!is_bounded);
    let buffers = take(subject);
    assert_eq!(buffers.len(), expected);
    drop(buffers);
    for fails in [false, true] {
        assert!(subject.set(Faults { writes: fails, ..Faults::NONE }));
        for buffer in take(subject) {
            subject.store().write(file, 0, buffer, BLOCK, 1);
            log.expected += 1;
            let completions = log.drain(subject);
            assert_eq!(results(&completions), [(CompletionKind::Write, 1, !fails)]);
        }
        assert_eq!(take(subject).len(), expected, "after writes that fail: {fails}");
    }
}

fn syncs_that_are_accepted_complete_once<S: Subject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    write(subject, file, 0, 1, &mut log);
    let accepted = (0..100).take_while(|&token| log.sync(subject, file, 100 + token)).count();
    assert!(accepted > 0);
    let completions = log.drain(subject);
    all_good(&completions);
    let mut syncs: Vec<_> = completions.iter().map(|one| one.token).collect();
    syncs.sort_unstable();
    let expected = std::iter::once(1).chain((0..accepted as u64).map(|token| 100 + token));
    assert!(syncs.into_iter().eq(expected), "{accepted}");
    assert!(log.sync(subject, file, 5), "there is room again");
    all_good(&log.drain(subject));
}

/// Asks for a file, and waits for it or for why there is none.
fn opened<S: FolderSubject>(
    subject: &mut S,
    name: &str,
    room_bytes: u64,
) -> Result<FileId, OpenError> {
    let path = subject.path(name);
    subject.store().open(NewFile { path, room_bytes });
    loop {
        if let Some(opened) = subject.store().take_opened() {
            return opened;
        }
        subject.wait();
        Log::default().poll(subject);
    }
}

fn a_file_made_ahead_is_taken_once<S: FolderSubject>(subject: &mut S) {
    assert!(subject.store().take_opened().is_none() && subject.store().opened_bytes().is_none());
    let file = opened(subject, "a", 0).expect("a file");
    assert!(subject.store().take_opened().is_none());
    assert_eq!(subject.store().blocks_bytes(file), 0);
    let mut log = Log::default();
    write(subject, file, 0, 1, &mut log);
    all_good(&log.drain(subject));
    assert_eq!(subject.store().blocks_bytes(file), BLOCK as u64);
    let other = opened(subject, "b", 0).expect("another file");
    assert_ne!(file, other);
    write(subject, other, 0, 2, &mut log);
    log.finish(subject, file, FileEnd::Cut(BLOCK as u64));
    log.finish(subject, other, FileEnd::Cut(BLOCK as u64));
    all_good(&log.drain(subject));
    assert_eq!(subject.read(&subject.path("a")), Some(vec![1; BLOCK]));
    assert_eq!(subject.read(&subject.path("b")), Some(vec![2; BLOCK]));
}

fn a_file_that_cannot_be_made_says_why<S: FolderSubject>(subject: &mut S) {
    let (there, mut log) = (subject.create("there"), Log::default());
    write(subject, there, 0, 1, &mut log);
    log.finish(subject, there, FileEnd::Cut(BLOCK as u64));
    all_good(&log.drain(subject));
    let path = subject.path("there");
    assert_eq!(opened(subject, "there", 0), Err(OpenError::Exists { path: path.clone() }));
    assert_eq!(subject.read(&path), Some(vec![1; BLOCK]), "it is left as it is");
    let room = opened(subject, "a", u64::MAX).expect_err("nothing has so much room");
    assert!(matches!(room, OpenError::NoRoom { room_bytes: u64::MAX, .. }), "{room:?}");
    assert!(subject.set(Faults { opens: true, ..Faults::NONE }));
    let refused = opened(subject, "a", 0).expect_err("it is refused");
    assert!(matches!(refused, OpenError::Other(_)), "{refused:?}");
    assert!(subject.set(Faults::NONE));
    assert!(subject.read(&subject.path("a")).is_none());
    opened(subject, "a", 0).expect("a file");
}

fn a_file_given_up_is_removed<S: FolderSubject>(subject: &mut S) {
    let path = subject.path("a");
    for is_there in [false, true] {
        subject.store().open(NewFile { path: path.clone(), room_bytes: 0 });
        while is_there && subject.store().opened_bytes().is_none() {
            subject.wait();
            Log::default().poll(subject);
        }
        subject.store().discard_opened();
        assert!(subject.store().take_opened().is_none());
        assert!(subject.store().opened_bytes().is_none());
        while subject.store().is_removing() {
            subject.wait();
            Log::default().poll(subject);
        }
        assert!(!is_there || subject.read(&path).is_none());
        // The same name is free again, at once or when the helper has removed it.
        let file = opened(subject, "a", 0).expect("a file");
        let mut log = Log::default();
        log.finish(subject, file, FileEnd::Delete);
        all_good(&log.drain(subject));
        assert!(subject.read(&path).is_none());
    }
}

fn a_look_finds_what_became_of_a_file<S: FolderSubject>(subject: &mut S) {
    fn look<S: FolderSubject>(subject: &mut S, file: FileId, bytes: usize) -> Presence {
        subject.store().look(file, bytes as u64);
        while subject.store().is_looking() {
            subject.wait();
            Log::default().poll(subject);
        }
        assert!(subject.store().spare_bytes().is_some());
        subject.store().presence(file)
    }
    for cut_blocks in [0, 2] {
        let name = format!("cut at {cut_blocks}.x");
        let (file, mut log) = (subject.create(&name), Log::default());
        assert_eq!(look(subject, file, 0), Presence::There);
        for block in 0..4 {
            write(subject, file, block, 7, &mut log);
        }
        all_good(&log.drain(subject));
        assert_eq!(look(subject, file, 4 * BLOCK), Presence::There);
        let path = subject.path(&name);
        subject.truncate(&path, cut_blocks * BLOCK as u64);
        assert_eq!(look(subject, file, 4 * BLOCK), Presence::Truncated);
        // What is written behind it makes it no better: its beginning is not there.
        if cut_blocks > 0 {
            continue;
        }
        for block in 4..6 {
            write(subject, file, block, 8, &mut log);
        }
        all_good(&log.drain(subject));
        assert_eq!(look(subject, file, 6 * BLOCK), Presence::Truncated);
    }
    let file = subject.create("removed.x");
    let path = subject.path("removed.x");
    subject.remove(&path);
    assert_eq!(look(subject, file, 0), Presence::Removed { others: true });
    let file = subject.create("removed.y");
    let path = subject.path("removed.y");
    subject.remove(&path);
    assert_eq!(look(subject, file, 0), Presence::Removed { others: false });
}

fn an_end_finds_what_became_of_a_file<S: FolderSubject>(subject: &mut S) {
    /// Writes a file of four blocks, and ends it when `change` has been made to it and `more`
    /// blocks were written behind; what was found.
    fn end<S: FolderSubject>(
        subject: &mut S,
        name: &str,
        more: usize,
        change: impl FnOnce(&mut S, &Path),
    ) -> Presence {
        let (file, mut log) = (subject.create(name), Log::default());
        for block in 0..4 {
            write(subject, file, block, 7, &mut log);
        }
        all_good(&log.drain(subject));
        let path = subject.path(name);
        change(subject, &path);
        for block in 4..4 + more {
            write(subject, file, block, 8, &mut log);
        }
        log.finish(subject, file, FileEnd::Cut(((4 + more) * BLOCK) as u64));
        let completions = log.drain(subject);
        all_good(&completions);
        let (end, writes) = completions.split_last().expect("an end");
        assert!(writes.iter().all(|one| one.found == Presence::There));
        assert_eq!(end.kind, CompletionKind::Finished);
        end.found
    }
    assert_eq!(end(subject, "whole.x", 2, |_, _| ()), Presence::There);
    let cut = |blocks: usize| {
        move |subject: &mut S, path: &Path| {
            subject.truncate(path, (blocks * BLOCK) as u64);
        }
    };
    assert_eq!(end(subject, "cut.x", 0, cut(2)), Presence::Truncated);
    // What is written behind the cut, and the end itself, make the file as long as it was.
    assert_eq!(end(subject, "cut and longer.x", 2, cut(0)), Presence::Truncated);
    let remove = |subject: &mut S, path: &Path| subject.remove(path);
    assert_eq!(end(subject, "removed.x", 1, remove), Presence::Removed { others: true });
    assert_eq!(end(subject, "removed.y", 1, remove), Presence::Removed { others: false });
}

fn a_sync_is_due_once_something_was_written<S: FolderSubject>(subject: &mut S) {
    let (file, mut log) = (subject.create("a"), Log::default());
    let long_ns = 1_000_000_000_000;
    assert!(!subject.store().sync_due(1));
    assert!(!subject.store().sync_due(long_ns), "nothing was written");
    write(subject, file, 0, 1, &mut log);
    assert!(subject.store().sync_due(2 * long_ns));
    assert!(!subject.store().sync_due(2 * long_ns + 1), "it was said");
    assert!(subject.store().sync_due(3 * long_ns), "and no sync was asked for");
    assert!(log.sync(subject, file, 2));
    assert!(!subject.store().sync_due(4 * long_ns));
    // The write was in progress when the sync was queued, so that nobody knew what it would cover.
    all_good(&log.drain(subject));
    assert!(subject.store().sync_due(5 * long_ns));
    assert!(log.sync(subject, file, 3));
    all_good(&log.drain(subject));
    assert!(!subject.store().sync_due(6 * long_ns));
}

fn settle<S: FolderSubject>(subject: &mut S) -> Option<String> {
    while subject.store().text_under_way() {
        subject.wait();
        Log::default().poll(subject);
    }
    subject.store().take_text_error()
}

fn texts_follow_each_other<S: FolderSubject>(subject: &mut S) {
    let path = subject.path("list");
    let texts: Vec<String> = (0..20).map(|n| format!("line {n}\n")).collect();
    texts.iter().for_each(|text| subject.store().append_text(&path, "header\n", text));
    assert_eq!(settle(subject), None);
    let expected = format!("header\n{}", texts.concat());
    assert_eq!(subject.read(&path), Some(expected.into_bytes()));
}

fn a_refused_text_goes_with_the_next<S: FolderSubject>(subject: &mut S) {
    let path = subject.path("list");
    assert!(subject.set(Faults { texts: true, ..Faults::NONE }));
    subject.store().append_text(&path, "header\n", "one\n");
    assert!(settle(subject).is_some());
    assert_eq!(subject.store().take_text_error(), None, "once");
    assert!(subject.set(Faults::NONE));
    // Also without anything new.
    subject.store().append_text(&path, "header\n", "");
    subject.store().append_text(&path, "header\n", "two\n");
    assert_eq!(settle(subject), None);
    assert_eq!(subject.read(&path), Some(b"header\none\ntwo\n".to_vec()));
}

fn a_text_that_is_appended_later_is_no_error<S: FolderSubject>(subject: &mut S) {
    let path = subject.path("list");
    assert!(subject.set(Faults { texts: true, ..Faults::NONE }));
    subject.store().append_text(&path, "header\n", "one\n");
    while subject.store().text_under_way() {
        subject.wait();
        Log::default().poll(subject);
    }
    assert!(subject.set(Faults::NONE));
    subject.store().append_text(&path, "header\n", "two\n");
    assert_eq!(settle(subject), None);
    assert_eq!(subject.read(&path), Some(b"header\none\ntwo\n".to_vec()));
}
