//! Runs made in code: readers must return what was put in.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};

use catchment_fixtures::{Events, hadtu_sources};
use catchment_frame::{
    Codec, ColumnEntry, ColumnKind, DealtPart, EntryNames, FileHeader, FileReader, FrameInfo,
    FrameKind, FrameSummary, Numbering, OpenOptions, Schema, TocBuilder, TocFlags, crc32c,
    write_frame,
};
use catchment_model::{Entry, EventFlags, Ledger, RunId};

/// A change of a frame's header.
pub type Change = fn(FrameInfo) -> FrameInfo;

/// A part's number, and whether it has a frame.
pub type PartOf = (u32, fn(u64) -> bool);

/// The specification of a run.
pub struct Recipe {
    pub sources: u32,
    pub codec: Codec,
    /// Events in each frame of each file.
    pub files: Vec<Vec<u64>>,
    /// Whether a source's fragment of an event is missing.
    pub missing: fn(u32, u64) -> bool,
    /// Leave the last file without TOC and trailer, like a killed recorder.
    pub unclosed: bool,
    /// Fragments of each source that arrived and are not in the files.
    pub in_flight: u64,
    /// Each file except the first begins by repeating the last frame before it.
    pub repeats: bool,
    /// The ledger counts repeated frames again.
    pub counts_repeated: bool,
    /// How repeated frames are stored; `None`: unchanged.
    pub codec_repeated: Option<Codec>,
    /// The scope of frame numbers in the headers.
    pub numbering: Numbering,
    /// Changes of the headers of frames, and of repeated ones.
    pub info: Change,
    pub info_repeated: Change,
    /// Changes of the entries of columns.
    pub entry: fn(ColumnEntry) -> ColumnEntry,
    /// Leave this column out of all frames.
    pub without: Option<ColumnKind>,
    /// What tables say to be the sum over the frames of their file, by that sum; `None`: nothing.
    pub sum: Option<fn(Ledger) -> Ledger>,
    /// The entry that counts the fragments of a frame for which a skipped frame stands; `None`: the
    /// frame is there.
    pub skipped: fn(u64) -> Option<Entry>,
    /// Changes of the headers of skipped frames.
    pub info_skipped: Change,
    /// One of two parts of a target: its number, and which frames it has.
    pub part: Option<PartOf>,
    /// Whether the last file marks the end of the run.
    pub ended: bool,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            sources: 3,
            codec: Codec::None,
            files: vec![vec![5, 7], vec![4]],
            missing: |_, _| false,
            unclosed: false,
            in_flight: 0,
            repeats: false,
            counts_repeated: false,
            codec_repeated: None,
            numbering: Numbering::Run,
            info: |info| info,
            info_repeated: |info| info,
            entry: |entry| entry,
            without: None,
            sum: None,
            skipped: |_| None,
            info_skipped: |info| FrameInfo { kind: FrameKind::SKIPPED, rows: 1, ..info },
            part: None,
            ended: true,
        }
    }
}

/// A run as it was made.
pub struct Made {
    pub folder: tempfile::TempDir,
    pub files: Vec<PathBuf>,
    /// The positions of frames, file by file.
    pub frames: Vec<Vec<(FrameSummary, Vec<ColumnEntry>)>>,
    pub ledger: Ledger,
}

impl Made {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Bytes of a closed file's TOC.
    pub fn toc_bytes(&self, file: &[u8]) -> usize {
        let at = file.len() - 4096 + 40;
        u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize
    }

    /// Changes one byte of a file.
    pub fn damage(&self, file: usize, offset: u64) {
        let mut bytes = std::fs::read(&self.files[file]).expect("reads");
        bytes[offset as usize] ^= 0x55;
        std::fs::write(&self.files[file], bytes).expect("writes");
    }

    /// Where a column of a frame begins in its file.
    pub fn offset(&self, file: usize, frame: usize, column: u32) -> u64 {
        let (summary, entries) = &self.frames[file][frame];
        let entry = entries.iter().find(|entry| entry.id == column).expect("a column");
        summary.offset + entry.offset
    }
}

/// The bytes of a fragment: its source and event, repeated; every tenth is empty.
pub fn fragment(source: u32, event: u64) -> Vec<u8> {
    let length = (event * 7 + u64::from(source) * 13) % 40;
    if event % 10 == 9 {
        Vec::new()
    } else {
        vec![(event * 31) as u8 ^ source as u8; length as usize]
    }
}

/// The key of an event: a gap of one after each.
pub fn key(event: u64) -> u64 {
    1_000 + 2 * event
}

/// Sources 0 and 1 are required, source 2 and up optional.
pub fn header(sources: u32, file_index: u32) -> FileHeader {
    FileHeader {
        run: RunId([9; 16]),
        run_number: 42,
        file_index,
        file_id: 0xf11e_0000 + u64::from(file_index),
        created_ns: 1_750_000_000_000_000_000,
        writer: "storage test".into(),
        config: "[run]\nnumber = 42\n".into(),
        emulated: false,
        schema: Schema::events(hadtu_sources(sources, |id| id < 2)).into(),
        ledger_entries: EntryNames::default(),
        locator: false,
        numbering: Numbering::Run,
        variant: 0,
        target: None,
        part: None,
        stream: 0,
        epoch: 0,
        superseded: Vec::new(),
        base: None,
    }
}

