//! What a recorder's threads are made of: sockets, memory, queues and builders, for event sources
//! and for channel links.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use catchment_builder::{Builder, Fragment};
use catchment_model::SourceId;
use catchment_net::{Network, ReceiverConfig, UdpReceiver};
use catchment_telemetry::FillLevel;
use rtrb::{Producer, RingBuffer};

use crate::build::{Kind, Ring, Side};
use crate::config::{RecorderConfig, builder_config, link_builder_config};
use crate::desk::{Desk, Memory};
use crate::link::LinkIntake;
use crate::links::Lane;
use crate::live::Live;
use crate::pool::{ChunkPool, ChunkUse, Held};
use crate::receive::{HadtuIntake, Intake, Receive, if_big_endian};
use crate::recorder::RecorderError;

/// Descriptors between a receive thread and the build thread.
const RING_FRAGMENTS: usize = 1 << 19;

/// All that the threads need, before they run.
pub(crate) struct Wiring {
    pub(crate) sides: Vec<Side>,
    pub(crate) receives: Vec<Body>,
    pub(crate) pools: Pools,
    pub(crate) channels: Option<Channels>,
    /// Where sources and links send to.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) granted_bytes: Vec<usize>,
}

/// What a thread does.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// Where payload waits.
#[derive(Clone, Default)]
pub(crate) struct Pools {
    pub(crate) events: Option<Arc<ChunkPool>>,
    pub(crate) channels: Option<Arc<ChunkPool>>,
}

/// What the write thread needs to know of channels.
pub(crate) struct Channels {
    pub(crate) pool: Arc<ChunkPool>,
    pub(crate) lanes: Vec<Lane>,
}

/// Where a source's datagrams arrive, and the networks that they may come from.
type Door<'a> = (SocketAddr, &'a [Network]);

/// What wiring one kind of sources needs.
struct Parts<'a> {
    config: &'a RecorderConfig,
    live: &'a Arc<Live>,
    stop: &'a Arc<AtomicBool>,
}

