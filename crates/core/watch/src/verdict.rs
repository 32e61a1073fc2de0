//! One glance: are good data being recorded?
//!
//! Computed from the data's flow, not from states: what counts is what reached the disk, and when.

use catchment_model::units::grouped;
use catchment_model::{Entry, named};
use serde::Serialize;

use crate::loss::words_of_entry;
use crate::words::percent;

const S: u64 = 1_000_000_000;
const CANNOT_WRITE: &str = "data arrive but cannot be written to the disk";
/// How many sources a text names.
const NAMED: usize = 3;

named! {
    /// The answer, in the order from good to bad.
    #[derive(PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    Level {
        /// Good data are being recorded.
        Good = "good",
        /// Data do not get where they are to be at this moment: they are held in memory, since the
        /// disk completes no writes or a required target is away, or go to its spill; or they wait
        /// before it, since a thread does not receive.
        Held = "held",
        /// All data are being recorded, but some are bad: broken, or not of their event.
        BadData = "bad_data",
        /// Data are being recorded, but not all.
        Loss = "loss",
        /// Data are being recorded, but so large a share is bad that it may not be worth it.
        HeavyBadData = "heavy_bad_data",
        /// Data are being recorded, but so large a share is lost that it may not be worth it.
        HeavyLoss = "heavy_loss",
        /// Nothing is being recorded.
        NotRecording = "not_recording",
    }
}

/// The answer with its words.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Good or bad.
    pub level: Level,
    /// The share of the data that is lost, as [`Flow::loss_share`] says it; none where no run
    /// records.
    pub loss_share: Option<f64>,
    /// The share of the recorded data that is bad, as [`Flow::bad_share`] says it; none where no
    /// run records.
    pub bad_share: Option<f64>,
    /// One line.
    pub text: String,
    /// What else is to be known, the worst first.
    pub reasons: Vec<String>,
}

/// What data do at this moment. Ages: how long ago, in nanoseconds; none: never in this run.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    /// Whether a run is on.
    pub run: Run<'a>,
    /// What is broken, if anything is, in plain words.
    pub fault: Option<&'a str>,
    /// What to do about it, where that is known: it comes first then, and the fault last.
    pub fault_advice: Option<&'a str>,
    /// Whether files cannot be written at this moment, however young the last row on disk is.
    pub cannot_write: bool,
    /// When anything last came from any source.
    pub received_age_ns: Option<u64>,
    /// When an event or slice was last written to disk.
    pub recorded_age_ns: Option<u64>,
    /// For how long the disk has completed no write while some are under way; none where none are,
    /// or they complete.
    pub held_age_ns: Option<u64>,
    /// When a pause last ended.
    pub resumed_age_ns: Option<u64>,
    /// The sources.
    pub sources: &'a [SourceFlow<'a>],
    /// What was lost within [`Limits::loss_ns`], the worst first.
    pub losses: &'a [Loss<'a>],
    /// The share of what should have been recorded lately that was lost, 0 to 1.
    pub loss_share: f64,
    /// What was bad of what was recorded within [`Limits::loss_ns`], the worst first.
    pub bad: &'a [Loss<'a>],
    /// The share of what was recorded lately that is bad, 0 to 1.
    pub bad_share: f64,
    /// Required targets that take nothing now, while their frames wait in memory.
    pub away: &'a [Untaken<'a>],
    /// Required targets that take nothing while all goes to their spills, each in plain words.
    pub spilling: &'a [String],
    /// Required targets that do not get what is recorded elsewhere.
    pub refused: &'a [Untaken<'a>],
    /// What is to be known and makes nothing worse, in plain words.
    pub notices: &'a [String],
}

/// A required target that does not take the run's frames.
#[derive(Clone, Copy, Debug)]
pub struct Untaken<'a> {
    /// Its name.
    pub target: &'a str,
    /// Why, in plain words.
    pub why: &'a str,
    /// For how many seconds memory lasts, where that is known.
    pub lasts_seconds: Option<f64>,
}

