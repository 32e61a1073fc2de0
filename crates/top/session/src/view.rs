//! The live view of a recorder: redrawn in place on a terminal, a line per second elsewhere.
//!
//! [`text`] and [`line`] are pure functions of a moment and of the rates up to it. [`View`] prints
//! their results.

use std::io;
use std::time::{Duration, Instant};

use catchment_console::{Out, Table};
use catchment_model::ledger::BAD_DATA;
use catchment_model::units::{Bytes, Count, grouped, percent_of};
use catchment_model::{Entry, Ledger, SourceLedger, printable};
use catchment_recorder::{Counts, Fill, RecorderConfig, Snapshot, State};
use catchment_telemetry::{ThreadTime, cpu_shares};
use catchment_watch::Rates;

/// Sources that are shown as one line.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// Indices of its sources.
    pub(crate) sources: Vec<usize>,
}

/// The groups of a recorder's sources and links, in the order in which they first appear.
pub(crate) fn groups(config: &RecorderConfig) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let sources = config.sources.iter().map(|source| &source.group);
    let links = config.links.iter().map(|link| &link.group);
    for (index, name) in sources.chain(links).enumerate() {
        match groups.iter_mut().find(|group| group.name == *name) {
            Some(group) => group.sources.push(index),
            None => groups.push(Group { name: name.clone(), sources: vec![index] }),
        }
    }
    groups
}

/// A recorder at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// Since recording began.
    pub(crate) seconds: f64,
    pub(crate) snapshot: Snapshot,
    /// The recorder's threads and those beside it.
    pub(crate) threads: Vec<ThreadTime>,
}

/// The properties of a recording that do not change.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The run's folder name.
    pub(crate) name: String,
    pub(crate) groups: Vec<Group>,
    /// When it will end by itself.
    pub(crate) seconds_planned: Option<f64>,
}

/// A view and its output mode.
pub(crate) struct View {
    every: Duration,
    next: Option<Instant>,
    lines_drawn: usize,
    mode: Mode,
    pace: Pace,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    InPlace,
    Lines,
    Silent,
}

impl View {
    pub(crate) fn new(out: &Out) -> Self {
        let (mode, every) = match (out.json, out.terminal) {
            (true, _) => (Mode::Silent, Duration::from_secs(1)),
            (_, true) => (Mode::InPlace, Duration::from_millis(500)),
            (_, false) => (Mode::Lines, Duration::from_secs(1)),
        };
        Self { every, next: None, lines_drawn: 0, mode, pace: Pace::new() }
    }

    /// Whether it shows anything.
    pub(crate) fn is_shown(&self) -> bool {
        self.mode != Mode::Silent
    }

    /// Whether it shows each warning while it stands.
    pub(crate) fn shows_warnings(&self) -> bool {
        self.mode == Mode::InPlace
    }

    /// Whether it is time to show the next moment.
    pub(crate) fn due(&mut self, now: Instant) -> bool {
        let due = self.mode != Mode::Silent && self.next.is_none_or(|next| now >= next);
        if due {
            self.next = Some(now + self.every);
        }
        due
    }

    /// Shows a moment.
    pub(crate) fn show(&mut self, out: &mut Out, subject: &Subject, now: Moment) -> io::Result<()> {
        self.pace.push(&now);
        // Rates need two moments.
        if self.pace.counters.per_second(0).is_some() {
            match self.mode {
                Mode::Silent => {}
                Mode::Lines => out.line(line(&self.pace, &now))?,
                Mode::InPlace => {
                    let lines = text(subject, &self.pace, &now, out.colour);
                    self.lines_drawn = redraw(out, self.lines_drawn, &lines)?;
                }
            }
            out.flush()?;
        }
        Ok(())
    }
}

/// Writes lines over those drawn before: cut to the width, since a wrapped line would break the
/// count, and to the height, since a terminal does not scroll back.
fn redraw(out: &mut Out, drawn: usize, lines: &[String]) -> io::Result<usize> {
    let (width, height) = terminal_size();
    let shown = lines.len().min(height.saturating_sub(1));
    let mut frame = String::new();
    if drawn > 0 {
        frame += &format!("\x1b[{drawn}A\r");
    }
    for line in &lines[..shown] {
        frame += &cut(line, width);
        frame += "\x1b[0m\x1b[K\n";
    }
    frame += "\x1b[J";
    out.bytes(frame.as_bytes())?;
    Ok(shown)
}

