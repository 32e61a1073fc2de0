//! A frame's contribution to the ledger, and the consistency of its columns.

use std::collections::{BTreeMap, HashSet};
use std::ops::{Range, RangeInclusive};

use catchment_codec::{Codec, CodecError};
use catchment_model::{Entry, Ledger, Piece};

use crate::base::is_in_base;
use crate::bytes::{put, u32_at, u64_at};
use crate::channel_info::ChannelInfo;
use crate::channels::Spans;
use crate::checksum::crc32c;
use crate::error::{ColumnProblem, FrameError, FrameRef, Part};
use crate::frame::{ColumnEntry, ENTRY_BYTES, FrameSummary};
use crate::holes::{Hole, decode_holes, unqualified};
use crate::kinds::FrameKind;
use crate::ledger::{decode_ledger, is_derived};
use crate::pieces::{decode_pieces, further_pieces};
use crate::read_at::ReadAt;
use crate::reader::FileReader;
use crate::toc_reader::Toc;

/// A frame's contribution to the ledger: its increments, and the recorded and missing fragments
/// that follow from its columns. A column that cannot be read, or that contradicts another or the
/// header, is an error in the list, and its counts are left out. Frames of channels have all counts
/// in their increments; skipped frames have nothing else; frames of other kinds add
/// nothing.
pub fn frame_ledger<R: ReadAt>(file: &FileReader<R>, frame: usize) -> (Ledger, Vec<FrameError>) {
    let mut ledger = Ledger::new(file.header().schema.sources.len());
    let mut problems = Vec::new();
    let Some(summary) = file.frames().get(frame) else { return (ledger, problems) };
    let kind = summary.info.kind;
    if !matches!(kind, FrameKind::Events | FrameKind::Channels | FrameKind::SKIPPED) {
        return (ledger, problems);
    }
    let mut bytes = Vec::new();
    match increments(file, frame, kind, &mut bytes) {
        Ok(Some(increments)) => ledger = increments,
        Ok(None) => {}
        Err(error) => problems.push(error),
    }
    let counted = if kind == FrameKind::Events { ledger.sources.len() } else { 0 };
    for source in 0..counted {
        match count_fragments(file, (frame, source), summary.info.rows, &mut bytes) {
            Ok((counted, problem)) => {
                let counts = &mut ledger.sources[source];
                counts[Entry::FragmentsRecorded] = counted.fragments;
                counts[Entry::FragmentBytesRecorded] = counted.bytes;
                if file.header().schema.sources[source].required {
                    counts[Entry::FragmentsMissing] = counted.missing;
                }
                counts[Entry::FragmentsWithHoles] = counted.with_holes;
                counts[Entry::FragmentBytesLost] = counted.bytes_lost;
                problems.extend(problem);
            }
            Err(error) => problems.push(error),
        }
    }
    match kind {
        FrameKind::Events => problems.extend(check_events(file, (frame, summary), &mut bytes)),
        FrameKind::Channels => check_channels(file, (frame, summary), &mut problems),
        _ => {}
    }
    (ledger, problems)
}

/// All errors of a frame: its header, its columns, and contradictions between its columns. Columns
/// with an unknown codec are checked by their checksum only, and those whose bytes are in the base
/// by the parts of it that they name. A bad table of checksums by block is named too, though no
/// data are lost by it ([`FrameError::is_bad_table`]).
pub fn verify_frame<R: ReadAt>(file: &FileReader<R>, frame: usize) -> Vec<FrameError> {
    check_frame(file, frame).1
}

