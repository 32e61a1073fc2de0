//! Streams of bytes into disk buffers: a file header, a frame or a table of contents, piece by
//! piece.
//!
//! A stream is a *job*: its full buffers are written while it grows, except the first, which holds
//! the header that makes the rest valid. In files that are read while they grow, the first buffer
//! is written when all others, and all older jobs of the file, have completed, so that a killed
//! writer leaves no header without its columns and no hole between frames. Jobs stay in the order
//! in which they began, until their owner has taken them.
//!
//! Nothing here blocks. Without a free buffer appending stops early, and continues when a write has
//! completed: here a slow disk delays frames, which wait in memory.

use std::collections::VecDeque;
use std::io;

use catchment_agent::{Completion, CompletionKind, FileId, Store};
use catchment_frame::BlockDigest;

/// Bytes that are checksummed and then copied while they are in the cache.
const PIECE_BYTES: usize = 64 << 10;

/// When a job's first buffer, with the header in it, is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderOrder {
    /// When the rest of the job, and all older jobs of the file, have been written.
    Last,
    /// When the job was streamed to its end: the file is not read before it is closed.
    Held,
}

/// A store and its jobs.
pub(crate) struct Jobs<S: Store, K> {
    pub(crate) store: S,
    queue: VecDeque<Job<S::Buffer, K>>,
    next_token: u64,
    writes: WriteCounts,
    completions: Vec<Completion>,
    others: Vec<Completion>,
    buffer_bytes: usize,
    order: HeaderOrder,
}

/// Writes of a store; the difference of the two counts is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Writes begun.
    pub begun: u64,
    /// Writes completed, with or without an error.
    pub completed: u64,
}

/// A stream whose writes may be in flight.
pub(crate) struct Job<B, K> {
    pub(crate) file: FileId,
    /// Its kind; set when it was streamed to its end.
    pub(crate) kind: Option<K>,
    /// The first error of its writes.
    pub(crate) error: Option<io::Error>,
    writes_left: u32,
    start: u64,
    /// The first buffer and its length, until the others are written.
    first: Option<(B, usize)>,
}

impl<B, K> Job<B, K> {
    /// Whether all of it was streamed, and its writes have completed.
    pub(crate) fn ended(&self) -> bool {
        self.kind.is_some() && self.writes_left == 0 && self.first.is_none()
    }
}

/// The position in a job's bytes. Ended by [`Jobs::finish`] or [`Jobs::abandon`].
#[must_use]
pub(crate) struct Stream<B> {
    token: u64,
    position: u64,
    first: Option<B>,
    current: Option<B>,
}

impl<S: Store, K> Jobs<S, K> {
    pub(crate) fn new(store: S, buffer_bytes: usize, order: HeaderOrder) -> Self {
        Self {
            store,
            queue: VecDeque::new(),
            next_token: 0,
            writes: WriteCounts::default(),
            completions: Vec::new(),
            others: Vec::new(),
            buffer_bytes,
            order,
        }
    }

    /// Begins a job at an offset of a file.
    pub(crate) fn begin(&mut self, file: FileId, start: u64) -> Stream<S::Buffer> {
        let token = self.next_token;
        self.next_token += 1;
        let (kind, error, first) = (None, None, None);
        self.queue.push_back(Job { file, kind, error, writes_left: 0, start, first });
        Stream { token, position: 0, first: None, current: None }
    }

    /// Appends as many of the bytes as there are buffers for, and returns how many.
    pub(crate) fn append(&mut self, stream: &mut Stream<S::Buffer>, bytes: &[u8]) -> usize {
        self.fill(stream, bytes.len(), |buffer, range| copy_past_cache(buffer, &bytes[range]))
    }

    /// As [`Jobs::append`], and includes the appended bytes in the checksums.
    pub(crate) fn append_checked(
        &mut self,
        stream: &mut Stream<S::Buffer>,
        bytes: &[u8],
        digest: &mut BlockDigest,
    ) -> usize {
        let mut appended = 0;
        for piece in bytes.chunks(PIECE_BYTES) {
            let now = self.fill(stream, piece.len(), |buffer, range| {
                digest.update(&piece[range.clone()]);
                copy_past_cache(buffer, &piece[range]);
            });
            appended += now;
            if now < piece.len() {
                break;
            }
        }
        appended
    }

