//! Runs made in code: what was put in is what must be read back.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};

use catchment_frame::{
    Codec, ColumnEncoder, ColumnEntry, Dtype, EntryNames, EventColumns, FileHeader, FrameInfo,
    FrameSummary, Schema, SourceInfo, TocBuilder, TocFlags, crc32c, encode_ledger_increment,
    write_frame,
};
use catchment_model::{Entry, EventFlags, Ledger, RunId};

/// A run as it is to be.
pub struct Recipe {
    pub sources: u32,
    pub codec: Codec,
    /// Events in each frame of each file.
    pub files: Vec<Vec<u64>>,
    /// Whether a source's fragment of an event is missing.
    pub missing: fn(u32, u64) -> bool,
    /// Leave the last file without TOC and trailer, as a killed recorder does.
    pub unclosed: bool,
    /// Fragments of each source that came in and are not in the files.
    pub in_flight: u64,
    /// Each file but the first begins with the last frame of the one before, once more.
    pub repeats: bool,
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
        }
    }
}

/// A run as it was made.
pub struct Made {
    pub folder: tempfile::TempDir,
    pub files: Vec<PathBuf>,
    /// Where frames are, file by file.
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
    let source = |id| SourceInfo {
        id,
        name: format!("board-{id}"),
        group: "boards".into(),
        protocol: "hadtu".into(),
        required: id < 2,
        malformed_reasons: Vec::new(),
    };
    FileHeader {
        run: RunId([9; 16]),
        run_number: 42,
        file_index,
        file_id: 0xf11e_0000 + u64::from(file_index),
        created_ns: 1_750_000_000_000_000_000,
        writer: "storage test".into(),
        config: "[run]\nnumber = 42\n".into(),
        emulated: false,
        schema: Schema::events((0..sources).map(source).collect()).into(),
        ledger_entries: EntryNames::default(),
        locator: false,
    }
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
        let (mut event, mut sequence) = (0, 0);
        let mut newest = None;
        for (index, frames) in self.files.iter().enumerate() {
            let header = header(self.sources, index as u32);
            let mut file = header.encode();
            let mut toc = TocBuilder::new(&file);
            let mut places = Vec::new();
            let last_file = index + 1 == self.files.len();
            if let Some((events, increment)) = newest.take_if(|_| self.repeats) {
                let place = (file.len() as u64, sequence - 1);
                let (bytes, summary, entries) = self.frame(&header, events, &increment, place);
                file.extend_from_slice(&bytes);
                toc.add_frame(summary, &entries);
                places.push((summary, entries));
            }
            for (place, &rows) in frames.iter().enumerate() {
                let last = last_file && place + 1 == frames.len();
                let events = event..event + rows;
                event += rows;
                let increment = self.count(events.clone(), last, &mut made.ledger);
                let offset = file.len() as u64;
                let (bytes, summary, entries) =
                    self.frame(&header, events.clone(), &increment, (offset, sequence));
                sequence += 1;
                newest = Some((events, increment));
                file.extend_from_slice(&bytes);
                toc.add_frame(summary, &entries);
                places.push((summary, entries));
            }
            if last_file && self.unclosed {
                // Preallocated space that was never written.
                file.resize(file.len() + 64 * 4096, 0);
            } else {
                let data_lost = made.ledger.balance().lost_data();
                let flags = TocFlags { run_ended: last_file, data_lost, ..TocFlags::default() };
                let tail = toc.finish(file.len() as u64, &made.ledger, flags);
                file.extend_from_slice(&tail);
            }
            let path = made.path().join(format!("run-{index:05}.catch"));
            std::fs::write(&path, file).expect("writes");
            made.files.push(path);
            made.frames.push(places);
        }
        made
    }

    /// Adds what the frame records to the ledger, and returns its increments.
    fn count(&self, events: std::ops::Range<u64>, last: bool, ledger: &mut Ledger) -> Ledger {
        let mut increment = Ledger::new(self.sources as usize);
        for source in 0..self.sources {
            let there: Vec<_> = events.clone().filter(|&e| !(self.missing)(source, e)).collect();
            let bytes: usize = there.iter().map(|&event| fragment(source, event).len()).sum();
            let counts = &mut increment.sources[source as usize];
            let arrived = there.len() as u64 + if last { self.in_flight } else { 0 };
            counts[Entry::FragmentsReceived] = arrived;
            counts[Entry::PacketsReceived] = arrived;
            counts[Entry::PacketsAccepted] = arrived;
            let total = &mut ledger.sources[source as usize];
            total.add(counts);
            total[Entry::FragmentsRecorded] += there.len() as u64;
            total[Entry::FragmentsDurable] += there.len() as u64;
            total[Entry::FragmentBytesRecorded] += bytes as u64;
            if source < 2 {
                total[Entry::FragmentsMissing] +=
                    events.clone().count() as u64 - there.len() as u64;
            }
        }
        increment
    }

    fn frame(
        &self,
        header: &FileHeader,
        events: std::ops::Range<u64>,
        increment: &Ledger,
        (offset, sequence): (u64, u64),
    ) -> (Vec<u8>, FrameSummary, Vec<ColumnEntry>) {
        let ids = EventColumns::of(&header.schema);
        let rows = events.clone().count() as u64;
        let incomplete =
            |event| (0..self.sources.min(2)).any(|source| (self.missing)(source, event));
        let flags = events.clone().map(|event| {
            if incomplete(event) { EventFlags::INCOMPLETE.0 | EventFlags::TIMED_OUT.0 } else { 0 }
        });
        let records = increments(increment);
        let count = records.len() as u64 / 16;
        let mut columns = vec![(ids.ledger_increment, Dtype::Record, count, records)];
        if rows > 0 {
            let keys = events.clone().flat_map(|event| key(event).to_le_bytes()).collect();
            let times = events.clone().flat_map(|event| time_ns(event).to_le_bytes()).collect();
            columns.push((ids.key, Dtype::U64, rows, keys));
            columns.push((ids.time, Dtype::U64, rows, times));
            let flags = flags.flat_map(u32::to_le_bytes).collect();
            columns.push((ids.flags, Dtype::U32, rows, flags));
        }
        for (source, ids) in ids.sources.iter().enumerate() {
            let source = source as u32;
            let there = |event: &u64| !(self.missing)(source, *event);
            if !events.clone().any(|event| there(&event)) {
                continue;
            }
            let of = |event| if there(&event) { fragment(source, event) } else { Vec::new() };
            let lengths = events.clone().flat_map(|event| (of(event).len() as u32).to_le_bytes());
            columns.push((ids.lengths, Dtype::U32, rows, lengths.collect()));
            if !events.clone().all(|event| there(&event)) {
                let mut bits = vec![0u8; (rows as usize).div_ceil(8)];
                let valid = events.clone().enumerate().filter(|(_, event)| there(event));
                valid.for_each(|(row, _)| bits[row / 8] |= 1 << (row % 8));
                columns.push((ids.validity, Dtype::Bits, rows, bits));
            }
            let payload: Vec<u8> = events.clone().flat_map(of).collect();
            if !payload.is_empty() {
                columns.push((ids.payload, Dtype::U8, payload.len() as u64, payload));
            }
        }
        let info = FrameInfo {
            file_id: header.file_id,
            sequence,
            time_first_ns: if rows > 0 { time_ns(events.start) } else { 0 },
            time_last_ns: if rows > 0 { time_ns(events.end - 1) } else { 0 },
            key_first: if rows > 0 { key(events.start) } else { 0 },
            key_last: if rows > 0 { key(events.end - 1) } else { 0 },
            rows,
            ..FrameInfo::EMPTY
        };
        let mut encoder = ColumnEncoder::new();
        let mut stored = Vec::new();
        for (id, dtype, rows, raw) in columns {
            let encoded = encoder.encode(self.codec, catchment_frame::Element::Bytes, &raw);
            let entry = ColumnEntry {
                id: id.expect("a standard column"),
                codec: encoded.codec,
                dtype,
                flags: 0,
                crc32c: crc32c(encoded.stored),
                offset: 0,
                stored_bytes: encoded.stored.len() as u64,
                raw_bytes: raw.len() as u64,
                rows,
                start_ns: 0,
                first_sample: 0,
            };
            stored.push((entry, encoded.stored.to_vec()));
        }
        let columns: Vec<_> = stored.iter().map(|(entry, bytes)| (*entry, &bytes[..])).collect();
        write_frame(info, offset, &columns)
    }
}

fn increments(ledger: &Ledger) -> Vec<u8> {
    let mut records = Vec::new();
    encode_ledger_increment(ledger, &mut records);
    records
}

/// When an event's first fragment arrived.
pub fn time_ns(event: u64) -> u64 {
    1_750_000_000_000_000_000 + 250_000 * event
}