/// Changes a file's header in its place: the minor version, and the metadata.
pub fn change_header(path: &Path, minor: u16, change: impl FnOnce(&mut serde_json::Value)) {
    let mut file = std::fs::read(path).expect("reads");
    let number =
        |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four")) as usize;
    let (header_bytes, used) = (number(12), 64 + number(16));
    let mut metadata = serde_json::from_slice(&file[64..used]).expect("JSON");
    change(&mut metadata);
    let json = serde_json::to_vec(&metadata).expect("JSON");
    let used = 64 + json.len();
    file[64..header_bytes].fill(0);
    file[64..used].copy_from_slice(&json);
    file[10..12].copy_from_slice(&minor.to_le_bytes());
    file[16..20].copy_from_slice(&(json.len() as u32).to_le_bytes());
    file[20..24].fill(0);
    let crc = crc32c(&file[..used]);
    file[20..24].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(path, file).expect("writes");
}

/// Changes the frames of a closed file, or the set of them; they become that file's, with right
/// checksums, and its TOC lists them. The TOC contains no variants, like one made by `repair`
/// before 1.3.
pub fn change_frames(path: &Path, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
    let bytes = std::fs::read(path).expect("reads");
    let reader = FileReader::open(&bytes[..]).expect("opens");
    let of = |frame: &FrameSummary| {
        bytes[frame.offset as usize..(frame.offset + frame.frame_bytes) as usize].to_vec()
    };
    let mut frames = reader.frames().iter().map(of).collect();
    change(&mut frames);
    let mut file = bytes[..reader.first_frame_offset() as usize].to_vec();
    let mut toc = TocBuilder::new(&file);
    for frame in &mut frames {
        let header_bytes = u32::from_le_bytes(frame[8..12].try_into().expect("four")) as usize;
        frame[40..48].copy_from_slice(&reader.header().file_id.to_le_bytes());
        frame[12..16].fill(0);
        let crc = crc32c(&frame[..header_bytes]);
        frame[12..16].copy_from_slice(&crc.to_le_bytes());
        file.extend_from_slice(frame);
    }
    let options = OpenOptions { ignore_checkpoints: true, ..OpenOptions::default() };
    let walked = FileReader::open_with(&file[..], &options).expect("opens");
    assert_eq!(walked.frames().len(), frames.len());
    for (index, summary) in walked.frames().iter().enumerate() {
        let mut summary = *summary;
        let columns = walked.header().schema.columns.iter();
        let entries: Vec<_> =
            columns.filter_map(|info| walked.find(index, info.id).expect("is listed")).collect();
        summary.info.origin.variant = 0;
        toc.add_frame(summary, &entries);
    }
    let ledger = reader.ledger().expect("reads").expect("a ledger");
    let flags = reader.flags().expect("is closed");
    let closing = toc.finish(file.len() as u64, ledger, flags);
    drop(walked);
    file.extend_from_slice(&closing);
    std::fs::write(path, file).expect("writes");
}

impl Recipe {
    pub fn make(&self) -> Made {
        let folder = tempfile::tempdir().expect("a folder");
        let mut made = Made {
            folder,
            files: Vec::new(),
            frames: Vec::new(),
            ledger: Ledger::new(self.sources as usize),
        };
        let (mut event, mut sequence, mut newest) = (0, 0, None);
        for (index, frames) in self.files.iter().enumerate() {
            let header = self.header(index as u32);
            let mut file = header.encode();
            let mut toc = TocBuilder::new(&file);
            let mut frames_written = Vec::new();
            let last_file = index + 1 == self.files.len();
            let mut sum = Ledger::new(self.sources as usize);
            if let Some(events) = newest.take_if(|_| self.repeats) {
                let position = (file.len() as u64, sequence - 1);
                let codec = self.codec_repeated.unwrap_or(self.codec);
                let (bytes, summary, entries) =
                    self.frame(&header, (&events, codec), position, self.info_repeated);
                file.extend_from_slice(&bytes);
                toc.add_frame(summary, &entries);
                frames_written.push((summary, entries));
                sum.add(&events.ledger(&header.schema));
                if self.counts_repeated {
                    made.ledger.add(&events.ledger(&header.schema));
                }
                newest = Some(events);
            }
            for (index, &rows) in frames.iter().enumerate() {
                let last = last_file && index + 1 == frames.len();
                if self.part.is_some_and(|(_, has)| !has(sequence)) {
                    (event, sequence) = (event + rows, sequence + 1);
                    continue;
                }
                let events = self.events(event..event + rows, last);
                let (events, info) = self.as_stored(sequence, events, &header.schema);
                event += rows;
                sum.add(&events.ledger(&header.schema));
                made.ledger.add(&events.ledger(&header.schema));
                for counts in &mut made.ledger.sources {
                    counts[Entry::FragmentsDurable] = counts[Entry::FragmentsRecorded];
                }
                let position = (file.len() as u64, sequence);
                let (bytes, summary, entries) =
                    self.frame(&header, (&events, self.codec), position, info);
                sequence += 1;
                newest = Some(events);
                file.extend_from_slice(&bytes);
                toc.add_frame(summary, &entries);
                frames_written.push((summary, entries));
            }
            if last_file && self.unclosed {
                // Preallocated space that was never written.
                file.resize(file.len() + 64 * 4096, 0);
            } else {
                if let Some(said) = self.sum {
                    toc.set_frames_ledger(&said(sum));
                }
                let (run_ended, data_lost) =
                    (last_file && self.ended, made.ledger.balance().lost_data());
                let flags = TocFlags { run_ended, data_lost, ..TocFlags::default() };
                let tail = toc.finish(file.len() as u64, &made.ledger, flags);
                file.extend_from_slice(&tail);
            }
            let path = made.path().join(format!("run-{index:05}.catch"));
            std::fs::write(&path, file).expect("writes");
            made.files.push(path);
            made.frames.push(frames_written);
        }
        made
    }

