//! The schema: sources, and the possible columns of frames.

use std::collections::HashSet;

use catchment_model::SourceId;
use catchment_model::limits::SOURCES_MAX;
use serde::{Deserialize, Serialize};

use crate::SCHEMA_COLUMNS_MAX;
use crate::channel_info::ChannelInfo;
use crate::column_info::{ColumnInfo, PayloadType};
use crate::error::SchemaError;
use crate::kinds::{ColumnKind, Dtype};

/// Sources and columns of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// The sources; a source's id is its index.
    #[serde(default)]
    pub sources: Vec<SourceInfo>,
    /// The possible columns of frames.
    #[serde(default)]
    pub columns: Vec<ColumnInfo>,
    /// Channels of the run that are not in the files of this variant (1.3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels_not_stored: Vec<ColumnInfo>,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// Its number, which is also its index in the schema.
    pub id: u32,
    /// Its name, unique in the run.
    pub name: String,
    /// Its group; may be empty.
    #[serde(default)]
    pub group: String,
    /// The form in which its fragments were received, for example `hadtu`.
    #[serde(default)]
    pub protocol: String,
    /// Whether an event without it is incomplete.
    #[serde(default = "yes")]
    pub required: bool,
    /// The reasons for which its packets are refused, as named by its protocol, in the order of the
    /// ledger's indices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed_reasons: Vec<String>,
    /// Whether its data are in the files of this variant (1.3): otherwise it has no column, no
    /// ledger, and is not required.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub stored: bool,
    /// Whether it may be in an event or not (1.3): of an event without it, it was not expected.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sparse: bool,
}

impl Schema {
    /// The sources alone, without columns.
    pub fn new(sources: Vec<SourceInfo>) -> Self {
        Self { sources, ..Self::default() }
    }

    /// The schema of a variant that has these sources, by id, of the present one, and of their
    /// channels those whose columns, by id, it has.
    #[must_use]
    pub fn of_variant(&self, stored: &[bool], has_channel: impl Fn(u32) -> bool) -> Self {
        let is_stored = |id: u32| stored.get(id as usize).copied().unwrap_or(true);
        let source = |source: &SourceInfo| match is_stored(source.id) {
            true => source.clone(),
            false => SourceInfo { stored: false, required: false, ..source.clone() },
        };
        let is_channel = |column: &ColumnInfo| column.kind == ColumnKind::Channel;
        let has = |column: &&ColumnInfo| {
            column.source.is_none_or(is_stored) && (!is_channel(column) || has_channel(column.id))
        };
        let (columns, others): (Vec<_>, Vec<_>) = self.columns.iter().partition(has);
        let channels = others.into_iter().filter(|column| is_channel(column));
        let before = self.channels_not_stored.iter();
        Self {
            sources: self.sources.iter().map(source).collect(),
            columns: columns.into_iter().cloned().collect(),
            channels_not_stored: before.chain(channels).cloned().collect(),
        }
    }

