//! The parts of a recorder's agents: ingress, memory, queues and builders, for event sources and
//! for channel links.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use catchment_agent::{Agent, Ingress};
use catchment_builder::{BuilderConfig, Fragment, SourceRole};
use catchment_model::SourceId;
use catchment_net::{Network, TcpPort, TlsRule};
use catchment_telemetry::FillLevel;
use catchment_wire::link::{Channel, Link};
use catchment_wire::session::Service;
use catchment_wire::{Protocol as _, Transport};
use rtrb::{Producer, RingBuffer};

use crate::beginning::Beginning;
use crate::build::{Kind, Pausable, Pipeline, Restarted, Ring};
use crate::builder_config::{builder_config, continues, link_builder_config, link_number_config};
use crate::config::{RecorderConfig, SourceConfig};
use crate::destinations::{Destination, SenderConfig, SenderSource};
use crate::ingest::{Ingest, SourceMemory};
use crate::intake::Intake;
use crate::link_access::Listener;
use crate::links::{Lane, LinkConfig};
use crate::live::Live;
use crate::match_rule::{Rule, RuleConfig};
use crate::pool::{ChunkPool, ChunkUse, Held};
use crate::receive::AllowList;
use crate::receive::Receive;
use crate::recorder::RecorderError;
use crate::sessions::OfRun;
use crate::sizes::Sizes;
use crate::standby::{Home, Lent, Place};
use crate::tape::Tape;
use crate::train_room::TrainRoom;
use crate::unread::Unread;

/// All that the agents need, before they run.
pub(crate) struct Wiring {
    pub(crate) pipelines: Vec<Pipeline>,
    pub(crate) receives: Vec<Box<dyn Agent>>,
    pub(crate) pools: Pools,
    pub(crate) channels: Option<Channels>,
}

/// The memory in which payload waits.
#[derive(Clone, Default)]
pub(crate) struct Pools {
    pub(crate) events: Option<Arc<ChunkPool>>,
    pub(crate) channels: Option<Arc<ChunkPool>>,
}

/// The facts about channels that the frames agent needs.
pub(crate) struct Channels {
    pub(crate) pool: Arc<ChunkPool>,
    pub(crate) lanes: Vec<Lane>,
}

/// Where the messages of sources or of a link arrive, and their permitted networks.
#[derive(Clone, Debug)]
pub struct Endpoint<'a> {
    /// The numbers of its sources in the ledger.
    pub numbers: Vec<usize>,
    /// What carries their messages.
    pub transport: Transport,
    /// Where they arrive.
    pub address: SocketAddr,
    /// What its sessions are for, if it takes sessions.
    pub service: Service,
    /// The networks from which it may send; empty: any.
    pub from: &'a [Network],
    /// Which of its connections must be under TLS, if it takes sessions.
    pub tls: TlsRule,
    /// Where else its sessions connect.
    pub further: &'a [Listener],
    /// Whether the sender of each datagram is read.
    pub names_senders: bool,
}

impl Endpoint<'_> {
    /// Where its connections come, those of sessions under TLS if they like.
    pub(crate) fn tcp_port(&self) -> TcpPort {
        let further = self.further.iter().map(|listener| listener.address);
        TcpPort {
            addresses: std::iter::once(self.address).chain(further).collect(),
            takes_tls: self.transport == Transport::Sessions,
        }
    }
}

/// Gives each receive agent its ingress.
pub trait Bind {
    /// An ingress of these ports, in their order, which names the senders of those that ask for it.
    ///
    /// # Errors
    /// A port that cannot be bound.
    fn bind(&mut self, ports: &[Endpoint<'_>]) -> Result<Box<dyn Ingress>, RecorderError>;
}

/// The input for wiring one kind of sources.
struct Parts<'a> {
    config: &'a RecorderConfig,
    live: &'a Arc<Live>,
    stop: &'a Arc<AtomicBool>,
    of_run: &'a dyn Fn() -> OfRun,
}

impl Wiring {
    /// Makes memory, queues and builders, and binds the endpoints.
    pub(crate) fn of(
        config: &RecorderConfig,
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
        of_run: &dyn Fn() -> OfRun,
        bind: &mut impl Bind,
    ) -> Result<Self, RecorderError> {
        let mut wiring = Self {
            pipelines: Vec::new(),
            receives: Vec::new(),
            pools: Pools::default(),
            channels: None,
        };
        let parts = Parts { config, live, stop, of_run };
        if !config.sources.is_empty() {
            wiring.pools.events =
                Some(wiring.group(&parts, bind, event_sources(config, &live.beginning))?);
        }
        if !config.links.is_empty() {
            let (lanes, chunk_lanes) = config.lanes();
            let group = channel_links(config, &live.beginning, &lanes, &chunk_lanes);
            let pool = wiring.group(&parts, bind, group)?;
            wiring.pools.channels = Some(Arc::clone(&pool));
            wiring.channels = Some(Channels { pool, lanes });
        }
        Ok(wiring)
    }

