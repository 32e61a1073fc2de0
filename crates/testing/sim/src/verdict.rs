//! The verdict on a run, as the node shows it: looked at twice a second, by the node's own code,
//! and compared with the ledger and with what was sent.

use catchment_builder::SourceRole;
use catchment_model::{Balance, Entry, Ledger, SourceLedger};
use catchment_recorder::{RecorderConfig, Snapshot, SourceConfig, State};
use catchment_watch::{Level, Limits, Run, RunCounts, RunSeen, RunWatch, SourceFlow, Verdict};

use crate::plan::{MS, S};

/// Times between two looks.
pub const LOOK_EVERY_NS: u64 = 500 * MS;

/// Watches a recorder.
#[derive(Debug)]
pub(crate) struct Watcher {
    watch: RunWatch,
    limits: Limits,
    /// The sources and links: their names, and whether they are required.
    sources: Vec<(String, bool)>,
    began_ns: u64,
    /// When what the ledger has of losses and of bad data has changed.
    lost: (u64, Option<u64>),
    bad: (u64, Option<u64>),
    /// By source: packets, and when their number has changed since the first look.
    heard: Vec<(Option<u64>, u64)>,
}

impl Watcher {
    /// Watches a recorder with that configuration, which begins now.
    pub(crate) fn new(config: &RecorderConfig, now_ns: u64) -> Self {
        let of_source = |one: &SourceConfig| (one.name.clone(), one.role == SourceRole::Required);
        let links = config.links.iter().map(|link| (link.name.clone(), true));
        let sources: Vec<_> = config.sources.iter().map(of_source).chain(links).collect();
        let frame_ns = match config.links.is_empty() {
            true => config.frame.time_ns,
            false => config.frame.time_ns.max(config.frame.duration_ns),
        };
        Self {
            watch: RunWatch::default(),
            limits: Limits::of_frames(frame_ns),
            began_ns: now_ns,
            lost: (0, None),
            bad: (0, None),
            heard: vec![(None, now_ns); sources.len()],
            sources,
        }
    }

