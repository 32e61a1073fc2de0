//! The bound of a node's memory: for frames that are not written yet, and for buffers of disks.

use std::sync::Arc;

use catchment_disk::DiskConfig;
use catchment_model::limits::DISK_ALIGN_BYTES;
use catchment_telemetry::FillLevel;

/// Memory for frames that are not written yet, or for buffers of disks.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<FillLevel>);

/// A part of the memory, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    memory: Memory,
    bytes: u64,
}

impl Memory {
    pub(crate) fn new(what: &'static str, bytes: u64) -> Self {
        Self(Arc::new(FillLevel::new(what, bytes)))
    }

    pub(crate) fn content(&self) -> u64 {
        self.0.content()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    pub(crate) fn room(&self) -> u64 {
        self.capacity().saturating_sub(self.content())
    }

    /// Room for so many bytes, if it is there. One agent reserves, others give back.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reserved> {
        (bytes <= self.room()).then(|| {
            self.0.put(bytes);
            Reserved { memory: self.clone(), bytes }
        })
    }
}

impl Reserved {
    /// Gives back what is more than so many bytes.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let excess = self.bytes.saturating_sub(bytes);
        self.memory.0.take(excess);
        self.bytes -= excess;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.0.take(self.bytes);
    }
}

/// The disk of another stream in each of so many folders, and the room of its buffers: a quarter of
/// what those of other streams leave, at most. It has the least that a disk works with at least;
/// where even that has no room, it has none.
pub(crate) fn buffered(
    disk: &DiskConfig,
    buffers: &Memory,
    folders: usize,
) -> (DiskConfig, Option<Reserved>) {
    let folders = folders.max(1) as u64;
    let (share, bytes) = (buffers.room() / 4 / folders, disk.buffer_bytes as u64);
    let (bytes, count) = match share / bytes {
        0 | 1 => {
            let aligned = share / 2 / DISK_ALIGN_BYTES as u64 * DISK_ALIGN_BYTES as u64;
            (aligned.max(BUFFER_BYTES_LEAST.min(bytes)), 2)
        }
        count => (bytes, count.min(disk.buffer_count as u64)),
    };
    let room = buffers.reserve(bytes * count * folders);
    let (buffer_bytes, buffer_count) = (bytes as usize, count as usize);
    (DiskConfig { buffer_bytes, buffer_count, ..disk.clone() }, room)
}

/// The smallest buffer where memory is short, unless those configured are smaller.
const BUFFER_BYTES_LEAST: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_many_streams_stay_within_the_budget_and_those_of_few_are_as_configured() {
        let configured = DiskConfig::default();
        let least = 2 * BUFFER_BYTES_LEAST;
        for (bytes, folders) in [(32 << 20, 1), (32 << 20, 3), (1 << 30, 1), (0, 2), (4_097, 1)] {
            let memory = Memory::new("write buffers", bytes);
            let (mut all, mut without) = (Vec::new(), 0);
            for _ in 0..64 {
                let (disk, room) = buffered(&configured, &memory, folders);
                disk.check().expect("a disk takes it");
                without += u64::from(room.is_none());
                assert!(room.is_some() || disk.memory_bytes() == least, "{disk:?}");
                all.push((disk, room));
                assert!(memory.content() <= bytes);
            }
            let held: u64 = all.iter().map(|(disk, _)| disk.memory_bytes() * folders as u64).sum();
            assert_eq!(held, memory.content() + without * least * folders as u64);
            drop(all);
            assert_eq!(memory.content(), 0);
        }
        let (few, _room) = buffered(&configured, &Memory::new("write buffers", 1 << 30), 1);
        assert_eq!(few.memory_bytes(), configured.memory_bytes());
    }
}
