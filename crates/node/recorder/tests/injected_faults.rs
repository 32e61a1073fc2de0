//! Every fault that the emulator injects shows up in the ledger in exactly the number injected, for
//! exactly the source it was injected into.

use std::sync::atomic::AtomicBool;

use crate::support;
use catchment_emulator::{
    EmulatedSource, Emulator, EmulatorConfig, EmulatorLive, EmulatorReport, Faults, SourceReport,
};
use catchment_model::{Entry, SourceId, SourceLedger};
use catchment_recorder::{Recorder, RunSummary};
use catchment_storage::{Run, Verdict, audit};
use support::config;

const SOURCES: u32 = 6;
const FIRST_EVENT: u64 = 1;
const EVENTS: u64 = 10_000;

/// Records an emulated detector with these faults, proves every recorded byte, and has each
/// source's ledger compared with what was injected into it.
fn record(faults: Faults, compare: impl Fn(&SourceLedger, &SourceReport)) -> RunSummary {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), SOURCES);
    config.frame.bytes = 1 << 20;
    config.write.buffer_count = 4;
    let recorder = Recorder::start(config).unwrap();
    let sources = (0..SOURCES).map(|source| EmulatedSource {
        group: "test".into(),
        mean_bytes: 200.0,
        sigma: 0.2,
        sub_event_id: 0x8000 + source,
        board: None,
    });
    let emulator = Emulator::new(EmulatorConfig {
        sources: sources.collect(),
        targets: recorder.addresses().to_vec(),
        seed: 0xca7c,
        rate_hz: Some(5_000.0),
        water_mark_bytes: 1_000,
        first_event: FIRST_EVENT,
        events: Some(EVENTS),
        faults,
        ..EmulatorConfig::default()
    })
    .unwrap();
    let report = emulator.run(&AtomicBool::new(false), &EmulatorLive::default()).unwrap();
    let summary = recorder.stop().unwrap();
    assert_eq!(report.refused, 0);
    let balance = summary.last.ledger.balance();
    assert!(balance.holds(), "{balance:?}");
    for (ledger, injected) in summary.last.ledger.sources.iter().zip(&report.sources) {
        assert_eq!(ledger[Entry::PacketsReceived], injected.packets_sent);
        assert_eq!(ledger[Entry::PacketsDroppedByKernel], 0);
        compare(ledger, injected);
    }
    let run = Run::open(&summary.folder).unwrap();
    prove(&run, &emulator, &report);
    let lost = summary.last.ledger.balance().lost_data();
    let expected = if lost { Verdict::DataLost } else { Verdict::Balanced };
    assert_eq!(audit(&run).unwrap().verdict, expected);
    summary
}

/// Every recorded fragment is the one that its source made for that event.
fn prove(run: &Run, emulator: &Emulator, report: &EmulatorReport) {
    let mut events = 0;
    for frame in 0..run.frames().len() {
        events += run.events(frame).unwrap().len() as u64;
        for source in 0..SOURCES {
            let column = run.fragments(frame, SourceId(source)).unwrap();
            for (row, &key) in column.events().keys().iter().enumerate() {
                if let Some(fragment) = column.fragment(row) {
                    let event = emulator.config().event_of_key(source, key);
                    assert!(emulator.content().verify(source, event, &fragment[16..]));
                }
            }
        }
    }
    assert_eq!(events, report.events, "no event was lost by all its sources");
}

fn lost(ledger: &SourceLedger) -> u64 {
    ledger.balance().fragments_lost
}

#[test]
fn without_faults_the_books_are_clean() {
    let summary = record(Faults::default(), |ledger, injected| {
        assert_eq!(ledger[Entry::FragmentsRecorded], injected.fragments_made);
    });
    assert!(!summary.last.ledger.balance().lost_data());
    assert_eq!(summary.last.counts.events_complete, EVENTS);
}

#[test]
fn lost_packets_are_lost_fragments() {
    let summary = record(Faults { lose: 0.01, ..Faults::default() }, |ledger, injected| {
        assert_eq!(lost(ledger), injected.fragments_lost);
        assert_eq!(ledger[Entry::FragmentsLate], 0);
    });
    assert!(summary.last.ledger.balance().fragments_lost > 0);
    assert!(summary.last.counts.events_incomplete > 0);
}

#[test]
fn duplicated_packets_are_duplicate_fragments_and_no_loss() {
    let summary = record(Faults { duplicate: 0.01, ..Faults::default() }, |ledger, injected| {
        assert_eq!(ledger[Entry::FragmentsDuplicate], injected.fragments_duplicated);
        assert_eq!(ledger[Entry::FragmentsRecorded], injected.fragments_made);
    });
    assert!(summary.last.ledger.total()[Entry::FragmentsDuplicate] > 0);
    assert!(!summary.last.ledger.balance().lost_data());
}

#[test]
fn reordered_packets_are_reordered_fragments_and_no_loss() {
    let summary = record(Faults { reorder: 0.01, ..Faults::default() }, |ledger, injected| {
        assert_eq!(ledger[Entry::FragmentsReordered], injected.fragments_reordered);
        assert_eq!(ledger[Entry::FragmentsRecorded], injected.fragments_made);
    });
    assert!(summary.last.ledger.total()[Entry::FragmentsReordered] > 0);
    assert!(!summary.last.ledger.balance().lost_data());
}

#[test]
fn corrupted_packets_are_malformed_and_their_fragments_missing() {
    let summary = record(Faults { corrupt: 0.01, ..Faults::default() }, |ledger, injected| {
        assert_eq!(ledger.balance().packets_malformed, injected.packets_corrupted);
        assert_eq!(lost(ledger), injected.fragments_corrupted);
    });
    assert!(summary.last.ledger.balance().packets_malformed > 0);
    assert!(summary.last.malformed.is_some(), "its first bytes are kept for diagnosis");
}

#[test]
fn a_killed_source_lacks_from_then_on_and_stops_nobody() {
    let faults = Faults { kill: Some((2, FIRST_EVENT + 4_000)), ..Faults::default() };
    let summary = record(faults, |ledger, injected| {
        assert_eq!(lost(ledger), injected.fragments_killed);
    });
    assert_eq!(summary.last.ledger.sources[2].balance().fragments_lost, EVENTS - 4_000);
    assert_eq!(summary.last.counts.events_complete, 4_000);
    assert_eq!(summary.last.counts.events_incomplete, EVENTS - 4_000);
}

#[test]
fn a_source_that_restarts_its_numbers_is_out_of_range_and_stops_nobody() {
    let faults = Faults { restart: Some((1, FIRST_EVENT + 6_000)), ..Faults::default() };
    let summary = record(faults, |ledger, injected| {
        let unmatched = ledger[Entry::FragmentsOutOfRange] + ledger[Entry::FragmentsLate];
        assert_eq!(unmatched, injected.fragments_restarted);
        assert_eq!(lost(ledger), 0);
    });
    assert_eq!(summary.last.ledger.total()[Entry::NumberingRestarts], 0, "no quorum did");
    assert_eq!(summary.last.counts.events_complete, 6_000);
}

#[test]
fn all_faults_together_still_balance() {
    let faults = Faults {
        lose: 0.004,
        duplicate: 0.004,
        reorder: 0.004,
        corrupt: 0.004,
        ..Faults::default()
    };
    record(faults, |ledger, injected| {
        assert_eq!(lost(ledger), injected.fragments_lost + injected.fragments_corrupted);
        assert_eq!(ledger[Entry::FragmentsDuplicate], injected.fragments_duplicated);
        assert_eq!(ledger.balance().packets_malformed, injected.packets_corrupted);
    });
}
