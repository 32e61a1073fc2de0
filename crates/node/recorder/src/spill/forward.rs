//! Forwarding what earlier runs have left in the spills of a configuration's targets, whether a run
//! is on or not: to storage nodes, or into the run's files in a folder (spill/folder.rs).
//!
//! One thread for each spill takes its streams one after the other, the oldest first, and sends the
//! frames that the node lacks. A stream whose run is on is locked by its target, which forwards it
//! itself. What belongs to another node, to nobody, or cannot be read, is left where it is and
//! named.
//!
//! The node says where it goes on: behind its last frame. If that is before what it had when the
//! spill was left (after a kill: before the first frame that is left), frames in between are gone
//! there; nothing is sent then, since it would make a hole. Several nodes that share the frames
//! have gaps anyway: each frame goes to one that takes it (spill/dealt.rs).
//!
//! The folder of a stream is removed once the run's record says what was forwarded: a program that
//! is killed before leaves it to the next, which has nothing to send, and says it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use catchment_agent::{Agent, Entropy as _, Work};
use catchment_disk::{ReadFile, list_folder};
use catchment_frame::{DealtPart, FileFrames, FileReader};
use catchment_net::Dialer;
use catchment_runner::{Idle, Plan, Sleep, SystemEntropy, ThreadEvents, Threads};
use catchment_sender::{StreamConfig, StreamSession};
use catchment_telemetry::{Clock, ThreadTimes};
use parking_lot::Mutex;

use super::dealt::Dealt;
use super::folder::ToFolder;
use super::forwarded::{EnterForwarded, Forwarded};
use super::{
    Backlog, FileName, Found, Identity, LOCK_NAME, Spill, SpillConfig, StreamLock, remove_folder,
};
use crate::config::RecorderConfig;
use crate::spill_counts::{SpillCounts, SpillReport};
use crate::store_link::{Happened, StoreLink};
use crate::store_nodes::{ITEMS_MAX, NodeShare};
use crate::target_config::{NodeConfig, Place};

/// How often a spill is looked at.
const LOOK_NS: u64 = 1_000_000_000;
/// How long a stream that was refused, or cannot be used, is left alone.
const RETRY_NS: u64 = 30_000_000_000;
/// How long a stream is tried of which nothing becomes durable, before the next has its turn.
const STUCK_NS: u64 = 30_000_000_000;
pub(super) const STUCK: &str = "nothing became durable there for 30 s";
/// The longest time to the next cycle while a stream is forwarded.
const IDLE_NS: u64 = 5_000_000;
const PROBLEMS_MAX: usize = 100;

/// The spills of a configuration, and the threads that forward them.
pub struct Forwarding {
    stop: Arc<AtomicBool>,
    spills: Vec<Arc<Watched>>,
    threads: Threads,
}

/// A spill of a target, at one moment.
#[derive(Clone, Debug)]
pub struct SpillState {
    /// The target's name.
    pub target: String,
    /// The folder.
    pub folder: PathBuf,
    /// The storage node, or the folder, for which it is.
    pub node: String,
    /// The most bytes in it.
    pub bytes_max: u64,
    /// What was left by earlier runs, and forwarded since the program began. What waits is that of
    /// all streams which are left, whether one is forwarded now, waits for its turn, or failed.
    pub counts: SpillReport,
    /// When the folder was looked through last: what was left there before is counted.
    pub looked: Option<Instant>,
    /// What somebody has to look at.
    pub problems: Vec<String>,
}

/// A spill that is forwarded.
struct Watched {
    target: String,
    config: SpillConfig,
    place: Place,
    /// Bytes of a file in a folder before the next is begun.
    file_bytes: u64,
    counts: Arc<SpillCounts>,
    left: Mutex<Left>,
    problems: Mutex<Problems>,
}

/// What waits in streams of which none is forwarded now, and when that was looked for.
#[derive(Clone, Copy, Default)]
struct Left {
    frames: u64,
    bytes: u64,
    looked: Option<Instant>,
}

