//! The storage link's messages on control connections: which of a stream's files a node has closed,
//! and what it has of the stream of a recorder that died. Sections 4 and 5 of
//! docs/spec/storage-link.md.

use crate::fault::Fault;
use crate::fields::{bound, fields};
use crate::message::SEQUENCE_END;

fields! {
    /// Which of the stream's files are closed: from the node, on the control connection, with
    /// [`StoredFiles`]. A newer message replaces all before. A sender that does not know it skips
    /// it. Section 4.
    Files: type 0x8046, 24 {
        /// The stream's log.
        8 log: u32,
        /// How many files are closed.
        16 files: u64,
    }
}

/// The most records of [`Files`].
pub const STORED_FILES_MAX: u32 = 64;

fields! {
    /// A closed file, or several between two indexes, and the frames in them. Section 4.
    StoredFiles: 32 check are_files {
        /// The index of the first one.
        0 first_file: u32,
        /// That of the last one.
        4 last_file: u32,
        /// How many there are.
        8 files: u32 = 1..=u32::MAX as u64,
        /// The lowest number of their frames.
        16 first_frame: u64,
        /// The highest.
        24 last_frame: u64,
    }
}

fn are_files(files: &StoredFiles) -> Result<(), Fault> {
    let &StoredFiles { first_file, last_file, files, first_frame, last_frame } = files;
    bound("last_file", last_file.into(), first_file.into()..=u32::MAX.into())?;
    let files_max = u64::from(last_file - first_file) + 1;
    bound("files", files.into(), 1..=files_max)?;
    bound("last_frame", last_frame, first_frame..=SEQUENCE_END)
}

/// Bytes of the longest description of a stream, 128 MiB: the header of its files is there twice,
/// and its ledger and positions beside that.
pub const LEFT_BYTES_MAX: u64 = 128 << 20;

fields! {
    /// What a node has of a stream whose sender asks for it: from the node, on the control
    /// connection, behind the grant. The records ([`LeftPart`]) are a part of a frame file without
    /// frames. Section 5.
    Left: type 0x8047, 56 check is_within {
        /// The stream's log.
        8 log: u32,
        /// Bytes of the whole description; 0: the node has nothing of the stream.
        12 bytes: u32 = 0..=LEFT_BYTES_MAX,
        /// Where in it the records belong.
        16 offset: u32,
        /// [`Left::ENDED`], or 0.
        20 flags: u32 = 0..=1,
        /// For how long nothing has come, in nanoseconds.
        24 age_ns: u64,
        /// Frames in its files.
        32 frames: u64,
        /// Events in these.
        40 events: u64,
        /// Bytes of the files.
        48 file_bytes: u64,
    }
}

impl Left {
    /// The stream has ended in order.
    pub const ENDED: u32 = 1;
}

fields! {
    /// Bytes of the description; zeros behind its end. Section 5.
    LeftPart: 32 {
        /// These.
        0 bytes: [u8; 32],
    }
}

/// The most records of [`Left`].
pub const LEFT_PARTS_MAX: u32 = 500;

fn is_within(left: &Left) -> Result<(), Fault> {
    bound("offset", left.offset.into(), 0..=left.bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{
        CONTROL, CONTROL_BYTES_MAX, Control, Encoder, Fields as _, Fixed as _, parse,
    };

    fn message(records: &[StoredFiles]) -> Vec<u8> {
        let mut out = vec![0; CONTROL_BYTES_MAX as usize];
        let mut encoder = Encoder::begin(&mut out, 0, &Files { log: 0, files: 9 });
        records.iter().for_each(|one| assert!(encoder.push(one)));
        let bytes = encoder.finish("", &[]);
        out.truncate(bytes);
        out
    }

    fn read(bytes: &[u8]) -> Result<Vec<StoredFiles>, Fault> {
        let message = parse(bytes, 0, CONTROL)?.expect("it is whole");
        match Control::read(&message)? {
            Some(Control::Files(Files { log: 0, files: 9 }, records)) => {
                Ok(records.iter().collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_part_of_what_a_node_has_is_within_the_whole_and_no_longer_than_a_message() {
        let left = Left {
            log: 0,
            bytes: 64,
            offset: 32,
            flags: Left::ENDED,
            age_ns: 7,
            frames: 3,
            events: 2,
            file_bytes: 4_096,
        };
        let part = LeftPart { bytes: std::array::from_fn(|at| at as u8) };
        let encoded = |left: &Left, count: u32| {
            let mut out = vec![0; CONTROL_BYTES_MAX as usize];
            let mut encoder = Encoder::begin(&mut out, 0, left);
            (0..count).for_each(|_| assert!(encoder.push(&part), "{count} parts fit"));
            let bytes = encoder.finish("", &[]);
            out.truncate(bytes);
            out
        };
        let read = |bytes: &[u8]| {
            let message = parse(bytes, 0, CONTROL)?.expect("it is whole");
            let Some(Control::Left(left, parts)) = Control::read(&message)? else { panic!("left") };
            assert!(parts.iter().all(|one| one == part));
            Ok::<_, Fault>((left, parts.iter().count() as u32))
        };
        for count in [0, 1, LEFT_PARTS_MAX] {
            assert_eq!(read(&encoded(&left, count)), Ok((left, count)));
        }
        assert!(read(&encoded(&left, LEFT_PARTS_MAX + 1)).is_err());
        for bad in [
            Left { offset: 65, ..left },
            Left { bytes: LEFT_BYTES_MAX as u32 + 1, ..left },
            Left { flags: 2, ..left },
        ] {
            assert!(read(&encoded(&bad, 1)).is_err(), "{bad:?}");
        }
        // Those who do not know the type skip it.
        assert_eq!(Left::TYPE >> 15, 1);
    }

    #[test]
    fn what_a_node_says_of_its_files_is_checked_before_it_is_used() {
        let one =
            StoredFiles { first_file: 3, last_file: 5, files: 2, first_frame: 10, last_frame: 19 };
        let most = vec![one; STORED_FILES_MAX as usize];
        assert_eq!(read(&message(&most)), Ok(most.clone()));
        let more = [&most[..], &[one]].concat();
        assert!(read(&message(&more)).is_err(), "it has no more records");
        for bad in [
            StoredFiles { last_file: 2, files: 1, ..one },
            StoredFiles { files: 4, ..one },
            StoredFiles { files: 0, ..one },
            StoredFiles { last_frame: 9, ..one },
            StoredFiles { last_frame: u64::MAX, ..one },
        ] {
            let mut bytes = message(&[one]);
            // The record ends the message.
            let at = bytes.len() - StoredFiles::BYTES;
            bad.write(&mut bytes[at..]);
            assert!(read(&bytes).is_err(), "{bad:?}");
        }
        // None is closed any more.
        assert_eq!(read(&message(&[])), Ok(Vec::new()));
        // Those who do not know the type skip it.
        assert_eq!(Files::TYPE >> 15, 1);
    }
}
