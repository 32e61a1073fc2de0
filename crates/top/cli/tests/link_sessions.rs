//! Channels over sessions with the real binary: what is sent is read back, also from a recorder
//! that was killed and goes on with its run.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use catchment_emulator::{ChannelContent, EmulatedChannel};
use catchment_fixtures::wait_while;
use catchment_frontend::{Closed, Frontend};
use catchment_model::Entry;
use catchment_storage::{Run, Select, Verdict, audit, verify};
use catchment_wire::link::{EntryHeader, Header, Kind, PacketEncoder};

use crate::links::{LABORATORY, count, end, laboratory, parts, total};
use crate::support::{example, free, json, only_run, started};

const LONG: Duration = Duration::from_secs(600);
const SLICE_NS: u64 = 10_000_000;
/// The first second of 2026, about.
const FIRST: u64 = 1_790_000_000 * 100;
/// Kills of the recorder, and slices between them.
const KILLS: u64 = 3;
const SLICES: u64 = 250;

/// Writes a configuration whose link comes over a session; its port is nobody's.
fn write(folder: &Path, text: &str, address: &str) -> String {
    let free = free();
    let written = format!("{free}\"\ntransport = \"session");
    assert_eq!(text.matches(address).count(), 1);
    std::fs::write(folder.join("links.toml"), text.replace(address, &written)).unwrap();
    format!("catchment+tcp://{free}")
}

#[test]
fn an_emulated_link_is_recorded_over_a_session_and_both_books_agree() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = std::fs::read_to_string(example("ligo-1000.toml")).unwrap();
    let text = text.replace("budget = \"2 GiB\"", "budget = \"512 MiB\"");
    let text = text.replace("duration = \"64 s\"", "duration = \"1 s\"");
    write(folder, &text, "127.0.0.1:20200");
    let (child, lines) = started(folder, &["run", "links.toml"], "Recording");
    let emulate = ["emulate", "links.toml", "--multiple", "4", "--seconds", "1", "--json"];
    let sent = json(folder, &emulate, 0);
    assert_eq!((&sent["slices"], &sent["links"][0]["packets_unsent"]), (&16.into(), &0.into()));
    let printed = end(child, lines, 0);
    assert!(printed.contains("16 complete, 0 incomplete, 0 absent, 16 on disk"), "{printed}");
    let path = only_run(folder);
    let recorded = parts(&Run::open(&path).unwrap());
    let first = sent["first_slice"].as_u64().unwrap();
    assert!(recorded.iter().all(|slices| slices.iter().copied().eq(first..first + 16)));
    let audit = json(folder, &["audit", path.to_str().unwrap(), "--json"], 0);
    let books = total(&audit["recorded"]);
    assert_eq!(books["fragments_recorded"], count(&recorded));
    assert_eq!(books["fragments_received"], sent["links"][0]["fragments_made"].as_u64().unwrap());
    assert_eq!(books["packets_received"], books["packets_accepted"]);
    assert_eq!(audit["verdict"], "balanced");
}

/// Makes the packets of the laboratory's channels.
struct Packets {
    channels: Vec<EmulatedChannel>,
    content: ChannelContent,
    sequence: u64,
}

impl Packets {
    fn new() -> Self {
        let channels: Vec<_> = laboratory().into_iter().map(|(channel, ..)| channel).collect();
        let content = ChannelContent::new(1, &channels);
        Self { channels, content, sequence: 0 }
    }

    /// One with these channels' parts of a slice.
    fn make(&mut self, slice: u64, which: std::ops::Range<usize>, buffer: &mut [u8]) -> usize {
        let (sequence, slice_ns) = (self.sequence, SLICE_NS);
        self.sequence += 1;
        let header = Header { kind: Kind::Samples, link: 0, sequence, slice, slice_ns };
        let mut encoder = PacketEncoder::begin(buffer, &header);
        for index in which {
            let channel = &self.channels[index];
            let samples = channel.rate.samples_of_slice(slice, SLICE_NS);
            let elements = channel.shape.iter().product::<u64>();
            let sample_bytes = channel.dtype.bytes_of(elements).unwrap();
            let bytes = ((samples.end - samples.start) * sample_bytes) as u32;
            assert!(encoder.push(&EntryHeader { channel: index as u32, first_sample: 0, bytes }));
        }
        encoder.finish_with(|entry, out| {
            let rate = self.channels[entry.channel as usize].rate;
            let first = rate.samples_of_slice(slice, SLICE_NS).start;
            self.content.fill(entry.channel, first, out);
        })
    }
}

#[test]
fn a_recorder_of_channels_that_is_killed_goes_on_and_has_every_sample_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = format!("[build]\ntimeout = \"1 h\"\n{LABORATORY}");
    let url = write(folder, &text, "ADDRESS");
    let run = || started(folder, &["run", "links.toml"], "Recording");
    let (mut recorder, mut lines) = run();
    let session = Frontend::channels(&url, "laboratory").wait(LONG).connect().unwrap();
    let (slices, sent) = ((KILLS + 1) * SLICES, AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut packets, mut buffer) = (Packets::new(), vec![0; 65_507]);
            for slice in 0..slices {
                for which in [0..1, 1..5] {
                    let bytes = packets.make(FIRST + slice, which, &mut buffer);
                    session.send_packet(&buffer[..bytes]).unwrap();
                }
                sent.store(slice, Relaxed);
            }
        });
        for life in 1..=KILLS {
            wait_while(|| sent.load(Relaxed) < life * SLICES);
            recorder.kill().unwrap();
            recorder.wait().unwrap();
            (recorder, lines) = run();
        }
    });
    assert_eq!(session.close(LONG), Closed::default());
    end(recorder, lines, 0);

    let run = Run::open(only_run(folder)).unwrap();
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    assert!(verify(&run, |_| {}).is_intact());
    assert_eq!(u64::from(run.files().last().unwrap().header.epoch), KILLS);
    let packets = Packets::new();
    for (index, channel) in (0..).zip(&packets.channels) {
        let mut next = channel.rate.first_sample_at(FIRST * SLICE_NS);
        for segment in run.channel(&channel.name).unwrap().read(&Select::All).unwrap() {
            assert_eq!(segment.first_sample, next, "{}: once, without a gap", channel.name);
            assert!(packets.content.verify(index, next, &segment.bytes), "{}", channel.name);
            next += segment.samples;
        }
        assert_eq!(next, channel.rate.first_sample_at((FIRST + slices) * SLICE_NS));
    }
    let ledger = run.recorded_ledger().unwrap().unwrap().total();
    assert_eq!(ledger[Entry::FragmentsRecorded], 5 * slices);
    let lost = [Entry::FragmentsLostRestart, Entry::FragmentsDiscardedRestart];
    assert_eq!(lost.map(|entry| ledger[entry]), [0; 2], "{ledger:?}");
}
