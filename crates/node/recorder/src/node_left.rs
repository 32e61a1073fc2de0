//! An interrupted run of which a storage node has all frames: what the node says of it
//! (docs/spec/storage-link.md, section 5).
//!
//! The node closes its files and describes them as a frame file without frames: their header, the
//! sum of what their frames count, and how far sources were decided. Where frames go on is the
//! position that it grants. The epoch is above those of all frames, and not below the writer
//! generation of the session that asks: that is on the node's disk before it is granted, so that
//! no epoch is given twice, also if this recorder dies before a frame is durable.
//!
//! Of several nodes, or beside another target, the run does not go on yet: what one has and another
//! one lacks would have to be sent from here.

use std::time::{Duration, Instant};

use catchment_agent::{Dial, Entropy as _};
use catchment_frame::{FileHeader, FileReader, FrameError, Positions, Superseded};
use catchment_model::{Entry, Ledger, RunId};
use catchment_net::Dialer;
use catchment_runner::SystemEntropy;
use catchment_sender::{LeftOfStream, StreamConfig, StreamSession};
use catchment_storage::{Resumable, ResumedPlace};
use catchment_telemetry::Clock;

use crate::config::RecorderConfig;
use crate::node_asking::{Answer, Asking};
use crate::recorder::{RecorderError, system};
use crate::store_link::StoreLink;
use crate::target_config::{NodeConfig, Place, TargetConfig, Variant};

/// A storage node that can be asked for an interrupted run.
pub(crate) struct AskedNode {
    node: NodeConfig,
    run: RunId,
    /// Of the run's folder at the node.
    name: String,
    stream: u32,
    variant: u32,
}

/// What it has of the run.
pub(crate) struct NodeLeft {
    pub(crate) header: FileHeader,
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
    /// The storage node that has all of a run of that name; none if the run has folders alone.
    ///
    /// # Errors
    /// Others have a part of it.
    pub(crate) fn of(
        config: &RecorderConfig,
        targets: &[TargetConfig],
        name: &str,
    ) -> Result<Option<Self>, RecorderError> {
        let refused = |why| Err(RecorderError::NodeTarget { name: name.to_owned(), why });
        let is_node = |target: &TargetConfig| matches!(target.place, Place::Node(_));
        if !targets.iter().any(is_node) {
            return Ok(None);
        }
        let [TargetConfig { place: Place::Node(node), required, spill, .. }] = targets else {
            return refused("a storage node is not its only target");
        };
        match (node.addresses.len(), spill) {
            _ if !required => return refused("its storage node is not required"),
            (1, None) => {}
            (1, Some(_)) => return refused("a part of it may be in the spill of its storage node"),
            _ => return refused("several storage nodes share its frames"),
        }
        let Some(run) = config.run_id else { return refused("its identity is not known") };
        let (node, stream) = (node.clone(), config.stream);
        let variant = Variant::of(config)[0].number;
        let name = NodeConfig::stream_name(name, variant);
        Ok(Some(Self { node, run, name, stream, variant }))
    }

    /// Asks it.
    ///
    /// # Errors
    /// It does not answer, or has nothing with which the run could go on.
    pub(crate) fn ask(&self) -> Result<NodeLeft, RecorderError> {
        let address = &self.node.addresses[0];
        let failed = |(why, may_pass): (String, bool)| {
            let (name, address) = (self.name.clone(), address.clone());
            RecorderError::NodeLeft { name, address, why, may_pass }
        };
        let link = self.dial().map_err(|error| failed((error.to_string(), true)))?;
        let mut asking = Asking::new(link);
        let of_stream = answer(&mut asking).map_err(failed)?;
        self.read(of_stream, &asking.link.session).map_err(failed)
    }

