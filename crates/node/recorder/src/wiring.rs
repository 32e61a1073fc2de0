//! The parts of a recorder's agents: ingress, memory, queues and builders, for event sources and
//! for channel links.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use catchment_agent::{Agent, Ingress};
use catchment_builder::{Builder, Fragment};
use catchment_model::SourceId;
use catchment_net::Network;
use catchment_telemetry::FillLevel;
use rtrb::{Producer, RingBuffer};

use crate::allow_list::AllowList;
use crate::build::{Kind, Pipeline, Ring};
use crate::config::{RecorderConfig, SourceConfig, builder_config, link_builder_config};
use crate::event_intake::EventIntake;
use crate::ingest::{Ingest, SourceMemory};
use crate::link::LinkIntake;
use crate::links::{Lane, LinkConfig};
use crate::live::Live;
use crate::pool::{ChunkPool, ChunkUse, Held};
use crate::receive::{Intake, Receive};
use crate::recorder::RecorderError;
use crate::sizes::Sizes;

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

/// The facts about channels that the write agent needs.
pub(crate) struct Channels {
    pub(crate) pool: Arc<ChunkPool>,
    pub(crate) lanes: Vec<Lane>,
}

/// Where the datagrams of a source or link arrive, and their permitted networks.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// Its number in the ledger.
    pub number: usize,
    /// Where its datagrams arrive.
    pub address: SocketAddr,
    /// The networks from which it may send; empty: any.
    pub from: &'a [Network],
    /// Whether the sender of each datagram is read.
    pub names_senders: bool,
}

impl<'a> Endpoint<'a> {
    fn of_source(number: usize, source: &'a SourceConfig) -> Self {
        // Strangers are distinguished from the source by their addresses.
        Self { number, address: source.address, from: &source.from, names_senders: true }
    }

    fn of_link(number: usize, link: &'a LinkConfig) -> Self {
        let names_senders = !link.from.is_empty();
        Self { number, address: link.address, from: &link.from, names_senders }
    }
}

/// Gives each receive agent its ingress.
pub trait Bind {
    /// The ingress.
    type Ingress: Ingress + 'static;

    /// An ingress of these endpoints, in their order, which names the senders of those that ask for
    /// it.
    ///
    /// # Errors
    /// An endpoint that cannot be bound.
    fn bind(&mut self, endpoints: &[Endpoint<'_>]) -> Result<Self::Ingress, RecorderError>;
}

/// The input for wiring one kind of sources.
struct Parts<'a> {
    config: &'a RecorderConfig,
    live: &'a Arc<Live>,
    stop: &'a Arc<AtomicBool>,
}

impl Wiring {
    /// Makes memory, queues and builders, and binds the endpoints.
    pub(crate) fn of(
        config: &RecorderConfig,
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
        bind: &mut impl Bind,
    ) -> Result<Self, RecorderError> {
        let mut wiring = Self {
            pipelines: Vec::new(),
            receives: Vec::new(),
            pools: Pools::default(),
            channels: None,
        };
        let parts = Parts { config, live, stop };
        if !config.sources.is_empty() {
            wiring.sources(&parts, bind)?;
        }
        if !config.links.is_empty() {
            wiring.links(&parts, bind)?;
        }
        Ok(wiring)
    }

    fn sources(&mut self, parts: &Parts<'_>, bind: &mut impl Bind) -> Result<(), RecorderError> {
        let config = parts.config;
        let count = config.sources.len();
        let longest = config.sources.iter().map(|source| config.fragment_bytes_max(source)).max();
        let longest = longest.unwrap_or(0);
        let memory = parts.memory("segments", config.segment_bytes(), count, count, longest)?;
        let endpoint = |index: usize| Endpoint::of_source(index, &config.sources[index]);
        let mut rings = Vec::new();
        let threads = config.receive.threads.min(count);
        for thread in 0..threads {
            let indices: Vec<usize> = (thread..count).step_by(threads).collect();
            let endpoints: Vec<_> = indices.iter().map(|&index| endpoint(index)).collect();
            let (producer, fill) = parts.ring(&mut rings, &format!("descriptors {thread}"));
            let ids = indices.iter().map(|&id| SourceId(id as u32));
            let ingest = Ingest::new(ids, indices.len(), producer, fill, &memory);
            let intake = EventIntake::new(ingest, indices.iter().copied(), config);
            self.receive(parts, &endpoints, bind, intake)?;
        }
        let lanes = (0..count as u32).map(|id| (id, SourceId(id))).collect();
        let chunk_use =
            ChunkUse::new(&memory.pool, (0..count as u32).collect(), Arc::clone(&memory.held));
        let builder = Builder::new(builder_config(config))?;
        self.pipelines.push(parts.pipeline(
            Kind::Events,
            builder,
            rings,
            &memory.pool,
            lanes,
            chunk_use,
        ));
        self.pools.events = Some(memory.pool);
        Ok(())
    }

