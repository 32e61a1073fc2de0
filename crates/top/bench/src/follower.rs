//! A reader of a run while it is recorded.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use catchment_storage::{Follow, Followed, Run};

/// How often it looks for a new frame.
const POLL: Duration = Duration::from_millis(10);

/// Reads something of every frame as it comes.
pub(crate) struct Follower {
    thread: JoinHandle<anyhow::Result<Vec<Instant>>>,
    stop: Arc<AtomicBool>,
}

/// Reads of a frame what is wanted, and returns whether it is of the kind that is counted.
pub(crate) type ReadFrame = fn(&Run, &Followed) -> anyhow::Result<bool>;

impl Follower {
    pub(crate) fn start(folder: &Path, read: ReadFrame) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, its_stop) = (folder.to_owned(), stop.clone());
        let thread = std::thread::spawn(move || follow(&folder, read, &its_stop));
        Self { thread, stop }
    }

    /// Lets it read what is left: when it saw each frame.
    pub(crate) fn finish(self) -> anyhow::Result<Vec<Instant>> {
        self.stop.store(true, Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the follower's thread failed"))?
    }
}

fn follow(folder: &Path, read: ReadFrame, stop: &AtomicBool) -> anyhow::Result<Vec<Instant>> {
    // The first file may take a moment to be there.
    let mut follow = loop {
        match Follow::open(folder, POLL) {
            Ok(follow) => break follow,
            Err(error) if stop.load(Relaxed) => return Err(error.into()),
            Err(_) => std::thread::sleep(POLL),
        }
    };
    let mut frames = Vec::new();
    loop {
        let stopping = stop.load(Relaxed);
        match follow.next_within(POLL)? {
            Some(frame) => {
                let seen = Instant::now();
                frames.extend(read(follow.run(), &frame)?.then_some(seen));
            }
            None if stopping || follow.ended() => return Ok(frames),
            None => {}
        }
    }
}