/// As [`frame_ledger`] and [`verify_frame`] together: damage in one place does not keep the rest
/// from being checked, and is named once.
pub(crate) fn check_frame<R: ReadAt>(
    file: &FileReader<R>,
    frame: usize,
) -> (Ledger, Vec<FrameError>) {
    let mut problems = Vec::new();
    let entries = match file.checked_directory(frame) {
        Ok((entries, wrong_variant)) => {
            problems.extend(wrong_variant);
            entries
        }
        Err(error) => {
            problems.push(error);
            file.columns(frame).unwrap_or_default()
        }
    };
    let mut scratch = Vec::new();
    for entry in &entries {
        let result = file.stored_column(frame, entry).and_then(|column| match column.check() {
            // There is nothing to decode: it need not be in memory as a whole.
            Ok(()) if entry.codec == Codec::None => column.verify_stored(),
            _ if is_in_base(entry.codec) => column.base_parts().map(drop),
            _ => match column.read(&mut scratch) {
                Err(FrameError::Column {
                    problem: ColumnProblem::Codec(CodecError::Unknown(_)),
                    ..
                }) => column.verify_stored(),
                other => other,
            },
        });
        problems.extend(result.err());
    }
    let bad_tables = entries.iter().filter_map(|entry| {
        let column = file.stored_column(frame, entry).ok()?;
        column.blocks().err().filter(FrameError::is_bad_table)
    });
    let (ledger, contradictions) = frame_ledger(file, frame);
    add_new(&mut problems, contradictions);
    add_new(&mut problems, file.positions(frame).err());
    problems.extend(bad_tables);
    (ledger, problems)
}

/// Adds the errors not found before: every check that needs an unreadable column meets it again.
pub(crate) fn add_new(problems: &mut Vec<FrameError>, more: impl IntoIterator<Item = FrameError>) {
    let mut named: HashSet<_> = problems.iter().map(ToString::to_string).collect();
    problems.extend(more.into_iter().filter(|problem| named.insert(problem.to_string())));
}

impl<R: ReadAt> FileReader<R> {
    /// All errors of the TOC, or of the checkpoints by which a file was opened: its checksums, and
    /// lists that contradict the frames' own headers.
    pub fn verify_index(&self) -> Vec<FrameError> {
        let mut problems = self.verify_tables();
        problems.extend(self.verify_data_bad());
        if self.closed() && problems.is_empty() {
            let (tables, reader) = self.tables();
            problems.extend(tables.flat_map(|toc| verify_lists(self, reader, toc)));
        }
        problems
    }

    /// The checksums of the TOC, or of those checkpoints, that are wrong. Reads no frames.
    pub fn verify_tables(&self) -> Vec<FrameError> {
        let (tables, reader) = self.tables();
        tables.flat_map(|toc| toc.verify(reader)).collect()
    }
}

/// The lists of a closed file's TOC that contradict the directories of its frames. If a frame's
/// header cannot be read, there is nothing to compare the lists with.
fn verify_lists<R: ReadAt>(file: &FileReader<R>, reader: &R, toc: &Toc) -> Vec<FrameError> {
    let mut digests: BTreeMap<u32, Digest> = BTreeMap::new();
    for frame in 0..file.frames().len() {
        let Ok(entries) = file.directory(frame) else { return Vec::new() };
        for entry in entries {
            digests.entry(entry.id).or_default().add(frame as u32, &entry);
        }
    }
    let listed = match toc.listed(reader) {
        Ok(listed) => listed,
        Err(error) => return vec![error],
    };
    let mut problems = Vec::new();
    let other = |column, records: usize| FrameError::Field {
        part: Part::TocList(column),
        field: "records",
        expected: "those of the frames that have the column",
        got: records as u64,
    };
    for column in listed {
        let expected = digests.remove(&column).unwrap_or_default();
        let list = match toc.list(reader, column) {
            Ok(list) => list.unwrap_or_default(),
            Err(error) => {
                problems.push(error);
                continue;
            }
        };
        let mut digest = Digest::default();
        list.iter().for_each(|(frame, entry)| digest.add(*frame, entry));
        if digest != expected {
            problems.push(other(column, list.len()));
        }
    }
    problems.extend(digests.into_keys().map(|column| other(column, 0)));
    problems
}

/// A column's entries in all frames, in a few bytes: a file can have a million columns.
#[derive(Default, PartialEq, Eq)]
struct Digest {
    last: Option<u32>,
    crc32c: u32,
}

