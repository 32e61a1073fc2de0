//! Frames that are made here, not read: those that stand for what cannot be read, and the last one
//! of a run that ended with frames in the spill, which counts what was spilled and forwarded.

use std::sync::Arc;

use catchment_encoder::Done;
use catchment_frame::{EventColumns, FrameInfo, FrameKind, Origin, encode_ledger_total};
use catchment_model::{Entry, Ledger};
use catchment_writer::{EncodedColumn, ledger_column};

use super::Spill;
use crate::column_bytes::ColumnBytes;
use crate::store_feed::{HeldColumn, Outgoing};

impl Spill {
    /// A frame that stands for those from one number to another, which cannot be read, and says
    /// nothing of them.
    pub(crate) fn stand_in(&self, from: u64, until: u64) -> Outgoing {
        let (kind, rows) = (FrameKind::SKIPPED, until.saturating_sub(from).max(1));
        let info = FrameInfo { kind, sequence: from, rows, ..FrameInfo::EMPTY };
        self.made(info, &Ledger::new(self.header.schema.sources.len()))
    }

    /// The number behind the frame that is made of a run that has ended, if there is one.
    pub(super) fn closing_end(&self) -> Option<u64> {
        let is_made = !self.lock.moved.is_empty() && self.ledger_column().is_some();
        self.lock.end.filter(|_| is_made)?.checked_add(1)
    }

    /// That frame, which has no rows: the frames before it do not count as spilled and forwarded
    /// what became so after they were made. `read` are fragments that were read, by source: all
    /// that is forwarded, if some of what was spilled is lost.
    pub(super) fn closing(&self, read: &[u64]) -> Option<Outgoing> {
        let number = self.closing_end()?.checked_sub(1)?;
        let mut moved = Ledger::new(self.header.schema.sources.len());
        let of_each = moved.sources.iter_mut().zip(&self.lock.moved).enumerate();
        for (source, (counts, &[spilled, forwarded])) in of_each {
            let read = read.get(source).copied().unwrap_or(0);
            counts[Entry::FragmentsSpilled] = spilled;
            counts[Entry::FragmentsForwarded] = match self.lock.is_whole() {
                true => forwarded,
                false => forwarded.min(read),
            };
        }
        Some(self.made(FrameInfo { sequence: number, ..FrameInfo::EMPTY }, &moved))
    }

    fn ledger_column(&self) -> Option<u32> {
        EventColumns::of(&self.header.schema).ledger_increment
    }

    /// A frame that has nothing but these increments.
    fn made(&self, info: FrameInfo, increments: &Ledger) -> Outgoing {
        let identity = &self.lock.identity;
        let origin = Origin {
            stream: identity.stream,
            variant: identity.variant,
            epoch: self.header.epoch,
            ..info.origin
        };
        let none = Ledger::new(increments.sources.len());
        let column = self.ledger_column().map(|id| {
            let (form, records) = ledger_column(id, increments, &none);
            let raw_bytes = records.len() as u64;
            let done = Done::as_it_is(ColumnBytes::Own(records));
            let column = Arc::new(EncodedColumn { form, raw_bytes, done });
            HeldColumn { column, is_counted: false }
        });
        let columns: Vec<HeldColumn> = column.into_iter().collect();
        let mut records = Vec::new();
        encode_ledger_total(increments, &mut records);
        let (info, columns_max) = (FrameInfo { origin, ..info }, columns.len() as u32);
        let bytes_max = columns.iter().map(|one| one.column.done.stored_bytes() as u64).sum();
        Outgoing { info, item: None, columns_max, bytes_max, columns, ledger: Some(records) }
    }
}
