//! Buffers for encoded columns, reused by size.

/// Free buffers, by the power of two of their capacity, so that a small column does not occupy the
/// memory of a large one.
#[derive(Debug)]
pub struct Buffers {
    free: [Vec<Vec<u8>>; CLASSES],
    free_bytes: usize,
    free_bytes_max: usize,
}

impl Default for Buffers {
    /// None are kept.
    fn default() -> Self {
        Self::new(0)
    }
}

impl Buffers {
    /// No buffers yet; at most that many bytes will be kept.
    pub fn new(free_bytes_max: usize) -> Self {
        Self { free: std::array::from_fn(|_| Vec::new()), free_bytes: 0, free_bytes_max }
    }

    /// A buffer that holds that many bytes without growing. Its contents are meaningless.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let class = class_of(bytes);
        match self.free[class].pop() {
            Some(buffer) => {
                self.free_bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(bytes.next_power_of_two().max(SMALLEST_BYTES)),
        }
    }

    /// Takes a buffer back, or frees it if enough are kept.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        // A buffer that was grown or shrunk fits no class.
        let fits = bytes.is_power_of_two() && bytes >= SMALLEST_BYTES;
        if fits && self.free_bytes + bytes <= self.free_bytes_max {
            self.free_bytes += bytes;
            self.free[class_of(bytes)].push(buffer);
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
        let mut buffers = Buffers::new(1 << 20);
        let mut large = buffers.take(100_000);
        large.resize(100_000, 1);
        let address = large.as_ptr();
        buffers.give_back(large);
        let small = buffers.take(100);
        assert_ne!(small.as_ptr(), address);
        let again = buffers.take(120_000);
        assert_eq!(again.as_ptr(), address);
    }

    #[test]
    fn no_more_is_kept_than_was_agreed() {
        let mut buffers = Buffers::new(300_000);
        for _ in 0..10 {
            buffers.give_back(Vec::with_capacity(1 << 17));
        }
        assert_eq!(buffers.free_bytes, 2 << 17);
    }
}
