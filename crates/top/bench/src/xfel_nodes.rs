//! Two recorders of trains, each a process of its own, which record in turn.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_emulator::{EmulatorThread, TrainConfig};
use catchment_model::{Entry, SourceLedger};
use catchment_storage::Run;
use serde::Serialize;

use crate::Bench;
use crate::process::Process;
use crate::xfel::{SOCKET_BYTES, memory_bytes};

/// What nodes recorded that took turns.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InTurn {
    pub(crate) feeders: u32,
    pub(crate) sent: u64,
    /// By node.
    pub(crate) recorded: Vec<u64>,
    pub(crate) with_holes: u64,
    pub(crate) dropped_by_kernel: u64,
    /// While they were sent.
    pub(crate) sent_per_second: f64,
    /// From the first packet until all that was recorded was durable.
    pub(crate) bytes_per_second: f64,
}

impl InTurn {
    pub(crate) fn is_whole(&self) -> bool {
        self.recorded.iter().sum::<u64>() == self.sent && self.with_holes == 0
    }

    pub(crate) fn recorded_text(&self) -> String {
        let counts: Vec<String> = self.recorded.iter().map(u64::to_string).collect();
        counts.join(" + ")
    }
}

/// A recorder in a process of its own, which is gone when this is dropped.
struct Node {
    process: Process,
    folder: PathBuf,
    address: SocketAddr,
}

/// Sends trains to two nodes in turn, whose memory holds so many of them, and deletes their runs.
pub(crate) fn record(
    bench: &mut Bench<'_>,
    feeders: TrainConfig,
    held: u64,
) -> anyhow::Result<InTurn> {
    let mut nodes: Vec<Node> = Vec::new();
    for index in 0..NODES {
        nodes.push(Node::start(&bench.scratch, &feeders, (index, held))?);
    }
    let addresses = nodes.iter().map(|node| node.address).collect();
    let begin = Instant::now();
    let emulator = EmulatorThread::start_trains(TrainConfig { nodes: addresses, ..feeders })?;
    while !emulator.observer().ended() && !bench.stop.asked() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = emulator.finish()?;
    nodes.iter().for_each(|node| node.process.interrupt());
    for node in &mut nodes {
        node.process.wait()?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mut all = InTurn {
        feeders: report.feeders,
        sent: report.trains,
        recorded: Vec::new(),
        with_holes: 0,
        dropped_by_kernel: 0,
        sent_per_second: (report.trains * report.train_bytes) as f64 / report.seconds.max(1e-9),
        bytes_per_second: 0.0,
    };
    for node in &nodes {
        let counts = node.counts(bench)?;
        all.recorded.push(counts[Entry::FragmentsRecorded]);
        all.with_holes += counts[Entry::FragmentsWithHoles];
        all.dropped_by_kernel += counts[Entry::PacketsDroppedByKernel];
    }
    let recorded: u64 = all.recorded.iter().sum();
    all.bytes_per_second = (recorded * report.train_bytes) as f64 / seconds.max(1e-9);
    Ok(all)
}

impl Node {
    fn start(
        scratch: &Path,
        feeders: &TrainConfig,
        (index, held): (u32, u64),
    ) -> anyhow::Result<Self> {
        let scratch = std::path::absolute(scratch)?;
        let folder = scratch.join(format!("node-{index}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        // The port is free again, and nobody else asks for it by number.
        let address = UdpSocket::bind(("127.0.0.1", 0))?.local_addr()?;
        let train_bytes = feeders.images.train_bytes();
        let text = format!(
            "[run]\nfolder = \"runs\"\nown = {{ modulo = {NODES}, remainder = {index} }}\n\
             [trains]\ntrain_bytes = {train_bytes}\nadler32_at = {}\n\
             [build]\nevent_bytes_max = {train_bytes}\n[memory]\nbudget = {}\n\
             [receive]\nsocket_buffer = {SOCKET_BYTES}\n[frame]\ncodec = \"none\"\n\
             [trends]\nenabled = false\n\
             [[sources]]\nname = \"trains\"\nprotocol = \"trains\"\naddress = \"{address}\"\n",
            train_bytes - 4,
            memory_bytes(held, train_bytes),
        );
        std::fs::write(folder.join("node.toml"), text)?;
        let log = folder.join("node.log");
        let mut process = Process::start(&["run", "node.toml"], &folder, log)?;
        process.line("Recording")?;
        Ok(Self { process, folder, address })
    }

    /// What its run's ledger has.
    fn counts(&self, bench: &mut Bench<'_>) -> anyhow::Result<SourceLedger> {
        let runs = std::fs::read_dir(self.folder.join("runs"))?;
        let is_run = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("run-"))
        };
        let run = runs.filter_map(|entry| Some(entry.ok()?.path())).find(is_run);
        let run = Run::open(run.context("the node left no run")?)?;
        let ledger = run.recorded_ledger()?.context("the node left no ledger")?;
        if !ledger.balance().holds() {
            bench.broken.push(format!("a node's ledger: {:?}", ledger.balance()));
        }
        Ok(ledger.total())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

const NODES: u32 = 2;
