//! An interrupted run that needs a storage node: what the node says of it
//! (docs/spec/storage-link.md, section 5), and how it gets what a folder beside it has.
//!
//! The node closes its files and describes them as a frame file without frames: their header, the
//! sum of what their frames count, and how far sources were decided. Where frames go on is the
//! position that it grants. The epoch is above those of all frames, and not below the writer
//! generation of the first session that asked: that is on the node's disk before it is granted, so
//! that no epoch is given twice, also if this recorder dies before a frame is durable. The header
//! of copies has the new epoch already.
//!
//! Where required folders are beside it the run goes on where they and the node allow it
//! ([`Elsewhere`]). What the node lacks then it gets in a session for that, before this recorder
//! listens; what it has beyond is cut off there, since this recorder cannot read it. Then it is
//! asked again: what it says counts, not what was sent.
//!
//! ```text
//!  folder  .. 46 47 48 49      the node gets 48 and 49, and is asked again
//!  node    .. 46 47
//! ```
//!
//! Several nodes without a folder go on at the lowest of their ends (interrupted.rs).
//!
//! Frames in the node's spill are forwarded first (spill/forward.rs), if they are few and the node
//! takes them; otherwise a new run begins, and is spilled. Of nodes that share the frames each is
//! asked, and the run goes on at the first number that none of them has (`node_shares.rs`).

use std::collections::VecDeque;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_agent::{Dial, Entropy as _};
use catchment_frame::{DealtPart, FileHeader, FileReader, FrameError, Positions, Superseded};
use catchment_model::{Entry, Ledger, RunId};
use catchment_net::Dialer;
use catchment_runner::SystemEntropy;
use catchment_sender::{LeftOfStream, StreamConfig, StreamSession};
use catchment_storage::{CaughtUp, Copies, Elsewhere, PartLeft, Resumable, ResumedPlace};
use catchment_telemetry::Clock;

use crate::config::RecorderConfig;
use crate::file::OfRun;
use crate::forward_wait::ForwardWait;
use crate::interrupted::written_ns;
use crate::node_asking::{Failed, Talk, answer};
use crate::node_shares::{self, Numbers};
use crate::recorder::{RecorderError, system};
use crate::schema::schema;
use crate::selection::Selection;
use crate::spill::{SpillConfig, outgoing};
use crate::store_feed::Outgoing;
use crate::store_link::StoreLink;
use crate::store_nodes::{ITEMS_MAX, header_of_part};
use crate::target_config::{NodeConfig, Place, TargetConfig, Variant};

/// A storage node that can be asked for an interrupted run, or several that share its frames.
pub(crate) struct AskedNode {
    pub(crate) node: NodeConfig,
    target_name: String,
    /// The index of its target.
    pub(crate) target: usize,
    has_spill: bool,
    /// When the recorder had last written what was in its spill, if anything was.
    pub(crate) spilled_ns: Option<u64>,
    run: RunId,
    run_name: String,
    /// Of the run's folder at the node.
    name: String,
    stream: u32,
    variant: u32,
    /// Of files there, as this recorder would begin them.
    header: FileHeader,
}

/// What it has of the run.
pub(crate) struct NodeLeft {
    /// None if it has nothing.
    pub(crate) header: Option<FileHeader>,
    /// For how long nothing had come there.
    pub(crate) age_ns: u64,
    /// The number of the next frame.
    pub(crate) sequence: u64,
    /// The writer generation that was granted to this session.
    pub(crate) generation: u64,
    pub(crate) ledger: Ledger,
    pub(crate) positions: Positions,
    /// How many frames, events and bytes of files there are.
    pub(crate) frames: u64,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// Of one of several nodes: the numbers of its frames, in the order of its items.
    pub(crate) numbers: Vec<Numbers>,
    /// Of several: what each has.
    pub(crate) parts: Vec<PartLeft>,
}

