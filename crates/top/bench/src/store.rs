//! Frames to a storage node on the same machine and to its disk, beside TCP alone and direct writes
//! alone, each measured right before and right behind.
//!
//! The sender is what a recorder is behind its builder (`FrameFeed`): frames whose payload is in
//! memory, their checksums, the storage link. The node is a process of its own.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use catchment_console::need_space;
use catchment_model::Entry;
use catchment_recorder::{
    FrameFeed, NodeConfig, Place, RecorderConfig, SourceConfig, TargetConfig,
};
use catchment_storage::{Run, verify};
use serde::Serialize;

use crate::Bench;
use crate::control_node::own_seconds;
use crate::loopback::Limits;
use crate::report::{Report, Section, bytes, met, percent, table};
use crate::search::middle;
use crate::store_node::{Counts, Node, Phase};
use crate::store_plain::{self, Plain, Way};

/// Reference 004's rates, of one stream over 10 GbE to its disks, in bytes per second.
const REFERENCE: (f64, f64) = (0.97e9, 1.17e9);
/// The share of the smaller limit that is to be reached.
const SHARE: f64 = 0.85;
/// Payload of a frame, and its events.
const FRAME_BYTES: usize = 8 << 20;
const EVENTS: u32 = 256;
/// Payloads that differ, so that not all come from a cache.
const DIFFERENT: usize = 8;
const GB: u64 = 1_000_000_000;

/// Files of one size.
#[derive(Clone, Copy, Debug, Serialize)]
struct Case {
    file_bytes: u64,
    streams: u64,
    tls: bool,
}

impl Case {
    fn name(self) -> String {
        match self.streams {
            1 if self.tls => "one, under TLS".to_owned(),
            1 => "one".to_owned(),
            streams => format!("{streams} together"),
        }
    }
}

/// One recording, between two measurements of each limit.
#[derive(Clone, Debug, Serialize)]
struct Stored {
    #[serde(flatten)]
    case: Case,
    /// From the first frame until all files were closed and durable.
    bytes_per_second: f64,
    /// The means of right before and right behind it.
    #[serde(flatten)]
    limits: Limits,
    take: Phase,
    write: Phase,
    sync: Phase,
    /// The share of the shorter one of taking and writing in which both went on; of one stream.
    overlap_percent: Option<f64>,
    /// Core-seconds per gigabyte.
    sender: f64,
    node: f64,
}

impl Stored {
    fn share(&self) -> f64 {
        self.bytes_per_second / self.limits.least()
    }
}

#[derive(Debug, Serialize)]
struct Figures {
    stored: Vec<Stored>,
    plain: Vec<(Way, Plain)>,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let one = |gb: u64| Case { file_bytes: gb * GB, streams: 1, tls: false };
    let cases = match bench.quick {
        true => [(1, false), (4, false), (1, true)]
            .map(|(streams, tls)| Case { file_bytes: 48 << 20, streams, tls })
            .to_vec(),
        false => {
            let four = Case { file_bytes: 5 * GB / 2, streams: 4, tls: false };
            vec![one(1), one(10), four, Case { tls: true, ..one(10) }, one(20), one(40)]
        }
    };
    let payloads = payloads();
    let (mut stored, mut left_out) = (Vec::new(), Vec::new());
    for case in cases {
        let all_bytes = case.file_bytes * case.streams;
        if !bench.quick && need_space(&bench.scratch, all_bytes + 8 * GB).is_err() {
            left_out.push(bytes(all_bytes as f64));
            continue;
        }
        let what = format!("{}, {}", bytes(case.file_bytes as f64), case.name());
        let rounds = bench.rounds(&what, |bench| record(bench, case, &payloads))?;
        stored.push(middle(rounds, Stored::share));
    }
    let mut plain = Vec::new();
    let plain_bytes = if bench.quick { 32 << 20 } else { 8 << 30 };
    for way in [Way::Direct, Way::Buffered, Way::Splice] {
        let rounds =
            bench.rounds(way.name(), |bench| store_plain::measure(bench, way, plain_bytes))?;
        plain.push((way, middle(rounds, |one| one.bytes_per_second)));
    }
    let figures = Figures { stored, plain };
    let sections = vec![stored_table(bench, &figures, &left_out), plain_table(&figures)];
    Report::new("store", bench, sections, &figures)
}

fn payloads() -> Vec<Arc<[u8]>> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut word = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.to_le_bytes()
    };
    let mut payload = || (0..FRAME_BYTES / 8).flat_map(|_| word()).collect();
    (0..DIFFERENT).map(|_| payload()).collect()
}

