//! One run of a node that this program alone controls, with the view on the terminal: what `run`
//! and `demo` do.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use catchment_config::High;
use catchment_console::{Out, Stop, complain};
use catchment_control::{Configuration, Ended, Node, OpenRun, Settings};
use catchment_emulator::EmulatorReport;
use catchment_model::units::{Bytes, counted};
use catchment_model::{Balance, SourceId};
use catchment_recorder::{RecorderConfig, RunSummary, Snapshot, State};
use catchment_telemetry::cpu_shares;

use crate::view::{Moment, Subject, View, groups, trend_warnings};

/// When a recording ends, whatever comes first; a stop signal always does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// After so many seconds.
    pub seconds: Option<f64>,
    /// After so many built events.
    pub events: Option<u64>,
}

/// What a recording became.
#[derive(Debug)]
pub struct Recording {
    /// The run's number; 0 if it could not get one.
    pub number: u64,
    /// What was recorded.
    pub summary: RunSummary,
    /// The sources' names.
    names: Vec<String>,
    /// The socket buffers, in bytes.
    pub(crate) sockets: Sockets,
    /// What the emulator of its sources sent.
    pub(crate) sent: Option<EmulatorReport>,
    /// Whether something beside the recorder did not end in order, such as the emulator.
    pub(crate) failed: bool,
    /// From the start until the sources stopped or were left.
    pub seconds: f64,
    /// Each thread's share of one CPU over that time, in percent.
    pub(crate) busy: Vec<(String, f64)>,
}

/// Bytes that each source's socket can hold.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Sockets {
    /// The smallest that the system granted.
    pub(crate) granted_bytes_min: usize,
    /// What was asked for.
    pub(crate) asked_bytes: usize,
}

impl Ends {
    /// Whether a run that began then is to end now.
    pub fn reached(self, start: Instant, events: impl FnOnce() -> u64) -> bool {
        self.seconds.is_some_and(|seconds| start.elapsed().as_secs_f64() >= seconds)
            || self.events.is_some_and(|count| events() >= count)
    }
}

impl Recording {
    /// A source's name.
    pub(crate) fn source_name(&self, source: SourceId) -> String {
        let name = self.names.get(source.0 as usize);
        name.cloned().unwrap_or_else(|| format!("source {}", source.0))
    }

    /// The ledger of the whole run.
    pub(crate) fn balance(&self) -> Balance {
        self.summary.last.ledger.balance()
    }

    /// Whether anything was lost on the way from the sources to the files: what an audit of these
    /// would say, or that files could not be written to the end.
    pub(crate) fn lost(&self) -> bool {
        self.balance().lost_data() || fault(&self.summary.last.state).is_some()
    }

    /// Whether some of what was recorded is bad.
    pub fn has_bad_data(&self) -> bool {
        self.summary.last.ledger.bad_data() > 0
    }
}

/// The first run of a node that this program starts and ends.
pub struct Session<'a> {
    /// What it records.
    pub config: &'a RecorderConfig,
    /// The run number that the configuration asks for.
    pub number: Option<u64>,
    /// When it ends.
    pub ends: Ends,
    /// How long it will take, if that is known.
    pub seconds_planned: Option<f64>,
    /// Ends the recording when it is set.
    pub stop: &'a Stop,
}