impl AskedNode {
    /// The storage nodes that a run of that name needs; with `wait`, what is in their spills is
    /// forwarded first, if it can be in time.
    ///
    /// # Errors
    /// One of them cannot say where the run goes on.
    pub(crate) fn all_of(
        config: &RecorderConfig,
        targets: &[TargetConfig],
        name: &str,
        wait: Option<&ForwardWait<'_>>,
    ) -> Result<Vec<Self>, RecorderError> {
        let refused = |why| RecorderError::NodeTarget { name: name.to_owned(), why };
        let mut nodes = Vec::new();
        for (number, target) in targets.iter().enumerate().filter(|(_, target)| target.required) {
            nodes.extend(target.place.node().map(|node| (number, node, &target.spill)));
        }
        let mut all = Vec::with_capacity(nodes.len());
        for (target, node, spill) in nodes {
            let asked = Self::of(config, targets, (target, node), name)?;
            let of_stream = |spill: &SpillConfig| written_ns(&spill.folder.join(&asked.name));
            let spilled_ns = spill.as_ref().and_then(of_stream);
            let waits = |spill: &SpillConfig| !asked.is_forwarded(&spill.folder, wait);
            if spill.as_ref().is_some_and(waits) {
                return Err(refused("a part of it is in the spill of its storage node"));
            }
            all.push(Self { has_spill: spill.is_some(), spilled_ns, ..asked });
        }
        Ok(all)
    }

    fn of(
        config: &RecorderConfig,
        targets: &[TargetConfig],
        (target, node): (usize, &NodeConfig),
        run_name: &str,
    ) -> Result<Self, RecorderError> {
        let unknown = || RecorderError::NodeTarget {
            name: run_name.to_owned(),
            why: "its identity is not known",
        };
        let run = config.run_id.ok_or_else(unknown)?;
        let schema = Arc::new(schema(config)?);
        let of_target = &Variant::of(config)[target];
        let (stream, variant) = (config.stream, of_target.number);
        let selection = Selection::new(of_target, &schema, config.sources.len());
        let header = OfRun::of(config).header(run, selection.schema(), variant);
        let name = NodeConfig::stream_name(run_name, variant);
        let (node, run_name) = (node.clone(), run_name.to_owned());
        let (has_spill, spilled_ns) = (false, None);
        let target_name = targets[target].name.clone();
        Ok(Self {
            node,
            target_name,
            target,
            has_spill,
            spilled_ns,
            run,
            run_name,
            name,
            stream,
            variant,
            header,
        })
    }

    /// Whether nothing of the stream is in a spill; if that is waited for, once it is forwarded.
    fn is_forwarded(&self, spill: &Path, wait: Option<&ForwardWait<'_>>) -> bool {
        let folder = spill.join(&self.name);
        if let Some(wait) = wait {
            wait.until_forwarded(&folder, || self.is_there());
        }
        !folder.exists()
    }

    /// Whether something listens where a node is.
    fn is_there(&self) -> bool {
        let addresses = self.node.addresses.iter().flat_map(|at| at.to_socket_addrs());
        addresses.flatten().any(|at| TcpStream::connect_timeout(&at, THERE_WITHIN).is_ok())
    }

    /// Whether several nodes share the frames.
    pub(crate) fn is_dealt(&self) -> bool {
        self.node.addresses.len() > 1
    }

    /// Asks for the header of its files, and for how long nothing has come there: nothing is cut.
    ///
    /// # Errors
    /// It does not answer, or the run cannot go on with what it says.
    pub(crate) fn look(&self) -> Result<Option<(FileHeader, u64)>, RecorderError> {
        let mut found: Option<(FileHeader, u64)> = None;
        for index in 0..self.node.addresses.len() {
            let left = self.ask_one(index, StreamSession::ask)?;
            let Some(header) = left.header else { continue };
            let age_ns = found.as_ref().map_or(u64::MAX, |(_, age_ns)| *age_ns);
            let header = found.map_or(header, |(header, _)| header);
            found = Some((header, left.age_ns.min(age_ns)));
        }
        Ok(found)
    }

    /// Asks it. Frames from `below` on are cut off at the node first; several nodes cut off all
    /// behind the first number that none of them has, too.
    ///
    /// # Errors
    /// It does not answer, or the run cannot go on with what it says.
    pub(crate) fn ask(&self, below: u64) -> Result<NodeLeft, RecorderError> {
        match below {
            _ if self.is_dealt() => node_shares::ask(self, below),
            u64::MAX => self.ask_one(0, StreamSession::ask),
            below => self.ask_one(0, |session| session.ask_below(below)),
        }
    }

