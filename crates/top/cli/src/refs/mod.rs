//! References: a run's channels as Zarr arrays whose chunks are the files' own columns.
//!
//! The result is kerchunk's JSON (version 1): every key of a Zarr store with its text, or with the
//! file, offset and length where its bytes stand. Plain xarray opens it; nothing is copied but what
//! cannot be pointed at: the times, chunks at a run's ends and at gaps, and columns that were
//! stored by a codec that not every numcodecs has, or by another than most of their channel's.
//! These go to a file of their own beside the JSON.
//!
//! Readers of references check none of our checksums. So what is pointed at is checked when the
//! references are made, and a channel with a damaged column is left out.

mod grid;
mod zarr;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::ops::Range;

use anyhow::Context;
use catchment_codec::{Codec, Coding, ColumnEncoder, Element};
use catchment_frame::Dtype;
use catchment_model::{SampleRate, TimeScale};
use catchment_storage::{Channel, Piece, Run, Select, StorageError};
use serde_json::{Map, Value, json};

use grid::{Chunk, Grid, Part};

/// How references are made.
pub(crate) struct Options<'a> {
    /// What stands before a file's name, with its slash; without it the file's whole path does.
    pub(crate) prefix: Option<&'a str>,
    /// The name of the file for copies, as it is to be found by readers.
    pub(crate) copies: String,
    /// Whether times are written too.
    pub(crate) times: bool,
    /// Whether columns are pointed at that plain xarray does not read.
    pub(crate) as_stored: bool,
}

/// What was made.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Summary {
    pub(crate) channels: usize,
    pub(crate) chunks_referenced: u64,
    pub(crate) chunks_copied: u64,
    pub(crate) bytes_copied: u64,
    /// Stored bytes of the columns that are pointed at, all of them checked.
    pub(crate) bytes_checked: u64,
    /// Channels with columns that plain xarray does not read.
    pub(crate) channels_transcoded: usize,
    /// Of the copied chunks, those that hold samples of such columns, and their bytes.
    pub(crate) chunks_transcoded: u64,
    pub(crate) bytes_transcoded: u64,
    /// Channels that could not be referenced, and why.
    pub(crate) left_out: Vec<String>,
}

/// Makes the references of these channels; copies are written to `copies`.
pub(crate) fn references(
    run: &Run,
    channels: &[Channel<'_>],
    options: &Options<'_>,
    copies: &mut dyn Write,
) -> anyhow::Result<(Value, Summary)> {
    let mut maker = Maker {
        run,
        options,
        copies,
        copied_bytes: 0,
        refs: BTreeMap::new(),
        summary: Summary::default(),
        encoder: ColumnEncoder::new(),
    };
    maker.refs.insert(".zgroup".into(), text(&json!({"zarr_format": 2})));
    let attributes = json!({"run": run.header().run.to_string(),
        "run_number": run.header().run_number, "writer": run.header().writer});
    maker.refs.insert(".zattrs".into(), text(&attributes));
    let mut arrays = Vec::new();
    let mut names = HashSet::new();
    for &channel in channels {
        match Laid::out(channel, options.as_stored)? {
            Ok(laid) if names.insert(laid.name.clone()) => arrays.push(laid),
            Ok(laid) => maker.leave_out(channel, &format!("its name, {}, is taken", laid.name)),
            Err(why) => maker.leave_out(channel, &why),
        }
    }
    let axes = axes(&arrays);
    let mut whole = Vec::with_capacity(arrays.len());
    for laid in arrays {
        match maker.array(&laid, &axes[&laid.axis()])? {
            Ok(()) => whole.push(laid),
            Err(damage) => maker.leave_out(laid.channel, &damage.to_string()),
        }
    }
    let arrays = whole;
    if options.times {
        let mut written = HashSet::new();
        for laid in &arrays {
            let name = &axes[&laid.axis()];
            if written.insert(name) {
                maker.times(laid, name)?;
            }
        }
    }
    maker.summary.channels = arrays.len();
    maker.summary.bytes_copied = maker.copied_bytes;
    let refs: Map<String, Value> = maker.refs.into_iter().collect();
    Ok((json!({"version": 1, "refs": refs}), maker.summary))
}

/// A channel, laid out as an array.
struct Laid<'a> {
    channel: Channel<'a>,
    name: String,
    element: (&'static str, Value),
    codec: Codec,
    /// None where the bytes are raw.
    compressor: Option<Value>,
    pieces: Vec<Piece>,
    /// Whether columns are recompressed because plain xarray does not read them.
    transcoded: bool,
    grid: Grid,
}

/// What two channels share if they share a time axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Axis {
    rate: SampleRate,
    scale: TimeScale,
    first_sample: u64,
    samples: u64,
}

