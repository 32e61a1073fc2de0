//! Many sockets received by one thread.
//!
//! A pass asks epoll which sockets have something, and takes it in batches: recvmmsg into a small
//! arena, with UDP_GRO so that a run of equal datagrams comes in one piece. Nothing here decides
//! when to look again, or from whom to take what: that is the caller's.
//!
//! The socket buffers ride out what the thread cannot take at once; what does not fit there the
//! kernel drops, and its count (SO_RXQ_OVFL, SO_MEMINFO) is read, not guessed.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

use catchment_agent::{Arrival, Egress, Flow, Ingress, Piece, Received};

use crate::arena::{Arena, Message};
use crate::epoll::{Epoll, Readiness};
use crate::options::{Buffer, ask_buffer, drops, set};
use crate::{NetError, SocketGauge};

/// How a receiver spends memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Messages of 64 KiB taken per system call, 1 to 1,024. The arena should stay within the
    /// second-level cache: 16 are 1.07 MB.
    pub arena_messages: usize,
    /// Bytes of buffer to ask for per socket.
    pub socket_buffer_bytes: usize,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self { arena_messages: 16, socket_buffer_bytes: 16 * 1024 * 1024 }
    }
}

/// Sockets that one thread receives from.
pub struct UdpReceiver {
    sockets: Vec<Socket>,
    epoll: Epoll,
    arena: Arena,
    config: ReceiverConfig,
    batch: Batch,
    last_error: Option<(Option<usize>, io::Error)>,
}

struct Socket {
    // Shared with gauges, which hold it only while they ask.
    socket: Arc<UdpSocket>,
    granted_bytes: usize,
    drops: DropCounter,
    // Whether the kernel is asked who sent a datagram.
    names_senders: bool,
}

/// Messages of one receive call that are being handed out.
#[derive(Default)]
struct Batch {
    socket: usize,
    count: usize,
    next: usize,
    /// The message before `next`, of which datagrams from that byte on were not taken yet.
    current: Option<(Message, usize)>,
}

impl UdpReceiver {
    /// Binds one socket per address; the index of an address is the index of its socket everywhere.
    ///
    /// # Errors
    /// An address that cannot be bound, or an option without which drops could not be counted.
    pub fn bind(addresses: &[SocketAddr], config: ReceiverConfig) -> Result<Self, NetError> {
        let error = |source| NetError::Epoll { source };
        let epoll = Epoll::new(addresses.len()).map_err(error)?;
        let mut sockets = Vec::with_capacity(addresses.len());
        for (index, &address) in addresses.iter().enumerate() {
            let socket = Socket::bind(address, config.socket_buffer_bytes)?;
            epoll.add(socket.socket.as_fd(), index).map_err(error)?;
            sockets.push(socket);
        }
        Ok(Self {
            sockets,
            epoll,
            arena: Arena::new(config.arena_messages),
            config,
            batch: Batch::default(),
            last_error: None,
        })
    }

    /// From now on arrivals at socket `index` say who sent them, which costs the kernel a little.
    ///
    /// # Panics
    /// An index beyond the sockets.
    pub fn name_senders(&mut self, index: usize) {
        self.sockets[index].names_senders = true;
    }

    /// The address that socket `index` receives on, its port resolved if it was 0.
    ///
    /// # Panics
    /// An index beyond the sockets.
    pub fn local_addr(&self, index: usize) -> SocketAddr {
        self.sockets[index].socket.local_addr().expect("a bound socket has an address")
    }

    /// Bytes of buffer that socket `index` got. The kernel counts its own overhead against twice
    /// that, so that small datagrams fill it sooner than their bytes say.
    ///
    /// # Panics
    /// An index beyond the sockets.
    pub fn granted_bytes(&self, index: usize) -> usize {
        self.sockets[index].granted_bytes
    }

    /// Something that says how full the buffer of socket `index` is.
    ///
    /// # Panics
    /// An index beyond the sockets.
    pub fn gauge(&self, index: usize) -> SocketGauge {
        SocketGauge::of(&self.sockets[index].socket)
    }

    /// What a thread can wait on for datagrams.
    pub fn readiness(&self) -> Readiness {
        self.epoll.readiness()
    }

    /// A sentence for the operator if any socket got a smaller buffer than was asked for.
    pub fn buffer_warning(&self) -> Option<String> {
        let granted = self.sockets.iter().map(|socket| socket.granted_bytes).min()?;
        buffer_warning(self.config.socket_buffer_bytes, granted)
    }