    /// Asks the node with that index.
    ///
    /// # Errors
    /// As [`AskedNode::ask`].
    pub(crate) fn ask_one(
        &self,
        index: usize,
        ask: impl FnOnce(&mut StreamSession),
    ) -> Result<NodeLeft, RecorderError> {
        let mut link = self.link(index, 0)?;
        ask(&mut link.session);
        let mut talk = Talk::new(link);
        let of_stream = until_ended(&mut talk, ASK_WITHIN, |link| {
            let (moved, left) = answer(link)?;
            Ok((0, moved, left))
        });
        let left = of_stream.and_then(|of_stream| self.read(of_stream, &talk.link.session));
        left.map_err(|why| self.failed(index, why))
    }

    /// Reads what the node has said in that session.
    ///
    /// # Errors
    /// The run cannot go on with that, and whether it can later.
    pub(crate) fn read(
        &self,
        of_stream: LeftOfStream,
        session: &StreamSession,
    ) -> Result<NodeLeft, Failed> {
        let (next, generation) = (session.next(), session.generation());
        let left = match self.is_dealt() {
            true => NodeLeft::read_part(of_stream, next, generation),
            false => NodeLeft::read(of_stream, next, generation),
        };
        let left = left.map_err(|why| (why, false))?;
        let header = left.header.as_ref().unwrap_or(&self.header);
        match (header.run, header.stream, header.variant) == (self.run, self.stream, self.variant) {
            true => Ok(left),
            false => Err(("it describes another stream".to_owned(), false)),
        }
    }

    pub(crate) fn failed(&self, index: usize, (why, may_pass): Failed) -> RecorderError {
        let (name, address) = (self.name.clone(), self.node.addresses[index].clone());
        // With a spill, a new run is recorded while the node is away.
        RecorderError::NodeLeft { name, address, why, may_pass: may_pass && !self.has_spill }
    }

    /// The system refuses what the link to the node of that index needs.
    fn broken(&self, index: usize, error: io::Error) -> RecorderError {
        self.failed(index, (system("the storage link")(error).to_string(), true))
    }

    /// A session with the node of that index, of which `first` is the first frame.
    fn link(&self, index: usize, first: u64) -> Result<StoreLink, RecorderError> {
        let failed = |error| self.broken(index, error);
        let mut random = SystemEntropy;
        let mut bits = || random.random_u64().map_err(failed);
        let peer = self.node.peers().map_err(failed)?.swap_remove(index);
        let dialer = Dialer::new(peer).map_err(failed)?;
        self.link_over(Box::new(dialer), (bits()?.max(1), bits()?), (index, first))
    }

    /// The same over these connections, with that number, and a seed that draws its waits.
    pub(crate) fn link_over(
        &self,
        dial: Box<dyn Dial>,
        (session, seed): (u64, u64),
        (index, first): (usize, u64),
    ) -> Result<StoreLink, RecorderError> {
        let failed = |error| self.broken(index, error);
        let config = StreamConfig {
            name: self.name.clone(),
            program: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            token: self.node.token().map_err(failed)?,
            run: self.run.0,
            stream: self.stream,
            variant: self.variant,
            buffer_bytes: 0,
            first,
            is_dealt: self.is_dealt(),
        };
        let session = StreamSession::new(config, session, seed);
        let session = session.map_err(|reason| failed(io::Error::other(reason)))?;
        Ok(StoreLink::new(dial, session, self.node.addresses[index].clone()))
    }

    /// What it has, for finding out where a run goes on that has folders beside it.
    pub(crate) fn elsewhere(&self, left: &NodeLeft) -> Elsewhere {
        let superseded = left.header.as_ref().map(|header| header.superseded.clone());
        let (epoch, superseded) = (left.epoch().saturating_sub(1), superseded.unwrap_or_default());
        let header = FileHeader { epoch, superseded, ..self.header.clone() };
        let ledger = match left.header {
            Some(_) => left.ledger.clone(),
            None => Ledger::new(header.schema.sources.len()),
        };
        let shown = format!("the storage node {}", self.node.shown());
        Elsewhere { place: self.target, shown, header, end: left.sequence, ledger }
    }

