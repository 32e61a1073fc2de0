//! Reading and decoding many pieces of columns at once.
//!
//! Pieces are sorted by file and offset. Adjacent pieces form a group, which is read at once. Small
//! reads stay on the caller's thread, because starting another thread costs more than they take;
//! large ones are distributed over threads.
//!
//! Data that are not in the page cache bypass it: filling it takes a third of the time of the disk
//! read. Only the ends of the first and the last group are read through the page cache, as a mark:
//! when any process reads the same data again, it finds the mark and reads through the page cache,
//! so the third read needs no disk. The mark lasts until the system evicts it. If reads cannot
//! bypass the page cache, or if it is to be filled, they are announced to the system ahead of time
//! (ahead.rs), so that the disk works while columns are decoded.
//!
//! All stored bytes of an encoded column are read and checked, but only its blocks with wanted
//! samples are decoded. Of a raw column, the wanted bytes are read, with as many around them as
//! checking requires ([`crate::checked`]). An encoded column that is read for the second time is
//! cached ([`crate::cache`]).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use catchment_disk::{DirectBytes, DirectReader, ReadFile, Ticket};
use catchment_frame::{Codec, ColumnEntry, FrameError, Span, StoredColumn};
use catchment_model::SampleRate;
use parking_lot::Mutex;

use crate::ahead::Ahead;
use crate::cache::ColumnCache;
use crate::channels::Segment;
use crate::checked::{CheckedColumn, CheckedColumns};
use crate::error::StorageError;
use crate::memory;
use crate::open::{Counted, RunFile};
use crate::parallel;
use crate::run::Run;

/// Samples to be read from one frame's column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub file: usize,
    pub frame: usize,
    pub entry: ColumnEntry,
    pub row: u64,
    pub first_sample: u64,
    pub samples: u64,
}

/// The samples to be read from one channel.
pub(crate) struct Plan {
    pub rate: SampleRate,
    pub row_bytes: u64,
    pub parts: Vec<Part>,
}

impl Plan {
    /// Bytes of all samples.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.samples * self.row_bytes).sum()
    }

    /// Whether samples are consecutive in time, as they must be in one column.
    pub(crate) fn is_in_order(&self) -> bool {
        let end = |part: &Part| part.first_sample + part.samples;
        self.parts.windows(2).all(|pair| end(&pair[0]) <= pair[1].first_sample)
    }

    /// Where samples continue after a gap, with rows counted from the first part's.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let (mut spans, mut row) = (Vec::new(), 0);
        for pair in self.parts.windows(2) {
            row += pair[0].samples;
            if pair[0].first_sample + pair[0].samples != pair[1].first_sample {
                spans.push(Span { row, sample: pair[1].first_sample });
            }
        }
        spans
    }
}

/// One part, and the destination of its bytes.
struct Task<'a> {
    file: usize,
    /// The frame's index in its file.
    frame: usize,
    /// Its index in [`Run::channel_frames`].
    channel_frame: usize,
    entry: ColumnEntry,
    /// The offset of the column in the file.
    at: u64,
    /// The range in the file of the stored bytes that must be read.
    stored: Range<u64>,
    /// The wanted range of the column's raw bytes.
    raw: Range<usize>,
    out: &'a mut [u8],
}

/// Executes plans. Sizes have been checked against the files.
pub(crate) fn fetch(
    run: &Run,
    plans: Vec<Plan>,
    threads: usize,
) -> Result<Vec<Vec<Segment>>, StorageError> {
    let columns = ChannelReader::new(run);
    if let [plan] = plans.as_slice()
        && let Some(segment) = columns.in_memory(plan)
    {
        return Ok(vec![vec![segment]]);
    }
    let mut read: Vec<Vec<Segment>> = plans.iter().map(segments).collect();
    let mut tasks = Vec::new();
    for (plan, segments) in plans.iter().zip(&mut read) {
        let mut parts = plan.parts.iter();
        for segment in segments {
            let mut rest = segment.bytes.as_mut_slice();
            while !rest.is_empty() {
                let part = parts.next().expect("a segment's bytes are those of its parts");
                let (out, later) = rest.split_at_mut((part.samples * plan.row_bytes) as usize);
                rest = later;
                tasks.extend(columns.task(part, plan.row_bytes, out));
            }
        }
    }
    if tasks.is_empty() {
        return Ok(read);
    }
    let raw_bytes: usize = tasks.iter().map(|task| task.out.len()).sum();
    let threads = if raw_bytes < ALONE_BYTES_MAX { 1 } else { threads };
    let groups = groups(tasks);
    if let Some(reader) = columns.reader_past_cache(&groups) {
        fetch_past_cache(columns, reader, groups, threads)?;
        return Ok(read);
    }
    let ahead = columns.ahead(&groups);
    parallel::map(groups.into_iter().enumerate().collect(), threads, |(index, group)| {
        SCRATCH.with_borrow_mut(|scratch| {
            let read = columns.fetch_group(group, scratch, |now| ahead.come_to(index, now));
            scratch.shrink();
            read
        })
    })?;
    Ok(read)
}

