//! Frames of both kinds: their place in the schema, how they are made from cuts, and how they are
//! streamed to their file.

use std::sync::Arc;

use catchment_agent::Waker;
use catchment_builder::SourceRole;
use catchment_encoder::{Column, Element, Encode, Level, PoolConfig};
use catchment_frame::{
    ChannelInfo, ColumnCoding, EventColumns, FrameKind, Schema, SourceInfo, stored_space,
};
use catchment_model::{Entry, Ledger, SourceId};
use catchment_telemetry::FillLevel;
use catchment_writer::{
    Frame, FrameColumn, FrameEncoder, FrameOwner, FrameSink, FrameUnderWay, Progress, Streamed,
    ledger_column,
};

use crate::build::FrameCut;
use crate::channel_frames::ChannelFrames;
use crate::columns::ColumnBytes;
use crate::config::{ConfigError, RecorderConfig, SourceConfig};
use crate::event_frames::EventFrames;
use crate::file::FrameTag;
use crate::frame_maker::FrameMaker;
use crate::links::LinkConfig;
use crate::pool::ChunkPool;
use crate::throttle::CompressionThrottle;
use crate::trend_agent::{FrameSeconds, TrendFeed};
use crate::wiring::Channels;

/// The parts of the wiring that the write agent receives.
pub(crate) struct Sources {
    pub(crate) events: Option<Arc<ChunkPool>>,
    pub(crate) channels: Option<Channels>,
    /// By group, events before channels: the payload that waits.
    pub(crate) waiting: Vec<Arc<FillLevel>>,
    pub(crate) trends: Option<TrendFeed>,
    /// Wakes one of the encode agents.
    pub(crate) encoders: Waker,
    /// Wakes the write agent.
    pub(crate) writer: Waker,
}

/// A frame's counts of one source or link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SourceCounts {
    pub(crate) fragments: u64,
    pub(crate) bytes: u64,
    pub(crate) missing: u64,
    /// Fragments that their sender marked as broken.
    pub(crate) bad_sender: u64,
    /// Fragments with another tag than their event's.
    pub(crate) bad_tag: u64,
    /// Raw bytes that were compressed less than asked.
    pub(crate) lowered: u64,
}

impl SourceCounts {
    /// The part of a frame's increments that describes the frame itself: known once it is made, and
    /// counted in the live ledger once it is recorded.
    pub(crate) fn of_frame(&self) -> [(Entry, u64); 3] {
        [
            (Entry::FragmentsBadSender, self.bad_sender),
            (Entry::FragmentsBadTag, self.bad_tag),
            (Entry::BytesCompressionLowered, self.lowered),
        ]
    }
}

/// A frame made from a cut, and its counts.
pub(crate) struct BuiltFrame {
    pub(crate) frame: Frame<ColumnBytes>,
    pub(crate) counts: Vec<SourceCounts>,
    group: usize,
    /// Events, or slices.
    keys: u64,
    payload_bytes: u64,
}

impl BuiltFrame {
    /// The most bytes that its columns take, except for the little by which compression can enlarge
    /// them.
    pub(crate) fn bytes_max(&self) -> u64 {
        let columns = &self.frame.columns;
        columns.iter().map(|column| stored_space(column.bytes.raw_bytes() as u64)).sum()
    }
}

/// Makes frames of events and of channels, and streams them.
pub(crate) struct FrameWriter {
    encoder: FrameEncoder<ColumnBytes>,
    /// Raw bytes of the largest column that is encoded.
    compressed_bytes_max: usize,
    /// By group.
    makers: Vec<Throttled>,
    /// The column of the ledger's increments.
    ledger: u32,
    ledger_count: usize,
    file_id: u64,
    trends: Option<TrendFeed>,
    /// The last frame's values of its channels' seconds.
    seconds: Option<FrameSeconds>,
    /// When streaming of the last frame began, and how long it took.
    last_ns: Option<(u64, u64)>,
}

/// The maker of a group's frames, and how much compression there is time for.
struct Throttled {
    frames: Box<dyn FrameMaker>,
    throttle: CompressionThrottle,
}

/// A frame that is being streamed.
pub(crate) struct StreamedFrame {
    group: usize,
    kind: FrameKind,
    columns: FrameUnderWay<ColumnBytes>,
    /// Columns that the sink has taken: their chunks are freed together when the frame is copied.
    streamed: Vec<Streamed<ColumnBytes>>,
    /// None once the frame is copied.
    tag: Option<FrameTag>,
    /// Whether all columns but the last have been streamed.
    has_ledger: bool,
    begun_ns: u64,
    /// The end of the channels' time that it covers.
    until_ns: u64,
}

