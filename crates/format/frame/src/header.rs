//! The file header: identity of file and run, configuration, schema.
//!
//! ```text
//!  0        8       10      12             16               20       24        32        64
//! +--------+-------+-------+--------------+----------------+--------+---------+---------+------+-----+
//! | magic  | major | minor | header_bytes | metadata_bytes | crc32c | file_id | zeros   | JSON | pad |
//! +--------+-------+-------+--------------+----------------+--------+---------+---------+------+-----+
//! ```

use std::sync::Arc;

use catchment_model::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::BaseFiles;
use crate::bytes::{align_up, put, u16_at, u32_at, u64_at};
use crate::checksum::crc32c_around;
use crate::error::{FrameError, Part};
use crate::known::{KnownSchema, KnownSchemas};
use crate::ledger::EntryNames;
use crate::locator::LOCATOR_BYTES;
use crate::read_at::{ReadAt, read_exact};
use crate::schema::Schema;
use crate::{BLOCK_BYTES, FILE_HEADER_BYTES_MAX, VERSION_MAJOR, VERSION_MINOR};

/// Identity, configuration and schema of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileHeader {
    /// The run to which it belongs.
    pub run: RunId,
    /// The run's number for people.
    pub run_number: u64,
    /// Its index among the run's files, from 0.
    pub file_index: u32,
    /// Random; repeated in every frame, so that blocks of other files are not mistaken for this
    /// one's.
    pub file_id: u64,
    /// When it was begun, in nanoseconds since 1970, UTC.
    pub created_ns: u64,
    /// Program and version.
    pub writer: String,
    /// The configuration of the run: TOML.
    pub config: String,
    /// Whether the data are from an emulated detector, as stated by their writer.
    pub emulated: bool,
    /// Sources and columns.
    pub schema: Arc<Schema>,
    /// Names of the ledger's entries by their numbers in this file.
    pub ledger_entries: EntryNames,
    /// Whether the header ends with room for a locator of the newest checkpoint
    /// ([`crate::locator_offset`]).
    pub locator: bool,
    /// The scope of the frames' numbers.
    pub numbering: Numbering,
    /// The variant of the run to which the file belongs: 0 for all sources, unreduced (1.3).
    pub variant: u32,
    /// The target whose folders hold the run's files together, if there are several (1.3).
    pub target: Option<String>,
    /// Which part of the target's frames the file has, if they are dealt to several storage nodes
    /// (1.3). `target` ends in `:` and the number of the part then.
    pub part: Option<DealtPart>,
    /// The writer's stream: its number among those that write the run together (1.3). Each frame
    /// has its own.
    pub stream: u32,
    /// The writer's epoch when it began the file: 0 unless the run was resumed (1.3).
    pub epoch: u32,
    /// Frames that no longer belong to the run, in this file or others (1.3).
    pub superseded: Vec<Superseded>,
    /// The files with the payload of this one's fragments, if they are not in it (1.3).
    pub base: Option<BaseFiles>,
}

/// A part of a target whose frames are dealt to several storage nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DealtPart {
    /// Its number, from 0.
    pub number: u32,
    /// How many the target has.
    pub count: u32,
    /// How many frames the node had taken before the first of the file.
    #[serde(default)]
    pub first_item: u64,
}

/// The scope of the numbers of a file's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// The run, across files: equal numbers are one frame.
    #[default]
    Run,
    /// Each file, as in trends. Files before version 1.3 do not state this.
    File,
}

/// Contents of a file header besides [`FileHeader`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRest {
    /// The minor version of the program that began the file.
    pub minor: u16,
}

/// Frames of a stream that was resumed before their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superseded {
    /// The stream.
    pub stream: u32,
    /// Frames of an epoch below this one ...
    pub epoch: u32,
    /// ... and of this number or a higher one are superseded.
    pub sequence: u64,
}

/// A header that has been read.
pub(crate) struct Decoded {
    pub header: FileHeader,
    pub rest: HeaderRest,
    pub schema: Arc<KnownSchema>,
    pub first_frame: u64,
}