impl Digest {
    fn add(&mut self, frame: u32, entry: &ColumnEntry) {
        // A column may not appear twice in a directory; if it does, the first counts.
        if self.last.replace(frame) == Some(frame) {
            return;
        }
        let mut record = [0; 4 + ENTRY_BYTES];
        put(&mut record, 0, self.crc32c.to_le_bytes());
        entry.encode(frame, &mut record[4..]);
        self.crc32c = crc32c(&record);
    }
}

fn increments<R: ReadAt>(
    file: &FileReader<R>,
    frame: usize,
    kind: FrameKind,
    bytes: &mut Vec<u8>,
) -> Result<Option<Ledger>, FrameError> {
    let Some(column) = file.event_columns().ledger_increment else { return Ok(None) };
    if !file.read(frame, column, bytes)? {
        return Ok(None);
    }
    let header = file.header();
    let mut ledger = decode_ledger(bytes, &header.ledger_entries, header.schema.sources.len())
        .map_err(|problem| FrameError::column(FrameRef::Index(frame), column, problem))?;
    for counts in &mut ledger.sources {
        for &entry in Entry::ALL.iter().filter(|&&entry| is_derived(kind, entry)) {
            counts[entry] = 0;
        }
    }
    Ok(Some(ledger))
}

/// Fragments of one source in one frame, their bytes, the rows in which it was expected and is
/// not there, fragments with holes, and the bytes of these.
#[derive(Default)]
struct Counted {
    fragments: u64,
    bytes: u64,
    missing: u64,
    with_holes: u64,
    bytes_lost: u64,
}

fn count_fragments<R: ReadAt>(
    file: &FileReader<R>,
    (frame, source): (usize, usize),
    rows: u64,
    bytes: &mut Vec<u8>,
) -> Result<(Counted, Option<FrameError>), FrameError> {
    let columns = file.event_columns().sources[source];
    let content = |column: Option<u32>, reason| {
        let problem = ColumnProblem::Content { reason };
        Err(FrameError::column(FrameRef::Index(frame), column.unwrap_or(u32::MAX), problem))
    };
    let find = |column: Option<u32>| column.map_or(Ok(None), |id| file.find(frame, id));
    let lengths = find(columns.lengths)?;
    let validity = find(columns.validity)?;
    let payload_bytes = find(columns.payload)?.map_or(0, |entry| entry.raw_bytes);
    if find(columns.times)?.is_some_and(|entry| entry.rows != rows) {
        return content(columns.times, "it does not have the frame's rows");
    }
    let mut expected = None;
    if let Some(entry) = find(columns.expected)? {
        if entry.rows != rows {
            return content(columns.expected, "it does not have the frame's rows");
        }
        file.read_column(frame, &entry, bytes)?;
        expected = Some(bytes.clone());
    }
    let expected_count = expected.as_ref().map_or(rows, |bits| count_ones(bits, rows));
    let Some(lengths) = lengths else {
        let pieces = find(columns.pieces)?.filter(|entry| entry.raw_bytes > 0);
        if validity.is_some() || payload_bytes > 0 || pieces.is_some() {
            return content(columns.lengths, "there are fragments but no lengths");
        }
        return Ok((Counted { missing: expected_count, ..Counted::default() }, None));
    };
    if lengths.rows != rows {
        return content(columns.lengths, "it does not have the frame's rows");
    }
    let mut there = None;
    let (fragments, missing) = match validity {
        Some(entry) if entry.rows != rows => {
            return content(columns.validity, "it does not have the frame's rows");
        }
        Some(entry) => {
            file.read_column(frame, &entry, bytes)?;
            let fragments = count_ones(bytes, rows);
            there = Some(bytes.clone());
            match expected {
                Some(mut lacking) => {
                    lacking.iter_mut().zip(&*bytes).for_each(|(bits, there)| *bits &= !there);
                    (fragments, count_ones(&lacking, rows))
                }
                None => (fragments, rows - fragments),
            }
        }
        None => (rows, 0),
    };
    file.read_column(frame, &lengths, bytes)?;
    let sum = bytes.chunks_exact(4).map(|length| u64::from(u32_at(length, 0))).sum();
    if sum != payload_bytes {
        return content(columns.payload, "its bytes are not the sum of the lengths");
    }
    let further = count_pieces(file, (frame, source), there.as_deref(), bytes)?;
    let fragments = fragments + further;
    let (holes, problem) = count_holes(file, (frame, source), there.as_deref(), bytes)?;
    let (with_holes, bytes_lost) = holes;
    Ok((Counted { fragments, bytes: sum, missing, with_holes, bytes_lost }, problem))
}

