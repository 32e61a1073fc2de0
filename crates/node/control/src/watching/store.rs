//! What a storage node does: its streams and folders, one verdict, and the readings for alarms.

use std::collections::BTreeMap;

use catchment_store::{NodeSnapshot, PhaseSnapshot, StreamSnapshot};
use catchment_watch::{Forecast, Level, RATES_NS, Rates, ReadingTable, Verdict};

use super::forecasts::Lasts;
use super::{DISK_NS, Meaning, Watching, fault, readings};
use crate::api;
use crate::storing::StoreSeen;

/// Figures of a storage node over time.
pub(super) struct StoreFigures {
    /// Bytes that came.
    taken: Rates,
    /// Bytes written, by folder.
    folders: Rates,
    /// Bytes written, by stream.
    streams: BTreeMap<String, Rates>,
    /// Bytes written to all folders.
    written: Forecast,
}

impl StoreFigures {
    pub(super) fn new() -> Self {
        Self {
            taken: Rates::new(RATES_NS),
            folders: Rates::new(RATES_NS),
            streams: BTreeMap::new(),
            written: Forecast::new(DISK_NS),
        }
    }

    fn count(&mut self, now_ns: u64, snapshot: &NodeSnapshot) {
        let written: Vec<u64> = snapshot.folders.iter().map(|folder| folder.bytes).collect();
        self.taken.push(now_ns, &[snapshot.bytes_taken]);
        self.folders.push(now_ns, &written);
        self.written.push(now_ns, written.iter().sum(), Some(STILL_NS));
        self.streams.retain(|name, _| snapshot.streams.iter().any(|stream| stream.name == *name));
        for stream in &snapshot.streams {
            let rates = self.streams.entry(stream.name.clone());
            let rates = rates.or_insert_with(|| Rates::new(RATES_NS));
            rates.push(now_ns, &[stream.bytes]);
        }
    }
}

impl Watching {
    /// Updates everything, of a storage node.
    pub(crate) fn look_at_store(
        &mut self,
        now_ns: u64,
        seen: &StoreSeen,
        devices: &[api::Device],
    ) -> Meaning {
        let figures = self.store.get_or_insert_with(StoreFigures::new);
        figures.count(now_ns, &seen.snapshot);
        let store = state_of(figures, seen);
        let folder_rates = store.folders.iter().map(|folder| folder.bytes_written_per_second);
        let rates = api::Rates {
            bytes_per_second: figures.taken.per_second(0).unwrap_or(0.0),
            bytes_written_per_second: folder_rates.sum(),
            ..api::Rates::default()
        };
        let lasts = Lasts {
            disk_hours: hours_left(&figures.written, &store, seen),
            is_written: figures.written.is_filling(),
            ..Lasts::default()
        };
        let is_storing = seen.snapshot.streams.iter().any(|stream| stream.is_attached);
        read(&mut self.readings, (&store, seen), &rates, lasts.disk_hours, devices);
        let sentence = |folder: &api::StoreFolder| {
            let fault = folder.fault.clone()?;
            Some(((FOLDER_FAULT, folder.path.clone()), fault))
        };
        self.sentences = store.folders.iter().filter_map(sentence).collect();
        self.sentences.extend(lasts.sentence());
        let mut changes = self.alarms.observe(now_ns, is_storing, &self.readings);
        changes.iter_mut().for_each(|change| self.complete(&mut change.alarm));
        Meaning {
            verdict: verdict(&store, seen),
            rates,
            loss: api::Loss::default(),
            bad: api::Loss::default(),
            dead_time: 0.0,
            lasts,
            flow: Vec::new(),
            targets: Vec::new(),
            sources: Vec::new(),
            counts: api::SourceCounts::default(),
            store: Some(store),
            store_errors: errors(&seen.snapshot),
            changes,
        }
    }
}

fn errors(snapshot: &NodeSnapshot) -> Vec<String> {
    let of_connection = snapshot.last_error.iter();
    let of_connection =
        of_connection.map(|error| format!("the last connection that failed: {error}"));
    let unclosed = snapshot.close_error.iter();
    let unclosed =
        unclosed.map(|error| format!("a stream that nobody sends cannot be closed: {error}"));
    of_connection.chain(unclosed).collect()
}