/// Reads groups that are not in the page cache.
fn fetch_past_cache(
    columns: ChannelReader<'_>,
    reader: DirectReader,
    groups: Vec<Group<'_>>,
    threads: usize,
) -> Result<(), StorageError> {
    let workers = (0..threads.min(groups.len())).collect();
    let coming = Coming { columns, reader, groups: groups.into_iter(), begun: VecDeque::new() };
    let coming = Mutex::new(coming);
    let lock = || coming.lock();
    parallel::map(workers, threads, |_| {
        let mut done = None;
        loop {
            // The thread that waits for the disk holds the lock: the others have no work.
            let next = lock().next(done.take());
            let Some((group, stored)) = next else { return Ok(()) };
            let fetched = SCRATCH.with_borrow_mut(|scratch| {
                let fetched = columns.fetch_come(group, stored.as_deref(), scratch);
                scratch.shrink();
                fetched
            });
            if let Err(error) = fetched {
                lock().end();
                return Err(error);
            }
            done = stored;
        }
    })?;
    coming.into_inner().reader.give_back();
    Ok(())
}

/// Groups being read past the page cache, in order.
struct Coming<'a> {
    columns: ChannelReader<'a>,
    reader: DirectReader,
    groups: std::vec::IntoIter<Group<'a>>,
    begun: VecDeque<(Group<'a>, Option<Ticket>)>,
}

impl<'a> Coming<'a> {
    /// The next group and its stored bytes, or none if these must be read in another way. Takes
    /// back the previous group's memory.
    fn next(&mut self, done: Option<DirectBytes>) -> Option<(Group<'a>, Option<DirectBytes>)> {
        done.into_iter().for_each(|done| self.reader.take_back(done));
        self.begin();
        let (group, ticket) = self.begun.pop_front()?;
        let stored = ticket.and_then(|ticket| {
            while !self.reader.is_over(ticket) {
                self.reader.wait();
            }
            self.reader.bytes(ticket)
        });
        if stored.is_none() {
            let (file, bytes) = self.columns.location(&group);
            file.announce(bytes);
        }
        // Others are read while this one is decoded.
        self.begin();
        self.reader.submit();
        Some((group, stored))
    }

    /// Drops the remaining groups: one of them could not be read.
    fn end(&mut self) {
        self.begun.clear();
        self.groups = Vec::new().into_iter();
    }

    /// Begins reading as many groups as may be in flight.
    fn begin(&mut self) {
        while self.begun.is_empty() || self.reader.bytes_begun() < COMING_BYTES {
            let Some(group) = self.groups.next() else { break };
            let (file, bytes) = self.columns.location(&group);
            let ticket = self.reader.begin(file, bytes);
            let waits = ticket.is_some();
            self.begun.push_back((group, ticket));
            if !waits {
                break;
            }
        }
    }
}

/// Reads a plan's parts one after another, only on the caller's thread.
pub(crate) fn fetch_into(run: &Run, plan: &Plan, out: &mut [u8]) -> Result<(), StorageError> {
    let columns = ChannelReader::new(run);
    let mut rest = out;
    let mut tasks = Vec::with_capacity(plan.parts.len());
    for part in &plan.parts {
        let (out, later) = rest.split_at_mut((part.samples * plan.row_bytes) as usize);
        rest = later;
        tasks.extend(columns.task(part, plan.row_bytes, out));
    }
    let groups = groups(tasks);
    let ahead = columns.ahead(&groups);
    for (index, group) in groups.into_iter().enumerate() {
        let come = |now| ahead.come_to(index, now);
        SCRATCH.with_borrow_mut(|scratch| columns.fetch_group(group, scratch, come))?;
    }
    Ok(())
}

