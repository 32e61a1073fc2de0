//! Frames of both kinds: what they are in the schema, and how they are streamed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_builder::SourceRole;
use catchment_encoder::PoolConfig;
use catchment_frame::{ChannelInfo, ColumnCoding, FrameInfo, FrameKind, Schema, SourceInfo};
use catchment_model::{Entry, Ledger, SourceId};
use catchment_telemetry::{FillLevel, Priority};

use crate::build::{Frame, Kind};
use crate::channels::ChannelWriter;
use crate::coding::Lowering;
use crate::columns::{Books, EventWriter};
use crate::config::{ConfigError, RecorderConfig, SourceConfig};
use crate::frames::{Encoders, FrameMemory, NO_FRAME, Target, WrittenFrame};
use crate::links::LinkConfig;
use crate::live::Live;
use crate::pool::ChunkPool;
use crate::recorder::RecorderError;
use crate::stream::Stream;
use crate::trend_thread::{FrameSeconds, TrendFeed};
use crate::wiring::Channels;
use crate::write::SourceCounts;

/// What the write thread gets of the wiring.
pub(crate) struct Sources {
    pub(crate) events: Option<(Arc<ChunkPool>, Arc<FillLevel>)>,
    pub(crate) channels: Option<(Channels, Arc<FillLevel>)>,
    pub(crate) trends: Option<TrendFeed>,
}

/// A frame's file and number.
pub(crate) struct FramePlace {
    pub(crate) file_id: u64,
    pub(crate) sequence: u64,
}

/// Streams frames of events and of channels.
pub(crate) struct FrameWriter {
    memory: FrameMemory,
    encoders: Option<Encoders>,
    events: Option<Half<EventWriter>>,
    channels: Option<Half<ChannelWriter>>,
    ledger_count: usize,
    file_id: u64,
    trends: Option<TrendFeed>,
    /// What the last frame says of its channels' seconds.
    seconds: Option<FrameSeconds>,
    /// When the last frame of channels began to be streamed, and how long that took.
    last: Option<(Instant, Duration)>,
}

/// A writer, and how much compression there is time for.
struct Half<W> {
    writer: W,
    lowering: Lowering,
}

impl<W> Half<W> {
    fn new(writer: W, waiting: Arc<FillLevel>) -> Self {
        Self { writer, lowering: Lowering::new(waiting) }
    }
}