/// How many fragments of a source there are in a frame beside one in each row. `lengths` has the
/// bytes of that column, `there` the validity; none: all are there.
fn count_pieces<R: ReadAt>(
    file: &FileReader<R>,
    (frame, source): (usize, usize),
    there: Option<&[u8]>,
    lengths: &[u8],
) -> Result<u64, FrameError> {
    let columns = file.event_columns().sources[source];
    let find = |column: Option<u32>| column.map_or(Ok(None), |id| file.find(frame, id));
    let Some(entry) = find(columns.pieces)?.filter(|entry| entry.raw_bytes > 0) else {
        return Ok(0);
    };
    let wrong = |problem| FrameError::column(FrameRef::Index(frame), entry.id, problem);
    let content = |reason| wrong(ColumnProblem::Content { reason });
    let mut bytes = Vec::new();
    file.read_column(frame, &entry, &mut bytes)?;
    let length = |row: u64| {
        let row = usize::try_from(row).ok().filter(|&row| row < lengths.len() / 4)?;
        let is_there = there.is_none_or(|bits| bits[row / 8] & 1 << (row % 8) != 0);
        is_there.then(|| u32_at(lengths, 4 * row).into())
    };
    let pieces = decode_pieces(&bytes, length).map_err(wrong)?;
    if entry.rows != pieces.len() as u64 {
        return Err(content("its rows are not its records"));
    }
    if let Some(times) = find(columns.times)? {
        file.read_column(frame, &times, &mut bytes)?;
        let mut firsts = pieces.chunk_by(|one, other| one.row == other.row).map(|all| all[0]);
        let time = |row: u64| bytes.chunks_exact(8).nth(row as usize).map(|ns| u64_at(ns, 0));
        let differs = |first: Piece| time(first.row) != Some(first.time_ns);
        if firsts.any(differs) {
            return Err(content("the time of a row is not that of its first piece"));
        }
    }
    Ok(further_pieces(&pieces))
}

/// How many fragments of a source have holes in a frame, and the bytes of all holes, which are
/// zeros; and what is wrong with a payload that has them, on which the counts do not depend.
/// `bytes` has the lengths, `there` the validity; none: all are there.
fn count_holes<R: ReadAt>(
    file: &FileReader<R>,
    (frame, source): (usize, usize),
    there: Option<&[u8]>,
    bytes: &mut Vec<u8>,
) -> Result<((u64, u64), Option<FrameError>), FrameError> {
    let columns = file.event_columns().sources[source];
    let find = |column: Option<u32>| column.map_or(Ok(None), |id| file.find(frame, id));
    let Some(entry) = find(columns.holes)?.filter(|entry| entry.raw_bytes > 0) else {
        return Ok(((0, 0), None));
    };
    let wrong = |column: u32, problem| FrameError::column(FrameRef::Index(frame), column, problem);
    let content = |column, reason| wrong(column, ColumnProblem::Content { reason });
    let ends = bytes.chunks_exact(4).scan(0, |end, length| {
        *end += u64::from(u32_at(length, 0));
        Some(*end)
    });
    let ends: Vec<u64> = ends.collect();
    let begin = |row: usize| row.checked_sub(1).map_or(0, |before| ends[before]);
    file.read_column(frame, &entry, bytes)?;
    let length = |row: u64| {
        let row = usize::try_from(row).ok().filter(|&row| row < ends.len())?;
        let is_there = there.is_none_or(|bits| bits[row / 8] & 1 << (row % 8) != 0);
        is_there.then(|| ends[row] - begin(row))
    };
    let holes = decode_holes(bytes, length).map_err(|problem| wrong(entry.id, problem))?;
    if entry.rows != holes.len() as u64 {
        return Err(content(entry.id, "its rows are not its records"));
    }
    let mut check = || {
        let Some(payload) = find(columns.payload)? else {
            return Err(content(entry.id, "there are holes and no payload"));
        };
        let Some(codec) = unqualified(payload.codec) else {
            return Err(content(payload.id, "it has holes, and its codec is not qualified"));
        };
        if codec == Codec::Base {
            return Ok(());
        }
        file.read_column(frame, &ColumnEntry { codec, ..payload }, bytes)?;
        let is_zero = |hole: &Hole| {
            let from = (begin(hole.row as usize) + hole.offset) as usize;
            bytes[from..from + hole.bytes as usize].iter().all(|&byte| byte == 0)
        };
        match holes.iter().all(is_zero) {
            true => Ok(()),
            false => Err(content(payload.id, "there are bytes in its holes")),
        }
    };
    let problem = check().err();
    let fragments = holes.chunk_by(|one, other| one.row == other.row).count() as u64;
    Ok(((fragments, holes.iter().map(|hole| hole.bytes).sum()), problem))
}

