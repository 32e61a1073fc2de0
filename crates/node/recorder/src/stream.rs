//! Streams of bytes into disk buffers: a file header, a frame or a table of contents, piece by
//! piece.
//!
//! What is streamed is a *job*: its full buffers are written while it grows, all but the first,
//! which holds the header that makes the rest valid: it is written when all others have completed,
//! and all older jobs of the file too, so that a killed recorder leaves no header without its
//! columns and no hole between frames. Jobs are kept in the order in which they were begun, until
//! the thread that owns them has seen their end.

use std::collections::VecDeque;
use std::time::Duration;

use catchment_disk::{Buffer, Completion, CompletionKind, Disk, FileId};
use catchment_frame::Crc32c;

/// Bytes that are checksummed and then copied while they are in the cache.
const PIECE_BYTES: usize = 64 << 10;
/// How long to wait for a completion before looking again.
const WAIT: Duration = Duration::from_millis(100);

/// A disk and what is under way on it.
pub(crate) struct Jobs<T> {
    pub(crate) disk: Disk,
    queue: VecDeque<Job<T>>,
    next_token: u64,
    completions: Vec<Completion>,
    others: Vec<Completion>,
    buffer_bytes: usize,
}

/// Something streamed, whose writes may be under way.
pub(crate) struct Job<T> {
    pub(crate) file: FileId,
    /// What the owner wants to know at its end; set when it was streamed to its end.
    pub(crate) what: Option<T>,
    /// The first error that a write of it met.
    pub(crate) error: Option<String>,
    writes_left: u32,
    start: u64,
    /// The first buffer and its length, until the others are written.
    first: Option<(Buffer, usize)>,
}

impl<T> Job<T> {
    /// Whether all of it was streamed, and its writes have completed.
    pub(crate) fn ended(&self) -> bool {
        self.what.is_some() && self.writes_left == 0 && self.first.is_none()
    }
}

/// The place in a job's bytes. Ended by [`Jobs::finish`], or else never written.
#[must_use]
pub(crate) struct Stream {
    token: u64,
    position: u64,
    first: Option<Buffer>,
    current: Option<Buffer>,
}

impl<T> Jobs<T> {
    pub(crate) fn new(disk: Disk, buffer_bytes: usize) -> Self {
        Self {
            disk,
            queue: VecDeque::new(),
            next_token: 0,
            completions: Vec::new(),
            others: Vec::new(),
            buffer_bytes,
        }
    }

