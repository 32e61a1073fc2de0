//! Trains of European XFEL: received, checked, put together and on disk, beside the disk and the
//! receiver alone.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_console::need_space;
use catchment_emulator::{EmulatorThread, Images, TrainConfig, TrainContent, TrainReport};
use catchment_frame::ColumnCoding;
use catchment_model::{Entry, SourceId};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, SourceConfig};
use catchment_storage::Run;
use catchment_telemetry::{ThreadTimes, cpu_shares};
use serde::Serialize;

use crate::Bench;
use crate::limits::{direct_write, direct_write_once};
use crate::report::Report;
use crate::search::{Plan, Try, median, middle};
use crate::xfel_nodes::{self, InTurn};
use crate::{discard, xfel_tables};

/// What is asked of the smaller limit, and the reference's rate.
pub(crate) const ASKED: f64 = 0.85;
pub(crate) const REFERENCE: f64 = 1.2235e9;
/// Three feeders, each of which sends a train in so many seconds, to two nodes.
const FEEDERS: u32 = 3;
const FEEDER_SECONDS: f64 = 2.4;
/// Trains of one try: of those that are recorded more than twice as many as the memory holds.
const DISCARDED: u64 = 6;
const RECORDED: u64 = 12;
const IN_TURN: u64 = 16;
/// Trains that the memory of a recorder holds.
const HELD: u64 = 4;
/// Of shorter ones: one with a hole waits for what it lacks, and those behind it for their turn.
const HELD_SHORT: u64 = 16;
/// Shorter trains, of which a packet of every hundredth is left out, or which come from so many
/// sources at once.
const SHORT: Images = Images { pulses: 32, y: 1_024, x: 1_024 };
const HOLED_EVERY: u64 = 100;
const SOURCES: usize = 16;
/// What is sent where it is not the rate that matters, of the highest one.
const EASY: f64 = 0.5;
/// One source and several: how much lower the next rate is, and how low rates become.
const LOWER: f64 = 0.93;
const LOWEST: f64 = 0.6;
/// Of a quick bench.
const QUICK: Images = Images { pulses: 8, y: 256, x: 256 };
pub(crate) const SOCKET_BYTES: usize = 256 << 20;
/// How long datagrams gather.
const COALESCE: Duration = Duration::from_micros(500);

/// Trains at a rate.
#[derive(Clone, Copy, Debug)]
struct Case {
    images: Images,
    /// Sources of one recorder, each of which sends all trains.
    sources: usize,
    rate_hz: f64,
    trains: u64,
    drop_every: Option<u64>,
}

/// What became of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Received {
    pub(crate) train_bytes: u64,
    pub(crate) sources: usize,
    /// Of all sources.
    pub(crate) sent: u64,
    pub(crate) recorded: u64,
    pub(crate) with_holes: u64,
    pub(crate) bytes_lost: u64,
    pub(crate) bad_checksum: u64,
    /// Recorded trains of which other ranges are missing than were left out, or other bytes are
    /// there.
    pub(crate) wrong: u64,
    pub(crate) dropped_by_kernel: u64,
    /// Of direct writes, the mean of right before and right behind the recording; 0 if it was not
    /// measured.
    pub(crate) direct_write: f64,
    /// While they were sent.
    pub(crate) sent_per_second: f64,
    /// From the first packet until all that was recorded was durable.
    pub(crate) bytes_per_second: f64,
    /// Between the last packet and that.
    pub(crate) seconds_behind: f64,
    /// Percent of a CPU while they were sent.
    pub(crate) receive_percent: f64,
    pub(crate) feeder_percent: f64,
    pub(crate) other_percent: f64,
}

impl Received {
    fn kept(&self, case: &Case) -> bool {
        let asked_hz = case.rate_hz * case.sources as f64;
        let rate_kept = self.sent_per_second >= 0.97 * asked_hz * self.train_bytes as f64;
        rate_kept && self.is_whole()
    }

    /// Whether everything that was sent was recorded as it was sent.
    pub(crate) fn is_whole(&self) -> bool {
        self.recorded == self.sent && self.with_holes + self.bad_checksum + self.wrong == 0
    }

    /// Core-seconds of the receive thread for a gigabyte.
    pub(crate) fn receive_seconds(&self) -> f64 {
        self.receive_percent / 100.0 * 1e9 / self.sent_per_second.max(1.0)
    }
}

