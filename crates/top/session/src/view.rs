//! The live view of a recorder: redrawn in place on a terminal, a line per second elsewhere.
//!
//! [`text`] and [`line`] are pure functions of two moments. [`View`] prints their results.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use catchment_console::{Out, Table};
use catchment_model::ledger::BAD_DATA;
use catchment_model::units::{Bytes, Count, grouped, percent_of};
use catchment_model::{Entry, SourceLedger, printable};
use catchment_recorder::{Counts, Fill, RecorderConfig, Snapshot, State};
use catchment_telemetry::{ThreadTime, cpu_shares};

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
    /// The moments of the last few seconds: rates are over these, since counts that move once per
    /// frame would jump otherwise.
    before: VecDeque<Moment>,
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
        Self { every, next: None, lines_drawn: 0, mode, before: VecDeque::new() }
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
        let is_old = |moment: &Moment| now.seconds - moment.seconds >= SMOOTH_SECONDS;
        while self.before.get(1).is_some_and(is_old) {
            self.before.pop_front();
        }
        // Rates need two moments.
        if let Some(before) = self.before.front() {
            match self.mode {
                Mode::Silent => {}
                Mode::Lines => out.line(line(before, &now))?,
                Mode::InPlace => {
                    let lines = text(subject, before, &now, out.colour);
                    self.lines_drawn = redraw(out, self.lines_drawn, &lines)?;
                }
            }
            out.flush()?;
        }
        self.before.push_back(now);
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
pub(crate) fn text(subject: &Subject, before: &Moment, now: &Moment, colour: bool) -> Vec<String> {
    let paint = Paint(colour);
    let rates = Rates::between(before, now);
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
        Count(rates.events),
        built(counts.events_complete, counts.events_incomplete, counts.events_recorded),
    ));
    if has_slices(counts) {
        let (complete, incomplete) = (counts.slices_complete, counts.slices_incomplete);
        lines.push(format!("  slices   {}", built(complete, incomplete, counts.slices_recorded)));
    }
    let files = now.snapshot.files.len();
    lines.push(format!(
        "  disk     {}/s   {} in {files} file{}   {}",
        Bytes(rates.disk_bytes as u64),
        Bytes(counts.bytes_written),
        if files == 1 { "" } else { "s" },
        now.snapshot.engine
    ));
    lines.push(String::new());
    lines.extend(group_table(subject, before, now, paint));
    lines.push(String::new());
    lines.extend(now.snapshot.fills.iter().map(|fill| fill_line(fill, paint)));
    lines.push(format!("  threads  {}", rates.threads()));
    let reasons = loss_reasons(&now.snapshot.ledger.total());
    if !reasons.is_empty() {
        lines.push(paint.red(&format!("  losses   {reasons}")));
    }
    for warning in now.snapshot.warnings.iter().chain(&trend_warnings(counts)) {
        lines.push(paint.yellow(&format!("  warning  {warning}")));
    }
    lines
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
pub(crate) fn line(before: &Moment, now: &Moment) -> String {
    let rates = Rates::between(before, now);
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
        Count(rates.events),
        grouped(counts.events_incomplete),
        grouped(counts.events_recorded),
        Bytes(rates.bytes_in as u64),
        Bytes(rates.disk_bytes as u64),
        grouped(balance.fragments_lost),
        grouped(balance.fragments_dropped + balance.packets_malformed),
        rates.threads(),
    )
}

/// The reasons of losses that happened, with their counts; empty if there was none.
pub fn loss_reasons(total: &SourceLedger) -> String {
    let mut reasons = Vec::new();
    let lost = total.balance().fragments_lost;
    if lost > 0 {
        reasons.push(format!("lost on the network {}", grouped(lost)));
    }
    for (entry, count) in total.iter().filter(|&(_, count)| count > 0) {
        if is_loss(entry) {
            reasons.push(format!("{entry} {}", grouped(count)));
        }
    }
    reasons.join(", ")
}

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
        || matches!(entry, Entry::PacketsDroppedByKernel | Entry::FragmentsRemoved)
}

struct Rates {
    events: f64,
    bytes_in: f64,
    disk_bytes: f64,
    threads: Vec<(String, f64)>,
}

impl Rates {
    fn between(before: &Moment, now: &Moment) -> Self {
        let seconds = (now.seconds - before.seconds).max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let events = |moment: &Moment| {
            moment.snapshot.counts.events_complete + moment.snapshot.counts.events_incomplete
        };
        let bytes_in = |m: &Moment| m.snapshot.ledger.total()[Entry::PacketBytesReceived];
        Self {
            events: rate(events(now), events(before)),
            bytes_in: rate(bytes_in(now), bytes_in(before)),
            disk_bytes: rate(
                now.snapshot.counts.bytes_written,
                before.snapshot.counts.bytes_written,
            ),
            threads: cpu_shares(&before.threads, &now.threads, seconds),
        }
    }