    fn header(&self, file_index: u32) -> FileHeader {
        let target = self.part.map(|(number, _)| format!("node:{number}"));
        let part = self.part.map(|(number, _)| DealtPart { number, count: 2, first_item: 0 });
        let header = header(self.sources, file_index);
        FileHeader { numbering: self.numbering, target, part, ..header }
    }

    /// A frame, or the skipped one that stands for it.
    fn as_stored(&self, sequence: u64, events: Events, schema: &Schema) -> (Events, Change) {
        match (self.skipped)(sequence) {
            None => (events, self.info),
            Some(entry) => (skipped(events, schema, entry), self.info_skipped),
        }
    }

    /// The contents of a frame; the last one also counts fragments in flight.
    fn events(&self, range: std::ops::Range<u64>, last: bool) -> Events {
        let is_missing = |source, event| (self.missing)(source, event);
        let incomplete = |event| (0..self.sources.min(2)).any(|source| is_missing(source, event));
        let flags = |event| {
            if incomplete(event) { EventFlags::INCOMPLETE.0 | EventFlags::TIMED_OUT.0 } else { 0 }
        };
        let of_source = |source| {
            let fragment = |event| (!is_missing(source, event)).then(|| fragment(source, event));
            range.clone().map(fragment).collect::<Vec<_>>()
        };
        let fragments: Vec<_> = (0..self.sources).map(of_source).collect();
        let mut increment = Ledger::new(self.sources as usize);
        for (counts, fragments) in increment.sources.iter_mut().zip(&fragments) {
            let arrived = fragments.iter().flatten().count() as u64;
            let arrived = arrived + if last { self.in_flight } else { 0 };
            counts[Entry::FragmentsReceived] = arrived;
            counts[Entry::PacketsReceived] = arrived;
            counts[Entry::PacketsAccepted] = arrived;
        }
        Events {
            keys: range.clone().map(key).collect(),
            times_ns: range.clone().map(time_ns).collect(),
            flags: range.clone().map(flags).collect(),
            fragments,
            increment: Some(increment),
        }
    }

    fn frame(
        &self,
        header: &FileHeader,
        (events, codec): (&Events, Codec),
        (offset, sequence): (u64, u64),
        info: Change,
    ) -> (Vec<u8>, FrameSummary, Vec<ColumnEntry>) {
        let frame = events.frame(&header.schema, codec);
        let info = info(FrameInfo {
            file_id: header.file_id,
            sequence,
            time_first_ns: frame.times.0,
            time_last_ns: frame.times.1,
            key_first: frame.keys.0,
            key_last: frame.keys.1,
            rows: frame.rows,
            ..FrameInfo::EMPTY
        });
        let stored = frame.encode(&header.schema);
        let without = self.without.as_ref();
        let without = without.and_then(|kind| header.schema.column(None, kind));
        let stored = stored.iter().filter(|(entry, _)| Some(entry.id) != without);
        let columns: Vec<_> =
            stored.map(|(entry, bytes)| ((self.entry)(*entry), &bytes[..])).collect();
        write_frame(info, offset, &columns)
    }
}

/// The contents of a skipped frame: the increments, and the fragments of the frame for which it
/// stands, counted by that entry.
fn skipped(events: Events, schema: &Schema, entry: Entry) -> Events {
    let mut increment = events.increment.clone().expect("its increments");
    for (counts, of_frame) in increment.sources.iter_mut().zip(&events.ledger(schema).sources) {
        counts[entry] += of_frame[Entry::FragmentsRecorded];
        counts[Entry::FragmentsMissingUnrecorded] += of_frame[Entry::FragmentsMissing];
        if entry == Entry::FragmentsNotTaken {
            counts[Entry::FragmentBytesNotTaken] += of_frame[Entry::FragmentBytesRecorded];
        }
    }
    Events { increment: Some(increment), ..Events::default() }
}

/// When an event's first fragment arrived.
pub fn time_ns(event: u64) -> u64 {
    1_750_000_000_000_000_000 + 250_000 * event
}
