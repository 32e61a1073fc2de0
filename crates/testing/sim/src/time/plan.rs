//! What follows from a seed where events are built by time.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_builder::{Late, SourceRole, Unmatched, WindowKind};
use catchment_fixtures::Random;
use catchment_frame::{Codings, ColumnCoding, Pattern};
use catchment_recorder::{MatchRule, RecorderConfig, SourceClock, SourceConfig, TimeRule};
use catchment_wire::event_link::EventLink;

use super::front_ends::{self, TimeLog};
use super::layouts::{LayoutPlan, Wanted};
use super::marks::{Marks, Sequence};
use super::{FAULTS, LIES};
use crate::case::Case;
use crate::fault::Fault;
use crate::groups::Part;
use crate::plan::{self, BEGIN_NS, MS, NetworkPlan, Plan, S, SourcePlan};
use crate::sessions::SenderPlan;
use crate::wires::Trouble;

/// A source of the detector.
#[derive(Clone, Debug)]
pub struct TimeSource {
    pub role: SourceRole,
    pub rate_hz: u64,
    pub bits: u32,
    /// How far its clock is off for as long as it is installed, which its configuration says, too.
    pub error_ns: i64,
    /// How much its fragments of one event differ.
    pub jitter_ns: u64,
    /// How far its packets are behind the others'.
    pub lag_ns: u64,
    /// How often it sends: for which of a thousand triggers, and, if it sends on its own, after
    /// what time.
    pub share: u64,
    pub period_ns: Option<u64>,
    /// How many fragments it has of a trigger, at most.
    pub pieces_max: u64,
    /// Fragments near no trigger, per thousand.
    pub noise: u64,
    /// Its groups; 0: none.
    pub expected_in: u64,
    pub layout: LayoutPlan,
    pub payload_bytes_max: u64,
    /// What a front-end has of it, if it is no board.
    pub log: Option<TimeLog>,
}

/// What a clock says beside the time, from when to when.
#[derive(Clone, Copy, Debug)]
pub struct Lie {
    pub fault: Fault,
    pub source: usize,
    /// Since the run's begin.
    pub from_ns: u64,
    pub until_ns: u64,
    /// A step, or, of a drift, billionths.
    pub amount: i64,
}

/// A board that may open events, and sends far more fragments than there are, from when on.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    pub source: usize,
    /// Since the run's begin.
    pub from_ns: u64,
    pub period_ns: u64,
    pub count: u64,
}

/// Everything that follows from a case.
#[derive(Clone, Debug)]
pub struct TimePlan {
    /// What the recorder and its disk are made from.
    pub base: Plan,
    pub sources: Vec<TimeSource>,
    pub events: u64,
    /// The mean time between two triggers.
    pub interval_ns: u64,
    /// The detector's time when the run begins.
    pub zero_ns: u64,
    pub has_groups: bool,
    pub lies: Vec<Lie>,
    /// A source that is dead, and one whose packets are late, from when to when, and how late.
    pub dead: Option<(usize, u64, u64)>,
    pub late: Option<(usize, u64, u64, u64)>,
    pub flood: Option<Flood>,
    /// What befalls front-ends, and when, in order.
    pub troubles: Vec<(u64, usize, Trouble)>,
    /// Whether what is sent in order arrives in order.
    pub in_order: bool,
}

