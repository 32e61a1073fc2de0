//! Proves a recorded run against what its emulator sent: every event once, every byte the same.
//!
//! The emulator's payload is a pure function of seed, source and event number, so that nothing
//! sent needs to be stored. Headers are parsed here independently of the decoder that recorded
//! them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use catchment_console::{Out, Stop, progress};
use catchment_emulator::{Content, EmulatorConfig, EmulatorReport};
use catchment_model::units::{Bytes, grouped};
use catchment_model::{Entry, Ledger, SourceId};
use catchment_storage::Run;
use parking_lot::Mutex;
use serde::Serialize;

use crate::session::Recording;

/// What a proof found.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Proof {
    pub(crate) frames: u64,
    pub(crate) events: u64,
    pub(crate) fragments: u64,
    /// Bytes compared, headers included.
    pub(crate) bytes: u64,
    /// Events that were sent and are in no file.
    pub(crate) events_absent: u64,
    pub(crate) seconds: f64,
    /// Anything that is not as it was sent, or not as the ledger says.
    pub(crate) problem_count: u64,
    /// The first of them, in words.
    pub(crate) problems: Vec<String>,
}

impl Proof {
    /// Whether everything recorded is what was sent, and everything missing is in the ledger.
    pub(crate) fn holds(&self) -> bool {
        self.problem_count == 0
    }

    pub(crate) fn say(&self, out: &mut Out) -> std::io::Result<()> {
        let verdict = if self.holds() { "verified" } else { "NOT AS SENT" };
        out.say(format_args!(
            "  {verdict:<10} {} events, {} fragments, {} read back in {:.1} s",
            grouped(self.events),
            grouped(self.fragments),
            Bytes(self.bytes),
            self.seconds
        ))?;
        for problem in &self.problems {
            out.say(format_args!("             {problem}"))?;
        }
        let untold = self.problem_count - self.problems.len() as u64;
        if untold > 0 {
            out.say(format_args!("             and {} more", grouped(untold)))?;
        }
        Ok(())
    }

    fn problem(&mut self, text: impl FnOnce() -> String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_TOLD {
            self.problems.push(text());
        }
    }

    fn absorb(&mut self, other: Self) {
        self.frames += other.frames;
        self.events += other.events;
        self.fragments += other.fragments;
        self.bytes += other.bytes;
        self.problem_count += other.problem_count;
        let room = PROBLEMS_TOLD - self.problems.len();
        self.problems.extend(other.problems.into_iter().take(room));
    }
}

/// What one thread counted, source by source.
#[derive(Default)]
struct Part {
    proof: Proof,
    present: Vec<u64>,
    missing: Vec<u64>,
    /// First and last key of each frame.
    keys: Vec<(usize, u64, u64)>,
}

/// Reads a recording back and compares it.
///
/// # Errors
/// The run cannot be opened, or the signal to stop came. What is damaged inside it is a problem of
/// the proof, not an error.
pub(crate) fn prove(
    recording: &Recording,
    sent: &EmulatorReport,
    emulator: &EmulatorConfig,
    stop: &Stop,
    out: &mut Out,
) -> anyhow::Result<Proof> {
    let start = Instant::now();
    let run = Run::open(&recording.summary.folder)?;
    let content = Content::of(emulator);
    let frames = run.frames().len();
    let bar = progress(out, "reading back", frames as u64);
    let next = AtomicUsize::new(0);
    let parts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..catchment_net::cpus().len().min(8) {
            scope.spawn(|| {
                let sources = emulator.sources.len();
                let mut part = Part {
                    present: vec![0; sources],
                    missing: vec![0; sources],
                    ..Part::default()
                };
                loop {
                    let frame = next.fetch_add(1, Relaxed);
                    if frame >= frames || stop.asked() {
                        break;
                    }
                    prove_frame(&run, frame, emulator, &content, &mut part);
                    bar.inc(1);
                }
                parts.lock().push(part);
            });
        }
    });
    bar.finish_and_clear();
    anyhow::ensure!(!stop.asked(), "stopped while reading back: nothing is proved");
    let parts = parts.into_inner();
    let mut proof = conclude(parts, recording, sent, emulator);
    let ledgers =
        [run.recorded_ledger()?, Some(recording.summary.last.ledger.clone())].map(at_close);
    if ledgers[0] != ledgers[1] {
        proof.problem(|| "the ledger in the file is not the one that the recorder had".into());
    }
    proof.seconds = start.elapsed().as_secs_f64();
    Ok(proof)
}

/// A ledger without what a file cannot yet know when its end is written.
fn at_close(ledger: Option<Ledger>) -> Option<Ledger> {
    let mut ledger = ledger?;
    ledger.sources.iter_mut().for_each(|source| source[Entry::FragmentsDurable] = 0);
    Some(ledger)
}

