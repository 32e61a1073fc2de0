//! Frames of both kinds: what they are in the schema, and how they are made and streamed.

use std::sync::Arc;

use catchment_agent::{Store, Waker};
use catchment_builder::SourceRole;
use catchment_encoder::{Encode, PoolConfig};
use catchment_frame::{ChannelInfo, ColumnCoding, FrameInfo, FrameKind, Schema, SourceInfo};
use catchment_model::{Entry, Ledger, SourceId};
use catchment_telemetry::FillLevel;

use crate::build::{Frame, Kind};
use crate::channel_writer::ChannelWriter;
use crate::coding::CompressionThrottle;
use crate::config::{ConfigError, RecorderConfig, SourceConfig};
use crate::event_writer::{EventWriter, event_columns_max};
use crate::frame_stream::{
    ColumnWriter, Encoders, FrameMemory, FrameStream, Making, Next, Raw, WrittenFrame,
};
use crate::jobs::{Jobs, Stream};
use crate::links::LinkConfig;
use crate::pool::ChunkPool;
use crate::trend_agent::{FrameSeconds, TrendFeed};
use crate::wiring::Channels;

/// What the write agent gets of the wiring.
pub(crate) struct Sources {
    pub(crate) events: Option<(Arc<ChunkPool>, Arc<FillLevel>)>,
    pub(crate) channels: Option<(Channels, Arc<FillLevel>)>,
    pub(crate) trends: Option<TrendFeed>,
    /// Wakes one of the encode agents.
    pub(crate) encoders: Waker,
    /// Wakes the write agent.
    pub(crate) writer: Waker,
}

/// What a frame holds of one source or link.
#[derive(Clone, Copy, Default)]
pub(crate) struct SourceCounts {
    pub(crate) fragments: u64,
    pub(crate) bytes: u64,
    pub(crate) missing: u64,
    /// Raw bytes that were compressed less than asked.
    pub(crate) lowered: u64,
}

/// Which frame it is: its file's random number, and its own number in the run.
#[derive(Clone, Copy)]
pub(crate) struct FrameIdentity {
    pub(crate) file_id: u64,
    pub(crate) sequence: u64,
}

/// Makes frames of events and of channels, and streams them.
pub(crate) struct FrameWriter {
    memory: FrameMemory,
    encoders: Option<Encoders>,
    events: Option<Throttled<EventWriter>>,
    channels: Option<Throttled<ChannelWriter>>,
    ledger_count: usize,
    file_id: u64,
    trends: Option<TrendFeed>,
    /// What the last frame says of its channels' seconds.
    seconds: Option<FrameSeconds>,
    /// When the last frame began to be streamed, and how long that took.
    last_ns: Option<(u64, u64)>,
}

/// A writer, and how much compression there is time for.
struct Throttled<W> {
    writer: W,
    throttle: CompressionThrottle,
}

impl<W> Throttled<W> {
    fn new(writer: W, waiting: Arc<FillLevel>) -> Self {
        Self { writer, throttle: CompressionThrottle::new(waiting) }
    }
}

/// What a frame's streaming begins with.
pub(crate) struct FrameStart<B> {
    /// Its job, and where in the file that begins.
    pub(crate) stream: Stream<B>,
    pub(crate) offset: u64,
    pub(crate) identity: FrameIdentity,
    pub(crate) frame: Frame,
    pub(crate) counts: Vec<SourceCounts>,
    /// What the ledger counted since the frame before.
    pub(crate) increment: Ledger,
}

/// A frame that is being streamed.
pub(crate) struct FrameUnderWay<B> {
    pub(crate) frame: Frame,
    pub(crate) counts: Vec<SourceCounts>,
    /// What the ledger counted since the frame before.
    pub(crate) increment: Ledger,
    /// What only this frame says.
    own: Ledger,
    stream: FrameStream<B>,
    begun_ns: u64,
    /// Up to where it covers the channels' time.
    until_ns: u64,
}

