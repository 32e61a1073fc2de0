//! Golden files of version 1.3: columns with checksums by block, whole and damaged, positions of
//! sources, and features specified for later: unknown columns and flags, a qualified codec. The
//! descriptions beside them contain the results of readers of 1.3, and those of 1.2. They are
//! written by `CATCHMENT_GOLDEN_WRITE=1 cargo test -p catchment-frame --test all golden_v1_3`,
//! until the version is released.

#![expect(clippy::disallowed_methods, reason = "golden files are read from the repository")]

use std::ops::Range;
use std::path::PathBuf;

use crate::common;
use catchment_codec::Coding;
use catchment_frame::{
    BLOCK_CHECKSUMS, BlockChecksums, ChannelColumns, ChannelInfo, Codec, ColumnEntry, ColumnInfo,
    ColumnKind, ColumnProblem, Dtype, FileHeader, FileReader, FrameError, FrameInfo, FrameKind,
    FrameSummary, Origin, Position, Positions, ReadAt, SampleRun, Schema, StoredColumn, TocBuilder,
    TocFlags, crc32c, encode_positions, frame_ledger, repair, sequences_missing, verify_frame,
    write_frame,
};
use catchment_model::{Entry, Ledger, SampleRate};
use common::channels::{FIRST_NS, FRAME_NS, Samples, channel_frame};
use common::{Model, header, some_model};
use serde_json::{Value, json};

fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.3");
    folder.join(name)
}

/// Sample `sample` of a frame, in all of these files.
fn value(frame: u64, sample: u64) -> u8 {
    (7 * sample + sample / 251 + 13 * frame) as u8
}

