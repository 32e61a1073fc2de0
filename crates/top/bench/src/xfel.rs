//! Trains of European XFEL: received, checked, put together and on disk, beside the disk and the
//! receiver alone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_agent::{Flow, Ingress as _};
use catchment_emulator::{EmulatorThread, Images, TrainConfig, TrainContent, TrainReport};
use catchment_frame::ColumnCoding;
use catchment_model::{Entry, SourceId};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_recorder::{Recorder, RecorderConfig, SourceConfig};
use catchment_storage::Run;
use catchment_telemetry::{ThreadTimes, cpu_shares};
use serde::Serialize;

use crate::Bench;
use crate::limits::direct_write;
use crate::report::{Report, Section, bytes, met, percent, table};
use crate::search::{Plan, Try, median, middle};

/// What is asked of the smaller limit, and the reference's rate and CPU of its receiving core.
const ASKED: f64 = 0.85;
const REFERENCE: f64 = 1.2235e9;
const REFERENCE_PERCENT: f64 = 40.0;
/// Trains of one try.
const TRAINS: u64 = 6;
/// Shorter trains, of which a packet of every hundredth is left out.
const HOLED: Images = Images { pulses: 32, y: 1_024, x: 1_024 };
const HOLED_EVERY: u64 = 100;
/// Of a quick bench.
const QUICK: Images = Images { pulses: 8, y: 256, x: 256 };
const SOCKET_BYTES: usize = 256 << 20;
/// How long datagrams gather.
const COALESCE: Duration = Duration::from_micros(500);

/// Trains at a rate.
#[derive(Clone, Copy, Debug)]
struct Case {
    images: Images,
    rate_hz: f64,
    trains: u64,
    drop_every: Option<u64>,
}

/// What became of them.
#[derive(Clone, Debug, Serialize)]
struct Received {
    train_bytes: u64,
    sent: u64,
    recorded: u64,
    with_holes: u64,
    bytes_lost: u64,
    bad_checksum: u64,
    /// Trains of which other ranges are missing than were left out, or other bytes are there.
    wrong: u64,
    dropped_by_kernel: u64,
    /// While they were sent.
    bytes_per_second: f64,
    /// Until all were durable.
    durable_per_second: f64,
    /// Percent of a CPU.
    receive_percent: f64,
    feeder_percent: f64,
    other_percent: f64,
}

#[derive(Debug, Serialize)]
struct Figures {
    direct_write: f64,
    discarded: Vec<Received>,
    recorded: Vec<Received>,
    holed: Received,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let images = if bench.quick { QUICK } else { Images::REFERENCE };
    let trains = if bench.quick { 20 } else { TRAINS };
    let direct_write = direct_write(bench, None)?.bytes_per_second;
    let start = REFERENCE / images.train_bytes() as f64;
    let plan = Plan {
        most: start * 4.0,
        unit: " trains/s",
        quick: 20.0,
        step: 1.1,
        halvings: 2,
        confirmations: bench.repeats() as u32,
        ..Plan::from(start)
    };
    let case = |rate_hz| Case { images, rate_hz, trains, drop_every: None };
    let discarded = bench.highest("receive and discard", plan, |_, hz| {
        let one = discard(&case(hz))?;
        let kept = one.bytes_per_second >= 0.97 * hz * one.train_bytes as f64;
        Ok(Try { reached: kept && one.recorded == one.sent, value: one })
    })?;
    let recorded = bench.highest("recorded", plan, |bench, hz| {
        let one = record(bench, &case(hz))?;
        let kept = one.bytes_per_second >= 0.97 * hz * one.train_bytes as f64;
        let is_whole = one.recorded == one.sent && one.with_holes + one.bad_checksum == 0;
        Ok(Try { reached: kept && is_whole, value: one })
    })?;
    let rate = recorded.as_ref().map_or(start, |(hz, _)| hz * images.train_bytes() as f64);
    bench.now("a packet of every hundredth train left out")?;
    let holed_images = if bench.quick { QUICK } else { HOLED };
    let holed = record(
        bench,
        &Case {
            images: holed_images,
            rate_hz: 0.7 * rate / holed_images.train_bytes() as f64,
            trains: 2 * HOLED_EVERY,
            drop_every: Some(HOLED_EVERY),
        },
    )?;
    if holed.wrong > 0 {
        bench.broken.push(format!("{} trains have other holes than were made", holed.wrong));
    }
    let tries = |found: Option<(f64, Vec<Received>)>| found.map_or_else(Vec::new, |(_, all)| all);
    let (discarded, recorded) = (tries(discarded), tries(recorded));
    let figures = Figures { direct_write, discarded, recorded, holed };
    let sections = vec![rates(bench, &figures), holes(&figures)];
    Report::new("xfel", bench, sections, &figures)
}

