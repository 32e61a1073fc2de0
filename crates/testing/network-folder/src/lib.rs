//! A FUSE file system for tests that delays, stalls or fails writes, syncs and closes on request,
//! as a network file system does. It passes everything else on to a folder behind it.
//!
//! What it stands in for: writes, syncs and closes that hang while the server is away, an error
//! that comes with a sync, a quota that is used up in the middle of a write, writes that are
//! shorter than asked for, and no direct writes and no preallocation. What it does not have: a
//! client that writes later what it has taken (errors come with the write itself), locks and names
//! that other machines see, a mount that is gone.
//!
//! - Whatever stands still is let go when its [`Stalled`] is dropped, also by a test that fails.
//!   Keep it in a variable declared after the process that uses the folder: nothing ends a process
//!   that waits for a file system.
//! - Requests that stand still occupy no thread of the file system: all others go on.

mod passed_on;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuser::{BackgroundSession, Config, Errno, MountOption, Session, SessionACL};
use tempfile::TempDir;

use crate::passed_on::PassedOn;

/// What a test may delay, stall or fail. Closes are those of files that were open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Of a part of a file: at most 1 MiB.
    Write,
    /// Of a file or a folder.
    Sync,
    /// By whoever has the file open.
    Close,
}

/// What the file system cannot do from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// A write past the page cache, as it comes.
    pub direct: bool,
    /// Blocks ahead of writes.
    pub blocks: bool,
}

/// Such a folder, unmounted at the end.
#[derive(Debug)]
pub struct NetworkFolder {
    shared: Arc<Shared>,
    // Before the folders.
    session: Option<BackgroundSession>,
    mount: TempDir,
    _behind: TempDir,
}

impl NetworkFolder {
    /// None, with the reason printed, where that cannot be mounted.
    ///
    /// # Panics
    /// It cannot be mounted, and the environment has `CATCHMENT_NEEDS_FUSE`.
    pub fn mount(refused: Refused) -> Option<Self> {
        // SAFETY: it takes nothing, and does not fail.
        if unsafe { libc::geteuid() } != 0 {
            // Another user may mount it by way of fusermount3, but cannot unmount it as this does.
            let is_needed = std::env::var_os("CATCHMENT_NEEDS_FUSE").is_some();
            assert!(!is_needed, "CATCHMENT_NEEDS_FUSE is set, and this is not root");
            println!("not run: FUSE: this is not root");
            return None;
        }
        let [mount, behind] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
        let shared = Arc::<Shared>::default();
        let session = PassedOn::begin(behind.path(), Arc::clone(&shared), refused)
            .and_then(|passed_on| {
                let mut config = Config::default();
                let name = MountOption::FSName("catchment-test".into());
                config.mount_options = vec![name, MountOption::DefaultPermissions];
                config.acl = SessionACL::All;
                // A sync of the folder behind keeps none of the others.
                config.n_threads = Some(4);
                Session::new(passed_on, mount.path(), &config)
            })
            .and_then(Session::spawn);
        let session = session.inspect_err(|error| {
            let is_needed = std::env::var_os("CATCHMENT_NEEDS_FUSE").is_some();
            assert!(!is_needed, "CATCHMENT_NEEDS_FUSE is set, and FUSE fails: {error}");
            println!("not run: FUSE: {error}");
        });
        let session = session.ok()?;
        Some(Self { shared, session: Some(session), mount, _behind: behind })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// Has an operation stand still from now on, until the result is dropped.
    #[must_use]
    pub fn stall(&self, operation: Operation) -> Stalled {
        self.shared.faults()[operation].is_stalled = true;
        Stalled { shared: Arc::clone(&self.shared), operation }
    }

    /// How many of them stand still now.
    pub fn waiting(&self, operation: Operation) -> usize {
        self.shared.faults()[operation].waiting.len()
    }

    /// Has an operation take that much longer.
    pub fn delay(&self, operation: Operation, by: Duration) {
        self.shared.faults()[operation].delay = by;
    }

    /// Has an operation fail with that error of the system, or succeed again.
    pub fn fail(&self, operation: Operation, error: Option<i32>) {
        self.shared.faults()[operation].error = error;
    }

    /// As a quota that `statfs` does not tell of: so many bytes are taken yet, the last of them by
    /// a write that is cut short, then none (`ENOSPC`). None: as many as there is room for.
    pub fn limit(&self, bytes: Option<u64>) {
        self.shared.faults().room_bytes = bytes;
    }

    /// Has each write take half of what it is given, in whole blocks, if that is more than one.
    pub fn halve_writes(&self, halves: bool) {
        self.shared.faults().halves_writes = halves;
    }
}

impl Drop for NetworkFolder {
    fn drop(&mut self) {
        self.shared.let_all_go();
        let path = CString::new(self.path().as_os_str().as_bytes()).expect("a path without zeros");
        // Also while a file of it is open. The file system ends when none is any more.
        // SAFETY: the path is a string that ends with a zero.
        let unmounted = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        let error = io::Error::last_os_error();
        drop(self.session.take());
        assert!(unmounted == 0 || std::thread::panicking(), "unmounted: {error}");
    }
}

/// An operation that stands still until this is dropped.
#[derive(Debug)]
pub struct Stalled {
    shared: Arc<Shared>,
    operation: Operation,
}

impl Drop for Stalled {
    fn drop(&mut self) {
        let waiting = {
            let mut faults = self.shared.faults();
            faults[self.operation].is_stalled = false;
            std::mem::take(&mut faults[self.operation].waiting)
        };
        waiting.into_iter().for_each(|job| job());
    }
}

/// The rest of an operation.
type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Fault {
    is_stalled: bool,
    delay: Duration,
    error: Option<i32>,
    waiting: Vec<Job>,
}

/// What a test wants, by [`Operation`].
#[derive(Default)]
struct Faults {
    of: [Fault; 3],
    room_bytes: Option<u64>,
    halves_writes: bool,
    /// The test is over.
    is_over: bool,
}

impl std::ops::Index<Operation> for Faults {
    type Output = Fault;