#[derive(Default)]
struct Problems {
    /// What holds now, found by the last look.
    present: Vec<String>,
    /// Why the node takes nothing now.
    away: Option<String>,
    /// What has happened.
    past: Vec<String>,
}

impl Forwarding {
    /// Forwards what is left in the spills of that configuration's targets. `bytes` counts what is
    /// on its way, or was; some of it more than once. `enter` is called on the threads that
    /// forward, again each second as long as it does not succeed.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        config: &RecorderConfig,
        bytes: &Arc<AtomicU64>,
        enter: &EnterForwarded,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let threads =
            Threads::new(Clock::start(), Arc::new(ThreadTimes::default()), Arc::new(Events));
        let mut forwarding = Self { stop, spills: Vec::new(), threads };
        for target in config.targets() {
            let Some(spill) = &target.spill else { continue };
            let watched = Arc::new(Watched {
                target: target.name.clone(),
                config: spill.clone(),
                place: target.place.clone(),
                file_bytes: config.write.file_bytes,
                counts: Arc::new(SpillCounts::forwarding(bytes)),
                left: Mutex::default(),
                problems: Mutex::default(),
            });
            let forwarder = Forwarder {
                watched: Arc::clone(&watched),
                stop: Arc::clone(&forwarding.stop),
                look_at_ns: 0,
                left_alone: Vec::new(),
                sending: None,
                before: SpillReport::default(),
                waiting: BTreeMap::new(),
                done: Vec::new(),
                enter: Arc::clone(enter),
            };
            let name = format!("forward-{}", target.name);
            let (park, idle) = (Box::new(Sleep), Idle::default());
            // A disk that does not answer holds up no end. What is left has its stream's lock.
            let plan = Plan { name, cpu: None, priority: None, idle, park, may_be_left: true };
            forwarding.threads.spawn(forwarder, plan)?;
            forwarding.spills.push(watched);
        }
        Ok(forwarding)
    }

    /// The spills now.
    pub fn snapshot(&self) -> Vec<SpillState> {
        let state = |watched: &Arc<Watched>| {
            let problems = watched.problems.lock();
            let (left, mut counts) = (*watched.left.lock(), watched.counts.read());
            counts.frames_waiting += left.frames;
            counts.bytes_waiting += left.bytes;
            SpillState {
                target: watched.target.clone(),
                folder: watched.config.folder.clone(),
                node: watched.place.shown(),
                bytes_max: watched.config.bytes_max,
                counts,
                looked: left.looked,
                problems: problems.all().cloned().collect(),
            }
        };
        self.spills.iter().map(state).collect()
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // What is not forwarded stays in its files.
        let _joined = self.threads.join();
    }
}

impl fmt::Debug for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarding").field("spills", &self.snapshot()).finish_non_exhaustive()
    }
}

impl Problems {
    fn all(&self) -> impl Iterator<Item = &String> {
        self.present.iter().chain(&self.away).chain(&self.past)
    }
}

impl Watched {
    fn say(&self, text: String) {
        let past = &mut self.problems.lock().past;
        if past.len() < PROBLEMS_MAX && !past.contains(&text) {
            past.push(text);
        }
    }

    /// Leaves what waits in a folder, of which all below that number is durable, to another.
    fn leave(&self, spill: Spill, below: u64) {
        spill.hand_over(below).warnings.into_iter().for_each(|text| self.say(text));
    }
}

struct Events;

impl ThreadEvents for Events {
    fn unpinned(&self, _name: &str, _error: &dyn fmt::Display) {}

    fn failed(&self, _name: &str) {}
}

/// The agent of one spill.
struct Forwarder {
    watched: Arc<Watched>,
    stop: Arc<AtomicBool>,
    look_at_ns: u64,
    /// Folders that are not tried again before that time.
    left_alone: Vec<(PathBuf, u64, String)>,
    sending: Option<Sending>,
    /// What was counted when that was taken.
    before: SpillReport,
    /// Frames of each stream that is not forwarded now, and bytes of its files.
    waiting: BTreeMap<PathBuf, (u64, u64)>,
    /// Streams of which everything is forwarded, and what their runs' records do not say yet.
    done: Vec<(Spill, Forwarded)>,
    enter: EnterForwarded,
}

