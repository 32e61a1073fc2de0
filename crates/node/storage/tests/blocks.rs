//! Ranges of raw columns: the returned data are undamaged, whatever is damaged in the file.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::signal;
use catchment_fixtures::Random;
use catchment_frame::{
    BLOCK_CHECKSUMS, ChannelInfo, ColumnEntry, Dtype, FileHeader, FileReader, FrameInfo, FrameKind,
    Schema, TocBuilder, TocFlags, column_flags, crc32c, write_frame,
};
use catchment_model::{Ledger, RunId, SampleRate};
use catchment_storage::{Channel, Run, RunOptions, Select, StorageError, verify};

const NS: u64 = 1_000_000_000;
const START_S: u64 = 1_400_000_000;

/// Byte `sample` of a frame of a channel.
fn value(channel: usize, frame: u64, sample: u64) -> u8 {
    (sample * 7 + sample / 251 + 13 * frame + 101 * channel as u64) as u8
}

/// Files with frames of a second of channels of bytes, by their rates.
struct Bytes {
    rates: Vec<u64>,
    frames: u64,
    /// Whether columns have checksums by block, as since version 1.3.
    tables: bool,
}

impl Bytes {
    fn header(&self) -> FileHeader {
        let channel = |(index, rate): (usize, &u64)| {
            let rate = SampleRate::new(*rate, 1).expect("a rate");
            ChannelInfo::new(format!("X1:C{index}"), Dtype::U8, rate)
        };
        let channels = self.rates.iter().enumerate().map(channel).collect();
        FileHeader {
            run: RunId([7; 16]),
            run_number: 1,
            file_index: 0,
            file_id: 0x1357_9bdf,
            created_ns: 0,
            writer: "test".into(),
            config: String::new(),
            emulated: true,
            schema: Schema::channels(Vec::new(), channels).expect("a schema").into(),
            ledger_entries: catchment_frame::EntryNames::default(),
            locator: false,
            numbering: catchment_frame::Numbering::Run,
            variant: 0,
            target: None,
            part: None,
            stream: 0,
            epoch: 0,
            superseded: Vec::new(),
            base: None,
        }
    }

    fn write(&self) -> Vec<u8> {
        let header = self.header();
        let ids: Vec<u32> =
            header.schema.columns.iter().filter_map(ChannelInfo::of).map(|info| info.id).collect();
        let mut file = header.encode();
        let mut toc = TocBuilder::new(&file);
        for frame in 0..self.frames {
            let second = START_S + frame;
            let column = |(index, (&id, &rate)): (usize, (&u32, &u64))| {
                let stored: Vec<u8> = (0..rate).map(|n| value(index, frame, n)).collect();
                let flags = if self.tables { column_flags(rate) } else { 0 };
                let entry = ColumnEntry {
                    id,
                    codec: catchment_frame::Codec::None,
                    dtype: Dtype::U8,
                    flags,
                    crc32c: crc32c(&stored),
                    offset: 0,
                    stored_bytes: rate,
                    raw_bytes: rate,
                    rows: rate,
                    start_ns: second * NS,
                    first_sample: rate * second,
                };
                (entry, stored)
            };
            let columns: Vec<_> = ids.iter().zip(&self.rates).enumerate().map(column).collect();
            let borrowed: Vec<_> = columns.iter().map(|(e, b)| (*e, b.as_slice())).collect();
            let info = FrameInfo {
                kind: FrameKind::Channels,
                file_id: header.file_id,
                sequence: frame,
                time_first_ns: second * NS,
                time_last_ns: (second + 1) * NS,
                rows: self.rates.iter().sum(),
                ..FrameInfo::EMPTY
            };
            let (bytes, summary, entries) = write_frame(info, file.len() as u64, &borrowed);
            toc.add_frame(summary, &entries);
            file.extend_from_slice(&bytes);
        }
        let tail = toc.finish(file.len() as u64, &Ledger::new(0), TocFlags::default());
        file.extend_from_slice(&tail);
        file
    }
}

fn stand(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run-00000.catch");
    std::fs::write(&path, bytes).expect("writes");
    (folder, path)
}

/// Reads samples of one frame, counted from its first.
fn read(
    channel: &Channel<'_>,
    frame: usize,
    rate: u64,
    range: Range<u64>,
) -> Result<Vec<u8>, StorageError> {
    let first = rate * (START_S + frame as u64);
    let select = Select::FrameSamples(frame, first + range.start..first + range.end);
    let segments = channel.read(&select)?;
    Ok(segments.into_iter().flat_map(|segment| segment.bytes).collect())
}

fn expected(channel: usize, frame: usize, range: Range<u64>) -> Vec<u8> {
    range.map(|sample| value(channel, frame as u64, sample)).collect()
}

/// The position of a column's stored bytes in the file.
fn column_at(bytes: &[u8], frame: usize, index: usize) -> ColumnEntry {
    let file = FileReader::open(&bytes).expect("opens");
    let entry = file.columns(frame).expect("a directory")[index];
    ColumnEntry { offset: file.frames()[frame].offset + entry.offset, ..entry }
}

