//! Channel links over sessions: every sample reads back, whatever waits or breaks, and the sender
//! learns what is durable.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use catchment_disk::{FaultControl, FaultPlan};
use catchment_fixtures::wait_while;
use catchment_frame::{ColumnCoding, Dtype};
use catchment_frontend::{Closed, Error, Frontend, PushError, Release, SourceStatus};
use catchment_model::{Entry, SampleRate};
use catchment_recorder::{ChannelConfig, Recorder, RecorderConfig, RunSummary};
use catchment_storage::Verdict;
use catchment_wire::Transport;
use catchment_wire::link::{EntryHeader, Header, Kind, PacketEncoder};
use catchment_wire::session::Service;

use crate::support::front_end::{Opening, hello};
use crate::support::links::{
    FIRST, Sender, assert_books, assert_samples, channels, config as by_datagrams, link_ledger,
    read,
};

const LONG: Duration = Duration::from_secs(600);

fn config(folder: &Path) -> RecorderConfig {
    let mut config = by_datagrams(folder);
    config.links[0].transport = Transport::Sessions;
    // Nothing is given up while a busy machine looks elsewhere.
    config.build.timeout_ns = 3_600_000_000_000;
    config
}

/// A sender, and what makes its packets.
struct Link {
    session: Frontend,
    packets: Sender,
}

impl Link {
    fn connect(recorder: &Recorder) -> Self {
        let url = format!("catchment+tcp://{}", recorder.addresses()[0]);
        let session = Frontend::channels(&url, "link").wait(LONG).connect().unwrap();
        let packets = Sender {
            socket: std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
            channels: channels(),
            sequence: 0,
        };
        Self { session, packets }
    }

    /// Sends two packets for each slice: a channel more in the one than in the other.
    fn send(&mut self, slices: std::ops::Range<u64>) {
        for slice in slices {
            for which in [&[0][..], &[1, 2, 3]] {
                self.session.send_packet(&self.packets.packet(slice, which)).unwrap();
            }
        }
    }

    fn status(&self) -> SourceStatus {
        self.session.sources()[0].status()
    }
}

/// The run has the slices, and nothing was lost.
fn check(summary: &RunSummary, slices: impl Iterator<Item = u64> + Clone) {
    assert_samples(&read(summary, &channels()), &channels(), slices);
    let balance = summary.last.ledger.balance();
    assert!(balance.holds() && !balance.lost_data(), "{:?}", summary.last.ledger);
    assert_books(summary, Verdict::Balanced);
}

#[test]
fn packets_of_a_session_read_back_and_are_durable() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut link = Link::connect(&recorder);
    link.send(FIRST..FIRST + 100);
    // Frames stand at multiples of 16 slices, and so does what is durable.
    wait_while(|| link.status().durable < 2 * 80 || link.status().taken < 200);
    assert!(link.status().durable <= 2 * 100);
    let summary = recorder.stop().unwrap();
    assert_eq!(link.session.close(LONG), Closed::default());
    check(&summary, FIRST..FIRST + 100);
    let ledger = link_ledger(&summary, 0);
    assert_eq!(ledger[Entry::FragmentsReceived], 400);
    assert_eq!(ledger[Entry::FragmentsRecorded], 400);
    assert!(ledger[Entry::PacketsReceived] >= 200);
}

#[test]
fn a_sender_that_ends_is_told_that_all_is_durable_while_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.frame.duration_ns = 250_000_000;
    let recorder = Recorder::start(config).unwrap();
    let mut link = Link::connect(&recorder);
    link.send(FIRST..FIRST + 10);
    assert_eq!(link.session.close(LONG), Closed::default());
    check(&recorder.stop().unwrap(), FIRST..FIRST + 10);
}

#[test]
fn a_buffer_that_lasts_for_less_than_two_frames_is_too_small_if_it_keeps_what_is_not_durable() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let frame_ms = (config.frame.duration_ns / 1_000_000) as u32;
    let recorder = Recorder::start(config).unwrap();
    let observer = recorder.observer();
    let short = |buffer_ms, release| {
        let url = format!("catchment+tcp://{}", recorder.addresses()[0]);
        let link = Frontend::channels(&url, "link").wait(LONG).buffer_ms(buffer_ms);
        let link = link.release(release).connect().unwrap();
        let why = observer.front_ends().list()["link"].buffer_short();
        assert_eq!(link.close(LONG), Closed::default());
        why
    };
    let why = short(2 * frame_ms - 1, Release::Durable).unwrap();
    assert!(why.contains(&format!("up to {} ms to be durable", 2 * frame_ms)), "{why}");
    assert_eq!(short(2 * frame_ms, Release::Durable), None);
    assert_eq!(short(1, Release::Taken), None);
    recorder.stop().unwrap();
}

#[test]
fn what_comes_in_a_pause_is_counted_and_leaves_the_ring() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.frame.time_ns = 10_000_000;
    let recorder = Recorder::start(config).unwrap();
    let mut link = Link::connect(&recorder);
    link.send(FIRST..FIRST + 20);
    wait_while(|| recorder.snapshot().counts.slices_complete < 20);
    recorder.pause(true);
    link.send(FIRST + 20..FIRST + 120);
    // But for the last slices, for which more might come.
    wait_while(|| link.status().durable < 2 * 110);
    recorder.pause(false);
    link.send(FIRST + 120..FIRST + 140);
    wait_while(|| link.status().taken < 280);
    let summary = recorder.stop().unwrap();
    assert_eq!(link.session.close(LONG), Closed::default());
    let ledger = link_ledger(&summary, 0);
    let discarded = ledger[Entry::FragmentsDiscardedPaused];
    assert_eq!((discarded % 4, ledger[Entry::FragmentsRecorded] + discarded), (0, 560));
    assert!((390..=400).contains(&discarded), "{discarded}");
    check(&summary, (FIRST..FIRST + 20).chain(FIRST + 20 + discarded / 4..FIRST + 140));
}

