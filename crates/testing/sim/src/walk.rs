//! A reader of frame files for the oracle, written from docs/spec/frame-file.md: of the node's code
//! it uses only the codecs' decoders and the checksum.
//!
//! It walks the frames, starting at the header: checkpoints, TOC and trailer are examined for their
//! contents (`contents.rs`), not used to find anything.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use catchment_codec::{Codec, decode_column};
use catchment_frame::crc32c;

/// A file.
#[derive(Debug)]
pub struct WalkedFile {
    /// Where it was found, if that is known.
    pub path: PathBuf,
    /// Its number in the run.
    pub index: u64,
    /// The run's identity.
    pub run: String,
    /// Names of the ledger's entries, by number.
    entries: Vec<String>,
    /// By column id.
    columns: BTreeMap<u32, SchemaColumn>,
    /// Which sources are required.
    pub required: Vec<bool>,
    /// The number of what it has of the run.
    pub variant: u64,
    /// Which sources are stored.
    pub stored: Vec<bool>,
    /// The names of the channels that are stored, and of those that are not.
    pub channels: [BTreeSet<String>; 2],
    /// Frames with rows, or with increments only.
    pub frames: Vec<WalkedFrame>,
    /// The table of contents, if the file is closed.
    pub toc: Option<WalkedToc>,
    /// Bytes that belong to no frame, before the last frame.
    pub skipped_bytes: u64,
    /// Tables of contents so far, each with the number of frames before it.
    pub checkpoints: Vec<(usize, WalkedFrame)>,
    /// The two slots of the locator, if the file has one.
    pub locator: Option<[Vec<u8>; 2]>,
    /// The file header, without its padding.
    pub header: Vec<u8>,
    /// The file's identity.
    pub file_id: u64,
}

/// The kind of a column in the schema.
#[derive(Clone, Debug)]
struct SchemaColumn {
    kind: String,
    source: Option<usize>,
    /// Of a channel.
    name: String,
}

/// A frame.
#[derive(Debug)]
pub struct WalkedFrame {
    /// Its offset.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Its number in the run.
    pub sequence: u64,
    /// Its rows; of a skipped frame none.
    pub rows: u64,
    /// The frames for which it stands, if it is a skipped one.
    pub skips: Option<u64>,
    /// Whether it is a frame of channels.
    pub is_channels: bool,
    /// Its header: the fixed part, and the directory.
    pub header: Vec<u8>,
    /// Its columns.
    pub(crate) columns: Vec<WalkedColumn>,
}

/// A row's data about its event.
#[derive(Clone, Copy, Debug)]
pub struct WalkedRow {
    /// The number by which its fragments were matched.
    pub key: u64,
    /// When its first fragment arrived.
    pub time_ns: u64,
    /// Its flags.
    pub flags: u32,
}

/// A column of a frame.
#[derive(Debug)]
pub(crate) struct WalkedColumn {
    pub(crate) id: u32,
    /// The range of its stored bytes in the file.
    begin: u64,
    stored_bytes: u64,
    /// The range of its blocks' checksums in the file; empty if it has none.
    table: Range<u64>,
    rows: u64,
    first_sample: u64,
    crc32c: u32,
    /// The raw bytes, or why they cannot be read.
    pub(crate) raw: Result<Vec<u8>, String>,
}

/// The contents of a table of contents.
#[derive(Debug)]
pub struct WalkedToc {
    /// Flags of its header.
    pub flags: u16,
    /// How many frames it lists.
    pub frames: u64,
    /// The run's ledger: source, entry's name, count.
    pub ledger: BTreeMap<(usize, String), u64>,
    /// The frame that it is in.
    pub frame: WalkedFrame,
}

impl WalkedFrame {
    /// The frame's identity: of several frames with the same identity, one counts. An abandoned
    /// frame may have the number of a later one, but is a different frame.
    pub(crate) fn identity(&self) -> (u64, Vec<(u32, u64, u32)>) {
        let columns = self.columns.iter().map(|one| (one.id, one.rows, one.crc32c));
        (self.sequence, columns.collect())
    }
}