/// Checks that a frame with events has the required columns, and that the ranges of its header, by
/// which readers choose frames, match its keys and times.
fn check_events<R: ReadAt>(
    file: &FileReader<R>,
    (frame, summary): (usize, &FrameSummary),
    bytes: &mut Vec<u8>,
) -> Vec<FrameError> {
    let (info, columns) = (&summary.info, file.event_columns());
    if info.rows == 0 {
        return Vec::new();
    }
    let ranges = [
        (columns.key, "event_key", [("key_first", info.key_first), ("key_last", info.key_last)]),
        (
            columns.time,
            "event_time",
            [("time_first_ns", info.time_first_ns), ("time_last_ns", info.time_last_ns)],
        ),
    ];
    let mut problems = Vec::new();
    for (column, kind, [first, last]) in ranges {
        match numbers_between(file, (frame, info.rows), (column, kind), bytes) {
            Ok(Some(between)) => {
                let part = Part::FrameHeader(summary.offset);
                let wrong = |(field, got), expected, value| {
                    (got != value).then_some(FrameError::Field { part, field, expected, got })
                };
                problems.extend(wrong(first, "the smallest of the frame", *between.start()));
                problems.extend(wrong(last, "the largest of the frame", *between.end()));
            }
            // Only a later version could read it.
            Ok(None) => {}
            Err(error) => problems.push(error),
        }
    }
    let flags = present(file, (frame, info.rows), (columns.flags, "event_flags"));
    problems.extend(flags.err());
    problems
}