    fn index(&self, operation: Operation) -> &Fault {
        &self.of[operation as usize]
    }
}

impl std::ops::IndexMut<Operation> for Faults {
    fn index_mut(&mut self, operation: Operation) -> &mut Fault {
        &mut self.of[operation as usize]
    }
}

#[derive(Default)]
struct Shared(Mutex<Faults>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_all_go(&self) {
        let waiting: Vec<Job> = {
            let mut faults = self.faults();
            faults.is_over = true;
            faults.of.iter_mut().flat_map(|fault| std::mem::take(&mut fault.waiting)).collect()
        };
        waiting.into_iter().for_each(|job| job());
    }

    /// Does something now, later, or when the test lets go of it, unless it is to fail then.
    fn act(
        self: &Arc<Self>,
        operation: Operation,
        action: impl FnOnce(Result<&Shared, Errno>) + Send + 'static,
    ) {
        let shared = Arc::clone(self);
        let job = move || {
            let error = shared.faults()[operation].error;
            action(error.map_or(Ok(&*shared), |error| Err(Errno::from_i32(error))));
        };
        let mut faults = self.faults();
        let (fault, is_over) = (&faults[operation], faults.is_over);
        match fault.delay {
            _ if is_over => {}
            _ if fault.is_stalled => return faults[operation].waiting.push(Box::new(job)),
            Duration::ZERO => {}
            delay => {
                std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    job();
                });
                return;
            }
        }
        drop(faults);
        job();
    }

    /// How many of so many bytes are written.
    fn take_room(&self, bytes: usize) -> Result<usize, Errno> {
        const BLOCK_BYTES: usize = 4_096;
        let mut faults = self.faults();
        let blocks = bytes / BLOCK_BYTES;
        let halves = faults.halves_writes && blocks > 1;
        let bytes = if halves { blocks / 2 * BLOCK_BYTES } else { bytes };
        let Some(room_bytes) = &mut faults.room_bytes else { return Ok(bytes) };
        let taken = bytes.min(usize::try_from(*room_bytes).unwrap_or(bytes));
        *room_bytes -= taken as u64;
        if taken == 0 && bytes > 0 { Err(Errno::ENOSPC) } else { Ok(taken) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    #[test]
    fn what_is_done_in_the_folder_is_done_in_the_one_behind() {
        let Some(folder) = NetworkFolder::mount(Refused::default()) else { return };
        let [a, b] = ["a", "b"].map(|name| folder.path().join("deep").join(name));
        std::fs::create_dir(folder.path().join("deep")).expect("a folder");
        std::fs::write(&a, "content").expect("writes");
        std::fs::rename(&a, &b).expect("renames");
        let open = File::options().append(true).open(&b).expect("opens");
        (&open).write_all(b", and more").expect("appends");
        open.sync_all().expect("syncs");
        File::open(folder.path()).and_then(|folder| folder.sync_all()).expect("syncs");
        assert_eq!(std::fs::read_to_string(&b).expect("reads"), "content, and more");
        let names = std::fs::read_dir(b.parent().expect("a folder")).expect("lists");
        let names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!(names, ["b"]);
        std::fs::remove_file(&b).expect("removes");
        assert_eq!(open.metadata().expect("of an open file").nlink(), 0);
        open.set_len(4).expect("cuts");
        assert_eq!(open.metadata().expect("of an open file").len(), 4);
        std::fs::remove_dir_all(folder.path().join("deep")).expect("removes all");
    }

    #[test]
    fn operations_stand_still_and_fail_as_long_as_they_are_told_to() {
        let Some(folder) = NetworkFolder::mount(Refused::default()) else { return };
        let path = folder.path().join("a");
        let mut file = File::create(&path).expect("makes");
        let stalled = folder.stall(Operation::Write);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| file.write_all(b"late"));
            while folder.waiting(Operation::Write) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            // Others go on.
            std::fs::create_dir(folder.path().join("b")).expect("makes");
            assert_eq!(std::fs::metadata(&path).expect("of the file").len(), 0);
            drop(stalled);
            writing.join().expect("no panic").expect("writes");
        });
        folder.fail(Operation::Sync, Some(libc::EIO));
        assert_eq!(file.sync_data().expect_err("fails").raw_os_error(), Some(libc::EIO));
        folder.fail(Operation::Sync, None);
        file.sync_data().expect("syncs");
        folder.limit(Some(6));
        assert_eq!(file.write(b"0123456789").expect("in part"), 6);
        let full = file.write(b"6789").expect_err("nothing more");
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        folder.limit(None);
        folder.halve_writes(true);
        let part = file.write(&[1; 16_384]).expect("in part");
        assert!((1..16_384).contains(&part), "{part}");
        assert_eq!(std::fs::read(&path).expect("reads").len(), 4 + 6 + part);
    }

    #[test]
    fn what_is_refused_fails_from_the_beginning() {
        let refused = Refused { direct: true, blocks: true };
        let Some(folder) = NetworkFolder::mount(refused) else { return };
        let path = folder.path().join("a");
        let file = File::create(&path).expect("makes");
        // SAFETY: it takes no pointers.
        let allocated = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, 4_096) };
        assert_eq!(allocated, -1);
        let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path);
        assert_eq!(direct.expect_err("refused").raw_os_error(), Some(libc::EINVAL));
    }
}