/// A row's fragment of a source.
#[derive(Debug)]
pub struct WalkedFragment<'a> {
    /// The row's key.
    pub key: u64,
    /// The row's number in its frame.
    pub row: usize,
    /// The source.
    pub source: usize,
    /// Its bytes; none if it is missing.
    pub bytes: Option<&'a [u8]>,
    /// Whether it was to be there.
    pub is_expected: bool,
    /// Its own time, in ns, if there is a column of it.
    pub time_ns: Option<u64>,
}

/// How far a source was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkedPosition {
    /// The source.
    pub source: usize,
    /// What the position is one of.
    pub what: u16,
    /// The session.
    pub session: u64,
    /// The position.
    pub position: u64,
}

impl WalkedToc {
    /// The newest positions of the run.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn positions(&self) -> Result<Vec<WalkedPosition>, String> {
        let column = self.frame.columns.iter().find(|column| column.id == TOC_POSITIONS);
        column.map_or(Ok(Vec::new()), |column| positions(&column.raw.clone()?))
    }

    /// Whether the run was ended in order.
    pub fn run_ended(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether data were lost by then.
    pub fn data_lost(&self) -> bool {
        self.flags & 2 != 0
    }

    /// Whether data are bad.
    pub fn data_bad(&self) -> bool {
        self.flags & 16 != 0
    }
}

/// Reads a file; returns none if it was never begun, that is, if it is empty or all zeros.
///
/// # Errors
/// A violation of the specification.
pub fn walk(bytes: &[u8]) -> Result<Option<WalkedFile>, String> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let restored;
    let (bytes, header) = match header(bytes) {
        Ok(header) => (bytes, header),
        // Readers of a closed file use the copy in its TOC.
        Err(why) => {
            restored = with_header_of_toc(bytes).ok_or(why)?;
            (&restored[..], self::header(&restored)?)
        }
    };
    let mut file = header.0;
    let mut at = header.1;
    let mut skipped = 0;
    while at + FIXED_BYTES <= bytes.len() {
        match frame(bytes, at, header.2) {
            None => {
                skipped += BLOCK_BYTES as u64;
                at += BLOCK_BYTES;
            }
            Some((kind, flags, frame)) => {
                at += frame.bytes as usize;
                match kind {
                    KIND_TOC if is_closed(bytes, at) => {
                        // An unreadable one counts as absent: the power failed before it was
                        // durable.
                        file.toc = toc(&file, flags, frame).ok();
                        break;
                    }
                    // Its trailer was being written.
                    KIND_TOC => {}
                    KIND_CHECKPOINT => file.checkpoints.push((file.frames.len(), frame)),
                    _ => {
                        file.skipped_bytes += std::mem::take(&mut skipped);
                        file.frames.push(frame);
                    }
                }
            }
        }
    }
    Ok(Some(file))
}

impl WalkedFile {
    /// The reasons why columns of a frame cannot be read.
    pub fn damage(&self, frame: &WalkedFrame) -> Vec<String> {
        let bad = frame.columns.iter().filter_map(|column| {
            let what = column.raw.as_ref().err()?;
            let kind = self.columns.get(&column.id).map_or("?", |column| column.kind.as_str());
            Some(format!("column {} ({kind}): {what}", column.id))
        });
        bad.collect()
    }

    /// The columns of a frame but those that each target has for itself, of increments and gaps:
    /// rows and checksums by id.
    pub fn shared(&self, frame: &WalkedFrame) -> BTreeMap<u32, (u64, u32)> {
        let is_own = |id: &u32| {
            let kind = self.columns.get(id).map(|column| column.kind.as_str());
            ["ledger_increment", "channel_spans", "source_positions"].map(Some).contains(&kind)
        };
        let others = frame.columns.iter().filter(|column| !is_own(&column.id));
        others.map(|column| (column.id, (column.rows, column.crc32c))).collect()
    }

    /// The ids of the columns that frames of the file may have.
    pub fn column_ids(&self) -> BTreeSet<u32> {
        self.columns.keys().copied().collect()
    }