/// The plan's segments, with bytes yet to be read: consecutive parts are merged.
fn segments(plan: &Plan) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for part in &plan.parts {
        match segments.last_mut() {
            Some(last) if last.first_sample + last.samples == part.first_sample => {
                last.samples += part.samples;
            }
            _ => segments.push(Segment {
                first_sample: part.first_sample,
                samples: part.samples,
                start_ns: plan.rate.time_ns(part.first_sample),
                bytes: Vec::new(),
            }),
        }
    }
    for segment in &mut segments {
        segment.bytes = memory::take((segment.samples * plan.row_bytes) as usize);
    }
    segments
}

/// Tasks whose stored bytes are adjacent.
struct Group<'a> {
    /// At least one, all from one file.
    tasks: Vec<Task<'a>>,
    /// The range of their stored bytes in the file.
    stored: Range<u64>,
}

impl<'a> Group<'a> {
    fn begin(task: Task<'a>) -> Self {
        Self { stored: task.stored.clone(), tasks: vec![task] }
    }

    /// Whether a task after the others belongs to this group.
    fn takes(&self, task: &Task<'_>) -> bool {
        let last = &self.tasks[self.tasks.len() - 1];
        // Between neighbours are padding and the first one's table.
        let near = task.stored.start.saturating_sub(self.stored.end) < last.between();
        let bytes = task.stored.end.max(self.stored.end) - self.stored.start;
        last.file == task.file && near && bytes <= GROUP_BYTES_MAX
    }

    fn add(&mut self, task: Task<'a>) {
        self.stored.end = self.stored.end.max(task.stored.end);
        self.tasks.push(task);
    }
}