    /// Brings it to where a run goes on that has folders beside it: there its frames end.
    ///
    /// # Errors
    /// It does not answer, or not take what it lacks. It can be tried again.
    pub(crate) fn bring(
        &self,
        from: &mut Resumable,
        mut left: NodeLeft,
    ) -> Result<(), RecorderError> {
        let mut caught_up = CaughtUp::default();
        if left.sequence > from.sequence {
            left = self.ask(from.sequence)?;
        } else if left.sequence < from.sequence {
            caught_up = self.send(from)?;
            left = self.ask(u64::MAX)?;
        }
        let (got, expected) = (left.sequence, from.sequence);
        if got != expected {
            let why = format!("it has frames up to {got}, and the run goes on at {expected}");
            return Err(self.failed(0, (why, true)));
        }
        from.positions.add(left.positions.records());
        from.places[self.target] = ResumedPlace { caught_up, ..left.place() };
        Ok(())
    }

    /// Sends it what it lacks; the first of several nodes gets all of that.
    fn send(&self, from: &Resumable) -> Result<CaughtUp, RecorderError> {
        let unread = |why: String| self.failed(0, (format!("what it lacks: {why}"), true));
        let ResumedPlace { end, caught_up: CaughtUp { place, .. }, .. } = from.places[self.target];
        let (epoch, superseded) = (from.epoch, from.superseded.clone());
        let header = FileHeader { epoch, superseded, ..self.header.clone() };
        let is_dealt = self.is_dealt();
        let mut link = self.link(0, if is_dealt { 0 } else { end })?;
        link.session.made(if is_dealt { ITEMS_MAX } else { from.sequence });
        let part = DealtPart { number: 0, count: self.node.addresses.len() as u32, first_item: 0 };
        link.header = match is_dealt {
            true => header_of_part(&header, &self.target_name, part),
            false => header.encode(),
        };
        let copies =
            from.lacking(self.target, header).map_err(|error| unread(error.to_string()))?;
        let end = (!is_dealt).then_some(from.sequence);
        let (frames, bytes) = send_copies(link, copies, end).map_err(|why| self.failed(0, why))?;
        Ok(CaughtUp { place, frames, bytes })
    }

    /// How to go on with a run of which it has all frames, or none at all, and which needs no
    /// folder; what other nodes have is [joined](Self::join).
    pub(crate) fn resumable(&self, left: NodeLeft, targets: &[TargetConfig]) -> Resumable {
        let (sequence, epoch) = (left.sequence, left.epoch());
        let header = left.header.as_ref().unwrap_or(&self.header);
        let (run, run_number) = (header.run, header.run_number);
        let mut superseded = header.superseded.clone();
        superseded.push(Superseded { stream: header.stream, epoch, sequence });
        let why = "what the run has is at a storage node, and is not read from there";
        let other = |target: &TargetConfig| match target.place {
            Place::None => ResumedPlace::default(),
            _ => ResumedPlace::left_out(why.to_owned()),
        };
        let mut places: Vec<ResumedPlace> = targets.iter().map(other).collect();
        let positions = left.positions.clone();
        places[self.target] = left.place();
        Resumable {
            run,
            name: self.run_name.clone(),
            run_number,
            sequence,
            epoch,
            superseded,
            positions,
            places,
            cut_off: None,
        }
    }

    /// Adds what the node has to how a run goes on at others, which have as many frames.
    pub(crate) fn join(&self, from: &mut Resumable, left: NodeLeft) {
        from.epoch = from.epoch.max(left.epoch());
        let own = from.superseded.pop();
        for record in left.header.iter().flat_map(|header| &header.superseded) {
            if !from.superseded.contains(record) {
                from.superseded.push(*record);
            }
        }
        let epoch = from.epoch;
        from.superseded.extend(own.map(|own| Superseded { epoch, ..own }));
        from.positions.add(left.positions.records());
        from.places[self.target] = left.place();
    }
}

