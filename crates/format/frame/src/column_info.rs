//! One column of the schema: its meaning, and the type of its rows.

use std::collections::HashSet;

use catchment_codec::Element;
use catchment_model::{SampleRate, TimeScale};
use serde::{Deserialize, Serialize};

use crate::error::SchemaError;
use crate::kinds::{ColumnKind, Dtype};

/// One column. Fields that do not apply to its kind have their defaults, as in [`ColumnInfo::new`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnInfo {
    /// Its id in directories.
    pub id: u32,
    /// Its meaning.
    pub kind: ColumnKind,
    /// The source to which it belongs, if any. For a channel: the link that delivers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<u32>,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The shape of one row (a sample of a channel); empty for scalars, and for payload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
    /// Its own name, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The unit of its values, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Channels: samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<SampleRate>,
    /// Channels: the epoch from which times and sample numbers count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub time_scale: TimeScale,
    /// Channels: a value is `raw * scale + offset`; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Channels: see `scale`; absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<f64>,
    /// Payload: the shape of one fragment's array; empty if fragments differ in length.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragment_shape: Vec<u64>,
    /// Payload: bytes at the start of a fragment that are not part of its array.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip: u32,
    /// Payload of records: bytes of one record.
    #[serde(default, skip_serializing_if = "is_default")]
    pub record_bytes: u32,
    /// Payload of records: the fields of a record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldInfo>,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldInfo {
    /// Its name, unique in the record.
    pub name: String,
    /// The type of its elements: any with a whole number of bytes.
    pub dtype: Dtype,
    /// Its shape; empty for scalars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
    /// Its offset from the record's start.
    pub offset: u64,
}

/// The type of a source's fragments, so that they can be read as arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadType {
    /// A number type; [`Dtype::Record`] with `fields`; [`Dtype::U8`] if unknown.
    pub dtype: Dtype,
    /// The shape of one fragment's array; empty if fragments differ in length.
    pub shape: Vec<u64>,
    /// Bytes at the start of a fragment that are not part of its array, such as a protocol's
    /// header.
    pub skip: u32,
    /// Bytes of one record; 0 unless `dtype` is [`Dtype::Record`].
    pub record_bytes: u32,
    /// The fields of a record.
    pub fields: Vec<FieldInfo>,
}

impl ColumnInfo {
    /// A column with defaults for everything else.
    pub fn new(id: u32, kind: ColumnKind, dtype: Dtype) -> Self {
        Self {
            id,
            kind,
            source: None,
            dtype,
            shape: Vec::new(),
            name: String::new(),
            unit: String::new(),
            rate: None,
            time_scale: TimeScale::default(),
            scale: None,
            offset: None,
            fragment_shape: Vec::new(),
            skip: 0,
            record_bytes: 0,
            fields: Vec::new(),
        }
    }

    /// The declared type of the fragments, if this is the payload of a source.
    pub fn payload_type(&self) -> Option<PayloadType> {
        (self.kind == ColumnKind::FragmentPayload).then(|| PayloadType {
            dtype: self.dtype,
            shape: self.fragment_shape.clone(),
            skip: self.skip,
            record_bytes: self.record_bytes,
            fields: self.fields.clone(),
        })
    }

    /// Bytes of one row: of a channel's sample, or of an element or record of payload. `None` if
    /// type and shape do not determine it, and for bits.
    pub fn row_bytes(&self) -> Option<u64> {
        if self.dtype == Dtype::Record {
            return (self.record_bytes > 0).then_some(u64::from(self.record_bytes));
        }
        let bytes = self.dtype.bits().filter(|bits| bits.is_multiple_of(8))? / 8;
        elements(&self.shape)?.checked_mul(bytes)
    }

    /// This column's element type for codecs.
    pub fn element(&self) -> Element {
        match self.dtype {
            Dtype::Record => Element::record(self.record_bytes as usize),
            dtype => dtype.element(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SchemaError> {
        match &self.kind {
            ColumnKind::Unknown(_) => Ok(()),
            ColumnKind::Channel => self.check_channel(),
            ColumnKind::FragmentPayload => self.check_payload(),
            kind => {
                let (_, name, dtype) = ColumnKind::KNOWN
                    .iter()
                    .find(|(known, _, _)| known == kind)
                    .expect("every kind but Unknown is in KNOWN");
                if self.dtype == *dtype && self.shape.is_empty() {
                    return Ok(());
                }
                self.dtype_error(name, dtype.name())
            }
        }
    }

    fn check_channel(&self) -> Result<(), SchemaError> {
        // A type of a later version makes the column unreadable, not the file.
        if !self.dtype.is_number() && !self.dtype.is_unknown() {
            return self.dtype_error("channel", "a number");
        }
        if self.rate.is_none() {
            return self.key("rate", "there");
        }
        if self.name.is_empty() {
            return self.key("name", "there");
        }
        if !elements(&self.shape).is_some_and(|n| (1..=SHAPE_ELEMENTS_MAX).contains(&n)) {
            return self.key("shape", "of 1 to 2^32 elements");
        }
        if !self.scale.is_none_or(|scale| scale.is_finite() && scale != 0.0) {
            return self.key("scale", "a finite number other than 0");
        }
        if !self.offset.is_none_or(f64::is_finite) {
            return self.key("offset", "a finite number");
        }
        Ok(())
    }

    fn check_payload(&self) -> Result<(), SchemaError> {
        if !self.shape.is_empty() {
            return self.key("shape", "absent; a fragment's shape is fragment_shape");
        }
        let is_record = self.dtype == Dtype::Record;
        if !self.dtype.is_number() && !self.dtype.is_unknown() && !is_record {
            return self.dtype_error("fragment_payload", "a number or record");
        }
        if is_record != (self.record_bytes > 0) {
            return self.key("record_bytes", "there for records and only for them");
        }
        let known = self.fragment_shape.is_empty()
            || elements(&self.fragment_shape)
                .is_some_and(|n| (1..=SHAPE_ELEMENTS_MAX).contains(&n));
        if !known {
            return self.key("fragment_shape", "of 1 to 2^32 elements");
        }
        if !is_record && !self.fields.is_empty() {
            return self.key("fields", "absent but for records");
        }
        let mut names = HashSet::new();
        let fits = self.fields.iter().all(|field| {
            let bits = field.dtype.bits().filter(|bits| bits.is_multiple_of(8));
            let bytes = elements(&field.shape).and_then(|n| n.checked_mul(bits? / 8));
            let end = bytes.filter(|&b| b > 0).and_then(|b| b.checked_add(field.offset));
            let within = end.is_some_and(|end| end <= u64::from(self.record_bytes));
            (within || field.dtype.is_unknown()) && names.insert(&field.name)
        });
        if !fits {
            return self.key("fields", "of whole bytes, within the record, of different names");
        }
        Ok(())
    }

    pub(crate) fn key(&self, key: &'static str, expected: &'static str) -> Result<(), SchemaError> {
        Err(SchemaError::ColumnKey { id: self.id, key, expected })
    }

    fn dtype_error(&self, kind: &'static str, expected: &'static str) -> Result<(), SchemaError> {
        let (id, got) = (self.id, self.dtype.name());
        Err(SchemaError::ColumnDtype { id, kind, expected, got })
    }
}

/// Elements of that shape; `None` if 64 bits do not hold the number.
pub(crate) fn elements(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, &n| product.checked_mul(n))
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const SHAPE_ELEMENTS_MAX: u64 = 1 << 32;
