//! The storage link's message on control connections: which of a stream's files a node has closed.
//! Section 4 of docs/spec/storage-link.md.

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