impl TimePlan {
    /// What follows from a case.
    pub fn of(case: Case) -> Self {
        let mut chance = case.chance("by time");
        let timeout_ns = [200 * MS, 500 * MS, S][chance.index(3)];
        let interval_ns = [MS, 5 * MS, 5 * MS, 10 * MS, 20 * MS][chance.index(5)];
        let duration_ns = 2 * S + chance.below(2 * S) + 2 * timeout_ns;
        let events = (duration_ns / interval_ns).min(case.events_max);
        let count = 1 + chance.index(6);
        let has_groups = count >= 3 && chance.below(3) == 0;
        let window_ns = [300, 5_000, 40_000, interval_ns / 16][chance.index(4)];
        let network = network(&case, timeout_ns);
        let times = Times { timeout_ns, interval_ns, window_ns };
        let fragments_max = fragments_max(&case);
        let mut sources: Vec<TimeSource> = (0..count)
            .map(|index| source(&case, &times, index, (has_groups, fragments_max)))
            .collect();
        sources.truncate(case.sources_max as usize);
        let has_groups = has_groups && sources.len() >= 2;
        let length_ns = events * interval_ns;
        let senders = front_ends::draw(&case, &mut sources, (length_ns, has_groups));
        let troubles = front_ends::troubles(&case, senders.len(), length_ns);
        let zero_ns = zero_ns(&sources, &mut chance);
        let late = case.faults.has(Fault::Delay).then(|| {
            let mut chance = case.chance("late");
            let from_ns = chance.below(length_ns);
            let until_ns = from_ns + chance.below(2 * S);
            (chance.index(sources.len()), from_ns, until_ns, MS + chance.below(900 * MS))
        });
        let mut lies = lies(&case, &times, sources.len(), zero_ns);
        // Those of front-ends say the time.
        lies.retain(|lie| sources[lie.source].log.is_none());
        let detector = Detector {
            sources: &sources,
            senders: &senders,
            network: &network,
            has_groups,
            fragments_max,
        };
        let mut config = config(&case, &times, &detector);
        let flood = flood(&case, &sources, length_ns, &mut config);
        let mut base = Plan {
            case,
            sources: sources.iter().map(|one| of_base(one, timeout_ns)).collect(),
            senders,
            links: Vec::new(),
            events,
            interval_ns,
            first_number: 0,
            network,
            stores: vec![plan::store(&case, "store")],
            second_disk: None,
            queue_packets: plan::queue_packets(&case),
            control: None,
            changes: Vec::new(),
            begins_paused: false,
            goes_on: false,
            config,
        };
        plan::add_targets(&case, (1, 1), &mut base.config);
        Self {
            dead: dead(&case, sources.len(), length_ns),
            base,
            sources,
            events,
            interval_ns,
            zero_ns,
            has_groups,
            lies,
            late,
            flood,
            troubles,
            in_order: !case.faults.has(Fault::Reorder),
        }
    }

    /// How long the detector sends.
    pub fn duration_ns(&self) -> u64 {
        self.events * self.interval_ns
    }

    pub fn timeout_ns(&self) -> u64 {
        self.base.config.build.timeout_ns
    }
}

/// The times from which others follow.
struct Times {
    timeout_ns: u64,
    interval_ns: u64,
    window_ns: u64,
}

impl TimeSource {
    /// Bytes before the body that are recorded.
    pub fn head_bytes(&self) -> usize {
        if self.layout.is_whole && self.log.is_none() { self.layout.head } else { 0 }
    }

    /// The numbers of its packets, if it is a board that has some.
    pub fn sequence(&self) -> Option<Sequence> {
        self.layout.marks.sequence.filter(|_| self.log.is_none())
    }

    /// Nanoseconds after which its clock wraps.
    pub fn cycle_ns(&self) -> u128 {
        (1_u128 << self.bits) * 1_000_000_000 / u128::from(self.rate_hz)
    }

    /// A time of its clock, in the cycle in which that is nearest to another one.
    pub fn nearest_ns(&self, ns: i128, to_ns: i128) -> i128 {
        let cycles_ns = |count: i128| {
            ((count << self.bits) * 1_000_000_000).div_euclid(i128::from(self.rate_hz))
        };
        let whole_ns = cycles_ns(1);
        ns - cycles_ns((ns - to_ns + whole_ns / 2).div_euclid(whole_ns))
    }
}

/// A source that is dead for a while, and from when to when.
fn dead(case: &Case, sources: usize, length_ns: u64) -> Option<(usize, u64, u64)> {
    case.faults.has(Fault::Die).then(|| {
        let mut chance = case.chance("die");
        let from_ns = chance.below(length_ns);
        (chance.index(sources), from_ns, from_ns + chance.below(3 * S))
    })
}

/// A board that floods, where an event needs more than one opener. Otherwise each of its fragments
/// would be an event.
fn flood(
    case: &Case,
    sources: &[TimeSource],
    length_ns: u64,
    config: &mut RecorderConfig,
) -> Option<Flood> {
    let opens = |one: &TimeSource| one.role == SourceRole::Required && one.log.is_none();
    let opening: Vec<usize> = (0..sources.len()).filter(|&one| opens(&sources[one])).collect();
    let coincidence = config.build.time.coincidence.filter(|_| opening.len() > 1)?;
    let mut chance = case.faults.has(Fault::Flood).then(|| case.chance("flood"))?;
    config.build.time.coincidence = Some(coincidence.max(2));
    // From less than the rule calls a flood to eight times as much.
    let period_ns = config.build.timeout_ns / 1_024 / (1 + chance.below(16));
    Some(Flood {
        source: opening[chance.index(opening.len())],
        from_ns: chance.below(length_ns),
        period_ns,
        count: 100 + chance.below(2_000),
    })
}