/// Noise and zeros: codecs make a little less of it.
fn half_zeros(frame: u64, sample: u64) -> u8 {
    if sample % 16 < 8 {
        return 0;
    }
    let mixed = (sample + 1 + (frame << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[0]
}

/// A file of channels of one type: name and samples a second.
fn channel_header(dtype: Dtype, channels: &[(&str, u64)], locator: bool) -> FileHeader {
    let channels = channels.iter().map(|(name, samples)| {
        ChannelInfo::new(*name, dtype, SampleRate::new(*samples, 1).expect("a rate"))
    });
    let mut header = header(1);
    let schema = Schema::channels(header.schema.sources.clone(), channels.collect());
    header.schema = schema.expect("a schema").into();
    header.locator = locator;
    header
}

fn samples_of(header: &FileHeader, frame: u64, value: fn(u64, u64) -> u8) -> Vec<Samples> {
    let channels = header.schema.columns.iter().filter_map(ChannelInfo::of);
    let one = |channel: ChannelInfo| {
        let range = channel.rate.samples_of_slice(FIRST_NS / FRAME_NS + frame, FRAME_NS);
        let rows = range.end - range.start;
        let runs = vec![SampleRun { row: 0, rows, first_sample: range.start }];
        let bytes = if channel.dtype == Dtype::U16 { 2 } else { 1 };
        let sample = |n| u16::from(value(frame, n)).to_le_bytes().into_iter().take(bytes);
        Samples { id: channel.id, runs, raw: (0..rows).flat_map(sample).collect() }
    };
    channels.map(one).collect()
}

/// Frames of a second of all channels.
fn blocks_model(
    channels: &[(&str, u64)],
    frames: u64,
    coding: Coding,
    value: fn(u64, u64) -> u8,
) -> Model {
    // Codecs of numbers need numbers of more than a byte.
    let dtype = match coding {
        Coding::For | Coding::Pcodec { .. } => Dtype::U16,
        _ => Dtype::U8,
    };
    let mut model = Model { header: channel_header(dtype, channels, true), ..Model::new(1) };
    for frame in 0..frames {
        let samples = samples_of(&model.header, frame, value);
        model.frames.push(channel_frame(&model.header, frame, &samples, None, coding));
    }
    model.checkpoint_every = 1;
    model.flags.run_ended = true;
    model
}

const CHANNELS: [(&str, u64); 3] =
    [("X1:BLOCK", 65_536), ("X1:MORE", 65_537), ("X1:LONG", 200_000)];
const ENCODED: [(&str, u64); 1] = [("X1:ENCODED", 150_000)];
/// A frame of one column of that many bytes ends with them.
const DAMAGED: (&str, u64) = ("X1:LONG", 139_072);

/// Name and bytes of each file, and its description.
fn goldens() -> Vec<(&'static str, Vec<u8>, Value)> {
    let mut all = of_this_page();
    all.extend(crate::golden_base::goldens());
    all
}

fn of_this_page() -> Vec<(&'static str, Vec<u8>, Value)> {
    let about = "columns of 65,536 stored bytes (no table), 65,537 and 200,000";
    let none = blocks_model(&CHANNELS, 1, Coding::None, value).encode();
    let of = |coding| blocks_model(&ENCODED, 1, coding, half_zeros).encode().closed;
    let described = |about: &str, closed: bool, channels: &[(&str, u64)], values: &str| {
        let channels: Vec<_> = channels.iter().map(|(name, rate)| json!([name, rate])).collect();
        json!({"about": about, "closed": closed, "frames": 1, "values": values,
               "channels": channels, "of_1_2": "the same, ranges of raw columns unchecked"})
    };
    let zeros = "n mod 16 below 8: 0; any other is noise";
    let blosc = Coding::BitshuffleZstd { level: 1 };
    vec![
        ("blocks-none", none.closed, described(about, true, &CHANNELS, VALUES)),
        (
            "blocks-unclosed",
            none.unclosed,
            described("with a checkpoint", false, &CHANNELS, VALUES),
        ),
        ("blocks-blosc", of(blosc), described("blosc with a table", true, &ENCODED, zeros)),
        ("blocks-lz4", of(Coding::Lz4), described("lz4 with a table", true, &ENCODED, zeros)),
        (
            "blocks-zstd",
            of(Coding::Zstd { level: 3 }),
            described("zstd with a table", true, &ENCODED, zeros),
        ),
        ("blocks-for", of(Coding::For), described("for with a table", true, &ENCODED, zeros)),
        (
            "blocks-pcodec",
            of(Coding::Pcodec { level: 8 }),
            described("pcodec with a table", true, &ENCODED, zeros),
        ),
        damaged(),
        not_stored(),
        reserved(),
        positions(),
        crate::golden_expected::golden(),
        crate::golden_holes::golden(),
        crate::golden_pieces::golden(),
    ]
}

/// A file of a variant that has one of two channels.
fn not_stored() -> (&'static str, Vec<u8>, Value) {
    let mut header = channel_header(Dtype::U8, &[("X1:KEPT", 100), ("X1:LEFT", 200)], false);
    let kept = ChannelColumns::of(&header.schema).channels[0].id;
    header.schema = header.schema.of_variant(&[true], |id| id == kept).into();
    header.variant = 1;
    let samples = samples_of(&header, 0, value);
    let frames = vec![channel_frame(&header, 0, &samples, None, Coding::None)];
    let origins = vec![Origin { variant: 1, ..Origin::SINGLE }];
    let model = Model { header, frames, origins, ..Model::new(1) };
    let described = json!({
        "about": "variant 1 of a run, which has one of two channels",
        "closed": true,
        "values": VALUES,
        "variant": 1,
        "channels": [["X1:KEPT", 100]],
        "not_stored": [["X1:LEFT", 200]],
        "of_1_2": "the channel that is there; the other is unknown",
    });
    ("channels-not-stored", model.encode().closed, described)
}

const VALUES: &str = "7 n + n // 251 + 13 frame, mod 256";

/// A frame of one column, and its position.
struct Made {
    bytes: Vec<u8>,
    summary: FrameSummary,
    entry: ColumnEntry,
}

impl Made {
    /// The directory's flags of the column, and the checksums that cover them.
    fn set_flags(&mut self, flags: u32) {
        self.entry.flags = flags;
        self.bytes[128 + 8..128 + 12].copy_from_slice(&flags.to_le_bytes());
        self.summary.header_crc32c = sealed(&mut self.bytes[..128 + 64], 12);
    }

    /// A value of the table, and the last checksum that covers it.
    fn set_value(&mut self, block: usize, value: u32) {
        let table = self.table();
        let at = table.start + 4 * block;
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let mut covered = self.entry.crc32c.to_le_bytes().to_vec();
        covered.extend_from_slice(&self.entry.stored_bytes.to_le_bytes());
        covered.extend_from_slice(&self.bytes[table.start..table.end - 4]);
        self.bytes[table.end - 4..table.end].copy_from_slice(&crc32c(&covered).to_le_bytes());
    }

    fn stored(&self) -> Range<usize> {
        self.entry.offset as usize..(self.entry.offset + self.entry.stored_bytes) as usize
    }

    fn table(&self) -> Range<usize> {
        self.entry.table_range().start as usize..self.entry.table_range().end as usize
    }
}

/// Puts the right checksum into bytes that contain it at `at`.
fn sealed(bytes: &mut [u8], at: usize) -> u32 {
    bytes[at..at + 4].fill(0);
    let crc = crc32c(bytes);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    crc
}

fn damaged() -> (&'static str, Vec<u8>, Value) {
    let short = ("X1:SHORT", 1_000);
    let header = channel_header(Dtype::U8, &[DAMAGED, short], false);
    let mut file = header.encode();
    let mut toc = TocBuilder::new(&file);
    let mut sound: Option<Made> = None;
    for number in 0..7u64 {
        let samples = samples_of(&header, number, value);
        let one = &samples[usize::from(number == 5)];
        let frame = channel_frame(&header, number, std::slice::from_ref(one), None, Coding::None);
        let mut encoder = catchment_codec::ColumnEncoder::new();
        let (mut entry, stored) = frame.columns[0].encode(&mut encoder, &header.schema);
        if [4, 5].contains(&number) {
            entry.flags = 0;
        }
        let info = FrameInfo {
            kind: FrameKind::Channels,
            file_id: header.file_id,
            sequence: number,
            time_first_ns: frame.times.0,
            time_last_ns: frame.times.1,
            rows: frame.rows,
            ..FrameInfo::EMPTY
        };
        let (bytes, summary, entries) = write_frame(info, file.len() as u64, &[(entry, &stored)]);
        let mut made = Made { bytes, summary, entry: entries[0] };
        let (stored, table) = (made.stored(), made.table());
        match (number, &sound) {
            (1, _) => made.bytes[stored.start + 70_000] ^= 0x40,
            (2, _) => made.bytes[table.start + 5] ^= 0x40,
            (3, Some(stale)) => {
                made.bytes[stored.clone()].copy_from_slice(&stale.bytes[stored]);
                made.bytes[table.clone()].copy_from_slice(&stale.bytes[table]);
            }
            (4 | 5, _) => made.set_flags(BLOCK_CHECKSUMS),
            // A writer's defect: the value of block 1 is wrong, and the last checksum covers it.
            (6, _) => made.set_value(1, 0x0bad_cafe),
            _ => {}
        }
        toc.add_frame(made.summary, &[made.entry]);
        file.extend_from_slice(&made.bytes);
        sound.get_or_insert(made);
    }
    let tail = toc.finish(file.len() as u64, &Ledger::new(1), TocFlags::default());
    file.extend_from_slice(&tail);
    ("blocks-damaged", file, damaged_answers())
}

/// Ranges of frames: first sample, count, whether 1.3 returns them, whether 1.2 returned them
/// correctly.
fn damaged_answers() -> Value {
    let frame = |about: &str, channel: &str, whole: bool, ranges: &[(u64, u64, bool, bool)]| {
        let ranges = ranges.iter().map(|(from, count, given, right_in_1_2)| {
            json!({"from": from, "count": count, "given": given, "right_in_1_2": right_in_1_2})
        });
        json!({"about": about, "channel": channel, "whole": whole,
               "ranges": ranges.collect::<Vec<_>>()})
    };
    let all_but = |given: bool| {
        [(0, 10, given, given), (65_530, 10, given, given), (131_072, 8_000, given, given)]
    };
    json!({
        "about": "a frame each of one damage; 1.2 gave all ranges, wrong or not",
        "closed": true,
        "values": VALUES,
        "channels": [[DAMAGED.0, DAMAGED.1], ["X1:SHORT", 1_000]],
        "frames": [
            frame("sound", DAMAGED.0, true, &all_but(true)),
            frame("byte 70,000 is damaged", DAMAGED.0, false, &[
                (0, 65_536, true, true), (65_536, 1, false, true), (65_530, 10, false, true),
                (69_990, 20, false, false), (131_072, 8_000, true, true), (131_071, 2, false, true),
            ]),
            frame("the table is damaged, no data are", DAMAGED.0, true, &all_but(true)),
            frame("data and table of another column", DAMAGED.0, false, &all_but(false)),
            frame("a table beyond the frame", DAMAGED.0, true, &all_but(true)),
            frame("the flag on a short column", "X1:SHORT", true, &[(0, 10, true, true)]),
            frame("a wrong value under a right last CRC", DAMAGED.0, true, &all_but(true)),
        ],
    })
}

/// The encoded header with more metadata.
pub(crate) fn with_metadata(encoded: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let bytes = u32::from_le_bytes(encoded[16..20].try_into().expect("four")) as usize;
    let mut metadata = serde_json::from_slice(&encoded[64..64 + bytes]).expect("JSON");
    change(&mut metadata);
    let json = serde_json::to_vec(&metadata).expect("JSON");
    let used = 64 + json.len();
    let mut header = encoded[..64].to_vec();
    header.extend_from_slice(&json);
    header.resize(used.next_multiple_of(4_096), 0);
    let header_bytes = header.len() as u32;
    header[12..16].copy_from_slice(&header_bytes.to_le_bytes());
    header[16..20].copy_from_slice(&(json.len() as u32).to_le_bytes());
    sealed(&mut header[..used], 20);
    header
}

/// Kinds of columns that no program writes yet, and bits of a row.
const LATER_KINDS: [(&str, Dtype, u64); 5] = [
    ("fragment_expected", Dtype::Bits, 1),
    ("fragment_time", Dtype::U64, 64),
    ("fragment_holes", Dtype::Record, 192),
    ("event_quality", Dtype::U32, 32),
    ("source_positions", Dtype::Record, 192),
];

/// Columns of specified kinds, flags and codecs that no program writes yet.
fn reserved() -> (&'static str, Vec<u8>, Value) {
    let mut model = some_model(13, 5, 8, Codec::None);
    let mut schema = Schema::clone(&model.header.schema);
    let next = schema.columns.iter().map(|column| column.id).max().expect("columns") + 1;
    for (id, (kind, dtype, _)) in (next..).zip(LATER_KINDS) {
        schema.columns.push(ColumnInfo::new(id, ColumnKind::Unknown(kind.into()), dtype));
    }
    model.header.schema = schema.into();
    let header = with_metadata(&model.header.encode(), |metadata| {
        metadata["stream"] = json!(0);
        metadata["epoch"] = json!(1);
        metadata["variant"] = json!(0);
        metadata["target"] = json!("local");
        metadata["stages"] = json!([{"name": "sum", "version": "1", "settings": {}}]);
        metadata["superseded"] = json!([{"stream": 7, "epoch": 1, "sequence": 0}]);
        metadata["numbering"] = json!("run");
        metadata["schema"]["sources"][2]["stored"] = json!(true);
        metadata["schema"]["sources"][2]["sparse"] = json!(true);
    });
    let id = |kind: ColumnKind, source| {
        let is_it = |column: &&ColumnInfo| column.kind == kind && column.source == source;
        model.header.schema.columns.iter().find(is_it).expect("a column").id
    };
    let qualified = id(ColumnKind::FragmentPayload, Some(1));
    let increments = id(ColumnKind::LedgerIncrement, None);
    let mut file = header.clone();
    let mut toc = TocBuilder::new(&header);
    for (index, frame) in model.frames.iter().enumerate() {
        let mut columns = frame.encode(&model.header.schema);
        let mut info = FrameInfo {
            file_id: model.header.file_id,
            sequence: index as u64,
            time_first_ns: frame.times.0,
            time_last_ns: frame.times.1,
            key_first: frame.keys.0,
            key_last: frame.keys.1,
            rows: frame.rows,
            ..FrameInfo::EMPTY
        };
        match index {
            0 => (info.flags, columns) = (1 << 15, with_later_columns(columns, next, frame.rows)),
            // A stage was skipped: the payload of one source differs from the schema.
            1 => {
                info.flags = 1;
                let (entry, _) =
                    columns.iter_mut().find(|(entry, _)| entry.id == qualified).expect("there");
                entry.codec = Codec::from_number(1 << 15);
            }
            // Skipped: only header fields and increments. The second one is four merged frames.
            _ => {
                (info.kind, info.rows) = (FrameKind::SKIPPED, if index == 3 { 4 } else { 1 });
                info.sequence = if index == 4 { 7 } else { index as u64 };
                columns.retain(|(entry, _)| entry.id == increments);
            }
        }
        let columns: Vec<_> = columns.iter().map(|(entry, b)| (*entry, b.as_slice())).collect();
        let (bytes, summary, entries) = write_frame(info, file.len() as u64, &columns);
        toc.add_frame(summary, &entries);
        file.extend_from_slice(&bytes);
    }
    let tail = toc.finish(file.len() as u64, &Ledger::new(3), TocFlags::default());
    file.extend_from_slice(&tail);
    let described = json!({
        "about": "an event frame with later kinds and flags, one with a qualified payload, and \
                  skipped ones: of frame 2, of 3 to 6, of 7",
        "closed": true,
        "variant": 0,
        "event_frames": 2,
        "rows": model.frames[0].rows + model.frames[1].rows,
        "unreadable": [{"frame": 1, "column": qualified, "codec": 32_768}],
        "of_1_2": "the same",
    });
    ("reserved", file, described)
}

/// Of each frame: source, what, session and position.
const STATED: [&[(u32, u16, u64, u64)]; 3] = [
    &[(0, 0, 0x5eed, 100), (2, 0, 9, 4), (2, 2, 9, 41), (0, 3, 0, 41)],
    // A session that another one follows.
    &[(2, 0, 9, 7), (2, 0, 10, 1), (2, 2, 10, 44), (0, 3, 0, 44), (0, 4, 0, 1)],
    // Without rows. What this version does not know is passed over.
    &[(0, 0, 0x5eed, 105), (1, 77, 3, u64::MAX)],
];

fn stated(frame: usize) -> Vec<Position> {
    let record = |&(source, what, session, position): &(u32, u16, u64, u64)| Position {
        source,
        what,
        session,
        position,
    };
    STATED[frame].iter().map(record).collect()
}

fn newest(frames: usize) -> Positions {
    let mut newest = Positions::default();
    (0..frames).for_each(|frame| newest.add(&stated(frame)));
    newest
}

/// Positions of sources in frames, in a checkpoint behind the second one, and in the TOC.
fn positions() -> (&'static str, Vec<u8>, Value) {
    let mut model = some_model(17, 3, 4, Codec::None);
    model.header.schema = Schema::clone(&model.header.schema).with_positions().into();
    model.header.locator = true;
    let column = model.header.schema.column(None, &ColumnKind::SourcePositions).expect("there");
    let (mut file, ledger) = (model.header.encode(), Ledger::new(3));
    let mut toc = TocBuilder::new(&file);
    for (index, frame) in model.frames.iter().enumerate() {
        let mut columns = frame.encode(&model.header.schema);
        let (file_id, sequence) = (model.header.file_id, index as u64);
        let mut info = FrameInfo { file_id, sequence, ..FrameInfo::EMPTY };
        match index {
            2 => columns.clear(),
            _ => {
                (info.time_first_ns, info.time_last_ns) = frame.times;
                (info.key_first, info.key_last) = frame.keys;
                info.rows = frame.rows;
            }
        }
        let mut records = Vec::new();
        encode_positions(&stated(index), &mut records);
        let (rows, raw_bytes) = (stated(index).len() as u64, records.len() as u64);
        let form = model.frames[0].encode(&model.header.schema)[0].0;
        let (id, dtype, codec) = (column, Dtype::Record, Codec::None);
        columns.push((ColumnEntry { id, dtype, codec, rows, raw_bytes, ..form }, records));
        let columns: Vec<_> = columns.iter().map(|(entry, b)| (*entry, b.as_slice())).collect();
        let (bytes, summary, entries) = write_frame(info, file.len() as u64, &columns);
        toc.add_frame(summary, &entries);
        file.extend_from_slice(&bytes);
        if index == 1 {
            toc.set_positions(&newest(2));
            let checkpoint = common::add_checkpoint(&mut file, &mut toc, &ledger);
            common::write_locator(&mut file, &model.header, 1, Some(&checkpoint));
        }
    }
    toc.set_positions(&newest(3));
    let tail = toc.finish(file.len() as u64, &ledger, TocFlags::default());
    file.extend_from_slice(&tail);
    let record = |one: &Position| json!([one.source, one.what, one.session, one.position]);
    let records = |all: &[Position]| all.iter().map(record).collect::<Vec<_>>();
    let described = json!({
        "about": "positions of sources (source, what, session, position) in two frames of events, \
                  one without rows, and column 7 of a checkpoint behind the second and of the TOC",
        "closed": true,
        "frames": (0..3).map(|frame| records(&stated(frame))).collect::<Vec<_>>(),
        "checkpoint": records(newest(2).records()),
        "toc": records(newest(3).records()),
        "of_1_2": "the same, without positions",
    });
    ("positions", file, described)
}

/// Columns with unknown flags, followed by columns of later kinds.
fn with_later_columns(
    mut columns: Vec<(ColumnEntry, Vec<u8>)>,
    first_id: u32,
    rows: u64,
) -> Vec<(ColumnEntry, Vec<u8>)> {
    columns.iter_mut().for_each(|(entry, _)| entry.flags |= 1 << 31);
    let some = columns[0].0;
    for (id, (_, dtype, bits)) in (first_id..).zip(LATER_KINDS) {
        let bytes = vec![0; (rows * bits).div_ceil(8) as usize];
        let (codec, raw_bytes) = (Codec::None, bytes.len() as u64);
        columns.push((ColumnEntry { id, codec, dtype, rows, raw_bytes, ..some }, bytes));
    }
    columns
}

/// The result of a partial reader: from the table and the blocks, or from the whole column.
fn read_range<R: ReadAt>(
    column: &StoredColumn<'_, R>,
    (at, entry): (u64, &ColumnEntry),
    wanted: Range<u64>,
) -> Result<Vec<u8>, FrameError> {
    column.check()?;
    let mut whole = vec![0; entry.stored_bytes as usize];
    column.read_bytes(at, &mut whole)?;
    match column.blocks() {
        Ok(Some(blocks)) => {
            let held = blocks.holding(&wanted);
            let range = blocks.bytes_of(&held);
            let mut check = blocks.check(held);
            check
                .update(&whole[range.start as usize..range.end as usize])
                .map_err(|bad| column.block_error(bad))?;
            assert!(check.is_over());
        }
        Ok(None) => column.verify_stored()?,
        Err(error) if error.is_bad_table() => column.verify_stored()?,
        Err(error) => return Err(error),
    }
    Ok(whole[wanted.start as usize..wanted.end as usize].to_vec())
}

pub(crate) fn read_golden(name: &str) -> (Vec<u8>, Value) {
    let bytes = std::fs::read(path(&format!("{name}.catch"))).expect("the golden file");
    let text = std::fs::read(path(&format!("{name}.json"))).expect("the description");
    (bytes, serde_json::from_slice(&text).expect("JSON"))
}

#[test]
fn golden_files_have_the_frames_that_this_version_writes() {
    for (name, bytes, described) in goldens() {
        if std::env::var_os("CATCHMENT_GOLDEN_WRITE").is_some() {
            std::fs::create_dir_all(path("")).expect("a folder");
            std::fs::write(path(&format!("{name}.catch")), &bytes).expect("written");
            let text = serde_json::to_string(&described).expect("JSON") + "\n";
            std::fs::write(path(&format!("{name}.json")), text).expect("written");
        }
        let (found, beside) = read_golden(name);
        assert_eq!(beside, described, "{name}");
        let file = FileReader::open(&found).expect("opens");
        assert_eq!(file.closed(), described["closed"] == true, "{name}");
        assert!(file.verify_index().is_empty(), "{name}");
        // Another version of a codec's library may choose other bytes.
        let again = FileReader::open(&bytes).expect("opens");
        let info = |frame: &FrameSummary| (frame.info, frame.column_count);
        assert!(file.frames().iter().map(info).eq(again.frames().iter().map(info)), "{name}");
    }
}

#[test]
fn golden_columns_have_tables_of_their_blocks() {
    let encoded = ["blosc", "lz4", "zstd", "for", "pcodec"].map(|codec| format!("blocks-{codec}"));
    let raw = ["blocks-none", "blocks-unclosed"].map(str::to_owned);
    for name in raw.into_iter().chain(encoded) {
        let name = name.as_str();
        let (bytes, _) = read_golden(name);
        let file = FileReader::open(&bytes).expect("opens");
        for frame in 0..file.frames().len() {
            assert!(verify_frame(&file, frame).is_empty(), "{name}");
            let codec = file.columns(frame).expect("a directory")[0].codec.to_string();
            assert!(name.ends_with(&codec) || name == "blocks-unclosed", "{name}: {codec}");
            for entry in file.columns(frame).expect("a directory") {
                assert_eq!(entry.has_table(), entry.stored_bytes > 65_536);
                assert_eq!(file.find(frame, entry.id).expect("listed"), Some(entry));
                let column = file.stored_column(frame, &entry).expect("a frame");
                let blocks = column.blocks().expect("a table");
                let count = entry.stored_bytes.div_ceil(65_536);
                assert_eq!(blocks.map_or(1, |blocks| blocks.count()), count as usize);
                let at = (file.frames()[frame].offset + entry.offset) as usize;
                let stored = &bytes[at..at + entry.stored_bytes as usize];
                let mut table = Vec::new();
                BlockChecksums::of(stored).encode_table(&mut table);
                let range = entry.table_range();
                let at = (file.frames()[frame].offset + range.start) as usize;
                assert_eq!(bytes[at..at + table.len()], table);
            }
        }
    }
}

#[test]
fn golden_damage_is_found_where_it_is_and_nowhere_else() {
    let (bytes, beside) = read_golden("blocks-damaged");
    let file = FileReader::open(&bytes).expect("opens");
    for (number, described) in beside["frames"].as_array().expect("frames").iter().enumerate() {
        let about = &described["about"];
        let entry = file.columns(number).expect("a directory")[0];
        let mut raw = Vec::new();
        let whole = file.read_column(number, &entry, &mut raw);
        assert_eq!(whole.is_ok(), described["whole"] == true, "{about}");
        let column = file.stored_column(number, &entry).expect("a frame");
        let at = file.frames()[number].offset + entry.offset;
        for range in described["ranges"].as_array().expect("ranges") {
            let get = |key: &str| range[key].as_u64().expect("a number");
            let wanted = get("from")..get("from") + get("count");
            let expected = wanted.clone().map(|sample| value(number as u64, sample));
            let got = read_range(&column, (at, &entry), wanted.clone());
            assert_eq!(got.is_ok(), range["given"] == true, "{about}: {wanted:?}");
            assert!(got.is_err() || got.expect("given").into_iter().eq(expected.clone()));
            // Earlier readers returned the bytes as stored.
            let there = &bytes[(at + wanted.start) as usize..(at + wanted.end) as usize];
            let right = there.iter().copied().eq(expected);
            assert_eq!(right, range["right_in_1_2"] == true, "{about}: {wanted:?}");
        }
        let problems = verify_frame(&file, number);
        let bad_table = problems.iter().any(FrameError::is_bad_table);
        assert_eq!(bad_table, [2, 3, 4, 6].contains(&number), "{about}");
        let of_data = problems.iter().filter(|problem| !problem.is_bad_table()).count();
        assert_eq!(of_data == 0, described["whole"] == true, "{about}");
    }
    // A table is not data: repair finds the lost data, and nothing else.
    let plan = repair(&bytes, None).expect("can be repaired");
    assert_eq!(plan.damaged.len(), 2);
}

#[test]
fn a_golden_channel_that_is_not_stored_is_described_and_has_no_column() {
    let (bytes, _) = read_golden("channels-not-stored");
    let file = FileReader::open(&bytes).expect("opens");
    let columns = file.channel_columns();
    let names = |channels: &[ChannelInfo]| channels.iter().map(|one| one.name.clone()).collect();
    let (stored, not): (Vec<_>, Vec<_>) = (names(&columns.channels), names(&columns.not_stored));
    assert_eq!((stored, not), (vec!["X1:KEPT".to_owned()], vec!["X1:LEFT".to_owned()]));
    assert!(verify_frame(&file, 0).is_empty() && file.header().variant == 1);
    let found = file.find(0, columns.not_stored[0].id).expect("an index");
    assert_eq!(found, None);
    assert_eq!(columns.not_stored[0].rate, SampleRate::new(200, 1).expect("a rate"));
}

#[test]
fn golden_reserved_parts_are_passed_over_and_qualified_columns_refused() {
    let (bytes, beside) = read_golden("reserved");
    let file = FileReader::open(&bytes).expect("opens");
    let events = |frame: &&FrameSummary| frame.info.kind == FrameKind::Events;
    assert_eq!(beside["event_frames"], file.frames().iter().filter(events).count());
    let rows: u64 = file.frames().iter().filter(events).map(|frame| frame.info.rows).sum();
    assert_eq!(beside["rows"], rows);
    let mut raw = Vec::new();
    for frame in 0..file.frames().len() {
        for entry in file.columns(frame).expect("a directory") {
            let refused = beside["unreadable"]
                .as_array()
                .expect("columns")
                .iter()
                .any(|column| column["frame"] == frame && column["column"] == entry.id);
            let read = file.read_column(frame, &entry, &mut raw);
            assert_eq!(read.is_err(), refused, "frame {frame}, column {}", entry.id);
            if let Err(error) = read {
                let FrameError::Column { problem, .. } = &error else { panic!("{error}") };
                assert!(matches!(problem, ColumnProblem::Codec(_)), "{problem}");
                assert!(error.to_string().contains("32768"), "{error}");
            }
        }
        assert!(verify_frame(&file, frame).is_empty(), "frame {frame}");
    }
    let infos = file.frames().iter().map(|frame| &frame.info);
    assert_eq!((file.frames().len(), sequences_missing(infos)), (5, 0));
    // A skipped frame has no rows, and its increments count.
    let (ledger, problems) = frame_ledger(&file, 2);
    let total = ledger.total();
    assert!(problems.is_empty() && total[Entry::FragmentsReceived] == 23, "{total:?}");
    assert_eq!((total[Entry::FragmentsRecorded], total[Entry::FragmentsMissing]), (0, 0));
}

#[test]
fn golden_positions_are_in_frames_and_the_newest_in_checkpoint_and_toc() {
    let (bytes, beside) = read_golden("positions");
    let records = |described: &Value| -> Vec<Position> {
        let described = described.as_array().expect("records").iter();
        let number = |one: &Value, at: usize| one[at].as_u64().expect("a number");
        let record = |one: &Value| Position {
            source: number(one, 0) as u32,
            what: number(one, 1) as u16,
            session: number(one, 2),
            position: number(one, 3),
        };
        described.map(record).collect()
    };
    let of_frames: Vec<_> = (0..3).map(|frame| records(&beside["frames"][frame])).collect();
    let read = |file: &FileReader<Vec<u8>>| -> Vec<_> {
        (0..3).map(|frame| file.positions(frame).expect("positions")).collect()
    };
    let file = FileReader::open(bytes.clone()).expect("opens");
    assert_eq!(read(&file), of_frames);
    let listed = |file: &FileReader<Vec<u8>>| file.listed_positions().expect("reads");
    assert_eq!(listed(&file), Some((3, records(&beside["toc"]))));
    assert!((0..3).all(|frame| verify_frame(&file, frame).is_empty()));
    let minor_of =
        |file: &[u8]| u16::from_le_bytes([file[file.len() - 4_086], file[file.len() - 4_085]]);
    assert_eq!(minor_of(&bytes), 3);
    // As a killed writer leaves it: up to the checkpoint, then frame by frame.
    let last = file.frames()[2];
    let unclosed = bytes[..(last.offset + last.frame_bytes) as usize].to_vec();
    let file = FileReader::open(unclosed.clone()).expect("opens");
    assert_eq!(listed(&file), Some((2, records(&beside["checkpoint"]))));
    assert_eq!(read(&file), of_frames);
    // A table made by `repair` leaves them to the frames, and says so by its version.
    let closing = repair(&unclosed, None).expect("can be repaired").closing.expect("a TOC");
    let mut repaired = unclosed[..closing.offset as usize].to_vec();
    repaired.extend_from_slice(&closing.bytes);
    assert_eq!(minor_of(&repaired), 2);
    let file = FileReader::open(repaired).expect("opens");
    assert_eq!((file.closed(), listed(&file), read(&file)), (true, None, of_frames));
}
