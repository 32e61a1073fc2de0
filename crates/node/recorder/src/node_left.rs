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
//! Frames in the node's spill are forwarded first (spill/forward.rs), if they are few and the node
//! takes them; otherwise a new run begins, and is spilled. Nodes that share the frames are not
//! asked yet: what one has and another one lacks would have to be found out number by number.

use std::collections::VecDeque;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_agent::{Dial, Entropy as _};
use catchment_frame::{FileHeader, FileReader, FrameError, Positions, Superseded};
use catchment_model::{Entry, Ledger, RunId};
use catchment_net::Dialer;
use catchment_runner::SystemEntropy;
use catchment_sender::{LeftOfStream, StreamConfig, StreamSession};
use catchment_storage::{CaughtUp, Copies, Elsewhere, Resumable, ResumedPlace};
use catchment_telemetry::Clock;

use crate::config::RecorderConfig;
use crate::file::OfRun;
use crate::node_asking::{Failed, Talk, answer};
use crate::recorder::{RecorderError, system};
use crate::schema::schema;
use crate::selection::Selection;
use crate::spill::{SpillConfig, outgoing};
use crate::store_feed::Outgoing;
use crate::store_link::StoreLink;
use crate::target_config::{NodeConfig, Place, TargetConfig, Variant};

/// A storage node that can be asked for an interrupted run.
pub(crate) struct AskedNode {
    node: NodeConfig,
    /// The index of its target.
    pub(crate) target: usize,
    has_spill: bool,
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
    sequence: u64,
    /// The writer generation that was granted to this session.
    generation: u64,
    ledger: Ledger,
    positions: Positions,
    of_stream: LeftOfStream,
}

impl AskedNode {
    /// The storage nodes that a run of that name needs.
    ///
    /// # Errors
    /// One of them cannot say where the run goes on.
    pub(crate) fn all_of(
        config: &RecorderConfig,
        targets: &[TargetConfig],
        name: &str,
    ) -> Result<Vec<Self>, RecorderError> {
        let refused = |why| RecorderError::NodeTarget { name: name.to_owned(), why };
        let mut nodes = Vec::new();
        for (number, target) in targets.iter().enumerate().filter(|(_, target)| target.required) {
            nodes.extend(target.place.node().map(|node| (number, node, &target.spill)));
        }
        if nodes.iter().any(|(_, node, _)| node.addresses.len() > 1) {
            return Err(refused("several storage nodes share its frames"));
        }
        if nodes.len() > 1 && !needs_folders(targets) {
            return Err(refused("several targets are storage nodes, and none is a folder"));
        }
        let mut all = Vec::with_capacity(nodes.len());
        for (target, node, spill) in nodes {
            let asked = Self::of(config, (target, node), name)?;
            let waits = |spill: &SpillConfig| !asked.is_forwarded(&spill.folder);
            if spill.as_ref().is_some_and(waits) {
                return Err(refused("a part of it is in the spill of its storage node"));
            }
            all.push(Self { has_spill: spill.is_some(), ..asked });
        }
        Ok(all)
    }

    fn of(
        config: &RecorderConfig,
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
        Ok(Self { node, target, has_spill: false, run, run_name, name, stream, variant, header })
    }