impl<'a> Laid<'a> {
    /// The layout, or why there is none.
    fn out(channel: Channel<'a>, as_stored: bool) -> anyhow::Result<Result<Self, String>> {
        let no = |why: &str| Ok(Err(why.to_owned()));
        let info = channel.info();
        let Some(element) = zarr::element(info.dtype) else {
            return no("numpy has no such type");
        };
        // A slash would make a group of it, in some readers a backslash too.
        let name = info.name.replace(['/', '\\'], "_");
        if matches!(name.as_str(), "." | "..") {
            return no("a Zarr array cannot have this name");
        }
        let pieces = match channel.pieces() {
            Err(damage) if damage.is_damage() => return no(&damage.to_string()),
            pieces => pieces?,
        };
        if pieces.is_empty() {
            return no("it has no samples");
        }
        let rising = pieces.windows(2).all(|w| w[0].end_sample() <= w[1].first_sample);
        if !rising {
            return no("its samples are not in the order of time");
        }
        if pieces.iter().any(|piece| matches!(piece.entry.codec, Codec::Base | Codec::Unknown(_))) {
            return no("its codec is unknown to this version");
        }
        let readable = |codec: Codec| as_stored || zarr::is_plain(codec);
        let codec = usual_codec(pieces.iter().filter(|piece| readable(piece.entry.codec)));
        let codec = codec.unwrap_or_else(|| Coding::portable(info.dtype.element()).codec());
        let compressor = zarr::compressor(codec);
        let part = |(index, piece): (usize, &Piece)| Part {
            index,
            first_sample: piece.first_sample,
            samples: piece.samples,
            usable: piece.entry.codec == codec && piece.samples == piece.entry.rows,
        };
        // Readers take times as signed numbers.
        let last_ns = info.rate.time_ns(pieces.iter().map(Piece::end_sample).max().unwrap_or(0));
        if i64::try_from(last_ns).is_err() {
            return no("its times are 2^63 ns or more, beyond what int64 holds");
        }
        let parts: Vec<Part> = pieces.iter().enumerate().map(part).collect();
        let Some(grid) = Grid::of(&parts) else {
            return no("its samples are too far apart");
        };
        let transcoded = pieces.iter().any(|piece| !readable(piece.entry.codec));
        Ok(Ok(Self { channel, name, element, codec, compressor, pieces, transcoded, grid }))
    }

    /// Whether a chunk holds samples of a column that plain xarray does not read.
    fn is_transcoded(&self, samples: &Range<u64>) -> bool {
        // They rise.
        let first = self.pieces.partition_point(|piece| piece.end_sample() <= samples.start);
        let pieces = self.pieces[first..].iter();
        let mut there = pieces.take_while(|piece| piece.first_sample < samples.end);
        self.transcoded && there.any(|piece| !zarr::is_plain(piece.entry.codec))
    }

    /// What stands where there is no sample. An integer type has no value for it: one of its own is
    /// taken where samples are missing, and none is named where they are all there, because xarray
    /// takes a fill value for "missing" wherever it meets it.
    fn fill_value(&self) -> Value {
        let integer = self.element.1.is_number();
        if integer && !self.grid.gaps { Value::Null } else { self.element.1.clone() }
    }

    fn axis(&self) -> Axis {
        let info = self.channel.info();
        Axis {
            rate: info.rate,
            scale: info.time_scale,
            first_sample: self.grid.first_sample,
            samples: self.grid.samples,
        }
    }
}

/// The codec of most samples, if there are any.
fn usual_codec<'a>(pieces: impl Iterator<Item = &'a Piece>) -> Option<Codec> {
    let mut totals: HashMap<Codec, u64> = HashMap::new();
    for piece in pieces {
        *totals.entry(piece.entry.codec).or_default() += piece.samples;
    }
    let most = totals.into_iter().max_by_key(|(codec, total)| (*total, codec.number()));
    most.map(|(codec, _)| codec)
}