    /// Reads what the node has said in that session.
    ///
    /// # Errors
    /// The run cannot go on with that, and whether it can later.
    pub(crate) fn read(
        &self,
        of_stream: LeftOfStream,
        session: &StreamSession,
    ) -> Result<NodeLeft, (String, bool)> {
        let left = NodeLeft::read(of_stream, session.next(), session.generation());
        let left = left.map_err(|why| (why, false))?;
        let of = (left.header.run, left.header.stream, left.header.variant);
        match of == (self.run, self.stream, self.variant) {
            true => Ok(left),
            false => Err(("it describes another stream".to_owned(), false)),
        }
    }

    fn dial(&self) -> Result<StoreLink, RecorderError> {
        let failed = |error| system("the storage link")(error);
        let mut random = SystemEntropy;
        let mut bits = || random.random_u64().map_err(system("random bits"));
        let peer = self.node.peers().map_err(failed)?.swap_remove(0);
        let dialer = Dialer::new(peer).map_err(failed)?;
        self.link(Box::new(dialer), (bits()?.max(1), bits()?))
    }

    /// A link over these connections, with a session of that number, which asks.
    pub(crate) fn link(
        &self,
        dial: Box<dyn Dial>,
        (session, seed): (u64, u64),
    ) -> Result<StoreLink, RecorderError> {
        let failed = |error| system("the storage link")(error);
        let config = StreamConfig {
            name: self.name.clone(),
            program: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            token: self.node.token().map_err(failed)?,
            run: self.run.0,
            stream: self.stream,
            variant: self.variant,
            buffer_bytes: 0,
            first: 0,
            is_dealt: false,
        };
        let session = StreamSession::new(config, session, seed);
        let mut session = session.map_err(|reason| failed(std::io::Error::other(reason)))?;
        session.ask();
        Ok(StoreLink::new(dial, session, self.node.addresses[0].clone()))
    }
}

/// Asks until there is an answer and the session has ended.
fn answer(asking: &mut Asking) -> Answer {
    let (clock, until) = (Clock::start(), Instant::now() + ASK_WITHIN);
    loop {
        let (moved, answer) = asking.work(clock.now_ns());
        if let Some(answer) = answer {
            return answer;
        }
        if Instant::now() >= until {
            return asking.give_up();
        }
        if moved == 0 {
            std::thread::sleep(ASK_POLL);
        }
    }
}

impl NodeLeft {
    /// Reads what a node has said: it may be anything.
    ///
    /// # Errors
    /// It has nothing of the run, or the run has ended there, or it is no description.
    fn read(of_stream: LeftOfStream, sequence: u64, generation: u64) -> Result<Self, String> {
        if of_stream.file.is_empty() {
            return Err("it has nothing of the run".to_owned());
        }
        if of_stream.has_ended {
            return Err("the run has ended there".to_owned());
        }
        let failed = |error: FrameError| format!("what it says of the run: {error}");
        let reader = FileReader::open(&of_stream.file).map_err(failed)?;
        let ledger = reader.frames_ledger().map_err(failed)?;
        let mut ledger = ledger.ok_or("it does not say what the run's frames count")?;
        for source in &mut ledger.sources {
            source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
        }
        let mut positions = Positions::default();
        let listed = reader.listed_positions().map_err(failed)?;
        positions.add(&listed.map(|(_, positions)| positions).unwrap_or_default());
        let (header, age_ns) = (reader.header().clone(), of_stream.age_ns);
        drop(reader);
        Ok(Self { header, age_ns, sequence, generation, ledger, positions, of_stream })
    }

    /// How to go on with it.
    pub(crate) fn resumable(self, name: &str) -> Resumable {
        let Self { header, sequence, generation, ledger, positions, of_stream, .. } = self;
        let generation = u32::try_from(generation).unwrap_or(u32::MAX);
        let epoch = header.epoch.saturating_add(1).max(generation);
        let mut superseded = header.superseded;
        superseded.push(Superseded { stream: header.stream, epoch, sequence });
        let LeftOfStream { frames, events, file_bytes: bytes, .. } = of_stream;
        let none = ResumedPlace::default();
        let place = ResumedPlace { end: sequence, ledger, frames, events, bytes, ..none };
        Resumable {
            run: header.run,
            name: name.to_owned(),
            run_number: header.run_number,
            sequence,
            epoch,
            superseded,
            positions,
            places: vec![place],
            cut_off: None,
        }
    }
}

