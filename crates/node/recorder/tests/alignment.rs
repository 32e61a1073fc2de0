//! Whoever looks at a recorder sees which source's numbers are not the others'.

use std::net::UdpSocket;
use std::time::Duration;

use crate::support;
use catchment_model::Entry;
use catchment_recorder::{Alignment, Recorder};
use catchment_wire::hadtu::ByteOrder;
use support::{config, packet, senders};

const SOURCES: u32 = 3;

/// Sends events of all sources until a snapshot shows what is looked for; `added` to the last
/// source's numbers.
fn send_until(
    recorder: &Recorder,
    sockets: &[UdpSocket],
    (number, added): (&mut u32, u32),
    shown: impl Fn(&[Alignment]) -> bool,
) {
    while !shown(&recorder.snapshot().alignment) {
        for source in 0..SOURCES {
            let own = if source == SOURCES - 1 { added } else { 0 };
            let packet = packet(source, ByteOrder::Big, &[(*number + own, &[1, 2, 3])]);
            sockets[source as usize].send(&packet).unwrap();
        }
        *number += 1;
        // A trigger every 2 ms.
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_source_that_runs_off_is_shown_out_of_step_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), SOURCES);
    config.build.timeout_ns = 100_000_000;
    let recorder = Recorder::start(config).unwrap();
    let sockets = senders(&recorder);
    let out_of_step = |wanted: [bool; 3]| {
        move |seen: &[Alignment]| {
            seen.iter().zip(wanted).all(|(one, wanted)| one.out_of_step == wanted)
        }
    };
    let mut number = 0;
    let is_built = |_: &[Alignment]| recorder.snapshot().counts.events_complete > 50;
    send_until(&recorder, &sockets, (&mut number, 0), is_built);
    assert!(out_of_step([false; 3])(&recorder.snapshot().alignment));
    let off = |seen: &[Alignment]| {
        out_of_step([false, false, true])(seen) && seen[2].parked_fragments > 0
    };
    send_until(&recorder, &sockets, (&mut number, 1_000_000), off);
    assert_eq!(recorder.snapshot().ledger.sources[0][Entry::FragmentsOutOfRange], 0);
    send_until(&recorder, &sockets, (&mut number, 0), out_of_step([false; 3]));
    let summary = recorder.stop().unwrap();
    let seen = summary.last.alignment;
    assert!(seen.iter().all(|one| one.parked_fragments == 0), "{seen:?}");
}