impl Session<'_> {
    /// Follows the run until an end is reached, and ends the node.
    ///
    /// # Errors
    /// The run could not begin, or did not end in order.
    pub fn follow(self, mut node: Node, out: &mut Out) -> anyhow::Result<Recording> {
        let Self { config, number: wanted, ends, seconds_planned, stop } = self;
        let Some(run) = begun(&mut node, config, stop, out)? else {
            anyhow::bail!("stopped before the run began");
        };
        if let Some(wanted) = wanted.filter(|&wanted| wanted != run.number) {
            let number = run.number;
            complain(format_args!(
                "this is run {number}: run.number = {wanted} is not above the highest number \
                 used so far"
            ));
        }
        let mut trouble = node.catalog_trouble().inspect(|trouble| complain_of(trouble));
        let asked_bytes = config.receive.socket_buffer_bytes;
        let sockets = Sockets { granted_bytes_min: run.granted_bytes_min, asked_bytes };
        let mut view = View::new(out);
        let mut warnings = WarningLines::default();
        if view.is_shown() {
            announce(config, &run, sockets, out)?;
            warnings.announced(config, &run.observer.snapshot());
        }
        let name = run.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let subject = Subject { name, groups: groups(config), seconds_planned };
        let start = Instant::now();
        let moment = |node: &Node| {
            let snapshot = run.observer.snapshot();
            let mut threads = snapshot.threads.clone();
            threads.extend(node.emulator_threads());
            Moment { seconds: start.elapsed().as_secs_f64(), snapshot, threads }
        };
        let first = moment(&node);
        let events = || {
            let counts = run.observer.snapshot().counts;
            counts.events_complete + counts.events_incomplete
        };
        let mut faults = FaultLines::default();
        let over = |node: &Node| node.emulation_ended() || node.open_run().is_none();
        while !(stop.asked() || ends.reached(start, events) || over(&node)) {
            if trouble.is_none() {
                trouble = node.catalog_trouble().inspect(|trouble| complain_of(trouble));
            }
            if view.due(Instant::now()) {
                view.show(out, &subject, moment(&node))?;
            }
            if !view.shows_warnings() && faults.due(Instant::now()) {
                let snapshot = run.observer.snapshot();
                faults.line(&snapshot).filter(|_| !view.is_shown()).into_iter().for_each(complain);
                warnings.lines(&snapshot).into_iter().for_each(complain);
            }
            std::thread::sleep(POLL);
        }
        let last = moment(&node);
        let seconds = last.seconds - first.seconds;
        let busy = cpu_shares(&first.threads, &last.threads, seconds);
        let Ended { last: ended, sent, failed, catalog_trouble, .. } = node.wait();
        let Some((number, summary)) = ended else {
            anyhow::bail!(failed.unwrap_or_else(|| "the recorder did not stop in order".into()));
        };
        if !view.is_shown() {
            faults.line(&summary.last).into_iter().for_each(complain);
            warnings.lines(&summary.last).into_iter().for_each(complain);
        }
        let (snapshot, threads) = (summary.last.clone(), summary.last.threads.clone());
        let at_end = Moment { seconds: start.elapsed().as_secs_f64(), snapshot, threads };
        view.show(out, &subject, at_end)?;
        complain_of_end(failed.as_deref(), catalog_trouble.filter(|_| trouble.is_none()));
        let failed = failed.is_some();
        let sources = config.sources.iter().map(|source| source.name.clone());
        let names = sources.chain(config.links.iter().map(|link| link.name.clone())).collect();
        Ok(Recording { number, summary, names, sockets, sent, failed, seconds, busy })
    }
}

/// Waits until the first run has begun, and says what it waits for; `None` if it is to stop before.
fn begun(
    node: &mut Node,
    config: &RecorderConfig,
    stop: &Stop,
    out: &mut Out,
) -> anyhow::Result<Option<OpenRun>> {
    out.say(format_args!("Making {} of memory ready.", Bytes(config.bytes_made_ready())))?;
    out.flush()?;
    let cannot = || format!("cannot start recording to {}", config.folder.display());
    while !stop.asked() {
        match node.first_run() {
            Some(Ok(())) => return Ok(node.open_run()),
            Some(Err(why)) => return Err(anyhow::Error::msg(why).context(cannot())),
            None => std::thread::sleep(POLL),
        }
    }
    Ok(None)
}