/// A stream that is forwarded.
enum Sending {
    ToFolder(Box<ToFolder>),
    ToOne(Box<ToOne>),
    Dealt(Box<Dealt>),
}

/// A stream that is forwarded to the only node.
struct ToOne {
    backlog: Backlog,
    link: StoreLink,
    /// Whether the backlog has something to be sent.
    has_more: bool,
    /// The number behind all that is to be sent.
    end: u64,
    progress: Progress,
    /// Which frames are in which of the files that the node has closed.
    files: Vec<FileFrames>,
}

/// What is durable at the nodes, and since when.
#[derive(Default)]
pub(super) struct Progress {
    durable: u64,
    since_ns: Option<u64>,
}

impl Progress {
    /// Whether nothing has become durable for so long that the next stream has its turn.
    pub(super) fn is_stuck(&mut self, now_ns: u64, durable: u64) -> bool {
        if self.durable < durable {
            (self.durable, self.since_ns) = (durable, None);
        }
        now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns)) >= STUCK_NS
    }
}

impl Forwarder {
    /// Looks at the folders of the spill, and takes the first stream that can be forwarded.
    fn look(&mut self, now_ns: u64) {
        // What this waits for is not the spill's disk.
        let mut present = self.enter_done(now_ns);
        let _call = self.watched.counts.call();
        let (looked, known) = (Instant::now(), std::mem::take(&mut self.waiting));
        self.left_alone.retain(|(_, until_ns, _)| *until_ns > now_ns);
        let root = &self.watched.config.folder;
        let entries = match list_folder(root) {
            Ok(entries) => entries,
            // Nothing was ever spilled.
            Err(_) if !root.exists() => Vec::new(),
            Err(error) => {
                present.push(error.to_string());
                Vec::new()
            }
        };
        let mut foreign = BTreeSet::new();
        for entry in entries {
            if !entry.is_folder {
                foreign.insert(format!("{} is no folder of a stream", entry.path.display()));
                continue;
            }
            if let Some((_, _, why)) = self.left_alone.iter().find(|one| one.0 == entry.path) {
                present.push(why.clone());
                self.waits(entry.path, &known);
                continue;
            }
            // A stream, which has to wait for its turn, or that of a run that is on.
            if self.sending.is_some() && entry.path.join(LOCK_NAME).exists() {
                if matches!(StreamLock::find(&entry.path), Ok(Found::Stream(_))) {
                    self.waits(entry.path, &known);
                }
                continue;
            }
            let before = self.watched.counts.read();
            match self.take(&entry.path) {
                Ok(Taken::Sending(sending)) => {
                    (self.sending, self.before) = (Some(sending), before);
                }
                Ok(Taken::Nothing) => {}
                Ok(Taken::Foreign(why)) => {
                    foreign.insert(format!("{} is left alone: {why}", entry.path.display()));
                }
                Err(why) => {
                    let why = format!("{} is not forwarded: {why}", entry.path.display());
                    present.push(why.clone());
                    self.left_alone.push((entry.path.clone(), now_ns + RETRY_NS, why));
                    self.waits(entry.path, &known);
                }
            }
        }
        let sum = |of: fn(&(u64, u64)) -> u64| self.waiting.values().map(of).sum();
        let (frames, bytes) = (sum(|one| one.0), sum(|one| one.1));
        *self.watched.left.lock() = Left { frames, bytes, looked: Some(looked) };
        present.extend(foreign);
        present.truncate(PROBLEMS_MAX);
        self.watched.problems.lock().present = present;
    }

