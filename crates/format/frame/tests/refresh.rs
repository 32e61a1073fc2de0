//! Following a file while it is written: each refresh finds everything whole by then.

use std::io;
use std::sync::Mutex;

use crate::common;
use catchment_fixtures::CountedReads;
use catchment_frame::{Codec, FileReader, OpenOptions, ReadAt};
use common::{Encoded, Model, assert_holds, some_model};

/// A file that grows under its reader.
struct Growing(Mutex<Vec<u8>>);

impl Growing {
    fn set(&self, bytes: &[u8]) {
        bytes.clone_into(&mut self.0.lock().expect("no panic"));
    }
}

impl ReadAt for Growing {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").read_at(offset, buffer)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.0.lock().expect("no panic").bytes()
    }
}

const FOLLOW: OpenOptions =
    OpenOptions { search_bytes_max: 0, ignore_toc: false, ignore_checkpoints: false };

fn model(checkpoint_every: usize) -> (Model, Encoded) {
    let mut model = some_model(71, 10, 5, Codec::Lz4);
    model.header.locator = true;
    model.checkpoint_every = checkpoint_every;
    let encoded = model.encode();
    (model, encoded)
}

/// The file when that many frames are whole, in a preallocated extent.
fn state(encoded: &Encoded, frames: usize, spare: usize) -> Vec<u8> {
    let end = |index: usize| encoded.frames.get(index).map(|frame| frame.offset as usize);
    let mut bytes = encoded.unclosed[..end(frames).unwrap_or(encoded.unclosed.len())].to_vec();
    bytes.resize(bytes.len() + spare, 0);
    bytes
}

#[test]
fn a_growing_file_is_followed_frame_by_frame_until_it_is_closed() {
    for (every, spare) in [(0, 0), (3, 0), (3, 1 << 16)] {
        let (model, encoded) = model(every);
        let file = Growing(Mutex::new(state(&encoded, 0, spare)));
        let mut reader = FileReader::open_with(&file, &FOLLOW).expect("opens");
        assert_eq!(reader.frames().len(), 0);
        for frames in [1, 2, 2, 5, 6, 6, 10] {
            file.set(&state(&encoded, frames, spare));
            let before = reader.frames().len();
            assert_eq!(reader.refresh().expect("refreshes"), frames - before);
            assert_holds(&reader, &model, frames);
            assert!(!reader.closed());
        }
        // The TOC without its trailer, then the whole.
        file.set(&encoded.closed[..encoded.closed.len() - 4_096]);
        assert_eq!(reader.refresh().expect("refreshes"), 0);
        assert!(!reader.closed());
        file.set(&encoded.closed);
        assert_eq!(reader.refresh().expect("refreshes"), 0);
        assert!(reader.closed());
        assert_holds(&reader, &model, 10);
        assert_eq!(reader.ledger().expect("a ledger"), Some(&model.ledger));
        assert_eq!(reader.refresh().expect("refreshes"), 0);
    }
}

#[test]
fn frames_that_came_with_the_close_are_seen_with_it() {
    let (model, encoded) = model(4);
    let file = Growing(Mutex::new(state(&encoded, 3, 0)));
    let mut reader = FileReader::open_with(&file, &FOLLOW).expect("opens");
    file.set(&encoded.closed);
    assert_eq!(reader.refresh().expect("refreshes"), 7);
    assert!(reader.closed());
    assert_holds(&reader, &model, 10);
}

#[test]
fn nothing_new_costs_one_read_of_4_kib() {
    let (_, encoded) = model(3);
    let counted = CountedReads::new(state(&encoded, 7, 1 << 20));
    let mut reader = FileReader::open_with(&counted, &FOLLOW).expect("opens");
    assert_eq!(reader.frames().len(), 7);
    let before = (counted.bytes_read(), counted.reads());
    assert_eq!(reader.refresh().expect("refreshes"), 0);
    let after = (counted.bytes_read(), counted.reads());
    assert_eq!((after.0 - before.0, after.1 - before.1), (4_096, 1));
}

#[test]
fn a_header_on_its_way_is_not_there_yet() {
    let (model, encoded) = model(0);
    let file = Growing(Mutex::new(state(&encoded, 4, 0)));
    let mut reader = FileReader::open_with(&file, &FOLLOW).expect("opens");
    let header = encoded.frames[4].offset as usize;
    let header_bytes = encoded.frames[4].header_bytes as usize;
    // Columns first, then pieces of the header.
    for there in [0, 8, 100, 128, header_bytes - 40] {
        let mut bytes = state(&encoded, 5, 0);
        bytes[header + there..header + header_bytes].fill(0);
        file.set(&bytes);
        assert_eq!(reader.refresh().expect("refreshes"), 0);
    }
    file.set(&state(&encoded, 5, 0));
    assert_eq!(reader.refresh().expect("refreshes"), 1);
    assert_holds(&reader, &model, 5);
}

#[test]
fn a_toc_that_lists_a_frame_which_a_search_passed_over_is_believed() {
    let (model, encoded) = model(0);
    let mut holed = state(&encoded, 6, 0);
    let hole = encoded.frames[2];
    holed[hole.offset as usize..hole.offset as usize + hole.header_bytes as usize].fill(0);
    let file = Growing(Mutex::new(holed));
    let mut reader = FileReader::open(&file).expect("opens");
    assert_eq!((reader.frames().len(), reader.skipped().len()), (5, 1));
    file.set(&encoded.closed);
    assert_eq!(reader.refresh().expect("refreshes"), 5);
    assert!(reader.closed());
    assert_holds(&reader, &model, 10);
}

#[test]
fn a_file_that_was_cut_or_filled_with_something_else_is_no_danger() {
    let (_, encoded) = model(3);
    let file = Growing(Mutex::new(state(&encoded, 7, 0)));
    let mut reader = FileReader::open_with(&file, &FOLLOW).expect("opens");
    for bytes in [&encoded.closed[..9_000], &[], &[0xee; 200_000]] {
        file.set(bytes);
        assert_eq!(reader.refresh().expect("refreshes"), 0);
        let mut out = Vec::new();
        assert!(reader.read(6, 0, &mut out).is_err());
    }
}