impl FileHeader {
    /// The header's bytes, a multiple of 4 KiB.
    ///
    /// # Panics
    /// If the schema contradicts itself, or the header exceeds 64 MiB.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_in(0, VERSION_MINOR)
    }

    /// As [`FileHeader::encode`], padded to at least that many bytes, and with that minor version.
    pub(crate) fn encode_in(&self, bytes_min: u64, minor: u16) -> Vec<u8> {
        if let Err(error) = self.schema.check() {
            panic!("schema: {error}");
        }
        let json = serde_json::to_vec(&Metadata::of(self)).expect("strings and numbers are JSON");
        let used = FIXED_BYTES + json.len();
        let locator_bytes = if self.locator { LOCATOR_BYTES } else { 0 };
        let header_bytes = align_up(used as u64, BLOCK_BYTES) + locator_bytes;
        let header_bytes = header_bytes.max(align_up(bytes_min, BLOCK_BYTES));
        assert!(header_bytes <= FILE_HEADER_BYTES_MAX, "file header of {header_bytes} bytes");

        let mut header = vec![0; header_bytes as usize];
        put(&mut header, 0, MAGIC);
        put(&mut header, 8, VERSION_MAJOR.to_le_bytes());
        put(&mut header, 10, minor.to_le_bytes());
        put(&mut header, 12, (header_bytes as u32).to_le_bytes());
        put(&mut header, 16, (json.len() as u32).to_le_bytes());
        put(&mut header, 24, self.file_id.to_le_bytes());
        header[FIXED_BYTES..used].copy_from_slice(&json);
        let crc = crc32c_around(&header[..used], CRC_AT);
        put(&mut header, CRC_AT, crc.to_le_bytes());
        header
    }

    /// Reads a header from its first bytes; padding may be absent. Returns it with the offset of
    /// the first frame.
    ///
    /// # Errors
    /// Anything that is not a complete, undamaged header of this major version.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64), FrameError> {
        let Decoded { header, first_frame, .. } = Self::decode_known(bytes, None)?;
        Ok((header, first_frame))
    }

    /// As [`FileHeader::decode`]; a schema with known text is not parsed again.
    pub(crate) fn decode_known(
        bytes: &[u8],
        known: Option<&KnownSchemas>,
    ) -> Result<Decoded, FrameError> {
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
        let (metadata, schema) = parse(&used[FIXED_BYTES..], known)?;
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
            emulated: metadata.emulated,
            schema: Arc::clone(&schema.schema),
            ledger_entries: EntryNames(metadata.ledger_entries),
            // Without room there is no locator, whatever the key says.
            locator: metadata.locator
                && fixed.used_bytes as u64 + LOCATOR_BYTES <= fixed.header_bytes,
            numbering: metadata.numbering.as_deref().map_or(Numbering::Run, Numbering::of_name),
            variant: metadata.variant,
            target: metadata.target,
            part: metadata.part,
            stream: metadata.stream,
            epoch: metadata.epoch,
            superseded: metadata.superseded,
            base: metadata.base,
        };
        let rest = HeaderRest { minor: fixed.minor };
        Ok(Decoded { header, rest, schema, first_frame: fixed.header_bytes })
    }

    /// A key of an encoded header's metadata that this version would not write, so that a header
    /// made from what was read would lack it.
    pub(crate) fn key_lost(encoded: &[u8]) -> Result<Option<String>, FrameError> {
        let Decoded { header, .. } = Self::decode_known(encoded, None)?;
        let json = encoded.get(FIXED_BYTES..used_bytes(encoded)).unwrap_or_default();
        let before: Value = serde_json::from_slice(json).map_err(FrameError::Metadata)?;
        let after = serde_json::to_value(Metadata::of(&header)).map_err(FrameError::Metadata)?;
        Ok(key_lost(&before, &after))
    }

    /// The bytes of a file's header, without padding.
    pub(crate) fn read<R: ReadAt + ?Sized>(
        reader: &R,
        file_bytes: u64,
    ) -> Result<Vec<u8>, FrameError> {
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
        Ok(bytes)
    }
}

/// The JSON object. Its keys are defined in the specification.
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
    #[serde(default, skip_serializing_if = "is_false")]
    emulated: bool,
    #[serde(default)]
    ledger_entries: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    locator: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbering: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    variant: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<DealtPart>,
    #[serde(default, skip_serializing_if = "is_zero")]
    stream: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    epoch: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    superseded: Vec<Superseded>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<BaseFiles>,
    /// Last, so that its text can be separated from the rest.
    #[serde(default)]
    schema: Schema,
}

