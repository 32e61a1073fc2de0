//! What makes a folder a spilled stream: `STREAM.lock` says whose frames are in it, and is locked
//! by the program that writes or forwards them. A folder without it is somebody else's.
//!
//! ```text
//! catchment spill 1
//! node 127.0.0.1:7100         where the frames belong, and nowhere else; several, as in the
//!                             configuration; or
//! folder /data/runs           of a folder, its absolute path
//! name run-20261128-0a1b2c3d  the stream's name there
//! run 0a1b2c3d...             the run's identity
//! stream 0
//! variant 0
//! begins 0                    the number of the stream's first frame
//! pid 4711                    added by each program that takes the folder
//! below 58                    added when the program leaves it: what was spilled below that
//!                             number is durable at nodes
//! lost 60-62                  added when the program leaves it: frames from the first number on,
//!                             below the second, that cannot be read, and are counted
//! file 3 63-90 12             the file with index 3 has 12 frames with numbers from 63 on, below
//!                             90: added at its syncs as long as there is room, and when it is
//!                             closed; the last line of a file counts
//! doubt 50                    added when the folder has failed to make what it has durable: it
//!                             may show frames from that number on, and lack them after a power cut
//! moved 4-210 0-0             added with `end`: of each source, spilled fragments that no frame
//!                             counts as such, and those that none counts as forwarded once all are
//! end 1234                    added when the run has ended: the number behind its last frame
//! forwarded                   added when the node has all that could be sent
//! ```
//!
//! A file whose line is there is gone because its frames are durable at nodes, if `below` says so,
//! or because somebody has removed it.
//!
//! A line counts once its end is there. The file gets its name when its first lines are durable and
//! it is locked, so that no other program takes it before.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use catchment_disk::open_regular;
use catchment_model::RunId;

/// The file's name.
pub(crate) const LOCK_NAME: &str = "STREAM.lock";
const NEW_NAME: &str = "STREAM.new";
const NODE: &str = "node";
const FOLDER: &str = "folder";
const FIRST_LINE: &str = "catchment spill 1";
/// The most bytes of the file that are read: a few lines for each program that took the folder.
const BYTES_MAX: u64 = 1 << 20;
/// Files are listed while the file is shorter than that: the rest is for lines that must be there.
const LISTED_BYTES_MAX: u64 = BYTES_MAX / 2;
/// Files that are being written are listed while it is shorter than that: the rest is for those
/// that are closed.
const OPEN_LISTED_BYTES_MAX: u64 = LISTED_BYTES_MAX / 2;
/// The most ranges of lost frames that a program writes.
const LOST_MAX: usize = 1_000;

/// Whose frames a folder has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The storage node's address, or the absolute path of the folder.
    pub(crate) node: String,
    /// The stream's name there.
    pub(crate) name: String,
    pub(crate) run: RunId,
    pub(crate) stream: u32,
    pub(crate) variant: u32,
    /// The number of its first frame, whether it was spilled or not.
    pub(crate) begins: u64,
}

impl Identity {
    /// Whether several nodes share the frames.
    pub(crate) fn is_dealt(&self) -> bool {
        self.node.contains(',') && !self.is_folder()
    }

    /// Whether they are for a folder.
    pub(crate) fn is_folder(&self) -> bool {
        Path::new(&self.node).is_absolute()
    }
}

/// What a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedFile {
    /// Its frames have some of these numbers.
    pub(crate) numbers: Range<u64>,
    /// How many frames it has, or how many of them are not durable at nodes.
    pub(crate) frames: u64,
}

/// How many frames are lost in files that were removed, by the indexes of these.
pub(crate) type LostFrames = BTreeMap<u32, u64>;

