//! Notifications to the service manager: ready, stopping, alive.
//!
//! The protocol is a datagram to the socket that `NOTIFY_SOCKET` names. Without one nothing is
//! sent.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The connection to the service manager.
#[derive(Debug)]
pub(crate) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    every: Option<Duration>,
    last: Option<Instant>,
}

impl Manager {
    /// From the environment.
    pub(crate) fn from_environment() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let name = name.as_bytes();
            let address = match name.strip_prefix(b"@") {
                Some(rest) => SocketAddr::from_abstract_name(rest),
                None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)),
            };
            let socket = UnixDatagram::unbound().ok()?;
            // The control thread never waits, not even for a service manager.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address.ok()?))
        });
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let every = number("WATCHDOG_USEC").filter(|_| ours);
        // Twice as often as required.
        let every = every.map(|micros| Duration::from_micros(micros / 2));
        Self { socket, every, last: None }
    }

    /// Sends a notification: `READY=1`.
    pub(crate) fn say(&self, message: &str) {
        let Some((socket, address)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(message.as_bytes(), address) {
            tracing::warn!(%error, "the service manager cannot be told");
        }
    }

    /// Reports that the node is alive, if it is time to.
    pub(crate) fn alive(&mut self, now: Instant) {
        let Some(every) = self.every else { return };
        if self.last.is_none_or(|last| now.duration_since(last) >= every) {
            self.last = Some(now);
            self.say("WATCHDOG=1");
        }
    }
}
