//! The file system: what is asked of it is done in the folder behind, or as the test wants it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, DirEntryExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _,
    OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use crate::{Operation, Refused, Shared};

/// What a folder looks like that is passed on.
pub(crate) struct PassedOn {
    shared: Arc<Shared>,
    refused: Refused,
    /// What the kernel knows, by inode of the folder behind: how often it was told of it.
    known: Mutex<HashMap<u64, (Arc<File>, u64)>>,
    files: Mutex<HashMap<u64, OpenFile>>,
    folders: Mutex<HashMap<u64, Vec<Entry>>>,
    next: AtomicU64,
}

#[derive(Clone)]
struct OpenFile {
    handle: Arc<File>,
    is_written: bool,
}

/// What a folder lists: inode, kind and name.
type Entry = (u64, FileType, OsString);

/// A file or folder, by a path that stays valid when it is renamed or removed.
struct Found {
    path: PathBuf,
    _handle: Arc<File>,
}

impl PassedOn {
    pub(crate) fn begin(behind: &Path, shared: Arc<Shared>, refused: Refused) -> io::Result<Self> {
        let root = (Arc::new(named(behind)?), 1);
        Ok(Self {
            shared,
            refused,
            known: Mutex::new(HashMap::from([(INodeNo::ROOT.0, root)])),
            files: Mutex::default(),
            folders: Mutex::default(),
            next: AtomicU64::new(1),
        })
    }

    fn handle(&self, inode: INodeNo) -> io::Result<Arc<File>> {
        let known = locked(&self.known);
        let found = known.get(&inode.0).map(|(handle, _)| Arc::clone(handle));
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    fn find(&self, inode: INodeNo) -> io::Result<Found> {
        let handle = self.handle(inode)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        Ok(Found { path, _handle: handle })
    }

    fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        Ok(attributes(inode, &self.handle(inode)?.metadata()?))
    }

    /// What has a name in a folder; the kernel knows it from now on.
    fn entry(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let handle = named(&self.find(parent)?.path.join(name))?;
        let metadata = handle.metadata()?;
        let inode = metadata.ino();
        locked(&self.known).entry(inode).or_insert_with(|| (Arc::new(handle), 0)).1 += 1;
        Ok(attributes(INodeNo(inode), &metadata))
    }

    fn open_file(&self, handle: File, is_written: bool) -> FileHandle {
        let number = self.next.fetch_add(1, Relaxed);
        locked(&self.files).insert(number, OpenFile { handle: Arc::new(handle), is_written });
        FileHandle(number)
    }

    fn file(&self, number: FileHandle) -> Result<OpenFile, Errno> {
        locked(&self.files).get(&number.0).cloned().ok_or(Errno::EBADF)
    }

    fn resize(&self, inode: INodeNo, file: Option<FileHandle>, bytes: u64) -> io::Result<()> {
        match file.and_then(|number| self.file(number).ok()).filter(|file| file.is_written) {
            Some(file) => file.handle.set_len(bytes),
            None => OpenOptions::new().write(true).open(self.find(inode)?.path)?.set_len(bytes),
        }
    }

    /// Opens a folder, to sync or to list it.
    fn folder(&self, inode: INodeNo) -> io::Result<File> {
        File::open(self.find(inode)?.path)
    }

    fn list(&self, inode: INodeNo) -> io::Result<Vec<Entry>> {
        let entries = std::fs::read_dir(self.find(inode)?.path)?;
        let entry = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.ino(), kind(entry.file_type()?), entry.file_name()))
        };
        entries.map(entry).collect()
    }
}