    /// Makes the memory, queues, receive agents and builder of a group. Returns the pool of its
    /// chunks.
    fn group(
        &mut self,
        parts: &Parts<'_>,
        bind: &mut impl Bind,
        group: Group<'_>,
    ) -> Result<Arc<ChunkPool>, RecorderError> {
        let Group { ring_name, threads, endpoints, senders, .. } = &group;
        let chunk_lanes = group.chunk_sources.len();
        let mut memory = parts.memory(&group)?;
        if group.kind == Kind::Events {
            memory.reference = parts.config.reference().map(|source| source as u32);
        }
        let waiting = group.builder.pausable.iter().filter(|&&waits| waits).count();
        let (mut rings, mut unread) = (Vec::new(), Unread::new(parts.config.build.timeout_ns));
        let threads = (*threads).min(senders.len());
        for thread in 0..threads {
            let own = || (thread..senders.len()).step_by(threads);
            let endpoints: Vec<Endpoint<'_>> =
                own().map(|index| endpoints[index].clone()).collect();
            let standby = &parts.config.standby;
            let place = Place::of(self.receives.len(), &endpoints);
            let home = standby.as_ref().zip(place).map(|(standby, place)| standby.home(place));
            let (producer, fill) =
                parts.ring(&mut rings, &format!("{ring_name}descriptors {thread}"));
            // A frame of channels holds what all links bring for its time, whatever each brings.
            let is_event_link =
                |sender: &SenderConfig| sender.is_connection() && group.kind == Kind::Events;
            let share = |sender: &SenderConfig| match is_event_link(sender) {
                true => memory.pool.share_of_waiting(waiting, sender.fragment_bytes_max()),
                false => memory.pool.share(),
            };
            let own_senders = own().map(|index| &senders[index]);
            let accounts = own_senders.flat_map(|sender| {
                let share = share(sender);
                sender.sources.iter().map(move |source| (source.number, share))
            });
            let numbers = own().flat_map(|index| &senders[index].sources).map(|one| one.number);
            let look = unread.add(numbers);
            let ingest = Ingest::new(accounts, chunk_lanes, (producer, fill, look), &memory);
            let timeout_ns = parts.config.build.timeout_ns;
            let senders = own().map(|index| senders[index].clone()).collect();
            let mut intake = Intake::new(ingest, senders, timeout_ns, parts.of_run);
            let ingress = bind.bind(&endpoints)?;
            if let Some(home) = home {
                intake.settle_in(home);
            }
            let allowed = endpoints.iter().map(AllowList::of).collect();
            let receive = Receive::new(ingress, intake, allowed, parts.stop, timeout_ns);
            self.receives.push(Box::new(receive));
        }
        self.pipelines.push(parts.pipeline(group, (rings, unread), &memory)?);
        Ok(memory.pool)
    }
}

/// The listeners of one receive agent, for the time between runs.
pub(crate) struct Outside<'a> {
    /// The agent's number.
    pub(crate) agent: usize,
    pub(crate) endpoints: Vec<Endpoint<'a>>,
    senders: Vec<SenderConfig>,
    ingest: Ingest,
    timeout_ns: u64,
}