    /// Counts what waits in a stream, unless that is known.
    fn waits(&mut self, folder: PathBuf, known: &BTreeMap<PathBuf, (u64, u64)>) {
        let entries = list_folder(&folder).unwrap_or_default().into_iter();
        let files = entries.filter(|entry| FileName::of(&entry.path).is_some());
        let files: Vec<_> = files.map(|entry| (entry.path, entry.bytes)).collect();
        let bytes = files.iter().map(|(_, bytes)| bytes).sum();
        let count = |path: &PathBuf| {
            let reader = FileReader::open(ReadFile::open(path).ok()?).ok()?;
            Some(reader.frames().len() as u64)
        };
        let frames = match known.get(&folder) {
            Some(&(frames, before)) if before == bytes => frames,
            _ => files.iter().filter_map(|(path, _)| count(path)).sum(),
        };
        self.waiting.insert(folder, (frames, bytes));
    }

    fn take(&self, folder: &std::path::Path) -> Result<Taken, String> {
        let mut lock = match StreamLock::find(folder).map_err(|error| error.to_string())? {
            Found::Stream(lock) => *lock,
            Found::Taken => return Ok(Taken::Nothing),
            Found::Foreign(why) => return Ok(Taken::Foreign(why)),
        };
        if lock.is_forwarded {
            let why = "all that could be forwarded is there; what is left was damaged";
            return Ok(Taken::Foreign(why.to_owned()));
        }
        let place = &self.watched.place.shown();
        if lock.identity.node != *place {
            let kind = if lock.identity.is_folder() { "folder" } else { "node" };
            let other = &lock.identity.node;
            return Ok(Taken::Foreign(format!("it is for the {kind} {other}, not for {place}")));
        }
        if Spill::is_blank(folder).map_err(|error| error.to_string())? {
            let lost = lock.count_removed(|_| false);
            let said = self.watched.counts.lost_with_files(&lost, folder);
            said.into_iter().for_each(|text| self.watched.say(text));
            remove_folder(lock, folder).map_err(|error| error.to_string())?;
            return Ok(Taken::Nothing);
        }
        lock.set_taken().map_err(|error| error.to_string())?;
        let spill = Spill::left(lock, folder, &self.watched.counts)?;
        let Some(node) = self.watched.place.node() else {
            let folder = self.watched.place.folder().unwrap_or(folder);
            let to_folder = ToFolder::new(spill, folder, self.watched.file_bytes);
            return Ok(Taken::Sending(Sending::ToFolder(Box::new(to_folder))));
        };
        match links_of(&spill, node) {
            Ok(links) => Ok(Taken::Sending(Sending::new(spill, links))),
            Err(why) => {
                self.watched.leave(spill, 0);
                Err(why)
            }
        }
    }

    /// Sends what there is to send. Returns how much was done, and the outcome at the end.
    fn forward(&mut self, now_ns: u64) -> (usize, Option<Result<(), String>>) {
        match &mut self.sending {
            None => (0, None),
            Some(Sending::ToOne(one)) => one.forward(now_ns, &self.watched),
            Some(Sending::ToFolder(one)) => one.forward(now_ns, &mut |text| self.watched.say(text)),
            Some(Sending::Dealt(dealt)) => {
                let outcome = dealt.forward(now_ns, &mut |text| self.watched.say(text));
                self.watched.problems.lock().away = dealt.away();
                outcome
            }
        }
    }

    /// A stream has come to its end here.
    fn ended(&mut self, now_ns: u64, outcome: Result<(), String>) {
        self.watched.problems.lock().away = None;
        let Some(sending) = self.sending.take() else { return };
        match outcome {
            Ok(()) => {
                let forwarded = self.forwarded(&sending);
                self.done.push((sending.into_spill().0, forwarded));
            }
            Err(why) => {
                let (spill, below) = sending.into_spill();
                let folder = spill.folder().to_owned();
                self.watched.leave(spill, below);
                let why = format!("{} is not forwarded: {why}", folder.display());
                self.left_alone.push((folder, now_ns + RETRY_NS, why));
            }
        }
        self.look_at_ns = now_ns;
    }
}

