//! The limits of a run's files: when the next one is made, and when it follows.

use crate::config::RecorderConfig;
use crate::file::OpenFile;

/// The limit of a file's table of contents while the next file cannot be made, as a multiple of
/// [`Sizes::toc_bytes_max`](crate::Sizes::toc_bytes_max): it is kept in memory, 512 MiB at most.
/// That is hours of small frames, time to act on the alarm.
const TOCS_OF_LAST_FILE: u64 = 8;

/// The limits of files.
pub(crate) struct FileLimits {
    pub(crate) frame_bytes: u64,
    file_bytes_max: u64,
    toc_bytes_max: u64,
    file_time_ns: Option<u64>,
    /// So many bytes of frames that no sync covers begin one.
    sync_bytes: u64,
}

impl FileLimits {
    pub(crate) fn of(config: &RecorderConfig) -> Self {
        Self {
            frame_bytes: config.longest_frame_bytes(),
            file_bytes_max: config.write.file_bytes,
            toc_bytes_max: config.sizes.toc_bytes_max as u64,
            file_time_ns: config.write.file_time_ns,
            sync_bytes: config.write.sync_bytes.unwrap_or(u64::MAX),
        }
    }

    /// Bytes for which a disk must have room when a file is made after a fault: of two frames.
    pub(crate) fn room_bytes(&self) -> u64 {
        2 * self.frame_bytes + (1 << 20)
    }

    /// Whether so much of a file was recorded that a sync is to begin.
    pub(crate) fn is_sync_due(&self, file: &OpenFile) -> bool {
        file.attached.unsynced_bytes() >= self.sync_bytes
    }

    /// Whether the next file is needed soon.
    pub(crate) fn is_nearly_full(&self, file: &OpenFile) -> bool {
        file.end + 2 * self.frame_bytes >= self.file_bytes_max
    }

    /// Whether another file is to follow.
    pub(crate) fn is_over(&self, file: &OpenFile, now_ns: u64) -> bool {
        let is_old = self.file_time_ns.is_some_and(|time| now_ns - file.opened_ns >= time);
        let is_full = file.end + self.frame_bytes > self.file_bytes_max
            || file.toc_bytes() >= self.toc_bytes_max;
        is_old || is_full
    }

    /// Whether a file that continues because the next one cannot be made takes too much memory.
    pub(crate) fn is_spent(&self, file: &OpenFile) -> bool {
        file.toc_bytes() >= self.toc_bytes_max.saturating_mul(TOCS_OF_LAST_FILE)
    }
}