/// The listeners of all receive agents that take sessions. They have no memory for what comes.
pub(crate) fn outside<'a>(
    config: &'a RecorderConfig,
    live: &Arc<Live>,
) -> Result<Vec<Outside<'a>>, RecorderError> {
    let (lanes, chunk_lanes) = config.lanes();
    let mut groups = Vec::new();
    if !config.sources.is_empty() {
        groups.push((event_sources(config, &live.beginning), config.receive.threads));
    }
    if !config.links.is_empty() {
        let links = channel_links(config, &live.beginning, &lanes, &chunk_lanes);
        groups.push((links, config.receive.link_threads));
    }
    let (mut all, mut agent) = (Vec::new(), 0);
    for (group, threads) in groups {
        let Group { endpoints, senders, chunk_sources, .. } = group;
        let threads = threads.min(senders.len());
        for thread in 0..threads {
            let own = (thread..senders.len()).step_by(threads);
            let own = own.filter(|&index| endpoints[index].transport == Transport::Sessions);
            let (endpoints, senders): (Vec<_>, Vec<_>) =
                own.map(|index| (endpoints[index].clone(), senders[index].clone())).unzip();
            agent += 1;
            if senders.is_empty() {
                continue;
            }
            let least = config.sizes.chunk_bytes_min;
            let pool = ChunkPool::new("", least as u64, least..=least, 1, 1, 0);
            let what = "memory between runs";
            let pool = pool.map_err(|source| RecorderError::System { what, source })?;
            let memory = SourceMemory {
                pool: Arc::new(pool),
                trains: None,
                held: Arc::new(Held::new(config.ledger_count(), None)),
                live: Arc::clone(live),
                batch_fragments: config.sizes.batch_fragments,
                waiting_max: 0,
                reference: None,
            };
            let sources = senders.iter().flat_map(|sender| &sender.sources);
            let accounts = sources.map(|source| (source.number, 0));
            let ingest = Ingest::outside(accounts, chunk_sources.len(), &memory);
            let timeout_ns = config.build.timeout_ns;
            all.push(Outside { agent: agent - 1, endpoints, senders, ingest, timeout_ns });
        }
    }
    Ok(all)
}

impl Outside<'_> {
    /// The agent that works with them.
    pub(crate) fn receive(
        self,
        ingress: Lent,
        of_run: &dyn Fn() -> OfRun,
        home: Home,
        stop: &Arc<AtomicBool>,
    ) -> Receive {
        let Self { endpoints, senders, ingest, timeout_ns, .. } = self;
        let mut intake = Intake::new(ingest, senders, timeout_ns, of_run);
        intake.settle_in(home);
        let allowed = endpoints.iter().map(AllowList::of).collect();
        Receive::new(Box::new(ingress), intake, allowed, stop, timeout_ns).outside()
    }
}

/// Senders of one kind, which share memory, queues and a builder.
struct Group<'a> {
    kind: Kind,
    /// The prefixes of the names of its memory and of its queues of descriptors.
    name: &'static str,
    ring_name: &'static str,
    /// Bytes of its chunks, and of the longest fragment in them.
    bytes: u64,
    longest_bytes: u64,
    threads: usize,
    endpoints: Vec<Endpoint<'a>>,
    senders: Vec<SenderConfig>,
    /// The number in the ledger of the sender that fills each lane of chunks.
    chunk_sources: Vec<u32>,
    /// The lane of chunks, and the number in the ledger, of each of the builder's sources.
    lanes: Vec<(u32, SourceId)>,
    builder: BuilderConfig,
    rule: RuleConfig,
}