/// Whether a run is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run<'a> {
    /// No run. What is under way, if anything: `start is under way`.
    None(Option<&'a str>),
    /// No run, and no configuration that one could begin with: no socket is open.
    Unconfigured,
    /// A run could begin: what comes is counted, and not recorded.
    Configured,
    /// A run could not begin: why what comes cannot be received.
    CannotReceive(&'a str),
    /// A run is open, and has not begun: what comes is counted, and not recorded.
    Armed,
    /// Since so many nanoseconds.
    Recording {
        /// How long.
        since_ns: u64,
    },
    /// Somebody paused it.
    Paused {
        /// Who.
        who: &'a str,
        /// When, as people say it: `03:12`.
        since: &'a str,
    },
}

/// One source.
#[derive(Clone, Copy, Debug)]
pub struct SourceFlow<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether events are incomplete without it.
    pub required: bool,
    /// When anything last came from it.
    pub received_age_ns: Option<u64>,
    /// Whether its numbers do not fit to the others', so that what comes from it is discarded.
    pub out_of_step: bool,
    /// How they differ, in plain words, where that is known.
    pub astray: Option<&'a str>,
    /// Whether the thread that receives from it is held up, so that nobody knows what it sends.
    pub unread: bool,
}

/// Something lost, or bad.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    /// The source's name.
    pub source: &'a str,
    /// Of what kind.
    pub entry: Entry,
    /// How many, within [`Limits::loss_ns`].
    pub count: u64,
}

/// What counts as long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A source is silent after this: 5 s.
    pub silent_ns: u64,
    /// Something must have reached the disk within this: 3 s, or three frames if that is longer.
    pub recorded_ns: u64,
    /// Data are only held in memory when no write has completed for so long while some are under
    /// way: 1 s.
    pub held_ns: u64,
    /// A loss counts for so long, and so do bad data: 60 s.
    pub loss_ns: u64,
    /// Loss is heavy from this share on, and so are bad data: [`HEAVY_LOSS_SHARE`].
    pub heavy_loss_share: f64,
}

/// From this share of the data on loss is heavy, unless it is configured otherwise.
pub const HEAVY_LOSS_SHARE: f64 = 0.05;

impl Limits {
    /// The usual ones, for frames that are cut that often.
    pub fn of_frames(frame_ns: u64) -> Self {
        Self {
            silent_ns: 5 * S,
            recorded_ns: frame_ns.saturating_mul(3).max(3 * S),
            held_ns: S,
            loss_ns: 60 * S,
            heavy_loss_share: HEAVY_LOSS_SHARE,
        }
    }
}