    /// Whether nothing of the stream is in a spill, or soon nothing will be: the program forwards
    /// little of it in a moment, if the node is there.
    fn is_forwarded(&self, spill: &Path) -> bool {
        let folder = spill.join(&self.name);
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let bytes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
        let is_little = bytes.sum::<u64>() <= SPILLED_BYTES_MAX;
        let (until, mut looked) = (Instant::now() + FORWARD_WITHIN, None::<Instant>);
        while folder.exists() && is_little && Instant::now() < until {
            if looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
                if !self.is_there() {
                    break;
                }
                looked = Some(Instant::now());
            }
            std::thread::sleep(FORWARD_POLL);
        }
        !folder.exists()
    }

    /// Whether something listens where the node is.
    fn is_there(&self) -> bool {
        let addresses = self.node.addresses[0].to_socket_addrs().into_iter().flatten();
        addresses.into_iter().any(|at| TcpStream::connect_timeout(&at, THERE_WITHIN).is_ok())
    }

    /// Asks it. Frames from `below` on are cut off at the node first.
    ///
    /// # Errors
    /// It does not answer, or the run cannot go on with what it says.
    pub(crate) fn ask(&self, below: u64) -> Result<NodeLeft, RecorderError> {
        let mut link = self.link(0)?;
        match below {
            u64::MAX => link.session.ask(),
            below => link.session.ask_below(below),
        }
        let mut talk = Talk::new(link);
        let of_stream = until_ended(&mut talk, ASK_WITHIN, |link| {
            let (moved, left) = answer(link)?;
            Ok((0, moved, left))
        });
        let left = of_stream.and_then(|of_stream| self.read(of_stream, &talk.link.session));
        left.map_err(|why| self.failed(why))
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
        let left = NodeLeft::read(of_stream, session.next(), session.generation());
        let left = left.map_err(|why| (why, false))?;
        let header = left.header.as_ref().unwrap_or(&self.header);
        match (header.run, header.stream, header.variant) == (self.run, self.stream, self.variant) {
            true => Ok(left),
            false => Err(("it describes another stream".to_owned(), false)),
        }
    }

    fn failed(&self, (why, may_pass): Failed) -> RecorderError {
        let (name, address) = (self.name.clone(), self.node.shown());
        // With a spill, a new run is recorded while the node is away.
        RecorderError::NodeLeft { name, address, why, may_pass: may_pass && !self.has_spill }
    }

    /// A session of which `first` is the first frame.
    fn link(&self, first: u64) -> Result<StoreLink, RecorderError> {
        let failed = |error| self.failed((system("the storage link")(error).to_string(), true));
        let mut random = SystemEntropy;
        let mut bits = || random.random_u64().map_err(failed);
        let peer = self.node.peers().map_err(failed)?.swap_remove(0);
        let dialer = Dialer::new(peer).map_err(failed)?;
        self.link_over(Box::new(dialer), (bits()?.max(1), bits()?), first)
    }

    /// The same over these connections, with that number, and a seed that draws its waits.
    pub(crate) fn link_over(
        &self,
        dial: Box<dyn Dial>,
        (session, seed): (u64, u64),
        first: u64,
    ) -> Result<StoreLink, RecorderError> {
        let failed = |error| self.failed((system("the storage link")(error).to_string(), true));
        let config = StreamConfig {
            name: self.name.clone(),
            program: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            token: self.node.token().map_err(failed)?,
            run: self.run.0,
            stream: self.stream,
            variant: self.variant,
            buffer_bytes: 0,
            first,
            is_dealt: false,
        };
        let session = StreamSession::new(config, session, seed);
        let session = session.map_err(|reason| failed(io::Error::other(reason)))?;
        Ok(StoreLink::new(dial, session, self.node.addresses[0].clone()))
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
            return Err(self.failed((why, true)));
        }
        from.positions.add(left.positions.records());
        from.places[self.target] = ResumedPlace { caught_up, ..left.place() };
        Ok(())
    }

    /// Sends it what it lacks.
    fn send(&self, from: &Resumable) -> Result<CaughtUp, RecorderError> {
        let unread = |why: String| self.failed((format!("what it lacks: {why}"), true));
        let ResumedPlace { end, caught_up: CaughtUp { place, .. }, .. } = from.places[self.target];
        let (epoch, superseded) = (from.epoch, from.superseded.clone());
        let header = FileHeader { epoch, superseded, ..self.header.clone() };
        let mut link = self.link(end)?;
        link.session.made(from.sequence);
        link.header = header.encode();
        let copies =
            from.lacking(self.target, header).map_err(|error| unread(error.to_string()))?;
        let (frames, bytes) =
            send_copies(link, copies, from.sequence).map_err(|why| self.failed(why))?;
        Ok(CaughtUp { place, frames, bytes })
    }

    /// How to go on with a run of which it has all frames, or none at all, and which needs no other
    /// target.
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
    /// No target is a storage node that the run needs, or it needs folders, too.
    pub fn new(
        config: &RecorderConfig,
        name: &str,
        dial: Box<dyn Dial>,
        (session, seed): (u64, u64),
    ) -> Result<Self, RecorderError> {
        let targets = config.targets();
        assert!(!needs_folders(&targets), "a run that needs no folder");
        let asked = AskedNode::all_of(config, &targets, name)?.pop().expect("a storage node");
        let mut link = asked.link_over(dial, (session, seed), 0)?;
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

/// Sends frames over a link, until all below `end` are durable. Returns how many, and their bytes.
fn send_copies(link: StoreLink, mut copies: Copies, end: u64) -> Result<(u64, u64), Failed> {
    let unread = |error: &dyn std::fmt::Display| (format!("what it lacks: {error}"), true);
    let mut frames: VecDeque<Outgoing> = VecDeque::new();
    let (mut was_open, mut count, mut bytes, mut sent_bytes) = (false, 0, 0, 0);
    until_ended(&mut Talk::new(link), SEND_WITHIN, |link| {
        let durable = link.session.durable();
        if durable >= end {
            return Ok((0, 0, Some((count, bytes))));
        }
        match link.session.is_open() {
            true => was_open = true,
            false if !was_open => return Ok((durable, 0, None)),
            // What it has by now is asked for at the next attempt.
            false => return Err(("the connection broke".to_owned(), true)),
        }
        let sent = link.feed.sent_frames().min(frames.len());
        frames.drain(..sent);
        link.feed.released(sent);
        if frames.is_empty()
            && !link.feed.is_within_frame()
            && let Some(file) = copies.next_file().map_err(|error| unread(&error))?
        {
            let reader = FileReader::open(&file).map_err(|error| unread(&error))?;
            let frame = outgoing(&reader, 0).map_err(|error| unread(&error))?;
            (count, bytes) = (count + 1, bytes + frame.bytes());
            frames.push_back(frame);
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
        let mut positions = Positions::default();
        if of_stream.file.is_empty() {
            if sequence > 0 {
                return Err(format!("it has frames below {sequence}, and does not say of what"));
            }
            let (header, age_ns, ledger) = (None, 0, Ledger::new(0));
            return Ok(Self { header, age_ns, sequence, generation, ledger, positions, of_stream });
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
        positions.add(&listed.map(|(_, positions)| positions).unwrap_or_default());
        let (header, age_ns) = (Some(reader.header().clone()), of_stream.age_ns);
        drop(reader);
        Ok(Self { header, age_ns, sequence, generation, ledger, positions, of_stream })
    }

    /// Above those of all frames there, and not below the generation that was granted.
    fn epoch(&self) -> u32 {
        let before = self.header.as_ref().map_or(0, |header| header.epoch);
        let generation = u32::try_from(self.generation).unwrap_or(u32::MAX);
        before.saturating_add(1).max(generation)
    }

    fn place(self) -> ResumedPlace {
        let Self { sequence: end, ledger, of_stream, .. } = self;
        let LeftOfStream { frames, events, file_bytes: bytes, .. } = of_stream;
        ResumedPlace { end, ledger, frames, events, bytes, ..ResumedPlace::default() }
    }
}

/// How long a node is asked: its files are closed meanwhile.
const ASK_WITHIN: Duration = Duration::from_secs(5);
/// How long a node is sent what it lacks of which nothing goes or becomes durable.
const SEND_WITHIN: Duration = Duration::from_secs(10);
/// How long a run waits until what it has spilled is forwarded, and how much that may be: otherwise
/// a new run begins.
const FORWARD_WITHIN: Duration = Duration::from_secs(10);
const FORWARD_POLL: Duration = Duration::from_millis(100);
/// How often it is looked meanwhile whether the node is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const THERE_WITHIN: Duration = Duration::from_secs(1);
const SPILLED_BYTES_MAX: u64 = 256 << 20;
const POLL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use catchment_frame::{Position, close_behind};

    use super::*;
    use crate::config::SourceConfig;

    fn config(targets: Vec<TargetConfig>) -> RecorderConfig {
        let source = SourceConfig::over_session("camera", "127.0.0.1:7300".parse().unwrap());
        let run_id = Some(RunId([7; 16]));
        RecorderConfig { targets, run_id, ..RecorderConfig::new("".into(), vec![source]) }
    }

    fn node() -> TargetConfig {
        let place = Place::Node(NodeConfig::at("127.0.0.1:7100"));
        TargetConfig { place, ..TargetConfig::folder("node", "".into()) }
    }

    fn asked(config: &RecorderConfig) -> Result<Vec<(usize, String)>, String> {
        let targets = config.targets();
        let all =
            AskedNode::all_of(config, &targets, "run-1").map_err(|error| error.to_string())?;
        Ok(all.into_iter().map(|one| (one.target, one.name)).collect())
    }

    #[test]
    fn each_required_node_that_has_all_frames_is_asked() {
        let folder = || TargetConfig::folder("here", "runs".into());
        let unneeded = || TargetConfig { required: false, ..node() };
        let name = || "run-1".to_owned();
        for (targets, expected) in [
            (vec![node()], vec![(0, name())]),
            (vec![folder()], vec![]),
            (vec![folder(), node()], vec![(1, name())]),
            (vec![unneeded(), folder()], vec![]),
            (vec![node(), folder(), node()], vec![(0, name()), (2, name())]),
        ] {
            assert_eq!(asked(&config(targets)), Ok(expected));
        }
        let several = ["a:1", "b:1"].map(str::to_owned).to_vec();
        let several = Place::Node(NodeConfig { addresses: several, ..NodeConfig::at("") });
        let spilled = tempfile::tempdir().unwrap();
        let spill = Some(SpillConfig { folder: spilled.path().to_owned(), bytes_max: 1 << 30 });
        let spilling = || TargetConfig { spill: spill.clone(), ..node() };
        assert_eq!(asked(&config(vec![spilling()])), Ok(vec![(0, name())]));
        std::fs::create_dir(spilled.path().join("run-1")).unwrap();
        for (targets, why) in [
            (vec![node(), node()], "none is a folder"),
            (vec![TargetConfig { place: several, ..node() }, folder()], "share its frames"),
            (vec![spilling()], "is in the spill"),
        ] {
            let refused = asked(&config(targets)).expect_err(why);
            assert!(refused.starts_with("cannot continue run-1: ") && refused.contains(why));
        }
        let unknown = RecorderConfig { run_id: None, ..config(vec![node()]) };
        assert!(asked(&unknown).is_err_and(|why| why.contains("identity")));
    }

    /// What a node says of a run with one source and frames below number 12, in epoch 4.
    fn said() -> LeftOfStream {
        let config = config(vec![node()]);
        let schema = crate::schema::schema(&config).unwrap().into();
        let header = OfRun::of(&config).header(RunId([7; 16]), &schema, 0);
        let header = FileHeader { epoch: 4, locator: false, ..header };
        let mut ledger = Ledger::new(1);
        ledger.sources[0][Entry::FragmentsReceived] = 30;
        ledger.sources[0][Entry::FragmentsRecorded] = 30;
        let mut positions = Positions::default();
        let what = Position::LINK;
        positions.add(&[Position { source: 0, what, session: 5, position: 30 }]);
        let mut file = header.encode();
        let reader = FileReader::open(&file).unwrap();
        let closing = close_behind(&reader, 0, (&ledger, &ledger), &positions).unwrap();
        drop(reader);
        file.resize(closing.offset as usize, 0);
        file.extend_from_slice(&closing.bytes);
        let (has_ended, age_ns) = (false, 1);
        LeftOfStream { file, has_ended, age_ns, frames: 11, events: 9, file_bytes: 4_096 }
    }

    #[test]
    fn the_run_goes_on_where_the_node_says_above_its_epoch_and_generation() {
        for (generation, epoch) in [(2, 5), (9, 9)] {
            let here = TargetConfig::folder("here", "runs".into());
            let here = TargetConfig { required: false, ..here };
            let config = config(vec![node(), here]);
            let targets = config.targets();
            let [asked] = &AskedNode::all_of(&config, &targets, "run-1").unwrap()[..] else {
                panic!("one node")
            };
            let left = NodeLeft::read(said(), 12, generation).unwrap();
            let elsewhere = asked.elsewhere(&left);
            assert_eq!((elsewhere.end, elsewhere.header.epoch), (12, epoch - 1));
            let from = asked.resumable(left, &targets);
            assert_eq!((from.run, from.sequence, from.epoch), (RunId([7; 16]), 12, epoch));
            assert_eq!(from.superseded, [Superseded { stream: 0, epoch, sequence: 12 }]);
            assert_eq!(from.positions.of(0, Position::LINK, 5), Some(30));
            let [place, other] = &from.places[..] else { panic!("two places") };
            assert!(other.left_out.is_some() && place.left_out.is_none());
            assert_eq!((place.end, place.frames, place.events), (12, 11, 9));
            let counts = &place.ledger.sources[0];
            assert_eq!(counts[Entry::FragmentsRecorded], 30);
            assert_eq!(counts[Entry::FragmentsDurable], 30);
        }
    }

    #[test]
    fn whatever_a_node_says_is_a_description_or_refused() {
        let why = |left: LeftOfStream| NodeLeft::read(left, 12, 1).map(drop).unwrap_err();
        assert!(why(LeftOfStream::default()).contains("frames below 12"));
        let nothing = NodeLeft::read(LeftOfStream::default(), 0, 3).unwrap();
        assert_eq!((nothing.header.is_none(), nothing.epoch()), (true, 3));
        let ended = LeftOfStream { has_ended: true, ..said() };
        assert_eq!(why(ended), "the run has ended there");
        let file = said().file;
        // Without its table nothing is known of what was counted.
        for bytes in 0..file.len() {
            let cut = LeftOfStream { file: file[..bytes].to_vec(), ..said() };
            assert!(NodeLeft::read(cut, 12, 1).is_err(), "{bytes} bytes");
        }
        let mut random = catchment_fixtures::Random::new(1);
        for _ in 0..2_000 {
            let mut file = file.clone();
            let at = random.index(file.len());
            file[at] ^= 1 << random.index(8);
            // It may be in bytes that say nothing.
            let _left = NodeLeft::read(LeftOfStream { file, ..said() }, 12, 1);
        }
    }
}
