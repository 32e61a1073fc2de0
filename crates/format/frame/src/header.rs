//! The file header: identity of file and run, configuration, schema.
//!
//! ```text
//!  0        8       10      12             16               20       24        32        64
//! +--------+-------+-------+--------------+----------------+--------+---------+---------+------+-----+
//! | magic  | major | minor | header_bytes | metadata_bytes | crc32c | file_id | zeros   | JSON | pad |
//! +--------+-------+-------+--------------+----------------+--------+---------+---------+------+-----+
//! ```

use std::collections::HashSet;

use catchment_model::limits::SOURCES_MAX;
use catchment_model::{RunId, SourceId};
use serde::{Deserialize, Serialize};

use crate::bytes::{align_up, put, u16_at, u32_at, u64_at};
use crate::checksum::crc32c_around;
use crate::error::{FrameError, Part};
use crate::kinds::{ColumnKind, Dtype};
use crate::ledger::EntryNames;
use crate::read_at::{ReadAt, read_exact};
use crate::{BLOCK_BYTES, FILE_HEADER_BYTES_MAX, SCHEMA_COLUMNS_MAX, VERSION_MAJOR, VERSION_MINOR};

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The run that it belongs to.
    pub run: RunId,
    /// What people call the run.
    pub run_number: u64,
    /// Its place among the run's files, from 0.
    pub file_index: u32,
    /// Random; repeated in every frame, so that no other file's blocks are taken for this one's.
    pub file_id: u64,
    /// When it was begun: nanoseconds since 1970, UTC.
    pub created_ns: u64,
    /// Program and version.
    pub writer: String,
    /// The configuration as it was run: TOML.
    pub config: String,
    /// Sources and columns.
    pub schema: Schema,
    /// Names of the ledger's entries by their numbers in this file.
    pub ledger_entries: EntryNames,
}

/// Sources and columns of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// The sources; a source's id is its place.
    #[serde(default)]
    pub sources: Vec<SourceInfo>,
    /// The columns that frames may have.
    #[serde(default)]
    pub columns: Vec<ColumnInfo>,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// Its number, which is its place in the schema.
    pub id: u32,
    /// Its name, unique in the run.
    pub name: String,
    /// The group that it belongs to; may be empty.
    #[serde(default)]
    pub group: String,
    /// What its fragments were received as, for example `hadtu`.
    #[serde(default)]
    pub protocol: String,
    /// Whether an event without it is incomplete.
    #[serde(default = "required_by_default")]
    pub required: bool,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnInfo {
    /// Its id in directories.
    pub id: u32,
    /// What it means.
    pub kind: ColumnKind,
    /// The source that it belongs to, if to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<u32>,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The shape of one row; empty for scalars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
    /// Its name, where it has one of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The unit of its values, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

/// A schema that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Too many sources or columns.
    #[error("{count} {what}, at most {max}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A source's id is not its place.
    #[error("the source at place {place} has id {got}")]
    SourceId {
        /// Its place.
        place: usize,
        /// Its id.
        got: u32,
    },
    /// Two columns have the same id.
    #[error("column id {id} occurs twice")]
    ColumnTwice {
        /// The id.
        id: u32,
    },
    /// A column whose kind has another element type.
    #[error("column {id} is {kind:?}, which is {expected}, not {got}")]
    ColumnDtype {
        /// The column.
        id: u32,
        /// Its kind.
        kind: &'static str,
        /// The type that this kind has.
        expected: &'static str,
        /// The type that the schema says.
        got: &'static str,
    },
    /// A column names a source that there is not.
    #[error("column {id} belongs to source {got}, but there are {sources} sources")]
    ColumnSource {
        /// The column.
        id: u32,
        /// The source that it names.
        got: u32,
        /// How many there are.
        sources: usize,
    },
}