/// Lines on stderr about faults where no view shows them: one when a fault begins, and one when it
/// is over, or one for both where it was shorter than from one look to the next.
#[derive(Debug, Default)]
struct FaultLines {
    next: Option<Instant>,
    in_fault: bool,
    faults: u64,
}

impl FaultLines {
    /// Whether it is time to look.
    fn due(&mut self, now: Instant) -> bool {
        let due = self.next.is_none_or(|next| now >= next);
        if due {
            self.next = Some(now + FAULT_LOOK);
        }
        due
    }

    /// What is new of the recorder as it is now.
    fn line(&mut self, now: &Snapshot) -> Option<String> {
        let was_in_fault = std::mem::replace(&mut self.in_fault, fault(&now.state).is_some());
        let before = std::mem::replace(&mut self.faults, now.faults);
        let new = now.faults.saturating_sub(before);
        let several = match new {
            0 | 1 => String::new(),
            new => format!(" ({new} faults since the last line)"),
        };
        match (&now.state, now.last_fault.as_deref().filter(|_| new > 0)) {
            (State::Fault { .. }, Some(reason)) => Some(format!(
                "fault: {reason}; data are discarded and counted until it is over{several}"
            )),
            (State::Recording, Some(reason)) => {
                Some(format!("fault: {reason}; it is over: data are recorded again{several}"))
            }
            (State::Stopped, Some(reason)) => Some(format!("fault: {reason}{several}")),
            (State::Recording, None) if was_in_fault => {
                Some("the fault is over: data are recorded again".to_owned())
            }
            (_, None) => None,
        }
    }
}

/// Lines on stderr about warnings where no view shows them: one for each, when it appears. One
/// whose counts grow is the same.
#[derive(Debug, Default)]
struct WarningLines {
    said: HashSet<String>,
    /// How many of those that count had a line.
    counting: usize,
}

impl WarningLines {
    /// These were announced when the run began.
    fn announced(&mut self, config: &RecorderConfig, begun: &Snapshot) {
        self.said.extend(config.lowered().into_iter().chain(config.warnings()));
        // What is available was another figure then.
        let said = begun.warnings.iter().filter(|text| text.starts_with("memory.budget: "));
        self.said.extend(said.cloned());
    }

    /// What is new of the recorder as it is now.
    fn lines(&mut self, now: &Snapshot) -> Vec<String> {
        let (lasting, counting) = now.warnings.split_at(now.lasting_warnings);
        let trends = trend_warnings(&now.counts);
        let counting = counting.iter().chain(&trends).map(|text| (text, without_counts(text)));
        let mut new: Vec<&String> =
            lasting.iter().filter(|text| self.said.insert((*text).clone())).collect();
        for (text, kept) in counting {
            // Senders without end cannot fill memory, nor the terminal.
            if self.counting < COUNTING_LINES_MAX && self.said.insert(kept) {
                self.counting += 1;
                new.push(text);
            }
        }
        new.into_iter().map(|text| format!("warning: {text}")).collect()
    }
}

/// A text without the words that are counts.
fn without_counts(text: &str) -> String {
    let is_count = |word: &&str| {
        let word = word.trim_start_matches('(');
        !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == ',')
    };
    let words = text.split(' ').filter(|word| !is_count(word));
    // One packet, several packets.
    words.map(|word| word.trim_end_matches([')', 's'])).collect::<Vec<_>>().join(" ")
}

/// Reports once that the catalogue lacks the run for now.
fn complain_of(trouble: &str) {
    complain(format_args!(
        "recording goes on without the catalogue of runs: {trouble}; the run is entered when the \
         catalogue can be opened again"
    ));
}

/// Reports what did not end in order, and that the catalogue lacks the end of the run if no problem
/// of the catalogue was reported before.
fn complain_of_end(failed: Option<&str>, trouble: Option<String>) {
    if let Some(why) = failed {
        complain(format_args!("not everything ended in order: {why}"));
    }
    if let Some(trouble) = trouble {
        complain(format_args!(
            "the run was recorded, but the catalogue of runs lacks its end: {trouble}; it is \
             entered when the catalogue can be opened again"
        ));
    }
}

