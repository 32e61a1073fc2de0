//! The history of a run: a hash that distinguishes runs and, on request, lines and a file for a
//! timeline viewer.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use crate::plan::BEGIN_NS;
use crate::recorder::Called;

/// An event in a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// An agent was called: its index, what it did, and for how long it was busy.
    Work(u16, u64, u64),
    /// An agent has ended.
    Ended(u16),
    /// A source sent packets: source, trigger, packets.
    Sent(u32, u64, usize),
    /// A packet arrived: source, bytes, and whether there was room for it.
    Arrived(u32, usize, bool),
    /// A packet was lost on the network.
    Lost(u32),
    /// An operation of the disk has ended: kind, file, offset, whether it succeeded.
    Disk(&'static str, u64, u64, bool),
    /// A fault was injected.
    Fault(String),
    /// A command to the run.
    Told(String),
}

/// The history of a run.
#[derive(Debug)]
pub struct Trace {
    hash: Fnv,
    /// The events, if they are kept for printing.
    events: Option<Vec<(u64, Event)>>,
    agents: Vec<String>,
    count: u64,
}

impl Trace {
    /// A trace; without keeping, only the hash remains.
    pub fn new(is_kept: bool) -> Self {
        let events = is_kept.then(Vec::new);
        Self { hash: Fnv::default(), events, agents: Vec::new(), count: 0 }
    }

    /// The names of the agents, by their index.
    pub fn agents<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.agents = names.map(str::to_owned).collect();
    }

    /// An agent was called.
    pub(crate) fn called(&mut self, now_ns: u64, called: &Called) {
        let &Called { index, done, busy_ns, ended } = called;
        self.push(now_ns, Event::Work(index, done, busy_ns));
        if ended {
            self.push(now_ns, Event::Ended(index));
        }
    }

    /// Something happened.
    pub fn push(&mut self, now_ns: u64, event: Event) {
        now_ns.hash(&mut self.hash);
        event.hash(&mut self.hash);
        self.count += 1;
        if let Some(events) = &mut self.events {
            events.push((now_ns, event));
        }
    }

    /// Distinguishes this run from any other.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The number of events.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn agent(&self, index: u16) -> &str {
        self.agents.get(usize::from(index)).map_or("?", String::as_str)
    }

    /// Readable lines.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for (now_ns, event) in self.events.iter().flatten() {
            let what = match event {
                // Polls that found nothing to do are left out.
                Event::Work(_, 0, _) => continue,
                Event::Work(agent, done, busy) => {
                    format!("{} did {done} in {busy} ns", self.agent(*agent))
                }
                Event::Ended(agent) => format!("{} has ended", self.agent(*agent)),
                Event::Sent(source, trigger, packets) => {
                    format!("s{source} sends event {trigger} in {packets} packets")
                }
                Event::Arrived(source, bytes, true) => format!("{bytes} bytes of s{source} arrive"),
                Event::Arrived(source, bytes, false) => {
                    format!("{bytes} bytes of s{source} find no room")
                }
                Event::Lost(source) => format!("a packet of s{source} is lost on the network"),
                Event::Disk(kind, file, offset, is_done) => {
                    let how = if *is_done { "done" } else { "failed" };
                    format!("disk: {kind} of file {file} at {offset} {how}")
                }
                Event::Fault(what) | Event::Told(what) => what.clone(),
            };
            let seconds = (now_ns - BEGIN_NS) as f64 / 1e9;
            writeln!(text, "{seconds:14.9} {what}").expect("a string takes all");
        }
        text
    }

    /// The same in the format that Perfetto and Chrome's tracing read.
    pub fn timeline(&self) -> serde_json::Value {
        let thread = |(index, name): (usize, &String)| {
            serde_json::json!({"ph": "M", "pid": 1, "tid": index, "name": "thread_name",
                "args": {"name": name}})
        };
        let mut list: Vec<_> = self.agents.iter().enumerate().map(thread).collect();
        for (now_ns, event) in self.events.iter().flatten() {
            let ts = (now_ns - BEGIN_NS) as f64 / 1e3;
            let (tid, name) = match event {
                Event::Work(_, 0, _) => continue,
                Event::Work(agent, done, busy) => {
                    list.push(serde_json::json!({"ph": "X", "pid": 1, "tid": agent, "ts": ts,
                        "dur": *busy as f64 / 1e3, "name": "work", "args": {"done": done}}));
                    continue;
                }
                Event::Ended(agent) => (100 + u32::from(*agent), "ended".to_owned()),
                Event::Sent(source, trigger, _) => (200 + source, format!("event {trigger}")),
                Event::Arrived(source, _, true) => (300 + source, "arrived".to_owned()),
                Event::Arrived(source, _, false) => (300 + source, "no room".to_owned()),
                Event::Lost(source) => (300 + source, "lost".to_owned()),
                Event::Disk(kind, file, _, is_done) => {
                    let how = if *is_done { "" } else { " failed" };
                    (400 + *file as u32, format!("{kind}{how}"))
                }
                Event::Fault(what) | Event::Told(what) => (500, what.clone()),
            };
            list.push(serde_json::json!({"ph": "i", "s": "t", "pid": 1, "tid": tid, "ts": ts,
                "name": name}));
        }
        serde_json::json!({"traceEvents": list, "displayTimeUnit": "ms"})
    }
}

/// FNV-1a as a hasher of values, which is the same in every build.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