/// A question to a node, for a caller that steps it.
pub struct NodeQuestion {
    asked: AskedNode,
    targets: Vec<TargetConfig>,
    talk: Talk<LeftOfStream>,
}

impl NodeQuestion {
    /// Asks for the run of that name and of the configuration's identity, over connections to the
    /// storage node that it needs. The session has that number; `seed` draws its waits.
    ///
    /// # Errors
    /// The node cannot say where the run goes on.
    ///
    /// # Panics
    /// No target is a storage node that the run needs, or it needs folders, or several nodes.
    pub fn new(
        config: &RecorderConfig,
        name: &str,
        dial: Box<dyn Dial>,
        (session, seed): (u64, u64),
    ) -> Result<Self, RecorderError> {
        let targets = config.targets();
        assert!(!needs_folders(&targets), "a run that needs no folder");
        let mut nodes = AskedNode::all_of(config, &targets, name, None)?;
        let asked = nodes.pop().expect("a storage node");
        assert!(nodes.is_empty() && !asked.is_dealt(), "one node has all frames");
        let mut link = asked.link_over(dial, (session, seed), (0, 0))?;
        link.session.ask();
        Ok(Self { asked, targets, talk: Talk::new(link) })
    }

    /// Does what is due. Returns how the run goes on, once the node has said it; or why it does
    /// not, and whether it may later.
    pub fn work(&mut self, now_ns: u64) -> Option<Result<Resumable, (String, bool)>> {
        let Self { asked, targets, talk } = self;
        let (_, ended) = talk.work(now_ns, answer);
        let left = ended?.and_then(|of_stream| asked.read(of_stream, &talk.link.session));
        Some(left.map(|left| asked.resumable(left, targets)))
    }
}

/// Whether a run has folders that it needs.
pub(crate) fn needs_folders(targets: &[TargetConfig]) -> bool {
    targets.iter().any(|target| target.required && !target.place.folders().is_empty())
}

/// Talks until `step` has a result and the session has ended. `step` also says how far it has come:
/// without progress the talk ends after a while.
///
/// # Errors
/// Why there is none, and whether there may be one later.
fn until_ended<T>(
    talk: &mut Talk<T>,
    within: Duration,
    mut step: impl FnMut(&mut StoreLink) -> Result<(u64, usize, Option<T>), Failed>,
) -> Result<T, Failed> {
    let (clock, mut until, mut progress) = (Clock::start(), Instant::now() + within, 0);
    loop {
        let mut come = progress;
        let (moved, ended) = talk.work(clock.now_ns(), |link| {
            let (now, moved, result) = step(link)?;
            come = now;
            Ok((moved, result))
        });
        if let Some(ended) = ended {
            return ended;
        }
        if come > progress {
            (progress, until) = (come, Instant::now() + within);
        }
        if Instant::now() >= until {
            return talk.give_up();
        }
        if moved == 0 {
            std::thread::sleep(POLL);
        }
    }
}

/// Sends frames over a link, until all below `end` are durable; to one of several nodes, all of
/// them, each as an item. Returns how many, and their bytes.
fn send_copies(
    link: StoreLink,
    mut copies: Copies,
    end: Option<u64>,
) -> Result<(u64, u64), Failed> {
    let unread = |error: &dyn std::fmt::Display| (format!("what it lacks: {error}"), true);
    let (mut frames, is_dealt) = (VecDeque::<Outgoing>::new(), end.is_none());
    let (mut was_open, mut count, mut bytes, mut sent_bytes) = (false, 0, 0, 0);
    let (mut first_item, mut is_read) = (0, false);
    until_ended(&mut Talk::new(link), SEND_WITHIN, |link| {
        let durable = link.session.durable();
        let end = end.or((is_read && was_open).then_some(first_item + count));
        if end.is_some_and(|end| durable >= end) {
            return Ok((0, 0, Some((count, bytes))));
        }
        match link.session.is_open() {
            true if !was_open => (was_open, first_item) = (true, link.session.next()),
            true => {}
            false if !was_open => return Ok((durable, 0, None)),
            // What it has by now is asked for at the next attempt.
            false => return Err(("the connection broke".to_owned(), true)),
        }
        let sent = link.feed.sent_frames().min(frames.len());
        frames.drain(..sent);
        link.feed.released(sent);
        if frames.is_empty() && !link.feed.is_within_frame() && !is_read {
            match copies.next_file().map_err(|error| unread(&error))? {
                None => is_read = true,
                Some(file) => {
                    let reader = FileReader::open(&file).map_err(|error| unread(&error))?;
                    let mut frame = outgoing(&reader, 0).map_err(|error| unread(&error))?;
                    frame.item = is_dealt.then_some(first_item + count);
                    (count, bytes) = (count + 1, bytes + frame.bytes());
                    frames.push_back(frame);
                }
            }
        }
        let sent = link.send(&frames, None);
        if !frames.is_empty() {
            sent_bytes += sent as u64;
        }
        Ok((durable.saturating_add(sent_bytes), sent, None))
    })
}

