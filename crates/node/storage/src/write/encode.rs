//! A frame's columns, encoded side by side by a few threads, and handed out in the order of the
//! frame.

use std::collections::HashMap;

use catchment_codec::Auto;
use catchment_frame::{Codec, Coding, ColumnCoding, ColumnEncoder, Element, Span, crc32c};

use crate::error::StorageError;
use crate::write::line::{End, Line};
use crate::write::{ColumnData, ColumnHook, Make, MakeBytes};

/// What is to be encoded: one column of a frame.
pub(crate) struct Job<'a> {
    pub id: u32,
    pub coding: ColumnCoding,
    pub element: Element,
    pub data: &'a ColumnData<'a>,
    /// Of a channel: its first sample, and its gaps. Hooks see it.
    pub samples: Option<(u64, &'a [Span])>,
}

/// A column as it will be stored.
pub(crate) struct Encoded {
    pub codec: Codec,
    pub crc32c: u32,
    pub stored_bytes: u64,
    pub raw_bytes: u64,
    /// Whether the stored bytes are in the buffer, and not the caller's own.
    buffered: bool,
    memory: Memory,
    id: u32,
}

impl Encoded {
    /// The bytes to store.
    pub(crate) fn stored<'a>(&'a self, data: &'a ColumnData<'a>) -> &'a [u8] {
        match data {
            _ if self.buffered => &self.memory.buffer[..self.stored_bytes as usize],
            ColumnData::Raw(raw) => raw,
            ColumnData::Stored(stored) => stored.bytes,
            ColumnData::Make(_) => unreachable!("what is made is in a buffer"),
        }
    }

    /// Gives the memory back.
    pub(super) fn give_back(self, kept: &mut Kept) {
        kept.give_back(self.id, self.memory);
    }
}

/// Encoders and their memory, kept from frame to frame.
pub(crate) struct Encoders {
    workers: Vec<Worker>,
    kept: Kept,
}

#[derive(Default)]
pub(super) struct Worker {
    encoder: ColumnEncoder,
    raw: Vec<u8>,
}

/// What one column is encoded with.
#[derive(Default)]
pub(super) struct Memory {
    buffer: Vec<u8>,
    auto: Option<Auto>,
}

/// Memory that no column has now.
#[derive(Default)]
pub(super) struct Kept {
    /// By column: the next frame's is like this one's.
    autos: HashMap<u32, Auto>,
    /// Used last in, first out: the last one is still in a cache.
    buffers: Vec<Vec<u8>>,
    buffers_bytes: usize,
}

impl Kept {
    pub(super) fn take(&mut self, id: u32) -> Memory {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.buffers_bytes -= buffer.capacity();
        Memory { buffer, auto: self.autos.remove(&id) }
    }

