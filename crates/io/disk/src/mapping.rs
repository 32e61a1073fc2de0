//! Memory for direct I/O. One request to a disk takes a limited number of memory segments, on many
//! disks a megabyte of scattered pages: with huge pages, large reads and writes become large
//! requests.

use std::io;
use std::ptr::NonNull;

use catchment_model::limits::DISK_ALIGN_BYTES;

/// Private memory, as large as requested or a little larger, in huge pages if it is at least as
/// large as one.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
    base: NonNull<libc::c_void>,
    base_bytes: usize,
}

// SAFETY: the mapping is plain memory; its owner decides who may access which part.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps and touches at least that many bytes, because the first touch of a page costs more than
    /// a copy of it.
    ///
    /// # Errors
    /// The system has no memory.
    pub(crate) fn touched(bytes: usize) -> io::Result<Self> {
        let align = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { DISK_ALIGN_BYTES };
        let bytes = bytes.next_multiple_of(align);
        let base_bytes = bytes + align;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address chosen by the kernel affects nothing else.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), base_bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base).ok_or_else(io::Error::last_os_error)?;
        let skip = base.as_ptr().addr().next_multiple_of(align) - base.as_ptr().addr();
        // SAFETY: `skip` is below `align`, and the mapping is `align` longer than `bytes`.
        let address = unsafe { base.cast::<u8>().add(skip) };
        // SAFETY: the range lies within the mapping. Without huge pages everything works the same,
        // so a refusal does not matter.
        unsafe { libc::madvise(address.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        for offset in (0..bytes).step_by(DISK_ALIGN_BYTES) {
            // SAFETY: the offset lies within the range just mapped, which nothing else uses yet.
            unsafe { address.add(offset).write_volatile(0) };
        }
        Ok(Self { address, bytes, base, base_bytes })
    }

    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that mmap returned, and its last owner, which is being
        // dropped, has left no pointers to it.
        let result = unsafe { libc::munmap(self.base.as_ptr(), self.base_bytes) };
        debug_assert_eq!(result, 0);
    }
}

pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;
