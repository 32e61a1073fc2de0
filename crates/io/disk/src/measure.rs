//! The disk's limit: the rate of aligned writes through a [`Disk`](crate::Disk), with nothing else.

use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::config::DiskConfig;
use catchment_agent::{Completion, CompletionKind};

use crate::disk::Disk;
use crate::error::DiskError;

/// The result of measuring writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteRate {
    /// Bytes written.
    pub bytes: u64,
    /// Time from the first write to the end of the sync, without making and deleting the file.
    pub seconds: f64,
    /// CPU time of the whole process in that time, including kernel threads that work for it.
    pub cpu_ns: u64,
}

impl WriteRate {
    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }

    /// Share of one core, 1.0 being all of it.
    pub fn cpu_share(&self) -> f64 {
        self.cpu_ns as f64 / (self.seconds.max(1e-9) * 1e9)
    }
}

/// Writes a new file of `bytes`, rounded down to whole buffers but at least one, in `folder` as the
/// recorder does, syncs it, deletes it, and returns the rate. The content cannot be compressed. Run
/// it while the process does nothing else: the CPU time is that of the whole process. With `syncs`
/// it also syncs whenever the configuration's interval has passed, one sync at a time.
///
/// # Errors
/// The file cannot be made, or a write fails.
pub fn measure_direct_write(
    folder: &Path,
    bytes: u64,
    config: DiskConfig,
    syncs: bool,
) -> Result<WriteRate, DiskError> {
    let buffer_bytes = config.buffer_bytes;
    let mut disk = Disk::new(config)?;
    fill_all(&mut disk);
    measure(folder, bytes, (disk, buffer_bytes), syncs, &mut |_| Ok(()))
}

/// The same of bytes that are read from a source, without syncs but the last.
///
/// # Errors
/// As [`measure_direct_write`], or the source ends too early.
pub fn measure_direct_copy(
    folder: &Path,
    bytes: u64,
    config: DiskConfig,
    source: &mut dyn Read,
) -> Result<WriteRate, DiskError> {
    let buffer_bytes = config.buffer_bytes;
    let mut fill = |buffer: &mut [u8]| source.read_exact(buffer);
    measure(folder, bytes, (Disk::new(config)?, buffer_bytes), false, &mut fill)
}

fn measure(
    folder: &Path,
    bytes: u64,
    (mut disk, buffer_bytes): (Disk, usize),
    syncs: bool,
    fill: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
) -> Result<WriteRate, DiskError> {
    let path = folder.join(format!("catchment-measure-{}.tmp", std::process::id()));
    let file = disk.create(&path)?;
    let delete = DeleteAtEnd(&path);
    let count = (bytes / buffer_bytes as u64).max(1);
    let failed = |e| DiskError::path("write", &path, e);
    let mut completions = Vec::with_capacity(64);
    let (start, cpu_start_ns, mut is_syncing) = (Instant::now(), process_cpu_ns(), false);
    for index in 0..count {
        let mut buffer = loop {
            disk.poll(&mut completions);
            if let Some(buffer) = disk.try_buffer() {
                break buffer;
            }
            disk.sleeper().sleep(Duration::from_secs(1));
        };
        fill(&mut buffer).map_err(failed)?;
        disk.write(file, index * buffer_bytes as u64, buffer, buffer_bytes, index);
        disk.poll(&mut completions);
        is_syncing &= !completions.iter().any(|it| it.kind == CompletionKind::Sync);
        check(&mut completions).map_err(failed)?;
        if syncs && !is_syncing && disk.sync_due(start.elapsed().as_nanos() as u64) {
            disk.sync(file, 0)?;
            is_syncing = true;
        }
    }
    disk.sync(file, 0)?;
    while disk.pending() > 0 {
        if disk.poll(&mut completions) == 0 {
            disk.sleeper().sleep(Duration::from_secs(1));
        }
        check(&mut completions).map_err(failed)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_ns = process_cpu_ns().saturating_sub(cpu_start_ns);
    drop(disk);
    drop(delete);
    Ok(WriteRate { bytes: count * buffer_bytes as u64, seconds, cpu_ns })
}

struct DeleteAtEnd<'a>(&'a Path);

impl Drop for DeleteAtEnd<'_> {
    fn drop(&mut self) {
        // The name of a left-over file shows what it is.
        let _deleted = std::fs::remove_file(self.0);
    }
}

/// Fills every buffer once with incompressible numbers.
fn fill_all(disk: &mut Disk) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut buffers = Vec::new();
    while let Some(mut buffer) = disk.try_buffer() {
        for word in buffer.chunks_exact_mut(8) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            word.copy_from_slice(&random.to_le_bytes());
        }
        buffers.push(buffer);
    }
}

fn check(completions: &mut Vec<Completion>) -> io::Result<()> {
    completions.drain(..).try_for_each(|completion| completion.result)
}

fn process_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` can be written to.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "a process has a CPU clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