/// One source and several, measured in turn.
#[derive(Debug, Serialize)]
pub(crate) struct OneAndSeveral {
    /// Of each the round in the middle.
    pub(crate) middles: [Received; 2],
    /// Their rate, of the highest one.
    pub(crate) share: f64,
    /// Whether no round lost a train.
    pub(crate) is_whole: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) direct_write: f64,
    pub(crate) discarded: Vec<Received>,
    pub(crate) recorded: Vec<Received>,
    pub(crate) holed: Received,
    pub(crate) sources: OneAndSeveral,
    pub(crate) in_turn: InTurn,
    pub(crate) reference: InTurn,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let images = if bench.quick { QUICK } else { Images::REFERENCE };
    let short = if bench.quick { QUICK } else { SHORT };
    let train_bytes = images.train_bytes() as f64;
    let most = (2 * HOLED_EVERY * short.train_bytes()).max(IN_TURN * images.train_bytes());
    need_space(&bench.scratch, most)?;
    let direct_write = direct_write(bench, None)?.bytes_per_second;
    let case = |rate_hz, trains| Case { images, sources: 1, rate_hz, trains, drop_every: None };
    let start = REFERENCE / train_bytes;
    let plan = Plan {
        most: start * 4.0,
        unit: " trains/s",
        quick: 200.0,
        step: 1.1,
        halvings: 1,
        confirmations: bench.repeats().min(2) as u32,
        ..Plan::from(start)
    };
    let discarded = bench.highest("receive and discard", plan, |_, hz| {
        let case = case(hz, DISCARDED);
        let one = discard(&case)?;
        Ok(Try { reached: one.kept(&case), value: one })
    })?;
    let discarded = discarded.map_or_else(Vec::new, |(_, all)| all);
    let received = median(discarded.iter().map(|one| one.bytes_per_second));
    let limit = if discarded.is_empty() { direct_write } else { direct_write.min(received) };
    let start = ASKED * limit / train_bytes;
    let plan = Plan { start, most: 1.05 * limit / train_bytes, step: 1.09, ..plan };
    let mut before = direct_write_once(bench, None)?.bytes_per_second;
    let recorded = bench.highest("recorded", plan, |bench, hz| {
        let case = case(hz, RECORDED);
        let mut one = record(bench, &case)?;
        let behind = direct_write_once(bench, None)?.bytes_per_second;
        one.direct_write = f64::midpoint(before, behind);
        before = behind;
        // A rate that goes on: what the memory holds at the end is not more than is under way.
        let goes_on = one.seconds_behind * hz <= 2.0;
        Ok(Try { reached: one.kept(&case) && goes_on, value: one })
    })?;
    let recorded = recorded.map_or_else(Vec::new, |(_, all)| all);
    let rate = match recorded.is_empty() {
        true => EASY * limit,
        false => median(recorded.iter().map(|one| one.sent_per_second)),
    };
    let hz = |share: f64, bytes: u64| share * rate / bytes as f64;
    let holed = Case {
        rate_hz: hz(EASY, short.train_bytes()),
        images: short,
        drop_every: Some(HOLED_EVERY),
        ..case(0.0, 2 * HOLED_EVERY)
    };
    bench.now("a packet of every hundredth train left out")?;
    let holed = record(bench, &holed)?;
    if holed.wrong > 0 {
        bench.broken.push(format!("{} trains have other holes than were made", holed.wrong));
    }
    let one = |rate| case(rate / images.train_bytes() as f64, RECORDED);
    let several = |rate| Case {
        rate_hz: rate / (SOURCES as u64 * short.train_bytes()) as f64,
        images: short,
        sources: SOURCES,
        ..case(0.0, RECORDED)
    };
    let sources = one_and_several(bench, rate, |rate| [one(rate), several(rate)])?;
    let [in_turn, reference] = in_turn(bench, images, rate)?;
    let figures = Figures { direct_write, discarded, recorded, holed, sources, in_turn, reference };
    Report::new("xfel", bench, xfel_tables::sections(bench, &figures), &figures)
}