/// The tasks in groups, in file order.
fn groups(mut tasks: Vec<Task<'_>>) -> Vec<Group<'_>> {
    tasks.sort_by_key(|task| (task.file, task.stored.start));
    let mut groups: Vec<Group<'_>> = Vec::with_capacity(tasks.len());
    for task in tasks {
        match groups.last_mut().filter(|group| group.takes(&task)) {
            Some(group) => group.add(task),
            None => groups.push(Group::begin(task)),
        }
    }
    groups
}

/// A thread's memory for reading and decoding, reused by its next read: touched pages are worth
/// more than the few megabytes.
#[derive(Default)]
struct Scratch {
    stored: Vec<u8>,
    raw: Vec<u8>,
}

impl Scratch {
    /// Frees the memory of an unusually large column.
    fn shrink(&mut self) {
        for buffer in [&mut self.stored, &mut self.raw] {
            if buffer.len() > SCRATCH_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Reads and decodes columns of a run's channels.
#[derive(Clone, Copy)]
struct ChannelReader<'a> {
    run: &'a Run,
    cache: &'a ColumnCache,
    checked: &'a CheckedColumns,
}

impl<'r> ChannelReader<'r> {
    fn new(run: &'r Run) -> Self {
        Self { run, cache: run.cache(), checked: run.checked() }
    }

    /// The contents of one column if it is in memory: the shortest path, for callers that read
    /// little and often.
    fn in_memory(&self, plan: &Plan) -> Option<Segment> {
        let [part] = plan.parts.as_slice() else { return None };
        let cached = self.cache.samples(part.frame, part.entry.id)?;
        let (row, bytes) = (part.row * plan.row_bytes, part.samples * plan.row_bytes);
        Some(Segment {
            first_sample: part.first_sample,
            samples: part.samples,
            start_ns: plan.rate.time_ns(part.first_sample),
            bytes: memory::copy_of(&cached[row as usize..(row + bytes) as usize]),
        })
    }

    /// The task for a part; nothing if its column is in memory.
    fn task<'a>(&self, part: &Part, row_bytes: u64, out: &'a mut [u8]) -> Option<Task<'a>> {
        let frame = &self.run.channel_frames()[part.frame];
        let entry = part.entry;
        let start = part.row * row_bytes;
        let raw = start..start + part.samples * row_bytes;
        if entry.codec != Codec::None
            && let Some(cached) = self.cache.samples(part.frame, entry.id)
        {
            out.copy_from_slice(&cached[raw.start as usize..raw.end as usize]);
            return None;
        }
        let at = frame.summary.offset + entry.offset;
        let stored = match entry.codec {
            Codec::None => self.checked.to_read((part.frame, entry.id), &entry, &raw),
            _ => 0..entry.stored_bytes,
        };
        let stored = at + stored.start..at + stored.end;
        let raw = raw.start as usize..raw.end as usize;
        let (file, frame, channel_frame) = (part.file, frame.index, part.frame);
        Some(Task { file, frame, channel_frame, entry, at, stored, raw, out })
    }

    /// The bytes of their files that the groups will have read.
    fn ahead(&self, groups: &[Group<'_>]) -> Ahead<'r> {
        Ahead::new(groups.iter().map(|group| self.location(group)))
    }

    /// The file and the range of a group's stored bytes.
    fn location(&self, group: &Group<'_>) -> (&'r ReadFile, Range<u64>) {
        (&*self.run.run_files()[group.tasks[0].file].file, group.stored.clone())
    }

    /// A reader that bypasses the page cache, if this is possible and no group is cached. From then
    /// on, the ends of the first and the last group are in the page cache.
    fn reader_past_cache(&self, groups: &[Group<'_>]) -> Option<DirectReader> {
        let ends = [groups.first()?, groups.last()?];
        let ends = &ends[..groups.len().min(2)];
        let new = ends.iter().all(|group| {
            let (file, bytes) = self.location(group);
            !bytes.is_empty() && file.is_cached(bytes.end - 1) == Some(false)
        });
        let mut reader = new.then(DirectReader::take).flatten()?;
        if !reader.can_read(self.location(ends[0]).0) {
            reader.give_back();
            return None;
        }
        for group in ends {
            let (file, bytes) = self.location(group);
            file.announce(bytes.end - 1..bytes.end);
        }
        Some(reader)
    }

    /// Decodes a group that has arrived, or reads it first.
    fn fetch_come(
        &self,
        mut group: Group<'_>,
        stored: Option<&[u8]>,
        scratch: &mut Scratch,
    ) -> Result<(), StorageError> {
        let Some(stored) = stored else { return self.fetch_group(group, scratch, |_| {}) };
        self.run.count_read(stored.len());
        self.decode_group(&mut group, stored, &mut scratch.raw)
    }

    /// Reads and decodes. `come` is told which of the group's bytes are about to be read.
    fn fetch_group(
        &self,
        mut group: Group<'_>,
        scratch: &mut Scratch,
        come: impl Fn(Range<u64>),
    ) -> Result<(), StorageError> {
        let file = &self.run.run_files()[group.tasks[0].file];
        if let [task] = group.tasks.as_mut_slice()
            && task.entry.codec != Codec::None
            && task.is_whole()
        {
            let entry = &task.entry;
            let stored = grown(&mut scratch.stored, entry.stored_bytes as usize);
            let column = file.reader.stored_column(task.frame, entry);
            let read = column.and_then(|column| column.read_decoded((stored, task.out), come));
            read.map_err(|error| file.error(error))?;
            self.keep_if_asked_again(task);
            return Ok(());
        }
        let Range { start, end } = group.stored;
        come(0..end - start);
        if let [task] = group.tasks.as_mut_slice()
            && task.entry.codec == Codec::None
        {
            // Directly to their destination.
            let read = self.read_raw(file, task, &mut scratch.stored);
            return read.map_err(|error| file.error(error));
        }
        let stored = grown(&mut scratch.stored, (end - start) as usize);
        let first = &group.tasks[0];
        let column = file.reader.stored_column(first.frame, &first.entry);
        let read = column.and_then(|column| column.read_bytes(start, stored));
        read.map_err(|error| file.error(error))?;
        self.decode_group(&mut group, stored, &mut scratch.raw)
    }

    /// Decodes a group whose stored bytes are all there.
    fn decode_group(
        &self,
        group: &mut Group<'_>,
        stored: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        let file = &self.run.run_files()[group.tasks[0].file];
        let start = group.stored.start;
        let stored_of = |task: &Task<'_>| {
            &stored[(task.stored.start - start) as usize..(task.stored.end - start) as usize]
        };
        // Parts of one column are consecutive, and gaps make many of them: it is decoded once.
        let one_column = |a: &Task<'_>, b: &Task<'_>| a.column() == b.column();
        for tasks in group.tasks.chunk_by_mut(one_column) {
            if tasks[0].entry.codec == Codec::None {
                for task in tasks {
                    let stored = stored_of(task);
                    self.copy_raw(file, task, stored).map_err(|error| file.error(error))?;
                }
                continue;
            }
            let stored = stored_of(&tasks[0]);
            self.decode_column(file, tasks, stored, scratch).map_err(|error| file.error(error))?;
        }
        Ok(())
    }

    /// Reads and checks the wanted part of a raw column.
    fn read_raw(
        &self,
        file: &RunFile,
        task: &mut Task<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let column = file.reader.stored_column(task.frame, &task.entry)?;
        if task.is_whole() {
            column.read_bytes(task.stored.start, task.out)?;
            return column.check_stored(task.out);
        }
        let wanted = task.wanted();
        self.checked_column(task, &column)?.read(&column, (task.at, &wanted), task.out, scratch)
    }

    /// Checks and copies the wanted part of a raw column, from the bytes `stored` that were read.
    fn copy_raw(
        &self,
        file: &RunFile,
        task: &mut Task<'_>,
        stored: &[u8],
    ) -> Result<(), FrameError> {
        let column = file.reader.stored_column(task.frame, &task.entry)?;
        let (wanted, start) = (task.wanted(), task.stored.start - task.at);
        match task.is_whole() {
            true => column.check_stored(stored)?,
            false => {
                self.checked_column(task, &column)?.check(&column, &wanted, (start, stored))?
            }
        }
        let from = (wanted.start - start) as usize;
        task.out.copy_from_slice(&stored[from..from + task.raw.len()]);
        Ok(())
    }

    fn checked_column(
        &self,
        task: &Task<'_>,
        column: &StoredColumn<'_, Counted>,
    ) -> Result<Arc<CheckedColumn>, FrameError> {
        self.checked.column((task.channel_frame, task.entry.id), &task.entry, column)
    }

    /// Decodes the wanted part of an encoded column.
    fn decode_column(
        &self,
        file: &RunFile,
        tasks: &mut [Task<'_>],
        stored: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let entry = tasks[0].entry;
        let column = file.reader.stored_column(tasks[0].frame, &entry)?;
        let bytes = entry.raw_bytes as usize;
        if let [task] = tasks
            && task.is_whole()
        {
            column.decode(stored, 0..bytes, task.out)?;
            self.keep_if_asked_again(task);
            return Ok(());
        }
        let asked_again = self.cache.is_asked_again(tasks[0].channel_frame, &entry);
        let mut copy = vec![0; if asked_again { bytes } else { 0 }];
        let (wanted, raw) = if asked_again {
            (0..bytes, copy.as_mut_slice())
        } else {
            let ranges = || tasks.iter().map(|task| &task.raw);
            let first = ranges().map(|raw| raw.start).min().unwrap_or(0);
            let end = ranges().map(|raw| raw.end).max().unwrap_or(bytes);
            (first..end, grown(scratch, bytes))
        };
        column.decode(stored, wanted, raw)?;
        for task in &mut *tasks {
            task.out.copy_from_slice(&raw[task.raw.clone()]);
        }
        if asked_again {
            self.cache.keep_samples(tasks[0].channel_frame, entry.id, copy);
        }
        Ok(())
    }

    /// Caches a copy of a column decoded into the caller's memory.
    fn keep_if_asked_again(&self, task: &Task<'_>) {
        if self.cache.is_asked_again(task.channel_frame, &task.entry) {
            self.cache.keep_samples(task.channel_frame, task.entry.id, task.out.to_vec());
        }
    }
}

impl Task<'_> {
    /// Frame and column, which identify the column within a group, since it has one file.
    fn column(&self) -> (usize, u32) {
        (self.frame, self.entry.id)
    }

    fn is_whole(&self) -> bool {
        self.raw.len() as u64 == self.entry.raw_bytes
    }

    /// The wanted stored bytes of a raw column.
    fn wanted(&self) -> Range<u64> {
        self.raw.start as u64..self.raw.end as u64
    }

    /// More bytes than there are between its column and the next one.
    fn between(&self) -> u64 {
        let table = self.entry.table_range();
        2 * catchment_frame::COLUMN_ALIGN_BYTES + (table.end - table.start)
    }
}

/// The first bytes of a buffer, which grows as needed and never shrinks.
fn grown(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    &mut buffer[..bytes]
}

/// Smaller reads stay on the caller's thread.
const ALONE_BYTES_MAX: usize = 2 << 20;
/// Bytes that are read at once, unless one column is larger.
const GROUP_BYTES_MAX: u64 = 4 << 20;
const SCRATCH_BYTES_MAX: usize = 8 << 20;
/// Another read past the page cache begins while fewer bytes than these are in flight: enough for a
/// disk, and few enough that the memory being reused is still in the CPU's caches.
const COMING_BYTES: usize = 1 << 20;