/// A name for each axis: `time`, or `time_` and the rate where there are several.
fn axes(arrays: &[Laid<'_>]) -> HashMap<Axis, String> {
    let taken: HashSet<&str> = arrays.iter().map(|laid| laid.name.as_str()).collect();
    let mut used = HashSet::new();
    let mut names = HashMap::new();
    let distinct: HashSet<Axis> = arrays.iter().map(Laid::axis).collect();
    for axis in arrays.iter().map(Laid::axis) {
        if names.contains_key(&axis) {
            continue;
        }
        let base = match distinct.len() {
            1 => "time".to_owned(),
            _ => format!("time_{}", axis.rate.to_string().replace(' ', "").replace('/', "_per_")),
        };
        let free = |name: &String| !taken.contains(name.as_str()) && !used.contains(name);
        let candidates = (2..).map(|number| format!("{base}_{number}"));
        let name = std::iter::once(base.clone()).chain(candidates).find(free);
        let name = name.expect("one of endlessly many names is free");
        used.insert(name.clone());
        names.insert(axis, name);
    }
    names
}

struct Maker<'a> {
    run: &'a Run,
    options: &'a Options<'a>,
    copies: &'a mut dyn Write,
    copied_bytes: u64,
    refs: BTreeMap<String, Value>,
    summary: Summary,
    encoder: ColumnEncoder,
}

impl Maker<'_> {
    fn leave_out(&mut self, channel: Channel<'_>, why: &str) {
        self.summary.left_out.push(format!("{}: {why}", channel.info().name));
    }

    /// Writes an array, or says what is damaged about it; its keys are there only if it is whole.
    fn array(&mut self, laid: &Laid<'_>, axis: &str) -> anyhow::Result<Result<(), StorageError>> {
        let (info, grid, name) = (laid.channel.info(), &laid.grid, &laid.name);
        let with_shape =
            |length| std::iter::once(length).chain(info.shape.iter().copied()).collect();
        let array = zarr::Array {
            dtype: laid.element.0,
            fill_value: laid.fill_value(),
            shape: with_shape(grid.samples),
            chunks: with_shape(grid.chunk_samples),
            codecs: laid.compressor.iter().cloned().collect(),
        };
        let mut references = vec![
            (format!("{name}/.zarray"), text(&array.json())),
            (format!("{name}/.zattrs"), text(&attributes(laid, axis))),
        ];
        let inner: String = info.shape.iter().map(|_| ".0").collect();
        let pointed_at = grid.chunks.iter().filter_map(|chunk| match *chunk {
            Chunk::Stored(index) => Some(laid.pieces[index]),
            Chunk::Absent | Chunk::Made => None,
        });
        let pointed_at: Vec<Piece> = pointed_at.collect();
        match laid.channel.check_stored(&pointed_at) {
            Err(damage) if damage.is_damage() => return Ok(Err(damage)),
            checked => checked?,
        }
        let referenced = self.summary.chunks_referenced;
        for (index, chunk) in grid.chunks.iter().enumerate() {
            let reference = match *chunk {
                Chunk::Absent => continue,
                Chunk::Stored(index) => self.stored(&laid.pieces[index]),
                Chunk::Made => match self.made(laid, index)? {
                    Ok(reference) => reference,
                    Err(damage) => {
                        self.summary.chunks_referenced = referenced;
                        return Ok(Err(damage));
                    }
                },
            };
            references.push((format!("{name}/{index}{inner}"), reference));
        }
        self.summary.bytes_checked +=
            pointed_at.iter().map(|piece| piece.entry.stored_bytes).sum::<u64>();
        self.summary.channels_transcoded += usize::from(laid.transcoded);
        self.refs.extend(references);
        Ok(Ok(()))
    }

    fn stored(&mut self, piece: &Piece) -> Value {
        self.summary.chunks_referenced += 1;
        let frame = &self.run.channel_frames()[piece.frame];
        let file = self.run.files().nth(frame.file).expect("a frame's file is one of the run's");
        let url = match self.options.prefix {
            Some(prefix) => {
                let name = file.path.file_name().unwrap_or_default();
                format!("{prefix}{}", name.to_string_lossy())
            }
            None => std::path::absolute(file.path)
                .unwrap_or_else(|_| file.path.to_owned())
                .display()
                .to_string(),
        };
        json!([url, frame.summary.offset + piece.entry.offset, piece.entry.stored_bytes])
    }

    /// A chunk put together from what there is of its samples, unless they cannot be read.
    fn made(
        &mut self,
        laid: &Laid<'_>,
        index: usize,
    ) -> anyhow::Result<Result<Value, StorageError>> {
        let (info, samples) = (laid.channel.info(), laid.grid.samples_of(index));
        let row_bytes = info.sample_bytes() as usize;
        let bytes = usize::try_from(laid.grid.chunk_samples)?
            .checked_mul(row_bytes)
            .context("a chunk that is larger than memory")?;
        let segments = match laid.channel.read(&Select::Samples(samples.clone())) {
            Err(damage) if damage.is_damage() => return Ok(Err(damage)),
            segments => segments?,
        };
        let mut raw = zarr::fill(info.dtype, bytes);
        for segment in segments {
            let start = (segment.first_sample - samples.start) as usize * row_bytes;
            raw[start..start + segment.bytes.len()].copy_from_slice(&segment.bytes);
        }
        let before = self.copied_bytes;
        let reference = self.copy(laid.codec, info.dtype, &raw)?;
        if laid.is_transcoded(&samples) {
            self.summary.chunks_transcoded += 1;
            self.summary.bytes_transcoded += self.copied_bytes - before;
        }
        Ok(Ok(reference))
    }

    /// The times of an axis, in chunks as long as those of its first channel.
    fn times(&mut self, laid: &Laid<'_>, axis: &str) -> anyhow::Result<()> {
        let (info, grid) = (laid.channel.info(), &laid.grid);
        let array = zarr::Array {
            dtype: "<i8",
            fill_value: Value::Null,
            shape: vec![grid.samples],
            chunks: vec![grid.chunk_samples],
            codecs: vec![
                json!({"id": "delta", "dtype": "<i8", "astype": "<i8"}),
                json!({"id": "zstd", "level": 1}),
            ],
        };
        self.refs.insert(format!("{axis}/.zarray"), text(&array.json()));
        let attributes = zarr::time_attributes(axis, info.time_scale);
        self.refs.insert(format!("{axis}/.zattrs"), text(&attributes));
        let mut raw = Vec::new();
        for index in 0..grid.chunks.len() {
            let mut before = 0;
            raw.clear();
            for sample in grid.samples_of(index) {
                let time = info.rate.time_ns(sample);
                raw.extend_from_slice(&time.wrapping_sub(before).to_le_bytes());
                before = time;
            }
            let reference = self.copy(Codec::Zstd, Dtype::I64, &raw)?;
            self.refs.insert(format!("{axis}/{index}"), reference);
        }
        Ok(())
    }

    fn copy(&mut self, codec: Codec, dtype: Dtype, raw: &[u8]) -> anyhow::Result<Value> {
        let element = dtype.element();
        let encoded = match coding(codec, element) {
            Coding::None => raw,
            coding => self
                .encoder
                .encode_always(coding, element, raw)
                .with_context(|| format!("a chunk of {} bytes by {codec}", raw.len()))?,
        };
        self.copies.write_all(encoded).context("cannot write the copies")?;
        let offset = self.copied_bytes;
        self.copied_bytes += encoded.len() as u64;
        self.summary.chunks_copied += 1;
        Ok(json!([self.options.copies, offset, encoded.len()]))
    }
}