#[test]
fn no_range_gives_a_wrong_byte_whatever_is_damaged() {
    let rates = vec![1_000, 65_536, 65_537, 300_001];
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let tables = random.below(4) > 0;
        let mut bytes = Bytes { rates: rates.clone(), frames: 2, tables }.write();
        let first = FileReader::open(&bytes).expect("opens").first_frame_offset() as usize;
        let mut damaged = Vec::new();
        for _ in 0..random.below(5) {
            let at = first + random.index(bytes.len() - first);
            bytes[at] ^= 1 << random.below(8);
            damaged.push(at as u64);
        }
        let (_folder, path) = stand(&bytes);
        let Ok(run) = Run::open(&path) else { continue };
        for turn in 0..60 {
            let (frame, index) = (random.index(2), random.index(rates.len()));
            let rate = rates[index];
            let start = random.below(rate);
            let most = [10, 70_000, rate][random.index(3)];
            let range = start..(start + 1 + random.below(most)).min(rate);
            let Some(channel) = run.channel_at(index) else { continue };
            match read(&channel, frame, rate, range.clone()) {
                // A frame that is not found is absent.
                Ok(got) if got.is_empty() => {}
                Ok(got) => {
                    let right = got == expected(index, frame, range.clone());
                    assert!(right, "seed {seed}, turn {turn}: {index}, {frame}, {range:?}");
                }
                Err(error) => {
                    assert!(error.is_damage() && !damaged.is_empty(), "seed {seed}: {error}");
                }
            }
        }
        // Together, side by side and whole.
        let all: Vec<usize> = (0..rates.len()).collect();
        if let Ok(read) = run.read_many(&all, &Select::Frames(0..1)) {
            for (index, segments) in read.iter().enumerate() {
                let got = segments.iter().flat_map(|segment| segment.bytes.iter().copied());
                let frame = segments.first().map_or(0, |one| one.start_ns / NS - START_S);
                assert!(
                    segments.is_empty() || got.eq(expected(index, frame as usize, 0..rates[index]))
                );
            }
        }
    }
}

#[test]
fn damage_in_a_block_costs_that_block() {
    let rates = vec![300_001];
    let mut bytes = Bytes { rates, frames: 1, tables: true }.write();
    let entry = column_at(&bytes, 0, 0);
    bytes[(entry.offset + 140_000) as usize] ^= 4;
    let (_folder, path) = stand(&bytes);
    let run = Run::open(&path).expect("opens");
    let channel = run.channel_at(0).expect("is there");
    let get = |range: Range<u64>| read(&channel, 0, 300_001, range);
    for range in [0..131_072, 5..6, 196_608..300_001, 131_000..131_072] {
        assert_eq!(get(range.clone()).expect("sound"), expected(0, 0, range));
    }
    for range in [131_071..131_073, 140_000..140_001, 196_607..196_609, 0..300_001, 0..300_000] {
        let error = get(range.clone()).expect_err("damaged").to_string();
        assert!(error.contains("X1:C0") && error.contains("checksum"), "{range:?}: {error}");
    }
    assert!(run.bad_tables().is_empty());
}

#[test]
fn a_bad_table_costs_no_data_and_is_named() {
    let mut bytes = Bytes { rates: vec![200_000], frames: 2, tables: true }.write();
    let entry = column_at(&bytes, 1, 0);
    bytes[entry.table_range().start as usize] ^= 4;
    let (_folder, path) = stand(&bytes);
    let run = Run::open(&path).expect("opens");
    let channel = run.channel_at(0).expect("is there");
    for range in [0..10, 65_530..65_540, 100_000..200_000] {
        assert_eq!(
            read(&channel, 1, 200_000, range.clone()).expect("sound"),
            expected(0, 1, range)
        );
    }
    let named = run.bad_tables();
    assert_eq!(named.len(), 1);
    assert!(named[0].contains("frame 1") && named[0].contains("table"), "{named:?}");
    let report = verify(&run, |_| {});
    assert_eq!(report.problem_count, 1);
    assert!(report.problems[0].problem.contains("table of checksums"), "{:?}", report.problems);
}

#[test]
fn what_was_checked_once_is_not_read_for_that_again() {
    let bytes = Bytes { rates: vec![300_001, 1_000], frames: 1, tables: true }.write();
    let (_folder, path) = stand(&bytes);
    let run = Run::open(&path).expect("opens");
    let count = |index: usize, rate, range: Range<u64>| {
        let channel = run.channel_at(index).expect("is there");
        let before = run.bytes_read();
        assert_eq!(
            read(&channel, 0, rate, range.clone()).expect("sound"),
            expected(index, 0, range)
        );
        run.bytes_read() - before
    };
    // The lists of the TOC first.
    count(0, 300_001, 0..300_001);
    count(1, 1_000, 0..1_000);
    let table = 4 * 5 + 4;
    assert_eq!(count(0, 300_001, 70_000..70_010), 65_536 + table);
    assert_eq!(count(0, 300_001, 70_000..70_010), 10);
    assert_eq!(count(0, 300_001, 131_071..131_073), 65_536 + 1);
    assert_eq!(count(0, 300_001, 66_000..190_000), 124_000);
    assert_eq!(count(0, 300_001, 262_143..300_000), 65_536 + 37_857);
    // A short column is read completely at once.
    assert_eq!(count(1, 1_000, 500..510), 1_000);
    assert_eq!(count(1, 1_000, 5..15), 10);
}

