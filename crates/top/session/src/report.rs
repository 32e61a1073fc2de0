//! The report on a recording that has ended, as text and as JSON.

use catchment_console::{Exit, Out};
use catchment_frame::SourceInfo;
use catchment_model::units::{Bytes, Count, grouped, percent_of};
use catchment_model::{Entry, Ledger, SourceLedger};
use catchment_recorder::{Counts, Fill, State};
use serde::Serialize;

use crate::session::{Recording, Sockets, fault};
use crate::view::{bad_reasons, has_slices, loss_reasons, warnings};

/// A recording in figures.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub(crate) run: String,
    pub(crate) folder: String,
    pub(crate) files: Vec<String>,
    pub(crate) engine: &'static str,
    pub(crate) seconds: f64,
    pub(crate) state: State,
    pub(crate) faults: u64,
    pub(crate) counts: Counts,
    pub(crate) events_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) books: Balance,
    pub(crate) cpu_percent: serde_json::Map<String, serde_json::Value>,
    pub(crate) fills: Vec<Fill>,
    pub(crate) warnings: Vec<String>,
    pub(crate) sockets: Sockets,
    /// The newest malformed packet.
    pub(crate) malformed: Option<Malformed>,
}

/// A packet that was dropped, for diagnosis.
#[derive(Debug, Serialize)]
pub struct Malformed {
    pub(crate) source: String,
    pub(crate) reason: String,
    /// In hexadecimal.
    pub(crate) first_bytes: String,
}

/// A ledger's totals and what they mean.
#[derive(Debug, Serialize)]
pub struct Balance {
    /// Whether the run has ended: before that, data in flight are unaccounted for.
    pub judged: bool,
    /// Whether everything is explained.
    pub balanced: bool,
    /// Whether anything that was sent is in no file.
    pub lost_data: bool,
    /// How many recorded fragments are bad: broken, or of another event.
    pub fragments_bad: u64,
    /// Fragments that the network lost.
    pub fragments_lost: u64,
    /// Fragments that came in and are in no file.
    pub fragments_dropped: u64,
    /// Packets that were dropped as malformed.
    pub packets_malformed: u64,
    /// Every entry of the ledger, summed over the sources.
    pub total: serde_json::Map<String, serde_json::Value>,
}

impl Balance {
    /// The balance of a ledger at rest.
    pub fn of(ledger: &Ledger) -> Self {
        let balance = ledger.balance();
        Self {
            judged: true,
            balanced: balance.holds(),
            lost_data: balance.lost_data(),
            fragments_bad: ledger.bad_data(),
            fragments_lost: balance.fragments_lost,
            fragments_dropped: balance.fragments_dropped,
            packets_malformed: balance.packets_malformed,
            total: entries(&ledger.total()),
        }
    }
}

/// A ledger's entries by name.
pub fn entries(ledger: &SourceLedger) -> serde_json::Map<String, serde_json::Value> {
    ledger.iter().map(|(entry, count)| (entry.name().to_owned(), count.into())).collect()
}

/// The malformed packets of a source by its own reasons, where there are any.
pub fn malformed_reasons(
    source: &SourceInfo,
    ledger: &SourceLedger,
) -> serde_json::Map<String, serde_json::Value> {
    let counted = source.malformed_reasons.iter().zip(ledger.reasons);
    counted
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.clone(), count.into()))
        .collect()
}

impl Summary {
    /// The figures of a recording.
    pub fn of(recording: &Recording) -> Self {
        let last = &recording.summary.last;
        let total = last.ledger.total();
        let events = last.counts.events_complete + last.counts.events_incomplete;
        let seconds = recording.seconds.max(1e-9);
        let percent = |(name, percent): &(String, f64)| {
            (name.clone(), serde_json::Value::from((percent * 10.0).round() / 10.0))
        };
        Self {
            run: recording.summary.run.to_string(),
            folder: recording.summary.folder.display().to_string(),
            files: last.files.iter().map(|file| file.display().to_string()).collect(),
            engine: last.engine,
            seconds: recording.seconds,
            state: last.state.clone(),
            faults: last.faults,
            counts: last.counts,
            events_per_second: events as f64 / seconds,
            bytes_per_second: total[Entry::FragmentBytesRecorded] as f64 / seconds,
            books: Balance::of(&last.ledger),
            cpu_percent: recording.busy.iter().map(percent).collect(),
            fills: last.fills.clone(),
            warnings: warnings(last),
            sockets: recording.sockets,
            malformed: last.malformed.as_ref().map(|packet| Malformed {
                source: recording.source_name(packet.source),
                reason: packet.reason.clone(),
                first_bytes: packet.first_bytes.iter().map(|b| format!("{b:02x}")).collect(),
            }),
        }
    }