fn prove_frame(
    run: &Run,
    frame: usize,
    emulator: &EmulatorConfig,
    content: &Content,
    part: &mut Part,
) {
    let proof = &mut part.proof;
    let events = match run.events(frame) {
        Ok(events) => events,
        Err(error) => return proof.problem(|| format!("frame {frame}: {error}")),
    };
    proof.frames += 1;
    proof.events += events.len() as u64;
    if let (Some(&first), Some(&last)) = (events.keys().first(), events.keys().last()) {
        part.keys.push((frame, first, last));
    }
    if let Some(pair) = events.keys().windows(2).find(|pair| pair[0] >= pair[1]) {
        proof.problem(|| format!("frame {frame}: event {} comes after {}", pair[1], pair[0]));
    }
    for (source, described) in emulator.sources.iter().enumerate() {
        let column = match run.fragments(frame, SourceId(source as u32)) {
            Ok(column) => column,
            Err(error) => {
                proof.problem(|| format!("frame {frame}, source {source}: {error}"));
                continue;
            }
        };
        for (row, &event) in events.keys().iter().enumerate() {
            let Some(fragment) = column.fragment(row) else {
                part.missing[source] += 1;
                continue;
            };
            part.present[source] += 1;
            proof.fragments += 1;
            proof.bytes += fragment.len() as u64;
            let sent = emulator.event_of_key(source as u32, event);
            let number = (event as u32) << 8 | u32::from(content.tag(sent));
            if let Err(difference) = compare(fragment, described.sub_event_id, number, |payload| {
                content.verify(source as u32, sent, payload)
            }) {
                proof.problem(|| format!("event {event}, source {source}: {difference}"));
            }
        }
    }
}

/// Compares a fragment, its 16-byte header first, with what was sent.
fn compare(
    fragment: &[u8],
    id: u32,
    trigger: u32,
    same_payload: impl FnOnce(&[u8]) -> bool,
) -> Result<(), String> {
    let Some((header, payload)) = fragment.split_at_checked(16) else {
        return Err(format!("{} bytes are no sub-event", fragment.len()));
    };
    // The decoding word's first byte is zero in big-endian order, its last in little-endian order.
    let big = header[4] == 0;
    let word = |index: usize| {
        let bytes = [0, 1, 2, 3].map(|byte| header[4 * index + byte]);
        if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let expected =
        [("size", 0, fragment.len() as u32), ("id", 2, id), ("trigger word", 3, trigger)];
    for (name, index, expected) in expected {
        let got = word(index);
        if got != expected {
            return Err(format!("its {name} is {got:#x}, {expected:#x} was sent"));
        }
    }
    if same_payload(payload) { Ok(()) } else { Err("its payload is not what was sent".into()) }
}

fn conclude(
    parts: Vec<Part>,
    recording: &Recording,
    sent: &EmulatorReport,
    emulator: &EmulatorConfig,
) -> Proof {
    let mut proof = Proof::default();
    let sources = emulator.sources.len();
    let (mut present, mut missing) = (vec![0; sources], vec![0; sources]);
    let mut keys = BTreeSet::new();
    for part in parts {
        proof.absorb(part.proof);
        let add = |sum: &mut Vec<u64>, counts: &[u64]| {
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        };
        add(&mut present, &part.present);
        add(&mut missing, &part.missing);
        keys.extend(part.keys);
    }
    let mut before = None;
    for (frame, first, last) in keys {
        if before.is_some_and(|before| first <= before) {
            proof.problem(|| {
                format!("frame {frame} begins with event {first}, which was there before")
            });
        }
        before = Some(last);
    }
    let last_sent = emulator.first_event + sent.events;
    if before.is_some_and(|last| last >= last_sent) {
        proof.problem(|| format!("events beyond {last_sent}, which was never sent"));
    }
    let ledger = &recording.summary.last.ledger;
    for source in 0..sources {
        for (entry, got) in [
            (Entry::FragmentsRecorded, present[source]),
            (Entry::FragmentsMissing, missing[source]),
        ] {
            let counted = ledger.sources[source][entry];
            if counted != got {
                proof.problem(|| {
                    format!("source {source}: {entry} is {counted}, the files have {got}")
                });
            }
        }
    }
    // An event of which nothing arrived is in no file; that is only right if there was a loss.
    proof.events_absent = sent.events.saturating_sub(proof.events);
    if proof.events_absent > 0 && !explains(ledger, recording, emulator) {
        let absent = proof.events_absent;
        proof.problem(|| format!("{absent} events are in no file, and no loss is in the ledger"));
    }
    proof
}

fn explains(ledger: &Ledger, recording: &Recording, emulator: &EmulatorConfig) -> bool {
    let faults = &emulator.faults;
    recording.lost()
        || ledger.balance().lost_data()
        || faults.lose + faults.corrupt > 0.0
        || faults.kill.is_some()
        || faults.restart.is_some()
}

/// Problems that are told in words.
const PROBLEMS_TOLD: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(words: [u32; 4], payload: &[u8]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).chain(payload.iter().copied()).collect()
    }

    #[test]
    fn a_fragment_that_differs_anywhere_is_found() {
        let good = fragment([20, 0x0002_0011, 0x8001, 0x0102_0304], &[1, 2, 3, 4]);
        let same = |payload: &[u8]| payload == [1, 2, 3, 4];
        assert_eq!(compare(&good, 0x8001, 0x0102_0304, same), Ok(()));
        assert!(compare(&good[..12], 0x8001, 0x0102_0304, same).is_err());
        for byte in [0, 3, 11, 12, 15, 16, 19] {
            let mut bad = good.clone();
            bad[byte] ^= 1;
            assert!(compare(&bad, 0x8001, 0x0102_0304, same).is_err(), "byte {byte}");
        }
    }
}
