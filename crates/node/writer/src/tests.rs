//! Frames streamed into a store in memory, whose writes complete in any order.

use std::path::Path;

use catchment_agent::Agent;
use catchment_codec::Codec;
use catchment_encoder::{Ask, Coding, Element, Level, PoolConfig, Rule};
use catchment_frame::{
    CHECKED_BLOCK_BYTES, ChannelInfo, ColumnCoding, Dtype, EntryNames, FieldInfo, FileHeader,
    FileReader, FrameInfo, FrameKind, PayloadType, Schema, SourceInfo, Span, TocFlags,
    decode_spans,
};
use catchment_model::{Entry, Ledger, RunId, SampleRate, SourceId};
use catchment_ports::{MemoryFiles, MemoryStore, StoreTimes, VirtualClock};

use crate::{
    ChannelColumn, ChannelFrame, ColumnForm, EncodedColumn, EventFrame, EventSource, FileParts,
    Frame, FrameColumn, FrameEncoder, FrameFile, FrameFiles, FrameMaker, FrameUnderWay,
    HeaderOrder, JobKind, Next, StoreFile,
};

const BUFFER_BYTES: usize = 8 << 10;
const STEP_NS: u64 = 1_000_000;

fn schema() -> Schema {
    let rate = SampleRate::new(1, 1).expect("a rate");
    let channel = |n: usize| ChannelInfo::new(format!("X:{n}"), Dtype::U8, rate);
    Schema::channels(Vec::new(), (0..4).map(channel).collect()).expect("a schema")
}

/// The columns of the four channels.
fn ids() -> [u32; 4] {
    let ids: Vec<u32> = schema().columns.iter().filter_map(ChannelInfo::of).map(|c| c.id).collect();
    ids.try_into().expect("four")
}

/// A writer of one file in memory, and its clock.
struct Rig {
    clock: VirtualClock,
    stored: MemoryFiles,
    files: FrameFiles<MemoryStore, u64>,
    encoder: FrameEncoder<Vec<u8>>,
    recorded: Vec<u64>,
}

impl Rig {
    fn new(order: HeaderOrder, seed: u64) -> Self {
        let clock = VirtualClock::at(1);
        let times = StoreTimes { operation_ns_max: 20 * STEP_NS, ..StoreTimes::default() };
        let store = MemoryStore::new((clock.clone(), seed), (4, BUFFER_BYTES), times);
        let stored = store.files();
        let files = FrameFiles::new([store], BUFFER_BYTES, order);
        let pool = PoolConfig { bytes_max: 1 << 20, ..PoolConfig::default() };
        let encoder = FrameEncoder::new(Some(pool));
        let mut rig = Self { clock, stored, files, encoder, recorded: Vec::new() };
        rig.begin_file(0);
        rig
    }

    /// Leaves the current file and begins the one of that index.
    fn begin_file(&mut self, index: u32) {
        let path = format!("run-{index:05}.catch");
        let id = self.files.store(0).create(Path::new(&path));
        let header = FileHeader {
            run: RunId([1; 16]),
            run_number: 1,
            file_index: index,
            file_id: 7 + u64::from(index),
            created_ns: 1,
            writer: "test".to_owned(),
            config: String::new(),
            emulated: false,
            schema: schema().into(),
            ledger_entries: EntryNames::default(),
            locator: true,
            numbering: catchment_frame::Numbering::Run,
            variant: 0,
            target: None,
            part: None,
            stream: 0,
            epoch: 0,
            superseded: Vec::new(),
            base: None,
        };
        let parts = FileParts {
            id: StoreFile { store: 0, id },
            path: path.into(),
            is_listed: true,
            attached: (),
        };
        let (file, header) = FrameFile::begin(parts, &header, 1);
        self.files.leave();
        self.files.begin_file(file, header);
        self.stream_pages();
    }

    fn stream_pages(&mut self) {
        while self.files.has_pages() {
            let mut budget = 1_000;
            if !self.files.stream_page(&mut budget) && budget > 0 {
                self.pass_time();
            }
        }
    }