/// The detector, as its recorder's configuration has to know it.
struct Detector<'a> {
    sources: &'a [TimeSource],
    senders: &'a [SenderPlan],
    network: &'a NetworkPlan,
    has_groups: bool,
    fragments_max: u32,
}

/// How many fragments of a source an event may have: in every third run several.
fn fragments_max(case: &Case) -> u32 {
    let mut chance = case.chance("pieces");
    if chance.below(3) > 0 { 1 } else { [2, 3, 8][chance.index(3)] }
}

fn source(
    case: &Case,
    times: &Times,
    index: usize,
    (has_groups, fragments_max): (bool, u32),
) -> TimeSource {
    let mut chance = case.chance(&format!("source {index}"));
    let &Times { timeout_ns, interval_ns, window_ns } = times;
    let is_first = index == 0;
    let kind = if is_first { 0 } else { chance.below(8) };
    // The last two: a camera beside a trigger, and one that sends when it likes.
    let role = match kind {
        0..=4 => SourceRole::Required,
        5 => SourceRole::Optional,
        6 => [SourceRole::Optional, SourceRole::Sparse][chance.index(2)],
        _ => SourceRole::Sparse,
    };
    let period_ns = (kind == 6).then(|| [100 * MS, 40 * MS, 250 * MS][chance.index(3)]);
    let share = match kind {
        0..=5 if chance.below(3) > 0 => 1_000,
        0..=5 => 500 + chance.below(500),
        _ => 1 + chance.below(100),
    };
    let rates = [1_000_000_000, 1_000_000_000, 125_000_000, 62_500_001, 333_333_333, 10_000_000];
    let rate_hz = rates[chance.index(6)];
    let wide = [64, 64, 48, 44][chance.index(4)];
    // A clock that wraps several times in the run, and at the earliest after four time-outs.
    let narrow = (16..=64).find(|&bits| {
        let cycle_ns = (1_u128 << bits) * 1_000_000_000 / u128::from(rate_hz);
        cycle_ns / 4 > u128::from(timeout_ns)
    });
    let is_narrow = chance.below(3) > 0;
    let bits = match narrow.filter(|_| is_narrow && case.faults.has(Fault::Wrap)) {
        Some(bits) => bits,
        None => wide,
    };
    let expected_in = match has_groups && !is_first && role != SourceRole::Sparse {
        true => [0, 1, 2, 4][chance.index(4)],
        false => 0,
    };
    let has_records = chance.below(2) == 0;
    // What stands in a packet waits for the last of it.
    let most = timeout_ns / 16 / interval_ns;
    let most = if role == SourceRole::Sparse || period_ns.is_some() { 1 } else { most.min(5) };
    // Now and then more than an event may have.
    let mut pieces = case.chance(&format!("pieces of source {index}"));
    let pieces_max = match fragments_max {
        1 => 1,
        most => 1 + pieces.below(u64::from(most) + 1),
    };
    TimeSource {
        role,
        rate_hz,
        bits,
        error_ns: [0, 0, 1, -1][chance.index(4)] * chance.below(MS).cast_signed(),
        jitter_ns: [0, window_ns / 4, window_ns, window_ns + window_ns / 2][chance.index(4)],
        lag_ns: chance.below(2) * chance.below(timeout_ns / 16),
        share,
        period_ns,
        pieces_max,
        log: None,
        noise: [0, 0, 20, 100][chance.index(4)],
        expected_in,
        layout: {
            let wanted = Wanted {
                names_groups: chance.below(2) == 0 || is_first && has_groups,
                records: has_records.then(|| 1 + chance.below(most.max(1))),
                has_fillers: chance.below(2) == 0,
                is_whole: chance.below(2) == 0,
                marks: Marks::draw(&mut case.chance(&format!("marks {index}"))),
            };
            LayoutPlan::draw(&mut case.chance(&format!("layout {index}")), bits, wanted)
        },
        payload_bytes_max: [0, 100, 100, 4_000][chance.index(4)],
    }
}