    /// The column whose stored bytes or table contain that offset in the file, with its frame's
    /// index.
    pub fn column_at(&self, offset: u64) -> Option<(usize, u32)> {
        let frame = self
            .frames
            .iter()
            .position(|frame| (frame.offset..frame.offset + frame.bytes).contains(&offset))?;
        let column = self.frames[frame].columns.iter().find(|column| {
            let stored = column.begin..column.begin + column.stored_bytes;
            stored.contains(&offset) || column.table.contains(&offset)
        })?;
        Some((frame, column.id))
    }

    fn raw(&self, frame: &WalkedFrame, kind: &str, source: Option<usize>) -> Option<Vec<u8>> {
        let is_it = |id: &u32| {
            self.columns.get(id).is_some_and(|one| one.kind == kind && one.source == source)
        };
        let column = frame.columns.iter().find(|column| is_it(&column.id))?;
        column.raw.as_ref().ok().cloned()
    }

    /// The rows of a frame of events; none if one of their columns cannot be read.
    ///
    /// # Errors
    /// Columns that do not match each other.
    pub fn rows(&self, frame: &WalkedFrame) -> Result<Option<Vec<WalkedRow>>, String> {
        let of = |kind| self.raw(frame, kind, None);
        let (Some(keys), Some(times), Some(flags)) =
            (of("event_key"), of("event_time"), of("event_flags"))
        else {
            return Ok(None);
        };
        let rows = frame.rows as usize;
        if (keys.len(), times.len(), flags.len()) != (8 * rows, 8 * rows, 4 * rows) {
            return Err(format!("frame {}: its columns are not {rows} rows", frame.sequence));
        }
        let row = |row| WalkedRow {
            key: u64_at(&keys, 8 * row),
            time_ns: u64_at(&times, 8 * row),
            flags: u32_at(&flags, 4 * row),
        };
        Ok(Some((0..rows).map(row).collect()))
    }

    /// How far sources were decided when a frame was made, as far as that has changed.
    ///
    /// # Errors
    /// Records of another length.
    pub fn positions(&self, frame: &WalkedFrame) -> Result<Vec<WalkedPosition>, String> {
        positions(&self.raw(frame, "source_positions", None).unwrap_or_default())
    }

    /// A frame's counts since the previous one.
    ///
    /// # Errors
    /// Entries that the file does not name.
    pub fn increment(&self, frame: &WalkedFrame) -> Result<BTreeMap<(usize, String), u64>, String> {
        let raw = self.raw(frame, "ledger_increment", None).unwrap_or_default();
        ledger(&self.entries, &raw)
    }

    /// Calls `f` for each channel of a frame with its name, its link, and its samples: the number
    /// of the first sample of each piece without a gap, with the piece's bytes. Unreadable columns
    /// are left out.
    ///
    /// # Errors
    /// Columns that do not match each other.
    pub fn samples(
        &self,
        frame: &WalkedFrame,
        mut f: impl FnMut(&str, usize, &[(u64, &[u8])]) -> Result<(), String>,
    ) -> Result<(), String> {
        let is_spans = |column: &&WalkedColumn| {
            self.columns.get(&column.id).is_some_and(|one| one.kind == "channel_spans")
        };
        let spans = match frame.columns.iter().find(is_spans) {
            Some(WalkedColumn { raw: Err(_), .. }) => return Ok(()),
            Some(WalkedColumn { raw: Ok(raw), .. }) => raw.as_slice(),
            None => &[],
        };
        for column in &frame.columns {
            let Some(schema) = self.columns.get(&column.id).filter(|one| one.kind == "channel")
            else {
                continue;
            };
            let (Ok(raw), Some(source)) = (&column.raw, schema.source) else { continue };
            let sample_bytes = raw.len() / column.rows.max(1) as usize;
            let mut begins = vec![(0, column.first_sample)];
            let own = spans.chunks_exact(24).filter(|span| u32_at(span, 0) == column.id);
            begins.extend(own.map(|span| (u64_at(span, 8) as usize, u64_at(span, 16))));
            let ends = begins.iter().skip(1).map(|begin| begin.0).chain([column.rows as usize]);
            let pieces = begins.iter().zip(ends).map(|(&(row, number), end)| {
                let range = row * sample_bytes..end.max(row) * sample_bytes;
                raw.get(range).map(|bytes| (number, bytes)).ok_or("a gap beyond the column")
            });
            let pieces = pieces.collect::<Result<Vec<_>, _>>()?;
            f(&schema.name, source, &pieces)?;
        }
        Ok(())
    }