    /// Lets a little time pass, and takes what has ended.
    fn pass_time(&mut self) {
        self.clock.advance_to(self.clock.now_ns() + STEP_NS);
        self.files.poll();
        while let Some(ended) = self.files.next_ended() {
            assert!(ended.error.is_none());
            let file = self.files.file(ended.file);
            match ended.kind {
                JobKind::Header => file.header_recorded = true,
                JobKind::Frame(written, tag) if !file.failed => {
                    file.recorded(&written);
                    self.recorded.push(tag);
                }
                _ => {}
            }
        }
    }

    fn drain(&mut self) {
        while self.files.is_busy(0) {
            self.pass_time();
        }
    }

    fn begin(&mut self, number: u64, columns: usize) {
        let info = FrameInfo { kind: FrameKind::Channels, sequence: number, ..FrameInfo::EMPTY };
        self.files.begin(info, columns);
    }

    /// Streams columns, as much at a time as that; the columns that were lowered.
    fn stream(&mut self, columns: Vec<FrameColumn<Vec<u8>>>, level: Level) -> Vec<u32> {
        let mut agent = self.encoder.agent().expect("there is a pool");
        let mut frame = FrameUnderWay::new(columns);
        let mut lowered = Vec::new();
        loop {
            match self.encoder.next(&mut frame, level) {
                Next::Column(column) => {
                    lowered.extend(column.done.lowered.then_some(column.form.id));
                    self.append(&column);
                }
                Next::Encoding => drop(agent.work(0)),
                Next::Failed(_) => panic!("all columns are there"),
                Next::End => return lowered,
            }
        }
    }

    fn append(&mut self, column: &EncodedColumn<Vec<u8>>) {
        loop {
            let mut budget = 3_000;
            if column.with_stored(|stored| self.files.append(stored, &mut budget)) {
                return;
            }
            if budget > 0 {
                self.pass_time();
            }
        }
    }

    fn finish(&mut self, number: u64) -> u64 {
        loop {
            match self.files.finish(number) {
                Ok(summary) => return summary.offset,
                Err(_) => self.pass_time(),
            }
        }
    }

    fn frame(&mut self, number: u64) -> u64 {
        let columns = columns(number);
        self.begin(number, columns.len());
        self.stream(columns, Level::AsAsked);
        self.finish(number)
    }

    fn bytes(&self) -> Vec<u8> {
        self.stored.all().pop().expect("one file").1
    }
}

/// Columns of lengths that follow from a number: payload as it is, payload compressed, keys.
fn columns(number: u64) -> Vec<FrameColumn<Vec<u8>>> {
    let bytes = |id: u32, count: u64| -> Vec<u8> {
        (0..count).map(|n| (number * 31 + u64::from(id) + n / 9) as u8 | 1).collect()
    };
    let form = |id, rows| ColumnForm::new(id, Dtype::U8, rows);
    let large = |id, rows, coding| FrameColumn {
        form: form(id, rows),
        ask: Ask::new(Element::U8, Rule::Fixed(coding)),
        is_small: false,
        bytes: bytes(id, rows),
    };
    let (small, ids) = (1 + number * 7 % 50, ids());
    vec![
        FrameColumn::small(form(ids[0], small), Element::U8, Coding::Lz4, bytes(ids[0], small)),
        large(ids[1], 1 + number * 37_997 % 150_000, Coding::None),
        large(ids[2], 1 + number * 51_511 % 190_000, Coding::Lz4),
        FrameColumn::small(form(ids[3], 8), Element::U8, Coding::None, bytes(ids[3], 8)),
    ]
}

/// Reads the file, and compares frame by frame what stands in it. Behind large columns, and those
/// alone, stand checksums of their blocks.
fn check(bytes: Vec<u8>, numbers: &[u64]) {
    let reader = FileReader::open(bytes).expect("opens");
    assert_eq!(reader.frames().len(), numbers.len());
    for (index, &number) in numbers.iter().enumerate() {
        assert_eq!(reader.frames()[index].info.sequence, number);
        for column in columns(number) {
            let mut read = Vec::new();
            assert!(reader.read(index, column.form.id, &mut read).expect("reads"));
            assert_eq!(read, column.bytes, "frame {number}");
            let entry = reader.find(index, column.form.id).expect("reads").expect("has it");
            assert_eq!(entry.flags, u32::from(entry.stored_bytes > CHECKED_BLOCK_BYTES));
            let stored = reader.stored_column(index, &entry).expect("is there");
            if let Some(blocks) = stored.blocks().expect("a table of its own") {
                let mut bytes = vec![0; entry.stored_bytes as usize];
                let at = reader.frames()[index].offset + entry.offset;
                stored.read_bytes(at, &mut bytes).expect("reads");
                let mut check = blocks.check(0..blocks.count());
                check.update(&bytes).expect("its blocks' checksums");
                assert!(check.is_over());
            }
        }
    }
}

