//! `bench limits`: the highest rates of this machine, part by part.

use std::path::Path;
use std::time::Instant;

use catchment_console::Table;
use catchment_model::units::{Bytes, Count};
use serde::Serialize;

use crate::Bench;
use crate::builder::{self, Built};
use crate::decoders::{self, Decoded};
use crate::discard::{self, Discarded};
use crate::point::Load;
use crate::report::{Report, Section, bytes, met, percent, table};
use crate::search::{median, middle};

/// How much longer a declaration may take than the decoder that was written for it.
const DECLARED: f64 = 1.10;

/// Everything that `bench limits` measures.
#[derive(Debug, Serialize)]
struct Figures {
    receive_and_discard: Vec<(&'static str, Discarded)>,
    direct_write: DirectWrite,
    memory_copy: Vec<Copied>,
    builder: Vec<Built>,
    decoders: Vec<Decoded>,
}

/// Writing and nothing else.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DirectWrite {
    pub(crate) bytes_per_second: f64,
    pub(crate) cpu_percent: f64,
}

#[derive(Debug, Serialize)]
struct Copied {
    block_bytes: usize,
    bytes_per_second: f64,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let mut receive_and_discard = Vec::new();
    for load in [Load::FULL, Load::EQUAL, Load::SEPARATE] {
        receive_and_discard.push((load.name(), discard::most(bench, load)?));
    }
    let direct_write = direct_write(bench, None)?;
    let mut memory_copy = Vec::new();
    for block_bytes in [1 << 20, 256 << 20] {
        bench.now(format!("memory copy, {}", Bytes(block_bytes as u64)))?;
        memory_copy.push(Copied { block_bytes, bytes_per_second: copy(bench, block_bytes) });
    }
    let mut built = Vec::new();
    for sources in [10, 90, 1_000] {
        built.push(build(bench, sources)?);
    }
    let decoders = [1, 5, 20, 200].map(|records| decode(bench, records)).into_iter();
    let decoders = decoders.collect::<anyhow::Result<_>>()?;
    let figures =
        Figures { receive_and_discard, direct_write, memory_copy, builder: built, decoders };
    let mut sections = vec![network(bench, &figures), local(bench, &figures)];
    sections.extend([builder_alone(&figures), decoders_alone(bench, &figures)]);
    Report::new("limits", bench, sections, &figures)
}

/// The disk's own rate: aligned direct writes, several in flight, then a sync; with a sync each
/// `sync_ns` too, if that is given.
pub(crate) fn direct_write(
    bench: &mut Bench<'_>,
    sync_ns: Option<u64>,
) -> anyhow::Result<DirectWrite> {
    let what = if sync_ns.is_some() { "direct write with syncs" } else { "direct write" };
    let rates = bench.rounds(what, |bench| direct_write_once(bench, sync_ns))?;
    Ok(middle(rates, |rate| rate.bytes_per_second))
}

fn copy(bench: &Bench<'_>, block_bytes: usize) -> f64 {
    let total_bytes: usize = if bench.quick { 512 << 20 } else { 8 << 30 };
    let from = vec![1_u8; block_bytes];
    let mut to = vec![2_u8; block_bytes];
    median((0..bench.repeats()).map(|_| {
        let blocks = (total_bytes / block_bytes).max(1);
        let start = Instant::now();
        for _ in 0..blocks {
            std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        }
        (blocks * block_bytes) as f64 / start.elapsed().as_secs_f64()
    }))
}

fn build(bench: &mut Bench<'_>, sources: usize) -> anyhow::Result<Built> {
    let fragments = if bench.quick { 500_000 } else { 20_000_000 };
    let what = format!("builder alone, {sources} sources");
    let tries = bench.rounds(&what, |bench| {
        let built = builder::measure(sources, fragments)?;
        if !built.whole {
            bench.broken.push(format!("{what}: events are missing"));
        }
        Ok(built)
    })?;
    Ok(middle(tries, |built| built.fragments_per_second))
}

fn decode(bench: &mut Bench<'_>, records: usize) -> anyhow::Result<Decoded> {
    let packets = if bench.quick { 20_000 } else { 5_000_000 / records as u64 + 100_000 };
    let what = format!("decoders alone, {records} records");
    let tries = bench.rounds(&what, |bench| {
        let decoded = decoders::measure(records, packets);
        if !decoded.whole {
            bench.broken.push(format!("{what}: records are missing"));
        }
        Ok(decoded)
    })?;
    Ok(middle(tries, Decoded::ratio))
}

