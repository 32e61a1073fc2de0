//! What the machine can do for whoever receives and writes: TCP loopback and direct write, each
//! alone and both at once. Bytes come from a process of their own, as fragments of front-ends do.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Bench;
use crate::limits::direct_write_once;
use crate::part::Part;
use crate::report::bytes;

/// Of the sender and of the receiver of bytes alone.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// What the machine can do, in bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Limits {
    pub(crate) tcp: f64,
    pub(crate) direct_write: f64,
    /// Both at once, with nothing between them: whoever receives and writes has no more.
    pub(crate) at_once: [f64; 2],
}

impl Limits {
    /// For right before and right behind a row, since they change while a bench runs.
    pub(crate) fn measure(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let tcp = tcp(if bench.quick { 0.1 } else { 2.0 })?;
        let direct_write = direct_write_once(bench, None)?.bytes_per_second;
        let (has_begun, is_written) = (AtomicBool::new(false), AtomicBool::new(false));
        let at_once = std::thread::scope(|scope| {
            let received = scope.spawn(|| {
                tcp_while(|_| {
                    has_begun.store(true, Relaxed);
                    !is_written.load(Relaxed)
                })
            });
            while !has_begun.load(Relaxed) && !received.is_finished() {
                std::thread::sleep(LOOK);
            }
            let written = direct_write_once(bench, None);
            is_written.store(true, Relaxed);
            let failed = |_| Err(anyhow::anyhow!("a receiver has panicked"));
            anyhow::Ok([received.join().unwrap_or_else(failed)?, written?.bytes_per_second])
        })?;
        Ok(Self { tcp, direct_write, at_once })
    }

    pub(crate) fn mean(self, other: Self) -> Self {
        Self {
            tcp: f64::midpoint(self.tcp, other.tcp),
            direct_write: f64::midpoint(self.direct_write, other.direct_write),
            at_once: [0, 1].map(|one| f64::midpoint(self.at_once[one], other.at_once[one])),
        }
    }

    /// The smaller one of those alone.
    pub(crate) fn least(self) -> f64 {
        self.tcp.min(self.direct_write)
    }

    pub(crate) fn at_once_text(self) -> String {
        self.at_once.map(bytes).join(", ")
    }
}

/// Bytes per second from another process to this one through a connection of this machine.
pub(crate) fn tcp(seconds: f64) -> anyhow::Result<f64> {
    tcp_while(|elapsed| elapsed < seconds)
}

fn tcp_while(goes_on: impl Fn(f64) -> bool) -> anyhow::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let mut sender = Part::Bytes(listener.local_addr()?).start()?;
    let mut receiver = loop {
        match listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => sender.ensure_runs()?,
            accepted => break accepted?.0,
        }
        std::thread::sleep(LOOK);
    };
    receiver.set_nonblocking(false)?;
    let (mut block, mut received, begin) = (vec![0; BLOCK_BYTES], 0, Instant::now());
    while goes_on(begin.elapsed().as_secs_f64()) {
        let count = receiver.read(&mut block)?;
        if count == 0 {
            sender.ensure_runs()?;
        }
        received += count;
    }
    Ok(received as f64 / begin.elapsed().as_secs_f64())
}

/// Sends bytes until nobody reads them.
pub(crate) fn send(to: SocketAddr) -> anyhow::Result<()> {
    let mut sender = TcpStream::connect(to)?;
    let block = vec![7; BLOCK_BYTES];
    loop {
        match sender.write_all(&block) {
            Ok(()) => {}
            Err(error) if is_gone(error.kind()) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_gone(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

const LOOK: Duration = Duration::from_millis(1);