/// Each event source has chunks of its own, and a port of its own or, on connections, shares one.
fn event_sources<'a>(config: &'a RecorderConfig, beginning: &Beginning) -> Group<'a> {
    let mut endpoints: Vec<Endpoint<'a>> = Vec::new();
    let mut senders: Vec<SenderConfig> = Vec::new();
    for (number, source) in (0_u32..).zip(&config.sources) {
        let transport = source.protocol.transport();
        let shared = endpoints.iter().position(|port| {
            transport.is_connections()
                && (port.transport, port.address) == (transport, source.address)
        });
        let port = shared.unwrap_or(endpoints.len());
        if shared.is_none() {
            endpoints.push(Endpoint {
                numbers: Vec::new(),
                transport,
                address: source.address,
                service: Service::Events,
                from: &source.from,
                tls: config.access.tls,
                further: if source.is_link() { &config.listeners } else { &[] },
                // Strangers are distinguished from the source by their addresses.
                names_senders: true,
            });
            senders.push(SenderConfig {
                sources: Vec::new(),
                protocol: Arc::clone(&source.protocol),
                tells_strangers: transport == Transport::Datagrams
                    && !source.protocol.has_several_senders(),
                lanes: Vec::new(),
            });
        }
        endpoints[port].numbers.push(number as usize);
        let sender = &mut senders[port];
        sender.lanes.push(Destination {
            source: number,
            account: sender.sources.len() as u32,
            id: source.id,
            chunk: number,
            align: 1,
            fragment_bytes_max: config.fragment_bytes_max(source),
        });
        let if_big_endian = if_big_endian(source);
        let (number, name) = (SourceId(number), source.name.clone());
        let expected_in = (source.role != SourceRole::Sparse).then_some(source.expected_in);
        sender.sources.push(SenderSource { number, name, expected_in, if_big_endian });
    }
    let sources = 0..config.sources.len() as u32;
    Group {
        kind: Kind::Events,
        name: "",
        ring_name: "",
        bytes: config.segment_bytes(),
        longest_bytes: senders.iter().map(SenderConfig::fragment_bytes_max).max().unwrap_or(0),
        threads: config.receive.threads,
        endpoints,
        senders,
        chunk_sources: sources.clone().collect(),
        lanes: sources.map(|number| (number, SourceId(number))).collect(),
        builder: BuilderConfig {
            continues: continues(config, beginning),
            ..builder_config(config)
        },
        rule: RuleConfig::of(config),
    }
}

/// A link brings many channels, and slow channels share chunks.
fn channel_links<'a>(
    config: &'a RecorderConfig,
    beginning: &Beginning,
    lanes: &[Lane],
    chunk_lanes: &[u32],
) -> Group<'a> {
    let first = config.sources.len();
    let number = |link: usize| SourceId((first + link) as u32);
    let links = || config.links.iter().enumerate();
    let sender = |(index, link): (usize, &LinkConfig)| {
        let own = || (0_u32..).zip(lanes).filter(|(_, lane)| lane.link == index);
        let channel = |lane: &Lane| Channel::new(lane.rate, lane.sample_bytes, link.slice_ns);
        let protocol = Link {
            slice_ns: link.slice_ns,
            channels: own().map(|(_, lane)| channel(lane)).collect(),
            transport: link.transport,
        };
        let destination = |(number, lane): (u32, &Lane)| Destination {
            source: number,
            account: 0,
            id: None,
            chunk: lane.chunk_lane,
            align: 1 << lane.sample_bytes.trailing_zeros().min(3),
            fragment_bytes_max: protocol.fragment_bytes_max(),
        };
        SenderConfig {
            sources: vec![SenderSource {
                number: number(index),
                name: link.name.clone(),
                expected_in: None,
                if_big_endian: None,
            }],
            tells_strangers: false,
            lanes: own().map(destination).collect(),
            protocol: Arc::new(protocol),
        }
    };
    let endpoint = |(index, link): (usize, &'a LinkConfig)| Endpoint {
        numbers: vec![first + index],
        transport: link.transport,
        address: link.address,
        service: Service::Channels,
        from: &link.from,
        tls: config.access.tls,
        further: &[],
        names_senders: !link.from.is_empty(),
    };
    Group {
        kind: Kind::Channels,
        name: "channel ",
        ring_name: "link ",
        bytes: config.link_segment_bytes(),
        longest_bytes: 0,
        threads: config.receive.link_threads,
        endpoints: links().map(endpoint).collect(),
        senders: links().map(sender).collect(),
        chunk_sources: chunk_lanes.iter().map(|&link| number(link as usize).0).collect(),
        lanes: lanes.iter().map(|lane| (lane.chunk_lane, number(lane.link))).collect(),
        builder: link_builder_config(config, beginning),
        rule: RuleConfig::Number(link_number_config(config)),
    }
}

