//! The pool of aligned buffers for writes.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use catchment_telemetry::FillLevel;
use parking_lot::Mutex;

use crate::mapping::Mapping;

/// A buffer of the pool, aligned to 4 KiB, of the configured size; derefs to its bytes. It still
/// contains what an earlier write left. It can be filled on any thread; dropped unused, it is free
/// again.
pub struct Buffer {
    pool: Arc<Pool>,
    index: u32,
}

impl Buffer {
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn address(&self) -> *const u8 {
        self.pool.address(self.index).as_ptr()
    }

    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let address = self.pool.address(self.index);
        // SAFETY: the index is handed out to one Buffer at a time, the memory is initialised and
        // lives as long as the pool.
        unsafe { std::slice::from_raw_parts(address.as_ptr(), self.pool.buffer_bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let address = self.pool.address(self.index);
        // SAFETY: as for deref, and `self` is borrowed exclusively. While the kernel reads the
        // memory, the Buffer is in the Disk's slot, which never derefs it.
        unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), self.pool.buffer_bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.put(self.index);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("index", &self.index).finish_non_exhaustive()
    }
}

/// The memory of all buffers, and which of them are free.
pub(crate) struct Pool {
    memory: Mapping,
    buffer_bytes: usize,
    count: usize,
    free: Mutex<Vec<u32>>,
    fill: Arc<FillLevel>,
}

impl Pool {
    pub(crate) fn new(buffer_bytes: usize, count: usize, fill: Arc<FillLevel>) -> io::Result<Self> {
        let index_end = u32::try_from(count).map_err(io::Error::other)?;
        Ok(Self {
            memory: Mapping::touched(buffer_bytes * count)?,
            buffer_bytes,
            count,
            free: Mutex::new((0..index_end).rev().collect()),
            fill,
        })
    }

    pub(crate) fn take(self: &Arc<Self>) -> Option<Buffer> {
        let index = self.free.lock().pop()?;
        self.fill.put(self.buffer_bytes as u64);
        Some(Buffer { pool: Arc::clone(self), index })
    }

    pub(crate) fn vectors(&self) -> Vec<libc::iovec> {
        (0..self.count as u32)
            .map(|index| libc::iovec {
                iov_base: self.address(index).as_ptr().cast(),
                iov_len: self.buffer_bytes,
            })
            .collect()
    }

    fn address(&self, index: u32) -> NonNull<u8> {
        let offset = index as usize * self.buffer_bytes;
        assert!((index as usize) < self.count, "buffer {index} of {}", self.count);
        // SAFETY: the offset lies within the mapping, which holds `count` buffers.
        unsafe { self.memory.address().add(offset) }
    }

    fn put(&self, index: u32) {
        // The list was made with room for every buffer, so this never allocates.
        self.free.lock().push(index);
        self.fill.take(self.buffer_bytes as u64);
    }
}