impl Filesystem for PassedOn {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without FUSE_ASYNC_DIO, with which the kernel makes an EIO of a write that is cut short.
        // What stands still must not use up what others need.
        let _fewer = config.set_max_background(512);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.entry(parent, name));
    }

    fn forget(&self, _request: &Request, inode: INodeNo, times: u64) {
        let mut known = locked(&self.known);
        let Some((_, count)) = known.get_mut(&inode.0) else { return };
        *count = count.saturating_sub(times);
        if *count == 0 && inode != INodeNo::ROOT {
            known.remove(&inode.0);
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _file: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        answer_attributes(reply, self.attributes(inode));
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        // Times stay those of the folder behind.
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        file: Option<FileHandle>,
        _created: Option<SystemTime>,
        _renamed: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || {
            let path = self.find(inode)?.path;
            if let Some(mode) = mode {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
            }
            if user.is_some() || group.is_some() {
                std::os::unix::fs::chown(&path, user, group)?;
            }
            size.map_or(Ok(()), |bytes| self.resize(inode, file, bytes))?;
            self.attributes(inode)
        };
        answer_attributes(reply, set());
    }

    fn mkdir(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(mode & !umask);
        let made = self.find(parent).and_then(|found| builder.create(found.path.join(name)));
        answer_entry(reply, made.and_then(|()| self.entry(parent, name)));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let found = self.find(parent);
        answer(reply, found.and_then(|found| std::fs::remove_file(found.path.join(name))));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let found = self.find(parent);
        answer(reply, found.and_then(|found| std::fs::remove_dir(found.path.join(name))));
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let rename = || {
            let (from, to) = (self.find(parent)?, self.find(new_parent)?);
            std::fs::rename(from.path.join(name), to.path.join(new_name))
        };
        answer(reply, rename());
    }

    fn create(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let create = || {
            let path = self.find(parent)?.path.join(name);
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(mode & !umask);
            options.create_new(flags & libc::O_EXCL != 0).truncate(flags & libc::O_TRUNC != 0);
            let file = options.open(path)?;
            Ok((self.entry(parent, name)?, self.open_file(file, true)))
        };
        match create() {
            Ok((attributes, file)) => {
                let flags = FopenFlags::empty();
                reply.created(&NOT_CACHED, &attributes, Generation(0), file, flags);
            }
            Err(error) => reply.error(as_errno(&error)),
        }
    }

    fn open(&self, _request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.refused.direct && flags.0 & libc::O_DIRECT != 0 {
            return reply.error(Errno::EINVAL);
        }
        let is_written = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let open = |found: Found| {
            let mut options = OpenOptions::new();
            options.read(true).write(is_written).custom_flags(flags.0 & libc::O_TRUNC);
            options.open(found.path)
        };
        match self.find(inode).and_then(open) {
            Ok(file) => reply.opened(self.open_file(file, is_written), FopenFlags::empty()),
            Err(error) => reply.error(as_errno(&error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = |file: OpenFile| {
            let mut bytes = vec![0; size as usize];
            let mut filled = 0;
            while filled < bytes.len() {
                match file.handle.read_at(&mut bytes[filled..], offset + filled as u64) {
                    Ok(0) => break,
                    Ok(more) => filled += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(as_errno(&error)),
                }
            }
            bytes.truncate(filled);
            Ok(bytes)
        };
        match self.file(file).and_then(read) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = match self.file(file) {
            _ if self.refused.direct && flags.0 & libc::O_DIRECT != 0 => Err(Errno::EINVAL),
            file => file,
        };
        let file = match file {
            Ok(file) => file.handle,
            Err(errno) => return reply.error(errno),
        };
        let data = data.to_vec();
        self.shared.act(Operation::Write, move |shared| {
            let write = |shared: &Shared| {
                let bytes = shared.take_room(data.len())?;
                let written = file.write_all_at(&data[..bytes], offset);
                written.map(|()| bytes as u32).map_err(|error| as_errno(&error))
            };
            match shared.and_then(write) {
                Ok(bytes) => reply.written(bytes),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        match self.file(file) {
            Ok(file) if file.is_written => {
                self.shared.act(Operation::Close, move |shared| match shared {
                    Ok(_) => reply.ok(),
                    Err(errno) => reply.error(errno),
                })
            }
            Ok(_) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        locked(&self.files).remove(&file.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        is_of_data: bool,
        reply: ReplyEmpty,
    ) {
        match self.file(file) {
            Ok(file) => sync(&self.shared, file.handle, is_of_data, reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _folder: FileHandle,
        is_of_data: bool,
        reply: ReplyEmpty,
    ) {
        match self.folder(inode) {
            Ok(folder) => sync(&self.shared, Arc::new(folder), is_of_data, reply),
            Err(error) => reply.error(as_errno(&error)),
        }
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.list(inode) {
            Ok(entries) => {
                let number = self.next.fetch_add(1, Relaxed);
                locked(&self.folders).insert(number, entries);
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(as_errno(&error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        folder: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let folders = locked(&self.folders);
        let Some(entries) = folders.get(&folder.0) else { return reply.error(Errno::EBADF) };
        for (place, (inode, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(INodeNo(*inode), place, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        folder: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        locked(&self.folders).remove(&folder.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, inode: INodeNo, reply: ReplyStatfs) {
        match self.handle(inode).and_then(|handle| statistics(&handle)) {
            Ok(of) => reply.statfs(
                of.f_blocks,
                of.f_bfree,
                of.f_bavail,
                of.f_files,
                of.f_ffree,
                of.f_bsize as u32,
                of.f_namemax as u32,
                of.f_frsize as u32,
            ),
            Err(error) => reply.error(as_errno(&error)),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if self.refused.blocks {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match self.file(file) {
            Ok(file) => answer(reply, allocate(&file.handle, mode, offset, bytes)),
            Err(errno) => reply.error(errno),
        }
    }
}

fn sync(shared: &Arc<Shared>, file: Arc<File>, is_of_data: bool, reply: ReplyEmpty) {
    shared.act(Operation::Sync, move |shared| match shared {
        Ok(_) => answer(reply, if is_of_data { file.sync_data() } else { file.sync_all() }),
        Err(errno) => reply.error(errno),
    });
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or folder by its name, without opening it.
fn named(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)
}

fn statistics(file: &File) -> io::Result<libc::statvfs> {
    let mut found = std::mem::MaybeUninit::uninit();
    // SAFETY: the descriptor is open, and the place is valid to write to.
    match unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) } {
        // SAFETY: it was filled in.
        0 => Ok(unsafe { found.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn allocate(file: &File, mode: i32, offset: u64, bytes: u64) -> io::Result<()> {
    let [offset, bytes] = [offset, bytes].map(libc::off_t::try_from);
    let (offset, bytes) = (offset.map_err(io::Error::other)?, bytes.map_err(io::Error::other)?);
    // SAFETY: it takes no pointers.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn kind(of: std::fs::FileType) -> FileType {
    match of {
        _ if of.is_dir() => FileType::Directory,
        _ if of.is_symlink() => FileType::Symlink,
        _ if of.is_fifo() => FileType::NamedPipe,
        _ if of.is_socket() => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

fn attributes(inode: INodeNo, of: &Metadata) -> FileAttr {
    let begin = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: inode,
        size: of.size(),
        blocks: of.blocks(),
        atime: of.accessed().unwrap_or(begin),
        mtime: of.modified().unwrap_or(begin),
        ctime: of.modified().unwrap_or(begin),
        crtime: begin,
        kind: kind(of.file_type()),
        perm: (of.mode() & 0o7777) as u16,
        nlink: of.nlink() as u32,
        uid: of.uid(),
        gid: of.gid(),
        rdev: of.rdev() as u32,
        blksize: of.blksize() as u32,
        flags: 0,
    }
}

fn as_errno(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

fn answer(reply: ReplyEmpty, result: io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(as_errno(&error)),
    }
}

fn answer_entry(reply: ReplyEntry, result: io::Result<FileAttr>) {
    match result {
        Ok(attributes) => reply.entry(&NOT_CACHED, &attributes, Generation(0)),
        Err(error) => reply.error(as_errno(&error)),
    }
}

fn answer_attributes(reply: ReplyAttr, result: io::Result<FileAttr>) {
    match result {
        Ok(attributes) => reply.attr(&NOT_CACHED, &attributes),
        Err(error) => reply.error(as_errno(&error)),
    }
}

/// The kernel asks each time.
const NOT_CACHED: Duration = Duration::ZERO;