    /// The columns of built events: key, time, flags, ledger increments, and lengths, validity and
    /// payload of each source.
    ///
    /// # Panics
    /// If a source's id is not its index.
    pub fn events(sources: Vec<SourceInfo>) -> Self {
        let column = |id, kind: ColumnKind, dtype, unit: &str, source| ColumnInfo {
            source,
            unit: unit.to_owned(),
            ..ColumnInfo::new(id, kind, dtype)
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
        let schema = Self { sources, columns, ..Self::default() };
        if let Err(error) = schema.check() {
            panic!("{error}");
        }
        schema
    }

    /// Only the columns of continuous channels: ledger increments, spans, and the channels in
    /// order.
    ///
    /// # Errors
    /// As [`Schema::with_channels`].
    pub fn channels(
        sources: Vec<SourceInfo>,
        channels: Vec<ChannelInfo>,
    ) -> Result<Self, SchemaError> {
        Self::new(sources).with_channels(channels)
    }

    /// This schema with channels added. Their columns get ids after the existing ones, in the order
    /// given; [`ChannelInfo::id`] is ignored. Columns for spans and for ledger increments are added
    /// if there are none.
    ///
    /// # Errors
    /// Any error that [`Schema::check`] finds.
    pub fn with_channels(mut self, channels: Vec<ChannelInfo>) -> Result<Self, SchemaError> {
        for kind in [ColumnKind::LedgerIncrement, ColumnKind::ChannelSpans] {
            if self.columns.iter().all(|column| column.kind != kind) {
                self.add(ColumnInfo::new(0, kind, Dtype::Record));
            }
        }
        // The limit is checked first, so ids cannot run out.
        let count = self.columns.len() + channels.len();
        if count > SCHEMA_COLUMNS_MAX {
            return Err(SchemaError::TooMany { what: "columns", count, max: SCHEMA_COLUMNS_MAX });
        }
        let next = self.next_id();
        let columns =
            channels.into_iter().zip(next..).map(|(channel, id)| ChannelInfo { id, ..channel });
        self.columns.extend(columns.map(ChannelInfo::column));
        self.check()?;
        Ok(self)
    }

    /// This schema with a column of the sources' positions behind all others.
    #[must_use]
    pub fn with_positions(mut self) -> Self {
        self.add(ColumnInfo::new(0, ColumnKind::SourcePositions, Dtype::Record));
        self
    }

    /// This schema with a column that says in which events each of these sources was expected,
    /// behind all others.
    #[must_use]
    pub fn with_expected(mut self, sources: impl IntoIterator<Item = SourceId>) -> Self {
        for SourceId(source) in sources {
            let column = ColumnInfo::new(0, ColumnKind::FragmentExpected, Dtype::Bits);
            self.add(ColumnInfo { source: Some(source), ..column });
        }
        self
    }

    /// This schema with a column for the holes in the fragments of each of these sources, behind
    /// all others.
    #[must_use]
    pub fn with_holes(mut self, sources: impl IntoIterator<Item = SourceId>) -> Self {
        for SourceId(source) in sources {
            let column = ColumnInfo::new(0, ColumnKind::FragmentHoles, Dtype::Record);
            self.add(ColumnInfo { source: Some(source), ..column });
        }
        self
    }

    /// This schema with a column of the own times of each of these sources' fragments, behind all
    /// others; the keys are times in ns.
    #[must_use]
    pub fn with_times(mut self, sources: impl IntoIterator<Item = SourceId>) -> Self {
        let keys = self.columns.iter_mut().filter(|column| column.kind == ColumnKind::EventKey);
        keys.for_each(|column| column.unit = "ns".to_owned());
        for SourceId(source) in sources {
            let column = ColumnInfo::new(0, ColumnKind::FragmentTime, Dtype::U64);
            self.add(ColumnInfo { source: Some(source), ..column });
        }
        self
    }

    /// This schema with a column for the pieces of rows that have several fragments of each of
    /// these sources, behind all others.
    #[must_use]
    pub fn with_pieces(mut self, sources: impl IntoIterator<Item = SourceId>) -> Self {
        for SourceId(source) in sources {
            let column = ColumnInfo::new(0, ColumnKind::FragmentPieces, Dtype::Record);
            self.add(ColumnInfo { source: Some(source), ..column });
        }
        self
    }

    /// This schema with the type of a source's fragments.
    ///
    /// # Errors
    /// If the schema has no payload of that source, or the type is impossible.
    pub fn with_payload_type(
        mut self,
        source: SourceId,
        payload: PayloadType,
    ) -> Result<Self, SchemaError> {
        let sources = self.sources.len();
        let of_source = |c: &&mut ColumnInfo| {
            c.source == Some(source.0) && c.kind == ColumnKind::FragmentPayload
        };
        let Some(column) = self.columns.iter_mut().find(of_source) else {
            return Err(SchemaError::ColumnSource { id: u32::MAX, got: source.0, sources });
        };
        column.dtype = payload.dtype;
        column.fragment_shape = payload.shape;
        column.skip = payload.skip;
        column.record_bytes = payload.record_bytes;
        column.fields = payload.fields;
        self.check()?;
        Ok(self)
    }

    fn next_id(&self) -> u32 {
        let all = self.columns.iter().chain(&self.channels_not_stored);
        all.map(|column| column.id.saturating_add(1)).max().unwrap_or(0)
    }

    fn add(&mut self, column: ColumnInfo) {
        let id = self.next_id();
        self.columns.push(ColumnInfo { id, ..column });
    }

    /// The id of the column of that kind, and of that source if it belongs to one.
    pub fn column(&self, source: Option<SourceId>, kind: &ColumnKind) -> Option<u32> {
        let source = source.map(|source| source.0);
        self.columns.iter().find(|c| c.source == source && c.kind == *kind).map(|c| c.id)
    }

    /// Whether frames can state how far each source was decided.
    pub(crate) fn has_positions(&self) -> bool {
        self.columns.iter().any(|column| column.kind == ColumnKind::SourcePositions)
    }

    /// Checks ids and references.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), SchemaError> {
        let bounds = [
            ("sources", self.sources.len(), SOURCES_MAX),
            ("columns", self.columns.len(), SCHEMA_COLUMNS_MAX),
            ("channels", self.channels_not_stored.len(), SCHEMA_COLUMNS_MAX),
        ];
        if let Some((what, count, max)) = bounds.into_iter().find(|(_, count, max)| count > max) {
            return Err(SchemaError::TooMany { what, count, max });
        }
        for (index, source) in self.sources.iter().enumerate() {
            if source.id as usize != index {
                return Err(SchemaError::SourceId { index, got: source.id });
            }
            if !source.stored && source.required {
                return Err(SchemaError::RequiredNotStored { id: source.id });
            }
            if source.sparse && source.required {
                return Err(SchemaError::RequiredSparse { id: source.id });
            }
        }
        let mut ids = HashSet::with_capacity(self.columns.len());
        let sources = self.sources.len();
        for column in self.columns.iter().chain(&self.channels_not_stored) {
            if !ids.insert(column.id) {
                return Err(SchemaError::ColumnTwice { id: column.id });
            }
            column.check()?;
            if let Some(got) = column.source.filter(|&source| source as usize >= sources) {
                return Err(SchemaError::ColumnSource { id: column.id, got, sources });
            }
        }
        for column in &self.columns {
            if let Some(source) = column.source.filter(|&id| !self.sources[id as usize].stored) {
                return Err(SchemaError::ColumnNotStored { id: column.id, source_id: source });
            }
        }
        if let Some(other) = self.channels_not_stored.iter().find(|c| c.kind != ColumnKind::Channel)
        {
            return other.key("kind", "channel in channels_not_stored");
        }
        self.check_channels()
    }