    /// Begins a job at an offset of a file.
    pub(crate) fn begin(&mut self, file: FileId, start: u64) -> Stream {
        let token = self.next_token;
        self.next_token += 1;
        self.queue.push_back(Job {
            file,
            what: None,
            error: None,
            writes_left: 0,
            start,
            first: None,
        });
        Stream { token, position: 0, first: None, current: None }
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, stream: &mut Stream, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = (stream.position % self.buffer_bytes as u64) as usize;
            let room = self.buffer_bytes - at;
            let (now, later) = rest.split_at(rest.len().min(room));
            self.current(stream)[at..at + now.len()].copy_from_slice(now);
            stream.position += now.len() as u64;
            rest = later;
            if now.len() == room {
                self.put_away(stream, self.buffer_bytes);
            }
        }
    }

    /// Appends bytes and takes them into the checksum.
    pub(crate) fn append_checked(&mut self, stream: &mut Stream, bytes: &[u8], crc: &mut Crc32c) {
        for piece in bytes.chunks(PIECE_BYTES) {
            crc.update(piece);
            self.append(stream, piece);
        }
    }

    /// Appends zeros up to that position.
    pub(crate) fn pad_to(&mut self, stream: &mut Stream, position: u64) {
        while stream.position < position {
            let at = (stream.position % self.buffer_bytes as u64) as usize;
            let bytes = (position - stream.position).min((self.buffer_bytes - at) as u64) as usize;
            self.current(stream)[at..at + bytes].fill(0);
            stream.position += bytes as u64;
            if at + bytes == self.buffer_bytes {
                self.put_away(stream, self.buffer_bytes);
            }
        }
    }

    /// The first buffer of the job, in which the header is.
    ///
    /// # Panics
    /// If nothing was streamed.
    pub(crate) fn first<'a>(&self, stream: &'a mut Stream) -> &'a mut [u8] {
        let first = stream.first.as_mut().or(stream.current.as_mut());
        first.expect("a job that has bytes")
    }

    /// Ends the job: what is left is written, its first buffer last.
    ///
    /// # Panics
    /// If the job does not end on a 4 KiB border.
    pub(crate) fn finish(&mut self, mut stream: Stream, what: T) {
        assert!(stream.position.is_multiple_of(catchment_frame::BLOCK_BYTES), "a whole block");
        let rest = (stream.position % self.buffer_bytes as u64) as usize;
        if rest > 0 {
            self.put_away(&mut stream, rest);
        }
        let first_bytes = stream.position.min(self.buffer_bytes as u64) as usize;
        let job = self.job(stream.token);
        job.what = Some(what);
        job.first = stream.first.take().map(|first| (first, first_bytes));
        self.write_first(stream.token);
        self.poll_disk();
    }

    /// The oldest job.
    pub(crate) fn oldest(&self) -> Option<&Job<T>> {
        self.queue.front()
    }

    /// Takes the oldest job away.
    pub(crate) fn take_oldest(&mut self) -> Option<Job<T>> {
        self.queue.pop_front()
    }

    /// All jobs, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Job<T>> {
        self.queue.iter()
    }

    /// Takes up completions without waiting; hands those of syncs and finished files out.
    pub(crate) fn poll(&mut self) -> std::vec::Drain<'_, Completion> {
        self.poll_disk();
        self.others.drain(..)
    }

    /// As [`Jobs::poll`], after waiting for a completion for a while.
    pub(crate) fn wait(&mut self) -> std::vec::Drain<'_, Completion> {
        self.disk.wait(WAIT, &mut self.completions);
        self.book();
        self.others.drain(..)
    }

    /// Waits until the disk or its helpers have done something. Completions are kept for the next
    /// [`Jobs::poll`].
    pub(crate) fn wait_for_helper(&mut self) {
        self.disk.wait(WAIT, &mut self.completions);
        self.book();
    }

    fn current<'a>(&mut self, stream: &'a mut Stream) -> &'a mut [u8] {
        if stream.current.is_none() {
            stream.current = Some(self.buffer());
        }
        stream.current.as_mut().expect("just set")
    }

    /// A free buffer. Waits for the disk where there is none: this is where a slow disk holds the
    /// write thread up, while frames wait in memory.
    fn buffer(&mut self) -> Buffer {
        loop {
            let buffer = self.disk.buffer(WAIT, &mut self.completions);
            self.book();
            if let Some(buffer) = buffer {
                return buffer;
            }
        }
    }

    fn put_away(&mut self, stream: &mut Stream, bytes: usize) {
        let buffer = stream.current.take().expect("a buffer that was filled");
        let begin = (stream.position - 1) / self.buffer_bytes as u64 * self.buffer_bytes as u64;
        if begin == 0 {
            stream.first = Some(buffer);
        } else {
            self.write(stream.token, begin, buffer, bytes);
            self.poll_disk();
        }
    }

    /// Writes a job's first buffer, if it was streamed to its end and nothing else of it is left.
    /// Where another write of it has failed the header stays away.
    fn write_first(&mut self, token: u64) {
        let index = (token - self.oldest_token()) as usize;
        let file = self.queue[index].file;
        if self.queue.iter().take(index).any(|older| older.file == file && !older.ended()) {
            return;
        }
        let job = &mut self.queue[index];
        if job.what.is_none() || job.writes_left > 0 {
            return;
        }
        if let Some((buffer, bytes)) = job.first.take()
            && job.error.is_none()
        {
            self.write(token, 0, buffer, bytes);
        }
    }

    fn write(&mut self, token: u64, begin: u64, buffer: Buffer, bytes: usize) {
        let job = self.job(token);
        job.writes_left += 1;
        let (file, offset) = (job.file, job.start + begin);
        self.disk.write(file, offset, buffer, bytes, token);
    }

    fn poll_disk(&mut self) {
        self.disk.poll(&mut self.completions);
        self.book();
    }

    fn job(&mut self, token: u64) -> &mut Job<T> {
        let index = token - self.oldest_token();
        &mut self.queue[index as usize]
    }

    fn oldest_token(&self) -> u64 {
        self.next_token - self.queue.len() as u64
    }

    fn book(&mut self) {
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            if completion.kind != CompletionKind::Write {
                self.others.push(completion);
                continue;
            }
            let job = self.job(completion.token);
            job.writes_left -= 1;
            if let Err(error) = completion.result {
                job.error.get_or_insert_with(|| error.to_string());
            }
        }
        self.completions = completions;
        for token in self.oldest_token()..self.next_token {
            self.write_first(token);
        }
    }
}
