//! A frame that owns its columns.

use std::sync::Arc;

use catchment_codec::Coding;
use catchment_encoder::{Ask, Element, Rule};
use catchment_frame::{Dtype, FrameInfo, Schema, encode_ledger_increment, encode_ledger_total};
use catchment_model::Ledger;

/// Consecutive rows on their way into a file. `C` holds the raw bytes of a column.
#[derive(Debug)]
pub struct Frame<C> {
    /// The schema of its columns.
    pub schema: Arc<Schema>,
    /// Its header. File and number are set when it is written.
    pub info: FrameInfo,
    /// In the order in which they are written.
    pub columns: Vec<FrameColumn<C>>,
}

/// One column of a [`Frame`].
#[derive(Debug)]
pub struct FrameColumn<C> {
    /// Its directory entry, except for its bytes.
    pub form: ColumnForm,
    /// How it is encoded.
    pub ask: Ask,
    /// Whether it is so small that the frame's writer encodes it, and not an agent.
    pub is_small: bool,
    /// Its raw bytes.
    pub bytes: C,
}

/// The part of a column's directory entry that does not depend on its bytes.
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
    /// A column that is not a channel's.
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

/// The column with that id that holds the ledger's counts since the frame before, and the counts
/// that only this frame knows: records of the same source and entry add up.
pub fn ledger_column(id: u32, increment: &Ledger, own: &Ledger) -> (ColumnForm, Vec<u8>) {
    let mut records = Vec::new();
    encode_ledger_increment(increment, &mut records);
    encode_ledger_total(own, &mut records);
    let rows = (records.len() / LEDGER_RECORD_BYTES) as u64;
    (ColumnForm::new(id, Dtype::Record, rows), records)
}

const LEDGER_RECORD_BYTES: usize = 16;