impl Forwarder {
    /// What is to be said of a stream of which everything is forwarded.
    fn forwarded(&self, sending: &Sending) -> Forwarded {
        let Watched { target, config, counts, .. } = &*self.watched;
        let (backlog, now) = (sending.backlog(), counts.read());
        let mut forwarded = Forwarded::of(backlog, (target, &config.folder), (&self.before, &now));
        match sending {
            Sending::ToFolder(one) => forwarded.add_folder(one.folder()),
            Sending::ToOne(one) => forwarded.add_node(one.share(forwarded.frames)),
            Sending::Dealt(one) => one.shares().into_iter().for_each(|one| forwarded.add_node(one)),
        }
        forwarded
    }

    /// Has the records of runs say what was forwarded, and removes the folders of streams of which
    /// they do. Returns why some do not.
    fn enter_done(&mut self, now_ns: u64) -> Vec<String> {
        let mut present = Vec::new();
        for (spill, forwarded) in std::mem::take(&mut self.done) {
            match (self.enter)(&forwarded) {
                Ok(true) => self.finish(now_ns, spill),
                Ok(false) => self.done.push((spill, forwarded)),
                Err(why) => {
                    let name = &forwarded.name;
                    present.push(format!("{name} is forwarded, which its run does not say: {why}"));
                    self.done.push((spill, forwarded));
                }
            }
        }
        present
    }

    fn finish(&mut self, now_ns: u64, spill: Spill) {
        let folder = spill.folder().to_owned();
        match spill.finish() {
            Ok(None) => {}
            Ok(Some(said)) => self.watched.say(said),
            Err(error) => {
                let why = format!("cannot remove {}: {error}", folder.display());
                self.left_alone.push((folder, now_ns + RETRY_NS, why));
            }
        }
    }
}

enum Taken {
    Sending(Sending),
    Nothing,
    Foreign(String),
}

impl Sending {
    fn new(spill: Spill, mut links: Vec<StoreLink>) -> Self {
        if links.len() > 1 {
            return Self::Dealt(Box::new(Dealt::new(spill, links)));
        }
        let (end, link) = (spill.end(), links.swap_remove(0));
        let (backlog, progress) = (Backlog::new(spill), Progress::default());
        let (has_more, files) = (true, Vec::new());
        Self::ToOne(Box::new(ToOne { backlog, link, has_more, end, progress, files }))
    }

    fn backlog(&self) -> &Backlog {
        match self {
            Self::ToFolder(one) => one.backlog(),
            Self::ToOne(one) => &one.backlog,
            Self::Dealt(dealt) => dealt.backlog(),
        }
    }

    /// What is left of it, and the number below which all is durable.
    fn into_spill(self) -> (Spill, u64) {
        match self {
            Self::ToFolder(one) => one.into_spill(),
            Self::ToOne(one) => (one.backlog.spill, one.link.session.durable()),
            Self::Dealt(dealt) => dealt.into_spill(),
        }
    }
}

impl ToOne {
    /// Sends what there is to send. Returns how much was done, and the outcome at the end.
    fn forward(&mut self, now_ns: u64, watched: &Watched) -> (usize, Option<Result<(), String>>) {
        let mut moved = self.link.receive(now_ns);
        if let Some(trouble) = self.link.take_trouble() {
            watched.say(trouble);
        }
        if let Some(files) = self.link.closed_files() {
            self.files = files;
        }
        if let Some(next) = self.link.attached() {
            watched.problems.lock().away = None;
            if let Some(why) = self.hole(next) {
                return (moved, Some(Err(why)));
            }
            self.backlog.go_on_at(next, None);
            self.has_more = true;
            self.link.go_on(0);
        }
        let durable = self.link.session.durable();
        let said = self.backlog.spill.remove_below(durable, now_ns);
        said.into_iter().for_each(|text| watched.say(text));
        let run_end = self.backlog.spill.run_end();
        let is_done = durable >= self.end && run_end.is_none_or(|end| durable > end);
        if is_done {
            self.link.session.finish();
        }
        let (written, happened) = self.link.act();
        moved += written;
        match happened {
            Some(Happened::Ended(None)) if is_done => return (moved, Some(Ok(()))),
            Some(Happened::Ended(why)) => {
                let why = why.unwrap_or_else(|| "the session has ended".to_owned());
                return (moved, Some(Err(why)));
            }
            Some(Happened::Away(Some(why))) => {
                let address = &self.link.address;
                watched.problems.lock().away = Some(format!("storage node {address}: {why}"));
            }
            _ => {}
        }
        if self.progress.is_stuck(now_ns, durable) {
            let why = watched.problems.lock().away.take();
            let why = why.unwrap_or_else(|| STUCK.to_owned());
            return (moved, Some(Err(why)));
        }
        if self.link.session.is_open() && self.has_more {
            let mut say = |text| watched.say(text);
            self.has_more = self.backlog.advance(&mut self.link.feed, &mut say);
        }
        let close = run_end.filter(|_| !self.has_more);
        moved += self.link.send(&self.backlog.frames, close);
        (moved, None)
    }

