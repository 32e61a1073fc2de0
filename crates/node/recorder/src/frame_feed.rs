//! Frames that are made elsewhere, on their way to a storage node: what a recorder does behind its
//! builder, for one source whose payload is there already, and one target. `catchment bench store`
//! measures the node with it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use catchment_agent::{Dial, Entropy};
use catchment_disk::Disk;
use catchment_encoder::{Coding, Column as _, Level};
use catchment_frame::{ColumnCoding, EventColumns, FrameInfo, Origin, stored_space};
use catchment_model::{Entry, Ledger, RunId, SourceId};
use catchment_net::Dialer;
use catchment_runner::{Idle, Park, Plan, Signal, SystemEntropy, Threads};
use catchment_sender::{StreamConfig, StreamSession};
use catchment_telemetry::{Clock, Priority};
use catchment_writer::{
    EventFrame, EventSource, Frame, FrameColumn, FrameEncoder, FrameMaker, FrameUnderWay, Next,
};

use crate::agents::{TargetPart, Way};
use crate::column_bytes::ColumnBytes;
use crate::config::RecorderConfig;
use crate::file::OfRun;
use crate::frame_counts::SourceCounts;
use crate::frames::FrameHead;
use crate::live::{Live, Snapshot, State};
use crate::recorder::{Events, RecorderError, new_run, system};
use crate::schema::schema;
use crate::spill::Identity;
use crate::store_link::StoreLink;
use crate::store_nodes::StoreParts;
use crate::store_target::{SpillParts, StoreTarget};
use crate::target_config::{NodeConfig, Place, TargetConfig, thread_name};
use crate::target_ledger::TargetLedger;
use crate::target_queue::{QueueParts, TargetQueue, target_queue};

/// A run of frames to a storage node.
pub struct FrameFeed {
    name: String,
    clock: Clock,
    live: Arc<Live>,
    queue: [TargetQueue; 1],
    /// What the target wakes.
    signal: Signal,
    threads: Threads,
    maker: FrameMaker,
    encoder: FrameEncoder<ColumnBytes>,
    ledger: u32,
    /// The number of the next frame, and the key of its first event.
    sequence: u64,
    key: u64,
    counted: Ledger,
}

impl FrameFeed {
    /// Begins a run of the first source of a configuration, whose first target is a storage node.
    ///
    /// # Errors
    /// A value that cannot work, or the system refuses.
    pub fn start(config: &RecorderConfig) -> Result<Self, RecorderError> {
        config.check()?;
        let refused = |text: &str| system("frames for a storage node")(io::Error::other(text));
        let targets = config.targets();
        let [target @ TargetConfig { place: Place::Node(node), .. }] = &targets[..] else {
            return Err(refused("expected one target, a storage node"));
        };
        let clock = Clock::start();
        let (run, name) = new_run(config, &clock)?;
        let live = Arc::new(Live::new(config));
        let schema = Arc::new(schema(config)?);
        let ids = EventColumns::of(&schema);
        let ledger = ids.ledger_increment.ok_or_else(|| refused("expected a source"))?;
        let of_target = (0, target, node);
        let (TargetPart { waker, way }, park) = node_part(config, of_target, (run, &name), &live)?;
        let Way::Node(mut node) = way else { unreachable!("the target is a node") };
        let signal = Signal::default();
        let parts = QueueParts {
            live: Arc::clone(&live),
            number: 0,
            selection: None,
            target: waker,
            frames: signal.waker(),
        };
        let (queue, input) = target_queue(config, parts);
        node.set_header(&OfRun::of(config).header(run, &schema, 0), &target.name);
        let agent = StoreTarget::new(input, TargetLedger::new(&live, 0), *node, 0);
        let events = Arc::new(Events(Arc::clone(&live)));
        let mut threads = Threads::new(clock, Arc::clone(&live.threads), events);
        let (priority, idle) = (Some(Priority::Data), Idle::default());
        let thread = thread_name(0, &target.name);
        let plan = Plan { name: thread, cpu: None, priority, idle, park, may_be_left: false };
        threads.spawn(agent, plan).map_err(system("a thread"))?;
        let maker = FrameMaker::new(&schema, true, |_| ColumnCoding::NONE);
        let (encoder, counted) = (FrameEncoder::new(None), Ledger::new(1));
        let (sequence, key) = (0, 0);
        Ok(Self {
            name,
            clock,
            live,
            queue: [queue],
            signal,
            threads,
            maker,
            encoder,
            ledger,
            sequence,
            key,
            counted,
        })
    }

