//! A builder with everything around it that a recorder has: segments, a ledger, and the output.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;

use catchment_builder::{
    Builder, BuilderConfig, Cut, Discard, Fragment, Matcher, NumberConfig, NumberMatcher,
    SourceRole, Span,
};
use catchment_model::ledger::Role;
use catchment_model::{Entry, EventFlags, Ledger, Piece};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;

/// One event as it came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub time_ns: u64,
    pub flags: EventFlags,
    /// Per source: offset and bytes. The offset of a fragment without bytes is 0.
    pub fragments: Vec<Option<(u64, u32)>>,
    /// Per source: offset, bytes and time of each of its fragments, where there are several.
    pub pieces: Vec<Vec<(u64, u32, u64)>>,
    /// Per source, whether it was expected.
    pub expected: Vec<bool>,
}

impl Row {
    pub fn present(&self) -> usize {
        self.fragments.iter().flatten().count()
    }
}

pub struct Rig<M: Matcher = NumberMatcher> {
    pub builder: Builder<M>,
    pub rows: BTreeMap<u64, Row>,
    pub ledger: Ledger,
    pub discards: Vec<Discard>,
    pub frame_bytes: Vec<u64>,
    pub frame_rows: Vec<usize>,
    pub end_seen: bool,
    roles: Vec<SourceRole>,
    // The bits that numbers have, by number.
    numbers: u64,
    ends: Vec<u64>,
    spare: Option<Cut>,
    no_source: u64,
}

/// A window of so many events by number, and how far they may be out of order.
pub fn window(window_events: u64, reorder_events: u64) -> NumberConfig {
    NumberConfig { window_events, reorder_events, ..NumberConfig::default() }
}

impl Rig {
    pub fn new(config: BuilderConfig) -> Self {
        Self::by_number(config, NumberConfig::default())
    }

    /// Numbers are so long that they are keys.
    pub fn whole(config: BuilderConfig) -> Self {
        Self::by_number(config, NumberConfig { number_bits: 48, ..NumberConfig::default() })
    }

    pub fn by_number(config: BuilderConfig, number: NumberConfig) -> Self {
        let matcher = NumberMatcher::new(&config, &number).expect("settings that can be");
        let numbers = (1 << number.number_bits) - 1;
        Self { numbers, ..Self::with_matcher(&config, matcher) }
    }

    pub fn required(count: usize) -> Self {
        Self::new(BuilderConfig::new(vec![SourceRole::Required; count]))
    }
}

impl<M: Matcher> Rig<M> {
    pub fn with_matcher(config: &BuilderConfig, matcher: M) -> Self {
        let count = config.sources.len();
        Self {
            roles: config.sources.clone(),
            numbers: u64::MAX,
            builder: Builder::with_matcher(config, matcher).expect("settings that can be"),
            rows: BTreeMap::new(),
            ledger: Ledger::new(count),
            discards: Vec::new(),
            frame_bytes: Vec::new(),
            frame_rows: Vec::new(),
            end_seen: false,
            ends: vec![0; count],
            spare: None,
            no_source: 0,
        }
    }

    /// A fragment at the end of its source's segment.
    pub fn fragment(&mut self, source: usize, number: u64, bytes: u32) -> Fragment {
        let number = number & self.numbers;
        let Some(end) = self.ends.get_mut(source) else {
            return Fragment::new(source as u32, number, 0, bytes);
        };
        let offset = std::mem::replace(end, *end + u64::from(bytes));
        Fragment::new(source as u32, number, offset, bytes)
    }

    pub fn push(&mut self, now_ns: u64, fragments: &[Fragment]) {
        for fragment in fragments {
            match self.ledger.sources.get_mut(fragment.source as usize) {
                Some(source) => source[Entry::FragmentsReceived] += 1,
                None => self.no_source += 1,
            }
        }
        self.builder.push(now_ns, fragments);
    }

    /// Pushes one fragment of 100 bytes for each number.
    pub fn send(&mut self, now_ns: u64, source: usize, numbers: impl IntoIterator<Item = u64>) {
        let fragments: Vec<Fragment> =
            numbers.into_iter().map(|number| self.fragment(source, number, 100)).collect();
        self.push(now_ns, &fragments);
    }

