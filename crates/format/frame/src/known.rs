//! A schema with what readers derive from it, and those that were met before.
//!
//! Every file of a run has the same schema, and the same run is opened again and again. A schema of
//! a thousand channels is a hundred kilobytes of JSON, which take longer to parse than a column
//! takes to read. So a schema's text is compared with those that were parsed before.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::channels::ChannelColumns;
use crate::events::EventColumns;
use crate::schema::Schema;
use crate::stored::RowShape;

/// A schema that was checked, and what follows from it.
#[derive(Debug)]
pub(crate) struct KnownSchema {
    pub schema: Arc<Schema>,
    pub events: EventColumns,
    channels: OnceLock<ChannelColumns>,
    /// For each column by rising id: what its rows are.
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

    pub(crate) fn row_shape(&self, column: u32) -> Option<RowShape> {
        let at = self.rows.binary_search_by_key(&column, |(id, _)| *id).ok()?;
        Some(self.rows[at].1)
    }
}

/// Texts with their schemas; the one used last is first.
type Texts = VecDeque<(Box<[u8]>, Arc<KnownSchema>)>;

/// Schemas that were parsed, by their text; at most 16, and 32 MiB of text.
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
