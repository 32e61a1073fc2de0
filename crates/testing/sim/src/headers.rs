//! Frame headers and rows: ranges of times and keys, and the time and flags of each event.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::detector::SentFragment;
use crate::plan::{MS, S};
use crate::recorder::Life;
use crate::walk::{WalkedFrame, WalkedRow, u64_at};
use crate::world::Outcome;

/// Checks the ranges in the header of a frame of events.
///
/// # Errors
/// A range that does not match the rows.
pub fn check_ranges(frame: &WalkedFrame, rows: &[WalkedRow]) -> Result<(), String> {
    let times = || rows.iter().map(|row| row.time_ns);
    let keys = || rows.iter().map(|row| row.key);
    let ranges = [
        ("first time", 56, times().min()),
        ("last time", 64, times().max()),
        ("first key", 72, keys().min()),
        ("last key", 80, keys().max()),
    ];
    for (name, at, expected) in ranges {
        let (found, expected) = (u64_at(&frame.header, at), expected.unwrap_or(0));
        if found != expected {
            let frame = frame.sequence;
            return Err(format!("frame {frame}: its {name} is {found}, of its rows {expected}"));
        }
    }
    Ok(())
}

/// Checks that samples of a channel are within the time that their frame covers.
///
/// # Errors
/// The first or the last sample that is not.
pub fn check_samples(
    frame: &WalkedFrame,
    numbers: Range<u64>,
    (num, den): (u64, u64),
) -> Result<(), String> {
    let time_ns =
        |number: u64| u128::from(number) * u128::from(den) * 1_000_000_000 / u128::from(num);
    let (from, until) = (u64_at(&frame.header, 56), u64_at(&frame.header, 64));
    let covered = u128::from(from)..u128::from(until);
    for number in [numbers.start, numbers.end.saturating_sub(1)] {
        if !numbers.is_empty() && !covered.contains(&time_ns(number)) {
            let sequence = frame.sequence;
            return Err(format!("sample {number} is not in {covered:?} of frame {sequence}"));
        }
    }
    Ok(())
}

/// Checks a row's flags, and that its time is when the first of its fragments arrived. It lacks a
/// required source, or none. Nothing is known of fragments that may be forged; several `triggers`
/// may fit empty fragments.
///
/// # Errors
/// The first check that failed.
pub fn check_row(
    (outcome, life): (&Outcome, &Life),
    (row, is_incomplete): (&WalkedRow, bool),
    fragments: &[(usize, u64, Vec<SentFragment>)],
    triggers: &BTreeSet<u64>,
) -> Result<(), String> {
    let sources = &outcome.plan.sources;
    let reasons = (row.flags & REASONS).count_ones();
    // Whole sub-events have the same tag; front-ends say 0, which is none, as the protocol of parts
    // has none.
    let expected = u32::from(is_incomplete);
    if row.flags & !REASONS != expected || reasons > u32::from(is_incomplete) {
        let (key, flags) = (row.key, row.flags);
        return Err(format!("event {key}: its flags are {flags:#b}, expected {expected:#b}"));
    }
    // The earliest and the latest time at which the first of them arrived, whichever event it is.
    let (mut earliest, mut latest) = (u64::MAX, u64::MAX);
    for (source, _, candidates) in fragments {
        let whole_ns = |fragment: &SentFragment| {
            let index = outcome.sent.sources[*source].index_of(fragment.trigger)?;
            life.arrivals[*source].of(index)?.whole_ns
        };
        let fits = |one: &&SentFragment| triggers.is_empty() || triggers.contains(&one.trigger);
        let whole: Vec<u64> = candidates.iter().filter(fits).filter_map(whole_ns).collect();
        let (Some(&first), Some(&last)) = (whole.iter().min(), whole.iter().max()) else {
            return Err(format!("event {}: the fragment of s{source} never arrived", row.key));
        };
        // What comes over a connection may wait for memory.
        let last = if sources[*source].waits() { u64::MAX } else { last };
        (earliest, latest) = (earliest.min(first), latest.min(last));
    }
    let time_ns = row.time_ns;
    // What comes beside the backlog of front-ends' connections waits for its turn.
    let turn_ns = if outcome.plan.senders.is_empty() { 0 } else { S };
    if time_ns < earliest || latest < u64::MAX && time_ns > latest_ns(life, latest) + turn_ns {
        let key = row.key;
        return Err(format!("event {key}: its time is {time_ns}, it arrived at {earliest}"));
    }
    Ok(())
}

/// When data that arrived at that time are processed at the latest: soon, or after the stalls in
/// between.
fn latest_ns(life: &Life, arrived_ns: u64) -> u64 {
    let mut stalls = life.stalls.clone();
    stalls.sort_unstable();
    let mut latest_ns = arrived_ns + SLACK_NS;
    for (from_ns, until_ns) in stalls {
        // Data that pile up in a stall take a while to process.
        let is_met = from_ns <= latest_ns && arrived_ns <= until_ns + S;
        latest_ns = if is_met { latest_ns.max(until_ns + S) } else { latest_ns };
    }
    latest_ns
}

/// The longest time that agents take to process arrivals if none of them is stopped.
const SLACK_NS: u64 = 100 * MS;
/// Why an incomplete event was closed: timed out, overtaken, or the run ended.
const REASONS: u32 = 0b10_0110;