#[test]
fn frames_are_read_back_whichever_way_their_headers_are_written() {
    for (seed, order) in [(1, HeaderOrder::Last), (2, HeaderOrder::Held), (3, HeaderOrder::Last)] {
        let mut rig = Rig::new(order, seed);
        for number in 0..40 {
            rig.frame(number);
        }
        rig.drain();
        assert!(rig.recorded.iter().copied().eq(0..40));
        let id = rig.files.current.as_ref().expect("a file").id;
        rig.files.leave();
        rig.files.begin_toc(id, &Ledger::new(1), TocFlags::default());
        rig.stream_pages();
        rig.drain();
        check(rig.bytes(), &(0..40).collect::<Vec<_>>());
    }
}

#[test]
fn a_header_is_written_after_its_columns_and_all_older_frames() {
    for seed in 0..20 {
        let mut rig = Rig::new(HeaderOrder::Last, seed);
        let mut ends = Vec::new();
        for number in 1..12 {
            let offset = rig.frame(number) as usize;
            ends.push((offset, rig.files.current.as_ref().expect("a file").end as usize));
        }
        let whole = {
            let mut last = Rig::new(HeaderOrder::Last, seed);
            (1..12).for_each(|number| assert!(last.frame(number) > 0));
            last.drain();
            last.bytes()
        };
        while rig.files.is_busy(0) {
            let bytes = rig.bytes();
            let is_there = |&&(offset, _): &&(usize, usize)| {
                bytes.get(offset..offset + 8) == Some(&whole[offset..offset + 8])
            };
            let seen = ends.iter().take_while(is_there).count();
            assert!(ends[seen..].iter().find(is_there).is_none(), "a hole before a frame");
            let end = seen.checked_sub(1).map_or(0, |last| ends[last].1);
            assert!(bytes[..end] == whole[..end], "seed {seed}: a header before its columns");
            rig.pass_time();
        }
    }
}

#[test]
fn writes_are_counted_when_they_begin_and_when_they_complete() {
    let mut rig = Rig::new(HeaderOrder::Last, 4);
    rig.drain();
    let before = rig.files.writes(0);
    assert_eq!(before.begun, before.completed);
    rig.frame(5);
    let under_way = rig.files.writes(0);
    assert!(under_way.begun > under_way.completed);
    rig.drain();
    let after = rig.files.writes(0);
    assert!(after.begun > before.begun);
    assert_eq!(after.begun, after.completed);
}

#[test]
fn an_abandoned_frame_is_never_seen_and_the_next_stands_in_its_place() {
    let mut rig = Rig::new(HeaderOrder::Last, 5);
    rig.frame(1);
    let given_up = columns(29);
    rig.begin(2, given_up.len());
    rig.stream(given_up, Level::AsAsked);
    rig.files.abandon_frame();
    rig.drain();
    rig.frame(3);
    rig.drain();
    assert_eq!(rig.recorded, [1, 3]);
    // As a killed writer leaves it.
    check(rig.bytes(), &[1, 3]);
}

