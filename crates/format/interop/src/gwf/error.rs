//! What can be wrong with a GWF file: the part, the field, what was expected and found.

use std::fmt;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The file header.
    Header,
    /// The structure FrEndOfFile.
    EndOfFile,
    /// The table of contents.
    Toc,
    /// The whole file.
    File,
    /// The structure at that offset.
    Structure {
        /// Its class, or "structure" while it is not known.
        class: &'static str,
        /// Where it stands.
        offset: u64,
    },
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("file header"),
            Self::EndOfFile => f.write_str("FrEndOfFile"),
            Self::Toc => f.write_str("FrTOC"),
            Self::File => f.write_str("file"),
            Self::Structure { class, offset } => write!(f, "{class} at offset {offset}"),
        }
    }
}

/// What is wrong with a GWF file, or with reading or writing it.
#[derive(Debug, thiserror::Error)]
pub enum GwfError {
    /// The system could not read.
    #[error("cannot read {bytes} bytes at offset {offset}: {source}")]
    Read {
        /// Where.
        offset: u64,
        /// How much.
        bytes: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system could not say how long the file is.
    #[error("cannot get the file's length: {0}")]
    Length(std::io::Error),
    /// The system could not write.
    #[error("cannot write: {0}")]
    Write(#[from] std::io::Error),
    /// The file or a structure ends in the middle of something.
    #[error("{part}: ends early: expected {expected} bytes at {offset}, got {got}")]
    Truncated {
        /// What was to be read.
        part: Part,
        /// Where, in the file or in the structure.
        offset: u64,
        /// How long it is.
        expected: u64,
        /// How much of it is there.
        got: u64,
    },
    /// No GWF file.
    #[error("not a GWF file: it begins with {got:02x?}, not with \"IGWD\"")]
    Magic {
        /// What stands there.
        got: [u8; 5],
    },
    /// A version of the format that this crate does not read.
    #[error("the file has version {got} of the IGWD format; this program reads version 8")]
    Version {
        /// The version.
        got: u8,
    },
    /// A file of a machine of another kind.
    #[error("the file is not of a little-endian machine with IEEE numbers, which alone are read")]
    Machine,
    /// A field that cannot be.
    #[error("{part}: {field} is {got}, expected {expected}")]
    Field {
        /// Where.
        part: Part,
        /// The field.
        field: &'static str,
        /// What it could be.
        expected: &'static str,
        /// What it is.
        got: u64,
    },
    /// A part that is not as it was written.
    #[error("{part}: checksum is {got:#010x}, expected {expected:#010x}")]
    Checksum {
        /// Which part.
        part: Part,
        /// What is stored.
        expected: u32,
        /// What the bytes give.
        got: u32,
    },
    /// A structure that another one names is not there.
    #[error("{part}: names an FrVect number {instance} that does not follow it in the frame")]
    MissingVector {
        /// What names it.
        part: Part,
        /// Its number.
        instance: u32,
    },
    /// The table of contents and a structure disagree.
    #[error("{part}: is of channel {got:?}, the FrTOC says {expected:?}")]
    Name {
        /// The structure.
        part: Part,
        /// What the table says.
        expected: String,
        /// What the structure says.
        got: String,
    },
    /// Something that the format knows and this program does not read.
    #[error("{part}: {what} cannot be read by this program")]
    Unsupported {
        /// Where.
        part: Part,
        /// What.
        what: String,
    },
    /// A vector's bytes do not decode.
    #[error("{part}: samples cannot be decoded: {reason}")]
    Decode {
        /// The vector.
        part: Part,
        /// What does not fit.
        reason: &'static str,
    },
    /// Something that cannot be written.
    #[error("{what}: {field} is {got}, expected {expected}")]
    Refused {
        /// The channel or frame.
        what: String,
        /// The field.
        field: &'static str,
        /// What it could be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
    /// A write failed before; the file cannot be finished.
    #[error("an earlier write failed, the file is not whole")]
    Broken,
}