    fn threads(&self) -> String {
        let all = self.threads.iter().map(|(name, percent)| format!("{name} {percent:.0} %"));
        all.collect::<Vec<_>>().join("   ")
    }
}

fn group_table(subject: &Subject, before: &Moment, now: &Moment, paint: Paint) -> Vec<String> {
    let seconds = (now.seconds - before.seconds).max(1e-3);
    let head = ["group", "sources", "packets/s", "fragments/s", "MB/s", "lost", "dropped"];
    let mut table = Table::new(&head);
    let mut alarms = vec![false];
    let all =
        Group { name: "all".into(), sources: (0..now.snapshot.ledger.sources.len()).collect() };
    for group in subject.groups.iter().chain((subject.groups.len() > 1).then_some(&all)) {
        let (then, total) = (sum(before, group), sum(now, group));
        let delta = total.since(&then);
        let rate = |entry: Entry| delta[entry] as f64 / seconds;
        let balance = total.balance();
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
const SMOOTH_SECONDS: f64 = 2.0;

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
pub(crate) mod tests {
    use super::*;
    use catchment_model::Ledger;
    use catchment_recorder::{Alignment, Counts};

    pub(crate) fn moment(seconds: f64, packets: u64, cpu_ns: u64) -> Moment {
        let mut ledger = Ledger::new(3);
        for source in &mut ledger.sources {
            source[Entry::PacketsReceived] = packets;
            source[Entry::FragmentsReceived] = packets * 10;
            source[Entry::PacketBytesReceived] = packets * 1_000;
        }
        let counts = Counts { events_complete: packets * 10, ..Counts::default() };
        let fill = Fill { name: "segments".into(), level: 30, highest: 50, capacity: 100 };
        let snapshot = Snapshot {
            state: State::Recording,
            faults: 0,
            last_fault: None,
            ledger,
            counts,
            alignment: vec![Alignment::default(); 3],
            strangers: Default::default(),
            fills: vec![fill],
            threads: Vec::new(),
            files: Vec::new(),
            engine: "direct",
            warnings: vec!["small sockets".into()],
            lasting_warnings: 1,
            malformed: None,
            reasons: Default::default(),
        };
        Moment { seconds, snapshot, threads: vec![ThreadTime { name: "build".into(), cpu_ns }] }
    }

    fn subject() -> Subject {
        let group = |name: &str, sources| Group { name: name.into(), sources };
        Subject {
            name: "run-1".into(),
            groups: vec![group("small", vec![0, 1]), group("large", vec![2])],
            seconds_planned: Some(20.0),
        }
    }

    #[test]
    fn rates_are_those_between_two_moments() {
        let (before, now) = (moment(1.0, 100, 0), moment(1.5, 300, 100_000_000));
        let lines = text(&subject(), &before, &now, false);
        assert_eq!(lines[0], "run-1  recording  1.5 s of 20 s");
        let all = lines.join("\n");
        assert!(all.contains("  small        2        800"), "{all}");
        assert!(all.contains("  all          3"), "{all}");
        assert!(all.contains("build 20 %"), "{all}");
        assert!(
            all.contains("segments         [########----............]  30 %  highest  50 %"),
            "{all}"
        );
        assert!(all.contains("warning  small sockets"), "{all}");
        assert!(!all.contains("losses"), "{all}");
        assert!(line(&before, &now).starts_with("1.5 s  recording  4.00 k events/s  0 incomplete"));
    }

    #[test]
    fn a_loss_is_red_and_named() {
        let before = moment(1.0, 100, 0);
        let mut now = moment(2.0, 100, 0);
        now.snapshot.ledger.sources[2][Entry::FragmentsMissing] = 4;
        now.snapshot.state = State::Fault { reason: "no space left".into() };
        let all = text(&subject(), &before, &now, true).join("\n");
        assert!(all.contains("\x1b[31mFAULT: no space left\x1b[0m"), "{all}");
        assert!(all.contains("losses   lost on the network 4"), "{all}");
    }

    #[test]
    fn what_trends_lack_is_a_warning_and_no_loss() {
        let before = moment(1.0, 100, 0);
        let mut now = moment(2.0, 100, 0);
        assert!(trend_warnings(&now.snapshot.counts).is_empty());
        now.snapshot.counts.trend_samples_late = 1_600;
        now.snapshot.counts.trend_rows_lost = 7;
        let all = text(&subject(), &before, &now, false).join("\n");
        assert!(all.contains("warning  trends lack 1,600 samples that are recorded"), "{all}");
        assert!(all.contains("warning  trends lack 7 rows"), "{all}");
        assert!(!all.contains("losses"), "{all}");
    }

    #[test]
    fn colours_take_no_room_in_a_line_that_is_cut() {
        assert_eq!(cut("\x1b[31mabcdef\x1b[0mgh", 4), "\x1b[31mabcd\x1b[0m");
        assert_eq!(cut("abc", 4), "abc");
    }
}