fn network(bench: &Bench<'_>, figures: &Figures) -> Section {
    let lost = |one: &Discarded| {
        let lost = one.packets_sent.saturating_sub(one.packets_received);
        format!("{:.2} %", lost as f64 * 100.0 / one.packets_sent.max(1) as f64)
    };
    let table = table(
        &figures.receive_and_discard,
        &[
            ("90 sources on 90 ports", &|(name, _)| (*name).to_owned()),
            ("events/s", &|(_, one)| Count(one.sent_hz).to_string()),
            ("packets/s", &|(_, one)| Count(one.packets_per_second).to_string()),
            ("bytes/s", &|(_, one)| bytes(one.bytes_per_second)),
            ("lost", &|(_, one)| lost(one)),
            ("receive", &|(_, one)| percent(one.receive_percent)),
            ("emulate", &|(_, one)| percent(one.emulate_percent)),
        ],
    );
    let how = if bench.quick { "one short try, flat out" } else { "median of 3" };
    Section::new("Receive and discard", table).note(format!(
        "The most that is received and thrown away without loss, from the same emulator ({how}). \
         Percent of one CPU."
    ))
}

fn local(bench: &Bench<'_>, figures: &Figures) -> Section {
    let mut table = Table::new(&["what", "bytes/s", "CPU"]);
    let DirectWrite { bytes_per_second, cpu_percent } = figures.direct_write;
    let write = "aligned direct write, 4 MiB";
    table.row([write.into(), bytes(bytes_per_second), percent(cpu_percent)]);
    for copied in &figures.memory_copy {
        let what = format!("memory copy, blocks of {} MiB", copied.block_bytes >> 20);
        table.row([what, bytes(copied.bytes_per_second), percent(100.0)]);
    }
    let note = format!("One thread, median of {}.", bench.repeats());
    Section::new("Disk and memory", table).note(note)
}

fn builder_alone(figures: &Figures) -> Section {
    let table = table(
        &figures.builder,
        &[
            ("sources", &|built| built.sources.to_string()),
            ("fragments/s", &|built| Count(built.fragments_per_second).to_string()),
            ("ns/fragment", &|built| format!("{:.1}", built.nanoseconds_per_fragment)),
        ],
    );
    Section::new("Builder alone", table)
        .note("Descriptors of 260-byte fragments in runs of 64 per source; no sockets, no payload.")
}

fn decoders_alone(bench: &Bench<'_>, figures: &Figures) -> Section {
    let nanoseconds = |value: f64| format!("{value:.1}");
    let table = table(
        &figures.decoders,
        &[
            ("records in a packet", &|one| one.records.to_string()),
            ("bytes", &|one| one.packet_bytes.to_string()),
            ("hadtu, ns/packet", &|one| nanoseconds(one.nanoseconds_coded)),
            ("declared, ns/packet", &|one| nanoseconds(one.nanoseconds_declared)),
            ("ratio", &|one| format!("{:.2}", one.ratio())),
            ("<= 1.10", &|one| met(bench.quick, one.ratio() <= DECLARED)),
        ],
    );
    Section::new("Decoders alone", table).note(
        "Packets of 260-byte sub-events in the cache: the decoder `hadtu` and its declared \
             layout, in turn.",
    )
}

/// The same, measured once.
pub(crate) fn direct_write_once(
    bench: &Bench<'_>,
    sync_ns: Option<u64>,
) -> anyhow::Result<DirectWrite> {
    let bytes = if bench.quick { 128 << 20 } else { 4 << 30 };
    direct_write_in(&bench.scratch, bytes, sync_ns)
}

/// The same of so many bytes, for a thread beside the bench's.
pub(crate) fn direct_write_in(
    scratch: &Path,
    bytes: u64,
    sync_ns: Option<u64>,
) -> anyhow::Result<DirectWrite> {
    let made = !scratch.exists();
    std::fs::create_dir_all(scratch)?;
    let mut config = catchment_disk::DiskConfig::default();
    config.sync_interval_ns = sync_ns.unwrap_or(config.sync_interval_ns);
    let rate = catchment_disk::measure_direct_write(scratch, bytes, config, sync_ns.is_some())?;
    if made {
        std::fs::remove_dir(scratch).ok();
    }
    Ok(DirectWrite {
        bytes_per_second: rate.bytes_per_second(),
        cpu_percent: rate.cpu_share() * 100.0,
    })
}
