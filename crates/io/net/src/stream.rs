//! The bytes of a connection that have arrived and were not taken yet.

use std::io::{self, Read};

/// Bytes in one piece of memory, which is made once. They move to its front only when no more than
/// a quarter of it is free behind them.
///
/// ```text
/// 0        begin          end           bytes_max
/// |  taken  |   untaken    |    tail     |
/// ```
pub(crate) struct StreamBuffer {
    memory: Box<[u8]>,
    begin: usize,
    end: usize,
}

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intake {
    /// 0 at the stream's end.
    pub bytes: usize,
    /// Whether all room was used, so that there may be more.
    pub filled: bool,
}

impl StreamBuffer {
    pub fn new(bytes_max: usize) -> Self {
        assert!(bytes_max > 0, "a buffer without room");
        Self { memory: vec![0; bytes_max].into(), begin: 0, end: 0 }
    }

    #[inline]
    pub fn untaken(&self) -> &[u8] {
        &self.memory[self.begin..self.end]
    }

    pub fn is_full(&self) -> bool {
        self.untaken().len() == self.memory.len()
    }

    /// The first `bytes` were taken.
    ///
    /// # Panics
    /// More than there are.
    #[inline]
    pub fn take(&mut self, bytes: usize) {
        let untaken = self.untaken().len();
        assert!(bytes <= untaken, "{bytes} of {untaken} bytes were taken");
        self.begin += bytes;
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Reads once, at most so many bytes, at least one, into a buffer that is not full.
    pub fn read(&mut self, source: &mut impl Read, bytes_max: usize) -> io::Result<Intake> {
        debug_assert!(bytes_max > 0 && !self.is_full(), "no room to read into");
        if self.memory.len() - self.end <= self.memory.len() / 4 && self.begin > 0 {
            self.memory.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let tail = &mut self.memory[self.end..];
        let room = tail.len().min(bytes_max);
        let bytes = source.read(&mut tail[..room])?;
        self.end += bytes;
        Ok(Intake { bytes, filled: bytes == room })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of bytes that count up, each read of which brings another number of them.
    struct Counting {
        next: u8,
        steps: u64,
    }

    impl Read for Counting {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let bytes = random(&mut self.steps) % room.len() + 1;
            for byte in &mut room[..bytes] {
                *byte = self.next;
                self.next = self.next.wrapping_add(1);
            }
            Ok(bytes)
        }
    }

    fn random(state: &mut u64) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 33) as usize
    }

    #[test]
    fn bytes_come_out_in_their_order_however_they_are_read_and_taken() {
        for bytes_max in [1, 2, 3, 4, 7, 64, 1_000] {
            let mut buffer = StreamBuffer::new(bytes_max);
            let mut source = Counting { next: 0, steps: bytes_max as u64 };
            let (mut state, mut expected) = (1, 0_u8);
            for _ in 0..10_000 {
                if !buffer.is_full() {
                    let limit = random(&mut state) % bytes_max + 1;
                    let before = buffer.untaken().len();
                    let intake = buffer.read(&mut source, limit).unwrap();
                    assert!((1..=limit).contains(&intake.bytes));
                    assert_eq!(buffer.untaken().len(), before + intake.bytes);
                }
                let bytes = random(&mut state) % (buffer.untaken().len() + 1);
                for &byte in &buffer.untaken()[..bytes] {
                    assert_eq!(byte, expected);
                    expected = expected.wrapping_add(1);
                }
                buffer.take(bytes);
            }
        }
    }

    #[test]
    fn bytes_move_only_when_the_tail_is_short() {
        let mut buffer = StreamBuffer::new(8);
        let mut source: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(buffer.read(&mut source, 5).unwrap(), Intake { bytes: 5, filled: true });
        buffer.take(4);
        assert_eq!(buffer.read(&mut source, 1).unwrap(), Intake { bytes: 1, filled: true });
        assert_eq!((buffer.begin, buffer.untaken()), (4, &[5, 6][..]));
        assert_eq!(buffer.read(&mut source, 9).unwrap(), Intake { bytes: 3, filled: false });
        assert_eq!((buffer.begin, buffer.untaken()), (0, &[5, 6, 7, 8, 9][..]));
        assert_eq!(buffer.read(&mut source, 9).unwrap(), Intake { bytes: 0, filled: false });
    }

    #[test]
    fn a_buffer_is_full_of_untaken_bytes_only() {
        let mut buffer = StreamBuffer::new(4);
        let mut source: &[u8] = &[1, 2, 3, 4, 5];
        buffer.read(&mut source, 9).unwrap();
        assert!(buffer.is_full());
        buffer.take(1);
        assert!(!buffer.is_full());
        buffer.read(&mut source, 9).unwrap();
        assert_eq!(buffer.untaken(), [2, 3, 4, 5]);
        assert!(buffer.is_full());
    }
}