/// Where the clocks stand when the run begins: no more than one cycle of the longest one, which is
/// as far back as anybody can tell, or of the next one, since the longest may lie; now and then it
/// wraps in the run, but not before it is heard. Beside boards those of front-ends do not count:
/// they may be there later.
fn zero_ns(sources: &[TimeSource], chance: &mut Random) -> u64 {
    let all = || sources.iter().filter(|one| one.role != SourceRole::Sparse);
    let has_boards = all().any(|one| one.log.is_none());
    let voters = all().filter(|one| one.log.is_none() || !has_boards);
    let mut cycles: Vec<u128> = voters.map(TimeSource::cycle_ns).collect();
    cycles.sort_unstable();
    let longest = cycles[cycles.len().saturating_sub(2)];
    let most = u64::try_from(longest).unwrap_or(u64::MAX).min(1_800_000_000 * S);
    let zero_ns = match chance.below(3) {
        0 => most - (3 * S).min(most / 2),
        1 => MS + chance.below(S),
        _ => MS + chance.below(most - 2 * MS),
    };
    zero_ns.min(most - S.min(most / 4))
}

fn network(case: &Case, timeout_ns: u64) -> NetworkPlan {
    let network = plan::network(case);
    // As far as the configuration says that packets may overtake each other.
    NetworkPlan { reorder_ns: network.reorder_ns.min(timeout_ns / 16), ..network }
}

fn lies(case: &Case, times: &Times, count: usize, zero_ns: u64) -> Vec<Lie> {
    let mut chance = case.chance("lies");
    let one = chance.index(count);
    let are_of_one = chance.below(4) > 0;
    let lie = |fault| {
        let mut chance = case.chance(&format!("lie {fault}"));
        let from_ns = [0, chance.below(3 * S), 2 * times.timeout_ns][chance.index(3)];
        let until_ns = match chance.below(2) {
            0 => u64::MAX,
            _ => from_ns + chance.below(3 * S),
        };
        let step = [
            3 * times.window_ns + chance.below(20 * MS),
            times.timeout_ns / 4 + chance.below(times.timeout_ns / 4),
            times.timeout_ns / 2 + chance.below(2 * times.timeout_ns),
            3_600 * S + chance.below(S),
        ];
        let step = step[chance.index(4)].cast_signed();
        let sign = [1, -1][chance.index(2)];
        let amount = match fault {
            Fault::Drift => sign * [1_000, 1_000_000, 10_000_000, 200_000_000][chance.index(4)],
            Fault::JumpAhead => step,
            Fault::SetBack => -step.min((zero_ns / 2).cast_signed()),
            Fault::SecondAhead => S.cast_signed(),
            _ => 0,
        };
        let source = if are_of_one { one } else { chance.index(count) };
        Lie { fault, source, from_ns, until_ns, amount }
    };
    FAULTS[LIES].iter().filter(|&&fault| case.faults.has(fault)).map(|&one| lie(one)).collect()
}

fn of_base(source: &TimeSource, timeout_ns: u64) -> SourcePlan {
    SourcePlan {
        in_parts: false,
        in_stream: false,
        log: source.log.map(|log| log.place),
        big_endian: false,
        // What says whose it is.
        payload_bytes_max: source.payload_bytes_max + 16,
        batch: source.layout.records.unwrap_or(1),
        lag_ns: source.lag_ns.min(timeout_ns),
        role: source.role,
        part: Part::default(),
    }
}

