//! The agents of a recorder of events, but for the one of trends, in one thread and in virtual
//! time, from one seed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, Work};
use catchment_fixtures::Random;
use catchment_frame::{Codings, ColumnCoding};
use catchment_model::{Entry, Ledger, RunId, SourceId, SourceLedger};
use catchment_ports::{MemoryFiles, MemoryStore, QueueIngress, Queues, StoreTimes, VirtualClock};
use catchment_storage::{Run, Verdict, audit};
use catchment_test_protocol as test_protocol;
use catchment_wire::hadtu::{
    ByteOrder, PacketEncoder, SUB_EVENT_DECODING, SUB_EVENT_HEADER_BYTES, SubEventHeader,
};

use crate::agents::{AgentParts, Agents, Wakers};
use crate::config::{RecorderConfig, SourceConfig};
use crate::file::{FileMaker, FirstFile, RunIdentity};
use crate::live::Live;
use crate::recorder::RecorderError;
use crate::wiring::{Bind, Endpoint, Wiring};

const EVENTS: u32 = 400;
const STEP_NS: u64 = 200_000;
/// Bytes of the longest fragment that goes on over several packets: more than a chunk.
const PART_FRAGMENT_BYTES_MAX: u64 = 300_000;
/// Nothing takes so long in virtual time: reached only where something waits for ever.
const STEPS_MAX: u64 = 300_000;

/// What a seed makes of a run.
struct Plan {
    sources: u32,
    coding: &'static str,
    buffers: usize,
    times: StoreTimes,
    /// Packets of a thousand that are not sent.
    lost_per_thousand: u64,
    /// When the next file is begun.
    file_bytes: u64,
    file_time_ns: Option<u64>,
    /// How many packets the buffers before the recorder hold.
    queue: usize,
    /// Whether fragments go on over several packets.
    in_parts: bool,
}

impl Plan {
    fn of(chance: &mut Random) -> Self {
        let rare = |chance: &mut Random, most| chance.below(2) * chance.below(most);
        Self {
            sources: 1 + chance.below(4) as u32,
            coding: ["none", "lz4", "auto"][chance.below(3) as usize],
            buffers: 2 + chance.below(5) as usize,
            times: StoreTimes {
                operation_ns_max: chance.below(30_000_000),
                open_ns_max: chance.below(400_000_000),
                write_errors_per_thousand: rare(chance, 30),
            },
            lost_per_thousand: rare(chance, 60),
            file_bytes: [400 << 10, 1 << 20, 1 << 30][chance.below(3) as usize],
            file_time_ns: [None, Some(20_000_000 + chance.below(100_000_000))]
                [chance.below(2) as usize],
            queue: 4 + chance.below(2_000) as usize,
            in_parts: chance.below(3) == 0,
        }
    }

    fn config(&self) -> RecorderConfig {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let source = |source: u32| {
            let config = SourceConfig::new(format!("s{source}"), address);
            match self.in_parts {
                true => SourceConfig {
                    protocol: &test_protocol::PROTOCOL,
                    fragment_bytes_max: PART_FRAGMENT_BYTES_MAX,
                    ..config
                },
                false => SourceConfig { id: Some(source), ..config },
            }
        };
        let mut config = RecorderConfig::new("".into(), (0..self.sources).map(source).collect());
        config.memory_bytes = 64 << 20;
        config.trends = false;
        config.frame.bytes = 64 << 10;
        config.frame.codings = Codings::new(self.coding.parse::<ColumnCoding>().unwrap());
        config.encode.threads = 2;
        config.write.buffer_bytes = 32 << 10;
        config.write.buffer_count = self.buffers;
        config.write.file_bytes = self.file_bytes;
        config.write.file_time_ns = self.file_time_ns;
        config
    }
}

/// Gives the receive agents queues to receive from.
struct Bound(Queues, usize);

impl Bind for Bound {
    type Ingress = QueueIngress;

