//! One of the 72 boards of the preset `alpha-72` dies and comes back, restarts, floods, or has a
//! wrong clock: what that costs the others in a node that records them. In virtual time, and to the
//! event: crates/core/builder/tests/bad_board.rs.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use catchment_config::{Alpha72, Rate};
use catchment_fixtures::wait_while;
use catchment_model::ledger::Role;
use catchment_model::{Entry, SourceId};
use catchment_storage::{Run, Verdict, audit, verify};
use serde_json::Value;

use super::{Boards, wait_until_read};
use crate::life::Node;
use crate::support::{free_ports, only_run};

const BOARDS: u16 = 72;
const BAD: u16 = 5;
const NAME: &str = "pad-05";
/// Ticks between events, 20 ms, and of a second.
const APART: u64 = 2_500_000;
const SECOND: u64 = 125_000_000;

/// A node that records the preset's boards, and what they have sent.
struct Detector {
    node: Node,
    boards: Boards,
    port: u16,
    events: u64,
}

impl Detector {
    fn start(folder: &Path) -> Self {
        let port = free_ports(BOARDS);
        let rate = Rate(Some(50.0));
        let preset =
            Alpha72 { folder: "runs".into(), rate, datagram_bytes: 1_400, bursts: true, seed: 1 };
        // A sender that is held up for less than two time-outs makes nobody silent.
        let time = "coincidence = 2, unmatched = \"count\", skew = \"500 ms\" }\ntimeout = \"3 s\"";
        let text = preset.text().replace("coincidence = 2 }", time);
        // The groups are one behind the other.
        let [pads, wires] = [port, port + 64].map(|port| format!("127.0.0.1:{port}"));
        let text = text.replacen("127.0.0.1:0", &pads, 1).replacen("127.0.0.1:0", &wires, 1);
        let control = "memory.budget = \"256 MiB\"\n[control]\n\
                       requests_per_second = 1000000\ndrain = \"1 h\"\n";
        let node = Node::start(folder, &format!("{control}{text}"), &[]);
        node.until(|state| state["state"] == "recording");
        let path = folder.join("node.toml");
        let boards = Boards::new(path.to_str().unwrap(), port, BOARDS);
        Self { node, boards, port, events: 0 }
    }

    /// All boards send an event, the bad one what it makes of its time.
    fn send(&mut self, bad: impl Fn(u64) -> Vec<u64>) {
        let ticks = 1_000 * SECOND + self.events * APART;
        self.events += 1;
        for board in (0..BOARDS).filter(|&board| board != BAD) {
            // Up to 88 ns apart.
            self.boards.send(board, ticks + u64::from(board % 12), 100);
        }
        bad(ticks).into_iter().for_each(|ticks| self.boards.send(BAD, ticks, 100));
        wait_until_read(self.port, BOARDS);
        // As on the boards' clocks.
        std::thread::sleep(Duration::from_millis(20));
    }

    /// Sends events until something is so.
    #[track_caller]
    fn send_until(&mut self, bad: impl Fn(u64) -> Vec<u64>, reached: impl Fn(&Node) -> bool) {
        wait_while(|| {
            (0..10).for_each(|_| self.send(&bad));
            !reached(&self.node)
        });
    }
}

/// The alarms that name the bad board alone.
fn alarms(node: &Node) -> Vec<String> {
    let all = node.ctl(&["alarms"]);
    let all = all["alarms"].as_array().expect("alarms");
    let names_it = |alarm: &&Value| {
        alarm["ended"].is_null() && alarm["text"].as_str().unwrap().starts_with(NAME)
    };
    all.iter().filter(names_it).map(|alarm| alarm["name"].as_str().unwrap().to_owned()).collect()
}

/// What the API says of the bad board.
fn bad_board(node: &Node) -> Value {
    let all = node.ctl(&["sources"]);
    let mut all = all["sources"].as_array().expect("sources").iter();
    all.find(|source| source["name"] == NAME).expect("it is there").clone()
}

fn recorded(node: &Node) -> u64 {
    bad_board(node)["ledger"]["fragments_recorded"].as_u64().unwrap_or(0)
}

fn events(node: &Node) -> u64 {
    node.ctl(&["state"])["run"]["events"].as_u64().expect("a run")
}

#[test]
fn one_bad_board_of_72_costs_the_others_nothing_and_is_named_and_events_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut detector = Detector::start(folder.path());
    let good = |ticks: u64| vec![ticks];
    detector.send_until(good, |node| recorded(node) > 0);
    // Its offsets are in the API.
    let offsets = &bad_board(&detector.node)["offsets"];
    let of_bins = offsets["bins"].as_array().expect("a histogram").iter();
    let counted: u64 = of_bins.map(|bin| bin.as_u64().unwrap()).sum();
    assert!(counted > 0 && offsets["count"] == counted, "{offsets}");

    // Half an event before its own, 10 us apart: far from all others.
    let flood = |ticks: u64| {
        let strays = (0..100).map(|stray| ticks - APART / 2 + stray * 1_250);
        strays.chain([ticks]).collect()
    };
    let stuck = Cell::new(None);
    type Bad<'a> = (&'a str, &'a dyn Fn(u64) -> Vec<u64>);
    let began = Cell::new(None);
    let faults: [Bad<'_>; 5] = [
        ("source_silent", &|_| Vec::new()),
        // It restarts, and its clock begins at zero.
        ("source_out_of_step", &|ticks| {
            began.set(began.get().or(Some(ticks)));
            began.get().map(|zero| ticks - zero).into_iter().collect()
        }),
        ("source_flooding", &flood),
        ("source_out_of_step", &|ticks| vec![ticks + SECOND]),
        ("source_out_of_step", &|ticks| {
            stuck.set(stuck.get().or(Some(ticks)));
            stuck.get().into_iter().collect()
        }),
    ];
    for (alarm, bad) in faults {
        detector.send_until(bad, |node| alarms(node) == [alarm]);
        // All that was sent until then is recorded while it is still so.
        let (sent, before) = (detector.events, recorded(&detector.node));
        detector.send_until(bad, |node| events(node) >= sent);
        // It comes back.
        let is_back = |node: &Node| alarms(node).is_empty() && recorded(node) > before;
        detector.send_until(good, is_back);
    }
    detector.node.signal(libc::SIGINT);
    assert_eq!(detector.node.ended().code(), Some(3), "what the bad board lost");
    let run = Run::open(only_run(folder.path())).unwrap();
    assert!(verify(&run, |_| ()).is_intact());
    let report = audit(&run).unwrap();
    assert_eq!((report.verdict, run.event_count()), (Verdict::DataLost, detector.events));
    assert_eq!(run.sources()[usize::from(BAD)].name, NAME);
    for (board, ledger) in report.recomputed.sources.iter().enumerate() {
        let of_it = [Entry::FragmentsRecorded, Entry::FragmentsMissing, Entry::PacketsMissing];
        let lost = ledger.sum(Role::FragmentsLost);
        let counts = of_it.map(|entry| ledger[entry]);
        match board == usize::from(BAD) {
            true => assert!(counts[1] > 0 && lost > 0, "{ledger:?}"),
            false => {
                assert_eq!((counts, lost), ([detector.events, 0, 0], 0), "board {board}");
                let column = run.fragments(0, SourceId(board as u32)).unwrap();
                assert!(column.fragment(0).is_some());
            }
        }
    }
}