    /// Rules among channels: names differ, one time scale, one column for spans.
    fn check_channels(&self) -> Result<(), SchemaError> {
        let all = || self.columns.iter().chain(&self.channels_not_stored);
        let channels = || all().filter(|c| c.kind == ColumnKind::Channel);
        let mut names = HashSet::new();
        let time_scale = channels().next().map(|first| first.time_scale);
        for channel in channels() {
            if !names.insert(channel.name.as_str()) {
                return Err(SchemaError::ChannelTwice { name: channel.name.clone() });
            }
            if Some(channel.time_scale) != time_scale {
                return channel.key("time_scale", "the same for all channels of a file");
            }
        }
        let mut spans = self.columns.iter().filter(|c| c.kind == ColumnKind::ChannelSpans);
        match spans.nth(1) {
            Some(second) => second.key("kind", "channel_spans in one column only"),
            None => Ok(()),
        }
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn is_true(value: &bool) -> bool {
    *value
}

#[cfg(test)]
mod tests {
    use catchment_model::{SampleRate, TimeScale};

    use super::*;
    use crate::column_info::FieldInfo;

    fn source(id: u32) -> SourceInfo {
        SourceInfo {
            id,
            name: format!("board-{id}"),
            group: String::new(),
            protocol: "hadtu".into(),
            required: true,
            malformed_reasons: Vec::new(),
            stored: true,
            sparse: false,
        }
    }

    fn events() -> Schema {
        Schema::events((0..2).map(source).collect())
    }

    fn channel(name: &str) -> ChannelInfo {
        let rate = SampleRate::new(16_384, 1).expect("a rate");
        ChannelInfo::new(name, Dtype::F32, rate)
    }

    fn key_of(error: &SchemaError) -> &'static str {
        match error {
            SchemaError::ColumnKey { key, .. } => key,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn schemas_that_contradict_themselves_are_refused() {
        let good = events();
        assert_eq!(good.check(), Ok(()));
        let mut bad = good.clone();
        bad.sources[1].id = 5;
        assert_eq!(bad.check(), Err(SchemaError::SourceId { index: 1, got: 5 }));
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

    #[test]
    fn events_and_channels_share_a_schema() {
        let schema = events().with_channels(vec![channel("A"), channel("B")]).expect("a schema");
        assert_eq!(schema.columns[..10], events().columns[..]);
        assert_eq!(schema.column(None, &ColumnKind::ChannelSpans), Some(10));
        let ids: Vec<_> = schema.columns.iter().map(|c| c.id).collect();
        assert_eq!(ids, (0..13).collect::<Vec<_>>());
        // A second call adds more.
        let more = schema.clone().with_channels(vec![channel("C")]).expect("a schema");
        assert_eq!(more.columns.len(), 14);
        let twice = schema.with_channels(vec![channel("A")]);
        assert_eq!(twice, Err(SchemaError::ChannelTwice { name: "A".into() }));
        let alone = Schema::channels(vec![source(0)], vec![channel("A")]).expect("a schema");
        assert_eq!(alone.columns.iter().map(|c| c.id).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_variant_describes_the_channels_that_it_does_not_have() {
        let of = |name, source| ChannelInfo { source: Some(source), ..channel(name) };
        let channels = vec![of("A", 0), of("B", 0), of("C", 1)];
        let full = Schema::channels(vec![source(0), source(1)], channels).expect("a schema");
        let [_, _, a, b, c] = [0, 1, 2, 3, 4].map(|id| full.columns[id].clone());
        let part = full.of_variant(&[true, false], |id| id != b.id);
        assert_eq!(part.columns[2..], [a]);
        assert_eq!(part.channels_not_stored, [b.clone(), c]);
        assert_eq!(part.sources.iter().map(|one| one.stored).collect::<Vec<_>>(), [true, false]);
        assert_eq!(part.check(), Ok(()));
        let json = serde_json::to_string(&part).expect("JSON");
        assert_eq!(serde_json::from_str::<Schema>(&json).expect("reads"), part);
        // Names and ids are those of the whole run.
        let mut twice = part.clone();
        twice.columns.push(ColumnInfo { id: 9, ..b.clone() });
        assert_eq!(twice.check(), Err(SchemaError::ChannelTwice { name: "B".into() }));
        let mut twice = part.clone();
        twice.columns[0].id = b.id;
        assert_eq!(twice.check(), Err(SchemaError::ColumnTwice { id: b.id }));
        let mut other = part;
        other.channels_not_stored[0] = ColumnInfo::new(b.id, ColumnKind::EventKey, Dtype::U64);
        assert_eq!(key_of(&other.check().expect_err("refused")), "kind");
    }

    #[test]
    fn channels_that_cannot_be_are_refused() {
        let check = |change: &dyn Fn(&mut ChannelInfo)| {
            let mut other = channel("B");
            change(&mut other);
            Schema::channels(Vec::new(), vec![channel("A"), other]).expect_err("refused")
        };
        let text = |error: SchemaError| error.to_string();
        assert!(text(check(&|c| c.dtype = Dtype::Bits)).contains("a number, not bits"));
        assert!(text(check(&|c| c.dtype = Dtype::Record)).contains("a number, not record"));
        assert_eq!(key_of(&check(&|c| c.name.clear())), "name");
        assert_eq!(key_of(&check(&|c| c.shape = vec![4, 0])), "shape");
        assert_eq!(key_of(&check(&|c| c.shape = vec![1 << 40, 1 << 40])), "shape");
        assert_eq!(key_of(&check(&|c| c.scale = Some(f64::NAN))), "scale");
        assert_eq!(key_of(&check(&|c| c.scale = Some(0.0))), "scale");
        assert_eq!(key_of(&check(&|c| c.offset = Some(f64::INFINITY))), "offset");
        assert_eq!(key_of(&check(&|c| c.time_scale = TimeScale::Gps)), "time_scale");
        assert!(matches!(check(&|c| c.source = Some(0)), SchemaError::ColumnSource { .. }));
        let mut schema = Schema::channels(Vec::new(), vec![channel("A")]).expect("a schema");
        schema.columns[2].rate = None;
        assert_eq!(key_of(&schema.check().expect_err("refused")), "rate");
        schema.columns[2] = ColumnInfo::new(9, ColumnKind::ChannelSpans, Dtype::Record);
        assert_eq!(key_of(&schema.check().expect_err("refused")), "kind");
    }

    #[test]
    fn what_a_source_says_of_its_fragments_is_checked() {
        let field = |name: &str, dtype, offset| FieldInfo {
            name: name.into(),
            dtype,
            shape: Vec::new(),
            offset,
        };
        let array = PayloadType {
            dtype: Dtype::I16,
            shape: vec![1_024],
            skip: 16,
            record_bytes: 0,
            fields: Vec::new(),
        };
        let records = PayloadType {
            dtype: Dtype::Record,
            shape: Vec::new(),
            skip: 0,
            record_bytes: 12,
            fields: vec![field("time", Dtype::U64, 0), field("adc", Dtype::U16, 8)],
        };
        for good in [&array, &records] {
            let schema = events().with_payload_type(SourceId(1), good.clone()).expect("a schema");
            assert_eq!(schema.columns[9].payload_type().as_ref(), Some(good));
            let json = serde_json::to_string(&schema).expect("JSON");
            assert_eq!(serde_json::from_str::<Schema>(&json).expect("reads"), schema);
        }
        let check = |payload: PayloadType| {
            events().with_payload_type(SourceId(0), payload).expect_err("refused")
        };
        let bits = PayloadType { dtype: Dtype::Bits, ..array.clone() };
        assert!(matches!(check(bits), SchemaError::ColumnDtype { .. }));
        let empty = PayloadType { shape: vec![0], ..array.clone() };
        assert_eq!(key_of(&check(empty)), "fragment_shape");
        let sized = PayloadType { record_bytes: 4, ..array.clone() };
        assert_eq!(key_of(&check(sized)), "record_bytes");
        let unsized_records = PayloadType { record_bytes: 0, ..records.clone() };
        assert_eq!(key_of(&check(unsized_records)), "record_bytes");
        for wrong in [
            field("adc", Dtype::U64, 8),
            field("adc", Dtype::U64, u64::MAX),
            field("time", Dtype::U8, 8),
            field("adc", Dtype::Bits, 8),
        ] {
            let fields = vec![field("time", Dtype::U64, 0), wrong];
            assert_eq!(key_of(&check(PayloadType { fields, ..records.clone() })), "fields");
        }
        assert!(events().with_payload_type(SourceId(2), array).is_err());
    }
}