/// The file, locked.
#[derive(Debug)]
pub(crate) struct StreamLock {
    pub(crate) identity: Identity,
    /// The number behind the last frame of a run that has ended.
    pub(crate) end: Option<u64>,
    /// Of each source, what its frame behind that one counts as spilled, and as forwarded once all
    /// is; empty: there is none.
    pub(crate) moved: Vec<[u64; 2]>,
    /// What was spilled below that number is durable at nodes; none if no program wrote it.
    pub(crate) below: Option<u64>,
    /// From which number on what the folder has may not be durable there, if any.
    pub(crate) doubt: Option<u64>,
    /// Whether the node has all that could be sent.
    pub(crate) is_forwarded: bool,
    /// Whether this program has made it.
    is_new: bool,
    /// Frames that cannot be read, and are counted.
    lost: Vec<Range<u64>>,
    /// How many of these are not in the file.
    unwritten_lost: usize,
    /// The files that are listed, by their indexes.
    files: BTreeMap<u32, ListedFile>,
    file: File,
    /// Its bytes, up to the end of its last whole line.
    bytes: u64,
    path: PathBuf,
    /// Of the program that took it last.
    pid: Option<u32>,
    /// Where a line begins that has no end.
    torn_at: Option<u64>,
    /// Whether what this program has written is durable.
    is_synced: bool,
}

/// What a folder is.
#[derive(Debug)]
pub(crate) enum Found {
    /// A stream, which is taken now.
    Stream(Box<StreamLock>),
    /// A stream that another program, or another part of this one, has taken.
    Taken,
    /// Not a spilled stream, or none that can be used; why.
    Foreign(String),
}

