//! IGWD frames version 8 (LIGO-T970130), `.gwf` files.
//!
//! ```text
//! file header, 40 bytes
//! per frame:  FrameH  FrHistory  FrRawData  (FrAdcData FrVect)*  (FrProcData FrVect)*  FrEndOfFrame
//! FrTOC: the offsets of all frames, and of all channels in each
//! FrEndOfFile, 46 bytes: the offset of the FrTOC, the file's checksum
//! ```
//!
//! Each structure is its length (8 bytes), the kind of its checksum (1), its class (1), its number
//! (4), its fields, and its checksum (4). The first structure of a class is preceded by the class's
//! *dictionary*: an FrSH with its name and number, an FrSE for each field. Structures refer to each
//! other by class and number; an FrVect follows the structure that refers to it.
//!
//! [`GwfFile`] reads, through the FrTOC if there is one, otherwise by walking from structure to
//! structure. [`GwfWriter`] writes. Files of other versions and big-endian files are refused; so
//! are vectors of strings. Big-endian *vectors* are read if they are raw or zlib.

mod checksum;
mod cursor;
mod dictionary;
mod encoder;
mod error;
mod fuzz;
mod rate;
mod reader;
mod structures;
mod toc;
mod vector;
mod walk;
mod window;
mod writer;
mod zero_suppress;

pub use error::{GwfError, Part};
pub use fuzz::fuzz_file;
pub use rate::exact_rate;
pub use reader::{Auxiliary, ChannelInfo, GwfFile, Index, OpenOptions};
pub use structures::ChannelKind;
pub use toc::{Channel, Frame};
pub use vector::{Compression, VectorType};
pub use walk::Damaged;
pub use writer::{Compress, FrameStart, GwfWriter, History, Series, SeriesKind, WriteOptions};

/// Bytes of a vector's samples.
pub const VECTOR_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of an FrTOC.
pub const TOC_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of any structure, except FrTOC and FrVect, whose fields are read.
pub const STRUCTURE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of the file header.
const FILE_HEADER_BYTES: usize = 40;
/// Bytes of FrEndOfFile.
const END_OF_FILE_BYTES: usize = 46;
/// Bytes at the beginning of every structure.
const HEAD_BYTES: usize = 14;
/// Bytes at the end of every structure.
const CHECKSUM_BYTES: usize = 4;

/// The beginning of our files, and of those of every little-endian machine: magic, version 8, sizes
/// of the number types, three numbers that show the byte order, and pi twice. The library's name
/// and the checksum's kind follow.
fn header_start(library_version: u8) -> [u8; 38] {
    let mut header = [0; 38];
    header[..5].copy_from_slice(b"IGWD\0");
    header[5] = 8;
    header[6] = library_version;
    header[7..12].copy_from_slice(&[2, 4, 8, 4, 8]);
    header[12..14].copy_from_slice(&0x1234u16.to_le_bytes());
    header[14..18].copy_from_slice(&0x1234_5678u32.to_le_bytes());
    header[18..26].copy_from_slice(&0x0123_4567_89ab_cdefu64.to_le_bytes());
    header[26..30].copy_from_slice(&std::f32::consts::PI.to_le_bytes());
    header[30..38].copy_from_slice(&std::f64::consts::PI.to_le_bytes());
    header
}