/// What makes bytes that readers of that codec take.
fn coding(codec: Codec, element: Element) -> Coding {
    match codec {
        Codec::Lz4 => Coding::Lz4,
        Codec::Zstd => Coding::Zstd { level: 1 },
        Codec::Blosc if element.is_integer() => Coding::BitshuffleLz4,
        Codec::Blosc => Coding::ShuffleZstd { level: 1 },
        Codec::Pcodec => Coding::Pcodec { level: 8 },
        Codec::For => Coding::For,
        Codec::None | Codec::Base | Codec::Unknown(_) => Coding::None,
    }
}

fn attributes(laid: &Laid<'_>, axis: &str) -> Value {
    let info = laid.channel.info();
    let inner = (1..=info.shape.len()).map(|dimension| format!("{}_{dimension}", laid.name));
    let dimensions: Vec<String> = std::iter::once(axis.to_owned()).chain(inner).collect();
    let mut attributes = json!({
        "_ARRAY_DIMENSIONS": dimensions,
        "sample_rate": info.rate.to_string(),
        "time_scale": info.time_scale.to_string(),
        "first_sample": laid.grid.first_sample,
        "start_ns": info.rate.time_ns(laid.grid.first_sample),
    });
    let mut set = |key: &str, value: Value| attributes[key] = value;
    if !info.unit.is_empty() {
        set("units", json!(info.unit));
    }
    if let Some(scale) = info.scale {
        set("scale_factor", json!(scale));
    }
    if let Some(offset) = info.offset {
        set("add_offset", json!(offset));
    }
    // Integers have no value for "missing": where samples are, xarray is told which one stands
    // there, and gives floats.
    if laid.grid.gaps && laid.element.1.is_number() {
        set("_FillValue", laid.element.1.clone());
    }
    attributes
}

fn text(value: &Value) -> Value {
    Value::String(value.to_string())
}
