//! A schema with the data that readers derive from it, and the schemas seen before.
//!
//! Every file of a run has the same schema, and the same run is opened again and again. The schema
//! of a thousand channels is a hundred kilobytes of JSON, which take longer to parse than a column
//! takes to read. A schema's text is therefore compared with those parsed before.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::channels::ChannelColumns;
use crate::column_info::{ColumnInfo, elements};
use crate::error::ColumnProblem;
use crate::events::EventColumns;
use crate::frame::ColumnEntry;
use crate::kinds::{ColumnKind, Dtype};
use crate::schema::Schema;

/// A checked schema, and the data derived from it.
#[derive(Debug)]
pub(crate) struct KnownSchema {
    pub schema: Arc<Schema>,
    pub events: EventColumns,
    channels: OnceLock<ChannelColumns>,
    /// For each column in order of id: the layout of its rows.
    rows: Vec<(u32, RowShape)>,
}

impl KnownSchema {
    pub(crate) fn new(schema: Arc<Schema>) -> Self {
        let events = EventColumns::of(&schema);
        let infos = schema.columns.iter();
        let mut rows: Vec<_> = infos.map(|info| (info.id, RowShape::of(info))).collect();
        rows.sort_unstable_by_key(|(id, _)| *id);
        Self { schema, events, channels: OnceLock::new(), rows }
    }

    pub(crate) fn channels(&self) -> &ChannelColumns {
        self.channels.get_or_init(|| ChannelColumns::of(&self.schema))
    }

    /// Whether the schema has a column with that id.
    pub(crate) fn has_column(&self, column: u32) -> bool {
        self.row_shape(column).is_some()
    }

    /// Checks that an entry's type matches the schema, and that its `raw_bytes` follows from rows,
    /// type and shape. A column that the schema does not have may be any whole number of elements
    /// per row.
    pub(crate) fn check_rows(&self, entry: &ColumnEntry) -> Result<(), ColumnProblem> {
        let shape = self.row_shape(entry.id);
        let field = |field, expected, got| Err(ColumnProblem::Field { field, expected, got });
        if entry.dtype.is_unknown() {
            return Ok(());
        }
        let known = shape.map(RowShape::dtype).filter(|dtype| !dtype.is_unknown());
        if known.is_some_and(|dtype| dtype != entry.dtype) {
            return field("dtype", "the schema's", u64::from(entry.dtype.number()));
        }
        let fits = match (entry.dtype.bits(), shape) {
            (_, Some(RowShape::Payload { bytes: Some(bytes), .. })) => {
                entry.rows == entry.raw_bytes / bytes
            }
            (None, _) => true,
            (Some(_), Some(shape)) => {
                let count = entry.rows.checked_mul(shape.elements());
                count.and_then(|count| entry.dtype.bytes_of(count)) == Some(entry.raw_bytes)
            }
            (Some(_), None) if entry.dtype == Dtype::Bits => true,
            (Some(_), None) => match entry.dtype.bytes_of(entry.rows) {
                Some(0) => entry.raw_bytes == 0,
                Some(bytes) => entry.raw_bytes.is_multiple_of(bytes),
                None => false,
            },
        };
        if fits {
            return Ok(());
        }
        field("raw_bytes", "what rows, dtype and shape give", entry.raw_bytes)
    }

    /// Whether the column is a source's payload.
    pub(crate) fn is_payload(&self, column: u32) -> bool {
        matches!(self.row_shape(column), Some(RowShape::Payload { .. }))
    }

    fn row_shape(&self, column: u32) -> Option<RowShape> {
        let index = self.rows.binary_search_by_key(&column, |(id, _)| *id).ok()?;
        Some(self.rows[index].1)
    }
}

/// The layout of a column's rows in the schema.
#[derive(Clone, Copy, Debug)]
enum RowShape {
    /// That many elements of that type per row.
    Elements { dtype: Dtype, elements: u64 },
    /// A source's fragments, which need not be whole arrays: rows are the complete elements or
    /// records of that many bytes, if this version knows the type.
    Payload { dtype: Dtype, bytes: Option<u64> },
}

impl RowShape {
    /// Of a column of a checked schema.
    fn of(info: &ColumnInfo) -> Self {
        let dtype = info.dtype;
        match info.kind {
            ColumnKind::FragmentPayload => Self::Payload { dtype, bytes: info.row_bytes() },
            _ => Self::Elements { dtype, elements: elements(&info.shape).unwrap_or(u64::MAX) },
        }
    }

    fn elements(self) -> u64 {
        match self {
            Self::Elements { elements, .. } => elements,
            Self::Payload { .. } => 1,
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::Elements { dtype, .. } | Self::Payload { dtype, .. } => dtype,
        }
    }
}

/// Texts with their schemas; the most recently used is first.
type Texts = VecDeque<(Box<[u8]>, Arc<KnownSchema>)>;

/// Parsed schemas, by their text; at most 16, and 32 MiB of text.
#[derive(Debug, Default)]
pub struct KnownSchemas {
    schemas: Mutex<Texts>,
}

impl KnownSchemas {
    /// None yet.
    pub const fn new() -> Self {
        Self { schemas: Mutex::new(VecDeque::new()) }
    }

    pub(crate) fn get(&self, text: &[u8]) -> Option<Arc<KnownSchema>> {
        let mut schemas = self.schemas.lock();
        let at = schemas.iter().position(|(known, _)| **known == *text)?;
        let found = schemas.remove(at)?;
        let schema = Arc::clone(&found.1);
        schemas.push_front(found);
        Some(schema)
    }

    pub(crate) fn keep(&self, text: &[u8], schema: &Arc<KnownSchema>) {
        let mut schemas = self.schemas.lock();
        schemas.push_front((text.into(), Arc::clone(schema)));
        let bytes = |schemas: &Texts| schemas.iter().map(|(text, _)| text.len()).sum::<usize>();
        while schemas.len() > SCHEMAS_MAX || bytes(&schemas) > TEXT_BYTES_MAX {
            schemas.pop_back();
        }
    }
}

const SCHEMAS_MAX: usize = 16;
const TEXT_BYTES_MAX: usize = 32 << 20;