    /// Appends zeros up to that position, as far as there are buffers; true when it is reached.
    pub(crate) fn pad_to(&mut self, stream: &mut Stream<S::Buffer>, position: u64) -> bool {
        let bytes = position.saturating_sub(stream.position) as usize;
        self.fill(stream, bytes, |buffer, _| buffer.fill(0)) == bytes
    }

    /// Has `bytes` bytes filled in, buffer by buffer, as far as buffers are free; returns how many.
    fn fill(
        &mut self,
        stream: &mut Stream<S::Buffer>,
        bytes: usize,
        mut fill: impl FnMut(&mut [u8], std::ops::Range<usize>),
    ) -> usize {
        let mut filled = 0;
        while filled < bytes {
            if stream.current.is_none() {
                stream.current = self.store.try_buffer();
            }
            let Some(buffer) = &mut stream.current else { break };
            let at = (stream.position % self.buffer_bytes as u64) as usize;
            let now = (bytes - filled).min(self.buffer_bytes - at);
            fill(&mut buffer[at..at + now], filled..filled + now);
            stream.position += now as u64;
            filled += now;
            if at + now == self.buffer_bytes {
                self.put_away(stream, self.buffer_bytes);
            }
        }
        filled
    }

    /// The first buffer of the job, which contains the header.
    ///
    /// # Panics
    /// If nothing was streamed.
    pub(crate) fn first<'a>(&self, stream: &'a mut Stream<S::Buffer>) -> &'a mut [u8] {
        let first = stream.first.as_mut().or(stream.current.as_mut());
        first.expect("a job that has bytes")
    }

    /// Ends the job: the remaining buffers are written, the first one last.
    ///
    /// # Panics
    /// If the job does not end on a 4 KiB border.
    pub(crate) fn finish(&mut self, mut stream: Stream<S::Buffer>, kind: K) {
        assert!(stream.position.is_multiple_of(catchment_frame::BLOCK_BYTES), "a whole block");
        let rest = (stream.position % self.buffer_bytes as u64) as usize;
        if rest > 0 {
            self.put_away(&mut stream, rest);
        }
        let first_bytes = stream.position.min(self.buffer_bytes as u64) as usize;
        let job = self.job(stream.token);
        job.kind = Some(kind);
        job.first = stream.first.take().map(|first| (first, first_bytes));
        self.write_first(stream.token);
        self.poll_store();
    }

    /// Ends the job without its header: its bytes are never read.
    pub(crate) fn abandon(&mut self, stream: Stream<S::Buffer>, kind: K) {
        self.job(stream.token).kind = Some(kind);
        self.poll_store();
    }

    /// The oldest job.
    pub(crate) fn oldest(&self) -> Option<&Job<S::Buffer, K>> {
        self.queue.front()
    }

    /// Removes the oldest job.
    pub(crate) fn take_oldest(&mut self) -> Option<Job<S::Buffer, K>> {
        self.queue.pop_front()
    }

    /// Whether a job of that file has not ended.
    pub(crate) fn any_of(&self, file: FileId) -> bool {
        self.queue.iter().any(|job| job.file == file)
    }

    /// Handles completions; returns their number.
    pub(crate) fn poll(&mut self) -> usize {
        self.poll_store()
    }

    /// The numbers of writes.
    pub(crate) fn writes(&self) -> WriteCounts {
        self.writes
    }

    /// The completions of syncs and of finished files since the last call.
    pub(crate) fn take_others(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.others)
    }

    fn put_away(&mut self, stream: &mut Stream<S::Buffer>, bytes: usize) {
        let buffer = stream.current.take().expect("a buffer that was filled");
        let begin = (stream.position - 1) / self.buffer_bytes as u64 * self.buffer_bytes as u64;
        if begin == 0 {
            stream.first = Some(buffer);
        } else {
            self.write(stream.token, begin, buffer, bytes);
            self.poll_store();
        }
    }

    /// Writes a job's first buffer, if the job was streamed to its end and all its other writes are
    /// complete. If one of them failed, the header is not written.
    fn write_first(&mut self, token: u64) {
        let index = (token - self.oldest_token()) as usize;
        let file = self.queue[index].file;
        let mut older = self.queue.iter().take(index);
        let last = self.order == HeaderOrder::Last;
        if last && older.any(|older| older.file == file && !older.ended()) {
            return;
        }
        let job = &mut self.queue[index];
        if job.kind.is_none() || last && job.writes_left > 0 {
            return;
        }
        if let Some((buffer, bytes)) = job.first.take()
            && job.error.is_none()
        {
            self.write(token, 0, buffer, bytes);
        }
    }

    fn write(&mut self, token: u64, begin: u64, buffer: S::Buffer, bytes: usize) {
        let job = self.job(token);
        job.writes_left += 1;
        let (file, offset) = (job.file, job.start + begin);
        self.writes.begun += 1;
        self.store.write(file, offset, buffer, bytes, token);
    }

    fn poll_store(&mut self) -> usize {
        let mut completions = std::mem::take(&mut self.completions);
        self.store.poll(&mut completions);
        let count = completions.len();
        let mut wrote = false;
        for completion in completions.drain(..) {
            if completion.kind != CompletionKind::Write {
                self.others.push(completion);
                continue;
            }
            wrote = true;
            self.writes.completed += 1;
            let job = self.job(completion.token);
            job.writes_left -= 1;
            if let Err(error) = completion.result {
                job.error.get_or_insert(error);
            }
        }
        self.completions = completions;
        if wrote {
            for token in self.oldest_token()..self.next_token {
                self.write_first(token);
            }
        }
        count
    }

    fn job(&mut self, token: u64) -> &mut Job<S::Buffer, K> {
        let index = token - self.oldest_token();
        &mut self.queue[index as usize]
    }

    fn oldest_token(&self) -> u64 {
        self.next_token - self.queue.len() as u64
    }
}

