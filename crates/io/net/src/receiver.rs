//! Many sockets received by one thread.
//!
//! A pass asks epoll which sockets have something, and takes it in batches: recvmmsg into a small
//! arena, with UDP_GRO so that a run of equal datagrams comes in one piece. Between passes the
//! thread spins for a while, then may sleep so that batches build up in the sockets' buffers, then
//! waits.
//!
//! The socket buffers ride out what the thread cannot take at once; what does not fit there the
//! kernel drops, and its count (SO_RXQ_OVFL, SO_MEMINFO) is read, not guessed.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::arena::{Arena, Message};
use crate::options::{Buffer, ask_buffer, drops, set};
use crate::{NetError, Network, SocketGauge};

/// How a receiver spends memory and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Messages of 64 KiB taken per system call, 1 to 1,024. The arena should stay within the
    /// second-level cache: 16 are 1.07 MB.
    pub arena_messages: usize,
    /// Microseconds to ask again at once after there was work.
    pub spin_us: u64,
    /// Microseconds to sleep after that, so that more than a few datagrams come per call.
    pub coalesce_us: u64,
    /// Bytes of buffer to ask for per socket.
    pub socket_buffer_bytes: usize,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            arena_messages: 16,
            spin_us: 0,
            coalesce_us: 500,
            socket_buffer_bytes: 16 * 1024 * 1024,
        }
    }
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Datagrams handed out.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that brought them; fewer than datagrams where runs were merged.
    pub messages: u64,
    /// Receive calls made.
    pub calls: u64,
    /// Messages longer than 64 KiB, handed out cut.
    pub truncated: u64,
    /// Datagrams from senders that the socket takes nothing from, handed to nobody.
    pub refused: u64,
    /// Errors that sockets reported, such as a refused connection. They do not stop the others.
    pub errors: u64,
}

/// Datagrams that a socket got from senders that it takes nothing from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How many.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Who sent the first of them; none if the system did not say.
    pub sender: Option<IpAddr>,
}

/// Sockets that one thread receives from.
pub struct UdpReceiver {
    sockets: Vec<Socket>,
    epoll: OwnedFd,
    ready: Box<[libc::epoll_event]>,
    arena: Arena,
    config: ReceiverConfig,
    // When the last pass that had work ended; none once its time to spin and to sleep is used up.
    worked_at: Option<Instant>,
    // A socket had more than one pass takes.
    backlog: bool,
    last_error: Option<(usize, io::Error)>,
    // Some socket has refused something since that was last asked.
    refused: bool,
}

struct Socket {
    // Held for longer by nobody but a gauge that is just asking.
    socket: Arc<UdpSocket>,
    granted_bytes: usize,
    drops: DropCounter,
    // Empty: everybody.
    from: Box<[Network]>,
    refused: Option<Refused>,
}

