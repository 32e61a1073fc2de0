//! The memory of one source's fragments: a ring that one thread writes while another reads what is
//! elsewhere in it.
//!
//! Bytes are known by their position in the series of all bytes that were ever written; position
//! *p* stands at *p* modulo the ring's length. Who may write where is decided by
//! [`source`](crate::source), not here.

use std::cell::UnsafeCell;

/// Bytes that are written and read through a shared reference.
pub(crate) struct ByteRing {
    memory: Box<[UnsafeCell<u8>]>,
}

// SAFETY: the memory is touched by `write` and `slices` alone, whose callers promise that what one
// thread writes no other thread touches.
unsafe impl Sync for ByteRing {}

impl ByteRing {
    /// A ring of so many bytes, whose memory the system gives out as it is first used.
    ///
    /// # Panics
    /// No bytes.
    pub fn new(bytes: usize) -> Self {
        assert!(bytes > 0, "a ring has bytes");
        let zeros = Box::into_raw(vec![0_u8; bytes].into_boxed_slice());
        // SAFETY: `UnsafeCell<u8>` has the layout of `u8`, and the box is owned by nobody else.
        let memory = unsafe { Box::from_raw(zeros as *mut [UnsafeCell<u8>]) };
        Self { memory }
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Copies bytes to a position.
    ///
    /// # Safety
    /// Until this returns nobody else touches these positions.
    pub unsafe fn write(&self, position: u64, bytes: &[u8]) {
        let (begin, first) = self.split(position, bytes.len());
        let memory = self.memory.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: both pieces are within the memory, whose cells may be written through a shared
        // reference; the caller promises that nobody else touches them.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.add(begin), first);
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), memory, bytes.len() - first);
        }
    }

    /// The bytes from a position on: one piece, or two where the ring ends between them.
    ///
    /// # Safety
    /// Nobody writes these positions while the slices live.
    pub unsafe fn slices(&self, position: u64, bytes: usize) -> (&[u8], &[u8]) {
        let (begin, first) = self.split(position, bytes);
        let memory = self.memory.as_ptr().cast::<u8>();
        // SAFETY: both pieces are within the memory, and always initialised; the caller promises
        // that nobody writes them.
        unsafe {
            let second = std::slice::from_raw_parts(memory, bytes - first);
            (std::slice::from_raw_parts(memory.add(begin), first), second)
        }
    }

    /// Where a piece begins in memory, and how much of it stands before the ring's end.
    fn split(&self, position: u64, bytes: usize) -> (usize, usize) {
        assert!(bytes <= self.memory.len(), "{bytes} bytes are in the ring");
        let begin = (position % self.memory.len() as u64) as usize;
        (begin, bytes.min(self.memory.len() - begin))
    }
}