/// What keeps a frame from being streamed further.
pub(crate) enum Progress {
    /// The budget of bytes is spent.
    Budget,
    /// There is no free buffer.
    NoBuffer,
    /// The encode agents have its next column.
    Encoding,
    /// Nothing: it is written as far as it can be without its job's end.
    Written(WrittenFrame),
}

impl FrameWriter {
    pub(crate) fn new(config: &RecorderConfig, schema: &Schema, sources: Sources) -> Self {
        let coding = |name: &str| config.frame.codings.of(name);
        let codings: Vec<ColumnCoding> =
            config.sources.iter().map(|source| coding(&source.name)).collect();
        let events = sources.events.and_then(|(pool, waiting)| {
            Some(Throttled::new(EventWriter::new(schema, pool, &codings)?, waiting))
        });
        let channels = config.links.iter().flat_map(|link| &link.channels);
        let codings: Vec<ColumnCoding> = channels.map(|channel| coding(&channel.name)).collect();
        let first_link = config.sources.len();
        let trends = sources.trends.is_some();
        let slice_ns = config.links.first().map_or(1, |link| link.slice_ns);
        let channels = sources.channels.map(|(wired, waiting)| {
            let writer = ChannelWriter::new(schema, wired, first_link, slice_ns, &codings, trends);
            Throttled::new(writer, waiting)
        });
        let (encoders, owner) = (sources.encoders, sources.writer);
        let pool = PoolConfig { bytes_max: config.encode_bytes(), encoders, owner };
        let needed = channels.is_some() || config.frame.codings.compresses();
        let encoders = needed.then(|| Encoders::new(pool));
        // Until it is known.
        encoders.iter().for_each(|encoders| encoders.set_free_cpu_share(FREE_CPU_AT_START));
        Self {
            trends: sources.trends,
            seconds: None,
            memory: FrameMemory::new(),
            encoders,
            events,
            channels,
            ledger_count: config.ledger_count(),
            file_id: 0,
            last_ns: None,
        }
    }

    /// An agent that encodes columns, if any are encoded.
    pub(crate) fn encoder(&self) -> Option<Encode<Raw>> {
        self.encoders.as_ref().map(Encoders::encoder)
    }

    /// The kind of a frame without rows.
    pub(crate) fn kind(&self) -> Kind {
        if self.events.is_some() { Kind::Events } else { Kind::Channels }
    }

    /// What a frame holds and misses of each source and link.
    pub(crate) fn count(&mut self, frame: &Frame) -> Vec<SourceCounts> {
        let mut counts = vec![SourceCounts::default(); self.ledger_count];
        match frame.kind {
            Kind::Events => {
                for (counts, column) in counts.iter_mut().zip(&frame.cut.columns) {
                    counts.fragments = column.fragments;
                    counts.bytes = column.payload_bytes;
                    counts.missing = column.missing;
                }
            }
            Kind::Channels => {
                let Some(channels) = &mut self.channels else { return counts };
                channels.writer.count(&frame.cut, |source, column| {
                    let counts = &mut counts[source];
                    counts.fragments += column.fragments;
                    counts.bytes += column.payload_bytes;
                    counts.missing += column.missing;
                });
            }
        }
        counts
    }

