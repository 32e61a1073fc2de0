//! How full a socket's buffer is, for those who only look.

use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Weak};

use crate::options::fill;

/// Looks at one of a receiver's sockets, from any thread, while the receiver has it open. The
/// thread that receives is not asked and knows nothing of it.
#[derive(Clone, Debug)]
pub struct SocketGauge(Weak<UdpSocket>);

impl SocketGauge {
    pub(crate) fn of(socket: &Arc<UdpSocket>) -> Self {
        Self(Arc::downgrade(socket))
    }

    /// The share of the receive buffer that is taken, 0 to 1, or none: the socket is closed, or
    /// this kernel does not say. The kernel gives room back in pieces of up to a quarter of the
    /// buffer, so that it may be less than this.
    ///
    /// While it asks it holds the socket open: whoever must know that an address is free again sees
    /// to it that nobody asks.
    pub fn fill(&self) -> Option<f64> {
        fill(self.0.upgrade()?.as_fd()).ok()
    }
}