impl Parts<'_> {
    /// The pool of a group, and what is counted of it.
    fn memory(&self, group: &Group<'_>) -> Result<SourceMemory, RecorderError> {
        let Group { name, bytes, longest_bytes, chunk_sources, senders, builder, .. } = group;
        let Sizes { chunk_bytes_min, chunk_bytes_max, .. } = self.config.sizes;
        let chunks = chunk_bytes_min..=chunk_bytes_max;
        let (name, lanes) = (format!("{name}segments"), chunk_sources.len());
        let sources = senders.iter().map(|sender| sender.sources.len()).sum();
        let pool = ChunkPool::new(&name, *bytes, chunks, lanes, sources, *longest_bytes);
        let what = "segment memory";
        let pool = Arc::new(pool.map_err(|source| RecorderError::System { what, source })?);
        self.live.add_fill(Arc::clone(pool.fill()));
        let all_wait =
            group.kind == Kind::Events && senders.iter().all(SenderConfig::is_connection);
        let chunk_bytes = all_wait.then(|| pool.chunk_bytes());
        // Indexed by the numbers of the ledger.
        let held = Arc::new(Held::new(self.config.ledger_count(), chunk_bytes));
        let batch_fragments = self.config.sizes.batch_fragments;
        // Some may be on their way when the builder says how many are parked.
        let waiting_max = (builder.parked_max / 4 * 3).try_into().unwrap_or(u32::MAX);
        let live = Arc::clone(self.live);
        let trains = TrainRoom::of(self.config, pool.chunk_bytes() as u64).map(Arc::new);
        Ok(SourceMemory { pool, trains, held, live, batch_fragments, waiting_max, reference: None })
    }

    fn ring(&self, rings: &mut Vec<Ring>, name: &str) -> (Producer<Fragment>, Arc<FillLevel>) {
        let (producer, consumer) = RingBuffer::new(self.config.sizes.ring_fragments);
        let bytes = self.config.sizes.ring_fragments * size_of::<Fragment>();
        let fill = Arc::new(FillLevel::new(name, bytes as u64));
        self.live.add_fill(Arc::clone(&fill));
        rings.push((consumer, Arc::clone(&fill)));
        (producer, fill)
    }

    fn pipeline(
        &self,
        group: Group<'_>,
        (rings, unread): (Vec<Ring>, Unread),
        memory: &SourceMemory,
    ) -> Result<Pipeline, RecorderError> {
        let Group { kind, name, lanes, chunk_sources, builder, rule, .. } = group;
        let pool = Arc::clone(&memory.pool);
        let waiting_fill =
            Arc::new(FillLevel::new(format!("{name}frames waiting"), pool.fill().capacity()));
        self.live.add_fill(Arc::clone(&waiting_fill));
        // Those of a port are between fragments of no log.
        let has_notes = memory.reference.is_some();
        Ok(Pipeline {
            kind,
            pausable: Pausable::new(&builder, Arc::clone(&memory.held)),
            tape: match kind {
                Kind::Events => Tape::new(&builder.positions, has_notes, self.config.frame.time_ns),
                Kind::Channels => {
                    Tape::of_channels(&builder.positions, &lanes, self.config.frame.time_ns)
                }
            },
            // Between times nothing is countable.
            restarted: match &rule {
                RuleConfig::Number(_) => Restarted::of(&builder),
                RuleConfig::Time(_) => None,
            },
            builder: Rule::builder(&builder, &rule)?,
            rings,
            unread,
            chunk_use: ChunkUse::new(&pool, chunk_sources, Arc::clone(&memory.held)),
            pool,
            lanes,
            waiting_fill,
            waiting: VecDeque::new(),
            reuse: Vec::new(),
            released: Vec::new(),
            finished: false,
            has_emptied_rings: false,
            event_bytes_max: self.config.event_bytes_max(),
            refused: false,
            given_up: BTreeSet::new(),
            restarts: 0,
            jumps: 0,
            cycle_fragments: self.config.sizes.cycle_fragments,
        })
    }
}

/// The warning for a source that sends big-endian fragments; none if no number has several bytes.
fn if_big_endian(source: &SourceConfig) -> Option<String> {
    let payload = source.payload.as_ref()?;
    let of_fields = payload.fields.iter().map(|field| field.dtype);
    let mut dtypes = std::iter::once(payload.dtype).chain(of_fields);
    let dtype = dtypes.find(|dtype| dtype.bits().is_some_and(|bits| bits > 8))?;
    Some(format!(
        "source {}: its fragments are big-endian, but its payload is read as little-endian: \
         the bytes of each {} come out in the wrong order",
        source.name,
        dtype.name()
    ))
}