#[test]
fn the_newest_file_that_can_still_be_written_gets_frames_again() {
    let mut rig = Rig::new(HeaderOrder::Last, 8);
    let current = |rig: &Rig| rig.files.current.as_ref().map(|file| file.index);
    for index in 0..3 {
        rig.frame(index);
        rig.drain();
        rig.begin_file(index as u32 + 1);
    }
    rig.files.reopen_newest(0);
    assert_eq!((current(&rig), rig.files.closing.len()), (Some(3), 3), "there is a current one");
    rig.files.leave();
    // The header of the last one is not there yet, and what has a table is over.
    rig.files.closing[2].toc_begun = true;
    rig.files.reopen_newest(2);
    assert_eq!(current(&rig), None, "the others are too old");
    rig.files.reopen_newest(1);
    assert_eq!(current(&rig), Some(1));
    // Now it is the last of those that are closed, and not the newest.
    rig.files.leave();
    rig.files.closing.iter_mut().for_each(|file| file.toc_begun = false);
    rig.files.reopen_newest(0);
    assert_eq!((current(&rig), rig.files.closing.len()), (Some(2), 3));
    rig.drain();
    rig.files.leave();
    rig.files.reopen_newest(0);
    assert_eq!(current(&rig), Some(3), "its header has been written");

    // The next frame stands in the place of one whose writes failed.
    let id = rig.files.current.as_ref().expect("a file").id;
    rig.frame(3);
    rig.drain();
    rig.files.file(id).failed = true;
    rig.frame(4);
    rig.drain();
    rig.files.leave();
    rig.files.reopen_newest(0);
    rig.frame(5);
    rig.drain();
    assert_eq!(rig.recorded, [0, 1, 2, 3, 5]);
    rig.files.leave();
    let bytes = rig.files.begin_toc(id, &Ledger::new(1), TocFlags::default());
    rig.stream_pages();
    rig.drain();
    check(rig.bytes()[..bytes as usize].to_vec(), &[3, 5]);
}

#[test]
fn without_time_large_columns_go_as_they_are_and_what_was_asked_is_known() {
    let mut rig = Rig::new(HeaderOrder::Last, 6);
    rig.begin(9, 4);
    let lowered = rig.stream(columns(9), Level::None);
    assert_eq!(lowered, [ids()[2]], "the other large column was to be stored as it is");
    rig.finish(9);
    rig.drain();
    check(rig.bytes(), &[9]);
}

#[test]
fn a_large_column_is_encoded_in_pieces_and_read_back() {
    for order in [HeaderOrder::Last, HeaderOrder::Held] {
        let mut rig = Rig::new(order, 7);
        rig.encoder = FrameEncoder::new(Some(PoolConfig { bytes_max: 1, ..PoolConfig::default() }));
        let raw: Vec<u8> = (0..3_u32 << 20).map(|n| (n / 700) as u8 ^ (n % 7) as u8).collect();
        let large = |id: u32, coding| FrameColumn {
            form: ColumnForm::new(id, Dtype::U8, raw.len() as u64),
            ask: Ask::new(Element::U8, Rule::Fixed(coding)),
            is_small: false,
            bytes: raw.clone(),
        };
        let codings = [Coding::Lz4, Coding::Zstd { level: 1 }, Coding::For];
        rig.begin(1, 4);
        let columns = ids().into_iter().zip(codings).map(|(id, coding)| large(id, coding));
        assert!(rig.stream(columns.collect(), Level::AsAsked).is_empty());
        rig.finish(1);
        rig.drain();
        let reader = FileReader::open(rig.bytes()).expect("opens");
        for (id, codec) in ids().into_iter().zip([Codec::Blosc, Codec::Blosc, Codec::For]) {
            let mut read = Vec::new();
            assert!(reader.read(0, id, &mut read).expect("its checksum is right"));
            assert!(read == raw);
            let entry = reader.find(0, id).expect("reads").expect("has it");
            assert!(entry.codec == codec && entry.stored_bytes < raw.len() as u64 / 10 * 9);
        }
    }
}

fn payload_of(dtype: Dtype) -> PayloadType {
    PayloadType { dtype, shape: Vec::new(), skip: 0, record_bytes: 0, fields: Vec::new() }
}

/// A maker for frames of two sources' events, the first of which delivers that type.
fn events_maker(payload: PayloadType) -> FrameMaker {
    let source = |id: u32| SourceInfo {
        id,
        name: format!("source {id}"),
        group: String::new(),
        protocol: String::new(),
        required: true,
        malformed_reasons: Vec::new(),
        stored: true,
        sparse: false,
    };
    let schema = Schema::events(vec![source(0), source(1)]);
    let schema = schema.with_payload_type(SourceId(0), payload).expect("a schema");
    FrameMaker::new(&schema.into(), false, |_| ColumnCoding::NONE)
}