impl StreamLock {
    /// Makes a folder a stream.
    ///
    /// # Errors
    /// It is one already, or the system refuses.
    pub(crate) fn create(folder: &Path, identity: Identity) -> io::Result<Self> {
        let (new, path) = (folder.join(NEW_NAME), folder.join(LOCK_NAME));
        if path.symlink_metadata().is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it has another stream"));
        }
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).truncate(false).open(&new)?;
        lock(&file)?;
        file.set_len(0)?;
        let Identity { node, name, run, stream, variant, begins } = &identity;
        let place = if identity.is_folder() { FOLDER } else { NODE };
        let pid = std::process::id();
        let text = format!(
            "{FIRST_LINE}\n{place} {node}\nname {name}\nrun {run}\nstream {stream}\n\
             variant {variant}\nbegins {begins}\npid {pid}\n"
        );
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        File::open(folder)?.sync_all()?;
        Ok(Self {
            identity,
            end: None,
            moved: Vec::new(),
            below: None,
            doubt: None,
            is_forwarded: false,
            is_new: true,
            lost: Vec::new(),
            unwritten_lost: 0,
            files: BTreeMap::new(),
            file,
            bytes: text.len() as u64,
            path,
            pid: Some(pid),
            torn_at: None,
            is_synced: true,
        })
    }

    /// Takes a folder, if it is a stream.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn find(folder: &Path) -> io::Result<Found> {
        let path = folder.join(LOCK_NAME);
        let mut file = match open_regular(&path, OpenOptions::new().read(true).append(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Found::Foreign(format!("it has no {LOCK_NAME}")));
            }
            Err(error) => return Err(error),
        };
        if lock(&file).is_err() {
            return Ok(Found::Taken);
        }
        let mut text = Vec::new();
        (&mut file).take(BYTES_MAX).read_to_end(&mut text)?;
        let parsed = match parse(&text) {
            Ok(parsed) => parsed,
            Err(problem) => return Ok(Found::Foreign(format!("its {LOCK_NAME} {problem}"))),
        };
        let Parsed { identity, end, moved, below, doubt, lost, files, is_forwarded, pid } = parsed;
        let bytes = whole_lines(&text).len();
        let torn_at = (bytes < text.len()).then_some(bytes as u64);
        Ok(Found::Stream(Box::new(Self {
            identity,
            end,
            moved,
            below,
            doubt,
            is_forwarded,
            is_new: false,
            lost,
            unwritten_lost: 0,
            files,
            file,
            bytes: bytes as u64,
            path,
            pid,
            torn_at,
            is_synced: true,
        })))
    }

    /// Says that this program has it, unless it said so last.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn set_taken(&mut self) -> io::Result<()> {
        let pid = std::process::id();
        if self.pid != Some(pid) {
            self.write(&format!("pid {pid}\n"))?;
            self.pid = Some(pid);
        }
        Ok(())
    }

    /// The run has ended, and no frame that was made has that number or a higher one. `moved`: as
    /// the field.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn set_end(&mut self, end: u64, moved: Vec<[u64; 2]>) -> io::Result<()> {
        let of_each = moved.iter().map(|[spilled, forwarded]| format!(" {spilled}-{forwarded}"));
        let line = match moved.is_empty() {
            true => String::new(),
            false => format!("moved{}\n", of_each.collect::<String>()),
        };
        self.write(&format!("{line}end {end}\n"))?;
        (self.end, self.moved) = (Some(end), moved);
        Ok(())
    }

    /// From that number on what the folder has may not be durable there, unless it said so before.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn set_doubt(&mut self, from: u64) -> io::Result<()> {
        if self.doubt.is_none() {
            self.write(&format!("doubt {from}\n"))?;
            self.doubt = Some(from);
        }
        Ok(())
    }

    /// The program leaves the folder: what was spilled below that number is durable at nodes. Of
    /// what is left, `first` is the number of the first frame.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn leave(&mut self, below: u64, first: Option<u64>) -> io::Result<()> {
        // Below its files, a forwarder does not know what the node had.
        if self.is_new || self.below.is_some() || first.is_some_and(|first| below >= first) {
            self.set_below(below.max(self.identity.begins))?;
        }
        self.write_lost()
    }

    /// What was spilled below that number is durable at nodes.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn set_below(&mut self, below: u64) -> io::Result<()> {
        if self.below.is_none_or(|before| below > before) {
            self.append(&format!("below {below}\n"))?;
            self.below = Some(below);
        }
        self.sync()
    }

    /// A file is closed, or some of its frames are durable at nodes.
    ///
    /// # Errors
    /// The system refuses: nobody will know that the file was removed.
    pub(crate) fn list_file(&mut self, index: u32, file: ListedFile) -> io::Result<()> {
        self.append_file(index, file, LISTED_BYTES_MAX)?;
        self.sync()
    }

    /// A file that is being written has these frames. This outlives a kill; a power cut, once more
    /// is written here: another sync for each of the file's would take as long as that.
    ///
    /// # Errors
    /// As [`StreamLock::list_file`].
    pub(crate) fn list_open(&mut self, index: u32, file: ListedFile) -> io::Result<()> {
        self.append_file(index, file, OPEN_LISTED_BYTES_MAX)
    }

    fn append_file(&mut self, index: u32, file: ListedFile, bytes_max: u64) -> io::Result<()> {
        if self.bytes > bytes_max || self.files.get(&index) == Some(&file) {
            return Ok(());
        }
        let ListedFile { numbers, frames } = &file;
        self.append(&format!("file {index} {}-{} {frames}\n", numbers.start, numbers.end))?;
        self.files.insert(index, file);
        Ok(())
    }

    /// The first number in the files that are listed.
    pub(crate) fn first_listed(&self) -> Option<u64> {
        self.files.values().map(|file| file.numbers.start).min()
    }

    /// What a file had when it was listed last.
    pub(crate) fn listed(&self, index: u32) -> Option<&ListedFile> {
        self.files.get(&index)
    }

    /// How many frames are lost that are not counted, by file: those of files that are not there,
    /// and not durable at nodes. From now on they are counted.
    pub(crate) fn count_removed(&mut self, is_there: impl Fn(u32) -> bool) -> LostFrames {
        let below = self.below.unwrap_or(0);
        let files = std::mem::take(&mut self.files);
        let mut lost = LostFrames::new();
        for (&index, file) in files.iter().filter(|(index, _)| !is_there(**index)) {
            let Range { start, end } = file.numbers;
            let start = start.max(below);
            let counted = end.saturating_sub(start).saturating_sub(self.uncounted(start, end));
            let more = file.frames.saturating_sub(counted);
            if start < end && more > 0 {
                lost.insert(index, more);
                self.set_lost(start..end);
            }
        }
        self.files = files;
        if !lost.is_empty() {
            // If it is not written, the next program counts them again.
            let _written = self.write_lost();
        }
        lost
    }

    /// Frames with these numbers cannot be read, and are counted.
    pub(crate) fn set_lost(&mut self, numbers: Range<u64>) {
        if self.uncounted(numbers.start, numbers.end) == 0 {
            return;
        }
        let has_unwritten = self.unwritten_lost > 0;
        let last = self.lost.last_mut().filter(|last| has_unwritten && last.end == numbers.start);
        if let Some(last) = last {
            last.end = numbers.end;
        } else {
            self.lost.push(numbers);
            self.unwritten_lost += 1;
        }
    }

    /// How many numbers from `from` on, below `until`, are not counted as those of lost frames.
    pub(crate) fn uncounted(&self, from: u64, until: u64) -> u64 {
        let mut lost: Vec<&Range<u64>> = self.lost.iter().collect();
        lost.sort_by_key(|range| range.start);
        let (mut count, mut next) = (0, from);
        for range in lost {
            count += range.start.min(until).saturating_sub(next);
            next = next.max(range.end);
        }
        count + until.saturating_sub(next)
    }

    /// Whether no frame is known to be lost.
    pub(crate) fn is_whole(&self) -> bool {
        self.lost.is_empty()
    }

    /// Writes which frames are counted as lost.
    ///
    /// # Errors
    /// The system refuses.
    fn write_lost(&mut self) -> io::Result<()> {
        let written = self.lost.len() - self.unwritten_lost;
        let lines = &self.lost[written..][..self.unwritten_lost.min(LOST_MAX)];
        let count = lines.len();
        let line = |one: &Range<u64>| format!("lost {}-{}\n", one.start, one.end);
        let text: String = lines.iter().map(line).collect();
        if count > 0 {
            self.write(&text)?;
            self.unwritten_lost -= count;
        }
        Ok(())
    }

    /// The node has all that could be sent; what is left in the folder is for people.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn set_forwarded(&mut self) -> io::Result<()> {
        self.write("forwarded\n")?;
        self.is_forwarded = true;
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.append(text)?;
        self.sync()
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        if let Some(bytes) = self.torn_at {
            self.file.set_len(bytes)?;
            self.torn_at = None;
        }
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // A part of a line would be the beginning of the next one.
            self.torn_at = Some(self.bytes);
            return Err(error);
        }
        self.bytes += text.len() as u64;
        self.is_synced = false;
        Ok(())
    }

    /// Has what was appended be durable.
    fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync_data()?;
            self.is_synced = true;
        }
        Ok(())
    }

    /// Removes the file: the folder is no stream any more.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

