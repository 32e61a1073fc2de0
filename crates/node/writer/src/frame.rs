//! A frame that owns its columns.

use std::sync::Arc;

use catchment_codec::Coding;
use catchment_encoder::{Ask, Element, Rule};
use catchment_frame::{Dtype, FrameInfo, Schema, encode_ledger_increment, encode_ledger_total};
use catchment_model::Ledger;

/// Consecutive rows on their way into a file. `C` has the raw bytes of a column.
#[derive(Debug)]
pub struct Frame<C> {
    /// What its columns are.
    pub schema: Arc<Schema>,
    /// What its header says. File and number are set when it is written.
    pub info: FrameInfo,
    /// In the order in which they are written.
    pub columns: Vec<FrameColumn<C>>,
}

/// One column of a [`Frame`].
#[derive(Debug)]
pub struct FrameColumn<C> {
    /// What it is, but for its bytes.
    pub form: ColumnForm,
    /// How it is encoded.
    pub ask: Ask,
    /// Whether it is so small that it is encoded where the frame is written, and not by an agent.
    pub is_small: bool,
    /// Its raw bytes.
    pub bytes: C,
}

/// What the directory of a frame says of a column, whatever its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnForm {
    /// Its id in the schema.
    pub id: u32,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its rows.
    pub rows: u64,
    /// Of a channel: the first sample's number.
    pub first_sample: u64,
    /// Of a channel: the first sample's time, in nanoseconds of its time scale.
    pub start_ns: u64,
}

impl ColumnForm {
    /// A column that is no channel's.
    pub fn new(id: u32, dtype: Dtype, rows: u64) -> Self {
        Self { id, dtype, rows, first_sample: 0, start_ns: 0 }
    }
}

impl<C> FrameColumn<C> {
    /// A column of few bytes.
    pub fn small(form: ColumnForm, element: Element, coding: Coding, bytes: C) -> Self {
        Self { form, ask: Ask::new(element, Rule::Fixed(coding)), is_small: true, bytes }
    }
}

/// The column of that id which says what the ledger counted since the frame before, and what only
/// this frame can say: records of the same source and entry add up.
pub fn ledger_column(id: u32, increment: &Ledger, own: &Ledger) -> (ColumnForm, Vec<u8>) {
    let mut records = Vec::new();
    encode_ledger_increment(increment, &mut records);
    encode_ledger_total(own, &mut records);
    let rows = (records.len() / LEDGER_RECORD_BYTES) as u64;
    (ColumnForm::new(id, Dtype::Record, rows), records)
}

const LEDGER_RECORD_BYTES: usize = 16;