impl NodeLeft {
    /// Reads what a node has said: it may be anything.
    ///
    /// # Errors
    /// The run has ended there, or it is no description.
    fn read(of_stream: LeftOfStream, sequence: u64, generation: u64) -> Result<Self, String> {
        let LeftOfStream { frames, events, file_bytes: bytes, .. } = of_stream;
        let nothing = Self {
            header: None,
            age_ns: 0,
            sequence,
            generation,
            ledger: Ledger::new(0),
            positions: Positions::default(),
            frames,
            events,
            bytes,
            numbers: Vec::new(),
            parts: Vec::new(),
        };
        if of_stream.file.is_empty() {
            return match sequence {
                0 => Ok(nothing),
                _ => Err(format!("it has frames below {sequence}, and does not say of what")),
            };
        }
        if of_stream.has_ended {
            return Err("the run has ended there".to_owned());
        }
        let failed = |error: FrameError| format!("what it says of the run: {error}");
        let reader = FileReader::open(&of_stream.file).map_err(failed)?;
        let ledger = reader.frames_ledger().map_err(failed)?;
        let is_of_all =
            |ledger: &Ledger| ledger.sources.len() == reader.header().schema.sources.len();
        let ledger = ledger.filter(is_of_all);
        let mut ledger = ledger.ok_or("it does not say what the run's frames count")?;
        for source in &mut ledger.sources {
            source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
        }
        let listed = reader.listed_positions().map_err(failed)?;
        let mut positions = Positions::default();
        positions.add(&listed.map(|(_, positions)| positions).unwrap_or_default());
        let (header, age_ns) = (Some(reader.header().clone()), of_stream.age_ns);
        Ok(Self { header, age_ns, ledger, positions, ..nothing })
    }

    /// The same of one of several nodes, which has counted that many items.
    ///
    /// # Errors
    /// As [`NodeLeft::read`].
    fn read_part(left: LeftOfStream, items: u64, generation: u64) -> Result<Self, String> {
        if left.file.is_empty() {
            return Self::read(left, items, generation);
        }
        let (numbers, file) = node_shares::decode(&left.file)?;
        let left = LeftOfStream { file: file.to_vec(), ..left };
        Ok(Self { numbers, ..Self::read(left, items, generation)? })
    }

    /// Above those of all frames there, and not below the generation that was granted.
    fn epoch(&self) -> u32 {
        let before = self.header.as_ref().map_or(0, |header| header.epoch);
        let generation = u32::try_from(self.generation).unwrap_or(u32::MAX);
        before.saturating_add(1).max(generation)
    }

    fn place(self) -> ResumedPlace {
        let Self { sequence: end, ledger, frames, events, bytes, parts, .. } = self;
        ResumedPlace { end, ledger, frames, events, bytes, parts, ..ResumedPlace::default() }
    }
}

/// How long a node is asked: its files are closed meanwhile.
const ASK_WITHIN: Duration = Duration::from_secs(5);
/// How long a node is sent what it lacks of which nothing goes or becomes durable.
const SEND_WITHIN: Duration = Duration::from_secs(10);
const THERE_WITHIN: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