#[test]
fn a_column_of_before_is_checked_as_a_whole_once_unless_asked_not_to() {
    let rate = 300_001;
    let mut bytes = Bytes { rates: vec![rate], frames: 2, tables: false }.write();
    let entry = column_at(&bytes, 1, 0);
    assert_eq!(entry.flags & BLOCK_CHECKSUMS, 0);
    bytes[(entry.offset + 250_000) as usize] ^= 4;
    let (_folder, path) = stand(&bytes);
    let run = Run::open(&path).expect("opens");
    let channel = run.channel_at(0).expect("is there");
    for (turn, range) in [0..10, 7..17, 200_000..300_000].into_iter().enumerate() {
        let before = run.bytes_read();
        assert_eq!(
            read(&channel, 0, rate, range.clone()).expect("sound"),
            expected(0, 0, range.clone())
        );
        let bytes = run.bytes_read() - before;
        match turn {
            0 => assert!(bytes >= rate + 10, "{bytes}"),
            _ => assert_eq!(bytes, range.end - range.start),
        }
        assert!(read(&channel, 1, rate, range).is_err());
    }
    let unchecked = RunOptions { check_columns: false, ..RunOptions::default() };
    let run = Run::open_with(&path, unchecked).expect("opens");
    let channel = run.channel_at(0).expect("is there");
    assert_eq!(read(&channel, 1, rate, 0..10).expect("is given"), expected(0, 1, 0..10));
    let wrong = read(&channel, 1, rate, 249_990..250_010).expect("is given unchecked");
    assert_ne!(wrong, expected(0, 1, 249_990..250_010));
    assert!(read(&channel, 1, rate, 0..rate).is_err());
}

#[test]
fn golden_ranges_are_given_or_refused_as_stands_beside_them() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format/frame/tests/golden/v1.3");
    let beside = std::fs::read(golden.join("blocks-damaged.json")).expect("the description");
    let beside: serde_json::Value = serde_json::from_slice(&beside).expect("JSON");
    let run = Run::open(golden.join("blocks-damaged.catch")).expect("opens");
    for (frame, described) in beside["frames"].as_array().expect("frames").iter().enumerate() {
        let channel = run.channel(described["channel"].as_str().expect("a name")).expect("there");
        let rate = channel.info().rate.samples_of_slice(0, NS).end;
        for range in described["ranges"].as_array().expect("ranges") {
            let number = |key: &str| range[key].as_u64().expect("a number");
            let wanted = number("from")..number("from") + number("count");
            let got = read(&channel, frame, rate, wanted.clone());
            let about = format!("{}: {wanted:?}", described["about"]);
            assert_eq!(got.is_ok(), range["given"] == true, "{about}");
            assert!(got.is_err() || got.expect("given") == expected(0, frame, wanted), "{about}");
        }
        let whole = read(&channel, frame, rate, 0..rate);
        assert_eq!(whole.is_ok(), described["whole"] == true, "{}", described["about"]);
    }
    assert_eq!(run.bad_tables().len(), 4);
}

#[test]
fn what_is_written_has_tables_and_reads_back_in_part_past_the_page_cache_too() {
    let wide: Vec<u8> =
        (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let (folder, offset) = signal::write_wide(&[wide.clone(), wide.clone()]);
    let path = {
        let run = Run::open(folder.path()).expect("opens");
        let pieces = run.channel("wide").expect("is there").pieces().expect("reads");
        assert!(pieces.iter().all(|piece| piece.entry.has_table()));
        run.files().next().expect("a file").path.to_owned()
    };
    for damaged in [false, true] {
        if damaged {
            let mut bytes = std::fs::read(&path).expect("reads");
            bytes[offset as usize + 300_000] ^= 1;
            std::fs::write(&path, bytes).expect("writes");
        }
        signal::forget(&path);
        let run = Run::open(folder.path()).expect("opens");
        let channel = run.channel("wide").expect("is there");
        let first = channel.pieces().expect("reads")[0].first_sample;
        let rows = |from: u64, to: u64| Select::FrameSamples(0, first + from..first + to);
        let read = channel.read(&rows(74_000, 76_000));
        assert_eq!(read.is_err(), damaged);
        let sound = channel.read(&rows(20_000, 30_000)).expect("another block");
        assert_eq!(sound[0].bytes, wide[80_000..120_000]);
        assert!(verify(&run, |_| {}).is_intact() != damaged);
    }
}
