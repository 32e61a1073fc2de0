//! Inconsistent files. Every inconsistency gives a precise error, takes no more memory than the
//! file's own bytes can expand to, and leaves the rest readable. Checksums are made right where
//! they would reveal it.

mod common;

use catchment_fixtures::CountingAllocator;
use catchment_interop::gwf::{GwfError, GwfFile, Index, OpenOptions, Part, fuzz_file};
use common::some_file;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Reads everything that a file claims to contain and asserts that no allocation was larger than
/// the file's bytes can expand to.
fn fuzz(bytes: &[u8]) {
    let largest = ALLOCATOR.largest_bytes(|| fuzz_file(bytes));
    // A zlib stream gives at most 1,100 times its bytes; checking the file's checksum takes 1 MiB.
    let most = bytes.len() * 1_100 + (2 << 20);
    assert!(largest <= most, "{largest} bytes allocated at once");
}

/// POSIX's cksum, bit by bit.
fn cksum(bytes: &[u8]) -> u32 {
    let mut count = bytes.len();
    let mut all = bytes.to_vec();
    while count > 0 {
        all.push(count as u8);
        count >>= 8;
    }
    let mut crc = 0u32;
    for byte in all {
        crc ^= u32::from(byte) << 24;
        for _ in 0..8 {
            crc = crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 };
        }
    }
    !crc
}

/// The positions of the structures, with their classes.
fn structures(bytes: &[u8]) -> Vec<(usize, usize, u8)> {
    let mut at = 40;
    let mut all = Vec::new();
    while at < bytes.len() {
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        all.push((at, length, bytes[at + 9]));
        at += length;
    }
    all
}

/// Makes the checksum of the structure at `at` right again.
fn sign(bytes: &mut [u8], at: usize) {
    let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let end = at + length - 4 - if length == 46 { 4 } else { 0 };
    let sum = cksum(&bytes[at..end]);
    bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
}

/// The first structure of the class with that name, as numbered in the dictionary.
fn find(bytes: &[u8], name: &str) -> (usize, usize) {
    let mut number = None;
    for (at, length, class) in structures(bytes) {
        if class == 1 && &bytes[at + 16..at + 16 + name.len()] == name.as_bytes() {
            number = Some(bytes[at + 16 + name.len() + 1]);
        } else if Some(class) == number {
            return (at, length);
        }
    }
    panic!("no {name}");
}

#[test]
fn a_file_cut_anywhere_gives_what_is_whole() {
    let bytes = some_file();
    for cut in 0..bytes.len() {
        // All of it near the ends, a third between them.
        if cut % 3 == 0 || cut < 600 || cut + 600 > bytes.len() {
            fuzz(&bytes[..cut]);
        }
    }
}

#[test]
fn a_file_with_any_byte_changed_is_no_danger_and_no_secret() {
    let bytes = some_file();
    for at in 0..bytes.len() {
        if at % 2 == 0 || at < 600 || at + 600 > bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fuzz(&changed);
            let found = GwfFile::open(&changed).and_then(|file| file.verify());
            assert!(found.is_err(), "byte {at}");
        }
    }
}

#[test]
fn a_length_that_cannot_be_ends_the_walk() {
    let bytes = some_file();
    let toc = find(&bytes, "FrTOC").0;
    for length in [0, 1, 17, bytes.len() as u64 + 1, u64::MAX, u64::MAX / 2, 1 << 40] {
        let mut lying = bytes.clone();
        lying[toc..toc + 8].copy_from_slice(&length.to_le_bytes());
        fuzz(&lying);
        let file = GwfFile::open(&lying).unwrap();
        let Index::Walk { reason: Some(reason), ended: Some(_), .. } = file.index() else {
            panic!()
        };
        let part = Part::Structure { class: "structure", offset: toc as u64 };
        match reason {
            GwfError::Field { part: got, .. } | GwfError::Truncated { part: got, .. } => {
                assert_eq!(*got, part);
            }
            other => panic!("{other}"),
        }
        assert_eq!(file.frames().len(), 2);
    }
}

#[test]
fn counts_of_the_toc_are_checked_before_they_are_used() {
    let bytes = some_file();
    let (toc, length) = find(&bytes, "FrTOC");
    // Every four bytes of the table in turn as all ones.
    for field in (14..length - 8).step_by(2) {
        let mut lying = bytes.clone();
        lying[toc + field..toc + field + 4].fill(0xff);
        sign(&mut lying, toc);
        fuzz(&lying);
    }
}

#[test]
fn fields_of_a_vector_are_checked_before_they_are_used() {
    let bytes = some_file();
    let (vector, length) = find(&bytes, "FrVect");
    for field in (14..length - 8).step_by(1) {
        for value in [0u64, 1, 0xff, 0xffff, u64::MAX >> 1, u64::MAX] {
            let mut lying = bytes.clone();
            let width = 8.min(length - 4 - field);
            lying[vector + field..vector + field + width]
                .copy_from_slice(&value.to_le_bytes()[..width]);
            sign(&mut lying, vector);
            fuzz(&lying);
        }
    }
}

