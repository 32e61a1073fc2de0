//! A storage node's description of a stream, sent to a sender that asks (section 5 of
//! docs/spec/storage-link.md): a frame file without frames; before it, of a part of the run's
//! frames, their numbers.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use catchment_disk::ReadFile;
use catchment_frame::{FileHeader, FileReader, FrameError, FrameKind, close_behind, frame_ledger};
use catchment_model::Ledger;
use catchment_storage::Resumable;
use catchment_wire::session::{Encoder, Fields as _};
use catchment_wire::storage_link::{LEFT_BYTES_MAX, LEFT_PARTS_MAX, Left, LeftPart};

/// What a sender asks of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// What there is from that number on is cut off first; `u64::MAX`: nothing is.
    pub(crate) below: u64,
    /// Of a part: the numbers whose counts are wanted; none: those of all frames.
    pub(crate) numbers: Option<Range<u64>>,
}

/// What there is of a stream.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// Which question it answers.
    pub(crate) question: Option<Question>,
    /// Empty if nothing is.
    bytes: Vec<u8>,
    has_ended: bool,
    /// For how long nothing had come when it was looked at.
    pub(crate) age_ns: u64,
    frames: u64,
    events: u64,
    file_bytes: u64,
}

impl Description {
    /// That of a stream of which there is nothing.
    pub(crate) fn of_nothing(question: &Question) -> Self {
        Self { question: Some(question.clone()), ..Self::default() }
    }

    /// That of a stream whose files have such headers, and were closed as `from`; whether it has
    /// ended, and for how long nothing had come.
    ///
    /// # Errors
    /// A description that cannot be made, or is too long.
    pub(crate) fn of(
        header: &FileHeader,
        from: &Resumable,
        (has_ended, age_ns): (bool, u64),
        question: Question,
    ) -> Result<Self, String> {
        let place = from.places.first().ok_or("nothing was looked at")?;
        // The last one is of whoever goes on, and is its own to make.
        let superseded =
            from.superseded.split_last().map_or(&[][..], |(_, before)| before).to_vec();
        let epoch = from.epoch.saturating_sub(1);
        let header = FileHeader { epoch, superseded, locator: false, ..header.clone() };
        let mut file = header.encode();
        let failed = |error: FrameError| format!("cannot say what there is: {error}");
        let (mut frames, mut events, file_bytes) = (place.frames, place.events, place.bytes);
        let (mut ledger, mut bytes) = (place.ledger.clone(), Vec::new());
        if header.part.is_some() {
            let sources = header.schema.sources.len();
            let part = Part::of(&place.files, sources, question.numbers.as_ref())?;
            if question.numbers.is_some() {
                let counted = part.counted;
                (ledger, frames, events) = (counted.ledger, counted.frames, counted.events);
            } else if part.repeated.frames > 0 {
                ledger = ledger.since(&part.repeated.ledger);
                frames = frames.saturating_sub(part.repeated.frames);
                events = events.saturating_sub(part.repeated.events);
            }
            bytes.extend_from_slice(&(part.numbers.len() as u64).to_le_bytes());
            let numbers = part.numbers.iter().flat_map(|&(first, last)| [first, last]);
            bytes.extend(numbers.flat_map(u64::to_le_bytes));
        }
        let reader = FileReader::open(&file).map_err(failed)?;
        let closing = close_behind(&reader, 0, (&ledger, &ledger), &from.positions);
        let closing = closing.map_err(failed)?;
        drop(reader);
        file.resize(closing.offset as usize, 0);
        file.extend_from_slice(&closing.bytes);
        bytes.extend_from_slice(&file);
        if bytes.len() as u64 > LEFT_BYTES_MAX {
            let bytes = bytes.len();
            return Err(format!("cannot say what there is in {LEFT_BYTES_MAX} bytes, but {bytes}"));
        }
        let question = Some(question);
        Ok(Self { question, bytes, has_ended, age_ns, frames, events, file_bytes })
    }

