//! From a connection to a file with nothing between: no frames, no checksums, no files that can be
//! read. What a storage node could be measured by, and what it does not do.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Instant;

use catchment_disk::DiskConfig;
use serde::Serialize;

use crate::Bench;
use crate::control_node::own_seconds;
use crate::loopback::BLOCK_BYTES;

/// A way from a connection to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// Aligned buffers, past the page cache.
    Direct,
    /// `read` and `write`, and a sync at the end.
    Buffered,
    /// `splice`: the bytes are never in the memory of the process.
    Splice,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
            Self::Splice => "splice",
        }
    }
}

/// One file that was received.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Plain {
    pub(crate) bytes_per_second: f64,
    /// Of sender and receiver.
    pub(crate) core_seconds_per_gb: f64,
}

/// Sends bytes from a thread to another, which writes them to a file; until it is synced.
pub(crate) fn measure(bench: &Bench<'_>, way: Way, bytes: u64) -> anyhow::Result<Plain> {
    std::fs::create_dir_all(&bench.scratch)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let path = bench.scratch.join(format!("catchment-plain-{}.tmp", std::process::id()));
    let (begin, cpu) = (Instant::now(), own_seconds(std::process::id())?);
    std::thread::scope(|scope| {
        let sent = scope.spawn(move || {
            let block = vec![7; BLOCK_BYTES];
            // It ends early where nobody reads any more, which its receiver says.
            (0..bytes.div_ceil(BLOCK_BYTES as u64)).try_for_each(|_| sender.write_all(&block))
        });
        let taken = take(&mut receiver, way, bytes, (&bench.scratch, &path));
        drop(receiver);
        let _sent = sent.join();
        std::fs::remove_file(&path).ok();
        taken
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let cpu = own_seconds(std::process::id())? - cpu;
    let core_seconds_per_gb = cpu / (bytes as f64 / 1e9);
    Ok(Plain { bytes_per_second: bytes as f64 / seconds, core_seconds_per_gb })
}

fn take(
    receiver: &mut TcpStream,
    way: Way,
    bytes: u64,
    (folder, path): (&Path, &Path),
) -> anyhow::Result<()> {
    if way == Way::Direct {
        catchment_disk::measure_direct_copy(folder, bytes, DiskConfig::default(), receiver)?;
        return Ok(());
    }
    let mut file = File::create_new(path)?;
    match way {
        Way::Splice => splice_all(receiver, &file, bytes)?,
        _ => {
            let mut block = vec![0; BLOCK_BYTES];
            for _ in 0..bytes / BLOCK_BYTES as u64 {
                receiver.read_exact(&mut block)?;
                file.write_all(&block)?;
            }
        }
    }
    Ok(file.sync_data()?)
}

/// Moves bytes through a pipe.
fn splice_all(from: &TcpStream, to: &File, bytes: u64) -> io::Result<()> {
    let (out, into) = io::pipe()?;
    // SAFETY: the descriptor is open. A smaller pipe than asked for is slower, no more.
    let _asked = unsafe { libc::fcntl(into.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES as i32) };
    let (mut left, mut within) = (bytes, 0);
    while left > 0 || within > 0 {
        if within == 0 {
            let wanted = left.min(PIPE_BYTES as u64) as usize;
            within = splice(from.as_raw_fd(), into.as_raw_fd(), wanted)?;
            left -= within as u64;
        }
        within -= splice(out.as_raw_fd(), to.as_raw_fd(), within)?;
    }
    Ok(())
}

fn splice(from: i32, to: i32, bytes: usize) -> io::Result<usize> {
    let none = std::ptr::null_mut();
    // SAFETY: both descriptors are open, and no offsets are given.
    let moved = unsafe { libc::splice(from, none, to, none, bytes, libc::SPLICE_F_MOVE) };
    match moved {
        1.. => Ok(moved as usize),
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

const PIPE_BYTES: usize = 1 << 20;