fn kinds(maker: &FrameMaker, frame: &Frame<Vec<u8>>) -> Vec<String> {
    let kind = |column: &FrameColumn<_>| maker.column(column.form.id).expect("known").kind.clone();
    frame.columns.iter().map(|column| kind(column).name().to_owned()).collect()
}

#[test]
fn rows_of_typed_payload_are_whole_and_its_rest_is_kept() {
    let field = FieldInfo { name: "a".into(), dtype: Dtype::U32, shape: Vec::new(), offset: 0 };
    let records = PayloadType { record_bytes: 4, fields: vec![field], ..payload_of(Dtype::Record) };
    let numbers = payload_of(Dtype::I16);
    for (payload, rows) in [(numbers, 5), (records, 2)] {
        let maker = events_maker(payload);
        let source = |id, lengths, payload| EventSource {
            source: SourceId(id),
            lengths,
            validity: None,
            expected: None,
            holes: &[],
            times: &[],
            pieces: &[],
            payload,
        };
        let frame = EventFrame {
            keys: &[7, 9],
            times_ns: &[30, 20],
            flags: &[0, 0],
            sources: vec![
                source(0, &[5, 6], b"fragments..".to_vec()),
                source(1, &[0, 0], Vec::new()),
            ],
            increments: None,
        };
        let frame: Frame<Vec<u8>> = maker.events(frame).expect("columns of the schema");
        let info = frame.info;
        assert_eq!((info.rows, info.key_first, info.key_last), (2, 7, 9));
        assert_eq!((info.time_first_ns, info.time_last_ns), (20, 30));
        let first = ["event_key", "event_time", "event_flags"];
        let others = ["fragment_lengths", "fragment_payload", "fragment_lengths"];
        assert_eq!(kinds(&maker, &frame), [first, others].concat());
        let payload = &frame.columns[4];
        assert_eq!((payload.form.rows, &payload.bytes[..]), (rows, &b"fragments.."[..]));
    }
}

#[test]
fn a_frame_without_events_has_increments_alone() {
    let maker = events_maker(payload_of(Dtype::U8));
    let mut counts = Ledger::new(2);
    counts.sources[1][Entry::FragmentsReceived] = 3;
    for (increments, kinds_there) in [(Some(&counts), &["ledger_increment"][..]), (None, &[])] {
        let (keys, times_ns, flags) = (&[][..], &[][..], &[][..]);
        let frame = EventFrame { keys, times_ns, flags, sources: Vec::new(), increments };
        let frame: EventFrame<'_, Vec<u8>> = frame;
        let frame = maker.events(frame).expect("columns of the schema");
        assert_eq!(frame.info, FrameInfo { kind: FrameKind::Events, ..FrameInfo::EMPTY });
        assert_eq!(kinds(&maker, &frame), kinds_there);
    }
}

#[test]
fn gaps_are_in_the_order_of_columns_and_unknown_columns_are_refused() {
    let maker = FrameMaker::new(&schema().into(), false, |_| ColumnCoding::NONE);
    let [first, second, ..] = ids();
    let gap = [Span { row: 1, sample: 8 }];
    let frame = |ids: [u32; 2]| ChannelFrame {
        start_ns: 5,
        end_ns: 20_000_000_000,
        columns: ids
            .map(|id| ChannelColumn { id, first_sample: 5, spans: &gap, samples: vec![1, 2] })
            .into(),
        keys: (0, 0),
        increments: None,
    };
    let made: Frame<Vec<u8>> = maker.channels(frame([second, first])).expect("channels");
    let spans = &made.columns[0];
    assert_eq!((spans.form.rows, spans.bytes.len(), made.info.rows), (2, 48, 4));
    let gaps = decode_spans(&spans.bytes).expect("in order");
    assert_eq!(gaps.columns().collect::<Vec<_>>(), [first, second]);
    assert_eq!(made.columns[1].form.start_ns, 5_000_000_000);
    let refused = maker.channels::<Vec<u8>>(frame([first, 99])).expect_err("not in the schema");
    assert_eq!(refused.to_string(), "the schema has no column 99");
}
