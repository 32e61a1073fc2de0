//! What the session counts of each log (docs/spec/event-link.md, section 10), told to the recorder
//! each second: what has changed, as many records as the reports of a front-end leave room for.

use catchment_wire::session::{Report, Text, Value, ValueKind, ValueType};

use crate::control::Outbox;
use crate::log::Log;
use crate::source::SourceStatus;

/// How often, and records of one message. Reports and these together are 100 a second at most, as
/// many as a recorder takes.
const EVERY_NS: u64 = 1_000_000_000;
const RECORDS: usize = 16;

const NAMES: [&str; 13] = [
    "made",
    "sent_again",
    "taken",
    "durable",
    "abandoned_buffer",
    "abandoned_hardware",
    "abandoned_busy",
    "abandoned_other",
    "full",
    "waited_ns",
    "key_refused",
    "held_at_run_end",
    "resumes",
];

/// See the [module](self).
pub(crate) struct Counts {
    due_ns: u64,
    /// The log at which the next message begins.
    next: usize,
    /// By log, what was told last. What is zero is told once it is not.
    told: Vec<[u64; NAMES.len()]>,
    has_opened: bool,
}

impl Counts {
    pub fn new(logs: usize) -> Self {
        Self { due_ns: 0, next: 0, told: vec![[0; NAMES.len()]; logs], has_opened: false }
    }

    /// The session is open: its recorder has everything to learn.
    pub fn open(&mut self, now_ns: u64, logs: &[Log]) {
        self.due_ns = now_ns + EVERY_NS;
        self.told.fill([0; NAMES.len()]);
        if std::mem::replace(&mut self.has_opened, true) {
            logs.iter().for_each(|log| log.source.state().status.resumes += 1);
        }
    }

    /// Puts what is new into the outbox, if it is time.
    pub fn fill(&mut self, now_ns: u64, logs: &[Log], outbox: &mut Outbox) {
        if now_ns < self.due_ns {
            return;
        }
        self.due_ns = now_ns + EVERY_NS;
        let mut records = Vec::with_capacity(RECORDS);
        for _ in logs {
            let log = &logs[self.next];
            let counts = of(&log.source.status());
            let told = self.told[self.next].iter_mut();
            for ((count, told), name) in counts.into_iter().zip(told).zip(NAMES) {
                if *told != count && records.len() < RECORDS {
                    *told = count;
                    records.push(record(log.number, name, count));
                }
            }
            if records.len() == RECORDS {
                break;
            }
            self.next = (self.next + 1) % logs.len();
        }
        if !records.is_empty() {
            outbox.records(&Report {}, records.into_iter());
        }
    }
}

/// In the order of their names.
fn of(status: &SourceStatus) -> [u64; NAMES.len()] {
    let [buffer, hardware, busy, other] = status.abandoned;
    [
        status.made,
        status.sent_again,
        status.taken,
        status.durable,
        buffer,
        hardware,
        busy,
        other,
        status.full,
        status.waited_ns,
        status.key_refused,
        status.held_at_run_end,
        status.resumes,
    ]
}

fn record(log: u32, name: &str, count: u64) -> Value {
    let (kind, value_type, flags) = (ValueKind::COUNTER, ValueType::U64, 0);
    let (value, min, max) = (count.to_le_bytes(), [0; 8], [0; 8]);
    let unit = Text::new("").expect("it is short enough");
    let name = Text::new(name).expect("it is short enough");
    Value { kind, value_type, flags, log, value, min, max, unit, name }
}
