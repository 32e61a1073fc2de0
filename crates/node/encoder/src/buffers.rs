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
    /// Bytes of the buffers that are in use, and from where on large columns get none.
    lent_bytes: usize,
    lent_bytes_max: usize,
}

/// A buffer that returns to its [`Buffers`] when it is dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    lent_bytes: usize,
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
        Self::lending(bytes_max, usize::MAX)
    }

    /// As [`Buffers::new`], with a bound for the buffers in use: beyond it, large columns are not
    /// encoded.
    pub fn lending(bytes_max: usize, lent_bytes_max: usize) -> Self {
        let buffers = std::array::from_fn(|_| Vec::new());
        let free = Free { buffers, bytes: 0, bytes_max, lent_bytes: 0, lent_bytes_max };
        Self(Arc::new(Mutex::new(free)))
    }

    /// A buffer that holds that many bytes without growing. Its contents are meaningless.
    pub fn take(&self, bytes: usize) -> Buffer {
        self.take_within(bytes, usize::MAX).expect("there is no bound")
    }

    /// As [`Buffers::take`], unless more would then be in use than was agreed.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Buffer> {
        let lent_bytes_max = self.0.lock().lent_bytes_max;
        self.take_within(bytes, lent_bytes_max)
    }

    fn take_within(&self, bytes: usize, lent_bytes_max: usize) -> Option<Buffer> {
        let class = class_of(bytes);
        let mut free = self.0.lock();
        if free.lent_bytes + (1 << class) > lent_bytes_max {
            return None;
        }
        free.lent_bytes += 1 << class;
        let kept = free.buffers[class].pop();
        free.bytes -= kept.as_ref().map_or(0, Vec::capacity);
        drop(free);
        let bytes = kept.unwrap_or_else(|| Vec::with_capacity(1 << class));
        Some(Buffer { bytes, lent_bytes: 1 << class, home: Some(self.clone()) })
    }

    /// Takes a buffer back, or frees it if enough are kept.
    fn give_back(&self, buffer: Vec<u8>, lent_bytes: usize) {
        let bytes = buffer.capacity();
        // A buffer that was grown or shrunk fits no class.
        let fits = bytes.is_power_of_two() && bytes >= SMALLEST_BYTES;
        let mut free = self.0.lock();
        free.lent_bytes -= lent_bytes;
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
            home.give_back(std::mem::take(&mut self.bytes), self.lent_bytes);
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

    #[test]
    fn large_columns_get_no_more_than_may_be_in_use() {
        let buffers = Buffers::lending(0, 3 << 17);
        let mut taken: Vec<_> = (0..3).map_while(|_| buffers.try_take(1 << 17)).collect();
        assert!(taken.len() == 3 && buffers.try_take(1).is_none());
        taken.push(buffers.take(1 << 17));
        taken.drain(..2);
        assert!(buffers.try_take(1 << 17).is_some());
    }
}