/// The first `width` visible characters; colour codes take no room.
fn cut(line: &str, width: usize) -> String {
    let mut text = String::with_capacity(line.len());
    let (mut seen, mut in_code) = (0, false);
    for c in line.chars() {
        if c == '\x1b' {
            in_code = true;
        } else if !in_code {
            seen += 1;
        }
        if in_code || seen <= width {
            text.push(c);
        }
        if in_code && c == 'm' {
            in_code = false;
        }
    }
    text
}

fn terminal_size() -> (usize, usize) {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, to which the pointer is valid.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    if result == 0 && size.ws_col > 0 && size.ws_row > 1 {
        (usize::from(size.ws_col), usize::from(size.ws_row))
    } else {
        (80, 24)
    }
}

/// The view, line by line.
pub(crate) fn text(subject: &Subject, pace: &Pace, now: &Moment, colour: bool) -> Vec<String> {
    let paint = Paint(colour);
    let planned = subject.seconds_planned.map_or(String::new(), |all| format!(" of {all:.0} s"));
    let mut lines = vec![format!(
        "{}  {}  {:.1} s{planned}",
        paint.bold(&subject.name),
        state(&now.snapshot.state, paint),
        now.seconds
    )];
    let counts = &now.snapshot.counts;
    let built = |complete: u64, incomplete: u64, recorded: u64| {
        let text = format!("{} incomplete", grouped(incomplete));
        let text = if incomplete > 0 { paint.red(&text) } else { text };
        format!("{} complete   {text}   {} on disk", grouped(complete), grouped(recorded))
    };
    lines.push(format!(
        "  events   {}/s   {}",
        Count(pace.of(EVENTS)),
        built(counts.events_complete, counts.events_incomplete, counts.events_recorded),
    ));
    if has_slices(counts) {
        let (complete, incomplete) = (counts.slices_complete, counts.slices_incomplete);
        lines.push(format!("  slices   {}", built(complete, incomplete, counts.slices_recorded)));
    }
    let files = now.snapshot.files.len();
    lines.push(format!(
        "  disk     {}/s   {} in {files} file{}   {}",
        Bytes(pace.of(DISK_BYTES) as u64),
        Bytes(counts.bytes_written),
        if files == 1 { "" } else { "s" },
        now.snapshot.engine
    ));
    lines.push(String::new());
    lines.extend(group_table(subject, pace, now, paint));
    lines.push(String::new());
    lines.extend(now.snapshot.fills.iter().map(|fill| fill_line(fill, paint)));
    lines.push(format!("  threads  {}", pace.threads(now)));
    let reasons = loss_reasons(&now.snapshot.ledger);
    if !reasons.is_empty() {
        lines.push(paint.red(&format!("  losses   {reasons}")));
    }
    for warning in warnings(&now.snapshot) {
        lines.push(paint.yellow(&format!("  warning  {warning}")));
    }
    lines
}

/// All warnings of a run, those that are past and of trends included.
pub(crate) fn warnings(of: &Snapshot) -> Vec<String> {
    let past = of.past_warnings.iter().map(ToString::to_string);
    of.warnings.iter().cloned().chain(past).chain(trend_warnings(&of.counts)).collect()
}

/// Warnings about incomplete trends. The data are recorded anyway, and trends can be recomputed.
pub(crate) fn trend_warnings(counts: &Counts) -> Vec<String> {
    let mut warnings = Vec::new();
    if counts.trend_samples_late > 0 {
        warnings.push(format!(
            "trends lack {} samples that are recorded: they came after their second was written, \
             their clock was far ahead, or the trends' disk was too slow",
            grouped(counts.trend_samples_late)
        ));
    }
    if counts.trend_rows_lost > 0 {
        warnings.push(format!(
            "trends lack {} rows: the disk refused them for too long",
            grouped(counts.trend_rows_lost)
        ));
    }
    warnings
}

/// Whether links have sent data.
pub(crate) fn has_slices(counts: &Counts) -> bool {
    counts.slices_complete + counts.slices_incomplete > 0
}

/// The same in one line.
pub(crate) fn line(pace: &Pace, now: &Moment) -> String {
    let counts = &now.snapshot.counts;
    let balance = now.snapshot.ledger.balance();
    let memory = now.snapshot.fills.first().map_or(0, percent_now);
    let slices = match has_slices(counts) {
        true => format!("  {} slices on disk", grouped(counts.slices_recorded)),
        false => String::new(),
    };
    format!(
        "{:.1} s  {}  {} events/s  {} incomplete  {} on disk{slices}  {}/s in  {}/s to disk  {} lost  {} dropped  \
         memory {memory} %  {}",
        now.seconds,
        state(&now.snapshot.state, Paint(false)),
        Count(pace.of(EVENTS)),
        grouped(counts.events_incomplete),
        grouped(counts.events_recorded),
        Bytes(pace.of_sources(&all_sources(now), Entry::PacketBytesReceived) as u64),
        Bytes(pace.of(DISK_BYTES) as u64),
        grouped(balance.fragments_lost),
        grouped(balance.fragments_dropped + balance.packets_malformed),
        pace.threads(now),
    )
}

