//! The bounds of the system, in one place, with the relations between them.

/// Sources in one run.
pub const SOURCES_MAX: usize = 4_096;
/// Bytes of a UDP datagram's payload over IPv4.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Bytes of one fragment.
pub const FRAGMENT_BYTES_MAX: u64 = 1_920 * 1024 * 1024;
/// Bytes that direct I/O aligns to: memory, file offsets and lengths.
pub const DISK_ALIGN_BYTES: usize = 4_096;
/// Bytes of a frame, header and padding included.
pub const FRAME_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// Bytes that a frame holds before it is cut, unless the configuration says otherwise.
pub const FRAME_TARGET_BYTES_DEFAULT: u64 = 32 * 1024 * 1024;
/// Bytes of one column, raw: what every codec can take.
pub const COLUMN_BYTES_MAX: u64 = 0x7e00_0000;
/// Bytes of a file before the next is begun, unless the configuration says otherwise.
pub const FILE_BYTES_DEFAULT: u64 = 16 * 1024 * 1024 * 1024;

const _: () = {
    assert!((DATAGRAM_BYTES_MAX as u64) < FRAGMENT_BYTES_MAX);
    assert!(FRAME_TARGET_BYTES_DEFAULT + FRAGMENT_BYTES_MAX < COLUMN_BYTES_MAX);
    assert!(COLUMN_BYTES_MAX < FRAME_BYTES_MAX);
    // The most that LZ4 takes; blosc and the lengths in descriptors end later.
    assert!(COLUMN_BYTES_MAX <= 0x7e00_0000);
    assert!(FRAME_TARGET_BYTES_DEFAULT < FILE_BYTES_DEFAULT);
    assert!(DISK_ALIGN_BYTES.is_power_of_two());
};