fn lock(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("another program has it"),
        TryLockError::Error(error) => error,
    })
}

/// The text without a last line that was being written when its writer died.
fn whole_lines(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1)]
}

struct Parsed {
    identity: Identity,
    end: Option<u64>,
    moved: Vec<[u64; 2]>,
    below: Option<u64>,
    doubt: Option<u64>,
    lost: Vec<Range<u64>>,
    files: BTreeMap<u32, ListedFile>,
    is_forwarded: bool,
    pid: Option<u32>,
}

fn listed_file(text: &str) -> Option<(u32, ListedFile)> {
    let (index, rest) = text.split_once(' ')?;
    let (numbers, frames) = rest.split_once(' ')?;
    let (numbers, frames) = (range_of(numbers)?, frames.parse().ok()?);
    let is_valid = frames <= numbers.end.checked_sub(numbers.start)?;
    is_valid.then_some((index.parse().ok()?, ListedFile { numbers, frames }))
}

fn range_of(text: &str) -> Option<Range<u64>> {
    let [from, until] = pair_of(text)?;
    Some(from..until)
}

fn pair_of(text: &str) -> Option<[u64; 2]> {
    let (first, second) = text.split_once('-')?;
    Some([first.parse().ok()?, second.parse().ok()?])
}

fn parse(text: &[u8]) -> Result<Parsed, String> {
    let text = std::str::from_utf8(whole_lines(text)).map_err(|_| "is no text".to_owned())?;
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(format!("does not begin with {FIRST_LINE:?}"));
    }
    let lines: Vec<(&str, &str)> =
        lines.map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
    let find = |key: &str| lines.iter().rev().find(|(found, _)| *found == key).map(|one| one.1);
    let text_of = |key: &str| find(key).ok_or_else(|| format!("has no {key}"));
    let number = |key: &str, text: &str| {
        text.parse::<u64>().map_err(|_| format!("has a {key} that is no number: {text:?}"))
    };
    let small = |key: &str| {
        let value = number(key, text_of(key)?)?;
        u32::try_from(value).map_err(|_| format!("has a {key} that is too large: {value}"))
    };
    let identity = Identity {
        node: match find(FOLDER) {
            Some(folder) if Path::new(folder).is_absolute() => folder.to_owned(),
            Some(folder) => return Err(format!("has a {FOLDER} that is no path: {folder:?}")),
            None => text_of(NODE)?.to_owned(),
        },
        name: text_of("name")?.to_owned(),
        run: text_of("run")?.parse().map_err(|error| format!("has a bad run: {error}"))?,
        stream: small("stream")?,
        variant: small("variant")?,
        begins: number("begins", text_of("begins")?)?,
    };
    let end = find("end").map(|text| number("end", text)).transpose()?;
    let moved = find("moved").map(|text| text.split(' ').map(pair_of).collect::<Option<Vec<_>>>());
    let moved = moved.flatten().unwrap_or_default();
    let below = find("below").map(|text| number("below", text)).transpose()?;
    let doubt = find("doubt").map(|text| number("doubt", text)).transpose()?;
    let pid = find("pid").and_then(|text| text.parse().ok());
    let lost = lines.iter().filter(|(key, _)| *key == "lost");
    let lost = lost.filter_map(|line| range_of(line.1)).collect();
    let files = lines.iter().filter(|(key, _)| *key == "file");
    let files = files.filter_map(|line| listed_file(line.1)).collect();
    let is_forwarded = find("forwarded").is_some();
    Ok(Parsed { identity, end, moved, below, doubt, lost, files, is_forwarded, pid })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            node: "127.0.0.1:7100".to_owned(),
            name: "run-1".to_owned(),
            run: RunId([7; 16]),
            stream: 1,
            variant: 2,
            begins: 3,
        }
    }

    #[test]
    fn a_folder_is_taken_once_and_known_again() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(StreamLock::find(folder.path()).unwrap(), Found::Foreign(_)));
        let mut lock = StreamLock::create(folder.path(), identity()).unwrap();
        assert!(StreamLock::create(folder.path(), identity()).is_err());
        assert!(matches!(StreamLock::find(folder.path()).unwrap(), Found::Taken));
        lock.set_end(40, vec![[3, 40], [0, 0]]).unwrap();
        lock.set_below(20).unwrap();
        lock.set_below(10).unwrap();
        lock.set_doubt(30).unwrap();
        lock.set_doubt(31).unwrap();
        lock.set_lost(20..22);
        lock.set_lost(5..8);
        lock.set_lost(8..9);
        lock.write_lost().unwrap();
        lock.set_lost(5..7);
        lock.set_lost(9..12);
        lock.write_lost().unwrap();
        drop(lock);
        let Found::Stream(found) = StreamLock::find(folder.path()).unwrap() else {
            panic!("it is a stream")
        };
        assert_eq!(
            (&found.identity, found.end, found.below, found.doubt, found.is_forwarded),
            (&identity(), Some(40), Some(20), Some(30), false)
        );
        assert_eq!((&found.moved[..], found.is_whole()), (&[[3, 40], [0, 0]][..], false));
        assert_eq!(found.uncounted(0, 30), 30 - 7 - 2);
        assert_eq!((found.uncounted(6, 9), found.uncounted(11, 13)), (0, 1));
        found.remove().unwrap();
        assert!(matches!(StreamLock::find(folder.path()).unwrap(), Found::Foreign(_)));
    }

    #[test]
    fn files_that_are_not_there_are_counted_once_unless_nodes_have_their_frames() {
        let folder = tempfile::tempdir().unwrap();
        let mut lock = StreamLock::create(folder.path(), identity()).unwrap();
        for (index, numbers, frames) in [(0, 10..20, 10), (1, 20..40, 5), (2, 40..50, 4)] {
            lock.list_file(index, ListedFile { numbers, frames }).unwrap();
        }
        lock.list_file(2, ListedFile { numbers: 45..50, frames: 2 }).unwrap();
        lock.set_below(20).unwrap();
        let find = || match StreamLock::find(folder.path()).unwrap() {
            Found::Stream(found) => found,
            other => panic!("{other:?}"),
        };
        drop(lock);
        let mut found = find();
        // One frame of the second one is counted already.
        found.set_lost(30..31);
        let lost = [(); 2].map(|()| found.count_removed(|index| index == 1));
        assert_eq!(lost, [LostFrames::from([(2, 2)]), LostFrames::new()]);
        drop(found);
        let lost = [(); 2].map(|()| find().count_removed(|_| false));
        assert_eq!(lost, [LostFrames::from([(1, 4)]), LostFrames::new()]);
        let text = std::fs::read_to_string(folder.path().join(LOCK_NAME)).unwrap();
        // What no program writes is in no sum.
        let bad = "file 3 60-50 1\nfile 4 60-70 11\nfile 5 60-70\nfile x 60-70 1\n";
        std::fs::write(folder.path().join(LOCK_NAME), text + bad).unwrap();
        assert_eq!(find().count_removed(|_| false), LostFrames::new());
    }

    #[test]
    fn the_stream_of_a_folder_is_known_again_whatever_is_in_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity { node: "/data/a, b".to_owned(), ..identity() };
        assert!(identity.is_folder() && !identity.is_dealt());
        drop(StreamLock::create(folder.path(), identity.clone()).unwrap());
        let Found::Stream(found) = StreamLock::find(folder.path()).unwrap() else {
            panic!("it is a stream")
        };
        assert_eq!(found.identity, identity);
    }

    #[test]
    fn a_line_that_was_not_written_to_its_end_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        drop(StreamLock::create(folder.path(), identity()).unwrap());
        let path = folder.path().join(LOCK_NAME);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("end 4");
        std::fs::write(&path, &text).unwrap();
        for _ in 0..2 {
            let Found::Stream(mut found) = StreamLock::find(folder.path()).unwrap() else {
                panic!("it is a stream")
            };
            // The next program does not read it, either.
            assert_eq!(found.end, None);
            found.set_taken().unwrap();
        }
    }

    #[test]
    fn what_is_no_identity_is_refused_with_its_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_NAME);
        for (text, fault) in [
            ("", "does not begin"),
            ("catchment spill 2\n", "does not begin"),
            ("catchment spill 1\nnode a:1\nname n\n", "has no run"),
            ("catchment spill 1\nfolder a\nname n\n", "has a folder that is no path"),
            ("catchment spill 1\nnode a:1\nname n\nrun 7\n", "has a bad run"),
        ] {
            std::fs::write(&path, text).unwrap();
            let Found::Foreign(why) = StreamLock::find(folder.path()).unwrap() else {
                panic!("{text:?}")
            };
            assert!(why.contains(fault), "{why}");
        }
    }
}