/// Both in turn, at the highest of some rates up to `rate` at which neither loses a train in any
/// round. Discarded trains cost less CPU time than recorded ones, so a round with losses cannot be
/// compared. Of each the round in the middle.
fn one_and_several(
    bench: &mut Bench<'_>,
    mut rate: f64,
    cases: impl Fn(f64) -> [Case; 2],
) -> anyhow::Result<OneAndSeveral> {
    let highest = rate;
    let lowest = if bench.quick { rate } else { LOWEST * rate };
    loop {
        let what = format!("one source and {SOURCES} at once, {:.2} GB/s", rate / 1e9);
        let rounds = bench.in_turn(what, cases(rate), |bench, case| record(bench, &case))?;
        let is_whole = rounds.iter().flatten().all(Received::is_whole);
        if is_whole || rate * LOWER < lowest {
            let middles = rounds.map(|rounds| middle(rounds, Received::receive_seconds));
            return Ok(OneAndSeveral { middles, share: rate / highest, is_whole });
        }
        rate *= LOWER;
    }
}

/// Two nodes at that rate in bytes, and at the reference's times.
fn in_turn(bench: &mut Bench<'_>, images: Images, rate: f64) -> anyhow::Result<[InTurn; 2]> {
    let case = Case { images, sources: 1, rate_hz: 0.0, trains: IN_TURN, drop_every: None };
    let one = feeders(&case, &[]);
    let fast = Some(rate / images.train_bytes() as f64);
    let at_rate = TrainConfig { rate_hz: fast, ..one.clone() };
    bench.now("two nodes in turn")?;
    let at_rate = xfel_nodes::record(bench, at_rate, HELD)?;
    // Short trains that took so long would be given up.
    let times = if bench.quick { 100.0 } else { 1.0 };
    let rate_hz = Some(times * f64::from(FEEDERS) / FEEDER_SECONDS);
    let trains = Some(if bench.quick { 4 } else { IN_TURN });
    bench.now("three feeders, two nodes")?;
    let reference = TrainConfig { feeders: FEEDERS, rate_hz, trains, ..one };
    Ok([at_rate, xfel_nodes::record(bench, reference, HELD)?])
}

fn feeders(case: &Case, nodes: &[SocketAddr]) -> TrainConfig {
    TrainConfig {
        nodes: nodes.to_vec(),
        to_all: case.sources > 1,
        images: case.images,
        rate_hz: Some(case.rate_hz),
        trains: Some(case.trains),
        drop_every: case.drop_every,
        ..TrainConfig::default()
    }
}

/// The memory that holds so many trains, and what is beside them.
pub(crate) fn memory_bytes(trains: u64, train_bytes: u64) -> u64 {
    // Sources get three quarters of it.
    (trains * train_bytes * 4 / 3 + (128 << 20)).max(512 << 20)
}

fn recorder_config(folder: &Path, case: &Case) -> anyhow::Result<RecorderConfig> {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let train_bytes = case.images.train_bytes();
    let event_bytes = train_bytes * case.sources as u64;
    let protocol = Arc::new(feeders(case, &[any]).protocol()?);
    let source = |index: usize| SourceConfig {
        protocol: protocol.clone(),
        fragment_bytes_max: train_bytes,
        payload: Some(case.images.payload_type()),
        ..SourceConfig::new(format!("trains-{index}"), any)
    };
    let sources = (0..case.sources).map(source).collect();
    let mut config = RecorderConfig::new(folder.to_owned(), sources);
    config.frame.codings = ColumnCoding::NONE.into();
    config.build.event_bytes_max = Some(event_bytes);
    config.receive.socket_buffer_bytes = SOCKET_BYTES / case.sources;
    config.receive.coalesce = COALESCE;
    let held = if case.drop_every.is_some() { HELD_SHORT } else { HELD };
    config.memory_bytes = memory_bytes(held, event_bytes);
    Ok(config)
}