fn state_of(figures: &StoreFigures, seen: &StoreSeen) -> api::Store {
    let snapshot = &seen.snapshot;
    let stream = |stream: &StreamSnapshot| {
        let rate = figures.streams.get(&stream.name).and_then(|rates| rates.per_second(0));
        let state = match stream {
            _ if stream.has_ended => "ended",
            _ if stream.is_given_up => "cut_off",
            _ if stream.is_broken_off() => "broken_off",
            _ if stream.trouble.is_some() => "waits",
            _ => "open",
        };
        api::StoreStream {
            name: stream.name.clone(),
            run: stream.run.clone(),
            stream: stream.stream,
            variant: stream.variant,
            recorder: stream.recorder.clone(),
            state: state.into(),
            reason: stream.trouble.clone(),
            taken: stream.taken,
            durable: stream.durable,
            bytes_written: stream.bytes,
            bytes_written_per_second: rate.unwrap_or(0.0),
            syncs: syncs(&stream.sync),
        }
    };
    let folders = snapshot.folders.iter().zip(&seen.spaces).enumerate();
    let folders = folders.map(|(index, (folder, (space, silent)))| {
        let silent = silent.map(|age| format!("its disk has not answered for {} s", age.as_secs()));
        api::StoreFolder {
            path: folder.path.display().to_string(),
            // What is free where its disk will be mounted says nothing.
            free_bytes: space.filter(|_| !folder.is_absent).map(|space| space.free_bytes),
            total_bytes: space.filter(|_| !folder.is_absent).map(|space| space.total_bytes),
            bytes_written: folder.bytes,
            bytes_written_per_second: figures.folders.per_second(index).unwrap_or(0.0),
            failures: folder.failures,
            fault: folder.fault.clone().or(silent),
        }
    });
    api::Store {
        address: seen.address.to_string(),
        tls: seen.needs_tls,
        tokens: seen.needs_token,
        streams: snapshot.streams.iter().map(stream).collect(),
        folders: folders.collect(),
        frames: api::StoreFrames {
            taken: snapshot.frames_taken,
            taken_bytes: snapshot.bytes_taken,
            repeated: snapshot.frames_repeated,
            corrupt: snapshot.frames_corrupt,
            unfit: snapshot.frames_unfit,
            superseded: snapshot.frames_superseded,
        },
        refusals: snapshot.refusals.clone(),
        connections_unopened: snapshot.connections_unopened,
        faults: snapshot.faults,
        waiting_bytes: snapshot.waiting_bytes,
        memory_bytes: seen.memory_bytes,
    }
}

fn syncs(phase: &PhaseSnapshot) -> api::StoreSyncs {
    let seconds = |ns: u64| ns as f64 / 1e9;
    api::StoreSyncs {
        count: phase.count,
        total_seconds: seconds(phase.total_ns),
        last_seconds: seconds(phase.last_ns),
        longest_seconds: seconds(phase.max_ns),
    }
}

/// How long the folders that work last at the rate at which they were last written to; not at all
/// while a stream waits since all are full. None if no folder works, or no room is known.
fn hours_left(written: &Forecast, store: &api::Store, seen: &StoreSeen) -> Option<f64> {
    let is_full = |stream: &&api::StoreStream| {
        stream.state == "waits" && stream.reason.as_deref().is_some_and(fault::is_full)
    };
    if store.streams.iter().any(|stream| is_full(&stream)) {
        return Some(0.0);
    }
    // Folders of one file system share its room.
    let spaces = store.folders.iter().zip(&seen.spaces);
    let spaces = spaces.filter(|(folder, _)| folder.fault.is_none());
    let spaces = spaces.filter_map(|(_, (space, _))| *space);
    let spaces: BTreeMap<u64, u64> =
        spaces.map(|space| (space.file_system, space.free_bytes)).collect();
    if spaces.is_empty() {
        return None;
    }
    Some(written.seconds(spaces.values().sum())? / 3_600.0)
}