impl UdpReceiver {
    /// Binds one socket per address; the index of an address is the index of its socket everywhere.
    ///
    /// # Errors
    /// An address that cannot be bound, or an option without which drops could not be counted.
    pub fn bind(addresses: &[SocketAddr], config: ReceiverConfig) -> Result<Self, NetError> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(NetError::Epoll { source: io::Error::last_os_error() });
        }
        // SAFETY: a new descriptor that nothing else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let mut sockets = Vec::with_capacity(addresses.len());
        for (index, &address) in addresses.iter().enumerate() {
            let socket = Socket::bind(address, config.socket_buffer_bytes)?;
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: index as u64 };
            // SAFETY: both descriptors are open, and the event lives through the call.
            let result = unsafe {
                let fd = socket.socket.as_raw_fd();
                libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event)
            };
            if result < 0 {
                return Err(NetError::Epoll { source: io::Error::last_os_error() });
            }
            sockets.push(socket);
        }
        let ready = sockets.len().clamp(1, READY_MAX);
        Ok(Self {
            sockets,
            epoll,
            ready: vec![libc::epoll_event { events: 0, u64: 0 }; ready].into(),
            arena: Arena::new(config.arena_messages),
            config,
            worked_at: None,
            backlog: false,
            last_error: None,
            refused: false,
        })
    }

    /// From now on socket `index` takes datagrams only from senders in these networks, or, if there
    /// are none, from everybody. The others are counted ([`take_refused`](Self::take_refused)) and
    /// handed to nobody. Only for such a socket the kernel is asked who sent a datagram.
    ///
    /// # Panics
    /// An index beyond the sockets.
    pub fn restrict(&mut self, index: usize, from: &[Network]) {
        self.sockets[index].from = from.into();
    }

    /// How many sockets there are.
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
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

    /// A sentence for the operator if any socket got a smaller buffer than was asked for.
    pub fn buffer_warning(&self) -> Option<String> {
        let granted = self.sockets.iter().map(|socket| socket.granted_bytes).min()?;
        buffer_warning(self.config.socket_buffer_bytes, granted)
    }

    /// The last error that a socket reported, and which socket; forgotten once read.
    pub fn take_error(&mut self) -> Option<(usize, io::Error)> {
        self.last_error.take()
    }

    /// One duty cycle: waits at most about `wait_max` for a socket to have something, then receives
    /// from all that have, and calls `sink(socket index, datagram)` for each datagram, merged runs
    /// split, in the order in which each socket got them. No socket takes more than a few batches
    /// from the others in one pass.
    ///
    /// # Errors
    /// Waiting failed. What sockets report is counted in [`Work::errors`] instead.
    pub fn poll(
        &mut self,
        wait_max: Duration,
        mut sink: impl FnMut(usize, &[u8]),
    ) -> Result<Work, NetError> {
        let mut work = Work::default();
        let ready = self.wait(wait_max)?;
        self.backlog = false;
        for position in 0..ready {
            let index = self.ready[position].u64 as usize;
            self.receive(index, &mut work, &mut sink);
        }
        if work.messages > 0 {
            self.worked_at = Some(Instant::now());
        }
        Ok(work)
    }

    /// Takes what is in the sockets' buffers now, without waiting; for the end of a run. Stops
    /// after `datagrams_max` at the latest, so that a sender that goes on cannot keep it.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn drain(
        &mut self,
        datagrams_max: u64,
        mut sink: impl FnMut(usize, &[u8]),
    ) -> Result<Work, NetError> {
        let mut total = Work::default();
        loop {
            let work = self.poll(Duration::ZERO, &mut sink)?;
            total.add(&work);
            let taken = total.datagrams + total.refused;
            if work.messages == 0 && work.errors == 0 || taken >= datagrams_max {
                return Ok(total);
            }
        }
    }

    /// Calls `f(socket index, drops)` for every socket at which the kernel dropped datagrams since
    /// the last call, as far as the control messages have told. A merged run counts as one.
    pub fn take_drops(&mut self, mut f: impl FnMut(usize, u64)) {
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            match std::mem::take(&mut socket.drops.new) {
                0 => {}
                drops => f(index, drops),
            }
        }
    }

    /// Calls `f(socket index, refused)` for every socket that refused datagrams since the last
    /// call.
    pub fn take_refused(&mut self, mut f: impl FnMut(usize, Refused)) {
        if std::mem::take(&mut self.refused) {
            for (index, socket) in self.sockets.iter_mut().enumerate() {
                if let Some(refused) = socket.refused.take() {
                    f(index, refused);
                }
            }
        }
    }

    /// Asks the kernel for every socket's drops, one system call each. The control messages tell
    /// only of drops before a datagram that came through; this also finds those after the last one.
    pub fn refresh_drops(&mut self) {
        for socket in &mut self.sockets {
            // Without an answer (an old kernel) the control messages' count stands.
            if let Ok(count) = drops(socket.socket.as_fd()) {
                socket.drops.update(count);
            }
        }
    }

    fn receive(&mut self, index: usize, work: &mut Work, sink: &mut impl FnMut(usize, &[u8])) {
        let socket = &mut self.sockets[index];
        for _ in 0..BATCHES_PER_PASS {
            work.calls += 1;
            let restricted = !socket.from.is_empty();
            let count = match self.arena.receive(socket.socket.as_fd(), restricted) {
                Ok(count) => count,
                Err(error) => {
                    match error.kind() {
                        io::ErrorKind::WouldBlock => return,
                        io::ErrorKind::Interrupted => {}
                        // Reported once by the kernel, then the socket goes on.
                        _ => {
                            work.errors += 1;
                            self.last_error = Some((index, error));
                        }
                    }
                    continue;
                }
            };
            for position in 0..count {
                let (message, bytes) = self.arena.take(position);
                work.messages += 1;
                if let Some(drops) = message.drops {
                    socket.drops.update(drops);
                }
                if restricted && !socket.takes_from(message.sender) {
                    work.refused += socket.refuse(&message);
                    self.refused = true;
                    continue;
                }
                work.bytes += message.bytes as u64;
                work.truncated += u64::from(message.truncated);
                if message.segment_bytes == 0 || message.segment_bytes >= message.bytes {
                    work.datagrams += 1;
                    sink(index, bytes);
                } else {
                    for datagram in bytes.chunks(message.segment_bytes) {
                        work.datagrams += 1;
                        sink(index, datagram);
                    }
                }
            }
            if count < self.arena.capacity() {
                return;
            }
        }
        self.backlog = true;
    }

    /// Which sockets have something: how many entries of `ready`.
    fn wait(&mut self, wait_max: Duration) -> Result<usize, NetError> {
        let spin = Duration::from_micros(self.config.spin_us);
        let coalesce = Duration::from_micros(self.config.coalesce_us);
        let mut left = wait_max;
        if let Some(worked_at) = self.worked_at
            && !self.backlog
            && !wait_max.is_zero()
        {
            loop {
                let since = worked_at.elapsed();
                if since >= spin.min(wait_max) {
                    left = left.saturating_sub(since);
                    break;
                }
                let ready = self.epoll(0)?;
                if ready > 0 {
                    return Ok(ready);
                }
                std::hint::spin_loop();
            }
            self.worked_at = None;
            let nap = coalesce.min(left);
            if !nap.is_zero() {
                std::thread::sleep(nap);
                left -= nap;
            }
        }
        let ready = self.epoll(0)?;
        if ready > 0 || left.is_zero() {
            return Ok(ready);
        }
        // epoll counts milliseconds; waiting a little longer than asked beats spinning.
        self.epoll(left.as_micros().div_ceil(1_000).min(i32::MAX as u128) as i32)
    }

    fn epoll(&mut self, timeout_ms: i32) -> Result<usize, NetError> {
        // SAFETY: the list is writable for the length given.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.ready.as_mut_ptr(),
                self.ready.len() as i32,
                timeout_ms,
            )
        };
        if count >= 0 {
            return Ok(count as usize);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            source => Err(NetError::Epoll { source }),
        }
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

