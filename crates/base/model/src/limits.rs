//! The bounds of the system, in one place, with the relations between them.

/// Sources in one run.
pub const SOURCES_MAX: usize = 4_096;
/// Bytes of a UDP datagram's payload over IPv4.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Bytes of one fragment.
pub const FRAGMENT_BYTES_MAX: u64 = 1_920 * 1024 * 1024;
/// Bytes that direct I/O aligns to: memory, file offsets and lengths.
pub const DISK_ALIGN_BYTES: usize = 4_096;
/// Bytes of a frame, including header and padding.
pub const FRAME_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// Default size in bytes at which a frame is cut.
pub const FRAME_TARGET_BYTES_DEFAULT: u64 = 32 * 1024 * 1024;
/// Raw bytes of one column: what every codec can take.
pub const COLUMN_BYTES_MAX: u64 = 0x7e00_0000;
/// Default size in bytes at which the next file is begun.
pub const FILE_BYTES_DEFAULT: u64 = 16 * 1024 * 1024 * 1024;

const _: () = {
    assert!((DATAGRAM_BYTES_MAX as u64) < FRAGMENT_BYTES_MAX);
    assert!(FRAME_TARGET_BYTES_DEFAULT + FRAGMENT_BYTES_MAX < COLUMN_BYTES_MAX);
    assert!(COLUMN_BYTES_MAX < FRAME_BYTES_MAX);
    // LZ4's limit; those of blosc and of the lengths in descriptors are higher.
    assert!(COLUMN_BYTES_MAX <= 0x7e00_0000);
    assert!(FRAME_TARGET_BYTES_DEFAULT < FILE_BYTES_DEFAULT);
    assert!(DISK_ALIGN_BYTES.is_power_of_two());
};