/// Whether what recorders send is being stored.
fn verdict(store: &api::Store, seen: &StoreSeen) -> Verdict {
    let of = |state: &str| store.streams.iter().filter(|one| one.state == state).count();
    let (open, waits) = (of("open"), of("waits"));
    let waiting = store.streams.iter().filter(|stream| stream.state == "waits");
    let mut reasons: Vec<String> = waiting
        .map(|stream| {
            let reason = stream.reason.as_deref().unwrap_or_default();
            format!("{}: {}", stream.name, fault::advice(reason).unwrap_or(reason))
        })
        .collect();
    let unused = |folder: &api::StoreFolder| {
        let fault = folder.fault.as_ref()?;
        // Files that are open there may still be written.
        let is_written = folder.bytes_written_per_second > 0.0;
        let how = if is_written { "takes no new file" } else { "is not used" };
        Some(format!("{} {how}: {fault}", folder.path))
    };
    let unused: Vec<String> = store.folders.iter().filter_map(unused).collect();
    reasons.extend_from_slice(&unused);
    reasons.extend(seen.snapshot.open_error.clone());
    let broken_off = store.streams.iter().filter(|stream| stream.state == "broken_off");
    reasons.extend(broken_off.map(|stream| {
        format!("{} broke off: its recorder is gone and has not ended it", stream.name)
    }));
    reasons.truncate(REASONS_MAX);
    let streams = |count: usize| format!("{count} stream{}", if count == 1 { "" } else { "s" });
    let works = store.folders.iter().any(|folder| folder.fault.is_none());
    let (level, text) = match (open, waits) {
        (0, _) if !works => (Level::NotRecording, "no folder can be written".to_owned()),
        // Files that are open there are written.
        (open, 0) if !works => {
            (Level::Held, format!("storing {}; no folder takes the next file", streams(open)))
        }
        (0, 0) if seen.snapshot.streams.iter().any(StreamSnapshot::is_broken_off) => {
            (Level::NotRecording, "storing nothing: streams broke off".to_owned())
        }
        (0, 0) => {
            let why = seen.snapshot.open_error.as_deref().unwrap_or("no recorder sends");
            let all = [format!("storing nothing: {why}")].into_iter().chain(unused);
            (Level::NotRecording, all.take(2).collect::<Vec<_>>().join("; "))
        }
        (0, waits) => (Level::NotRecording, format!("{} cannot be written", streams(waits))),
        (open, 0) => (Level::Good, format!("storing {}", streams(open))),
        (open, waits) => {
            let text = format!("storing {}; {} cannot be written", streams(open), streams(waits));
            (Level::Held, text)
        }
    };
    Verdict { level, loss_share: None, bad_share: None, text, reasons }
}

/// Adds the readings for rules of alarms: what `quantities` names of storage nodes and of devices.
fn read(
    table: &mut ReadingTable,
    (store, seen): (&api::Store, &StoreSeen),
    rates: &api::Rates,
    hours_left: Option<f64>,
    devices: &[api::Device],
) {
    table.clear();
    table.set("bytes_per_second", rates.bytes_per_second);
    table.set("bytes_written_per_second", rates.bytes_written_per_second);
    if let Some(hours) = hours_left {
        table.set("disk.hours_left", hours);
    }
    readings::read_clock(table);
    readings::read_devices(table, devices.iter());
    let frames = &store.frames;
    table.set("frames_refused", (frames.corrupt + frames.unfit + frames.superseded) as f64);
    // A sender that is told to come later was not refused.
    let later = store.refusals.get("later").copied().unwrap_or(0);
    let refused = seen.snapshot.sessions_refused.saturating_sub(later);
    let headers = seen.snapshot.headers_refused;
    let closed = store.connections_unopened + store.faults + headers;
    table.set("sessions_refused", (refused + closed) as f64);
    for folder in &store.folders {
        table.set_of("folder", &folder.path, "fault", f64::from(folder.fault.is_some()));
        if let Some(bytes) = folder.free_bytes {
            table.set_of("folder", &folder.path, "free_bytes", bytes as f64);
        }
    }
    for stream in &store.streams {
        let is = |state: &str| f64::from(stream.state == state);
        table.set_of("stream", &stream.name, "waits", is("waits"));
        table.set_of("stream", &stream.name, "broken_off", is("broken_off"));
    }
}

/// What is not written for this time is not being written: frames may be long.
const STILL_NS: u64 = 10_000_000_000;
/// The rule on folders that cannot be written.
const FOLDER_FAULT: &str = "folder_fault";
/// The most reasons that a verdict has.
const REASONS_MAX: usize = 20;