/// The reasons of losses that happened, with their counts; empty if there was none. The network
/// lost what is a gap in the numbers of packets. Of what else events lack, front-ends say why;
/// where none does, it is *missing*: not sent, lost, or recorded beside the events.
pub fn loss_reasons(ledger: &Ledger) -> String {
    let total = ledger.total();
    // Counts may come from a damaged file: they saturate.
    let add = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count);
    let (mut never_came, mut missing, mut alone) = ([0; NEVER_CAME.len()], 0, 0);
    for source in &ledger.sources {
        let mut lost = source.balance().fragments_lost;
        for (sum, entry) in never_came.iter_mut().zip(NEVER_CAME) {
            let count = source[entry].min(lost);
            lost -= count;
            add(sum, count);
        }
        add(&mut missing, lost);
        add(&mut alone, source[Entry::FragmentsUnmatched].min(lost));
    }
    let never_came = NEVER_CAME.into_iter().zip(never_came).filter(|&(_, count)| count > 0);
    let mut reasons: Vec<String> =
        never_came.map(|(entry, count)| format!("{entry} {}", grouped(count))).collect();
    if total[Entry::PacketsMissing] > 0 {
        let packets = grouped(total[Entry::PacketsMissing]);
        reasons.push(format!("packets lost on the network {packets}"));
    }
    if missing > 0 {
        let beside = match alone {
            0 => String::new(),
            alone => format!(" (up to {} are recorded, in rows of their own)", grouped(alone)),
        };
        reasons.push(format!("missing from events {}{beside}", grouped(missing)));
    }
    for (entry, count) in total.iter().filter(|&(_, count)| count > 0) {
        if is_loss(entry) {
            reasons.push(format!("{entry} {}", grouped(count)));
        }
    }
    reasons.join(", ")
}

/// Why fragments of front-ends are missing that never came.
const NEVER_CAME: [Entry; 5] = [
    Entry::FragmentsAbandoned,
    Entry::FragmentsLostSender,
    Entry::FragmentsLostRestart,
    Entry::FragmentsLostTaken,
    Entry::FragmentsNotSent,
];

/// What is bad of the recorded data, with counts; empty if nothing is.
pub fn bad_reasons(total: &SourceLedger) -> String {
    let bad = BAD_DATA.iter().filter(|&&entry| total[entry] > 0);
    let reasons = bad.map(|&entry| format!("{entry} {}", grouped(total[entry])));
    reasons.collect::<Vec<_>>().join(", ")
}

/// Whether an entry counts a loss that is reported.
pub(crate) fn is_loss(entry: Entry) -> bool {
    use catchment_model::ledger::Role;
    matches!(entry.role(), Role::PacketsLost | Role::FragmentsLost)
        || matches!(
            entry,
            Entry::PacketsDroppedByKernel | Entry::FragmentsRemoved | Entry::FragmentsUnconfirmed
        )
}

/// Rates over the last seconds, since counts that move once per frame would jump otherwise.
pub(crate) struct Pace {
    counters: Rates,
    threads: Rates,
    /// All threads that there were, and the time that each has spent: those of the emulator end
    /// before the others.
    spent: Vec<(String, u64)>,
}

impl Pace {
    fn new() -> Self {
        let (counters, threads) = (Rates::new(SMOOTH_NS), Rates::new(SMOOTH_NS));
        Self { counters, threads, spent: Vec::new() }
    }

    fn push(&mut self, now: &Moment) {
        let now_ns = (now.seconds * 1e9) as u64;
        let counts = &now.snapshot.counts;
        let mut counters =
            vec![counts.events_complete + counts.events_incomplete, counts.bytes_written];
        let sources = now.snapshot.ledger.sources.iter();
        counters.extend(sources.flat_map(|source| source.iter().map(|(_, count)| count)));
        self.counters.push(now_ns, &counters);
        for thread in &now.threads {
            match self.spent.iter_mut().find(|(name, _)| *name == thread.name) {
                Some((_, cpu_ns)) => *cpu_ns = thread.cpu_ns,
                None => self.spent.push((thread.name.clone(), thread.cpu_ns)),
            }
        }
        let cpu_ns: Vec<u64> = self.spent.iter().map(|(_, cpu_ns)| *cpu_ns).collect();
        self.threads.push(now_ns, &cpu_ns);
    }