/// How long a node is asked: its files are closed meanwhile.
const ASK_WITHIN: Duration = Duration::from_secs(5);
const ASK_POLL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use catchment_frame::{Position, close_behind};

    use super::*;
    use crate::config::SourceConfig;
    use crate::file::OfRun;
    use crate::spill::SpillConfig;

    fn config(targets: Vec<TargetConfig>) -> RecorderConfig {
        let source = SourceConfig::over_session("camera", "127.0.0.1:7300".parse().unwrap());
        let run_id = Some(RunId([7; 16]));
        RecorderConfig { targets, run_id, ..RecorderConfig::new("".into(), vec![source]) }
    }

    fn node() -> TargetConfig {
        let place = Place::Node(NodeConfig::at("127.0.0.1:7100"));
        TargetConfig { place, ..TargetConfig::folder("node", "".into()) }
    }

    fn refused(config: &RecorderConfig) -> Option<String> {
        let targets = config.targets();
        let asked = AskedNode::of(config, &targets, "run-1");
        asked.err().map(|error| error.to_string())
    }

    #[test]
    fn only_a_run_of_one_storage_node_alone_is_asked_for() {
        let alone = config(vec![node()]);
        let asked = AskedNode::of(&alone, &alone.targets, "run-1").unwrap();
        assert_eq!(asked.map(|asked| asked.name), Some("run-1".to_owned()));
        let folder = config(vec![TargetConfig::folder("here", "runs".into())]);
        assert!(AskedNode::of(&folder, &folder.targets, "run-1").unwrap().is_none());
        let beside = TargetConfig::folder("here", "runs".into());
        let several = ["a:1", "b:1"].map(str::to_owned).to_vec();
        let several = Place::Node(NodeConfig { addresses: several, ..NodeConfig::at("") });
        let spill = Some(SpillConfig { folder: "spill".into(), bytes_max: 1 << 30 });
        for (targets, why) in [
            (vec![node(), beside], "is not its only target"),
            (vec![TargetConfig { place: several, ..node() }], "share its frames"),
            (vec![TargetConfig { spill, ..node() }], "may be in the spill"),
            (vec![TargetConfig { required: false, ..node() }], "is not required"),
        ] {
            let refused = refused(&config(targets)).expect("why");
            assert!(refused.starts_with("cannot continue run-1: ") && refused.contains(why));
        }
        let unknown = RecorderConfig { run_id: None, ..config(vec![node()]) };
        assert!(refused(&unknown).is_some_and(|why| why.contains("identity")));
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
            let left = NodeLeft::read(said(), 12, generation).unwrap();
            let from = left.resumable("run-1");
            assert_eq!((from.run, from.sequence, from.epoch), (RunId([7; 16]), 12, epoch));
            assert_eq!(from.superseded, [Superseded { stream: 0, epoch, sequence: 12 }]);
            assert_eq!(from.positions.of(0, Position::LINK, 5), Some(30));
            let [place] = &from.places[..] else { panic!("one place") };
            assert_eq!((place.end, place.frames, place.events), (12, 11, 9));
            let counts = &place.ledger.sources[0];
            assert_eq!(counts[Entry::FragmentsRecorded], 30);
            assert_eq!(counts[Entry::FragmentsDurable], 30);
        }
    }

    #[test]
    fn whatever_a_node_says_is_a_description_or_refused() {
        let why = |left: LeftOfStream| NodeLeft::read(left, 12, 1).map(drop).unwrap_err();
        assert_eq!(why(LeftOfStream::default()), "it has nothing of the run");
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