#[test]
fn what_is_not_read_is_named() {
    let bytes = some_file();
    let (vector, _) = find(&bytes, "FrVect");
    let name = "X1:FLOAT"; // FrAdcData stands before FrProcData.
    let fields = vector + 14 + 2 + name.len() + 1;
    let read = |bytes: &[u8]| {
        let file = GwfFile::open(bytes).unwrap();
        file.read(file.find(name).unwrap(), 0, &mut Vec::new()).unwrap_err().to_string()
    };
    let with = |at: usize, value: u16| {
        let mut lying = bytes.clone();
        lying[at..at + 2].copy_from_slice(&value.to_le_bytes());
        sign(&mut lying, vector);
        lying
    };
    let at = format!("FrVect at offset {vector}: ");
    let strings = at.clone() + "a vector of strings cannot be read by this program";
    assert_eq!(read(&with(fields + 2, 8)), strings);
    let type_13 = at.clone() + "type is 13, expected 0 to 12";
    assert_eq!(read(&with(fields + 2, 13)), type_13);
    let compression = at.clone() + "compression 300 cannot be read by this program";
    assert_eq!(read(&with(fields, 300)), compression);
    let wrong =
        at.clone() + "compression 261 of samples of type F32 cannot be read by this program";
    assert_eq!(read(&with(fields, 261)), wrong);
    let differences =
        at.clone() + "compression 259 of samples of type F32 cannot be read by this program";
    assert_eq!(read(&with(fields, 259)), differences);
    let big =
        at + "compression 8 (big-endian) of samples of type F32 cannot be read by this program";
    assert_eq!(read(&with(fields, 8)), big);
}

#[test]
fn damage_in_a_vector_is_named_and_leaves_the_rest_readable() {
    let mut bytes = some_file();
    let (vector, length) = find(&bytes, "FrVect");
    bytes[vector + length / 2] ^= 4;
    let file = GwfFile::open(&bytes).unwrap();
    assert!(matches!(file.index(), Index::Toc));
    let error = file.read(file.find("X1:FLOAT").unwrap(), 0, &mut Vec::new()).unwrap_err();
    let part = Part::Structure { class: "FrVect", offset: vector as u64 };
    assert!(matches!(error, GwfError::Checksum { part: got, .. } if got == part), "{error}");
    let mut samples = Vec::new();
    assert!(file.read(file.find("X1:FLOAT").unwrap(), 1, &mut samples).unwrap().is_some());
    assert!(file.read(file.find("X1:RAMP").unwrap(), 0, &mut samples).unwrap().is_some());
    assert!(matches!(file.verify(), Err(GwfError::Checksum { part: Part::File, .. })));
}

#[test]
fn a_toc_that_names_other_offsets_is_found_out() {
    let bytes = some_file();
    let (toc, length) = find(&bytes, "FrTOC");
    let file = GwfFile::open(&bytes).unwrap();
    let frame = file.frames()[0].position.to_le_bytes();
    // The offset of each channel in turn becomes that of the first frame's FrameH.
    let (channel, _) = find(&bytes, "FrAdcData");
    let at = (14..length - 12)
        .find(|at| bytes[toc + at..toc + at + 8] == (channel as u64).to_le_bytes())
        .unwrap();
    let second = at + 8..length - 12;
    let at = second
        .clone()
        .find(|at| bytes[toc + at..toc + at + 8] == (channel as u64).to_le_bytes())
        .unwrap();
    let mut lying = bytes.clone();
    lying[toc + at..toc + at + 8].copy_from_slice(&frame);
    sign(&mut lying, toc);
    let file = GwfFile::open(&lying).unwrap();
    let error = file.read(file.find("X1:FLOAT").unwrap(), 0, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, GwfError::Field { field: "class", .. }), "{error}");
    // Walking finds the right one.
    let file = GwfFile::open_with(&lying, OpenOptions { ignore_toc: true }).unwrap();
    assert!(file.read(file.find("X1:FLOAT").unwrap(), 0, &mut Vec::new()).unwrap().is_some());
}

#[test]
fn files_of_other_kinds_are_refused() {
    let bytes = some_file();
    let with = |at: usize, value: u8| {
        let mut other = bytes.clone();
        other[at] = value;
        GwfFile::open(other).unwrap_err().to_string()
    };
    let magic = "not a GWF file: it begins with [58, 47, 57, 44, 00], not with \"IGWD\"";
    assert_eq!(with(0, b'X'), magic);
    let version = "the file has version 6 of the IGWD format; this program reads version 8";
    assert_eq!(with(5, 6), version);
    let machine =
        "the file is not of a little-endian machine with IEEE numbers, which alone are read";
    assert_eq!(with(12, 0x12), machine);
    assert!(GwfFile::open(Vec::new()).is_err());
    assert!(GwfFile::open(b"IGWD\0".to_vec()).is_err());
    let file = GwfFile::open(bytes[..40].to_vec()).unwrap();
    assert!(file.frames().is_empty() && file.channels().is_empty());
}

