//! Datagrams sent to many targets, in batches.
//!
//! Datagrams of equal size that stand behind each other in memory go out as one message that the
//! kernel cuts (UDP_SEGMENT); all messages for one target go out by one sendmmsg. A datagram is
//! sent, or counted as unsent; it is never lost silently.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use catchment_model::limits::DATAGRAM_BYTES_MAX;

use crate::NetError;
use crate::options::{Buffer, ask_buffer};

/// Where in a buffer a datagram stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes from the buffer's begin.
    pub offset: u32,
    /// Its length.
    pub bytes: u32,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Send calls made.
    pub calls: u64,
    /// Times that the kernel refused and was asked again.
    pub refused: u64,
    /// Datagrams given up after that.
    pub unsent: u64,
}

impl Sent {
    /// Adds another batch's counts.
    pub fn add(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.calls += other.calls;
        self.refused += other.refused;
        self.unsent += other.unsent;
    }
}

/// One connected socket per target.
pub struct UdpSender {
    targets: Vec<Target>,
    batch: Batch,
}

struct Target {
    socket: UdpSocket,
    // Datagrams per message; falls to 1 where the path cannot cut messages.
    segments_max: usize,
}

impl UdpSender {
    /// Makes a socket per target, each with a port of its own.
    ///
    /// # Errors
    /// A target that no socket can be connected to.
    pub fn connect(targets: &[SocketAddr]) -> Result<Self, NetError> {
        let targets =
            targets.iter().map(|&target| Target::connect(target)).collect::<Result<_, _>>()?;
        Ok(Self { targets, batch: Batch::new() })
    }

    /// Sends datagrams that stand in `buffer` to one target, in their order. Asks again, for a
    /// bounded time, when the kernel refuses.
    ///
    /// # Panics
    /// An index beyond the targets, or a datagram that is not within the buffer.
    pub fn send(&mut self, target: usize, buffer: &[u8], datagrams: &[Datagram]) -> Sent {
        let mut sent = Sent::default();
        let mut rest = datagrams;
        let mut attempts_max = ATTEMPTS_MAX;
        let mut attempts = attempts_max;
        while !rest.is_empty() {
            let target = &mut self.targets[target];
            self.batch.prepare(buffer, rest, target.segments_max);
            sent.calls += 1;
            match self.batch.send(&target.socket) {
                Ok(messages) => {
                    let taken = self.batch.datagrams(messages);
                    sent.datagrams += taken as u64;
                    sent.bytes += rest[..taken].iter().map(|d| u64::from(d.bytes)).sum::<u64>();
                    rest = &rest[taken..];
                    attempts = attempts_max;
                }
                Err(error) => {
                    let first = self.batch.datagrams(1);
                    let code = error.raw_os_error();
                    match code {
                        Some(libc::EINTR) => continue,
                        // The path's packets are too small for these segments, or its device
                        // cannot cut them: each on its own from now on.
                        Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO) if first > 1 => {
                            target.segments_max = 1;
                            continue;
                        }
                        _ => sent.refused += 1,
                    }
                    // No number of attempts makes a datagram shorter.
                    if attempts == 0 || code == Some(libc::EMSGSIZE) {
                        sent.unsent += first as u64;
                        rest = &rest[first..];
                        if attempts == 0 {
                            // What follows gets one try each, so that the whole call stays bounded.
                            attempts_max = 0;
                        }
                        continue;
                    }
                    attempts -= 1;
                    match code {
                        Some(libc::EAGAIN) => wait_writable(&target.socket),
                        Some(libc::ENOBUFS | libc::ENOMEM) => std::thread::sleep(REFUSED_PAUSE),
                        // A refused connection is told once, by the next call, and nothing else.
                        _ => {}
                    }
                }
            }
        }
        sent
    }
}

impl std::fmt::Debug for UdpSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpSender").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}

impl Target {
    fn connect(target: SocketAddr) -> Result<Self, NetError> {
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let error = |source| NetError::Connect { target, source };
        let socket = UdpSocket::bind(any).map_err(error)?;
        socket.connect(target).map_err(error)?;
        // A larger buffer only saves waiting; the system's default works too.
        let _granted = ask_buffer(&socket, Buffer::Send, SEND_BUFFER_BYTES);
        Ok(Self { socket, segments_max: SEGMENTS_MAX })
    }
}

/// The headers of one sendmmsg call, made once and filled in per call.
struct Batch {
    messages: Box<[libc::mmsghdr]>,
    vectors: Box<[libc::iovec]>,
    controls: Box<[Control]>,
    // Datagrams in each message that is filled in.
    counts: Vec<usize>,
}

// SAFETY: the pointers lead to memory that the batch alone owns, or, during one call, to the
// caller's buffer.
unsafe impl Send for Batch {}

/// A control message that says the segments' size.
#[derive(Clone, Copy)]
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    segment_bytes: u16,
    padding: [u16; 3],
}

impl Batch {
    fn new() -> Self {
        // SAFETY: CMSG_LEN only computes.
        let bytes = unsafe { libc::CMSG_LEN(size_of::<u16>() as u32) } as usize;
        let header = libc::cmsghdr {
            cmsg_len: bytes,
            cmsg_level: libc::SOL_UDP,
            cmsg_type: libc::UDP_SEGMENT,
        };
        let control = Control { header, segment_bytes: 0, padding: [0; 3] };
        let vector = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        let mut vectors = vec![vector; MESSAGES_MAX].into_boxed_slice();
        let messages = vectors
            .iter_mut()
            .map(|vector| libc::mmsghdr {
                msg_hdr: libc::msghdr {
                    msg_name: ptr::null_mut(),
                    msg_namelen: 0,
                    msg_iov: vector,
                    msg_iovlen: 1,
                    msg_control: ptr::null_mut(),
                    msg_controllen: 0,
                    msg_flags: 0,
                },
                msg_len: 0,
            })
            .collect();
        let controls = vec![control; MESSAGES_MAX].into();
        Self { messages, vectors, controls, counts: Vec::with_capacity(MESSAGES_MAX) }
    }