    /// Writes the message with its bytes from `offset` on to the beginning of `out`. Returns its
    /// length, and where the next one goes on, if one follows.
    pub(crate) fn encode(
        &self,
        (out, number): (&mut [u8], u32),
        offset: usize,
    ) -> (usize, Option<usize>) {
        let fixed = Left {
            log: 0,
            bytes: self.bytes.len() as u32,
            offset: offset as u32,
            flags: if self.has_ended { Left::ENDED } else { 0 },
            age_ns: self.age_ns,
            frames: self.frames,
            events: self.events,
            file_bytes: self.file_bytes,
        };
        let mut message = Encoder::begin(out, number, &fixed);
        let rest = self.bytes.get(offset..).unwrap_or_default();
        for part in rest.chunks(LeftPart::BYTES).take(LEFT_PARTS_MAX as usize) {
            let mut bytes = [0; LeftPart::BYTES];
            bytes[..part.len()].copy_from_slice(part);
            assert!(message.push(&LeftPart { bytes }), "as many as fit");
        }
        let next = offset + LEFT_PARTS_MAX as usize * LeftPart::BYTES;
        (message.finish("", &[]), (next < self.bytes.len()).then_some(next))
    }
}

/// The frames of a part of a run's.
struct Part {
    /// The first and the last number of those that follow each other, in the order of items.
    numbers: Vec<(u64, u64)>,
    /// Those whose numbers are asked for.
    counted: Counts,
    /// Those that were items before: a frame that was not acknowledged may come as another one.
    repeated: Counts,
}

/// What frames count, how many they are, and their events.
struct Counts {
    ledger: Ledger,
    frames: u64,
    events: u64,
}

impl Part {
    /// Those in files, which are closed. An item that stands in two of them is one.
    fn of(files: &[PathBuf], sources: usize, wanted: Option<&Range<u64>>) -> Result<Self, String> {
        let (counted, repeated) = (Counts::new(sources), Counts::new(sources));
        let mut part = Self { numbers: Vec::new(), counted, repeated };
        let (mut seen, mut others, mut items) = (BTreeMap::new(), BTreeSet::new(), 0);
        for path in files {
            let reader = ReadFile::open(path).map_err(|error| failed(path, &error))?;
            let reader = FileReader::open(reader).map_err(|error| failed(path, &error))?;
            let begins = reader.header().part.map_or(items, |part| part.first_item);
            for (index, frame) in reader.frames().iter().enumerate() {
                let item = begins.saturating_add(index as u64);
                let key = (frame.info.sequence, frame.info.kind.number());
                let is_repeated = match seen.entry(key) {
                    Entry::Occupied(first) => {
                        if *first.get() == item || !others.insert((key, item)) {
                            continue;
                        }
                        true
                    }
                    Entry::Vacant(entry) => {
                        entry.insert(item);
                        false
                    }
                };
                let (first, last) = frame.info.numbers();
                match part.numbers.last_mut() {
                    Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
                    _ => part.numbers.push((first, last)),
                }
                let counts = match is_repeated {
                    true => &mut part.repeated,
                    false if wanted.is_some_and(|one| one.contains(&first)) => &mut part.counted,
                    false => continue,
                };
                counts.add(&reader, index).map_err(|error| failed(path, &error))?;
            }
            items = items.max(begins.saturating_add(reader.frames().len() as u64));
        }
        Ok(part)
    }
}

impl Counts {
    fn new(sources: usize) -> Self {
        Self { ledger: Ledger::new(sources), frames: 0, events: 0 }
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// A part of it cannot be read.
    fn add(&mut self, reader: &FileReader<ReadFile>, frame: usize) -> Result<(), FrameError> {
        let (ledger, errors) = frame_ledger(reader, frame);
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let info = reader.frames()[frame].info;
        self.ledger.add(&ledger);
        self.frames += 1;
        self.events += if info.kind == FrameKind::Events { info.rows } else { 0 };
        Ok(())
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
