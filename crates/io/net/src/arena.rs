//! The memory that recvmmsg writes into, and all its headers, made once.
//!
//! The arena is small so that it stays in the second-level cache: on the development machine,
//! cycling through 256 MiB of receive buffers lost 45 % of what a 2 MiB arena took without loss.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use catchment_model::limits::DATAGRAM_BYTES_MAX;

/// Bytes of one message: more than any datagram, or any run of datagrams that the kernel merged.
pub(crate) const MESSAGE_BYTES: usize = 64 * 1024;
/// Buffers that are powers of two apart share their cache sets; this keeps their beginnings apart
/// (17 lines of 64 bytes).
const STAGGER_BYTES: usize = 1_088;
const ALIGN_BYTES: usize = 2 * 1024 * 1024;
/// Two control messages (GRO's size, drops), each a 16-byte header and an int, padded to 8.
const CONTROL_BYTES: usize = 64;

/// One control buffer, aligned as its headers must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What came with one message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Message {
    pub bytes: usize,
    /// The length of the datagrams that were merged into it; 0 if it is a single one.
    pub segment_bytes: usize,
    /// The socket's count of drops, if the kernel said one.
    pub drops: Option<u32>,
    /// Who sent it, if that was asked for.
    pub sender: Option<SocketAddr>,
}

/// Buffers for `messages.len()` messages.
pub(crate) struct Arena {
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
    pub fn new(count: usize) -> Self {
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
    pub fn capacity(&self) -> usize {
        self.messages.len()
    }

    /// Takes what the socket has, without waiting: how many messages. Senders are asked for only
    /// where somebody wants to know them: the kernel then copies an address for each message.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, senders: bool) -> io::Result<usize> {
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
    pub fn take(&mut self, index: usize) -> Message {
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
    pub fn bytes(&self, index: usize, bytes: usize) -> &[u8] {
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

/// Bytes of the longest name: an address of IP version 6.
const NAME_BYTES: u32 = size_of::<libc::sockaddr_in6>() as u32;

const _: () = assert!(DATAGRAM_BYTES_MAX <= MESSAGE_BYTES);