fn record(bench: &mut Bench<'_>, case: &Case) -> anyhow::Result<Received> {
    let train_bytes = case.images.train_bytes();
    let recorder = Recorder::start(recorder_config(&bench.scratch, case)?)?;
    let before = recorder.snapshot().threads;
    let begin = Instant::now();
    let emulator = EmulatorThread::start_trains(feeders(case, recorder.addresses()))?;
    while !emulator.observer().ended() && !bench.stop.asked() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let threads = recorder.snapshot().threads;
    let report = emulator.finish()?;
    let summary = recorder.stop().context("the recorder did not stop in order")?;
    let durable_seconds = begin.elapsed().as_secs_f64();
    check_books(bench, case, (&summary, &report));
    let shares = cpu_shares(&before, &threads, report.seconds.max(1e-9));
    let is_receive = |name: &str| name.starts_with("receive");
    let share = |wanted: bool| {
        let of = shares.iter().filter(|(name, _)| is_receive(name) == wanted);
        of.map(|(_, percent)| percent).sum::<f64>()
    };
    let ledger = summary.last.ledger.total();
    let wrong = match case.drop_every {
        Some(_) => wrong(&Run::open(&summary.folder)?, case, &report)?,
        None => 0,
    };
    std::fs::remove_dir_all(&summary.folder)?;
    let (sent, recorded) = (report.trains * case.sources as u64, ledger[Entry::FragmentsRecorded]);
    let rate = |trains: u64, seconds: f64| (trains * train_bytes) as f64 / seconds.max(1e-9);
    Ok(Received {
        train_bytes,
        sources: case.sources,
        sent,
        recorded,
        with_holes: ledger[Entry::FragmentsWithHoles],
        bytes_lost: ledger[Entry::FragmentBytesLost],
        bad_checksum: ledger[Entry::FragmentsBadChecksum],
        wrong,
        dropped_by_kernel: ledger[Entry::PacketsDroppedByKernel],
        direct_write: 0.0,
        sent_per_second: rate(sent, report.seconds),
        bytes_per_second: rate(recorded, durable_seconds),
        seconds_behind: (durable_seconds - report.seconds).max(0.0),
        receive_percent: share(true),
        feeder_percent: feeder_percent(&report, share(true) + share(false)),
        other_percent: share(false),
    })
}

/// Every train that is not recorded must be a loss in the ledger, which must balance.
fn check_books(bench: &mut Bench<'_>, case: &Case, (run, report): (&RunSummary, &TrainReport)) {
    let (balance, total) = (run.last.ledger.balance(), run.last.ledger.total());
    let all = total[Entry::FragmentsRecorded] == report.trains * case.sources as u64;
    let counted = all || balance.lost_data() || total[Entry::PacketsDroppedByKernel] > 0;
    if !balance.holds() || !counted {
        bench.broken.push(format!("trains at {} Hz: {balance:?}", case.rate_hz));
    }
}

/// Of the process's CPU time, what is not the recorder's.
fn feeder_percent(report: &TrainReport, of_recorder: f64) -> f64 {
    (report.cpu_ns as f64 / 1e7 / report.seconds.max(1e-9) - of_recorder).max(0.0)
}

/// How many recorded trains are not as they were sent, but for what was left out.
fn wrong(run: &Run, case: &Case, report: &TrainReport) -> anyhow::Result<u64> {
    let protocol = feeders(case, &[([127, 0, 0, 1], 0).into()]).protocol()?;
    let content = TrainContent::new(report.seed, case.images);
    let mut wrong = 0;
    for train in 0..report.trains {
        let left_out = report.dropped.iter().filter(|(number, _)| *number == train);
        let expected: Vec<_> = left_out.map(|&(_, packet)| protocol.range(packet)).collect();
        // What was lost is counted by the ledger.
        let Some((frame, row)) = run.find(train)? else { continue };
        let all = 0..report.train_bytes;
        let part = run.fragment_part(frame, SourceId(0), row, all)?;
        let Some(part) = part else { continue };
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
    let sender = EmulatorThread::start_trains(feeders(case, &[receiver.local_addr(0)]))?;
    let times = ThreadTimes::default();
    let _guard = times.register("receive");
    let taken = discard::receive(&mut receiver, sender, &times, COALESCE)?;
    let (report, receive_percent) = (&taken.report, taken.share("receive"));
    let per_train = report.packets / report.trains.max(1);
    let rate = (report.trains * report.train_bytes) as f64 / report.seconds.max(1e-9);
    Ok(Received {
        train_bytes: report.train_bytes,
        sources: 1,
        sent: report.trains,
        recorded: taken.packets / per_train.max(1),
        with_holes: 0,
        bytes_lost: 0,
        bad_checksum: 0,
        wrong: 0,
        dropped_by_kernel: report.packets.saturating_sub(taken.packets),
        direct_write: 0.0,
        sent_per_second: rate,
        bytes_per_second: rate,
        seconds_behind: 0.0,
        receive_percent,
        feeder_percent: feeder_percent(report, receive_percent),
        other_percent: 0.0,
    })
}