    /// Begins to stream a frame to an offset of a file. The caller has counted it
    /// ([`FrameWriter::count`]), and goes on with [`FrameWriter::advance`].
    pub(crate) fn begin<B: std::ops::DerefMut<Target = [u8]> + Send>(
        &mut self,
        start: FrameStart<B>,
        now_ns: u64,
    ) -> FrameUnderWay<B> {
        let FrameStart { stream, offset, identity, frame, counts, increment } = start;
        let FrameIdentity { file_id, sequence } = identity;
        let cut = &frame.cut;
        let mut own = Ledger::new(self.ledger_count);
        if self.file_id != file_id {
            self.file_id = file_id;
            self.channels.iter().for_each(|channels| channels.writer.begin_file());
        }
        if let (Some(encoders), Some((begun_ns, took_ns))) = (&self.encoders, self.last_ns) {
            // The share of the time in which nothing was encoded.
            let busy = took_ns as f32 / now_ns.saturating_sub(begun_ns).max(1_000) as f32;
            encoders.set_free_cpu_share(1.0 - busy);
        }
        let (info, columns_max) = match (frame.kind, &mut self.events, &mut self.channels) {
            (Kind::Channels, _, Some(Throttled { writer, throttle })) => {
                // The rows do not say it.
                for (own, counts) in own.sources.iter_mut().zip(&counts) {
                    own[Entry::FragmentsRecorded] = counts.fragments;
                    own[Entry::FragmentBytesRecorded] = counts.bytes;
                    own[Entry::FragmentsMissing] = counts.missing;
                }
                throttle.begin(cut.payload_bytes);
                writer.begin(cut);
                (writer.info(cut), writer.columns_max(cut))
            }
            (Kind::Events, Some(Throttled { writer, throttle }), _) => {
                throttle.begin(cut.payload_bytes);
                writer.begin();
                let times = &cut.times_ns;
                let info = FrameInfo {
                    kind: FrameKind::Events,
                    time_first_ns: times.iter().copied().min().unwrap_or(0),
                    time_last_ns: times.iter().copied().max().unwrap_or(0),
                    key_first: cut.keys.first().copied().unwrap_or(0),
                    key_last: cut.keys.last().copied().unwrap_or(0),
                    rows: cut.keys.len() as u64,
                    ..FrameInfo::EMPTY
                };
                let with_data = cut.columns.iter().filter(|column| column.fragments > 0).count();
                (info, event_columns_max(with_data))
            }
            _ => unreachable!("a frame of a kind that the configuration has"),
        };
        let until_ns = info.time_last_ns;
        let info = FrameInfo { file_id, sequence, ..info };
        let stream = FrameStream::begin(&mut self.memory, stream, offset, info, columns_max);
        FrameUnderWay { frame, counts, increment, own, stream, begun_ns: now_ns, until_ns }
    }

    /// Streams a frame as far as that is possible now, and as the budget of bytes lasts.
    pub(crate) fn advance<S: Store, K>(
        &mut self,
        under_way: &mut FrameUnderWay<S::Buffer>,
        jobs: &mut Jobs<S, K>,
        budget: &mut usize,
    ) -> Progress {
        loop {
            if !under_way.stream.is_free() {
                let Some(piece) = under_way.stream.copy(&mut self.memory, jobs, budget) else {
                    return if *budget == 0 { Progress::Budget } else { Progress::NoBuffer };
                };
                let (writer, mut making) = self.making(under_way);
                writer.copied(piece, &mut making);
            }
            let (writer, mut making) = self.making(under_way);
            match writer.next(&mut making) {
                Next::Piece(piece) => under_way.stream.put(piece),
                Next::Wait => return Progress::Encoding,
                Next::End => {
                    return match under_way.stream.close(&mut self.memory, jobs) {
                        Some(written) => Progress::Written(written),
                        None => Progress::NoBuffer,
                    };
                }
            }
        }
    }