    /// Looks at the recorder of a run that records, or is paused; or else, of one that has not
    /// begun or is ending, counts only. `is_held` says of a source that nobody reads it.
    ///
    /// # Errors
    /// A verdict that must not be.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        snapshot: &Snapshot,
        is_paused: Option<bool>,
        is_held: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        let Some(is_paused) = is_paused else {
            self.count(now_ns, snapshot, false);
            return Ok(());
        };
        self.count(now_ns, snapshot, is_paused);
        let verdict = self.verdict(now_ns, snapshot, is_paused);
        self.check(now_ns, snapshot, &verdict, is_held)
    }

    /// The verdict when all has been written, as if the run went on.
    ///
    /// # Errors
    /// As [`Watcher::look`].
    pub(crate) fn last(&mut self, now_ns: u64, snapshot: &Snapshot) -> Result<Level, String> {
        self.count(now_ns, snapshot, false);
        let verdict = self.verdict(now_ns, snapshot, false);
        self.check(now_ns, snapshot, &verdict, |_| false)?;
        Ok(verdict.level)
    }

    fn count(&mut self, now_ns: u64, snapshot: &Snapshot, is_paused: bool) {
        let (counts, ledger) = (&snapshot.counts, &snapshot.ledger);
        let built = counts.events_complete + counts.events_incomplete;
        let slices = counts.slices_complete + counts.slices_incomplete;
        self.watch.count(
            now_ns,
            &RunCounts {
                ledger,
                built: if built > 0 { built } else { slices },
                recorded: counts.events_recorded + counts.slices_recorded,
                bytes_written: counts.bytes_written,
                writes: (counts.writes_begun, counts.writes_completed),
                of_strangers: &[],
            },
        );
        self.watch.note_paused(now_ns, is_paused);
        for (what, counted) in [(&mut self.lost, lost(ledger)), (&mut self.bad, ledger.bad_data())]
        {
            if what.0 != counted {
                *what = (counted, Some(now_ns));
            }
        }
        for (heard, source) in self.heard.iter_mut().zip(&ledger.sources) {
            let packets = source[Entry::PacketsReceived];
            if heard.0.replace(packets).is_some_and(|before| before != packets) {
                heard.1 = now_ns;
            }
        }
    }

    fn verdict(&self, now_ns: u64, snapshot: &Snapshot, is_paused: bool) -> Verdict {
        let sources = self.sources.iter().enumerate();
        let sources = sources.map(|(index, (name, required))| SourceFlow {
            name,
            required: *required,
            received_age_ns: self.watch.heard_age_ns(index, now_ns),
            out_of_step: is_out_of_step(snapshot, index),
            astray: None,
            unread: snapshot.alignment.get(index).is_some_and(|one| one.unread),
        });
        let sources: Vec<_> = sources.collect();
        let fault = match &snapshot.state {
            State::Fault { reason } => Some(reason.as_str()),
            State::Recording | State::Stopped => None,
        };
        let since_ns = now_ns - self.began_ns;
        let run = match is_paused {
            true => Run::Paused { who: "ada", since: "03:12" },
            false => Run::Recording { since_ns },
        };
        let seen = RunSeen {
            run,
            fault: (fault, None),
            cannot_write: fault.is_some(),
            sources: &sources,
            away: &[],
            spilling: &[],
            refused: &[],
            notices: &[],
        };
        self.watch.verdict(now_ns, &seen, &self.limits)
    }

    /// Good is not said while data were lost or bad in the last minute, nor loss while none were;
    /// a required source that is silent, or out of step, counts as loss. One that nobody reads is
    /// not silent.
    fn check(
        &self,
        now_ns: u64,
        snapshot: &Snapshot,
        verdict: &Verdict,
        is_held: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        let is_lately =
            |at: Option<u64>| at.is_some_and(|at_ns| now_ns - at_ns < self.limits.loss_ns);
        let (lost, bad) = (is_lately(self.lost.1), is_lately(self.bad.1));
        let sources = self.sources.iter().zip(&self.heard).enumerate();
        let mut away = sources.map(|(index, ((_, required), (_, heard_ns)))| {
            *required && now_ns - heard_ns > self.limits.silent_ns && !is_held(index)
                || is_out_of_step(snapshot, index)
        });
        let is_wrong = match verdict.level {
            Level::Good | Level::Held => lost || bad,
            Level::BadData => lost || self.bad.0 == 0,
            Level::Loss | Level::HeavyLoss => self.lost.0 == 0 && !away.any(|is_away| is_away),
            Level::HeavyBadData => self.bad.0 == 0,
            Level::NotRecording => false,
        };
        match is_wrong {
            false => Ok(()),
            true => Err(format!(
                "{} s after the begin the verdict is {:?} ({}), lost {:?}, bad {:?}",
                (now_ns - self.began_ns) as f64 / S as f64,
                verdict.level,
                verdict.text,
                self.lost,
                self.bad
            )),
        }
    }
}

/// The last verdict, which was held to the ledger as it was then, must be true of the ledger at
/// rest.
///
/// # Errors
/// It is not.
pub(crate) fn check_last(verdict: Option<Level>, has_lost: bool) -> Result<(), String> {
    match verdict {
        Some(level @ (Level::Good | Level::Held | Level::BadData)) if has_lost => {
            Err(format!("the last verdict is {level:?}, and data were lost"))
        }
        _ => Ok(()),
    }
}

fn is_out_of_step(snapshot: &Snapshot, source: usize) -> bool {
    snapshot.alignment.get(source).is_some_and(|one| one.out_of_step)
}

/// Everything that a ledger says was lost, counted anyhow: it changes when more is. What front-ends
/// say to have dropped is lost before any event lacks it.
fn lost(ledger: &Ledger) -> u64 {
    const BY_WORD: [Entry; 5] = [
        Entry::FragmentsAbandoned,
        Entry::FragmentsLostSender,
        Entry::FragmentsLostRestart,
        Entry::FragmentsLostTaken,
        Entry::FragmentsNotSent,
    ];
    let of = |source: &SourceLedger| {
        let by_word: u64 = BY_WORD.iter().map(|&entry| source[entry]).sum();
        let Balance {
            fragments_lost,
            fragments_dropped,
            packets_malformed,
            packets_dropped_by_kernel,
            packets_missing,
            fragments_removed,
            ..
        } = source.balance();
        let packets = packets_malformed + packets_dropped_by_kernel + packets_missing;
        by_word + fragments_lost + fragments_dropped + packets + fragments_removed
    };
    ledger.sources.iter().map(of).sum()
}