/// The smallest and the largest number of a column of u64; none if its codec is unknown.
fn numbers_between<R: ReadAt>(
    file: &FileReader<R>,
    (frame, rows): (usize, u64),
    (column, kind): (Option<u32>, &'static str),
    bytes: &mut Vec<u8>,
) -> Result<Option<RangeInclusive<u64>>, FrameError> {
    let entry = present(file, (frame, rows), (column, kind))?;
    match file.read_column(frame, &entry, bytes) {
        Err(FrameError::Column {
            problem: ColumnProblem::Codec(CodecError::Unknown(_)), ..
        }) => return Ok(None),
        other => other?,
    }
    let numbers = || bytes.chunks_exact(8).map(|number| u64_at(number, 0));
    Ok(numbers().min().zip(numbers().max()).map(|(first, last)| first..=last))
}

/// A column that every frame with events has, one element per row.
fn present<R: ReadAt>(
    file: &FileReader<R>,
    (frame, rows): (usize, u64),
    (column, kind): (Option<u32>, &'static str),
) -> Result<ColumnEntry, FrameError> {
    let found = column.map_or(Ok(None), |id| file.find(frame, id))?;
    let reason = match found {
        Some(entry) if entry.rows == rows => return Ok(entry),
        Some(_) => "it does not have the frame's rows",
        None => match kind {
            "event_key" => "a frame with rows has no event_key",
            "event_time" => "a frame with rows has no event_time",
            _ => "a frame with rows has no event_flags",
        },
    };
    let problem = ColumnProblem::Content { reason };
    Err(FrameError::column(FrameRef::Index(frame), column.unwrap_or(u32::MAX), problem))
}

/// Checks the channels of a frame: spans, start times, times outside the frame's range, and the
/// header's count of samples.
fn check_channels<R: ReadAt>(
    file: &FileReader<R>,
    (frame, summary): (usize, &FrameSummary),
    problems: &mut Vec<FrameError>,
) {
    let (spans, entries) = match (file.spans(frame), file.columns(frame)) {
        (Ok(spans), Ok(entries)) => (spans, entries),
        (Err(error), _) | (_, Err(error)) => return problems.push(error),
    };
    let info = &summary.info;
    let mut wrong = |field, expected, got| {
        let part = Part::FrameHeader(summary.offset);
        problems.push(FrameError::Field { part, field, expected, got });
    };
    if info.time_last_ns < info.time_first_ns {
        wrong("time_last_ns", "not before time_first_ns", info.time_last_ns);
    }
    let channels = file.channel_columns();
    let samples = entries.iter().filter(|entry| channels.by_id(entry.id).is_some());
    let samples = samples.fold(0, |sum: u64, entry| sum.saturating_add(entry.rows));
    if samples != info.rows {
        wrong("rows", "the samples of all channels", info.rows);
    }
    for entry in &entries {
        let Some(channel) = channels.by_id(entry.id) else { continue };
        let range_ns = info.time_first_ns..info.time_last_ns;
        if let Err(problem) = check_channel(channel, entry, &spans, range_ns) {
            problems.push(FrameError::column(FrameRef::Index(frame), entry.id, problem));
        }
    }
    for column in spans.columns() {
        let known = entries.iter().any(|entry| entry.id == column);
        if !known || channels.by_id(column).is_none() {
            let reason = "there are spans of it, but no samples";
            let problem = ColumnProblem::Content { reason };
            problems.push(FrameError::column(FrameRef::Index(frame), column, problem));
        }
    }
}

fn check_channel(
    channel: &ChannelInfo,
    entry: &ColumnEntry,
    spans: &Spans,
    range_ns: Range<u64>,
) -> Result<(), ColumnProblem> {
    let runs = spans.runs(entry)?;
    let Some(last) = runs.last() else { return Ok(()) };
    let field = |field, expected, got| Err(ColumnProblem::Field { field, expected, got });
    if entry.start_ns != channel.rate.time_ns(entry.first_sample) {
        return field("start_ns", "the time of first_sample", entry.start_ns);
    }
    let last_ns = channel.rate.time_ns(last.first_sample + (last.rows - 1));
    if !range_ns.contains(&entry.start_ns) || !range_ns.contains(&last_ns) {
        return field("start_ns", "with all samples in the frame's time range", entry.start_ns);
    }
    Ok(())
}

/// Ones among the first `rows` bits. Spare bits do not count.
fn count_ones(bytes: &[u8], rows: u64) -> u64 {
    let (whole, spare) = ((rows / 8) as usize, (rows % 8) as u32);
    let ones: u64 = bytes.iter().take(whole).map(|byte| u64::from(byte.count_ones())).sum();
    let last = bytes.get(whole).map_or(0, |byte| byte & ((1u16 << spare) - 1) as u8);
    ones + u64::from(last.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_bits_do_not_count() {
        assert_eq!(count_ones(&[0xff, 0xff], 11), 11);
        assert_eq!(count_ones(&[0xff, 0xff], 16), 16);
        assert_eq!(count_ones(&[0b101], 2), 1);
        assert_eq!(count_ones(&[], 0), 0);
    }
}
