//! Channels of all sorts as a model: some rates, types and shapes, with and without gaps.

use catchment_codec::Coding;
use catchment_fixtures::{Column, Frame, Random};
use catchment_frame::{
    ChannelColumns, ChannelInfo, Codec, Dtype, FileHeader, FrameKind, SampleRun, Span,
    encode_channel_increment, encode_spans,
};
use catchment_model::{Entry, Ledger, SampleRate, TimeScale};

use super::{Model, header};

/// The first frame begins here: GPS 1400000000 s. Frames last 1 s.
pub const FIRST_NS: u64 = 1_400_000_000_000_000_000;
pub const FRAME_NS: u64 = 1_000_000_000;

/// Five channels beside the events of `sources`.
pub fn channel_header(sources: u32, locator: bool) -> FileHeader {
    let channel = |name: &str, dtype, num, den| {
        let rate = SampleRate::new(num, den).expect("a rate");
        ChannelInfo { time_scale: TimeScale::Gps, ..ChannelInfo::new(name, dtype, rate) }
    };
    let channels = vec![
        ChannelInfo {
            unit: "V".into(),
            scale: Some(0.000_305),
            offset: Some(-1.5),
            source: Some(0),
            ..channel("X1:FAST", Dtype::I16, 2_048, 1)
        },
        ChannelInfo { unit: "strain".into(), ..channel("X1:MIDDLE", Dtype::F32, 256, 1) },
        channel("X1:COMPLEX", Dtype::C64, 16, 1),
        ChannelInfo { shape: vec![3], ..channel("X1:VECTOR", Dtype::U8, 10, 3) },
        channel("X1:MINUTE", Dtype::F64, 1, 60),
    ];
    let mut header = header(sources);
    let schema = catchment_frame::Schema::clone(&header.schema);
    header.schema = schema.with_channels(channels).expect("a schema").into();
    header.locator = locator;
    header
}

/// One channel's data in one frame.
#[derive(Clone, Debug)]
pub struct Samples {
    pub id: u32,
    pub runs: Vec<SampleRun>,
    pub raw: Vec<u8>,
}

/// The samples of a frame: whole, or with gaps at the beginning and within.
pub fn some_samples(
    random: &mut Random,
    header: &FileHeader,
    frame: u64,
    gaps: bool,
) -> Vec<Samples> {
    let slice = FIRST_NS / FRAME_NS + frame;
    let mut all = Vec::new();
    for channel in &ChannelColumns::of(&header.schema).channels {
        let range = channel.rate.samples_of_slice(slice, FRAME_NS);
        let mut numbers: Vec<u64> = range.collect();
        if gaps && random.below(4) > 0 {
            let from = random.index(numbers.len() + 1);
            let to = (from + random.index(20)).min(numbers.len());
            numbers.drain(from..to);
            numbers.drain(..random.index(3).min(numbers.len()));
        }
        let mut runs: Vec<SampleRun> = Vec::new();
        for (row, &number) in numbers.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if run.first_sample + run.rows == number => run.rows += 1,
                _ => runs.push(SampleRun { row: row as u64, rows: 1, first_sample: number }),
            }
        }
        let bytes = numbers.len() * channel.sample_bytes() as usize;
        // Numbers that are close to each other, so that every codec saves something.
        let step = channel.sample_bytes() as usize;
        let raw = (0..bytes).map(|at| if at % step == 0 { random.index(9) as u8 } else { 0 });
        let raw = raw.collect();
        if !numbers.is_empty() {
            all.push(Samples { id: channel.id, runs, raw });
        }
    }
    all
}

/// The frame of those samples, according to section 10 of the specification.
pub fn channel_frame(
    header: &FileHeader,
    frame: u64,
    samples: &[Samples],
    increment: Option<&Ledger>,
    codec: impl Into<Coding>,
) -> Frame {
    let codec = codec.into();
    let channels = ChannelColumns::of(&header.schema);
    let start = FIRST_NS + frame * FRAME_NS;
    let mut made = Frame {
        kind: Some(FrameKind::Channels),
        times: (start, start + FRAME_NS),
        ..Frame::default()
    };
    let mut spans = Vec::new();
    for one in samples {
        let channel = channels.by_id(one.id).expect("a channel");
        let rows = one.runs.iter().map(|run| run.rows).sum();
        let first = one.runs[0].first_sample;
        let start = (first, channel.rate.time_ns(first));
        let (raw, dtype) = (one.raw.clone(), channel.dtype);
        made.columns.push(Column { id: one.id, codec, dtype, rows, raw, start });
        made.rows += rows;
        let later = one.runs[1..].iter();
        let gaps: Vec<_> =
            later.map(|run| Span { row: run.row, sample: run.first_sample }).collect();
        encode_spans(one.id, &gaps, &mut spans);
    }
    let mut records = |id: Option<u32>, raw: Vec<u8>, bytes: u64| {
        let (id, rows) = (id.expect("a column"), raw.len() as u64 / bytes);
        let dtype = Dtype::Record;
        made.columns.push(Column { id, codec: Coding::None, dtype, rows, raw, start: (0, 0) });
    };
    if !spans.is_empty() {
        records(channels.spans, spans, 24);
    }
    if let Some(increment) = increment {
        let mut raw = Vec::new();
        encode_channel_increment(increment, &mut raw);
        records(channels.ledger_increment, raw, 16);
    }
    made
}

/// A model of frames of channels, and their samples.
pub fn channel_model(
    seed: u64,
    frames: u64,
    gaps: bool,
    codec: Codec,
) -> (Model, Vec<Vec<Samples>>) {
    let mut random = Random::new(seed);
    let mut model = Model { header: channel_header(2, true), ..Model::new(2) };
    let mut all = Vec::new();
    for frame in 0..frames {
        let samples = some_samples(&mut random, &model.header, frame, gaps);
        let mut increment = Ledger::new(2);
        let counts = &mut increment.sources[0];
        counts[Entry::FragmentsRecorded] = samples.len() as u64;
        counts[Entry::FragmentBytesRecorded] = samples.iter().map(|one| one.raw.len() as u64).sum();
        counts[Entry::FragmentsMissing] = 5 - samples.len() as u64;
        model.ledger.add(&increment);
        let frame = channel_frame(&model.header, frame, &samples, Some(&increment), codec);
        model.frames.push(frame);
        all.push(samples);
    }
    for source in &mut model.ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
    (model, all)
}