    fn give_back(&mut self, id: u32, Memory { buffer, auto }: Memory) {
        self.autos.extend(auto.map(|auto| (id, auto)));
        if buffer.capacity() > 0 && self.buffers_bytes + buffer.capacity() <= KEPT_BYTES_MAX {
            self.buffers_bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

impl Encoders {
    pub(crate) fn new(threads: usize) -> Self {
        let workers = (0..threads.max(1)).map(|_| Worker::default()).collect();
        Self { workers, kept: Kept::default() }
    }

    /// Encodes columns, and hands each out in its order, with its place, while others are encoded.
    /// What `sink` does not give back is given to [`Encoders::recycle`]. An error ends it.
    pub(crate) fn encode(
        &mut self,
        jobs: Vec<Job<'_>>,
        hooks: &[Box<dyn ColumnHook>],
        mut sink: impl FnMut(usize, Encoded) -> Result<Option<Encoded>, StorageError>,
    ) -> Result<(), StorageError> {
        let bytes: usize = jobs.iter().map(|job| job.data.raw_bytes()).sum();
        let few = jobs.len() < 2 || bytes < ALONE_BYTES_MAX;
        let threads = if few { 1 } else { self.workers.len().min(jobs.len()) };
        let line = Line::new(jobs, &mut self.kept);
        let (first, others) = self.workers.split_at_mut(1);
        std::thread::scope(|scope| {
            let _end = End { line: &line, owner: true };
            for worker in &mut others[..threads - 1] {
                scope.spawn(|| {
                    let _end = End { line: &line, owner: false };
                    line.work(worker, hooks);
                });
            }
            line.hand_out(&mut first[0], hooks, &mut sink)
        })
    }

    /// Takes the memory of a frame back.
    pub(crate) fn recycle(&mut self, encoded: Vec<Encoded>) {
        encoded.into_iter().for_each(|one| one.give_back(&mut self.kept));
    }
}

impl Worker {
    pub(super) fn encode(
        &mut self,
        job: &Job<'_>,
        mut memory: Memory,
        hooks: &[Box<dyn ColumnHook>],
    ) -> Result<Encoded, StorageError> {
        let show = |raw: &[u8]| {
            if let Some((first_sample, spans)) = job.samples {
                hooks.iter().for_each(|hook| hook.raw(job.id, first_sample, spans, raw));
            }
        };
        let id = job.id;
        let raw = match job.data {
            ColumnData::Stored(stored) => {
                return Ok(Encoded {
                    codec: stored.codec,
                    crc32c: stored.crc32c,
                    stored_bytes: stored.bytes.len() as u64,
                    raw_bytes: stored.raw_bytes,
                    buffered: false,
                    memory,
                    id,
                });
            }
            ColumnData::Raw(raw) => raw,
            ColumnData::Make(Make { raw_bytes, make }) => {
                if job.coding == ColumnCoding::NONE {
                    // Made where it is stored from.
                    let raw = made(&mut memory.buffer, *raw_bytes, make)?;
                    show(raw);
                    let (crc32c, bytes) = (crc32c(raw), raw.len() as u64);
                    let (codec, stored_bytes, raw_bytes) = (Codec::None, bytes, bytes);
                    let buffered = true;
                    return Ok(Encoded {
                        codec,
                        crc32c,
                        stored_bytes,
                        raw_bytes,
                        buffered,
                        memory,
                        id,
                    });
                }
                made(&mut self.raw, *raw_bytes, make)?
            }
        };
        show(raw);
        let coding = match job.coding {
            ColumnCoding::Fixed(coding) => coding,
            ColumnCoding::Portable => Coding::portable(job.element),
            ColumnCoding::Auto => {
                let auto = memory.auto.get_or_insert_with(|| Auto::new(job.element));
                auto.choose(&mut self.encoder, raw, ALL_CPU)
            }
        };
        let encoded = self.encoder.encode(coding, job.element, raw);
        let made = matches!(job.data, ColumnData::Make(_));
        let buffered = made || encoded.codec != Codec::None;
        if buffered {
            memory.buffer.clear();
            memory.buffer.extend_from_slice(encoded.stored);
        }
        let (stored_bytes, raw_bytes) = (encoded.stored.len() as u64, raw.len() as u64);
        let (codec, crc32c) = (encoded.codec, crc32c(encoded.stored));
        Ok(Encoded { codec, crc32c, stored_bytes, raw_bytes, buffered, memory, id })
    }
}

/// Makes raw bytes at the beginning of a buffer, which grows as it must.
fn made<'a>(
    buffer: &'a mut Vec<u8>,
    raw_bytes: usize,
    make: &MakeBytes<'_>,
) -> Result<&'a [u8], StorageError> {
    if buffer.len() < raw_bytes {
        buffer.resize(raw_bytes, 0);
    }
    make(&mut buffer[..raw_bytes])?;
    Ok(&buffer[..raw_bytes])
}

/// Nothing is lost here when compression takes its time, so that `auto` may take all there is.
const ALL_CPU: f32 = 1.0;
/// Frames below are not worth a second thread.
const ALONE_BYTES_MAX: usize = 256 << 10;
/// Memory that is kept for the next columns: more than is under way at a time.
const KEPT_BYTES_MAX: usize = 64 << 20;
