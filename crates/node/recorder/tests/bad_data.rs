//! Data that their senders mark as broken, or that are of another trigger than their event, are
//! recorded, counted once they are, and said in the file.

use crate::support;
use catchment_fixtures::wait_while;
use catchment_model::Entry;
use catchment_recorder::Recorder;
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::hadtu::{ByteOrder, PacketEncoder, SUB_EVENT_DECODING, SubEventHeader};
use support::{config, fragments, senders};

const EVENTS: u32 = 20;

/// A packet of one sub-event.
fn packet(source: u32, number: u32, trigger_tag: u8, error: bool) -> Vec<u8> {
    let mut buffer = vec![0; 2_000];
    let mut encoder = PacketEncoder::begin(&mut buffer, ByteOrder::Big);
    let id = 0x8000 + source;
    let header = SubEventHeader {
        id,
        error,
        trigger_number: number,
        trigger_tag,
        decoding: SUB_EVENT_DECODING,
    };
    assert!(encoder.push(&header, &[1, 2, 3]), "fits");
    let bytes = encoder.finish();
    buffer.truncate(bytes);
    buffer
}

#[test]
fn bad_data_are_recorded_and_counted_and_the_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path(), 3)).unwrap();
    let sockets = senders(&recorder);
    for number in 1..=EVENTS {
        // The first to come is at another trigger; the last one's data are broken now and then.
        for (source, socket) in sockets.iter().enumerate() {
            let tag = if source == 0 { 6 } else { 5 };
            let error = source == 2 && number % 4 == 0;
            socket.send(&packet(source as u32, number, tag, error)).unwrap();
        }
    }
    let accepted = || recorder.snapshot().ledger.total()[Entry::PacketsAccepted];
    wait_while(|| accepted() < u64::from(3 * EVENTS));
    let summary = recorder.stop().unwrap();
    let ledger = &summary.last.ledger;
    let counts = |entry| [0, 1, 2].map(|source| ledger.sources[source][entry]);
    let events = u64::from(EVENTS);
    assert_eq!(counts(Entry::FragmentsRecorded), [events; 3]);
    assert_eq!(counts(Entry::FragmentsBadTag), [events, 0, 0]);
    assert_eq!(counts(Entry::FragmentsBadSender), [0, 0, events / 4]);
    let balance = ledger.balance();
    assert!(balance.holds() && !balance.lost_data(), "{balance:?}");
    let run = Run::open(&summary.folder).unwrap();
    assert!(fragments(&run).values().all(|event| event.len() == 3));
    let flags = run.files().last().and_then(|file| file.flags).expect("a TOC");
    assert!(flags.data_bad && !flags.data_lost, "{flags:?}");
    // The frames add up to the total.
    let report = audit(&run).unwrap();
    assert_eq!((report.verdict, report.differences), (Verdict::Balanced, Vec::new()));
    assert_eq!(report.recomputed.bad_data(), events + events / 4);
}