impl FileHeader {
    /// The header's bytes, a multiple of 4 KiB.
    ///
    /// # Panics
    /// If the schema contradicts itself, or the header passes 64 MiB.
    pub fn encode(&self) -> Vec<u8> {
        if let Err(error) = self.schema.check() {
            panic!("schema: {error}");
        }
        let metadata = Metadata {
            run: self.run.to_string(),
            run_number: self.run_number,
            file_index: self.file_index,
            created_ns: self.created_ns,
            writer: self.writer.clone(),
            config: self.config.clone(),
            ledger_entries: self.ledger_entries.0.clone(),
            schema: self.schema.clone(),
        };
        let json = serde_json::to_vec(&metadata).expect("strings and numbers are valid JSON");
        let used = FIXED_BYTES + json.len();
        let header_bytes = align_up(used as u64, BLOCK_BYTES);
        assert!(header_bytes <= FILE_HEADER_BYTES_MAX, "file header of {header_bytes} bytes");

        let mut header = vec![0; header_bytes as usize];
        put(&mut header, 0, MAGIC);
        put(&mut header, 8, VERSION_MAJOR.to_le_bytes());
        put(&mut header, 10, VERSION_MINOR.to_le_bytes());
        put(&mut header, 12, (header_bytes as u32).to_le_bytes());
        put(&mut header, 16, (json.len() as u32).to_le_bytes());
        put(&mut header, 24, self.file_id.to_le_bytes());
        header[FIXED_BYTES..used].copy_from_slice(&json);
        let crc = crc32c_around(&header[..used], CRC_AT);
        put(&mut header, CRC_AT, crc.to_le_bytes());
        header
    }

    /// Reads a header from its first bytes on; padding may be absent. Returns it with the offset of
    /// the first frame.
    ///
    /// # Errors
    /// Anything that is not a header of this major version, whole and unchanged.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64), FrameError> {
        let fixed = Fixed::decode(bytes)?;
        if bytes.len() < fixed.used_bytes {
            return Err(FrameError::Truncated {
                part: PART,
                offset: 0,
                expected: fixed.used_bytes as u64,
                got: bytes.len() as u64,
            });
        }
        let used = &bytes[..fixed.used_bytes];
        let got = crc32c_around(used, CRC_AT);
        if got != fixed.crc32c {
            return Err(FrameError::Checksum { part: PART, expected: fixed.crc32c, got });
        }
        let metadata: Metadata =
            serde_json::from_slice(&used[FIXED_BYTES..]).map_err(FrameError::Metadata)?;
        metadata.schema.check()?;
        let run = metadata
            .run
            .parse()
            .map_err(|error| FrameError::Metadata(serde::de::Error::custom(error)))?;
        let header = Self {
            run,
            run_number: metadata.run_number,
            file_index: metadata.file_index,
            file_id: fixed.file_id,
            created_ns: metadata.created_ns,
            writer: metadata.writer,
            config: metadata.config,
            schema: metadata.schema,
            ledger_entries: EntryNames(metadata.ledger_entries),
        };
        Ok((header, fixed.header_bytes))
    }

    /// The header of a file, its own bytes (without padding), and where the first frame begins.
    pub(crate) fn read<R: ReadAt + ?Sized>(
        reader: &R,
        file_bytes: u64,
    ) -> Result<(Self, Vec<u8>, u64), FrameError> {
        let first_bytes = file_bytes.min(BLOCK_BYTES) as usize;
        let mut bytes = vec![0; first_bytes];
        read_exact(reader, PART, 0, &mut bytes)?;
        let fixed = Fixed::decode(&bytes)?;
        if fixed.used_bytes as u64 > file_bytes {
            let expected = fixed.used_bytes as u64;
            return Err(FrameError::Truncated { part: PART, offset: 0, expected, got: file_bytes });
        }
        if fixed.used_bytes > first_bytes {
            bytes.resize(fixed.used_bytes, 0);
            read_exact(reader, PART, first_bytes as u64, &mut bytes[first_bytes..])?;
        }
        bytes.truncate(fixed.used_bytes);
        let (header, first_frame) = Self::decode(&bytes)?;
        Ok((header, bytes, first_frame))
    }
}

impl Schema {
    /// The columns of built events: key, time, flags, ledger increments, and lengths, validity and
    /// payload of each source.
    ///
    /// # Panics
    /// If a source's id is not its place.
    pub fn events(sources: Vec<SourceInfo>) -> Self {
        let column = |id, kind: ColumnKind, dtype, unit: &str, source| ColumnInfo {
            id,
            kind,
            source,
            dtype,
            shape: Vec::new(),
            name: String::new(),
            unit: unit.to_owned(),
        };
        let mut columns = vec![
            column(0, ColumnKind::EventKey, Dtype::U64, "", None),
            column(1, ColumnKind::EventTime, Dtype::U64, "ns", None),
            column(2, ColumnKind::EventFlags, Dtype::U32, "", None),
            column(3, ColumnKind::LedgerIncrement, Dtype::Record, "", None),
        ];
        for source in 0..sources.len() as u32 {
            let id = 4 + 3 * source;
            let source = Some(source);
            columns.push(column(id, ColumnKind::FragmentLengths, Dtype::U32, "B", source));
            columns.push(column(id + 1, ColumnKind::FragmentValidity, Dtype::Bits, "", source));
            columns.push(column(id + 2, ColumnKind::FragmentPayload, Dtype::U8, "", source));
        }
        let schema = Self { sources, columns };
        if let Err(error) = schema.check() {
            panic!("{error}");
        }
        schema
    }

