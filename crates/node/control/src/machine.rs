//! Facts about the machine: free space on a disk, the offset of its clock, its name.

use std::ffi::{CStr, CString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Free space on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
    /// The file system's number: folders of one share its space.
    pub(crate) file_system: u64,
}

/// The free space on the disk of a folder, or of the place where it will be made.
pub(crate) fn space(folder: &Path) -> Option<Space> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let path = CString::new(existing.as_os_str().as_bytes()).ok()?;
    // SAFETY: plain integers, for which zero is a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with zero, and the buffer is valid to write to.
    let result = unsafe { libc::statvfs(path.as_ptr(), &raw mut found) };
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    (result == 0).then(|| Space {
        free_bytes: bytes(found.f_bavail),
        total_bytes: bytes(found.f_blocks),
        file_system: found.f_fsid,
    })
}

/// Where the file system of a folder is mounted.
pub(crate) fn mount_point(folder: &Path) -> PathBuf {
    let device = |path: &Path| std::fs::metadata(path).map(|one| one.dev()).ok();
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let of_it = whole.ancestors().take_while(|path| device(path) == device(&whole));
    of_it.last().unwrap_or(&whole).to_owned()
}

/// The maximum number of open files of this process.
pub(crate) fn open_files_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid buffer to write to.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// The offset of the clock, as estimated by the system's time daemon. None if the clock is not
/// synchronised.
pub(crate) fn clock_offset_seconds() -> Option<f64> {
    /// The clock is not synchronised.
    const UNSYNCHRONISED: i32 = 0x40;
    /// Offsets are in nanoseconds.
    const NANOSECONDS: i32 = 0x2000;
    // SAFETY: plain integers, for which zero is a value: mode 0 only reads.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the buffer is valid; mode 0 changes nothing.
    let result = unsafe { libc::adjtimex(&raw mut clock) };
    if result < 0 || clock.status & UNSYNCHRONISED != 0 {
        return None;
    }
    let unit = if clock.status & NANOSECONDS != 0 { 1e-9 } else { 1e-6 };
    Some(clock.offset as f64 * unit)
}

/// The name of the machine.
pub(crate) fn host_name() -> Option<String> {
    let mut bytes = [0_u8; 256];
    // SAFETY: the buffer has the length given.
    let done = unsafe { libc::gethostname(bytes.as_mut_ptr().cast(), bytes.len()) };
    let name = CStr::from_bytes_until_nul(&bytes).ok().filter(|_| done == 0)?;
    name.to_str().ok().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The machine's addresses at which a listener on that unspecified address can be reached:
/// `0.0.0.0` is reached by IPv4 only. Excludes link-local ones, which no name or certificate can
/// contain.
pub(crate) fn addresses(listen: IpAddr) -> Vec<IpAddr> {
    let mut first = std::ptr::null_mut();
    // SAFETY: it writes a list to the pointer, or fails.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: entries are valid until the list is freed, and the last one's `ifa_next` is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: an entry's address is null or one of the kind that its family says.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|address| address.sa_family);
        match family.map(i32::from) {
            Some(libc::AF_INET) => {
                // SAFETY: as above.
                let address =
                    unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
                found.push(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into());
            }
            Some(libc::AF_INET6) if listen.is_ipv6() => {
                // SAFETY: as above.
                let address =
                    unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
                let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
                if !address.is_unicast_link_local() {
                    found.push(address.into());
                }
            }
            _ => {}
        }
    }
    // SAFETY: the list is that of `getifaddrs`, and nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_yet_to_be_made_has_the_room_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let space = space(&folder.path().join("a/b")).unwrap();
        assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes);
    }

    #[test]
    fn a_machine_has_the_addresses_of_the_kind_on_which_it_listens() {
        let four = addresses(Ipv4Addr::UNSPECIFIED.into());
        assert!(four.contains(&Ipv4Addr::LOCALHOST.into()), "{four:?}");
        assert!(four.iter().all(IpAddr::is_ipv4), "{four:?}");
        let both = addresses(Ipv6Addr::UNSPECIFIED.into());
        assert!(four.iter().all(|address| both.contains(address)), "{both:?}");
    }
}