fn record(bench: &mut Bench<'_>, case: Case, payloads: &[Arc<[u8]>]) -> anyhow::Result<Stored> {
    let before = Limits::measure(bench)?;
    let (memory_bytes, preallocate_bytes) =
        if bench.quick { (128 << 20, 16 << 20) } else { (1 << 30, 1 << 30) };
    let start = if case.tls { Node::start_tls } else { Node::start };
    let mut node = start(&bench.scratch, memory_bytes, preallocate_bytes)?;
    let process = node.process();
    let cpu = || -> anyhow::Result<[f64; 2]> {
        Ok([own_seconds(std::process::id())?, own_seconds(process)?])
    };
    let cpu_before = cpu()?;
    let frames = (case.file_bytes / FRAME_BYTES as u64).max(1);
    let to = NodeConfig { certificate: node.certificate.clone(), ..NodeConfig::at(&node.address) };
    let begin = Instant::now();
    let names: Vec<anyhow::Result<String>> = std::thread::scope(|scope| {
        let feed = || feed(&to, frames, payloads);
        let feeds: Vec<_> = (0..case.streams).map(|_| scope.spawn(feed)).collect();
        let failed = |_| Err(anyhow::anyhow!("a sender has panicked"));
        feeds.into_iter().map(|one| one.join().unwrap_or_else(failed)).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let names = names.into_iter().collect::<anyhow::Result<Vec<String>>>()?;
    let cpu_behind = cpu()?;
    let counts = node.end()?;
    check(bench, &node, &counts, (&names, frames))?;
    drop(node);
    let limits = before.mean(Limits::measure(bench)?);
    let gb = (case.streams * frames * FRAME_BYTES as u64) as f64 / 1e9;
    let [sender, of_node] = [0, 1].map(|index| (cpu_behind[index] - cpu_before[index]) / gb);
    let sum = |of: fn(&crate::store_node::OfStream) -> Phase| {
        counts.streams.iter().map(of).fold(Phase::default(), Phase::with)
    };
    let (take, write) = (sum(|one| one.take), sum(|one| one.write));
    let busy = [take, write].map(|phase| phase.total_ns as f64 / 1e9);
    let both = (busy[0] + busy[1] - seconds) / busy[0].min(busy[1]).max(1e-9);
    Ok(Stored {
        case,
        bytes_per_second: gb * 1e9 / seconds,
        limits,
        take,
        write,
        sync: sum(|one| one.sync),
        overlap_percent: (case.streams == 1).then_some(both.clamp(0.0, 1.0) * 100.0),
        sender,
        node: of_node,
    })
}

/// Sends so many frames as one run; its name.
fn feed(to: &NodeConfig, frames: u64, payloads: &[Arc<[u8]>]) -> anyhow::Result<String> {
    let source = SourceConfig::new("frames".to_owned(), ([127, 0, 0, 1], 0).into());
    let place = Place::Node(to.clone());
    let target = TargetConfig {
        place,
        trends: false,
        hold_bytes: Some(HOLD_BYTES),
        ..TargetConfig::folder("node", "".into())
    };
    let config = RecorderConfig::new("".into(), vec![source]);
    let mut feed = FrameFeed::start(&RecorderConfig { targets: vec![target], ..config })?;
    for frame in 0..frames {
        feed.put(EVENTS, &payloads[frame as usize % payloads.len()])?;
    }
    let name = feed.name().to_owned();
    let last = feed.finish()?;
    let total = last.targets[0].ledger.total();
    let durable = total[Entry::FragmentsDurable];
    let sent = frames * u64::from(EVENTS);
    let state = &last.targets[0].state;
    anyhow::ensure!(durable == sent, "{durable} of {sent} fragments are durable: {state:?}");
    Ok(name)
}

/// The node has all frames once, in files that are whole.
fn check(
    bench: &mut Bench<'_>,
    node: &Node,
    counts: &Counts,
    (names, frames): (&[String], u64),
) -> anyhow::Result<()> {
    let bad = counts.frames_repeated + counts.bad();
    let all = names.len() as u64 * frames;
    // Each stream may have a last one, for counts that no other has.
    let is_all = (all..=all + names.len() as u64).contains(&counts.frames_taken);
    let have_ended = counts.streams.iter().all(|one| one.has_ended && names.contains(&one.name));
    if bad > 0 || !is_all || !have_ended {
        bench.broken.push(format!("{all} frames were sent: {counts:?}"));
    }
    for name in names {
        let run = Run::open(node.stored(name))?;
        let ledger = run.recorded_ledger()?.context("a stream without a ledger")?;
        let recorded = ledger.total()[Entry::FragmentsRecorded];
        let is_whole = !bench.quick || verify(&run, |_| {}).is_intact();
        let expected = frames * u64::from(EVENTS);
        if !ledger.balance().holds() || recorded != expected || !run.ended() || !is_whole {
            bench.broken.push(format!("{name}: {recorded} of {expected} fragments, {ledger:?}"));
        }
    }
    Ok(())
}

fn stored_table(bench: &Bench<'_>, figures: &Figures, left_out: &[String]) -> Section {
    let core = |seconds: f64| format!("{seconds:.2}");
    let table = table(
        &figures.stored,
        &[
            ("file", &|one| bytes(one.case.file_bytes as f64)),
            ("streams", &|one| one.case.name()),
            ("bytes/s", &|one| bytes(one.bytes_per_second)),
            ("TCP", &|one| bytes(one.limits.tcp)),
            ("direct write", &|one| bytes(one.limits.direct_write)),
            ("at once", &|one| one.limits.at_once_text()),
            ("share", &|one| format!("{:.2}", one.share())),
            (">= 0.85", &|one| match one.case.tls {
                true => "-".to_owned(),
                false => met(bench.quick, one.share() >= SHARE),
            }),
            ("take, ms", &|one| one.take.text()),
            ("write, ms", &|one| one.write.text()),
            ("sync, ms", &|one| one.sync.text()),
            ("overlap", &|one| one.overlap_percent.map_or_else(|| "-".to_owned(), percent)),
            ("sender, s/GB", &|one| core(one.sender)),
            ("node, s/GB", &|one| core(one.node)),
            ("node, CPU", &|one| percent(one.node * one.bytes_per_second / 1e7)),
        ],
    );
    let section = Section::new("To a storage node's disk", table)
        .note(format!(
            "Frames of {} from memory to a node in a process of its own, over TCP on this machine; \
             each column's CRC-32C is made by the sender and checked by the node. Bytes/s: until \
             all files are closed and synced. Of {} recordings, the one with the middle share.",
            bytes(FRAME_BYTES as f64),
            bench.repeats()
        ))
        .note(
            "TCP (one process to another, 256 KiB writes) and direct write (4 MiB, preallocated) \
             alone, and both at once with nothing between them: the means of right before and \
             right behind each recording. Share: of the smaller one alone.",
        )
        .note(
            "Mean / longest time of a frame: take, from its first message to its last; write, from \
             then, or from the end of the frame before, until it is written; and of a sync. \
             Overlap: the part of the shorter one of taking and writing in which both went on. CPU: seconds \
             of a core per GB of sender and node, and percent of one core.",
        )
        .note(four_note(bench, &figures.stored))
        .note(format!(
            "Reference 004, over 10 GbE: {} to {}, 97 % overlap, 6 % of a CPU.",
            bytes(REFERENCE.0),
            bytes(REFERENCE.1)
        ));
    match left_out {
        [] => section,
        sizes => section.note(format!("No room for {} here.", sizes.join(" and "))),
    }
}

/// Whether several streams together go no slower than one, of the files nearest in size to all of
/// theirs.
fn four_note(bench: &Bench<'_>, stored: &[Stored]) -> String {
    let all_bytes = |one: &Stored| one.case.file_bytes * one.case.streams;
    let several = stored.iter().find(|one| one.case.streams > 1);
    let one = several.and_then(|several| {
        let alone = stored.iter().filter(|one| one.case.streams == 1 && !one.case.tls);
        alone.min_by_key(|one| all_bytes(one).abs_diff(all_bytes(several)))
    });
    let Some((several, one)) = several.zip(one) else {
        return "Several streams together were not measured.".to_owned();
    };
    let ratio = several.share() / one.share();
    format!(
        "{} streams together: {ratio:.2} of the share of one. Asked: no less (by more than a \
         twentieth). {}",
        several.case.streams,
        met(bench.quick, ratio >= 0.95)
    )
}

fn plain_table(figures: &Figures) -> Section {
    let table = table(
        &figures.plain,
        &[
            ("way", &|(way, _)| way.name().to_owned()),
            ("bytes/s", &|(_, one)| bytes(one.bytes_per_second)),
            ("both, s/GB", &|(_, one)| format!("{:.2}", one.core_seconds_per_gb)),
        ],
    );
    Section::new("From a connection to a file, and nothing else", table).note(
        "One thread sends, another writes one file, and syncs it at its end: no frames, no \
         checksums. Splice moves pages that the process never sees.",
    )
}

/// What a sender holds until it is durable.
const HOLD_BYTES: u64 = 512 << 20;