    /// Fills in as many messages as one call takes.
    fn prepare(&mut self, buffer: &[u8], datagrams: &[Datagram], segments_max: usize) {
        self.counts.clear();
        let mut rest = datagrams;
        while let (Some(first), true) = (rest.first(), self.counts.len() < MESSAGES_MAX) {
            let (count, bytes) = run(rest, segments_max);
            let index = self.counts.len();
            let offset = first.offset as usize;
            let piece = &buffer[offset..offset + bytes];
            self.vectors[index] =
                libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: bytes };
            let header = &mut self.messages[index].msg_hdr;
            if count > 1 {
                let control = &mut self.controls[index];
                control.segment_bytes = first.bytes as u16;
                header.msg_control = (&raw mut *control).cast();
                header.msg_controllen = size_of::<Control>();
            } else {
                header.msg_control = ptr::null_mut();
                header.msg_controllen = 0;
            }
            self.counts.push(count);
            rest = &rest[count..];
        }
    }

    /// Sends what was prepared; how many messages the kernel took.
    fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // SAFETY: `prepare`, called just before with a buffer that is still borrowed, made as many
        // headers valid as there are counts. The kernel only reads what they point to.
        let count = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.counts.len() as u32,
                libc::MSG_DONTWAIT as _,
            )
        };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }

    /// How many datagrams the first `messages` messages hold.
    fn datagrams(&self, messages: usize) -> usize {
        self.counts[..messages].iter().sum()
    }
}

/// The run of datagrams at the begin of `datagrams` that one message can carry: equal in size,
/// except that the last may be shorter, and one behind the other in memory. How many, and their
/// bytes.
#[inline]
fn run(datagrams: &[Datagram], segments_max: usize) -> (usize, usize) {
    let first = datagrams[0];
    let size = first.bytes as usize;
    let mut bytes = size;
    let mut count = 1;
    if size == 0 || size > DATAGRAM_BYTES_MAX {
        return (count, bytes);
    }
    let possible = segments_max.min(DATAGRAM_BYTES_MAX / size).min(datagrams.len());
    while count < possible {
        let next = datagrams[count];
        let follows = next.offset as usize == first.offset as usize + bytes;
        let fits = next.bytes > 0 && next.bytes <= first.bytes;
        if !(follows && fits) {
            break;
        }
        bytes += next.bytes as usize;
        count += 1;
        if next.bytes < first.bytes {
            break;
        }
    }
    (count, bytes)
}

fn wait_writable(socket: &UdpSocket) {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // Whatever it says, the send that follows tells.
    // SAFETY: one entry, valid through the call.
    let _ready = unsafe { libc::poll(&mut poll, 1, WRITABLE_WAIT_MS) };
}

/// Segments that the kernel cuts one message into (UDP_MAX_SEGMENTS; newer kernels take 128).
const SEGMENTS_MAX: usize = 64;
/// Messages per call.
const MESSAGES_MAX: usize = 64;
/// How often a batch is tried again before it goes on without the datagrams at its head.
const ATTEMPTS_MAX: u32 = 50;
const WRITABLE_WAIT_MS: i32 = 10;
const REFUSED_PAUSE: std::time::Duration = std::time::Duration::from_micros(100);
const SEND_BUFFER_BYTES: usize = 4 * 1024 * 1024;

const _: () = assert!(size_of::<Control>() == 24);

#[cfg(test)]
mod tests {
    use super::*;

    fn list(sizes: &[u32]) -> Vec<Datagram> {
        let mut offset = 0;
        sizes
            .iter()
            .map(|&bytes| {
                offset += bytes;
                Datagram { offset: offset - bytes, bytes }
            })
            .collect()
    }

    #[test]
    fn equal_neighbours_make_one_run_and_a_shorter_one_ends_it() {
        assert_eq!(run(&list(&[100, 100, 100]), 64), (3, 300));
        assert_eq!(run(&list(&[100, 100, 60, 60]), 64), (3, 260));
        assert_eq!(run(&list(&[100, 101]), 64), (1, 100));
        assert_eq!(run(&list(&[100; 5]), 2), (2, 200));
        assert_eq!(run(&list(&[100, 0]), 64), (1, 100));
        assert_eq!(run(&list(&[0, 0]), 64), (1, 0));
    }

    #[test]
    fn a_run_stays_within_one_datagram() {
        assert_eq!(run(&list(&[30_000; 4]), 64), (2, 60_000));
        assert_eq!(run(&list(&[60_000; 2]), 64), (1, 60_000));
        assert_eq!(run(&list(&[100; 200]), 64), (64, 6_400));
    }

    #[test]
    fn datagrams_apart_in_memory_make_no_run() {
        let apart = [Datagram { offset: 0, bytes: 10 }, Datagram { offset: 16, bytes: 10 }];
        assert_eq!(run(&apart, 64), (1, 10));
        let same = [Datagram { offset: 0, bytes: 10 }; 2];
        assert_eq!(run(&same, 64), (1, 10));
    }
}