    /// The same in words.
    pub fn say(&self, recording: &Recording, out: &mut Out) -> std::io::Result<()> {
        let total = recording.summary.last.ledger.total();
        let counts = &self.counts;
        out.say(format_args!(
            "  events     {} complete, {} incomplete, {} on disk, {}/s",
            grouped(counts.events_complete),
            grouped(counts.events_incomplete),
            grouped(counts.events_recorded),
            Count(self.events_per_second)
        ))?;
        if counts.events_capped > 0 {
            let capped = grouped(counts.events_capped);
            out.say(format_args!("             {capped} ended by build.time.span_max"))?;
        }
        if has_slices(counts) {
            out.say(format_args!(
                "  slices     {} complete, {} incomplete, {} absent, {} on disk",
                grouped(counts.slices_complete),
                grouped(counts.slices_incomplete),
                grouped(counts.slices_absent),
                grouped(counts.slices_recorded)
            ))?;
        }
        out.say(format_args!(
            "  fragments  {} received, {} recorded, {} durable",
            grouped(total[Entry::FragmentsReceived]),
            grouped(total[Entry::FragmentsRecorded]),
            grouped(total[Entry::FragmentsDurable])
        ))?;
        out.say(format_args!(
            "  bytes      {} of fragments, {} in {} file(s), {}/s, {}",
            Bytes(total[Entry::FragmentBytesRecorded]),
            Bytes(counts.bytes_written),
            self.files.len(),
            Bytes(self.bytes_per_second as u64),
            self.engine
        ))?;
        let busy = recording.busy.iter().map(|(name, share)| format!("{name} {share:.0} %"));
        let busy: Vec<String> = busy.collect();
        out.say(format_args!("  CPU        {}", busy.join(", ")))?;
        let percent = |fill: &Fill| percent_of(fill.highest, fill.capacity);
        let fills = self.fills.iter().map(|fill| format!("{} {} %", fill.name, percent(fill)));
        let fills: Vec<String> = fills.collect();
        out.say(format_args!("  highest    {}", fills.join(", ")))?;
        match &*loss_reasons(&recording.summary.last.ledger) {
            "" => out.say(format_args!("  losses     none"))?,
            reasons => out.say(format_args!("  losses     {reasons}"))?,
        }
        let bad = bad_reasons(&total);
        if !bad.is_empty() {
            out.say(format_args!("  bad data   {bad}"))?;
        }
        if let Some(packet) = &self.malformed {
            let Malformed { source, reason, first_bytes } = packet;
            out.say(format_args!("  malformed  the newest one, from {source}: {reason}"))?;
            out.say(format_args!("             {first_bytes}"))?;
        }
        if !self.books.balanced {
            let balance = recording.balance();
            out.say(format_args!(
                "  ledger     DOES NOT BALANCE: {} fragments and {} packets are unexplained",
                balance.fragments_in_flight, balance.packets_in_flight
            ))?;
        }
        if let Some(reason) = fault(&self.state) {
            out.say(format_args!("  fault      {reason}"))?;
        }
        for warning in &self.warnings {
            out.say(format_args!("  warning    {warning}"))?;
        }
        out.say(format_args!("  folder     {}", self.folder))
    }
}

/// A recording's exit code: failure if the ledger does not balance or the run did not end in order,
/// loss if data were lost, or some are bad.
pub fn exit_of(recording: &Recording) -> Exit {
    if recording.failed || !recording.balance().holds() {
        Exit::Failed
    } else if recording.lost() || recording.has_bad_data() {
        Exit::Loss
    } else {
        Exit::Done
    }
}