#[test]
fn a_packet_that_is_malformed_costs_itself_and_not_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut link = Link::connect(&recorder);
    link.send(FIRST..FIRST + 10);
    let mut bad = link.packets.packet(FIRST + 10, &[0]);
    bad[0] ^= 1;
    link.session.send_packet(&bad).unwrap();
    link.session.send_packet(b"CTLK").unwrap();
    // Heartbeats are the client's own.
    for no_samples in [&b"CTLK\x01\x02"[..], b""] {
        let refused = link.session.send_packet(no_samples).unwrap_err();
        assert!(matches!(refused, Error::Push(PushError::NoSamples)), "{refused}");
    }
    link.packets.sequence -= 1;
    link.send(FIRST + 10..FIRST + 20);
    wait_while(|| link.status().taken < 42);
    let summary = recorder.stop().unwrap();
    assert_eq!(link.session.close(LONG), Closed::default());
    let ledger = link_ledger(&summary, 0);
    assert_eq!(ledger[Entry::PacketsMalformedHeader], 1);
    assert_eq!(ledger[Entry::PacketsMalformedShort], 1);
    assert_eq!((ledger[Entry::PacketsMissing], ledger[Entry::LinkResumes]), (0, 0));
    assert!(ledger.balance().holds(), "{ledger:?}");
    assert_samples(&read(&summary, &channels()), &channels(), FIRST..FIRST + 20);
}

#[test]
fn a_sender_that_dies_has_what_it_held_counted_when_another_one_comes() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    // It has made 30 packets, and sends none.
    let logs = [("", 0, 30)];
    let opening = Opening::of("link", 7, &logs);
    let mut bytes = hello(&opening, (0, 0));
    bytes[10] = Service::Channels as u8;
    let mut dying = TcpStream::connect(recorder.addresses()[0]).unwrap();
    dying.write_all(&bytes).unwrap();
    let (mut preamble, mut welcome) = ([0; 16], [0; 128]);
    dying.read_exact(&mut preamble).unwrap();
    dying.read_exact(&mut welcome).unwrap();
    drop(dying);
    let mut link = Link::connect(&recorder);
    link.send(FIRST..FIRST + 20);
    wait_while(|| link.status().taken < 40);
    let summary = recorder.stop().unwrap();
    assert_eq!(link.session.close(LONG), Closed::default());
    assert_eq!(link_ledger(&summary, 0)[Entry::FragmentsLostSender], 30);
    assert_samples(&read(&summary, &channels()), &channels(), FIRST..FIRST + 20);
}

#[test]
fn a_sender_that_is_faster_than_memory_waits_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let rate = SampleRate::new(4_000_000, 1).unwrap();
    config.links[0].slice_ns = 1_000_000;
    config.links[0].channels = vec![ChannelConfig::new("X:HUGE", Dtype::F32, rate)];
    config.frame.duration_ns = 1_000_000_000;
    // Compressed, these samples are next to nothing.
    config.frame.codings = ColumnCoding::NONE.into();
    // Nothing is recorded, and the chunks are soon full, until the disk goes on.
    let control = FaultControl::default();
    config.write.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    let recorder = Recorder::start(config).unwrap();
    let url = format!("catchment+tcp://{}", recorder.addresses()[0]);
    let builder = Frontend::channels(&url, "link").buffer(512 << 20).wait(LONG);
    let session = builder.connect().unwrap();
    control.stall(true);
    let (count, mut buffer) = (16_000, vec![0; 65_507]);
    let mut send = |slice: u64| {
        let (sequence, slice_ns) = (slice, 1_000_000);
        let slice = 1_000_000 + slice;
        let header = Header { kind: Kind::Samples, link: 1, sequence, slice, slice_ns };
        let mut encoder = PacketEncoder::begin(&mut buffer, &header);
        assert!(encoder.push(&EntryHeader { channel: 0, first_sample: 0, bytes: 16_000 }));
        let bytes = encoder.finish_with(|_, out| out.fill(slice as u8));
        session.send_packet(&buffer[..bytes]).unwrap();
    };
    (0..count).for_each(&mut send);
    // Held: the same number in many looks, and less than all.
    let (mut before, mut looks) = (0, 0);
    wait_while(|| {
        let now = session.sources()[0].status().taken;
        looks = if now > 0 && now == before { looks + 1 } else { 0 };
        before = now;
        looks < 1_000 && now < count
    });
    assert!(before < count, "all of it was taken at once");
    control.stall(false);
    wait_while(|| session.sources()[0].status().taken < count);
    let summary = recorder.stop().unwrap();
    assert_eq!(session.close(LONG), Closed::default());
    let ledger = link_ledger(&summary, 0);
    assert_eq!(ledger[Entry::FragmentsRecorded], count);
    assert!(ledger.balance().holds() && !ledger.balance().lost_data(), "{ledger:?}");
    assert_books(&summary, Verdict::Balanced);
}

#[test]
fn a_listener_of_channels_takes_no_events() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let url = format!("catchment+tcp://{}", recorder.addresses()[0]);
    let wait = Duration::from_millis(200);
    assert!(Frontend::builder(&url, "link").wait(wait).connect().is_err());
    assert!(Frontend::channels(&url, "other").wait(LONG).connect().is_err());
    let summary = recorder.stop().unwrap();
    assert!(link_ledger(&summary, 0)[Entry::PacketsRefused] > 0);
}