impl FrameWriter {
    pub(crate) fn new(config: &RecorderConfig, schema: &Arc<Schema>, sources: Sources) -> Self {
        let coding = |name: &str| config.frame.codings.of(name);
        let codings: Vec<ColumnCoding> =
            config.sources.iter().map(|source| coding(&source.name)).collect();
        let events = sources.events.and_then(|pool| {
            Some(Box::new(EventFrames::new(schema, pool, &codings)?) as Box<dyn FrameMaker>)
        });
        let channels = config.links.iter().flat_map(|link| &link.channels);
        let codings: Vec<ColumnCoding> = channels.map(|channel| coding(&channel.name)).collect();
        let first_link = config.sources.len();
        let trends = sources.trends.is_some();
        let slice_ns = config.links.first().map_or(1, |link| link.slice_ns);
        let channels = sources.channels.map(|wired| {
            let frames = ChannelFrames::new(schema, wired, first_link, slice_ns, &codings, trends);
            Box::new(frames) as Box<dyn FrameMaker>
        });
        let (encoders, owner) = (sources.encoders, sources.writer);
        let pool = PoolConfig { bytes_max: config.encode_bytes(), encoders, owner };
        let needed = channels.is_some() || config.frame.codings.compresses();
        let encoder = FrameEncoder::new(needed.then_some(pool));
        // The value until it is known.
        encoder.set_free_cpu_share(FREE_CPU_AT_START);
        let ledger = EventColumns::of(schema).ledger_increment;
        let makers = events.into_iter().chain(channels);
        let throttled =
            |(frames, waiting)| Throttled { frames, throttle: CompressionThrottle::new(waiting) };
        Self {
            encoder,
            compressed_bytes_max: config.compressed_bytes_max(),
            makers: makers.zip(sources.waiting).map(throttled).collect(),
            ledger: ledger.expect("a column of every schema of a recorder"),
            ledger_count: config.ledger_count(),
            file_id: 0,
            trends: sources.trends,
            seconds: None,
            last_ns: None,
        }
    }

    /// An agent that encodes columns, if any are encoded.
    pub(crate) fn encoder(&self) -> Option<Encode<ColumnBytes>> {
        self.encoder.agent()
    }

    /// Makes a frame from a cut; only the cut's memory remains.
    pub(crate) fn frame(&mut self, built: &mut FrameCut) -> BuiltFrame {
        let counts = self.count(built);
        let FrameCut { group, cut } = built;
        let (keys, payload_bytes) = (cut.keys.len() as u64, cut.payload_bytes);
        let frame = self.makers[*group].frames.frame(cut);
        BuiltFrame { frame, counts, group: *group, keys, payload_bytes }
    }

    /// What a frame has and lacks of each source and link.
    fn count(&self, FrameCut { group, cut }: &FrameCut) -> Vec<SourceCounts> {
        let mut counts = vec![SourceCounts::default(); self.ledger_count];
        for (index, column) in cut.columns.iter().enumerate() {
            let counts = &mut counts[self.makers[*group].frames.source_of(index)];
            counts.fragments += column.fragments;
            counts.bytes += column.payload_bytes;
            counts.missing += column.missing;
            counts.bad_sender += column.bad_sender;
            counts.bad_tag += column.bad_tag;
        }
        counts
    }

    /// Begins to stream a frame into a sink's file. The caller continues with
    /// [`FrameWriter::advance`].
    pub(crate) fn begin(
        &mut self,
        built: BuiltFrame,
        increment: Ledger,
        (file_id, sequence): (u64, u64),
        sink: &mut impl FrameSink,
        now_ns: u64,
    ) -> StreamedFrame {
        let BuiltFrame { frame, counts, group, keys, payload_bytes } = built;
        if self.file_id != file_id {
            self.file_id = file_id;
            self.makers.iter().for_each(|maker| maker.frames.begin_file());
        }
        if let Some((begun_ns, took_ns)) = self.last_ns {
            // The share of the time in which nothing was encoded.
            let busy = took_ns as f32 / now_ns.saturating_sub(begun_ns).max(1_000) as f32;
            self.encoder.set_free_cpu_share(1.0 - busy);
        }
        self.makers[group].throttle.begin(payload_bytes);
        let Frame { mut info, columns, .. } = frame;
        info.sequence = sequence;
        sink.begin(info, columns.len() + 1);
        StreamedFrame {
            group,
            kind: info.kind,
            columns: FrameUnderWay::new(columns),
            streamed: Vec::new(),
            tag: Some(FrameTag { counts, increment, keys }),
            has_ledger: false,
            begun_ns: now_ns,
            until_ns: info.time_last_ns,
        }
    }