/// Prints what is recorded, and which settings of the configuration were reduced.
fn announce(
    config: &RecorderConfig,
    run: &OpenRun,
    sockets: Sockets,
    out: &mut Out,
) -> std::io::Result<()> {
    let senders = config.sources.len() + config.links.len();
    let channels = config.links.iter().map(|link| link.channels.len()).sum();
    let (what, folder) = (senders_and_channels(senders, channels), run.folder.display());
    if run.epoch > 0 {
        let number = run.number;
        out.say(format_args!("Run {number} goes on after its recorder's death."))?;
    }
    out.say(format_args!("Recording {what} to {folder}; Ctrl-C ends it in order."))?;
    if sockets.granted_bytes_min > 0 {
        let least = Bytes(sockets.granted_bytes_min as u64);
        let asked = Bytes(sockets.asked_bytes as u64);
        out.say(format_args!("Socket buffers of at least {least} each, {asked} asked for."))?;
    }
    if let Some(trains) = config.trains_held() {
        out.say(trains)?;
    }
    for address in &run.listeners {
        out.say(format_args!("Front-ends connect to {address}."))?;
    }
    for lowered in config.lowered() {
        out.say(format_args!("Lowered: {lowered}."))?;
    }
    for warning in config.warnings() {
        out.say(format_args!("Warning: {warning}."))?;
    }
    out.flush()
}

/// What is recorded, in words.
fn senders_and_channels(senders: usize, channels: usize) -> String {
    if channels == 0 {
        return counted(senders as u64, "source");
    }
    // One alone that brings channels is a link.
    let senders =
        if senders == 1 { "1 link".into() } else { format!("{senders} sources and links") };
    format!("{senders}, {},", counted(channels as u64, "channel"))
}

/// A time in seconds, of at least a millisecond.
///
/// # Errors
/// What was expected.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (1e-3..=1e7).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds such as 20 or 0.5".into()),
    }
}

/// The settings of a node that this program alone controls.
pub fn own_settings(listen: Option<SocketAddr>) -> Settings {
    Settings { who: who(), drain: DRAIN, read_only: true, ..Settings::new(listen) }
}

/// The part of a checked configuration that a node needs.
pub fn configuration(high: High, emulate: bool) -> Configuration {
    let High { recorder, number, resume_ns, emulator, link_emulator, control, rules, .. } = high;
    let emulate = emulate || control.as_ref().is_some_and(|control| control.emulate);
    let (emulator, link_emulator) =
        (emulator.filter(|_| emulate), link_emulator.filter(|_| emulate));
    let control = control.map(|control| format!("{control:?}")).unwrap_or_default();
    let store = None;
    Configuration { number, resume_ns, recorder, emulator, link_emulator, store, rules, control }
}

/// Whether a recorder's last state is one to worry about.
pub(crate) fn fault(state: &State) -> Option<&str> {
    match state {
        State::Fault { reason } => Some(reason),
        State::Recording | State::Stopped => None,
    }
}

/// The user who runs this program.
pub fn who() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| {
        // SAFETY: it takes nothing and always succeeds.
        format!("user {}", unsafe { libc::getuid() })
    });
    name.chars().filter(|c| !c.is_control()).take(WHO_CHARS_MAX).collect()
}

/// How often the ends are looked at.
const POLL: Duration = Duration::from_millis(20);
/// Warnings with counts that have lines on stderr.
const COUNTING_LINES_MAX: usize = 1_000;
/// How often faults and warnings are looked at where no view shows them.
const FAULT_LOOK: Duration = Duration::from_millis(500);
/// What fits into [`catchment_catalog::WHO_BYTES_MAX`] in any script.
const WHO_CHARS_MAX: usize = catchment_catalog::WHO_BYTES_MAX / 4;

