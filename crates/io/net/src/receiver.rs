//! Many sockets received by one thread.
//!
//! A pass asks epoll which sockets have something, and takes it in batches: recvmmsg into a small
//! arena, with UDP_GRO so that a run of equal datagrams comes in one piece. Nothing here decides
//! when to look again, or from whom to take what: that is the caller's.
//!
//! The arena is small so that it stays in the second-level cache: on the development machine,
//! cycling through 256 MiB of receive buffers lost 45 % of what a 2 MiB arena took without loss.
//!
//! The socket buffers ride out what the thread cannot take at once; what does not fit there the
//! kernel drops, and its count (SO_RXQ_OVFL, SO_MEMINFO) is read, not guessed.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use catchment_agent::{Arrival, Datagrams, Egress, Flow, Ingress, Piece, Received};
use catchment_model::limits::DATAGRAM_BYTES_MAX;

use crate::epoll::{Epoll, Readiness};
use crate::options::{Buffer, ask_buffer, drops, set, taken};
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

impl Batch {
    /// Whether the sink had no room for the rest of it.
    fn is_begun(&self) -> bool {
        self.current.is_some() || self.next < self.count
    }
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
            let (message, at) = match current.take() {
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
            let bytes = &self.arena.bytes(*next - 1, message.bytes)[at..];
            let each = match message.segment_bytes {
                0 => message.bytes.max(1),
                bytes => bytes,
            };
            let (endpoint, sender) = (*socket, message.sender);
            let piece = Piece::Datagrams(Datagrams::merged(bytes, each));
            let (taken, datagrams) = match sink(Arrival { endpoint, sender, piece }) {
                Flow::Paused => (0, 0),
                Flow::Used(taken) => (taken, taken.div_ceil(each)),
                _ => (bytes.len(), bytes.len().div_ceil(each).max(1)),
            };
            received.arrivals += datagrams as u64;
            received.bytes += taken as u64;
            if datagrams == 0 || taken < bytes.len() {
                *current = Some((message, at + taken));
                return false;
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
        let paused = self.batch.is_begun().then_some(self.batch.socket);
        received.paused = !self.hand_out(&mut received, sink);
        let ready = if received.paused { 0 } else { self.ask_ready() };
        if let Some(socket) = paused {
            // Otherwise the first ones would take all room that there is.
            self.epoll.begin_behind(ready, socket);
        }
        for position in 0..ready {
            let index = self.epoll.ready(position);
            received.paused = !self.take_batches(index, &mut received, sink);
            if received.paused {
                break;
            }
        }
        received
    }

    fn waiting_bytes(&self) -> u64 {
        let taken = self.sockets.iter().filter_map(|socket| taken(socket.socket.as_fd()).ok());
        taken.map(u64::from).sum()
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

/// One control buffer, aligned as its headers must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What came with one message.
#[derive(Clone, Copy, Debug, Default)]
struct Message {
    bytes: usize,
    /// The length of the datagrams that were merged into it; 0 if it is a single one.
    segment_bytes: usize,
    /// The socket's count of drops, if the kernel said one.
    drops: Option<u32>,
    /// Who sent it, if that was asked for.
    sender: Option<SocketAddr>,
}

/// Buffers for `messages.len()` messages.
struct Arena {
    memory: NonNull<u8>,
    layout: Layout,
    messages: Box<[libc::mmsghdr]>,
    // The headers point into these two.
    _vectors: Box<[libc::iovec]>,
    _controls: Box<[Control]>,
    // And into this one, while senders are asked for.
    names: Box<[libc::sockaddr_in6]>,
    named: bool,
}

// SAFETY: the pointers lead to memory that the arena alone owns and that moves with it.
unsafe impl Send for Arena {}

impl Arena {
    fn new(count: usize) -> Self {
        assert!((1..=1_024).contains(&count), "an arena has 1 to 1,024 messages, not {count}");
        let stride = MESSAGE_BYTES + STAGGER_BYTES;
        let layout = Layout::from_size_align((count * stride).next_multiple_of(4_096), ALIGN_BYTES)
            .expect("the sizes are within bounds");
        // SAFETY: the layout has a size, at least one message.
        let memory = unsafe { alloc_zeroed(layout) };
        let memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        // Fewer entries in the TLB. Advice only: nothing depends on it.
        // SAFETY: the range is the allocation just made.
        unsafe { libc::madvise(memory.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        let mut vectors: Box<[libc::iovec]> = (0..count)
            .map(|index| libc::iovec {
                // SAFETY: within the allocation, which has room for `count` strides.
                iov_base: unsafe { memory.as_ptr().add(index * stride) }.cast(),
                iov_len: MESSAGE_BYTES,
            })
            .collect();
        let mut controls = vec![Control([0; CONTROL_BYTES]); count].into_boxed_slice();
        let messages = vectors
            .iter_mut()
            .zip(&mut controls)
            .map(|(vector, control)| libc::mmsghdr {
                msg_hdr: libc::msghdr {
                    msg_name: ptr::null_mut(),
                    msg_namelen: 0,
                    msg_iov: vector,
                    msg_iovlen: 1,
                    msg_control: control.0.as_mut_ptr().cast(),
                    msg_controllen: CONTROL_BYTES,
                    msg_flags: 0,
                },
                msg_len: 0,
            })
            .collect();
        // SAFETY: plain numbers, for which all zero is the address of no family.
        let names = (0..count).map(|_| unsafe { std::mem::zeroed() }).collect();
        let (_vectors, _controls) = (vectors, controls);
        Self { memory, layout, messages, _vectors, _controls, names, named: false }
    }

    /// How many messages one call can take.
    fn capacity(&self) -> usize {
        self.messages.len()
    }

    /// Takes what the socket has, without waiting: how many messages. Senders are asked for only
    /// where somebody wants to know them: the kernel then copies an address for each message.
    fn receive(&mut self, fd: BorrowedFd<'_>, senders: bool) -> io::Result<usize> {
        if senders != self.named {
            self.name(senders);
        }
        // SAFETY: the headers, and what they point to, are valid and writable for their lengths;
        // only the kernel writes them, here.
        let count = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as u32,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }

    /// Message `index` of the last call. Makes its header ready for the next call, so that it is to
    /// be called once for every message received.
    #[inline]
    fn take(&mut self, index: usize) -> Message {
        let header = &mut self.messages[index];
        let mut message =
            Message { bytes: (header.msg_len as usize).min(MESSAGE_BYTES), ..Message::default() };
        if header.msg_hdr.msg_controllen > 0 {
            read_control(&header.msg_hdr, &mut message);
        }
        header.msg_hdr.msg_controllen = CONTROL_BYTES;
        if self.named {
            message.sender = sender(&header.msg_hdr);
            header.msg_hdr.msg_namelen = NAME_BYTES;
        }
        message
    }

    /// The first bytes of message `index` of the last call.
    ///
    /// # Panics
    /// If that is more than a message can have.
    #[inline]
    fn bytes(&self, index: usize, bytes: usize) -> &[u8] {
        assert!(bytes <= MESSAGE_BYTES, "{bytes} bytes of a message");
        // SAFETY: the base is this message's slot in the arena, which has room for MESSAGE_BYTES
        // and was zeroed when it was made; the kernel writes only during `receive`.
        unsafe {
            let base = (*self.messages[index].msg_hdr.msg_iov).iov_base.cast::<u8>();
            std::slice::from_raw_parts(base, bytes)
        }
    }

    /// Makes the headers ask for senders, or not.
    #[cold]
    fn name(&mut self, senders: bool) {
        self.named = senders;
        for (header, name) in self.messages.iter_mut().zip(&mut self.names) {
            let header = &mut header.msg_hdr;
            (header.msg_name, header.msg_namelen) = match senders {
                true => ((&raw mut *name).cast(), NAME_BYTES),
                false => (ptr::null_mut(), 0),
            };
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and nothing points to it any more.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

#[inline]
fn read_control(header: &libc::msghdr, message: &mut Message) {
    // SAFETY: the kernel wrote `msg_controllen` bytes of control messages into this header's own
    // buffer; the macros stay within that length, and the data are read unaligned.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            let data = libc::CMSG_DATA(control);
            match ((*control).cmsg_level, (*control).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let bytes = data.cast::<i32>().read_unaligned();
                    message.segment_bytes = usize::try_from(bytes).unwrap_or(0);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    message.drops = Some(data.cast::<u32>().read_unaligned());
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
}

/// The sender that the kernel named.
#[inline]
fn sender(header: &libc::msghdr) -> Option<SocketAddr> {
    // SAFETY: the name is this header's own sockaddr_in6, zeroed when it was made, of which the
    // kernel wrote the beginning; every type read here is smaller, aligned no stricter, and plain
    // numbers.
    unsafe {
        let name = header.msg_name.cast::<libc::sockaddr_in6>();
        match i32::from((*name).sin6_family) {
            libc::AF_INET if header.msg_namelen as usize >= size_of::<libc::sockaddr_in>() => {
                let name = name.cast::<libc::sockaddr_in>();
                let address = Ipv4Addr::from(u32::from_be((*name).sin_addr.s_addr));
                Some(SocketAddr::from((address, u16::from_be((*name).sin_port))))
            }
            libc::AF_INET6 if header.msg_namelen >= NAME_BYTES => {
                let address = IpAddr::V6(Ipv6Addr::from((*name).sin6_addr.s6_addr));
                let port = u16::from_be((*name).sin6_port);
                Some(SocketAddr::new(address.to_canonical(), port))
            }
            _ => None,
        }
    }
}

/// Full batches that one socket may take in one pass.
const BATCHES_PER_PASS: usize = 4;
/// Bytes of one message: more than any datagram, or any run of datagrams that the kernel merged.
const MESSAGE_BYTES: usize = 64 * 1024;
/// Buffers that are powers of two apart share their cache sets; this keeps their beginnings apart
/// (17 lines of 64 bytes).
const STAGGER_BYTES: usize = 1_088;
const ALIGN_BYTES: usize = 2 * 1024 * 1024;
/// Two control messages (GRO's size, drops), each a 16-byte header and an int, padded to 8.
const CONTROL_BYTES: usize = 64;

/// Bytes of the longest name: an address of IP version 6.
const NAME_BYTES: u32 = size_of::<libc::sockaddr_in6>() as u32;

const _: () = assert!(DATAGRAM_BYTES_MAX <= MESSAGE_BYTES);

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