/// Good, with loss, or not recording, and why.
pub fn verdict(flow: &Flow<'_>, limits: &Limits) -> Verdict {
    let words = |fault: &str| match flow.fault_advice {
        Some(advice) => advice.to_owned(),
        None => format!("fault: {fault}"),
    };
    let mut reasons: Vec<String> = flow.fault.map(words).into_iter().collect();
    let detail = flow.fault.filter(|_| flow.fault_advice.is_some());
    let detail = detail.map(|fault| format!("fault: {fault}"));
    if let Some(text) = not_recording(flow, limits) {
        let text = match flow.fault {
            // A pause was requested, and does not come from the fault.
            Some(_) if !matches!(flow.run, Run::Paused { .. }) => {
                let first = reasons.remove(0);
                reasons.push(text);
                first
            }
            _ => text,
        };
        reasons.extend(flow.away.iter().map(away_words));
        let recording = matches!(flow.run, Run::Recording { .. });
        let strays = flow.sources.iter().filter(|source| recording && source.out_of_step);
        reasons.extend(strays.map(out_of_step));
        reasons.extend(detail);
        let [loss_share, bad_share] =
            [flow.loss_share, flow.bad_share].map(|share| Some(share).filter(|_| recording));
        return Verdict { level: Level::NotRecording, loss_share, bad_share, text, reasons };
    }
    let (lost, bad, held) = (worst(flow, limits), bad(flow, limits), held(flow, limits));
    let held_level = if held.is_some() { Level::Held } else { Level::Good };
    let level = lost_level(!lost.is_empty(), flow, limits)
        .max(bad_level(!bad.is_empty(), flow, limits))
        .max(held_level);
    let begin = begin(level, flow);
    let worst = match level {
        Level::BadData | Level::HeavyBadData => [bad, lost],
        _ => [lost, bad],
    }
    .concat();
    // What is second of a source is left to the reasons.
    let is_first = |(index, one): &(usize, &Named<'_>)| {
        worst[..*index].iter().all(|before| before.source != one.source)
    };
    let named = worst.iter().enumerate().filter(is_first);
    let named: Vec<&str> = named.map(|(_, one)| one.text.as_str()).collect();
    let text = match (named.as_slice(), &held) {
        ([], Some(held)) => held.clone(),
        ([], None) => ["recording good data"]
            .into_iter()
            .chain(flow.notices.first().map(String::as_str))
            .collect::<Vec<_>>()
            .join("; "),
        (few, _) if few.len() <= NAMED => format!("{begin}: {}", few.join("; ")),
        (many, _) => {
            let rest = many.len() - NAMED;
            let sources = if rest == 1 { "source" } else { "sources" };
            format!(
                "{begin}: {}; {} more {sources}",
                many[..NAMED].join("; "),
                grouped(rest as u64)
            )
        }
    };
    reasons.extend(worst.into_iter().map(|one| one.text));
    let spilling = flow.spilling.iter().filter(|one| held.as_ref() != Some(one));
    let spilling: Vec<String> = spilling.cloned().collect();
    reasons.extend(held);
    reasons.extend(flow.away.iter().skip(1).map(away_words));
    reasons.extend(spilling);
    reasons.extend_from_slice(flow.notices);
    reasons.extend(detail);
    let (loss_share, bad_share) = (Some(flow.loss_share), Some(flow.bad_share));
    Verdict { level, loss_share, bad_share, text, reasons }
}

fn lost_level(some: bool, flow: &Flow<'_>, limits: &Limits) -> Level {
    match some {
        false => Level::Good,
        true if flow.loss_share >= limits.heavy_loss_share => Level::HeavyLoss,
        true => Level::Loss,
    }
}

fn bad_level(some: bool, flow: &Flow<'_>, limits: &Limits) -> Level {
    match some {
        false => Level::Good,
        true if flow.bad_share >= limits.heavy_loss_share => Level::HeavyBadData,
        true => Level::BadData,
    }
}

/// How the verdict's line begins, where not all is good.
fn begin(level: Level, flow: &Flow<'_>) -> String {
    let (lost, bad) = (percent(flow.loss_share), percent(flow.bad_share));
    match level {
        Level::HeavyLoss => format!("losing {lost} of the data"),
        Level::Loss if flow.loss_share > 0.0 => format!("recording with loss, {lost} of the data"),
        Level::Loss => "recording with loss".to_owned(),
        Level::HeavyBadData => format!("recording bad data, {bad} of all"),
        Level::BadData if flow.bad_share > 0.0 => {
            format!("recording, but {bad} of the data are bad")
        }
        Level::BadData => "recording, but some data are bad".to_owned(),
        Level::Good | Level::Held | Level::NotRecording => String::new(),
    }
}