    /// The id of the column of that kind, and of that source where columns belong to one.
    pub fn column(&self, source: Option<SourceId>, kind: &ColumnKind) -> Option<u32> {
        let source = source.map(|source| source.0);
        self.columns.iter().find(|c| c.source == source && c.kind == *kind).map(|c| c.id)
    }

    /// Whether ids and references are right.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), SchemaError> {
        let bounds = [
            ("sources", self.sources.len(), SOURCES_MAX),
            ("columns", self.columns.len(), SCHEMA_COLUMNS_MAX),
        ];
        if let Some((what, count, max)) = bounds.into_iter().find(|(_, count, max)| count > max) {
            return Err(SchemaError::TooMany { what, count, max });
        }
        for (place, source) in self.sources.iter().enumerate() {
            if source.id as usize != place {
                return Err(SchemaError::SourceId { place, got: source.id });
            }
        }
        let mut ids = HashSet::with_capacity(self.columns.len());
        let sources = self.sources.len();
        for column in &self.columns {
            if !ids.insert(column.id) {
                return Err(SchemaError::ColumnTwice { id: column.id });
            }
            column.check_dtype()?;
            if let Some(got) = column.source.filter(|&source| source as usize >= sources) {
                return Err(SchemaError::ColumnSource { id: column.id, got, sources });
            }
        }
        Ok(())
    }
}

impl ColumnInfo {
    /// Payload may be of any type; the other known kinds have theirs.
    fn check_dtype(&self) -> Result<(), SchemaError> {
        let known = ColumnKind::KNOWN.iter().find(|(kind, _, _)| *kind == self.kind);
        let Some((kind, name, dtype)) = known else { return Ok(()) };
        if *kind == ColumnKind::FragmentPayload || self.dtype == *dtype && self.shape.is_empty() {
            return Ok(());
        }
        let (id, expected, got) = (self.id, dtype.name(), self.dtype.name());
        Err(SchemaError::ColumnDtype { id, kind: name, expected, got })
    }
}

/// The JSON object. Its keys are the specification's.
#[derive(Serialize, Deserialize)]
struct Metadata {
    run: String,
    run_number: u64,
    file_index: u32,
    created_ns: u64,
    #[serde(default)]
    writer: String,
    #[serde(default)]
    config: String,
    #[serde(default)]
    ledger_entries: Vec<String>,
    #[serde(default)]
    schema: Schema,
}

struct Fixed {
    header_bytes: u64,
    /// Fixed part and metadata.
    used_bytes: usize,
    crc32c: u32,
    file_id: u64,
}

impl Fixed {
    fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        if bytes.len() < FIXED_BYTES {
            let (expected, got) = (FIXED_BYTES as u64, bytes.len() as u64);
            return Err(FrameError::Truncated { part: PART, offset: 0, expected, got });
        }
        if bytes[..8] != MAGIC {
            let got = bytes[..8].try_into().expect("eight bytes");
            return Err(FrameError::Magic { part: PART, got });
        }
        let (major, minor) = (u16_at(bytes, 8), u16_at(bytes, 10));
        if major != VERSION_MAJOR {
            return Err(FrameError::Version { major, minor });
        }
        let header_bytes = u64::from(u32_at(bytes, 12));
        let used_bytes = FIXED_BYTES as u64 + u64::from(u32_at(bytes, 16));
        if header_bytes == 0
            || header_bytes > FILE_HEADER_BYTES_MAX
            || !header_bytes.is_multiple_of(BLOCK_BYTES)
        {
            let expected = "a multiple of 4,096 up to 64 MiB";
            let (part, field) = (PART, "header_bytes");
            return Err(FrameError::Field { part, field, expected, got: header_bytes });
        }
        if used_bytes > header_bytes {
            let (part, field) = (PART, "metadata_bytes");
            let got = used_bytes - FIXED_BYTES as u64;
            return Err(FrameError::Field { part, field, expected: "within header_bytes", got });
        }
        Ok(Self {
            header_bytes,
            used_bytes: used_bytes as usize,
            crc32c: u32_at(bytes, CRC_AT),
            file_id: u64_at(bytes, 24),
        })
    }
}