    /// Streams a frame as far as possible now and as the budget of bytes lasts. Returns
    /// [`Progress::Columns`] when it is copied, and then releases what its columns hold.
    pub(crate) fn advance(
        &mut self,
        frame: &mut StreamedFrame,
        sink: &mut impl FrameSink<Tag = FrameTag>,
        budget: &mut usize,
        now_ns: u64,
    ) -> Progress {
        loop {
            let throttle = &mut self.makers[frame.group].throttle;
            let (compressed_bytes_max, streamed) = (self.compressed_bytes_max, &mut frame.streamed);
            let mut owner = Owner { throttle, compressed_bytes_max, streamed };
            match self.encoder.advance(&mut frame.columns, sink, &mut owner, budget) {
                Progress::Columns if !frame.has_ledger => self.push_ledger(frame),
                Progress::Columns => break,
                Progress::Failed => unreachable!("a recorder's columns are there"),
                progress => return progress,
            }
        }
        let Some(tag) = frame.tag.take() else { return Progress::Columns };
        match sink.finish(tag) {
            Ok(_) => {
                self.last_ns = Some((frame.begun_ns, now_ns.saturating_sub(frame.begun_ns)));
                self.take_seconds(frame);
                Progress::Columns
            }
            Err(tag) => {
                frame.tag = Some(tag);
                Progress::NoRoom
            }
        }
    }

    /// Adds the last column, the increments, which depend on the columns before it.
    fn push_ledger(&self, frame: &mut StreamedFrame) {
        frame.has_ledger = true;
        let Some(tag) = &mut frame.tag else { return };
        let maker = &self.makers[frame.group].frames;
        let mut own = Ledger::new(self.ledger_count);
        for Streamed { column, .. } in frame.streamed.iter().filter(|one| one.lowered) {
            if let ColumnBytes::Chunks(chunks) = column {
                let source = maker.source_of(chunks.index);
                tag.counts[source].lowered += chunks.bytes();
            }
        }
        for (own, counts) in own.sources.iter_mut().zip(&tag.counts) {
            counts.of_frame().into_iter().for_each(|(entry, count)| own[entry] = count);
            if frame.kind == FrameKind::Channels {
                // The rows do not contain it.
                own[Entry::FragmentsRecorded] = counts.fragments;
                own[Entry::FragmentBytesRecorded] = counts.bytes;
                own[Entry::FragmentsMissing] = counts.missing;
            }
        }
        let (form, records) = ledger_column(self.ledger, &tag.increment, &own);
        let bytes = ColumnBytes::Own(records);
        let coding = maker.small_coding();
        frame.columns.push(FrameColumn::small(form, Element::Bytes, coding, bytes));
    }

    /// Takes the seconds of the channels of a copied frame; a frame of increments alone has none.
    fn take_seconds(&mut self, frame: &mut StreamedFrame) {
        let streamed = std::mem::take(&mut frame.streamed);
        let seconds = streamed.into_iter().filter_map(|one| match one.column {
            ColumnBytes::Chunks(chunks) if chunks.watch.is_some() => {
                Some((chunks.index, one.seen.seconds))
            }
            _ => None,
        });
        let channels: Vec<_> = seconds.collect();
        let until_ns = frame.until_ns;
        if frame.kind == FrameKind::Channels {
            self.seconds = (!channels.is_empty()).then_some(FrameSeconds { channels, until_ns });
        }
    }

    /// Passes the seconds of the last frame on to the trend agent. Returns false if the trend agent
    /// is behind; the caller then waits with the next frame. If there is no time for compression,
    /// of events or of channels, there is no time to wait either.
    pub(crate) fn feed_trends(&mut self) -> bool {
        let (Some(trends), Some(seconds)) = (&self.trends, self.seconds.take()) else {
            return true;
        };
        let has_time = self.makers.iter().all(|maker| maker.throttle.has_time());
        self.seconds = trends.offer(seconds, has_time);
        self.seconds.is_none()
    }
}

/// The frame writer's part in streaming a frame.
struct Owner<'a> {
    throttle: &'a mut CompressionThrottle,
    compressed_bytes_max: usize,
    streamed: &'a mut Vec<Streamed<ColumnBytes>>,
}

impl FrameOwner<ColumnBytes> for Owner<'_> {
    fn level(&mut self) -> Level {
        self.throttle.level()
    }

    fn compressed_bytes_max(&self) -> usize {
        self.compressed_bytes_max
    }

    fn streamed(&mut self, column: Streamed<ColumnBytes>) -> Option<Vec<u8>> {
        self.streamed.push(column);
        None
    }
}

/// The share of the CPUs assumed to be free before the first frame is encoded.
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
        protocol: source.protocol.name().to_owned(),
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
            protocol: catchment_wire::link::NAME.to_owned(),
            // Events are complete without this source.
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