    /// The writer of the frame's kind, and what it works with.
    fn making<'a, B>(
        &'a mut self,
        under_way: &'a mut FrameUnderWay<B>,
    ) -> (&'a mut dyn ColumnWriter, Making<'a>) {
        let FrameUnderWay { frame, increment, own, .. } = under_way;
        let (writer, throttle): (&mut dyn ColumnWriter, _) =
            match (frame.kind, &mut self.events, &mut self.channels) {
                (Kind::Events, Some(Throttled { writer, throttle }), _) => (writer, throttle),
                (Kind::Channels, _, Some(Throttled { writer, throttle })) => (writer, throttle),
                _ => unreachable!("a frame of a kind that the configuration has"),
            };
        let (memory, encoders) = (&mut self.memory, self.encoders.as_mut());
        let cut = &mut frame.cut;
        (writer, Making { memory, encoders, cut, increment, own, throttle })
    }

    /// A frame was written: what remains of it is its stream, whose job the caller ends, and what
    /// counts it.
    pub(crate) fn finish<B: std::ops::DerefMut<Target = [u8]> + Send>(
        &mut self,
        under_way: FrameUnderWay<B>,
        now_ns: u64,
    ) -> Finished<B> {
        let FrameUnderWay { frame, mut counts, increment, own, stream, begun_ns, until_ns } =
            under_way;
        self.last_ns = Some((begun_ns, now_ns.saturating_sub(begun_ns)));
        if let (Kind::Channels, Some(channels)) = (frame.kind, &mut self.channels) {
            let channels = channels.writer.take_seconds();
            self.seconds = (!channels.is_empty()).then_some(FrameSeconds { channels, until_ns });
        }
        for (counts, own) in counts.iter_mut().zip(&own.sources) {
            counts.lowered = own[Entry::BytesCompressionLowered];
        }
        Finished { frame, counts, increment, stream: stream.into_stream() }
    }

    /// Hands to the trend agent what the last frame says, once that has been passed on. Where the
    /// trend agent is behind, false: the caller waits with the next frame. Where there is no time
    /// for compression, of events or of channels, there is none to wait.
    pub(crate) fn feed_trends(&mut self) -> bool {
        let (Some(trends), Some(seconds)) = (&self.trends, self.seconds.take()) else {
            return true;
        };
        let events = self.events.as_ref().map(|events| &events.throttle);
        let channels = self.channels.as_ref().map(|channels| &channels.throttle);
        let has_time = events.into_iter().chain(channels).all(CompressionThrottle::has_time);
        self.seconds = trends.offer(seconds, has_time);
        self.seconds.is_none()
    }
}

/// A frame that was streamed to its end.
pub(crate) struct Finished<B> {
    pub(crate) frame: Frame,
    pub(crate) counts: Vec<SourceCounts>,
    pub(crate) increment: Ledger,
    pub(crate) stream: Stream<B>,
}

/// The share of the CPUs that is taken to be free before the first frame was encoded.
const FREE_CPU_AT_START: f32 = 0.25;

/// Sources and columns of the run's files: the sources' events, then the links' channels.
pub(crate) fn schema(config: &RecorderConfig) -> Result<Schema, ConfigError> {
    let refused = |key: &str, error: &dyn std::fmt::Display| ConfigError {
        key: key.into(),
        expected: "what the file format has".into(),
        got: error.to_string(),
    };
    let all_reasons = config.ledger_reasons();
    let reasons = |id: usize| all_reasons[id].iter().map(|&name| name.to_owned()).collect();
    let source = |(id, source): (usize, &SourceConfig)| SourceInfo {
        id: id as u32,
        name: source.name.clone(),
        group: source.group.clone(),
        protocol: source.protocol.name.to_owned(),
        required: source.role == SourceRole::Required,
        malformed_reasons: reasons(id),
    };
    let sources: Vec<SourceInfo> = config.sources.iter().enumerate().map(source).collect();
    let mut schema = match sources.is_empty() {
        true => Schema::new(Vec::new()),
        false => Schema::events(sources),
    };
    for (id, source) in (0..).map(SourceId).zip(&config.sources) {
        if let Some(payload) = &source.payload {
            schema = schema
                .with_payload_type(id, payload.clone())
                .map_err(|error| refused("sources.payload", &error))?;
        }
    }
    if config.links.is_empty() {
        return Ok(schema);
    }
    let mut channels = Vec::new();
    for (id, link) in (schema.sources.len() as u32..).zip(&config.links) {
        schema.sources.push(SourceInfo {
            id,
            name: link.name.clone(),
            group: link.group.clone(),
            protocol: "link".to_owned(),
            // Events are complete without it.
            required: false,
            malformed_reasons: reasons(id as usize),
        });
        channels.extend(channels_of(link, id));
    }
    schema.with_channels(channels).map_err(|error| refused("links.channels", &error))
}

fn channels_of(link: &LinkConfig, source: u32) -> impl Iterator<Item = ChannelInfo> + '_ {
    link.channels.iter().map(move |channel| ChannelInfo {
        shape: channel.shape.clone(),
        time_scale: link.time_scale,
        unit: channel.unit.clone(),
        scale: channel.scale,
        offset: channel.offset,
        source: Some(source),
        ..ChannelInfo::new(channel.name.clone(), channel.dtype, channel.rate)
    })
}