/// Time limit of the end of a run: the user is present and can end the program at once.
const DRAIN: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_a_line_when_it_begins_and_when_it_is_over_and_not_between() {
        let mut snapshot = crate::view::tests::moment(0.0, 0, 0).snapshot;
        let mut lines = FaultLines::default();
        let mut line = |state: State, faults| {
            if let State::Fault { reason } = &state {
                snapshot.last_fault = Some(reason.clone());
            }
            (snapshot.state, snapshot.faults) = (state, faults);
            lines.line(&snapshot)
        };
        let fault = |reason: &str| State::Fault { reason: reason.into() };
        assert_eq!(line(State::Recording, 0), None);
        let begun = "fault: disk full; data are discarded and counted until it is over";
        assert_eq!(line(fault("disk full"), 1).as_deref(), Some(begun));
        assert_eq!(line(fault("1 MB free"), 1), None);
        let over = "the fault is over: data are recorded again";
        assert_eq!(line(State::Recording, 1).as_deref(), Some(over));
        assert_eq!(line(State::Stopped, 1), None);
    }

    #[test]
    fn a_fault_that_is_over_at_the_next_look_has_a_line_too() {
        let mut snapshot = crate::view::tests::moment(0.0, 0, 0).snapshot;
        let mut lines = FaultLines::default();
        snapshot.last_fault = Some("x-00001.catch was removed".into());
        snapshot.faults = 1;
        let over = "fault: x-00001.catch was removed; it is over: data are recorded again";
        assert_eq!(lines.line(&snapshot).as_deref(), Some(over));
        assert_eq!(lines.line(&snapshot), None);
        snapshot.faults = 3;
        let both = format!("{over} (2 faults since the last line)");
        assert_eq!(lines.line(&snapshot), Some(both));
        (snapshot.faults, snapshot.state) = (4, State::Stopped);
        let last = "fault: x-00001.catch was removed";
        assert_eq!(lines.line(&snapshot).as_deref(), Some(last));
    }
    #[test]
    fn a_warning_has_a_line_when_it_appears_and_none_when_its_count_grows() {
        let mut snapshot = crate::view::tests::moment(0.0, 0, 0).snapshot;
        let mut lines = WarningLines::default();
        let mut lines = |lasting: &[&str], counting: &[&str], rows_lost| {
            snapshot.warnings = [lasting, counting].concat().iter().map(|w| (*w).into()).collect();
            snapshot.lasting_warnings = lasting.len();
            snapshot.counts.trend_rows_lost = rows_lost;
            lines.lines(&snapshot)
        };
        let [first, second] = ["x-00001.catch was truncated", "jumped ahead by 500, from key 7"];
        assert_eq!(lines(&[first], &[], 0), [format!("warning: {first}")]);
        let refused = "source s0: 1 packet from 10.0.0.9 refused";
        let expected = [format!("warning: {second}"), format!("warning: {refused}")];
        assert_eq!(lines(&[first, second], &[refused], 0), expected);
        let stranger = "packets from 10.0.0.9:5000 do not belong to s0 (1 fragment)";
        let refused = "source s0: 1,234 packets from 10.0.0.9 refused";
        let new = lines(&[first, second], &[refused, stranger], 3);
        assert_eq!(new.len(), 2, "{new:?}");
        assert!(new[0].contains("do not belong") && new[1].contains("lack 3 rows"), "{new:?}");
        let stranger = "packets from 10.0.0.9:5000 do not belong to s0 (1,000 fragments)";
        assert!(lines(&[first, second], &[refused, stranger], 4_000).is_empty());
        // The next file, and the next jump, are others.
        let [third, fourth] = ["x-00002.catch was truncated", "jumped ahead by 501, from key 9"];
        assert_eq!(lines(&[first, second, third, fourth], &[refused, stranger], 4_001).len(), 2);
    }
}
