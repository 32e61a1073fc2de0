//! What was forwarded from a spill after its run's end, in the run's record.

use std::collections::BTreeMap;

use catchment_frame::{LocationKind, RunLocation};
use catchment_model::{Entry, RunId};
use rusqlite::{Connection, OptionalExtension};

use crate::catalog::Catalog;
use crate::error::CatalogError;
use crate::remarks::Remark;
use crate::row::{self, RunDetail};
use crate::{locations, target_sources};

/// What is entered of a run of which everything is forwarded that a target had left in its spill.
#[derive(Clone, Debug)]
pub struct SpillForwarded<'a> {
    /// The target's name.
    pub target: &'a str,
    /// Where the run's frames are now.
    pub locations: &'a [RunLocation],
    /// Fragments that were forwarded since the run's end, by source, at least.
    pub fragments: BTreeMap<&'a str, u64>,
    /// Whether all that was spilled is: nothing of it was lost.
    pub is_whole: bool,
    /// What is to be said of it, if anything.
    pub remark: Option<&'a Remark>,
}

impl Catalog {
    /// The run with that identity of which frames wait in that spill, under that name, as far as
    /// the catalogue knows.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn in_spill(
        &self,
        id: RunId,
        spill: &str,
        name: &str,
    ) -> Result<Option<RunDetail>, CatalogError> {
        let sql = "SELECT runs.number FROM runs JOIN locations ON locations.run = runs.number \
            WHERE runs.id = ?1 AND locations.kind = ?2 AND locations.address = ?3 \
            AND locations.name = ?4 ORDER BY runs.number DESC LIMIT 1";
        let values = (id.to_string(), LocationKind::Spill.name(), spill, name);
        let found = |connection: &Connection| {
            connection.query_row(sql, values, |row| row.get(0)).optional()
        };
        self.read(found)?.map(|number| self.run(row::out(number))).transpose()
    }

    /// Enters what was forwarded of a run.
    ///
    /// # Errors
    /// A catalogue that cannot be written.
    pub fn enter_forwarded(
        &mut self,
        number: u64,
        forwarded: &SpillForwarded<'_>,
    ) -> Result<(), CatalogError> {
        self.write(|connection| {
            locations::put(connection, number, forwarded.locations)?;
            put_ledgers(connection, number, forwarded)?;
            if let Some(remark) = forwarded.remark {
                // Where there are too many, the ledgers say it all the same.
                let _added = remark.add(connection, number)?;
            }
            Ok(())
        })
    }
}

/// The target's ledger counts it, and the run's if that is the target's.
fn put_ledgers(
    connection: &Connection,
    run: u64,
    forwarded: &SpillForwarded<'_>,
) -> rusqlite::Result<()> {
    let [spilled, there] =
        [Entry::FragmentsSpilled, Entry::FragmentsForwarded].map(|entry| entry.name().to_owned());
    let mut all = target_sources::of_run(connection, run)?;
    let (mut sum, mut sum_there) = (0_u64, 0_u64);
    for one in all.iter_mut().filter(|one| one.target == forwarded.target) {
        let of = |name: &String| one.entries.get(name).copied().unwrap_or(0);
        let count = of(&spilled);
        let more = forwarded.fragments.get(&*one.source).copied().unwrap_or(0);
        let now = match forwarded.is_whole {
            true => count,
            false => of(&there).saturating_add(more).min(count),
        };
        (sum, sum_there) = (sum.saturating_add(count), sum_there.saturating_add(now));
        if now > 0 {
            one.entries.insert(there.clone(), now);
        }
    }
    target_sources::put(connection, run, &all)?;
    let mut ledger = row::ledger_of(connection, run)?;
    if sum_there > 0 && ledger.iter().any(|(name, count)| *name == spilled && *count == sum) {
        ledger.retain(|(name, _)| *name != there);
        ledger.push((there, sum_there));
        row::put_ledger(connection, run, &ledger)?;
    }
    Ok(())
}