/// Copies bytes past the cache. The disk reads the copied bytes next, not this CPU: ordinary stores
/// would first fetch each line of the buffer from memory, and evict useful data from the cache.
///
/// # Panics
/// The two have different lengths.
fn copy_past_cache(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "as many bytes there as here");
    #[cfg(target_arch = "x86_64")]
    if from.len() >= BYTES_MIN && std::is_x86_feature_detected!("avx") {
        // SAFETY: the CPU has AVX, as was just checked.
        unsafe { stream(to, from) };
        return;
    }
    to.copy_from_slice(from);
}

/// Shorter copies are not worth the fence at the end.
#[cfg(target_arch = "x86_64")]
const BYTES_MIN: usize = 4 << 10;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn stream(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    const LINE: usize = 64;
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let (to_head, to_rest) = to.split_at_mut(head);
    let (from_head, from_rest) = from.split_at(head);
    to_head.copy_from_slice(from_head);
    let (to_lines, to_tail) = to_rest.as_chunks_mut::<LINE>();
    let (from_lines, from_tail) = from_rest.as_chunks::<LINE>();
    for (to, from) in to_lines.iter_mut().zip(from_lines) {
        let (to, from) = (to.as_mut_ptr().cast::<__m256i>(), from.as_ptr().cast::<__m256i>());
        // SAFETY: both are lines of 64 bytes, which two vectors of 32 fill; a line to be written
        // stands on a multiple of 64, as streaming stores want, and loads take any address.
        unsafe {
            let (low, high) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            _mm256_stream_si256(to, low);
            _mm256_stream_si256(to.add(1), high);
        }
    }
    to_tail.copy_from_slice(from_tail);
    // Streaming stores become visible before the buffer is handed to the disk.
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_whatever_the_length_and_the_addresses() {
        let from: Vec<u8> = (0..70_000_u32).map(|n| (n * 7 + n / 251) as u8).collect();
        for bytes in [0, 1, 63, 64, 4_095, 4_096, 4_097, 65_536, 69_000] {
            for (at, start) in [(0, 0), (1, 0), (0, 3), (31, 17), (63, 64)] {
                let mut to = vec![0; 70_000];
                copy_past_cache(&mut to[at..at + bytes], &from[start..start + bytes]);
                assert_eq!(to[at..at + bytes], from[start..start + bytes], "{bytes} {at} {start}");
                assert!(to[..at].iter().chain(&to[at + bytes..]).all(|&byte| byte == 0));
            }
        }
    }
}
