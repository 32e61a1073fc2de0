//! Tables of contents, checkpoints and locators, compared with the frames of their file
//! (docs/spec/frame-file.md, sections 6 and 8).

use std::collections::BTreeMap;
use std::ops::Range;

use catchment_codec::{Codec, decode_column};
use catchment_frame::crc32c;

use crate::walk::{WalkedFile, WalkedFrame, covered, u16_at, u32_at, u64_at};

/// Checks a file's statements about its own frames.
///
/// # Errors
/// The first statement that the frames contradict.
pub fn check(file: &WalkedFile) -> Result<(), String> {
    let (mut from, mut before) = (0, 0);
    for (index, (until, checkpoint)) in file.checkpoints.iter().enumerate() {
        let named = |why: String| format!("checkpoint {index} of file {}: {why}", file.index);
        if u64_at(&checkpoint.header, PREVIOUS) != before {
            return Err(named(format!("its predecessor is not at {before}")));
        }
        listed(checkpoint, &file.frames[from..*until]).map_err(named)?;
        (from, before) = (*until, checkpoint.offset);
    }
    if let Some(toc) = &file.toc {
        let named = |why: String| format!("the TOC of file {}: {why}", file.index);
        listed(&toc.frame, &file.frames).map_err(named)?;
        if column(&toc.frame, FILE_HEADER)? != file.header {
            return Err(named("its copy of the file header is another one".to_owned()));
        }
    }
    locator(file).map_err(|why| format!("the locator of file {}: {why}", file.index))
}

/// Compares the frames listed in a table of contents, or in a checkpoint, with those that it must
/// list.
fn listed(contents: &WalkedFrame, frames: &[WalkedFrame]) -> Result<(), String> {
    let header = &contents.header;
    let with_rows = || frames.iter().filter(|frame| frame.rows > 0);
    let least = |at: usize| with_rows().map(|frame| u64_at(&frame.header, at)).min().unwrap_or(0);
    let most = |at: usize| with_rows().map(|frame| u64_at(&frame.header, at)).max().unwrap_or(0);
    let sequence = frames.last().map_or(0, |frame| frame.sequence + frame.skips.unwrap_or(1));
    let fields = [
        ("number", SEQUENCE, sequence),
        ("first time", TIME_FIRST, least(TIME_FIRST)),
        ("last time", TIME_LAST, most(TIME_LAST)),
        ("first key", KEY_FIRST, least(KEY_FIRST)),
        ("last key", KEY_LAST, most(KEY_LAST)),
        ("count of frames", ROWS, frames.len() as u64),
    ];
    for (name, at, expected) in fields {
        let found = u64_at(header, at);
        if found != expected {
            return Err(format!("its {name} is {found}, of the frames {expected}"));
        }
    }
    let records = column(contents, FRAMES)?;
    let has_identity = |frame: &WalkedFrame| frame.header[IDENTITY].iter().any(|&byte| byte > 0);
    let identity = if frames.iter().any(has_identity) { IDENTITY } else { 0..0 };
    let expected: Vec<u8> =
        frames.iter().flat_map(|frame| record(frame, identity.clone())).collect();
    if records != expected {
        return Err(format!("its {} frames differ from those there", frames.len()));
    }
    lists(contents, frames)
}

/// The entry of a frame in a table of contents, which has its identity if that of any is not zero.
fn record(frame: &WalkedFrame, identity: Range<usize>) -> Vec<u8> {
    let header = &frame.header;
    let mut record = frame.offset.to_le_bytes().to_vec();
    for range in [32..40, 48..56, 16..20, 24..28, 56..96, 8..16, identity] {
        record.extend_from_slice(&header[range]);
    }
    record
}

/// Compares the lists of columns with the frames' directories.
fn lists(contents: &WalkedFrame, frames: &[WalkedFrame]) -> Result<(), String> {
    let mut expected: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for (number, frame) in (0_u32..).zip(frames) {
        let entry_bytes = u16_at(&frame.header, 22) as usize;
        for entry in frame.header[u16_at(&frame.header, 20) as usize..].chunks_exact(entry_bytes) {
            let list = expected.entry(u32_at(entry, 0)).or_default();
            list.extend_from_slice(&number.to_le_bytes());
            list.extend_from_slice(&entry[4..64]);
        }
    }
    let (blocks, index) = (column(contents, BLOCKS)?, column(contents, INDEX)?);
    let mut indexed = index.chunks(INDEX_BYTES * BLOCK_RECORDS);
    for block in blocks.chunks_exact(16) {
        let records = indexed.next().ok_or("a block of the index that is not there")?;
        let found = (u32_at(block, 0), u32_at(block, 4) as usize, u32_at(block, 8));
        let there = (u32_at(records, 0), records.len() / INDEX_BYTES, crc32c(records));
        if found != there {
            return Err(format!("a block of the index is {there:?}, and listed as {found:?}"));
        }
    }
    if indexed.next().is_some() {
        return Err("a block of the index that is not listed".to_owned());
    }
    let all = column(contents, LISTS)?;
    let mut last = None;
    for entry in index.chunks_exact(INDEX_BYTES) {
        let id = u32_at(entry, 0);
        if last.replace(id).is_some_and(|last| last >= id) {
            return Err(format!("column {id} is not in order"));
        }
        let list = list(entry, all).map_err(|why| format!("the list of column {id}: {why}"))?;
        if expected.remove(&id).as_ref() != Some(&list) {
            return Err(format!("the list of column {id} differs from the directories"));
        }
    }
    match expected.keys().next() {
        Some(id) => Err(format!("column {id} has no list")),
        None => Ok(()),
    }
}

