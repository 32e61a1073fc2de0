//! What front-ends say of themselves, where events are built by time.
//!
//! Times of a front-end rise without gaps in its log, and with each of them, and each mark, it says
//! that none below will follow: its *low-water mark*. So nothing has to be inferred of it, and its
//! data may come late: after a break it sends again what it holds, however old that is.
//!
//! | a front-end that | is awaited |
//! |---|---|
//! | is attached | until it says that it is idle |
//! | is attached and says nothing for a time-out while others do | no more, until it speaks |
//! | the same, required, and nothing comes of its connection either | until it is known to be cut |
//! | has fallen silent without a word, and is required | until its wait ends |
//! | is gone | until it is attached |
//! | numbers anew | once its times fit to those of the others |
//! | has marked the end of the run | until it marks a begin, or another session does |
//!
//! Its clock is trusted as far as that harms nobody else:
//!
//! - *Ahead* of the others' it holds up nobody. What it promises is believed up to `skew` beyond
//!   the quorum's time, and no event closes beyond that, so that its own wait for their time.
//! - *Behind* it is awaited while it catches up: it may be sending again. If it does not for a
//!   time-out, its clock is out of step, as that of a port is.
//!
//! This module knows no queues and no events. Its time is that in which anybody says something.

use crate::{BuilderConfig, SourceNote};

/// The front-ends of a run.
#[derive(Debug)]
pub struct Promises {
    /// By source; empty if none promises.
    sources: Vec<Promise>,
    timeout_ns: u64,
    /// Time in which anyone says anything: pauses of all count as an eighth of a time-out.
    active_ns: u64,
    heard_ns: Option<u64>,
}

#[derive(Clone, Debug)]
struct Promise {
    /// Whether it is a source of this kind, and enabled.
    promises: bool,
    is_required: bool,
    presence: Presence,
    /// Whether its connection may be gone since its last word: nothing says that it is there.
    may_be_cut: bool,
    is_idle: bool,
    /// Whether it has marked the end of the run.
    has_ended: bool,
    /// Whether its clock has to fit to the others', as a port's.
    is_anew: bool,
    /// Whether its clock has stood.
    has_stood: bool,
    /// What it has promised, as it said it, in its session and numbering.
    mark: Option<u64>,
    /// How far that was ahead of this machine's time, if that was not looked at yet.
    lead_ns: Option<i64>,
    /// How far its clock was ahead of the quorum's when it was last looked at.
    ahead_ns: Option<i64>,
    /// The highest lead since its clock is behind.
    best_ns: i64,
    /// When it last said something, and when its clock was last right or caught up.
    spoke_ns: u64,
    in_step_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Attached,
    /// Its connection is gone without a word.
    Waited,
    Gone,
}

impl Promises {
    pub fn new(config: &BuilderConfig) -> Self {
        let promise = |index: usize| Promise {
            promises: config.is_promising(index) && config.sources[index].is_enabled(),
            is_required: config.sources[index].is_required(),
            presence: Presence::Attached,
            may_be_cut: false,
            is_idle: false,
            has_ended: false,
            is_anew: false,
            has_stood: false,
            mark: None,
            lead_ns: None,
            ahead_ns: None,
            best_ns: i64::MIN,
            spoke_ns: 0,
            in_step_ns: 0,
        };
        let sources = match config.promising.contains(&true) {
            true => (0..config.sources.len()).map(promise).collect(),
            false => Vec::new(),
        };
        Self { sources, timeout_ns: config.timeout_ns, active_ns: 0, heard_ns: None }
    }