#[test]
fn damage_that_a_walk_meets_costs_what_it_describes() {
    let bytes = some_file();
    let walked = |bytes: &[u8]| {
        GwfFile::open_with(bytes.to_vec(), OpenOptions { ignore_toc: true }).unwrap()
    };
    // By class: the remaining frames, and channels of which a frame remains.
    for (class, frames, channels) in [
        ("FrAdcData", 2, 3),
        ("FrProcData", 2, 3),
        ("FrVect", 2, 3),
        ("FrameH", 1, 3),
        ("FrEndOfFrame", 1, 3),
    ] {
        let (at, length) = find(&bytes, class);
        let mut damaged = bytes.clone();
        damaged[at + length - 5] ^= 4;
        fuzz(&damaged);
        let file = walked(&damaged);
        let Index::Walk { ended: None, damaged: passed, .. } = file.index() else {
            panic!("{class}");
        };
        assert_eq!((file.frames().len(), file.channels().len()), (frames, channels), "{class}");
        // Vectors are examined when they are read.
        assert_eq!(passed.structures, u64::from(class != "FrVect"), "{class}");
        if let Some(first) = &passed.first {
            assert!(matches!(**first, GwfError::Checksum { .. }), "{first}");
        }
    }
    // Between frames whose end or beginning is unknown, no channel is mistaken for another's.
    let (end, end_bytes) = find(&bytes, "FrEndOfFrame");
    let (header, header_bytes, _) =
        structures(&bytes).into_iter().find(|(at, ..)| *at == end + end_bytes).unwrap();
    let mut damaged = bytes.clone();
    damaged[end + end_bytes - 5] ^= 4;
    damaged[header + header_bytes - 5] ^= 4;
    let file = walked(&damaged);
    assert!(file.frames().is_empty() && file.channels().is_empty());
}

/// The positions of the vectors of auxiliary validity in a file of frameCPP.
fn auxiliary_vectors(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (vector, _) = find(bytes, "FrVect");
    let vectors = structures(bytes).into_iter().filter(|(_, _, class)| *class == bytes[vector + 9]);
    let named = vectors.filter(|(at, ..)| bytes[at + 14..].starts_with(b"\x0a\0dataValid\0"));
    named.map(|(at, length, _)| (at, length)).collect()
}

#[test]
fn auxiliary_vectors_are_checked_before_they_are_used() {
    let bytes = include_bytes!("golden/gwframe-0.8.gwf");
    let vectors = auxiliary_vectors(bytes);
    assert_eq!(vectors.len(), 2);
    let (adc, adc_bytes) = find(bytes, "FrAdcData");
    for (at, length) in [vectors[0], (adc, adc_bytes)] {
        for field in 14..length - 8 {
            for value in [0u64, 1, 0xff, 0xffff, u64::MAX >> 1, u64::MAX] {
                let mut lying = bytes.to_vec();
                let width = 8.min(length - 4 - field);
                lying[at + field..at + field + width]
                    .copy_from_slice(&value.to_le_bytes()[..width]);
                sign(&mut lying, at);
                fuzz(&lying);
            }
        }
    }
}

#[test]
fn chains_of_auxiliary_vectors_end() {
    let bytes = include_bytes!("golden/gwframe-0.8.gwf");
    let (at, length) = auxiliary_vectors(bytes)[0];
    let class = bytes[at + 9];
    // By the number of the next vector: the vector of the samples, this one, the one of the next
    // channel, and a missing one.
    for (instance, expected) in [(0_u32, None), (1, None), (2, Some((4, 1))), (99, None)] {
        let mut lying = bytes.to_vec();
        let next = at + length - 10;
        lying[next..next + 2].copy_from_slice(&u16::from(class).to_le_bytes());
        lying[next + 2..next + 6].copy_from_slice(&instance.to_le_bytes());
        sign(&mut lying, at);
        fuzz(&lying);
        let file = GwfFile::open(lying).unwrap();
        let channel = file.find("X1:ADC-1").unwrap();
        assert!(file.read(channel, 0, &mut Vec::new()).unwrap().unwrap().auxiliary);
        match (file.auxiliary(channel, 0), expected) {
            (Ok(found), Some(expected)) => {
                assert_eq!((found.samples_invalid, found.others), expected);
            }
            (Err(GwfError::MissingVector { instance: got, .. }), None) => assert_eq!(got, instance),
            (other, _) => panic!("{instance}: {other:?}"),
        }
    }
    // Damage to one costs its information, not the samples.
    let mut damaged = bytes.to_vec();
    damaged[at + length - 5] ^= 4;
    let file = GwfFile::open(damaged).unwrap();
    let channel = file.find("X1:ADC-1").unwrap();
    assert!(file.read(channel, 0, &mut Vec::new()).is_ok());
    assert!(matches!(file.auxiliary(channel, 0), Err(GwfError::Checksum { .. })));
}