/// The records of a list, each with all of its 64 bytes.
fn list(entry: &[u8], all: &[u8]) -> Result<Vec<u8>, String> {
    let (records, record_bytes) = (u32_at(entry, 16) as usize, u16_at(entry, 20) as usize);
    let (codec, offset) = (u16_at(entry, 22), u64_at(entry, 8) as usize);
    let raw_bytes = records * record_bytes;
    let stored_bytes = if codec == 0 { raw_bytes } else { u32_at(entry, 24) as usize };
    let stored = all.get(offset..offset + stored_bytes).ok_or("it ends behind all lists")?;
    if crc32c(stored) != u32_at(entry, 4) {
        return Err("its checksum is wrong".to_owned());
    }
    let mut raw = stored.to_vec();
    if codec != 0 {
        raw.clear();
        decode_column(Codec::from_number(codec), stored, raw_bytes as u64, &mut raw)
            .map_err(|error| error.to_string())?;
        unpack(&mut raw, record_bytes / 4);
    }
    let whole = raw.chunks_exact(record_bytes).flat_map(|record| {
        let mut whole = record.to_vec();
        whole.resize(LIST_BYTES, 0);
        whole
    });
    Ok(whole.collect())
}

/// Decodes words stored as zigzag-coded differences from the previous record.
fn unpack(raw: &mut [u8], words: usize) {
    for at in words..raw.len() / 4 {
        let z = u32_at(raw, 4 * at);
        let difference = (z >> 1) ^ (z & 1).wrapping_neg();
        let word = u32_at(raw, 4 * (at - words)).wrapping_add(difference);
        raw[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
    }
}

/// A slot names a checkpoint that exists; the newer one names the last or the last but one.
fn locator(file: &WalkedFile) -> Result<(), String> {
    let Some(slots) = &file.locator else { return Ok(()) };
    let mut newest = 0;
    for (index, slot) in (0_u64..).zip(slots) {
        if slot.iter().all(|&byte| byte == 0) {
            continue;
        }
        if &slot[..8] != b"CTMCHECK" || !covered(&slot[..64], 8) || u64_at(slot, 16) != file.file_id
        {
            return Err(format!("slot {index} is damaged"));
        }
        let generation = u64_at(slot, 24);
        let named = generation.checked_sub(1).and_then(|one| file.checkpoints.get(one as usize));
        let is_there = named.is_some_and(|(_, checkpoint)| {
            (u64_at(slot, 32), u64_at(slot, 40)) == (checkpoint.offset, checkpoint.bytes)
        });
        if generation % 2 != index || !is_there {
            return Err(format!("slot {index} names checkpoint {generation}, which is not there"));
        }
        newest = newest.max(generation);
    }
    let count = file.checkpoints.len() as u64;
    match newest + 1 >= count {
        true => Ok(()),
        false => Err(format!("it names checkpoint {newest} of {count}")),
    }
}

fn column(contents: &WalkedFrame, id: u32) -> Result<&[u8], String> {
    let column = contents.columns.iter().find(|column| column.id == id);
    column.map_or(Ok(&[][..]), |column| column.raw.as_deref().map_err(Clone::clone))
}

const FRAMES: u32 = 1;
const BLOCKS: u32 = 2;
const INDEX: u32 = 3;
const LISTS: u32 = 4;
const FILE_HEADER: u32 = 6;
/// Stream, epoch, slices and variant.
const IDENTITY: Range<usize> = 104..128;
const SEQUENCE: usize = 48;
const TIME_FIRST: usize = 56;
const TIME_LAST: usize = 64;
const KEY_FIRST: usize = 72;
const KEY_LAST: usize = 80;
const ROWS: usize = 88;
const PREVIOUS: usize = 96;
const INDEX_BYTES: usize = 32;
const BLOCK_RECORDS: usize = 128;
const LIST_BYTES: usize = 64;