/// A time as people say it.
pub fn words_of_time(time_ns: u64) -> String {
    let seconds = time_ns / S;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// A window that ends now.
fn last(window_ns: u64) -> String {
    match window_ns / S {
        60 => "in the last minute".to_owned(),
        _ => format!("in the last {}", words_of_time(window_ns)),
    }
}

fn not_recording(flow: &Flow<'_>, limits: &Limits) -> Option<String> {
    let since_ns = match flow.run {
        Run::None(None) => return Some("no run".to_owned()),
        Run::None(Some(doing)) => return Some(format!("not recording: {doing}")),
        Run::Unconfigured => {
            return Some("no run: configure one to see what is sending".to_owned());
        }
        Run::CannotReceive(why) => return Some(format!("no run, and none can begin: {why}")),
        Run::Configured => return Some(format!("no run: {}", sending(flow, limits))),
        Run::Armed => return Some(format!("armed, not started: {}", sending(flow, limits))),
        Run::Paused { who, since } => return Some(format!("paused by {who} since {since}")),
        Run::Recording { since_ns } => since_ns,
    };
    let ago = words_of_time;
    match (flow.received_age_ns, flow.recorded_age_ns) {
        (None, _) if since_ns <= limits.silent_ns => {
            Some(format!("recording began {} ago, no data yet", ago(since_ns)))
        }
        (None, _) => {
            Some(format!("no data from any source since recording began {} ago", ago(since_ns)))
        }
        (Some(age_ns), _) if age_ns > limits.silent_ns => {
            Some(format!("no data from any source for {}", ago(age_ns)))
        }
        // What was recorded before a pause says nothing of what comes after it.
        (_, Some(age_ns)) if flow.resumed_age_ns.is_some_and(|resumed_ns| resumed_ns < age_ns) => {
            let resumed_ns = flow.resumed_age_ns.unwrap_or(age_ns);
            let ago = ago(resumed_ns);
            Some(match resumed_ns > limits.recorded_ns {
                true => format!(
                    "data arrive but nothing has reached the disk since the run was resumed {ago} \
                     ago"
                ),
                false if flow.cannot_write => CANNOT_WRITE.to_owned(),
                false => format!("the run was resumed {ago} ago, the first data are on their way"),
            })
        }
        (_, Some(age_ns)) if age_ns > limits.recorded_ns => {
            Some(format!("data arrive but nothing reaches the disk for {}", ago(age_ns)))
        }
        (_, None) if since_ns > limits.recorded_ns => {
            let since = ago(since_ns);
            Some(format!(
                "data arrive but nothing has reached the disk since recording began {since} ago"
            ))
        }
        _ if flow.cannot_write => Some(CANNOT_WRITE.to_owned()),
        (_, None) => {
            Some(format!("recording began {} ago, the first data are on their way", ago(since_ns)))
        }
        (Some(_), Some(_)) => None,
    }
}

/// That nothing reaches the disk, or memory, at this moment, where that is not yet long enough to
/// say that nothing is recorded.
fn held(flow: &Flow<'_>, limits: &Limits) -> Option<String> {
    let Run::Recording { since_ns } = flow.run else { return None };
    let is_unread = |source: &&SourceFlow<'_>| {
        source.unread && source.received_age_ns.unwrap_or(since_ns) >= limits.held_ns
    };
    let mut unread = flow.sources.iter().filter(is_unread).map(|source| source.name);
    if let Some(first) = unread.next() {
        let more = match unread.count() {
            0 => String::new(),
            more => format!(" and {} more", grouped(more as u64)),
        };
        return Some(format!("{first}{more} not read: the receive thread is held up"));
    }
    if let Some(first) = flow.away.first() {
        return Some(away_words(first));
    }
    if let Some(age_ns) = flow.held_age_ns.filter(|age_ns| *age_ns >= limits.held_ns) {
        let age = words_of_time(age_ns);
        return Some(format!(
            "data are only held in memory: the disk has completed no write for {age}"
        ));
    }
    flow.spilling.first().cloned()
}

fn away_words(Untaken { target, why, lasts_seconds }: &Untaken<'_>) -> String {
    let lasts = lasts_seconds.map(|seconds| words_of_time((seconds * 1e9) as u64));
    let lasts = lasts.map(|time| format!(", which lasts for about {time} at this rate"));
    format!("frames for target {target} wait in memory{}: {why}", lasts.unwrap_or_default())
}