    /// Whether some source promises.
    pub fn is_any(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Whether that source promises.
    #[inline]
    pub fn has(&self, index: usize) -> bool {
        self.sources.get(index).is_some_and(|source| source.promises)
    }

    /// The run of another builder goes on, which had fragments of a source. Its session is waited
    /// for.
    pub fn continue_at(&mut self, index: usize) {
        if self.has(index) {
            self.sources[index].presence = Presence::Waited;
        }
    }

    /// Someone says something.
    pub fn count_time(&mut self, now_ns: u64) {
        let pause_ns = now_ns - self.heard_ns.unwrap_or(now_ns);
        self.active_ns += pause_ns.min(self.timeout_ns / super::horizon::PERIODS);
        self.heard_ns = Some(now_ns);
    }

    /// So much time passed in which nothing could be heard.
    pub fn skip(&mut self, beyond_ns: u64, now_ns: u64) {
        if let Some(heard_ns) = &mut self.heard_ns {
            *heard_ns = (*heard_ns + beyond_ns).min(now_ns);
        }
    }

    /// Whether nobody has said anything for two time-outs, and no connection is waited for.
    pub fn are_quiet(&self, now_ns: u64) -> bool {
        let mut sources = self.sources.iter();
        let is_heard = |at_ns: u64| now_ns - at_ns < 2 * self.timeout_ns;
        !self.heard_ns.is_some_and(is_heard) && !sources.any(|one| one.promises && one.is_waited())
    }

    /// It is there: it said something, or waits where there is no room.
    pub fn speak(&mut self, index: usize) {
        self.sources[index].spoke_ns = self.active_ns;
    }

    /// A fragment of it was taken.
    pub fn hear(&mut self, index: usize) {
        self.speak(index);
        (self.sources[index].is_idle, self.sources[index].may_be_cut) = (false, true);
    }

    /// It cannot go on, since it has no room.
    pub fn hold(&mut self, index: usize) {
        self.speak(index);
        self.sources[index].in_step_ns = self.active_ns;
    }

    /// A source says something of itself. Returns whether its clock begins anew.
    pub fn note(&mut self, index: usize, note: SourceNote, now_ns: u64) -> bool {
        use SourceNote::{Behind, Gone, Quiet, Waited};
        if !matches!(note, Waited | Gone | Quiet | Behind(_)) {
            self.count_time(now_ns);
        }
        let active_ns = self.active_ns;
        let source = &mut self.sources[index];
        source.may_be_cut = false;
        match note {
            SourceNote::LowWater(mark) | SourceNote::Excused(mark) => {
                // The same one again says that parts of a fragment come.
                if source.mark.is_none_or(|before| mark >= before) {
                    (source.mark, source.spoke_ns) = (Some(mark), active_ns);
                    source.may_be_cut = true;
                }
            }
            SourceNote::ExpectedIn(_) | SourceNote::Named(_) | Behind(_) | Quiet => {}
            SourceNote::Begin => {
                (source.has_ended, source.may_be_cut) = (false, true);
                source.spoke_ns = active_ns;
            }
            SourceNote::End(_) => source.has_ended = true,
            SourceNote::Idle(is_idle) => {
                (source.is_idle, source.may_be_cut) = (is_idle, !is_idle);
                source.spoke_ns = active_ns;
            }
            SourceNote::Attached => {
                (source.presence, source.spoke_ns) = (Presence::Attached, active_ns);
            }
            SourceNote::Session { .. } => {
                source.begin(active_ns);
                (source.presence, source.is_idle, source.is_anew) =
                    (Presence::Attached, false, false);
                source.has_ended = false;
                return true;
            }
            // The first of its numberings is the one that the others are in.
            SourceNote::Numbering if source.has_stood => {
                source.begin(active_ns);
                source.is_anew = true;
                return true;
            }
            SourceNote::Numbering => source.spoke_ns = active_ns,
            Waited => source.presence = Presence::Waited,
            Gone => source.presence = Presence::Gone,
        }
        false
    }

    /// What a source has promised, as it said it.
    pub fn mark(&self, index: usize) -> Option<u64> {
        self.sources.get(index).and_then(|source| source.mark)
    }

    /// So far was a promise, or the newest time, ahead of this machine's time.
    pub fn note_lead(&mut self, index: usize, lead_ns: i64) {
        let source = &mut self.sources[index];
        source.lead_ns = Some(source.lead_ns.map_or(lead_ns, |before| before.max(lead_ns)));
    }

    /// Looks at what was noted since the last look, beside the quorum's lead. Returns how the clock
    /// of a source is, if anything was noted.
    pub fn judge(&mut self, index: usize, quorum_ns: i64, skew_ns: i64) -> Option<Step> {
        let source = &mut self.sources[index];
        let lead_ns = source.lead_ns.take()?;
        let ahead_ns = lead_ns.saturating_sub(quorum_ns);
        source.ahead_ns = Some(ahead_ns);
        let catches_up = lead_ns.saturating_sub(source.best_ns) > skew_ns / CATCHES_UP;
        if ahead_ns >= -skew_ns {
            (source.in_step_ns, source.best_ns) = (self.active_ns, i64::MIN);
        } else if catches_up {
            (source.in_step_ns, source.best_ns) = (self.active_ns, lead_ns);
        } else if self.active_ns - source.in_step_ns >= self.timeout_ns {
            source.begin(self.active_ns);
            source.is_anew = true;
            return Some(Step::Behind);
        }
        Some(if ahead_ns > skew_ns { Step::Ahead } else { Step::Right })
    }

    /// How far the clock of a front-end was ahead of the quorum's when it was last looked at.
    pub fn ahead_ns(&self, index: usize) -> Option<i64> {
        self.sources.get(index)?.ahead_ns
    }

    /// Whether a source's first times are its clock's, whatever those of the others are.
    pub fn is_trusted(&self, index: usize) -> bool {
        self.has(index) && !self.sources[index].is_anew
    }

    /// Whether the clock of a source begins anew, and has to fit to the others'.
    pub fn is_anew(&self, index: usize) -> bool {
        self.sources.get(index).is_some_and(|source| source.is_anew)
    }

    /// The clock of a source stands.
    pub fn stand(&mut self, index: usize) {
        if self.has(index) {
            let active_ns = self.active_ns;
            let source = &mut self.sources[index];
            (source.has_stood, source.is_anew) = (true, false);
            (source.spoke_ns, source.in_step_ns) = (active_ns, active_ns);
            source.best_ns = i64::MIN;
        }
    }

    /// All clocks begin anew.
    pub fn begin_anew(&mut self) {
        let active_ns = self.active_ns;
        for source in self.sources.iter_mut().filter(|source| source.promises) {
            source.begin(active_ns);
            source.is_anew = true;
        }
    }

    /// Whether events wait for a source.
    pub fn is_awaited(&self, index: usize) -> bool {
        let source = &self.sources[index];
        let is_silent = self.active_ns - source.spoke_ns >= self.timeout_ns;
        source.promises
            && source.presence != Presence::Gone
            && !(source.is_idle || source.is_anew || source.has_ended)
            && (!is_silent || source.is_waited())
    }

    /// Whether nothing of a source is to come for now, by its word.
    pub fn is_absent(&self, index: usize) -> bool {
        let source = self.sources.get(index).filter(|source| source.promises);
        source.is_some_and(|one| one.presence == Presence::Gone || one.is_idle || one.has_ended)
    }

    /// Whether events wait for a source no more, without its word that they need not.
    pub fn is_silent(&self, index: usize) -> bool {
        !self.is_awaited(index) && !self.sources[index].is_idle
    }

    /// Whether a source that is attached is awaited no longer, since it said nothing.
    pub fn has_given_up(&self, index: usize) -> bool {
        self.has(index)
            && self.heard_ns.is_some()
            && self.sources[index].presence == Presence::Attached
            && !(self.sources[index].is_anew || self.sources[index].has_ended)
            && self.is_silent(index)
    }
}

impl Promise {
    /// Whether it is waited for however long it is silent. Whether a connection is gone is known
    /// after a few seconds.
    fn is_waited(&self) -> bool {
        let may_be_cut = self.presence == Presence::Attached && self.may_be_cut;
        self.is_required && (self.presence == Presence::Waited || may_be_cut)
    }

    /// Nothing is known of its clock.
    fn begin(&mut self, active_ns: u64) {
        (self.mark, self.lead_ns, self.best_ns) = (None, None, i64::MIN);
        (self.spoke_ns, self.in_step_ns) = (active_ns, active_ns);
    }
}

/// How the clock of a front-end is, beside the quorum's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Near it, or behind it for no longer than a time-out.
    Right,
    /// So far ahead that its events wait.
    Ahead,
    /// Behind it for a time-out, and no nearer.
    Behind,
}

/// One that is behind catches up if it gains a part of `skew` in a time-out.
const CATCHES_UP: i64 = 8;