    /// The run's name: that of its folder at the node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a frame of so many events of equal size, with that payload, into the target's queue;
    /// waits while there is no room.
    ///
    /// # Errors
    /// The node does not take the run.
    pub fn put(&mut self, events: u32, payload: &Arc<[u8]>) -> Result<(), RecorderError> {
        let (rows, bytes) = (u64::from(events), payload.len() as u64);
        let counts = [
            (Entry::PacketsReceived, rows),
            (Entry::PacketsAccepted, rows),
            (Entry::FragmentsReceived, rows),
            (Entry::FragmentBytesReceived, bytes),
        ];
        for (entry, count) in counts {
            self.live.ledger.add(SourceId(0), entry, count);
        }
        let keys: Vec<u64> = (self.key..self.key + rows).collect();
        self.key += rows;
        let count = keys.len();
        let (times_ns, flags) = (vec![self.clock.now_ns(); count], vec![0; count]);
        let each = bytes / rows.max(1);
        let mut lengths = vec![each as u32; count];
        if let Some(last) = lengths.last_mut() {
            *last = (bytes - each * (rows - 1)) as u32;
        }
        let source = EventSource {
            source: SourceId(0),
            lengths: &lengths,
            validity: None,
            expected: None,
            holes: &[],
            times: &[],
            pieces: &[],
            payload: ColumnBytes::Shared(Arc::clone(payload)),
        };
        let (sources, increments) = (vec![source], None);
        let frame =
            EventFrame { keys: &keys, times_ns: &times_ns, flags: &flags, sources, increments };
        let frame = self.maker.events(frame).expect("columns of every schema of events");
        let counts = SourceCounts { fragments: rows, bytes, ..SourceCounts::default() };
        let head = self.head(&frame, counts);
        self.queue[0].begin(&head);
        let admitted = loop {
            match TargetQueue::admitted(&mut self.queue) {
                Some(admitted) => break admitted,
                None => self.signal.park(PARK),
            }
        };
        if !admitted.takes {
            let why = match &*self.live.targets[0].state.lock() {
                State::Fault { reason } => reason.clone(),
                _ => "it takes nothing".to_owned(),
            };
            return Err(system("the storage node")(io::Error::other(why)));
        }
        self.pass_on(frame);
        Ok(())
    }

    /// Gives the target the columns of a frame that it takes.
    fn pass_on(&mut self, frame: Frame<ColumnBytes>) {
        let mut frame = FrameUnderWay::new(frame.columns);
        while let Next::Column(column) = self.encoder.next(&mut frame, Level::None) {
            let column = Arc::new(column);
            while !self.queue[0].has_room(&column) {
                self.signal.park(PARK);
            }
            self.queue[0].put(&column);
        }
        self.queue[0].end(&[]);
    }

    fn head(&mut self, frame: &Frame<ColumnBytes>, counts: SourceCounts) -> Arc<FrameHead> {
        let info = FrameInfo {
            sequence: self.sequence,
            origin: Origin { stream: self.live.beginning.stream, ..frame.info.origin },
            ..frame.info
        };
        self.sequence += 1;
        let now = self.live.ledger.snapshot();
        let increment = now.since(&self.counted);
        self.counted = now;
        let bytes_of =
            |column: &FrameColumn<ColumnBytes>| stored_space(column.bytes.raw_bytes() as u64);
        Arc::new(FrameHead {
            schema: Arc::clone(self.maker.schema()),
            info,
            columns: frame.columns.len() + 1,
            bytes_max: frame.columns.iter().map(bytes_of).sum(),
            list: Vec::new(),
            counts: vec![counts],
            channels: Arc::default(),
            keys: frame.info.rows,
            increment,
            positions: Arc::default(),
            ledger: self.ledger,
            position_column: None,
            small: Coding::None,
            is_last: false,
        })
    }