    /// What the node has, of which so many frames were spilled.
    fn share(&self, forwarded: u64) -> NodeShare {
        let Backlog { spill, .. } = &self.backlog;
        let (begins, end) = (spill.identity().begins, spill.run_end().unwrap_or(self.end));
        NodeShare {
            address: self.link.address.clone(),
            frames_durable: forwarded + u64::from(spill.closing_end().is_some()),
            numbers: Some((begins, end.saturating_sub(1).max(begins))),
            files: self.files.clone(),
            ..NodeShare::default()
        }
    }

    /// Why frames must not be sent to a node that goes on at that number, if so.
    fn hole(&self, next: u64) -> Option<String> {
        let Identity { node, name, .. } = self.backlog.spill.identity();
        let first = self.backlog.spill.begins_at()?;
        (next < first).then(|| {
            format!(
                "the node {node} has {name} up to frame {next}, and had it up to {first}: frames \
                 are missing there"
            )
        })
    }
}

/// Sessions for what was spilled of a stream, with the nodes for which it was.
fn links_of(spill: &Spill, node: &NodeConfig) -> Result<Vec<StoreLink>, String> {
    let bits = || SystemEntropy.random_u64().map_err(|error| error.to_string());
    let Identity { name, run, stream, variant, begins, .. } = spill.identity().clone();
    let count = node.addresses.len();
    let config = StreamConfig {
        name,
        program: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
        token: node.token().map_err(|error| error.to_string())?,
        run: run.0,
        stream,
        variant,
        buffer_bytes: 0,
        first: begins,
        is_dealt: count > 1,
    };
    let peers = node.peers().map_err(|error| error.to_string())?;
    let mut links = Vec::with_capacity(count);
    for (number, (peer, address)) in (0..).zip(peers.into_iter().zip(&node.addresses)) {
        let mut session = StreamSession::new(config.clone(), bits()?.max(1), bits()?)?;
        session.made(ITEMS_MAX);
        let dial = Dialer::new(peer).map_err(|error| error.to_string())?;
        let mut link = StoreLink::new(Box::new(dial), session, address.clone());
        let part = DealtPart { number, count: count as u32, first_item: 0 };
        link.header = spill.header_of(part);
        links.push(link);
    }
    Ok(links)
}

impl Agent for Forwarder {
    fn work(&mut self, now_ns: u64) -> Work {
        if self.stop.load(Relaxed) {
            if let Some((spill, below)) = self.sending.take().map(Sending::into_spill) {
                self.watched.leave(spill, below);
            }
            // The next program has nothing to send, and enters them.
            for (spill, _) in std::mem::take(&mut self.done) {
                let end = spill.run_end().unwrap_or(0).max(spill.end());
                self.watched.leave(spill, end);
            }
            return Work::ended();
        }
        if now_ns >= self.look_at_ns {
            self.look_at_ns = now_ns + LOOK_NS;
            self.look(now_ns);
        }
        let (moved, outcome) = self.forward(now_ns);
        if let Some(outcome) = outcome {
            self.ended(now_ns, outcome);
            return Work::again(1);
        }
        match moved {
            0 if self.sending.is_some() => Work::until(0, now_ns + IDLE_NS),
            0 => Work::until(0, self.look_at_ns.min(now_ns + LOOK_NS)),
            moved => Work::again(moved as u64),
        }
    }
}
