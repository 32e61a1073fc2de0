//! Files made from a simple model: readers must return what the test put in.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod channels;

use catchment_fixtures::{Events, Frame, Random, hadtu_sources};
use catchment_frame::{
    BlockChecksums, Codec, ColumnEntry, ColumnKind, EntryNames, FileHeader, FileReader, FrameInfo,
    FrameKind, FrameLayout, FrameSummary, Origin, ReadAt, Schema, TocBuilder, TocFlags,
    encode_locator, frame_ledger, locator_offset, write_frame,
};
use catchment_model::{Entry, Ledger, RunId};

/// A whole file as it was put in.
#[derive(Clone, Debug)]
pub struct Model {
    pub header: FileHeader,
    pub frames: Vec<Frame>,
    pub ledger: Ledger,
    pub flags: TocFlags,
    /// A checkpoint after that many frames; 0 for none.
    pub checkpoint_every: usize,
    /// The builder of each frame; none: one recorder for all.
    pub origins: Vec<Origin>,
}

/// The bytes of a model, and the positions of its frames.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Header and frames, without TOC and trailer.
    pub unclosed: Vec<u8>,
    /// The whole file.
    pub closed: Vec<u8>,
    pub frames: Vec<FrameSummary>,
    pub entries: Vec<Vec<ColumnEntry>>,
    pub checkpoints: Vec<FrameSummary>,
}

pub const FILE_ID: u64 = 0x1234_5678_9abc_def0;