fn feeders(case: &Case, node: SocketAddr) -> TrainConfig {
    TrainConfig {
        nodes: vec![node],
        images: case.images,
        rate_hz: Some(case.rate_hz),
        trains: Some(case.trains),
        drop_every: case.drop_every,
        ..TrainConfig::default()
    }
}

fn record(bench: &mut Bench<'_>, case: &Case) -> anyhow::Result<Received> {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let train_bytes = case.images.train_bytes();
    let protocol = feeders(case, any).protocol()?;
    let source = SourceConfig {
        protocol: Arc::new(protocol.clone()),
        fragment_bytes_max: train_bytes,
        payload: Some(case.images.payload_type()),
        ..SourceConfig::new("trains", any)
    };
    let mut config = RecorderConfig::new(bench.scratch.clone(), vec![source]);
    config.frame.codings = ColumnCoding::NONE.into();
    config.build.event_bytes_max = Some(train_bytes);
    config.receive.socket_buffer_bytes = SOCKET_BYTES;
    config.receive.coalesce = COALESCE;
    // Three trains in three quarters, and one more.
    config.memory_bytes = (16 * train_bytes / 3).max(512 << 20);
    let recorder = Recorder::start(config)?;
    let before = recorder.snapshot().threads;
    let begin = Instant::now();
    let emulator = EmulatorThread::start_trains(feeders(case, recorder.addresses()[0]))?;
    while !emulator.observer().ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let threads = recorder.snapshot().threads;
    let report = emulator.finish()?;
    let summary = recorder.stop().context("the recorder did not stop in order")?;
    let durable_seconds = begin.elapsed().as_secs_f64();
    let balance = summary.last.ledger.balance();
    if !balance.holds() {
        bench.broken.push(format!("trains at {} Hz: {balance:?}", case.rate_hz));
    }
    let shares = cpu_shares(&before, &threads, report.seconds.max(1e-9));
    let is_receive = |name: &str| name.starts_with("receive");
    let share = |wanted: bool| {
        let of = shares.iter().filter(|(name, _)| is_receive(name) == wanted);
        of.map(|(_, percent)| percent).sum::<f64>()
    };
    let ledger = &summary.last.ledger.sources[0];
    let bytes = |seconds: f64| (report.trains * train_bytes) as f64 / seconds.max(1e-9);
    let wrong = match case.drop_every {
        Some(_) => wrong(&Run::open(&summary.folder)?, case, &report)?,
        None => 0,
    };
    std::fs::remove_dir_all(&summary.folder)?;
    Ok(Received {
        train_bytes,
        sent: report.trains,
        recorded: ledger[Entry::FragmentsRecorded],
        with_holes: ledger[Entry::FragmentsWithHoles],
        bytes_lost: ledger[Entry::FragmentBytesLost],
        bad_checksum: ledger[Entry::FragmentsBadChecksum],
        wrong,
        dropped_by_kernel: ledger[Entry::PacketsDroppedByKernel],
        bytes_per_second: bytes(report.seconds),
        durable_per_second: bytes(durable_seconds),
        receive_percent: share(true),
        feeder_percent: feeder_percent(&report, share(true) + share(false)),
        other_percent: share(false),
    })
}

/// Of the process's CPU time, what is not the recorder's.
fn feeder_percent(report: &TrainReport, of_recorder: f64) -> f64 {
    (report.cpu_ns as f64 / 1e7 / report.seconds.max(1e-9) - of_recorder).max(0.0)
}

/// How many trains are not as they were sent, but for what was left out.
fn wrong(run: &Run, case: &Case, report: &TrainReport) -> anyhow::Result<u64> {
    let protocol = feeders(case, ([127, 0, 0, 1], 0).into()).protocol()?;
    let content = TrainContent::new(report.seed, case.images);
    let mut wrong = 0;
    for train in 0..report.trains {
        let left_out = report.dropped.iter().filter(|(number, _)| *number == train);
        let expected: Vec<_> = left_out.map(|&(_, packet)| protocol.range(packet)).collect();
        let found = run.find(train)?;
        let Some((frame, row)) = found else {
            wrong += 1;
            continue;
        };
        let all = 0..report.train_bytes;
        let Some(part) = run.fragment_part(frame, SourceId(0), row, all)? else {
            wrong += 1;
            continue;
        };
        let mut whole = content.train(train, 0);
        for hole in &expected {
            whole[hole.start as usize..hole.end as usize].fill(0);
        }
        wrong += u64::from(part.holes != expected || part.bytes != whole);
    }
    Ok(wrong)
}