/// Bytes of an encoded header without its padding.
pub(crate) fn used_bytes(encoded: &[u8]) -> usize {
    FIXED_BYTES + u32_at(encoded, 16) as usize
}

fn required_by_default() -> bool {
    true
}

const MAGIC: [u8; 8] = *b"\x89CATCH\r\n";
const FIXED_BYTES: usize = 64;
const CRC_AT: usize = 20;
const PART: Part = Part::FileHeader;

#[cfg(test)]
mod tests {
    use super::*;

    fn header(config: &str) -> FileHeader {
        let source = |id: u32| SourceInfo {
            id,
            name: format!("mdc-{id}"),
            group: "mdc".into(),
            protocol: "hadtu".into(),
            required: id != 1,
        };
        FileHeader {
            run: RunId([7; 16]),
            run_number: 12,
            file_index: 3,
            file_id: 0xfeed_beef_0000_0001,
            created_ns: 1_700_000_000_000_000_001,
            writer: "test".into(),
            config: config.into(),
            schema: Schema::events((0..2).map(source).collect()),
            ledger_entries: EntryNames::default(),
        }
    }

    #[test]
    fn header_survives_its_bytes_also_when_it_is_longer_than_a_block() {
        for config in [String::new(), "a = \"\u{b5}\"\n".repeat(3_000)] {
            let header = header(&config);
            let bytes = header.encode();
            assert!(bytes.len().is_multiple_of(4_096));
            let (decoded, first_frame) = FileHeader::decode(&bytes).expect("decodes");
            assert_eq!((decoded, first_frame), (header.clone(), bytes.len() as u64));
            let (read, own, first_frame) =
                FileHeader::read(&bytes, bytes.len() as u64).expect("reads");
            assert_eq!((read, first_frame), (header, bytes.len() as u64));
            assert_eq!(own, bytes[..own.len()]);
        }
    }

    #[test]
    fn keys_of_a_later_minor_version_are_ignored() {
        let mut bytes = header("").encode();
        let used = FIXED_BYTES + u32_at(&bytes, 16) as usize;
        let json = String::from_utf8(bytes[FIXED_BYTES..used].to_vec()).expect("UTF-8");
        let json = json.replacen('{', "{\"later\":[{\"deep\":[[1]]}],", 1);
        bytes.splice(FIXED_BYTES..used, json.bytes());
        bytes.resize(align_up(bytes.len() as u64, BLOCK_BYTES) as usize, 0);
        let header_bytes = bytes.len() as u32;
        put(&mut bytes, 10, 9u16.to_le_bytes());
        put(&mut bytes, 12, header_bytes.to_le_bytes());
        put(&mut bytes, 16, (json.len() as u32).to_le_bytes());
        let crc = crc32c_around(&bytes[..FIXED_BYTES + json.len()], CRC_AT);
        put(&mut bytes, CRC_AT, crc.to_le_bytes());
        assert_eq!(FileHeader::decode(&bytes).expect("decodes").0, header(""));
    }

    #[test]
    fn schemas_that_contradict_themselves_are_refused() {
        let good = header("").schema;
        assert_eq!(good.check(), Ok(()));
        let mut bad = good.clone();
        bad.sources[1].id = 5;
        assert_eq!(bad.check(), Err(SchemaError::SourceId { place: 1, got: 5 }));
        let mut bad = good.clone();
        bad.columns[3].id = 2;
        assert_eq!(bad.check(), Err(SchemaError::ColumnTwice { id: 2 }));
        let mut bad = good.clone();
        bad.columns[4].source = Some(2);
        assert!(matches!(bad.check(), Err(SchemaError::ColumnSource { got: 2, .. })));
        assert_eq!(good.column(Some(SourceId(1)), &ColumnKind::FragmentPayload), Some(9));
        assert_eq!(good.column(None, &ColumnKind::EventFlags), Some(2));
        assert_eq!(good.column(None, &ColumnKind::FragmentPayload), None);
    }
}
