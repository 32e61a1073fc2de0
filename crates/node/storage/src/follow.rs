//! Following a run while it is recorded: frames are returned as they are written.
//!
//! A follower polls: one read of 4 KiB after the last known frame of the newest file, and a listing
//! of the folder. It takes no lock, and a thread that waits in it reads at the lowest best-effort
//! I/O priority from then on, so that the recorder goes first.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::copies::Location;
use crate::error::StorageError;
use crate::folders;
use crate::run::{Frame, Run};

/// A new frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// A frame of events: its index in [`Run::frames`].
    Events(usize),
    /// A frame of channels: its index in [`Run::channel_frames`].
    Channels(usize),
}

/// A followed run.
#[derive(Debug)]
pub struct Follow {
    run: Run,
    poll: Duration,
    /// The number of frames returned from each file, by the file's index: files grow side by side.
    seen: BTreeMap<u32, usize>,
    /// The number of the frame after the last of those.
    next: u64,
    /// Since when a frame has been waiting for others before it.
    held_since: Option<Instant>,
    /// Copies of frames that were returned, in the place of the first or at their own.
    moved: HashSet<(u32, usize)>,
    ended: bool,
}

/// A frame to return.
struct Found {
    followed: Followed,
    /// The index of its file, and its own index in that file.
    file_index: u32,
    index: usize,
    /// Whether it is a copy that is returned in the place of the first.
    moved: bool,
}

impl Follow {
    /// Follows a run from its first frame on, checking for new ones at that interval.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn open(path: impl AsRef<Path>, poll: Duration) -> Result<Self, StorageError> {
        Self::new(Run::open(path)?, poll)
    }

    /// Follows a run that is open.
    ///
    /// # Errors
    /// A run that was opened from several folders: each can be followed by itself.
    pub fn new(run: Run, poll: Duration) -> Result<Self, StorageError> {
        folders::check_one(&run, "following")?;
        let (seen, moved) = (BTreeMap::new(), HashSet::new());
        Ok(Self { run, poll, seen, next: 0, held_since: None, moved, ended: false })
    }

    /// The run as known so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Whether the run has ended, in order or not. Some frames may not have been returned yet.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The next frame, without waiting; checks once whether there are new ones.
    ///
    /// # Errors
    /// Files that cannot be read, or do not belong together.
    pub fn try_next(&mut self) -> Result<Option<Followed>, StorageError> {
        if let Some(frame) = self.known() {
            return Ok(Some(frame));
        }
        if !self.ended {
            // Checked first, so that a frame that arrives between the two is not missed.
            let at_rest = self.run.at_rest()?;
            self.run.refresh()?;
            self.ended = at_rest;
        }
        Ok(self.known())
    }

    /// The next frame; waits for it, at most that long. `None`: none arrived, or the run has ended
    /// ([`Follow::ended`]).
    ///
    /// # Errors
    /// As [`Follow::try_next`].
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Followed>, StorageError> {
        Self::lower_io_priority();
        let begin = Instant::now();
        loop {
            let next = self.try_next()?;
            let left = timeout.saturating_sub(begin.elapsed());
            if next.is_some() || self.ended || left.is_zero() {
                return Ok(next);
            }
            std::thread::sleep(self.poll.min(left));
        }
    }

    /// Gives the calling thread's reads a lower priority than the recorder's, as waiting for a
    /// frame also does: for a thread that reads frames for which others waited.
    pub fn lower_io_priority() {
        if !LOWERED.replace(true) {
            // Without priorities, the system reads at its usual speed.
            let _lowered = catchment_disk::lower_io_priority();
        }
    }

    /// A frame that is there and has not been returned. The first frames of a file can be whole
    /// before the last ones of the previous file: they wait for these, but not for ever: frames
    /// refused by a disk never arrive, and the file may have no TOC to show this.
    fn known(&mut self) -> Option<Followed> {
        let mut growing = false;
        for (file, run_file) in self.run.run_files().iter().enumerate() {
            let seen = self.seen.entry(run_file.header().file_index).or_default();
            while let Some(frame) = run_file.reader.frames().get(*seen) {
                let (number, last) = frame.info.numbers();
                if growing && number > self.next && !self.ended {
                    let since = *self.held_since.get_or_insert_with(Instant::now);
                    if since.elapsed() < HELD_MAX {
                        return None;
                    }
                }
                self.held_since = None;
                let here = (file, *seen);
                *seen += 1;
                self.next = last.saturating_add(1);
                let Some(found) = in_place(&self.run, here) else { continue };
                // A copy is returned in the place of the first, or at its own if it arrived after
                // that place had been passed; never twice.
                if !found.moved || self.moved.insert((found.file_index, found.index)) {
                    return Some(found.followed);
                }
            }
            growing |= !run_file.reader.closed();
        }
        None
    }
}

impl Iterator for Follow {
    type Item = Result<Followed, StorageError>;

    /// The next frame, however long it takes; `None` when the run has ended.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_within(ROUND) {
                Ok(Some(frame)) => return Some(Ok(frame)),
                Ok(None) if self.ended => return None,
                Ok(None) => {}
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// The frame that is returned at this position, or that is this one.
fn in_place(run: &Run, here: Location) -> Option<Found> {
    let index = run.frame_index();
    let place = index.copies.place_of(here);
    let find = |frames: &[Frame], followed: fn(usize) -> Followed| {
        let position = index.in_place(frames, place)?;
        Some((followed(position), frames[position]))
    };
    let events = find(&index.events, Followed::Events);
    let (followed, frame) = events.or_else(|| find(&index.channels, Followed::Channels))?;
    let file_index = run.run_files()[frame.file].header().file_index;
    let moved = (frame.file, frame.index) != place;
    Some(Found { followed, file_index, index: frame.index, moved })
}

thread_local! {
    /// Whether the thread's priority has been lowered: priorities are per thread, not per follower.
    static LOWERED: Cell<bool> = const { Cell::new(false) };
}

const ROUND: Duration = Duration::from_secs(60);
/// How long a frame waits for those before it: a disk that stalls longer stalls both.
const HELD_MAX: Duration = Duration::from_secs(10);