/// The same packets, received and thrown away.
fn discard(case: &Case) -> anyhow::Result<Received> {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let config = ReceiverConfig { socket_buffer_bytes: SOCKET_BYTES, ..ReceiverConfig::default() };
    let mut receiver = UdpReceiver::bind(&[any], config)?;
    let sender = EmulatorThread::start_trains(feeders(case, receiver.local_addr(0)))?;
    let times = ThreadTimes::default();
    let guard = times.register("receive");
    let before = times.read();
    let mut packets = 0_u64;
    let mut take = |receiver: &mut UdpReceiver| {
        receiver.readiness().wait(Duration::from_millis(5));
        let received = receiver.poll(&mut |arrival| {
            std::hint::black_box(arrival.bytes());
            Flow::Taken
        });
        packets += received.arrivals;
        std::thread::sleep(COALESCE);
        received.arrivals
    };
    while !sender.observer().ended() {
        take(&mut receiver);
    }
    let threads = times.read();
    while take(&mut receiver) > 0 {}
    drop(guard);
    let report = sender.finish()?;
    let seconds = report.seconds.max(1e-9);
    let receive_percent = cpu_shares(&before, &threads, seconds).iter().map(|(_, one)| one).sum();
    let per_train = report.packets / report.trains.max(1);
    let rate = (report.trains * report.train_bytes) as f64 / seconds;
    Ok(Received {
        train_bytes: report.train_bytes,
        sent: report.trains,
        recorded: packets / per_train.max(1),
        with_holes: 0,
        bytes_lost: 0,
        bad_checksum: 0,
        wrong: 0,
        dropped_by_kernel: report.packets.saturating_sub(packets),
        bytes_per_second: rate,
        durable_per_second: rate,
        receive_percent,
        feeder_percent: feeder_percent(&report, receive_percent),
        other_percent: 0.0,
    })
}

fn rates(bench: &Bench<'_>, figures: &Figures) -> Section {
    let rate = |all: &[Received]| median(all.iter().map(|one| one.bytes_per_second));
    let limit = match figures.discarded.is_empty() {
        true => figures.direct_write,
        false => figures.direct_write.min(rate(&figures.discarded)),
    };
    let share = |one: &Received| one.bytes_per_second / limit;
    let mut rows: Vec<(&str, Received)> = Vec::new();
    for (name, all) in [("discarded", &figures.discarded), ("recorded", &figures.recorded)] {
        if !all.is_empty() {
            rows.push((name, middle(all.clone(), |one| one.bytes_per_second)));
        }
    }
    let table = table(
        &rows,
        &[
            ("trains", &|(name, _)| (*name).to_owned()),
            ("each", &|(_, one)| bytes(one.train_bytes as f64)),
            ("trains/s", &|(_, one)| {
                format!("{:.3}", one.bytes_per_second / one.train_bytes as f64)
            }),
            ("bytes/s", &|(_, one)| bytes(one.bytes_per_second)),
            ("share", &|(_, one)| format!("{:.2}", share(one))),
            ("receive", &|(_, one)| percent(one.receive_percent)),
            ("feeder", &|(_, one)| percent(one.feeder_percent)),
            ("others", &|(_, one)| percent(one.other_percent)),
        ],
    );
    let reached = figures.recorded.first().is_some_and(|_| {
        let recorded = rate(&figures.recorded);
        recorded >= REFERENCE || recorded >= ASKED * limit
    });
    Section::new("The highest rate without loss", table)
        .note(format!("Direct write alone: {}/s.", bytes(figures.direct_write)))
        .note(format!(
            "Share: of the smaller of direct write and receive and discard. Asked: {ASKED} of it, \
             or the reference's {}/s (one train in 0.8776 s). {}",
            bytes(REFERENCE),
            met(bench.quick, reached)
        ))
        .note(format!(
            "Percent of one CPU; the reference's receiving core was busy to {REFERENCE_PERCENT} %. \
             Recorded: the Adler-32 of each train was checked."
        ))
}

fn holes(figures: &Figures) -> Section {
    let table = table(
        [&figures.holed],
        &[
            ("trains", &|one| one.sent.to_string()),
            ("each", &|one| bytes(one.train_bytes as f64)),
            ("recorded", &|one| one.recorded.to_string()),
            ("with holes", &|one| one.with_holes.to_string()),
            ("bytes missing", &|one| one.bytes_lost.to_string()),
            ("not as sent", &|one| one.wrong.to_string()),
        ],
    );
    Section::new("A packet of every hundredth train left out", table)
        .note("Not as sent: trains with other bytes or other holes than were sent and left out.")
}