impl Wiring {
    /// Makes sockets, memory, queues and builders.
    pub(crate) fn of(
        config: &RecorderConfig,
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, RecorderError> {
        // A socket per source, and the files beside them.
        catchment_net::raise_open_files();
        let count = config.ledger_count();
        let mut wiring = Self {
            sides: Vec::new(),
            receives: Vec::new(),
            pools: Pools::default(),
            channels: None,
            addresses: vec![SocketAddr::from(([0, 0, 0, 0], 0)); count],
            granted_bytes: vec![0; count],
        };
        let parts = Parts { config, live, stop };
        if !config.sources.is_empty() {
            wiring.sources(&parts)?;
        }
        if !config.links.is_empty() {
            wiring.links(&parts)?;
        }
        Ok(wiring)
    }

    fn sources(&mut self, parts: &Parts<'_>) -> Result<(), RecorderError> {
        let config = parts.config;
        let count = config.sources.len();
        let memory = parts.memory("segments", config.segment_bytes(), (count, count))?;
        let doors: Vec<Door<'_>> =
            config.sources.iter().map(|one| (one.address, &one.from[..])).collect();
        let mut rings = Vec::new();
        let threads = config.receive.threads.min(count);
        for thread in 0..threads {
            let places: Vec<usize> = (thread..count).step_by(threads).collect();
            let receiver = self.bind(parts, &doors, &places, 0)?;
            let (producer, fill) = parts.ring(&mut rings, &format!("descriptors {thread}"));
            let ids = places.iter().map(|&id| SourceId(id as u32));
            let desk = Desk::new(ids, places.len(), producer, fill, &memory);
            let sub_event_ids = places.iter().map(|&id| config.sources[id].sub_event_id).collect();
            let if_big_endian =
                places.iter().map(|&id| if_big_endian(&config.sources[id])).collect();
            self.receive(parts, receiver, HadtuIntake { desk, sub_event_ids, if_big_endian });
        }
        let lanes = (0..count as u32).map(|id| (id, SourceId(id))).collect();
        let chunk_use =
            ChunkUse::new(&memory.pool, (0..count as u32).collect(), Arc::clone(&memory.held));
        let builder = Builder::new(builder_config(config))?;
        let books = (lanes, chunk_use);
        self.sides.push(parts.side(Kind::Events, builder, rings, &memory.pool, books));
        self.pools.events = Some(memory.pool);
        Ok(())
    }

    fn links(&mut self, parts: &Parts<'_>) -> Result<(), RecorderError> {
        let config = parts.config;
        let count = config.links.len();
        let first = config.sources.len();
        let (lanes, chunk_lanes) = config.lanes();
        let chunk_links: Vec<u32> = chunk_lanes.iter().map(|&link| first as u32 + link).collect();
        let sizes = (chunk_lanes.len(), count);
        let memory = parts.memory("channel segments", config.link_segment_bytes(), sizes)?;
        let doors: Vec<Door<'_>> =
            config.links.iter().map(|one| (one.address, &one.from[..])).collect();
        let mut rings = Vec::new();
        let threads = config.receive.link_threads.min(count);
        for thread in 0..threads {
            let places: Vec<usize> = (thread..count).step_by(threads).collect();
            let receiver = self.bind(parts, &doors, &places, first)?;
            let (producer, fill) = parts.ring(&mut rings, &format!("link descriptors {thread}"));
            let ids = places.iter().map(|&link| SourceId((first + link) as u32));
            let desk = Desk::new(ids, chunk_lanes.len(), producer, fill, &memory);
            let all = (&config.links[..], &lanes[..]);
            let intake = LinkIntake::new(desk, places.into_iter(), all);
            self.receive(parts, receiver, intake);
        }
        let of_lane = |lane: &Lane| (lane.chunk_lane, SourceId((first + lane.link) as u32));
        let chunk_use = ChunkUse::new(&memory.pool, chunk_links, Arc::clone(&memory.held));
        let builder = Builder::new(link_builder_config(config))?;
        let books = (lanes.iter().map(of_lane).collect(), chunk_use);
        self.sides.push(parts.side(Kind::Channels, builder, rings, &memory.pool, books));
        self.pools.channels = Some(Arc::clone(&memory.pool));
        self.channels = Some(Channels { pool: memory.pool, lanes });
        Ok(())
    }

    /// Binds the sockets of these places, whose ledgers begin at `first`.
    fn bind(
        &mut self,
        parts: &Parts<'_>,
        doors: &[Door<'_>],
        places: &[usize],
        first: usize,
    ) -> Result<UdpReceiver, RecorderError> {
        let receive = &parts.config.receive;
        let config = ReceiverConfig {
            spin_us: receive.spin_us,
            coalesce_us: receive.coalesce_us,
            socket_buffer_bytes: receive.socket_buffer_bytes,
            ..ReceiverConfig::default()
        };
        let addresses: Vec<_> = places.iter().map(|&place| doors[place].0).collect();
        let mut receiver = UdpReceiver::bind(&addresses, config)?;
        if let Some(warning) = receiver.buffer_warning() {
            parts.live.warn_once(warning);
        }
        for (socket, place) in places.iter().enumerate() {
            receiver.restrict(socket, doors[*place].1);
            parts.live.set_gauge(first + place, receiver.gauge(socket));
            self.addresses[first + place] = receiver.local_addr(socket);
            self.granted_bytes[first + place] = receiver.granted_bytes(socket);
        }
        Ok(receiver)
    }

    fn receive<I: Intake + Send + 'static>(
        &mut self,
        parts: &Parts<'_>,
        receiver: UdpReceiver,
        intake: I,
    ) {
        let receive = Receive::new(receiver, intake, parts.stop);
        self.receives.push(Box::new(|| receive.run()));
    }
}

impl Parts<'_> {
    /// A pool for so many lanes of chunks of so many sources.
    fn memory(
        &self,
        name: &str,
        bytes: u64,
        (lanes, sources): (usize, usize),
    ) -> Result<Memory, RecorderError> {
        let pool = ChunkPool::new(name, bytes, lanes, sources);
        let what = "segment memory";
        let pool = Arc::new(pool.map_err(|source| RecorderError::System { what, source })?);
        self.live.add_fill(Arc::clone(pool.fill()));
        // By the numbers of the ledger.
        let held = Arc::new(Held::new(self.config.ledger_count()));
        Ok(Memory { pool, held, live: Arc::clone(self.live) })
    }

    fn ring(&self, rings: &mut Vec<Ring>, name: &str) -> (Producer<Fragment>, Arc<FillLevel>) {
        let (producer, consumer) = RingBuffer::new(RING_FRAGMENTS);
        let bytes = RING_FRAGMENTS * size_of::<Fragment>();
        let fill = Arc::new(FillLevel::new(name, bytes as u64));
        self.live.add_fill(Arc::clone(&fill));
        rings.push((consumer, Arc::clone(&fill)));
        (producer, fill)
    }

    fn side(
        &self,
        kind: Kind,
        builder: Builder,
        rings: Vec<Ring>,
        pool: &Arc<ChunkPool>,
        (lanes, chunk_use): (Vec<(u32, SourceId)>, ChunkUse),
    ) -> Side {
        let name = match kind {
            Kind::Events => "frames waiting",
            Kind::Channels => "channel frames waiting",
        };
        let waiting_fill = Arc::new(FillLevel::new(name, pool.fill().capacity()));
        self.live.add_fill(Arc::clone(&waiting_fill));
        Side {
            kind,
            builder,
            rings,
            chunk_use,
            pool: Arc::clone(pool),
            lanes,
            waiting_fill,
            waiting: VecDeque::new(),
            reuse: Vec::new(),
            finished: false,
            restarts: 0,
        }
    }
}