    fn links(&mut self, parts: &Parts<'_>, bind: &mut impl Bind) -> Result<(), RecorderError> {
        let config = parts.config;
        let count = config.links.len();
        let first = config.sources.len();
        let (lanes, chunk_lanes) = config.lanes();
        let chunk_links: Vec<u32> = chunk_lanes.iter().map(|&link| first as u32 + link).collect();
        let bytes = config.link_segment_bytes();
        let memory = parts.memory("channel segments", bytes, chunk_lanes.len(), count, 0)?;
        let endpoint = |index: usize| Endpoint::of_link(first + index, &config.links[index]);
        let mut rings = Vec::new();
        let threads = config.receive.link_threads.min(count);
        for thread in 0..threads {
            let indices: Vec<usize> = (thread..count).step_by(threads).collect();
            let endpoints: Vec<_> = indices.iter().map(|&index| endpoint(index)).collect();
            let (producer, fill) = parts.ring(&mut rings, &format!("link descriptors {thread}"));
            let ids = indices.iter().map(|&link| SourceId((first + link) as u32));
            let ingest = Ingest::new(ids, chunk_lanes.len(), producer, fill, &memory);
            let all = (&config.links[..], &lanes[..]);
            let intake = LinkIntake::new(ingest, indices.into_iter(), all);
            self.receive(parts, &endpoints, bind, intake)?;
        }
        let of_lane = |lane: &Lane| (lane.chunk_lane, SourceId((first + lane.link) as u32));
        let chunk_use = ChunkUse::new(&memory.pool, chunk_links, Arc::clone(&memory.held));
        let builder = Builder::new(link_builder_config(config))?;
        let lanes_of = lanes.iter().map(of_lane).collect();
        self.pipelines.push(parts.pipeline(
            Kind::Channels,
            builder,
            rings,
            &memory.pool,
            lanes_of,
            chunk_use,
        ));
        self.pools.channels = Some(Arc::clone(&memory.pool));
        self.channels = Some(Channels { pool: memory.pool, lanes });
        Ok(())
    }

    fn receive(
        &mut self,
        parts: &Parts<'_>,
        endpoints: &[Endpoint<'_>],
        bind: &mut impl Bind,
        intake: impl Intake + 'static,
    ) -> Result<(), RecorderError> {
        let ingress = bind.bind(endpoints)?;
        let allowed = endpoints.iter().map(|endpoint| AllowList::new(endpoint.from)).collect();
        let timeout_ns = parts.config.build.timeout_ns;
        let receive = Receive::new(ingress, intake, allowed, parts.stop, timeout_ns);
        self.receives.push(Box::new(receive));
        Ok(())
    }
}

impl Parts<'_> {
    /// A pool of `bytes` bytes, with fragments up to that length, for these lanes and sources.
    fn memory(
        &self,
        name: &str,
        bytes: u64,
        lanes: usize,
        sources: usize,
        longest_bytes: u64,
    ) -> Result<SourceMemory, RecorderError> {
        let Sizes { chunk_bytes_min, chunk_bytes_max, .. } = self.config.sizes;
        let chunks = chunk_bytes_min..=chunk_bytes_max;
        let pool = ChunkPool::new(name, bytes, chunks, lanes, sources, longest_bytes);
        let what = "segment memory";
        let pool = Arc::new(pool.map_err(|source| RecorderError::System { what, source })?);
        self.live.add_fill(Arc::clone(pool.fill()));
        // Indexed by the numbers of the ledger.
        let held = Arc::new(Held::new(self.config.ledger_count()));
        let batch_fragments = self.config.sizes.batch_fragments;
        Ok(SourceMemory { pool, held, live: Arc::clone(self.live), batch_fragments })
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
        kind: Kind,
        builder: Builder,
        rings: Vec<Ring>,
        pool: &Arc<ChunkPool>,
        lanes: Vec<(u32, SourceId)>,
        chunk_use: ChunkUse,
    ) -> Pipeline {
        let name = match kind {
            Kind::Events => "frames waiting",
            Kind::Channels => "channel frames waiting",
        };
        let waiting_fill = Arc::new(FillLevel::new(name, pool.fill().capacity()));
        self.live.add_fill(Arc::clone(&waiting_fill));
        Pipeline {
            kind,
            builder,
            rings,
            chunk_use,
            pool: Arc::clone(pool),
            lanes,
            waiting_fill,
            waiting: VecDeque::new(),
            reuse: Vec::new(),
            released: Vec::new(),
            finished: false,
            event_bytes_max: self.config.event_bytes_max(),
            refused: false,
            restarts: 0,
            jumps: 0,
            cycle_fragments: self.config.sizes.cycle_fragments,
        }
    }
}
