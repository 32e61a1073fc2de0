//! One channel: a column of the schema, described as a channel.

use catchment_model::{SampleRate, TimeScale};

use crate::column_info::ColumnInfo;
use crate::kinds::{ColumnKind, Dtype};

/// One channel.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelInfo {
    /// The id of its column.
    pub id: u32,
    /// Its name, unique in the file.
    pub name: String,
    /// The type of its samples: a number.
    pub dtype: Dtype,
    /// The shape of one sample; empty for scalars.
    pub shape: Vec<u64>,
    /// Samples per second.
    pub rate: SampleRate,
    /// The epoch from which its times and sample numbers count; the same for all channels of a
    /// file.
    pub time_scale: TimeScale,
    /// The unit of its values.
    pub unit: String,
    /// A value is `raw * scale + offset`; `None` means 1.
    pub scale: Option<f64>,
    /// See `scale`; `None` means 0.
    pub offset: Option<f64>,
    /// The source (link) that delivers it.
    pub source: Option<u32>,
}

impl ChannelInfo {
    /// A channel of scalars in TAI, without unit, scale or source. Its id is set by
    /// [`crate::Schema::with_channels`].
    pub fn new(name: impl Into<String>, dtype: Dtype, rate: SampleRate) -> Self {
        Self {
            id: 0,
            name: name.into(),
            dtype,
            shape: Vec::new(),
            rate,
            time_scale: TimeScale::default(),
            unit: String::new(),
            scale: None,
            offset: None,
            source: None,
        }
    }

    /// Bytes of one sample. The schema has been checked: they fit into 64 bits.
    pub fn sample_bytes(&self) -> u64 {
        let elements = self.shape.iter().fold(1u64, |product, &n| product.saturating_mul(n));
        elements.saturating_mul(self.dtype.bits().unwrap_or(0) / 8)
    }

    /// The channel that a column describes, if it is one.
    pub fn of(column: &ColumnInfo) -> Option<Self> {
        if column.kind != ColumnKind::Channel {
            return None;
        }
        Some(Self {
            id: column.id,
            name: column.name.clone(),
            dtype: column.dtype,
            shape: column.shape.clone(),
            rate: column.rate?,
            time_scale: column.time_scale,
            unit: column.unit.clone(),
            scale: column.scale,
            offset: column.offset,
            source: column.source,
        })
    }

    /// Its column in the schema.
    pub(crate) fn column(self) -> ColumnInfo {
        ColumnInfo {
            source: self.source,
            shape: self.shape,
            name: self.name,
            unit: self.unit,
            rate: Some(self.rate),
            time_scale: self.time_scale,
            scale: self.scale,
            offset: self.offset,
            ..ColumnInfo::new(self.id, ColumnKind::Channel, self.dtype)
        }
    }
}