    fn bind(&mut self, endpoints: &[Endpoint<'_>]) -> Result<QueueIngress, RecorderError> {
        let queues = endpoints.iter().map(|_| self.0.add(self.1)).collect();
        Ok(QueueIngress::new(&self.0, queues, 64))
    }
}

/// The payload of a source's fragment of an event: its length and its bytes follow from both.
fn payload(in_parts: bool, source: u32, event: u32) -> Vec<u8> {
    let longest = if in_parts { PART_FRAGMENT_BYTES_MAX as u32 - 40 } else { 3_000 };
    let bytes = 40 + (source * 977 + event * 131_071) % longest;
    (0..bytes).map(|n| (source + event + n / 7) as u8).collect()
}

fn packet(source: u32, event: u32) -> Vec<u8> {
    let mut buffer = vec![0; 8_192];
    let mut encoder = PacketEncoder::begin(&mut buffer, ByteOrder::Little);
    let header = SubEventHeader {
        id: source,
        error: false,
        trigger_number: event,
        trigger_tag: 7,
        decoding: SUB_EVENT_DECODING,
    };
    assert!(encoder.push(&header, &payload(false, source, event)));
    let used = encoder.finish();
    buffer.truncate(used);
    buffer
}

/// The packets of a fragment that goes on over several: in any order, some of them twice.
fn packets_of_parts(
    source: u32,
    event: u32,
    sequence: &mut u64,
    chance: &mut Random,
) -> Vec<Vec<u8>> {
    let fragment = payload(true, source, event);
    let mut packets = test_protocol::packets(event.into(), &fragment, 9_000, *sequence);
    *sequence += packets.len() as u64;
    if chance.below(4) == 0 {
        packets.push(packets[chance.below(packets.len() as u64) as usize].clone());
    }
    for index in (1..packets.len()).rev() {
        packets.swap(index, chance.below(index as u64 + 1) as usize);
    }
    packets
}

/// Records a run of that seed: its files, its ledger, and how many packets were sent.
fn record(seed: u64) -> (MemoryFiles, Ledger, u64) {
    let mut chance = Random::new(seed);
    let plan = Plan::of(&mut chance);
    let config = plan.config();
    let clock = VirtualClock::at(1_700_000_000_000_000_000);
    let live = Arc::new(Live::new(&config));
    let stop = Arc::new(AtomicBool::new(false));
    let mut bound = Bound(Queues::default(), plan.queue);
    let wired = Wiring::of(&config, &live, &stop, &mut bound).unwrap();
    let name = "run".to_owned();
    let identity = RunIdentity { run: RunId([7; 16]), folder: "run".into(), name };
    let buffers = (plan.buffers, config.write.buffer_bytes);
    let mut store = MemoryStore::new((clock.clone(), seed), buffers, plan.times);
    let files = store.files();
    let id = store.create(&FileMaker::first_path(&identity));
    let first = FirstFile { store, id, entropy: Box::new(chance) };
    let (wakers, now_ns) = (Wakers::default(), clock.now_ns());
    let (live_of, stop_of, trends) = (Arc::clone(&live), Arc::clone(&stop), None);
    let parts = AgentParts { wired, identity, live: live_of, stop: stop_of, first, trends, wakers };
    let agents = Agents::new(&config, parts, now_ns).unwrap();
    let Agents { receives, build, encoders, write, populate } = agents;
    let mut agents = receives;
    agents.extend([Box::new(build) as Box<dyn Agent>, Box::new(write), Box::new(populate)]);
    agents.extend(encoders.into_iter().map(|encoder| Box::new(encoder) as Box<dyn Agent>));
    let (mut event, mut sent) = (0, 0);
    let mut sequences = vec![0; plan.sources as usize];
    for step in 0.. {
        assert!(step < STEPS_MAX, "seed {seed}: something waits for ever");
        if agents.is_empty() {
            break;
        }
        if event < EVENTS && chance.below(3) == 0 {
            for source in 0..plan.sources {
                let packets = match plan.in_parts {
                    true => {
                        let sequence = &mut sequences[source as usize];
                        packets_of_parts(source, event, sequence, &mut chance)
                    }
                    false => vec![packet(source, event)],
                };
                for packet in packets {
                    if chance.below(1_000) >= plan.lost_per_thousand {
                        sent += u64::from(bound.0.send(source as usize, packet));
                    }
                }
            }
            event += 1;
        }
        stop.store(event == EVENTS, Relaxed);
        // In another order every time, and sometimes not at all.
        for _ in 0..2 * agents.len() {
            let index = chance.below(agents.len() as u64) as usize;
            let Work { ended, .. } = agents[index].work(clock.now_ns());
            if ended {
                agents.swap_remove(index);
                if agents.is_empty() {
                    break;
                }
            }
        }
        clock.advance_to(clock.now_ns() + STEP_NS);
    }
    (files, live.ledger.snapshot(), sent)
}

/// Every recorded fragment is the one that its source sent for that event.
fn prove(folder: &Path) -> u64 {
    let run = Run::open(folder).unwrap();
    let mut fragments = 0;
    for frame in 0..run.frames().len() {
        for source in 0..run.header().schema.sources.len() as u32 {
            let column = run.fragments(frame, SourceId(source)).unwrap();
            for (row, &key) in column.events().keys().iter().enumerate() {
                if let Some(fragment) = column.fragment(row) {
                    let in_parts = run.sources()[source as usize].protocol == "test";
                    let header = if in_parts { 0 } else { SUB_EVENT_HEADER_BYTES };
                    let expected = payload(in_parts, source, key as u32);
                    assert!(fragment[header..] == expected, "event {key} of source {source}");
                    fragments += 1;
                }
            }
        }
    }
    fragments
}

#[test]
fn every_seed_records_what_was_sent_and_its_ledger_balances() {
    use Entry::{FragmentPartsRepeated as Repeated, FragmentsDiscardedUnfinished as Unfinished};
    let mut of_parts = SourceLedger::default();
    for seed in 0..200 {
        let (files, ledger, sent) = record(seed);
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files.all() {
            std::fs::write(folder.path().join(path.file_name().unwrap()), bytes).unwrap();
        }
        let total = ledger.total();
        let balance = ledger.balance();
        assert!(balance.holds(), "seed {seed}: {balance:?}");
        assert_eq!(total[Entry::PacketsReceived], sent, "seed {seed}");
        assert_eq!(total[Entry::FragmentsRecorded], prove(folder.path()), "seed {seed}");
        assert_eq!(total[Entry::FragmentsDurable], total[Entry::FragmentsRecorded], "seed {seed}");
        let expected = if balance.lost_data() { Verdict::DataLost } else { Verdict::Balanced };
        let report = audit(&Run::open(folder.path()).unwrap()).unwrap();
        assert_eq!(report.verdict, expected, "seed {seed}: {report:?}");
        if Run::open(folder.path()).unwrap().sources()[0].protocol == "test" {
            of_parts.add(&total);
        }
    }
    let [recorded, unfinished, repeated] =
        [Entry::FragmentsRecorded, Unfinished, Repeated].map(|entry| of_parts[entry]);
    assert!(recorded > 1_000 && unfinished > 10 && repeated > 100, "{of_parts:?}");
}
