//! Buffers for encoded columns, reused by size.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;

/// Free buffers, by the power of two of their capacity, so that a small column does not occupy the
/// memory of a large one. Clones are the same.
#[derive(Clone, Debug)]
pub struct Buffers(Arc<Mutex<Free>>);

#[derive(Debug)]
struct Free {
    buffers: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
    bytes_max: usize,
}

/// A buffer that returns to its [`Buffers`] when it is dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    home: Option<Buffers>,
}

impl Default for Buffers {
    /// None are kept.
    fn default() -> Self {
        Self::new(0)
    }
}

impl Buffers {
    /// No buffers yet; at most that many bytes will be kept.
    pub fn new(bytes_max: usize) -> Self {
        let buffers = std::array::from_fn(|_| Vec::new());
        Self(Arc::new(Mutex::new(Free { buffers, bytes: 0, bytes_max })))
    }

    /// A buffer that holds that many bytes without growing. Its contents are meaningless.
    pub fn take(&self, bytes: usize) -> Buffer {
        let class = class_of(bytes);
        let mut free = self.0.lock();
        let kept = free.buffers[class].pop();
        free.bytes -= kept.as_ref().map_or(0, Vec::capacity);
        drop(free);
        let allocate = || Vec::with_capacity(bytes.next_power_of_two().max(SMALLEST_BYTES));
        Buffer { bytes: kept.unwrap_or_else(allocate), home: Some(self.clone()) }
    }

    /// Takes a buffer back, or frees it if enough are kept.
    fn give_back(&self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        // A buffer that was grown or shrunk fits no class.
        let fits = bytes.is_power_of_two() && bytes >= SMALLEST_BYTES;
        let mut free = self.0.lock();
        if fits && free.bytes + bytes <= free.bytes_max {
            free.bytes += bytes;
            free.buffers[class_of(bytes)].push(buffer);
        }
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

fn class_of(bytes: usize) -> usize {
    bytes.next_power_of_two().max(SMALLEST_BYTES).trailing_zeros() as usize
}

const CLASSES: usize = usize::BITS as usize;
const SMALLEST_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_for_columns_of_its_size_alone() {
        let buffers = Buffers::new(1 << 20);
        let mut large = buffers.take(100_000);
        large.resize(100_000, 1);
        let address = large.as_ptr();
        drop(large);
        let small = buffers.take(100);
        assert_ne!(small.as_ptr(), address);
        let again = buffers.take(120_000);
        assert_eq!(again.as_ptr(), address);
    }

    #[test]
    fn no_more_is_kept_than_was_agreed() {
        let buffers = Buffers::new(300_000);
        let taken: Vec<_> = (0..10).map(|_| buffers.take(1 << 17)).collect();
        drop(taken);
        assert_eq!(buffers.0.lock().bytes, 2 << 17);
    }
}