impl Metadata {
    fn of(header: &FileHeader) -> Self {
        Self {
            run: header.run.to_string(),
            run_number: header.run_number,
            file_index: header.file_index,
            created_ns: header.created_ns,
            writer: header.writer.clone(),
            config: header.config.clone(),
            emulated: header.emulated,
            ledger_entries: header.ledger_entries.0.clone(),
            locator: header.locator,
            numbering: header.numbering.name().map(str::to_owned),
            variant: header.variant,
            target: header.target.clone(),
            part: header.part,
            stream: header.stream,
            epoch: header.epoch,
            superseded: header.superseded.clone(),
            base: header.base.clone(),
            schema: Schema::clone(&header.schema),
        }
    }
}

impl Numbering {
    fn of_name(name: &str) -> Self {
        if name == "file" { Self::File } else { Self::Run }
    }

    /// The value for the metadata; none if it equals the value that a missing key means.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Run => None,
            Self::File => Some("file"),
        }
    }
}

/// The first key of an object in `before` that its counterpart in `after` lacks. A key with the
/// value that its absence means does not count: false, 0, nothing, or frames numbered by run.
fn key_lost(before: &Value, after: &Value) -> Option<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().find_map(|(key, value)| match after.get(key) {
                Some(after) => key_lost(value, after),
                None => (!is_default(value)).then(|| key.clone()),
            })
        }
        (Value::Array(before), Value::Array(after)) => {
            before.iter().zip(after).find_map(|(before, after)| key_lost(before, after))
        }
        _ => None,
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty() || text == "run",
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
    }
}

/// Parses and checks the JSON. If the schema's text is last, as written here, and is known, only
/// the part before it needs to be parsed.
fn parse(
    json: &[u8],
    known: Option<&KnownSchemas>,
) -> Result<(Metadata, Arc<KnownSchema>), FrameError> {
    if let Some(known) = known
        && let Some((head, text)) = split(json)
    {
        if let Some(schema) = known.get(text) {
            return Ok((head, schema));
        }
        if let Ok(schema) = serde_json::from_slice::<Schema>(text) {
            schema.check()?;
            let schema = Arc::new(KnownSchema::new(Arc::new(schema)));
            known.keep(text, &schema);
            return Ok((head, schema));
        }
    }
    let mut metadata: Metadata = serde_json::from_slice(json).map_err(FrameError::Metadata)?;
    metadata.schema.check()?;
    let schema = Arc::new(std::mem::take(&mut metadata.schema));
    Ok((metadata, Arc::new(KnownSchema::new(schema))))
}

/// The part before the key `schema`, parsed, and the schema's text, if that is the last key. Within
/// a string the quotes round the key would be escaped, and within a nested object the part before
/// it would not parse.
fn split(json: &[u8]) -> Option<(Metadata, &[u8])> {
    const KEY: &[u8] = b",\"schema\":";
    let at = json.windows(KEY.len()).position(|window| window == KEY)?;
    let text = json.strip_suffix(b"}")?.get(at + KEY.len()..)?;
    let mut head = json[..at].to_vec();
    head.push(b'}');
    Some((serde_json::from_slice(&head).ok()?, text))
}

struct Fixed {
    minor: u16,
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
            minor,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

const MAGIC: [u8; 8] = *b"\x89CATCH\r\n";
const FIXED_BYTES: usize = 64;
const CRC_AT: usize = 20;
const PART: Part = Part::FileHeader;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::SourceInfo;

    fn header(config: &str) -> FileHeader {
        let source = |id: u32| SourceInfo {
            id,
            name: format!("mdc-{id}"),
            group: "mdc".into(),
            protocol: "hadtu".into(),
            required: id != 1,
            malformed_reasons: Vec::new(),
            stored: true,
            sparse: false,
        };
        FileHeader {
            run: RunId([7; 16]),
            run_number: 12,
            file_index: 3,
            file_id: 0xfeed_beef_0000_0001,
            created_ns: 1_700_000_000_000_000_001,
            writer: "test".into(),
            config: config.into(),
            emulated: false,
            schema: Arc::new(Schema::events((0..2).map(source).collect())),
            ledger_entries: EntryNames::default(),
            locator: false,
            numbering: Numbering::Run,
            variant: 0,
            target: None,
            part: None,
            stream: 0,
            epoch: 0,
            superseded: Vec::new(),
            base: None,
        }
    }