impl FrameWriter {
    pub(crate) fn new(
        config: &RecorderConfig,
        schema: &Schema,
        sources: Sources,
        live: &Live,
    ) -> Result<Self, RecorderError> {
        let coding = |name: &str| config.frame.codings.of(name);
        let codings: Vec<ColumnCoding> =
            config.sources.iter().map(|source| coding(&source.name)).collect();
        let events = sources.events.and_then(|(pool, waiting)| {
            Some(Half::new(EventWriter::new(schema, pool, &codings)?, waiting))
        });
        let channels = config.links.iter().flat_map(|link| &link.channels);
        let codings: Vec<ColumnCoding> = channels.map(|channel| coding(&channel.name)).collect();
        let first_link = config.sources.len();
        let trends = sources.trends.is_some();
        let slice_ns = config.links.first().map_or(1, |link| link.slice_ns);
        let channels = sources.channels.map(|(wired, waiting)| {
            let place = (first_link, slice_ns);
            Half::new(ChannelWriter::new(schema, wired, place, (&codings, trends)), waiting)
        });
        let pool = PoolConfig {
            threads: config.encode.threads,
            bytes_max: config.encode_bytes(),
            times: Some(Arc::clone(&live.threads)),
            begin: || Priority::Background.apply(),
        };
        let needed = channels.is_some() || config.frame.codings.compresses();
        let what = "an encoder thread";
        let system = |source| RecorderError::System { what, source };
        let encoders = needed.then(|| Encoders::new(pool).map_err(system)).transpose()?;
        // Until it is known.
        encoders.iter().for_each(|encoders| encoders.set_free_cpu_share(FREE_CPU_AT_START));
        let ledger_count = config.ledger_count();
        Ok(Self {
            trends: sources.trends,
            seconds: None,
            memory: FrameMemory::new(),
            encoders,
            events,
            channels,
            ledger_count,
            file_id: 0,
            last: None,
        })
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

    /// Streams a frame. The caller ends the job.
    pub(crate) fn write<T>(
        &mut self,
        target: Target<'_, T>,
        place: FramePlace,
        (frame, counts): (&mut Frame, &mut [SourceCounts]),
        increment: &Ledger,
    ) -> (Stream, WrittenFrame) {
        let cut = &mut frame.cut;
        let FramePlace { file_id, sequence } = place;
        let mut own = Ledger::new(self.ledger_count);
        if self.file_id != file_id {
            self.file_id = file_id;
            self.channels.iter().for_each(|half| half.writer.begin_file());
        }
        let start = Instant::now();
        if let (Some(encoders), Some((begun, took))) = (&self.encoders, self.last) {
            // The share of the time in which nothing was encoded.
            let busy = took.as_secs_f32() / start.duration_since(begun).as_secs_f32().max(1e-6);
            encoders.set_free_cpu_share(1.0 - busy);
        }
        let Self { memory, encoders, events, channels, .. } = self;
        let written = match (frame.kind, events, channels, encoders) {
            (Kind::Channels, _, Some(half), Some(encoders)) => {
                // The rows do not say it.
                for (own, counts) in own.sources.iter_mut().zip(&*counts) {
                    own[Entry::FragmentsRecorded] = counts.fragments;
                    own[Entry::FragmentBytesRecorded] = counts.bytes;
                    own[Entry::FragmentsMissing] = counts.missing;
                }
                let info = FrameInfo { file_id, sequence, ..half.writer.info(cut) };
                let Half { writer, lowering } = half;
                lowering.begin(cut.payload_bytes);
                let books = Books { increment, own: &mut own, lowering };
                let until_ns = info.time_last_ns;
                let written = writer.write((memory, encoders), target, (info, cut), books);
                let channels = writer.take_seconds();
                self.seconds =
                    (!channels.is_empty()).then_some(FrameSeconds { channels, until_ns });
                written
            }
            (Kind::Events, Some(half), _, encoders) => {
                let times = &cut.times_ns;
                let info = FrameInfo {
                    kind: FrameKind::Events,
                    file_id,
                    sequence,
                    time_first_ns: times.iter().copied().min().unwrap_or(0),
                    time_last_ns: times.iter().copied().max().unwrap_or(0),
                    key_first: cut.keys.first().copied().unwrap_or(0),
                    key_last: cut.keys.last().copied().unwrap_or(0),
                    rows: cut.keys.len() as u64,
                    ..NO_FRAME
                };
                let Half { writer, lowering } = half;
                lowering.begin(cut.payload_bytes);
                let books = Books { increment, own: &mut own, lowering };
                writer.write((memory, encoders.as_mut()), target, (info, cut), books)
            }
            _ => unreachable!("a frame of a kind that the configuration has"),
        };
        self.last = Some((start, start.elapsed()));
        for (counts, own) in counts.iter_mut().zip(&own.sources) {
            counts.lowered = own[Entry::BytesCompressionLowered];
        }
        written
    }

    /// Hands to the trend thread what the last frame says, which the caller has passed on before:
    /// this may wait. Where there is no time for compression, of events or of channels, there is
    /// none to wait.
    pub(crate) fn feed_trends(&mut self) {
        let (Some(trends), Some(seconds)) = (&self.trends, self.seconds.take()) else { return };
        let events = self.events.as_ref().map(|half| &half.lowering);
        let both = events.into_iter().chain(self.channels.as_ref().map(|half| &half.lowering));
        trends.send(seconds, || both.clone().all(Lowering::has_time));
    }
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
    let source = |(id, source): (usize, &SourceConfig)| SourceInfo {
        id: id as u32,
        name: source.name.clone(),
        group: source.group.clone(),
        protocol: "hadtu".to_owned(),
        required: source.role == SourceRole::Required,
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