    /// How much a counter grew per second.
    fn of(&self, counter: usize) -> f64 {
        self.counters.per_second(counter).unwrap_or(0.0)
    }

    /// The same of a counter of several sources together.
    fn of_sources(&self, sources: &[usize], entry: Entry) -> f64 {
        let counter = |source| FIRST_SOURCE + Entry::COUNT * source + entry as usize;
        sources.iter().map(|&source| self.of(counter(source))).sum()
    }

    fn threads(&self, now: &Moment) -> String {
        let mut spent = now.threads.clone();
        for thread in &mut spent {
            let index = self.spent.iter().position(|(name, _)| *name == thread.name);
            let per_second = index.and_then(|index| self.threads.per_second(index));
            thread.cpu_ns = per_second.unwrap_or(0.0) as u64;
        }
        let all = cpu_shares(&[], &spent, 1.0).into_iter();
        let all = all.map(|(name, percent)| format!("{name} {percent:.0} %"));
        all.collect::<Vec<_>>().join("   ")
    }
}

fn group_table(subject: &Subject, pace: &Pace, now: &Moment, paint: Paint) -> Vec<String> {
    let head = ["group", "sources", "packets/s", "fragments/s", "MB/s", "lost", "dropped"];
    let mut table = Table::new(&head);
    let mut alarms = vec![false];
    let all = Group { name: "all".into(), sources: all_sources(now) };
    for group in subject.groups.iter().chain((subject.groups.len() > 1).then_some(&all)) {
        let rate = |entry| pace.of_sources(&group.sources, entry);
        let balance = sum(now, group).balance();
        let lost = balance.fragments_lost;
        let dropped = balance.fragments_dropped + balance.packets_malformed;
        alarms.push(lost + dropped > 0);
        table.row([
            group.name.clone(),
            group.sources.len().to_string(),
            Count(rate(Entry::PacketsReceived).round()).to_string(),
            Count(rate(Entry::FragmentsReceived).round()).to_string(),
            format!("{:.1}", rate(Entry::PacketBytesReceived) / 1e6),
            grouped(lost),
            grouped(dropped),
        ]);
    }
    let lines = table.lines().into_iter().zip(alarms);
    lines.map(|(line, alarm)| if alarm { paint.red(&line) } else { line }).collect()
}

fn all_sources(now: &Moment) -> Vec<usize> {
    (0..now.snapshot.ledger.sources.len()).collect()
}

fn sum(moment: &Moment, group: &Group) -> SourceLedger {
    let mut total = SourceLedger::default();
    for &source in &group.sources {
        if let Some(ledger) = moment.snapshot.ledger.sources.get(source) {
            total.add(ledger);
        }
    }
    total
}

fn state(state: &State, paint: Paint) -> String {
    match state {
        State::Recording => paint.green("recording"),
        State::Stopped => "stopped".into(),
        State::Fault { reason } => paint.red(&format!("FAULT: {reason}")),
    }
}

fn fill_line(fill: &Fill, paint: Paint) -> String {
    const CELLS: usize = 24;
    let (now, highest) = (percent_now(fill), percent_of(fill.highest, fill.capacity));
    let cell = |percent: u64| (percent as usize * CELLS).div_ceil(100).min(CELLS);
    let bar: String = (0..CELLS)
        .map(|index| match index {
            index if index < cell(now) => '#',
            index if index < cell(highest) => '-',
            _ => '.',
        })
        .collect();
    let bar = match now {
        90.. => paint.red(&bar),
        60.. => paint.yellow(&bar),
        _ => bar,
    };
    format!(
        "  {:<16} [{bar}] {now:>3} %  highest {highest:>3} %  of {}",
        fill.name,
        Bytes(fill.capacity)
    )
}

fn percent_now(fill: &Fill) -> u64 {
    percent_of(fill.level, fill.capacity)
}

/// Rates are averaged over at least this time, once recording has lasted that long.
const SMOOTH_NS: u64 = 2_000_000_000;
/// The first counters of a [`Pace`]; behind them come all entries of each source.
const EVENTS: usize = 0;
const DISK_BYTES: usize = 1;
const FIRST_SOURCE: usize = 2;

#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn code(self, code: u8, text: &str) -> String {
        // The view is drawn as bytes, so that its own codes pass.
        let text = printable(text);
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.code(1, text)
    }

    fn red(self, text: &str) -> String {
        self.code(31, text)
    }

    fn green(self, text: &str) -> String {
        self.code(32, text)
    }

    fn yellow(self, text: &str) -> String {
        self.code(33, text)
    }
}

#[cfg(test)]
pub(crate) mod tests;
