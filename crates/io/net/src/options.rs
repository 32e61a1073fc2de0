//! Socket options and CPU affinity: thin, safe wrappers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, c_void, socklen_t};

use crate::NetError;

/// Runs the calling thread on that CPU only.
///
/// # Errors
/// A CPU that does not exist or that this process may not use.
pub fn pin_to_cpu(cpu: usize) -> Result<(), NetError> {
    // SAFETY: cpu_set_t is plain bits, for which all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(NetError::Cpu { cpu, source: io::ErrorKind::InvalidInput.into() });
    }
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid for the length given; 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if result == 0 {
        Ok(())
    } else {
        Err(NetError::Cpu { cpu, source: io::Error::last_os_error() })
    }
}

/// The CPUs that this process may run on.
pub fn cpus() -> Vec<usize> {
    // SAFETY: a CPU set is plain bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the size is that of the set that the pointer is valid for.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if result != 0 {
        return vec![0];
    }
    // SAFETY: the indices are below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Checks that this process may run on a CPU.
///
/// # Errors
/// The CPUs that it may run on, in words.
pub fn check_cpu(cpu: usize) -> Result<(), String> {
    let cpus = cpus();
    if cpus.contains(&cpu) {
        return Ok(());
    }
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    Err(format!("a CPU of this machine ({})", cpus.join(", ")))
}

/// Raises this process's limit of open files, which is 1,024 on many systems, as far as it may: a
/// thousand sources are a thousand sockets. Returns the limit that holds now.
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid place to write to.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return 0;
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: a valid limit, not above the hard one.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0 {
        limit.rlim_max
    } else {
        before
    }
}

pub(crate) fn set(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let bytes = size_of::<c_int>() as socklen_t;
    // SAFETY: the value is a c_int that lives through the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast::<c_void>(), bytes)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of 32-bit values; how many were written.
fn get(fd: BorrowedFd<'_>, name: c_int, values: &mut [u32]) -> io::Result<usize> {
    let mut bytes = size_of_val(values) as socklen_t;
    // SAFETY: the pointer and the length describe `values`; any bits are a u32.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            values.as_mut_ptr().cast::<c_void>(),
            &mut bytes,
        )
    };
    if result == 0 {
        Ok(bytes as usize / size_of::<u32>())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A buffer that a socket can be asked for.
#[derive(Clone, Copy)]
pub(crate) enum Buffer {
    Receive,
    Send,
}

/// Asks for a buffer, first beyond the system's limit (that takes CAP_NET_ADMIN), then within it.
/// Returns what was granted: the kernel counts, and reports, twice that, for its own overhead.
pub(crate) fn ask_buffer(socket: &impl AsFd, buffer: Buffer, bytes: usize) -> io::Result<usize> {
    let (force, plain) = match buffer {
        Buffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        Buffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    };
    // The kernel doubles the number in 32 bits.
    let wanted = bytes.min(c_int::MAX as usize / 2) as c_int;
    set(socket.as_fd(), libc::SOL_SOCKET, force, wanted)
        .or_else(|_| set(socket.as_fd(), libc::SOL_SOCKET, plain, wanted))?;
    let mut granted = [0_u32];
    get(socket.as_fd(), plain, &mut granted)?;
    Ok(granted[0] as usize / 2)
}

/// The share of the socket's receive buffer that is taken, as the kernel counts it: with its own
/// overhead for each datagram.
pub(crate) fn fill(fd: BorrowedFd<'_>) -> io::Result<f64> {
    let [taken, allowed, ..] = meminfo(fd, 2)?;
    if allowed == 0 {
        return Err(io::ErrorKind::Other.into());
    }
    // The datagram that does not fit any more is the last one to be taken.
    Ok((f64::from(taken) / f64::from(allowed)).min(1.0))
}

/// The bytes of the socket's receive buffer that are taken, counted likewise.
pub(crate) fn taken(fd: BorrowedFd<'_>) -> io::Result<u32> {
    meminfo(fd, 1).map(|[taken, ..]| taken)
}

/// The datagrams that the kernel dropped at this socket since it was made, modulo 2^32.
pub(crate) fn drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    meminfo(fd, MEMINFO_VALUES).map(|values| values[MEMINFO_DROPS])
}

/// What the kernel says of a socket's memory: so many values at least, of which older ones have
/// fewer.
fn meminfo(fd: BorrowedFd<'_>, needed: usize) -> io::Result<[u32; MEMINFO_VALUES]> {
    let mut values = [0; MEMINFO_VALUES];
    let count = get(fd, SO_MEMINFO, &mut values)?;
    if count < needed { Err(io::ErrorKind::Other.into()) } else { Ok(values) }
}

// linux/sock_diag.h and asm-generic/socket.h; the libc crate has no names for them.
const SO_MEMINFO: c_int = 55;
const MEMINFO_DROPS: usize = 8;
const MEMINFO_VALUES: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_cpu_and_its_threads_can_be_pinned_to_it() {
        let cpu = cpus()[0];
        std::thread::spawn(move || {
            pin_to_cpu(cpu).unwrap();
            assert_eq!(cpus(), [cpu]);
        })
        .join()
        .unwrap();
    }
}