    /// Pushes the same events for several sources.
    pub fn send_all(
        &mut self,
        now_ns: u64,
        sources: impl IntoIterator<Item = usize>,
        numbers: std::ops::Range<u64>,
    ) {
        sources.into_iter().for_each(|source| self.send(now_ns, source, numbers.clone()));
    }

    pub fn poll(&mut self, now_ns: u64) {
        self.builder.poll(now_ns);
        self.collect(now_ns);
    }

    pub fn finish(&mut self, now_ns: u64) {
        self.builder.finish(now_ns);
        self.collect(now_ns);
        let status = self.builder.status();
        let left = (status.fragments_held, status.fragments_unsettled);
        assert_eq!(left, (0, 0), "all is out at the end");
        for (index, source) in self.ledger.sources.iter().enumerate() {
            assert!(source.balance().holds(), "source {index}: {source:?}");
        }
    }

    /// Takes all cuts, counts and discards, and checks the ledger.
    pub fn collect(&mut self, now_ns: u64) {
        while let Some(cut) = self.builder.cut(now_ns, self.spare.take()) {
            self.take(&cut);
            self.spare = Some(cut);
        }
        self.builder.discarded(&mut self.discards);
        let Self { builder, ledger, .. } = self;
        builder.counts(|source, entry, count| ledger.sources[source.index()][entry] += count);
        self.check_ledger();
    }

    pub fn check_ledger(&self) {
        let status = self.builder.status();
        let unsettled = status.fragments_unsettled;
        let held = i128::from(status.fragments_held + unsettled);
        let total = self.ledger.total();
        let counted = total.sum(Role::FragmentsOut) + total.sum(Role::FragmentsLost);
        let received = i128::from(total[Entry::FragmentsReceived]);
        assert_eq!(received - i128::from(counted), held, "{total:?}");
        let not_used = counted - total[Entry::FragmentsRecorded];
        assert_eq!(not_used + unsettled + self.no_source, self.discards.len() as u64);
        assert_eq!(status.fragments_of_no_source, self.no_source);
    }

    pub fn count(&self, source: usize, entry: Entry) -> u64 {
        self.ledger.sources[source][entry]
    }

    pub fn total(&self, entry: Entry) -> u64 {
        self.ledger.total()[entry]
    }

    /// Fragments that came and are in no row, other than repeated ones.
    pub fn lost(&self) -> u64 {
        self.ledger.total().sum(Role::FragmentsLost)
    }

    pub fn complete(&self) -> usize {
        self.rows.values().filter(|row| row.flags == EventFlags::default()).count()
    }

    fn take(&mut self, cut: &Cut) {
        assert!(!cut.keys.is_empty());
        assert!(!self.end_seen, "nothing comes after the end");
        self.end_seen = cut.end_of_run;
        assert_eq!(cut.columns.len(), self.roles.len());
        assert!(cut.times_ns.len() == cut.keys.len() && cut.flags.len() == cut.keys.len());
        let first = self.rows.len();
        for (row, &key) in cut.keys.iter().enumerate() {
            let last = self.rows.last_key_value().map(|(&last, _)| last);
            assert!(last.is_none_or(|last| last < key), "keys ascend: {last:?}, {key}");
            let (time_ns, flags) = (cut.times_ns[row], EventFlags(cut.flags[row]));
            let (fragments, pieces, expected) = (Vec::new(), Vec::new(), Vec::new());
            self.rows.insert(key, Row { time_ns, flags, fragments, pieces, expected });
        }
        assert_eq!(self.rows.len(), first + cut.keys.len());
        for index in 0..cut.columns.len() {
            self.take_column(cut, index);
        }
        let bytes: u64 = cut.columns.iter().map(|column| column.payload_bytes).sum();
        assert_eq!(bytes, cut.payload_bytes);
        self.frame_bytes.push(bytes);
        self.frame_rows.push(cut.keys.len());
    }