impl Work {
    /// Adds another pass's counts.
    pub fn add(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.messages += other.messages;
        self.calls += other.calls;
        self.truncated += other.truncated;
        self.refused += other.refused;
        self.errors += other.errors;
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
        Ok(Self { socket, granted_bytes, drops, from: Box::default(), refused: None })
    }

    /// Whether a restricted socket takes what that sender sends.
    #[inline]
    fn takes_from(&self, sender: Option<IpAddr>) -> bool {
        sender.is_some_and(|sender| self.from.iter().any(|network| network.contains(sender)))
    }

    /// Counts a message that is not taken: how many datagrams it was. A merged run has one sender.
    #[cold]
    fn refuse(&mut self, message: &Message) -> u64 {
        let datagrams = match message.segment_bytes {
            0 => 1,
            segment => message.bytes.div_ceil(segment).max(1) as u64,
        };
        let refused = self.refused.get_or_insert(Refused { datagrams: 0, bytes: 0, sender: None });
        refused.datagrams += datagrams;
        refused.bytes += message.bytes as u64;
        refused.sender = refused.sender.or(message.sender);
        datagrams
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
            "receive buffers: {wanted} bytes per socket were asked for and {granted} granted; \
             bursts beyond that lose packets. To allow more: sysctl -w net.core.rmem_max={wanted}"
        )
    })
}

/// Full batches that one socket may take in one pass.
const BATCHES_PER_PASS: usize = 4;
/// Sockets that epoll names at once; with more, they take turns.
const READY_MAX: usize = 1_024;

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