    /// Takes a few batches from one socket; false where the caller has no room for more.
    fn take_batches(
        &mut self,
        index: usize,
        received: &mut Received,
        sink: &mut dyn FnMut(Arrival<'_>) -> Flow,
    ) -> bool {
        for _ in 0..BATCHES_PER_PASS {
            let socket = &self.sockets[index];
            let count = match self.arena.receive(socket.socket.as_fd(), socket.names_senders) {
                Ok(count) => count,
                Err(error) => {
                    match error.kind() {
                        io::ErrorKind::WouldBlock => return true,
                        io::ErrorKind::Interrupted => {}
                        // Reported once by the kernel, then the socket goes on.
                        _ => self.last_error = Some((Some(index), error)),
                    }
                    continue;
                }
            };
            self.batch = Batch { socket: index, count, next: 0, current: None };
            if !self.hand_out(received, sink) {
                return false;
            }
            if count < self.arena.capacity() {
                return true;
            }
        }
        received.more = true;
        true
    }

    /// Hands out the rest of the batch; false where the caller has no room for more.
    fn hand_out(
        &mut self,
        received: &mut Received,
        sink: &mut dyn FnMut(Arrival<'_>) -> Flow,
    ) -> bool {
        let Batch { socket, count, next, current } = &mut self.batch;
        loop {
            let (message, mut at) = match current.take() {
                Some(current) => current,
                None if *next == *count => return true,
                None => {
                    let message = self.arena.take(*next);
                    *next += 1;
                    if let Some(drops) = message.drops {
                        self.sockets[*socket].drops.update(drops);
                    }
                    (message, 0)
                }
            };
            let bytes = self.arena.bytes(*next - 1, message.bytes);
            let step =
                if message.segment_bytes == 0 { message.bytes } else { message.segment_bytes };
            loop {
                let end = message.bytes.min(at + step);
                let (endpoint, sender) = (*socket, message.sender);
                let piece = Piece::Datagram(&bytes[at..end]);
                if sink(Arrival { endpoint, sender, piece }) == Flow::Paused {
                    *current = Some((message, at));
                    return false;
                }
                received.arrivals += 1;
                received.bytes += (end - at) as u64;
                at = end;
                if at == message.bytes {
                    break;
                }
            }
        }
    }

    /// How many sockets have something, of which epoll has the list.
    fn ask_ready(&mut self) -> usize {
        self.epoll.ask().unwrap_or_else(|error| {
            self.last_error = Some((None, error));
            0
        })
    }
}

/// Datagrams are not answered.
impl Egress for UdpReceiver {}

impl Ingress for UdpReceiver {
    fn poll(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        let mut received = Received::default();
        received.paused = !self.hand_out(&mut received, sink);
        let ready = if received.paused { 0 } else { self.ask_ready() };
        for position in 0..ready {
            let index = self.epoll.ready(position);
            received.paused = !self.take_batches(index, &mut received, sink);
            if received.paused {
                break;
            }
        }
        received
    }

    /// Asks the kernel for every socket's drops, one system call each. The control messages tell
    /// only of drops before a datagram that came through; this also finds those after the last one.
    fn refresh_drops(&mut self) {
        for socket in &mut self.sockets {
            // Without an answer (an old kernel) the control messages' count stands.
            if let Ok(count) = drops(socket.socket.as_fd()) {
                socket.drops.update(count);
            }
        }
    }

    /// As far as the control messages have told. A merged run counts as one.
    fn take_drops(&mut self, f: &mut dyn FnMut(usize, u64)) {
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            match std::mem::take(&mut socket.drops.new) {
                0 => {}
                drops => f(index, drops),
            }
        }
    }

    fn take_error(&mut self) -> Option<(Option<usize>, String)> {
        self.last_error.take().map(|(socket, error)| (socket, error.to_string()))
    }
}

impl std::fmt::Debug for UdpReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpReceiver")
            .field("sockets", &self.sockets.len())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Socket {
    fn bind(address: SocketAddr, buffer_bytes: usize) -> Result<Self, NetError> {
        let socket =
            UdpSocket::bind(address).map_err(|source| NetError::Bind { address, source })?;
        let granted_bytes = ask_buffer(&socket, Buffer::Receive, buffer_bytes)
            .map_err(|source| NetError::Option { option: "SO_RCVBUF", source })?;
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
            .map_err(|source| NetError::Option { option: "SO_RXQ_OVFL", source })?;
        // Kernels before 5.0 have no UDP_GRO: then every datagram comes on its own.
        let _merged = set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let (socket, drops) = (Arc::new(socket), DropCounter::default());
        Ok(Self { socket, granted_bytes, drops, names_senders: false })
    }
}

/// The kernel's count of 32 bits, made into increments.
#[derive(Debug, Default)]
struct DropCounter {
    seen: u32,
    new: u64,
}

impl DropCounter {
    fn update(&mut self, count: u32) {
        // A control message carries the count of when its datagram came, which may be older than
        // what was read since.
        let step = count.wrapping_sub(self.seen);
        if step <= u32::MAX / 2 {
            self.new += u64::from(step);
            self.seen = count;
        }
    }
}

/// A sentence for the operator, with the line that helps, if less was granted than wanted.
fn buffer_warning(wanted: usize, granted: usize) -> Option<String> {
    (granted < wanted).then(|| {
        format!(
            "receive buffers: the kernel granted {granted} of the {wanted} bytes requested per \
             socket; larger bursts will lose packets. To allow more: sysctl -w \
             net.core.rmem_max={wanted}"
        )
    })
}

/// Full batches that one socket may take in one pass.
const BATCHES_PER_PASS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_through_the_wrap_and_never_twice() {
        let mut counter = DropCounter { seen: u32::MAX - 1, new: 0 };
        for (count, new) in [(u32::MAX, 1), (3, 5), (1, 5), (3, 5), (4, 6)] {
            counter.update(count);
            assert_eq!(counter.new, new, "after {count}");
        }
    }

    #[test]
    fn a_small_buffer_gives_a_warning_with_the_line_that_helps() {
        assert_eq!(buffer_warning(100, 100), None);
        assert!(buffer_warning(16_777_216, 4_194_304).unwrap().contains("rmem_max=16777216"));
    }
}