fn config(case: &Case, times: &Times, detector: &Detector<'_>) -> RecorderConfig {
    let mut chance = case.chance("configuration by time");
    let &Detector { sources, senders, network, has_groups, fragments_max } = detector;
    let &Times { timeout_ns, interval_ns, window_ns } = times;
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let of = |(index, plan): (usize, &TimeSource)| {
        let batch = plan.layout.records.unwrap_or(1);
        let mixed_ns = network.delay_ns + network.reorder_ns + 2 * batch * interval_ns;
        let reorder_ns = match case.faults.has(Fault::Reorder) {
            true => (mixed_ns + 2 * plan.jitter_ns).min(timeout_ns / 4),
            false => 0,
        };
        let config = SourceConfig {
            role: plan.role,
            protocol: Arc::new(plan.layout.declared(plan.rate_hz)),
            fragment_bytes_max: plan.payload_bytes_max + plan.layout.bytes_around_max(),
            expected_in: plan.expected_in,
            id: plan.layout.marks.id.filter(|_| plan.log.is_none()).map(|id| id.value),
            clock: SourceClock { offset_ns: -plan.error_ns, reorder_ns, lag_ns: None },
            ..SourceConfig::new(format!("s{index}"), address)
        };
        let Some(TimeLog { place, .. }) = plan.log else { return config };
        let sender = &senders[place.sender];
        SourceConfig {
            name: sender.source_name(place.log),
            address: sender.address(),
            protocol: Arc::new(EventLink::SESSIONS),
            clock: SourceClock { reorder_ns: 0, ..config.clock },
            ..config
        }
    };
    let mut config = RecorderConfig::new("".into(), sources.iter().enumerate().map(of).collect());
    config.receive.threads = 1 + chance.index(3);
    // Of a thousand triggers. Sources that send when they like bring few.
    let fragments: u64 = sources.iter().map(|one| one.share * (1 + one.pieces_max) / 2).sum();
    let least = plan::queue_least(fragments.div_ceil(1_000), interval_ns);
    config.sizes = plan::sizes(case, least);
    config.build.timeout_ns = timeout_ns;
    config.sizes.rows_max = [256, 1_024, 4_096][chance.index(3)];
    let required = sources.iter().filter(|one| one.role == SourceRole::Required).count() as u64;
    let opens_alone = has_groups || chance.below(3) == 0;
    config.build.rule = MatchRule::Time;
    let opener = opens_alone.then(|| config.sources[0].name.clone());
    config.build.time = time_rule(&mut chance, window_ns, (opener, required), fragments_max);
    config.frame.bytes = [4 << 10, 32 << 10, 256 << 10][chance.index(3)];
    config.frame.time_ns = [20 * MS, 200 * MS, S][chance.index(3)];
    let coding = ["none", "none", "lz4", "auto"][chance.index(4)];
    config.frame.codings = Codings::new(coding.parse::<ColumnCoding>().expect("a coding"));
    config.encode.threads = 1 + chance.index(2);
    config.encode.bytes = config.sizes.encode_bytes_min;
    config.write.buffer_bytes = 64 << 10;
    config.write.buffer_count = 3 + chance.index(4);
    config.write.sync_bytes = plan::sync_bytes(case);
    config.write.file_bytes = [512 << 10, 1 << 30][chance.index(2)];
    let event_bytes: u64 = sources.iter().map(|source| source.payload_bytes_max + 32).sum();
    // A required front-end that fell silent is waited for.
    let waited_ns = if senders.is_empty() { 0 } else { 6 * S };
    let events = (4 * timeout_ns + waited_ns) / interval_ns + 1_000;
    let event_bytes = event_bytes * u64::from(fragments_max);
    let least = config.memory_bytes_min();
    config.memory_bytes = match case.faults.has(Fault::SmallMemory) {
        true => least + chance.below(1 << 20),
        // Room for all that waits for a source that is silent, and the same for the liar's.
        false => least.max(64 << 20) + 4 * event_bytes * events,
    };
    config
}

/// The rule: which source opens all events, or how many do that are required.
fn time_rule(
    chance: &mut Random,
    window_ns: u64,
    (opener, required): (Option<String>, u64),
    fragments_max: u32,
) -> TimeRule {
    let opens_alone = opener.is_some();
    TimeRule {
        window_ns: Some(window_ns),
        kind: [WindowKind::First, WindowKind::Gap][chance.index(2)],
        span_ns_max: [None, Some(2 * window_ns)][chance.index(2)],
        openers: opener.into_iter().map(Pattern::name).collect(),
        fragments_max: Some(fragments_max).filter(|most| *most > 1),
        before_ns: [None, Some(0), Some(window_ns / 2)][chance.index(3)],
        coincidence: (!opens_alone).then(|| 1 + chance.below(required) as u32),
        unmatched: [Unmatched::Keep, Unmatched::Count][chance.index(2)],
        late: [Late::Count, Late::Keep][chance.index(2)],
        ..TimeRule::default()
    }
}

/// When the run begins on the recorder's clock.
pub const RUN_NS: u64 = BEGIN_NS;