pub fn header(source_count: u32) -> FileHeader {
    FileHeader {
        run: RunId(*b"catchment-golden"),
        run_number: 7,
        file_index: 0,
        file_id: FILE_ID,
        created_ns: 1_750_000_000_000_000_000,
        writer: "catchment test".into(),
        config: "[run]\nname = \"golden\"\n".into(),
        emulated: false,
        schema: Schema::events(hadtu_sources(source_count, |id| id != 2)).into(),
        ledger_entries: EntryNames::default(),
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

impl Model {
    pub fn new(source_count: u32) -> Self {
        Self {
            header: header(source_count),
            frames: Vec::new(),
            ledger: Ledger::new(source_count as usize),
            flags: TocFlags::default(),
            checkpoint_every: 0,
            origins: Vec::new(),
        }
    }

    /// Encodes the file, alternating between the ways of a recorder and of tools.
    pub fn encode(&self) -> Encoded {
        let mut file = self.header.encode();
        let mut toc = TocBuilder::new(&file);
        let (mut all_entries, mut checkpoints) = (Vec::new(), Vec::new());
        for (index, frame) in self.frames.iter().enumerate() {
            let offset = file.len() as u64;
            let columns = frame.encode(&self.header.schema);
            let info = self.info(index);
            let (bytes, summary, entries) = if index % 2 == 0 {
                stream_frame(info, offset, &columns)
            } else {
                let columns: Vec<_> = columns.iter().map(|(e, b)| (*e, b.as_slice())).collect();
                write_frame(info, offset, &columns)
            };
            toc.add_frame(summary, &entries);
            all_entries.push(entries);
            file.extend_from_slice(&bytes);
            if self.checkpoint_every > 0 && (index + 1) % self.checkpoint_every == 0 {
                checkpoints.push(add_checkpoint(&mut file, &mut toc, &self.ledger));
                let generation = checkpoints.len() as u64;
                write_locator(&mut file, &self.header, generation, checkpoints.last());
            }
        }
        let tail = toc.finish(file.len() as u64, &self.ledger, self.flags);
        let mut closed = file.clone();
        closed.extend_from_slice(&tail);
        let frames = toc.frames().to_vec();
        Encoded { unclosed: file, closed, frames, entries: all_entries, checkpoints }
    }

    fn info(&self, index: usize) -> FrameInfo {
        let frame = &self.frames[index];
        let origin = self.origins.get(index).copied().unwrap_or_default();
        let of_stream = self.origins.iter().take(index).filter(|o| o.stream == origin.stream);
        let sequence = if self.origins.is_empty() { index } else { of_stream.count() } as u64;
        FrameInfo {
            kind: frame.kind.unwrap_or(FrameKind::Events),
            flags: 0,
            file_id: self.header.file_id,
            sequence,
            time_first_ns: frame.times.0,
            time_last_ns: frame.times.1,
            key_first: frame.keys.0,
            key_last: frame.keys.1,
            rows: frame.rows,
            origin,
        }
    }
}

/// Appends a checkpoint to a file.
pub fn add_checkpoint(file: &mut Vec<u8>, toc: &mut TocBuilder, ledger: &Ledger) -> FrameSummary {
    let (bytes, summary) = toc.checkpoint(file.len() as u64, ledger);
    file.extend_from_slice(&bytes);
    summary
}

/// Writes the locator of that generation, if the file has one.
pub fn write_locator(
    file: &mut [u8],
    header: &FileHeader,
    generation: u64,
    checkpoint: Option<&FrameSummary>,
) {
    let (true, Some(checkpoint)) = (header.locator, checkpoint) else { return };
    let header_bytes = header.encode().len() as u64;
    let at = locator_offset(header_bytes, generation) as usize;
    let block = encode_locator(header.file_id, generation, checkpoint);
    file[at..at + block.len()].copy_from_slice(&block);
}

/// As a recorder does: columns at their offsets, the header last, with more space than needed.
fn stream_frame(
    info: FrameInfo,
    offset: u64,
    columns: &[(ColumnEntry, Vec<u8>)],
) -> (Vec<u8>, FrameSummary, Vec<ColumnEntry>) {
    let mut layout = FrameLayout::begin(info, columns.len() + 3);
    let mut frame = vec![0; layout.header_space()];
    for (entry, stored) in columns {
        frame.resize(layout.next_offset() as usize, 0);
        frame.extend_from_slice(stored);
        if entry.has_table() {
            frame.resize(layout.table_offset(entry.stored_bytes) as usize, 0);
            BlockChecksums::of(stored).encode_table(&mut frame);
        }
        layout.push(*entry);
    }
    frame.resize(layout.frame_bytes() as usize, 0);
    let summary = layout.finish(offset, &mut frame);
    (frame, summary, layout.entries().to_vec())
}

/// Asserts that a file contains exactly what was put in, up to `frame_count` frames.
pub fn assert_holds<R: ReadAt>(file: &FileReader<R>, model: &Model, frame_count: usize) {
    assert_eq!(file.header(), &model.header);
    assert_eq!(file.frames().len(), frame_count);
    let mut bytes = Vec::new();
    for (index, frame) in model.frames.iter().take(frame_count).enumerate() {
        let found = file.columns(index).expect("a directory");
        assert!(found.iter().map(|e| e.id).eq(frame.columns.iter().map(|c| c.id)));
        for column in &frame.columns {
            assert!(file.read(index, column.id, &mut bytes).expect("a column"));
            assert_eq!(bytes, column.raw, "frame {index}, column {}", column.id);
        }
        assert!(!file.read(index, u32::MAX, &mut bytes).expect("no error"));
    }
}

/// The numbers with which the golden files were made (xorshift64*).
pub struct GoldenRandom(pub u64);

impl GoldenRandom {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn index(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let byte = || if self.next().is_multiple_of(4) { self.next() as u8 } else { 7 };
        std::iter::repeat_with(byte).take(count).collect()
    }
}

/// Some events of three sources: fragments of all sizes, missing ones, a source that is silent in
/// every second frame, increments.
pub fn some_events(random: &mut Random, frame: usize, rows: usize) -> Events {
    let first = 1_000 * frame as u64;
    let mut events = Events {
        keys: (0..rows as u64).map(|row| first + row).collect(),
        times_ns: (0..rows as u64).map(|row| 1_750_000_001_000_000_000 + 500 * row).collect(),
        flags: vec![0; rows],
        fragments: Vec::new(),
        increment: None,
    };
    let mut increment = Ledger::new(3);
    for source in 0..3 {
        let mut fragments = Vec::new();
        for row in 0..rows {
            let silent = source == 2 && frame % 2 == 1;
            let missing = silent || (source == 1 && random.below(5) == 0);
            if missing && source != 2 {
                events.flags[row] |= 1;
            }
            let bytes = random.index(40);
            fragments.push((!missing).then(|| random.bytes(bytes)));
        }
        increment.sources[source][Entry::FragmentsReceived] =
            fragments.iter().flatten().count() as u64;
        events.fragments.push(fragments);
    }
    events.increment = Some(increment);
    events
}

/// A model of `frame_count` frames of [`some_events`], with the right ledger.
pub fn some_model(seed: u64, frame_count: usize, rows: usize, codec: Codec) -> Model {
    let mut random = Random::new(seed);
    let mut model = Model::new(3);
    for frame in 0..frame_count {
        let events = some_events(&mut random, frame, rows);
        model.ledger.add(&events.ledger(&model.header.schema));
        model.frames.push(events.frame(&model.header.schema, codec));
    }
    for source in &mut model.ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
    model.flags = TocFlags { run_ended: true, data_lost: true, ..TocFlags::default() };
    model
}

/// The kind of a schema's column, for descriptions.
pub fn kind_of(schema: &Schema, id: u32) -> Option<&ColumnKind> {
    schema.columns.iter().find(|column| column.id == id).map(|column| &column.kind)
}

/// A closed file of a model, each entry changed before it is written, whose ledger is that of its
/// frames.
pub fn written(model: &Model, change: impl Fn(usize, &mut ColumnEntry)) -> Vec<u8> {
    let mut file = model.header.encode();
    let mut toc = TocBuilder::new(&file);
    for (index, frame) in model.frames.iter().enumerate() {
        let mut columns = frame.encode(&model.header.schema);
        columns.iter_mut().for_each(|(entry, _)| change(index, entry));
        let info = FrameInfo {
            file_id: model.header.file_id,
            sequence: index as u64,
            time_first_ns: frame.times.0,
            time_last_ns: frame.times.1,
            key_first: frame.keys.0,
            key_last: frame.keys.1,
            rows: frame.rows,
            origin: Origin { variant: model.header.variant, ..Origin::SINGLE },
            ..FrameInfo::EMPTY
        };
        let columns: Vec<_> = columns.iter().map(|(entry, b)| (*entry, b.as_slice())).collect();
        let (bytes, summary, entries) = write_frame(info, file.len() as u64, &columns);
        toc.add_frame(summary, &entries);
        file.extend_from_slice(&bytes);
    }
    let mut ledger = Ledger::new(model.header.schema.sources.len());
    if let Ok(reader) = FileReader::open(&file) {
        (0..reader.frames().len()).for_each(|frame| ledger.add(&frame_ledger(&reader, frame).0));
    }
    let flags = TocFlags { data_bad: ledger.bad_data() > 0, ..TocFlags::default() };
    let closing = toc.finish(file.len() as u64, &ledger, flags);
    file.extend_from_slice(&closing);
    file
}