/// Whether the detector is there before the run begins.
fn sending(flow: &Flow<'_>, limits: &Limits) -> String {
    let (sending, silent): (Vec<&SourceFlow<'_>>, Vec<_>) = flow
        .sources
        .iter()
        .filter(|source| source.required)
        .partition(|source| source.received_age_ns.is_some_and(|age| age <= limits.silent_ns));
    let all = sending.len() + silent.len();
    let (sending, all) = (grouped(sending.len() as u64), grouped(all as u64));
    let names: Vec<&str> = silent.iter().take(NAMED).map(|source| source.name).collect();
    let missing = match silent.len() {
        0 => String::new(),
        few if few <= NAMED => format!("; nothing from {}", names.join(", ")),
        many => format!("; nothing from {} and {} more", names.join(", "), many - NAMED),
    };
    format!("{sending} of {all} sources are sending{missing}")
}

/// What is wrong with a source.
#[derive(Clone, Debug)]
struct Named<'a> {
    source: &'a str,
    text: String,
}

/// What is wrong with which source, the worst first: silent ones, those out of step, then by how
/// much they lost.
fn worst<'a>(flow: &Flow<'a>, limits: &Limits) -> Vec<Named<'a>> {
    let Run::Recording { since_ns } = flow.run else { return Vec::new() };
    let mut found = Vec::new();
    let mut silent: Vec<(u64, &'a str)> = flow
        .sources
        .iter()
        .filter(|source| source.required && !source.unread)
        .map(|source| (source.received_age_ns.unwrap_or(since_ns), source.name))
        .filter(|(age_ns, _)| *age_ns > limits.silent_ns)
        .collect();
    silent.sort_by_key(|(age_ns, _)| std::cmp::Reverse(*age_ns));
    found.extend(silent.iter().map(|&(age, source)| Named {
        source,
        text: format!("{source} silent for {}", words_of_time(age)),
    }));
    found.extend(flow.refused.iter().map(|one| Named {
        source: one.target,
        text: format!("target {} does not get the data: {}", one.target, one.why),
    }));
    let mut named: Vec<&str> = silent.iter().map(|(_, name)| *name).collect();
    for source in flow.sources.iter().filter(|source| source.out_of_step) {
        if !named.contains(&source.name) {
            named.push(source.name);
            found.push(Named { source: source.name, text: out_of_step(source) });
        }
    }
    for loss in flow.losses {
        // A source is named once: for its silence, for its numbers, or for the worst of its losses.
        if !named.contains(&loss.source) {
            named.push(loss.source);
            found.push(counted(loss, "lost", since_ns, limits));
        }
    }
    found
}

/// That a source is out of step, and what becomes of what it sends.
fn out_of_step(SourceFlow { name, astray, .. }: &SourceFlow<'_>) -> String {
    let how = astray.unwrap_or("its numbers or clock do not fit");
    format!("{name} out of step: {how}; what it sends is in no event")
}

/// Which sources' data are bad, each once, for what most of them are.
fn bad<'a>(flow: &Flow<'a>, limits: &Limits) -> Vec<Named<'a>> {
    let Run::Recording { since_ns } = flow.run else { return Vec::new() };
    let is_first = |(index, bad): &(usize, &Loss<'_>)| {
        flow.bad[..*index].iter().all(|other| other.source != bad.source)
    };
    let first = flow.bad.iter().enumerate().filter(is_first);
    first.map(|(_, bad)| counted(bad, "bad", since_ns, limits)).collect()
}

/// What a source lost, or what was bad of it, and of what kind.
fn counted<'a>(loss: &Loss<'a>, fate: &str, since_ns: u64, limits: &Limits) -> Named<'a> {
    let (source, count, kind) = (loss.source, grouped(loss.count), words_of_entry(loss.entry));
    let of_run = limits.loss_ns >= since_ns;
    let window = if of_run { "in this run".into() } else { last(limits.loss_ns) };
    Named { source, text: format!("{source}: {count} {fate} {window} ({kind})") }
}