    fn take_column(&mut self, cut: &Cut, index: usize) {
        let column = &cut.columns[index];
        assert_eq!(column.lengths.len(), cut.keys.len());
        let mut segment = Segment::of(&column.spans);
        let (mut present, mut missing, mut more) = (0, 0, 0);
        let mut pieces = column.pieces.chunk_by(|one, other| one.row == other.row).peekable();
        let is_set = |bits: &Option<Vec<u8>>, row: usize| {
            bits.as_ref().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1)
        };
        for (row, (&key, &bytes)) in cut.keys.iter().zip(&column.lengths).enumerate() {
            let (valid, expected) = (is_set(&column.validity, row), is_set(&column.expected, row));
            assert!(valid || bytes == 0);
            let several = pieces.next_if(|several| several[0].row == row as u64).unwrap_or(&[]);
            let of_row = segment.take_pieces(several);
            let offset = match &*of_row {
                [] => segment.take(bytes),
                [first, rest @ ..] => {
                    assert!(valid && !rest.is_empty() && column.times[row] == first.2);
                    assert!(of_row.is_sorted_by_key(|piece| piece.2), "in the order of time");
                    assert_eq!(of_row.iter().map(|piece| piece.1).sum::<u32>(), bytes);
                    more += rest.len() as u64;
                    first.0
                }
            };
            present += u64::from(valid);
            missing += u64::from(expected && !valid);
            let row = self.rows.get_mut(&key).expect("a row");
            row.expected.push(expected);
            row.pieces.push(of_row);
            row.fragments.push(valid.then_some((offset, bytes)));
        }
        assert_eq!(segment.here, None, "no byte without a fragment");
        assert!(pieces.next().is_none(), "no piece without a row");
        if let Some(expected) = &column.expected {
            let bits: u64 = expected.iter().map(|byte| u64::from(byte.count_ones())).sum();
            let some_are_not = bits < cut.keys.len() as u64;
            assert!(some_are_not && expected.len() == cut.keys.len().div_ceil(8), "{expected:?}");
        }
        if let Some(validity) = &column.validity {
            let bits: u64 = validity.iter().map(|byte| u64::from(byte.count_ones())).sum();
            assert_eq!(validity.len(), cut.keys.len().div_ceil(8));
            assert_eq!(bits, present, "no bit beyond the rows");
            assert!(present < cut.keys.len() as u64, "a bitmap only where something is missing");
        }
        let is_sparse = self.roles[index] == SourceRole::Sparse;
        assert!(!is_sparse || column.expected.is_none(), "no column says it");
        let required = self.roles[index] == SourceRole::Required;
        assert_eq!(column.missing, if required { missing } else { 0 });
        assert_eq!((column.rows, column.fragments), (present, present + more));
        let lengths: u64 = column.lengths.iter().map(|&bytes| u64::from(bytes)).sum();
        assert_eq!(column.payload_bytes, lengths);
        let source = &mut self.ledger.sources[index];
        source[Entry::FragmentsRecorded] += column.fragments;
        source[Entry::FragmentsMissing] += column.missing;
        source[Entry::FragmentsNotSent] += column.not_sent;
        assert!(column.not_sent <= column.missing);
        source[Entry::FragmentsBadSender] += column.bad_sender;
        source[Entry::FragmentsBadTag] += column.bad_tag;
    }
}

/// The bytes of a column, taken fragment by fragment.
struct Segment<'a> {
    spans: std::slice::Iter<'a, Span>,
    here: Option<Span>,
}

impl<'a> Segment<'a> {
    fn of(spans: &'a [Span]) -> Self {
        let mut spans = spans.iter();
        let here = spans.next().copied();
        Self { spans, here }
    }

    /// The offset of the next fragment; 0 if it has no bytes.
    fn take(&mut self, bytes: u32) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let here = self.here.as_mut().expect("a span for every byte");
        let offset = here.offset;
        here.offset += u64::from(bytes);
        here.bytes = here.bytes.checked_sub(u64::from(bytes)).expect("a fragment whole");
        if here.bytes == 0 {
            self.here = self.spans.next().copied();
        }
        offset
    }

    /// Offset, bytes and time of each piece of a row.
    fn take_pieces(&mut self, pieces: &[Piece]) -> Vec<(u64, u32, u64)> {
        let mut take = |piece: &Piece| {
            let bytes = u32::try_from(piece.bytes).expect("a length");
            (self.take(bytes), bytes, piece.time_ns)
        };
        pieces.iter().map(&mut take).collect()
    }
}
