//! A frame's columns, encoded side by side by a few threads, in the order of the frame.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catchment_codec::Auto;
use catchment_frame::{Codec, Coding, ColumnEncoder, Element, Span, crc32c};

use crate::coding::ColumnCoding;
use crate::error::StorageError;
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
}

/// Encoders and their memory, kept from frame to frame.
pub(crate) struct Encoders {
    workers: Vec<Worker>,
    /// By column: the next frame's is about as large as this one's, and is like it.
    memory: HashMap<u32, Memory>,
}

#[derive(Default)]
struct Worker {
    encoder: ColumnEncoder,
    raw: Vec<u8>,
}

/// What is kept of a column from frame to frame.
#[derive(Default)]
struct Memory {
    buffer: Vec<u8>,
    auto: Option<Auto>,
}

type Task<'a> = (Job<'a>, Memory);
type Slot = Option<Result<Encoded, StorageError>>;

impl Encoders {
    pub(crate) fn new(threads: usize) -> Self {
        let workers = (0..threads.max(1)).map(|_| Worker::default()).collect();
        Self { workers, memory: HashMap::new() }
    }

    /// Encodes columns; the result is in their order.
    pub(crate) fn encode(
        &mut self,
        jobs: Vec<Job<'_>>,
        hooks: &[Box<dyn ColumnHook>],
    ) -> Result<Vec<Encoded>, StorageError> {
        let bytes: usize = jobs.iter().map(|job| job.data.raw_bytes()).sum();
        let few = jobs.len() < 2 || bytes < ALONE_BYTES_MAX;
        let threads = if few { 1 } else { self.workers.len().min(jobs.len()) };
        let mut slots: Vec<Slot> = jobs.iter().map(|_| None).collect();
        let tasks = jobs.into_iter().map(|job| {
            let memory = self.memory.remove(&job.id).unwrap_or_default();
            (job, memory)
        });
        let tasks: Vec<Task<'_>> = tasks.collect();
        let queue = Mutex::new(tasks.into_iter().zip(&mut slots));
        let work = |worker: &mut Worker| {
            loop {
                // Whoever panicked holding the lock has not broken the iterator.
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(((job, memory), slot)) = next else { break };
                *slot = Some(worker.encode(&job, memory, hooks));
            }
        };
        let (first, others) = self.workers.split_at_mut(1);
        std::thread::scope(|scope| {
            for worker in &mut others[..threads - 1] {
                scope.spawn(|| work(worker));
            }
            work(&mut first[0]);
        });
        slots.into_iter().map(|slot| slot.expect("every column was taken")).collect()
    }

    /// Takes the memory of a frame back.
    pub(crate) fn recycle(&mut self, encoded: Vec<Encoded>) {
        self.memory.extend(encoded.into_iter().map(|one| (one.id, one.memory)));
    }
}

impl Worker {
    fn encode(
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
                if job.coding == ColumnCoding::Fixed(Coding::None) {
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