    /// Ends the run, and waits until all of it is durable at the node, or given up.
    ///
    /// # Errors
    /// The target's thread has failed.
    pub fn finish(mut self) -> Result<Snapshot, RecorderError> {
        self.live.is_ending.store(true, Relaxed);
        let last = Frame { info: FrameInfo::EMPTY, columns: Vec::new() };
        let head = self.head(&last, SourceCounts::default());
        self.queue[0].end_run(&head, Vec::new());
        match self.threads.join().failed {
            Some(name) => Err(RecorderError::Thread { name }),
            None => Ok(self.live.snapshot()),
        }
    }
}

/// The connection to a target's storage node, which is not there yet: the run begins without it.
pub(crate) fn node_part(
    config: &RecorderConfig,
    (number, target, node): (usize, &TargetConfig, &NodeConfig),
    of_run: (RunId, &str),
    live: &Live,
) -> Result<(TargetPart<Disk>, Box<dyn Park>), RecorderError> {
    let secret = |error: io::Error| RecorderError::Target { name: target.name.clone(), error };
    let mut peers = node.peers().map_err(secret)?.into_iter();
    let first = peers.next().expect("a storage node has an address");
    let first = Dialer::new(first).map_err(system("the storage link"))?;
    let (waker, readiness) = (first.waker(), first.readiness());
    let others: Vec<Dialer> = peers.map(|peer| first.beside(peer)).collect();
    let dials = std::iter::once(first).chain(others);
    let dials = dials.map(|dialer| Box::new(dialer) as Box<dyn Dial>).collect();
    let ports: Ports = (dials, || Box::new(SystemEntropy));
    let parts = store_parts(config, (number, target, node), of_run, live, ports)?;
    let way = Way::Node(Box::new(parts));
    Ok((TargetPart { waker, way }, Box::new(readiness)))
}

/// Connections to each node of a target, and what makes sources of random bits.
type Ports = (Vec<Box<dyn Dial>>, fn() -> Box<dyn Entropy>);

/// How the storage nodes of a target are reached over such connections.
pub(crate) fn store_parts(
    config: &RecorderConfig,
    (number, target, node): (usize, &TargetConfig, &NodeConfig),
    (run, name): (RunId, &str),
    live: &Live,
    (dials, entropy): Ports,
) -> Result<StoreParts, RecorderError> {
    let secret = |error: io::Error| RecorderError::Target { name: target.name.clone(), error };
    let token = node.token().map_err(secret)?;
    let mut random = entropy();
    let mut bits = || random.random_u64().map_err(system("random bits"));
    let variant = live.targets[number].variant.number;
    let hold_bytes = target.queue_bytes_max(config);
    let is_dealt = dials.len() > 1;
    let stream_config = StreamConfig {
        name: NodeConfig::stream_name(name, variant),
        program: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
        token,
        run: run.0,
        stream: config.stream,
        variant,
        buffer_bytes: hold_bytes,
        first: if is_dealt { 0 } else { live.beginning.sequence },
        is_dealt,
    };
    let identity = Identity {
        node: node.shown(),
        name: stream_config.name.clone(),
        run,
        stream: config.stream,
        variant,
        begins: stream_config.first,
    };
    let link = |(dial, address): (Box<dyn Dial>, &String)| {
        let config = stream_config.clone();
        let session = StreamSession::new(config, bits()?.max(1), bits()?).map_err(|reason| {
            RecorderError::System { what: "the storage link", source: io::Error::other(reason) }
        })?;
        Ok::<_, RecorderError>(StoreLink::new(dial, session, address.clone()))
    };
    let links = dials.into_iter().zip(&node.addresses).map(link);
    let links = links.collect::<Result<Vec<_>, _>>()?;
    let spill = target.spill.as_ref().zip(live.targets[number].spill.as_ref());
    let spill = spill.map(|(config, counts)| SpillParts {
        config: config.clone(),
        identity,
        header: Vec::new(),
        counts: Arc::clone(counts),
        entropy: entropy(),
    });
    Ok(StoreParts { run, links, hold_bytes, spill, end_wait_ns: config.end_wait_ns })
}

/// How long a feed sleeps at most until it looks again.
const PARK: Duration = Duration::from_millis(5);
