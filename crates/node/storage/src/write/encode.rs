//! A frame's columns, encoded side by side by a few threads, in the order of the frame.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

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
    /// The stored bytes, unless they are the caller's own.
    buffer: Option<Vec<u8>>,
    id: u32,
}

impl Encoded {
    /// The bytes to store.
    pub(crate) fn stored<'a>(&'a self, data: &'a ColumnData<'a>) -> &'a [u8] {
        match (&self.buffer, data) {
            (Some(buffer), _) => &buffer[..self.stored_bytes as usize],
            (None, ColumnData::Raw(raw)) => raw,
            (None, ColumnData::Stored(stored)) => stored.bytes,
            (None, ColumnData::Make(_)) => unreachable!("what is made is in a buffer"),
        }
    }
}

/// Encoders and their memory, kept from frame to frame.
pub(crate) struct Encoders {
    workers: Vec<Worker>,
    /// Buffers by column: the next frame's column is about as large as this one's.
    buffers: HashMap<u32, Vec<u8>>,
}

#[derive(Default)]
struct Worker {
    encoder: ColumnEncoder,
    raw: Vec<u8>,
}

type Task<'a> = (Job<'a>, Vec<u8>);
type Slot = Option<Result<Encoded, StorageError>>;

impl Encoders {
    pub(crate) fn new(threads: usize) -> Self {
        let workers = (0..threads.max(1)).map(|_| Worker::default()).collect();
        Self { workers, buffers: HashMap::new() }
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
            let buffer = self.buffers.remove(&job.id).unwrap_or_default();
            (job, buffer)
        });
        let tasks: Vec<Task<'_>> = tasks.collect();
        let queue = Mutex::new(tasks.into_iter().zip(&mut slots));
        let work = |worker: &mut Worker| {
            loop {
                // Whoever panicked holding the lock has not broken the iterator.
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(((job, buffer), slot)) = next else { break };
                *slot = Some(worker.encode(&job, buffer, hooks));
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
        for Encoded { id, buffer, .. } in encoded {
            self.buffers.extend(buffer.map(|buffer| (id, buffer)));
        }
    }
}

impl Worker {
    fn encode(
        &mut self,
        job: &Job<'_>,
        mut buffer: Vec<u8>,
        hooks: &[Box<dyn ColumnHook>],
    ) -> Result<Encoded, StorageError> {
        let coding = match job.coding {
            ColumnCoding::Fixed(coding) => coding,
            ColumnCoding::Auto => Coding::BitshuffleLz4,
        };
        let show = |raw: &[u8]| {
            if let Some((first_sample, spans)) = job.samples {
                hooks.iter().for_each(|hook| hook.raw(job.id, first_sample, spans, raw));
            }
        };
        let id = job.id;
        let done = |codec, stored: &[u8], raw_bytes| {
            let stored_bytes = stored.len() as u64;
            let raw_bytes = raw_bytes as u64;
            Encoded { codec, crc32c: crc32c(stored), stored_bytes, raw_bytes, buffer: None, id }
        };
        match job.data {
            ColumnData::Stored(stored) => Ok(Encoded {
                codec: stored.codec,
                crc32c: stored.crc32c,
                stored_bytes: stored.bytes.len() as u64,
                raw_bytes: stored.raw_bytes,
                buffer: None,
                id,
            }),
            ColumnData::Raw(raw) => {
                show(raw);
                let encoded = self.encoder.encode(coding, job.element, raw);
                let mut result = done(encoded.codec, encoded.stored, raw.len());
                if encoded.codec != Codec::None {
                    copy_to(&mut buffer, encoded.stored);
                    result.buffer = Some(buffer);
                }
                Ok(result)
            }
            ColumnData::Make(Make { raw_bytes, make }) => {
                if coding == Coding::None {
                    let raw = made(&mut buffer, *raw_bytes, make)?;
                    show(raw);
                    let result = done(Codec::None, raw, *raw_bytes);
                    return Ok(Encoded { buffer: Some(buffer), ..result });
                }
                let raw = made(&mut self.raw, *raw_bytes, make)?;
                show(raw);
                let encoded = self.encoder.encode(coding, job.element, raw);
                let result = done(encoded.codec, encoded.stored, *raw_bytes);
                copy_to(&mut buffer, encoded.stored);
                Ok(Encoded { buffer: Some(buffer), ..result })
            }
        }
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

fn copy_to(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

/// Frames below are not worth a second thread.
const ALONE_BYTES_MAX: usize = 256 << 10;