    /// Of a source: the row and the range of each hole in its fragments.
    pub fn holes(&self, frame: &WalkedFrame, source: usize) -> Vec<(u64, Range<u64>)> {
        let raw = self.raw(frame, "fragment_holes", Some(source)).unwrap_or_default();
        let hole = |hole: &[u8; 24]| {
            let [row, offset, bytes] = [0, 8, 16].map(|at| u64_at(hole, at));
            (row, offset..offset.saturating_add(bytes))
        };
        raw.as_chunks().0.iter().map(hole).collect()
    }

    /// Calls `f` for each row and source of a frame; unreadable columns are left out.
    ///
    /// # Errors
    /// Columns that do not match each other.
    pub fn fragments(
        &self,
        frame: &WalkedFrame,
        mut f: impl FnMut(WalkedFragment<'_>),
    ) -> Result<(), String> {
        if frame.rows == 0 || frame.is_channels {
            return Ok(());
        }
        let rows = frame.rows as usize;
        let Some(keys) = self.raw(frame, "event_key", None) else { return Ok(()) };
        let keys: Vec<u64> = (0..rows).map(|row| u64_at(&keys, 8 * row)).collect();
        if !keys.is_sorted_by(|one, next| one < next) {
            return Err(format!("frame {}: its keys do not rise", frame.sequence));
        }
        for source in (0..self.required.len()).filter(|&source| self.stored[source]) {
            let bad = |kind: &str| {
                let is_it = |column: &&WalkedColumn| {
                    self.columns
                        .get(&column.id)
                        .is_some_and(|one| one.kind == kind && one.source == Some(source))
                };
                frame.columns.iter().find(is_it).is_some_and(|column| column.raw.is_err())
            };
            let kinds = ["lengths", "validity", "payload", "expected"];
            if kinds.into_iter().any(|kind| bad(&format!("fragment_{kind}"))) {
                continue;
            }
            let of = |kind| self.raw(frame, kind, Some(source));
            let lengths = of("fragment_lengths");
            let validity = of("fragment_validity");
            let payload = of("fragment_payload").unwrap_or_default();
            let expected = of("fragment_expected");
            let times = of("fragment_time");
            let has = |bits: &Vec<u8>, row: usize| bits[row / 8] & 1 << (row % 8) != 0;
            let mut offset = 0;
            for (row, &key) in keys.iter().enumerate() {
                let is_valid = match (&lengths, &validity) {
                    (None, Some(_)) => return Err("validity without lengths".to_owned()),
                    (None, None) => false,
                    (Some(_), None) => true,
                    (Some(_), Some(bits)) => has(bits, row),
                };
                let length = lengths.as_ref().map_or(0, |lengths| u32_at(lengths, 4 * row));
                if !is_valid && length > 0 {
                    return Err("a missing fragment with a length".to_owned());
                }
                let end = offset + length as usize;
                let bytes = payload.get(offset..end).ok_or("lengths beyond the payload")?;
                offset = end;
                let is_expected = expected.as_ref().is_none_or(|bits| has(bits, row));
                let bytes = is_valid.then_some(bytes);
                let time_ns = times.as_ref().map(|times| u64_at(times, 8 * row));
                f(WalkedFragment { key, row, source, bytes, is_expected, time_ns });
            }
            if offset != payload.len() {
                return Err(format!("{} bytes of no fragment", payload.len() - offset));
            }
        }
        Ok(())
    }
}

fn header(bytes: &[u8]) -> Result<(WalkedFile, usize, u64), String> {
    if bytes.len() < BLOCK_BYTES || &bytes[..8] != b"\x89CATCH\r\n" {
        return Err("no file header".to_owned());
    }
    let header_bytes = u32_at(bytes, 12) as usize;
    let metadata_end = 64 + u32_at(bytes, 16) as usize;
    if header_bytes > bytes.len() || metadata_end > header_bytes {
        return Err("a file header beyond the file".to_owned());
    }
    if !covered(&bytes[..metadata_end], 20) {
        return Err("the file header's checksum is wrong".to_owned());
    }
    let json: serde_json::Value =
        serde_json::from_slice(&bytes[64..metadata_end]).map_err(|error| error.to_string())?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let schema = &json["schema"];
    let column = |column: &serde_json::Value| {
        let id = column["id"].as_u64().unwrap_or(u64::MAX) as u32;
        let source = column["source"].as_u64().map(|source| source as usize);
        (id, SchemaColumn { kind: text(&column["kind"]), source, name: text(&column["name"]) })
    };
    let has_locator = json["locator"].as_bool().unwrap_or(false);
    if has_locator && metadata_end + LOCATOR_BYTES > header_bytes {
        return Err("no room for the locator".to_owned());
    }
    let slot = |slot: usize| {
        let at = header_bytes - LOCATOR_BYTES + slot * BLOCK_BYTES;
        bytes[at..at + BLOCK_BYTES].to_vec()
    };
    let is_required = |source: &serde_json::Value| source["required"].as_bool().unwrap_or(true);
    let names = |key: &str| {
        let columns = list(&schema[key]).into_iter();
        let channels = columns.filter(|column| column["kind"] == "channel");
        channels.map(|channel| text(&channel["name"])).collect()
    };
    let is_stored = |source: &serde_json::Value| source["stored"].as_bool().unwrap_or(true);
    let file = WalkedFile {
        path: PathBuf::new(),
        index: json["file_index"].as_u64().ok_or("no index")?,
        run: text(&json["run"]),
        entries: list(&json["ledger_entries"]).iter().map(text).collect(),
        columns: list(&schema["columns"]).iter().map(column).collect(),
        required: list(&schema["sources"]).iter().map(is_required).collect(),
        variant: json["variant"].as_u64().unwrap_or(0),
        stored: list(&schema["sources"]).iter().map(is_stored).collect(),
        channels: ["columns", "channels_not_stored"].map(names),
        frames: Vec::new(),
        toc: None,
        skipped_bytes: 0,
        checkpoints: Vec::new(),
        locator: has_locator.then(|| [0, 1].map(slot)),
        header: bytes[..metadata_end].to_vec(),
        file_id: u64_at(bytes, 24),
    };
    Ok((file, header_bytes, u64_at(bytes, 24)))
}

/// A closed file with the header that its table of contents has.
fn with_header_of_toc(bytes: &[u8]) -> Option<Vec<u8>> {
    let end = (1 + bytes.iter().rposition(|&byte| byte != 0)?).next_multiple_of(BLOCK_BYTES);
    let (from, trailer) = (end.checked_sub(BLOCK_BYTES)?, bytes.get(..end)?.last_chunk()?);
    let trailer: &[u8; BLOCK_BYTES] = trailer;
    let (file_id, toc) = (u64_at(trailer, 16), u64_at(trailer, 32) as usize);
    if !is_closed(bytes, from) || toc >= from {
        return None;
    }
    let (kind, _, frame) = frame(bytes, toc, file_id)?;
    let copy = frame.columns.iter().find(|column| column.id == TOC_FILE_HEADER)?;
    let copy = copy.raw.as_ref().ok().filter(|copy| kind == KIND_TOC && copy.len() < toc)?;
    let mut whole = bytes.to_vec();
    whole[..copy.len()].copy_from_slice(copy);
    Some(whole)
}

/// A frame, its kind and its flags, if there is one at that offset.
fn frame(bytes: &[u8], at: usize, file_id: u64) -> Option<(u16, u16, WalkedFrame)> {
    let from = &bytes[at..];
    let header_bytes = u32_at(from, 8) as usize;
    let count = u32_at(from, 24) as usize;
    let entry_bytes = u16_at(from, 22) as usize;
    let fixed_bytes = u16_at(from, 20) as usize;
    let frame_bytes = u64_at(from, 32);
    let is_whole = &from[..8] == b"CTMFRAME"
        && header_bytes == fixed_bytes + count * entry_bytes
        && header_bytes <= from.len()
        && u64_at(from, 40) == file_id
        && frame_bytes.is_multiple_of(BLOCK_BYTES as u64)
        && frame_bytes <= from.len() as u64
        && frame_bytes >= header_bytes as u64
        && covered(&from[..header_bytes], 12);
    if !is_whole {
        return None;
    }
    let column = |index: usize| {
        let entry = &from[fixed_bytes + index * entry_bytes..];
        let (begin, stored_bytes) = (u64_at(entry, 16), u64_at(entry, 24));
        let end = begin.saturating_add(stored_bytes);
        let raw = match from.get(begin as usize..end as usize) {
            _ if end > frame_bytes => Err("beyond its frame".to_owned()),
            None => Err("beyond the file".to_owned()),
            Some(stored) if crc32c(stored) != u32_at(entry, 12) => {
                Err("its checksum is wrong".to_owned())
            }
            Some(stored) if !has_table(from, entry, stored, frame_bytes) => {
                Err("its table is wrong".to_owned())
            }
            Some(stored) => {
                let mut raw = Vec::new();
                let codec = Codec::from_number(u16_at(entry, 4) & !QUALIFIED);
                decode_column(codec, stored, u64_at(entry, 32), &mut raw)
                    .map(|()| raw)
                    .map_err(|error| error.to_string())
            }
        };
        WalkedColumn {
            id: u32_at(entry, 0),
            begin: at as u64 + begin,
            stored_bytes,
            table: table_of(entry)
                .map_or(0..0, |table| at as u64 + table.start..at as u64 + table.end),
            rows: u64_at(entry, 40),
            first_sample: u64_at(entry, 56),
            crc32c: u32_at(entry, 12),
            raw,
        }
    };
    let is_skipped = u16_at(from, 16) == KIND_SKIPPED;
    let frame = WalkedFrame {
        offset: at as u64,
        bytes: frame_bytes,
        sequence: u64_at(from, 48),
        rows: if is_skipped { 0 } else { u64_at(from, 88) },
        skips: is_skipped.then(|| u64_at(from, 88)),
        is_channels: u16_at(from, 16) == KIND_CHANNELS,
        header: from[..header_bytes].to_vec(),
        columns: (0..count).map(column).collect(),
    };
    Some((u16_at(from, 16), u16_at(from, 18), frame))
}

/// The range of a column's block checksums in its frame, if it has any (section 3.4).
fn table_of(entry: &[u8]) -> Option<Range<u64>> {
    let stored_bytes = u64_at(entry, 24);
    let has_one = u32_at(entry, 8) & 1 != 0 && stored_bytes > CHECKED_BYTES as u64;
    let blocks = stored_bytes.div_ceil(CHECKED_BYTES as u64);
    let begin = u64_at(entry, 16).saturating_add(stored_bytes).checked_next_multiple_of(64)?;
    has_one.then(|| begin..begin.saturating_add(4 * blocks + 4))
}

/// Whether the checksums of a column's blocks are right, if it must have them.
fn has_table(frame: &[u8], entry: &[u8], stored: &[u8], frame_bytes: u64) -> bool {
    let Some(table) = table_of(entry) else {
        return stored.len() <= CHECKED_BYTES || u16_at(frame, 16) == KIND_TOC;
    };
    let mut expected: Vec<u8> =
        stored.chunks(CHECKED_BYTES).map(crc32c).flat_map(u32::to_le_bytes).collect();
    let covered = [&entry[12..16], &entry[24..32], &expected].concat();
    expected.extend_from_slice(&crc32c(&covered).to_le_bytes());
    let found = frame.get(table.start as usize..table.end as usize);
    table.end <= frame_bytes && found == Some(&expected[..])
}

fn toc(file: &WalkedFile, flags: u16, frame: WalkedFrame) -> Result<WalkedToc, String> {
    let column = |id| frame.columns.iter().find(|column| column.id == id);
    let raw = column(TOC_LEDGER).ok_or("a TOC without a ledger")?.raw.clone()?;
    let ledger = ledger(&file.entries, &raw)?;
    Ok(WalkedToc { flags, frames: frame.rows, ledger, frame })
}

/// Whether there is a trailer at that offset, followed only by zeros: a writer that was killed, or
/// whose disk failed, before the file was cut leaves such.
fn is_closed(bytes: &[u8], at: usize) -> bool {
    let Some(trailer) = bytes.get(at..at + BLOCK_BYTES) else { return false };
    &trailer[..8] == b"CTMCLOSE"
        && covered(&trailer[..64], 12)
        && u64_at(trailer, 24) == (at + BLOCK_BYTES) as u64
        && bytes[at + BLOCK_BYTES..].iter().all(|&byte| byte == 0)
}

impl WalkedFile {
    /// The run's ledger in a checkpoint.
    ///
    /// # Errors
    /// Why it has none.
    pub fn ledger(
        &self,
        checkpoint: &WalkedFrame,
    ) -> Result<BTreeMap<(usize, String), u64>, String> {
        let column = checkpoint.columns.iter().find(|column| column.id == TOC_LEDGER);
        let raw = column.ok_or("a checkpoint without a ledger")?.raw.clone()?;
        ledger(&self.entries, &raw)
    }
}

fn positions(raw: &[u8]) -> Result<Vec<WalkedPosition>, String> {
    let (records, rest) = raw.as_chunks::<24>();
    if !rest.is_empty() {
        return Err("positions of another length".to_owned());
    }
    let position = |record: &[u8; 24]| WalkedPosition {
        source: u32_at(record, 0) as usize,
        what: u16_at(record, 4),
        session: u64_at(record, 8),
        position: u64_at(record, 16),
    };
    Ok(records.iter().map(position).collect())
}

/// Records of source, entry and count; reasons for malformed packets are left out.
fn ledger(entries: &[String], raw: &[u8]) -> Result<BTreeMap<(usize, String), u64>, String> {
    let mut counts = BTreeMap::new();
    for record in raw.chunks_exact(16) {
        let (source, entry) = (u32_at(record, 0) as usize, u16_at(record, 4) as usize);
        if entry >= REASONS_FROM {
            continue;
        }
        let name = entries.get(entry).ok_or("an entry without a name")?.clone();
        if counts.insert((source, name), u64_at(record, 8)).is_some() {
            return Err("an entry that stands there twice".to_owned());
        }
    }
    Ok(counts)
}

/// Whether a checksum within the bytes that it covers is right.
pub(crate) fn covered(bytes: &[u8], at: usize) -> bool {
    let mut zeroed = bytes.to_vec();
    zeroed[at..at + 4].fill(0);
    crc32c(&zeroed) == u32_at(bytes, at)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes[at..].first_chunk().expect("two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes"))
}

const BLOCK_BYTES: usize = 4_096;
const CHECKED_BYTES: usize = 65_536;
const LOCATOR_BYTES: usize = 2 * BLOCK_BYTES;
const FIXED_BYTES: usize = 128;
/// Of a codec: the column has holes beside it.
const QUALIFIED: u16 = 1 << 15;
const KIND_CHANNELS: u16 = 2;
const KIND_TOC: u16 = 3;
const KIND_CHECKPOINT: u16 = 4;
const KIND_SKIPPED: u16 = 5;
const TOC_LEDGER: u32 = 5;
const TOC_FILE_HEADER: u32 = 6;
const TOC_POSITIONS: u32 = 7;
const REASONS_FROM: usize = 4_096;
