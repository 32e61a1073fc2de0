//! A detector of two sources that a test plays, and what it must leave on the disk.

use std::net::UdpSocket;
use std::path::Path;

use catchment_disk::FaultPlan;
use catchment_fixtures::{Random, wait_while};
use catchment_model::Entry;
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, State};
use catchment_storage::{Run, Verdict, audit, verify};
use catchment_wire::hadtu::ByteOrder;

use super::{config, packet, senders, total};

const PAYLOAD_BYTES: usize = 8_000;

/// Two sources that send the same events, as fast as the recorder takes them up.
pub struct Detector {
    pub recorder: Recorder,
    sockets: Vec<UdpSocket>,
    next_event: u32,
}

impl Detector {
    pub fn start(config: RecorderConfig) -> Self {
        let recorder = Recorder::start(config).unwrap();
        let sockets = senders(&recorder);
        Self { recorder, sockets, next_event: 1 }
    }

    /// Sends events and waits until they are recorded or discarded, so that it is never memory that
    /// runs out first.
    pub fn send(&mut self, events: u32) {
        self.send_on(events);
        self.wait(|r| r.snapshot().ledger.balance().fragments_in_flight == 0);
    }

    /// Sends events and waits until the recorder has received them.
    pub fn send_on(&mut self, events: u32) {
        for _ in 0..events {
            // Bytes that do not compress: a small disk is full after a few events.
            let payload = Random::new(self.next_event.into()).noise(PAYLOAD_BYTES);
            for (source, socket) in self.sockets.iter().enumerate() {
                let number = self.next_event & 0xff_ffff;
                let packet = packet(source as u32, ByteOrder::Big, &[(number, &payload)]);
                socket.send(&packet).unwrap();
            }
            self.next_event += 1;
        }
        let sent = u64::from(self.next_event - 1) * 2;
        self.wait(|recorder| received(recorder) == sent);
    }

    /// Sends on until the recorder is in that state.
    pub fn send_until(&mut self, reached: impl Fn(&State) -> bool) {
        while !reached(&self.recorder.snapshot().state) {
            self.send(20);
        }
    }

    pub fn wait(&self, reached: impl Fn(&Recorder) -> bool) {
        wait_while(|| !reached(&self.recorder));
    }

    pub fn stop(self) -> RunSummary {
        let sent = u64::from(self.next_event - 1) * 2;
        let summary = self.recorder.stop().unwrap();
        assert_eq!(total(&summary, Entry::FragmentsReceived), sent);
        let balance = summary.last.ledger.balance();
        assert!(balance.holds(), "{balance:?}");
        summary
    }
}

pub fn received(recorder: &Recorder) -> u64 {
    recorder.snapshot().ledger.total()[Entry::FragmentsReceived]
}

pub fn in_fault(state: &State) -> bool {
    matches!(state, State::Fault { .. })
}

pub fn small_frames(folder: &Path, plan: Option<FaultPlan>) -> RecorderConfig {
    let mut config = config(folder, 2);
    config.frame.bytes = 256 << 10;
    config.frame.time_ns = 20_000_000;
    config.write.buffer_bytes = 64 << 10;
    config.write.preallocate_bytes = 1 << 20;
    config.write.faults = plan;
    config
}

/// Everything in the files reads back, and the books of the files are those of the summary.
pub fn assert_readable(summary: &RunSummary, verdict: Verdict) {
    let run = Run::open(&summary.folder).unwrap();
    let report = verify(&run, |_| {});
    assert!(report.is_intact(), "{report:?}");
    let audit = audit(&run).unwrap();
    assert_eq!(audit.verdict, verdict, "{audit:?}");
    let recorded = total(summary, Entry::FragmentsRecorded);
    assert_eq!(audit.recomputed.total()[Entry::FragmentsRecorded], recorded);
    assert_eq!(summary.last.files.len(), run.files().len());
}