    #[test]
    fn emulated_data_say_so_and_a_header_without_the_key_is_of_real_data() {
        let (real, emulated) = (header(""), FileHeader { emulated: true, ..header("") });
        let decoded = |header: &FileHeader| FileHeader::decode(&header.encode()).unwrap().0;
        assert_eq!((decoded(&emulated), decoded(&real)), (emulated.clone(), real.clone()));
        let has_key = |header: &FileHeader| {
            String::from_utf8_lossy(&header.encode()).contains(r#""emulated":true"#)
        };
        // As written by version 1.1, before the key existed.
        assert!(has_key(&emulated) && !has_key(&real));
    }

    #[test]
    fn header_survives_its_bytes_also_when_it_is_longer_than_a_block() {
        for config in [String::new(), "a = \"\u{b5}\"\n".repeat(3_000)] {
            let header = header(&config);
            let bytes = header.encode();
            assert!(bytes.len().is_multiple_of(4_096));
            let (decoded, first_frame) = FileHeader::decode(&bytes).expect("decodes");
            assert_eq!((decoded, first_frame), (header.clone(), bytes.len() as u64));
            let own = FileHeader::read(&bytes, bytes.len() as u64).expect("reads");
            assert_eq!(own, bytes[..used_bytes(&bytes)]);
        }
    }

    #[test]
    fn a_schema_that_is_known_is_not_parsed_again_and_another_is_not_taken_for_it() {
        let known = KnownSchemas::new();
        let decode = |header: &FileHeader| {
            FileHeader::decode_known(&header.encode(), Some(&known)).expect("decodes")
        };
        let Decoded { header: first, schema, .. } =
            decode(&header("schema = \",\\\"schema\\\":{\""));
        let Decoded { header: second, schema: again, .. } =
            decode(&FileHeader { file_index: 9, ..header("other") });
        assert!(Arc::ptr_eq(&schema, &again) && Arc::ptr_eq(&first.schema, &second.schema));
        assert_eq!(second, FileHeader { file_index: 9, ..header("other") });
        let mut other = header("");
        Arc::make_mut(&mut other.schema).columns[0].name = "another".into();
        let Decoded { header: third, schema: different, .. } = decode(&other);
        assert!(!Arc::ptr_eq(&schema, &different));
        assert_eq!(third, other);
    }

    /// The header with other metadata.
    fn with_json(header: &FileHeader, change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut bytes = header.encode();
        let mut json = serde_json::from_slice(&bytes[FIXED_BYTES..used_bytes(&bytes)]).unwrap();
        change(&mut json);
        let json = serde_json::to_vec(&json).unwrap();
        bytes.truncate(FIXED_BYTES);
        bytes.extend_from_slice(&json);
        put(&mut bytes, 16, (json.len() as u32).to_le_bytes());
        let crc = crc32c_around(&bytes, CRC_AT);
        put(&mut bytes, CRC_AT, crc.to_le_bytes());
        bytes
    }

    #[test]
    fn numbering_by_file_is_written_and_read_and_its_absence_means_by_run() {
        let by_file = FileHeader { numbering: Numbering::File, ..header("") };
        let text = |header: &FileHeader| String::from_utf8_lossy(&header.encode()).into_owned();
        assert!(text(&by_file).contains(r#""numbering":"file""#));
        assert!(!text(&header("")).contains(r#""numbering":"#));
        assert_eq!(FileHeader::decode(&by_file.encode()).unwrap().0, by_file);
        let said = with_json(&header(""), |json| json["numbering"] = "run".into());
        assert_eq!(FileHeader::decode(&said).unwrap().0, header(""));
    }

    #[test]
    fn a_key_that_is_not_written_is_named_wherever_it_is() {
        type Change = fn(&mut Value);
        let changes: [(Change, Option<&str>); 8] = [
            (|_| (), None),
            (|json| json["variant"] = 0.into(), None),
            (|json| json["superseded"] = serde_json::json!([]), None),
            (|json| json["variant"] = 2.into(), None),
            (|json| json["stages"] = "x".into(), Some("stages")),
            (|json| json["later"] = "x".into(), Some("later")),
            (|json| json["schema"]["sources"][1]["lag"] = true.into(), Some("lag")),
            (|json| json["schema"]["columns"][2]["bits"] = "x".into(), Some("bits")),
        ];
        for (change, expected) in changes {
            let encoded = with_json(&header("config"), change);
            assert_eq!(FileHeader::key_lost(&encoded).unwrap().as_deref(), expected);
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
}
