//! The builder: a matcher, a cutter, and what stands between them.

use catchment_model::{Entry, SourceId};

use crate::cutter::Cutter;
use crate::{
    BuilderConfig, BuilderStatus, ConfigError, Cut, Discard, Fragment, Matched, Matcher,
    NumberConfig, NumberMatcher, Offsets, SourceNote,
};

/// Builds events from fragments' descriptors, by the rule of a [`Matcher`].
///
/// One duty cycle is: [`push`](Self::push) what came in, [`poll`](Self::poll) once,
/// [`cut`](Self::cut) until there is none, then take [`discarded`](Self::discarded) and
/// [`counts`](Self::counts).
///
/// Memory is bounded: for each source at most as many descriptors as the open and the released
/// events have rows, and `parked_max` parked ones. At most twice as many released events wait to
/// be cut as a frame may have rows ([`Needs`](crate::Needs)).
#[derive(Debug)]
pub struct Builder<M: Matcher = NumberMatcher> {
    matcher: M,
    matched: Matched,
    cutter: Cutter,
    /// The time, which never goes back.
    now_ns: u64,
    finished: bool,
}

impl Builder {
    /// A builder that matches by event number.
    ///
    /// # Errors
    /// Settings that cannot be.
    pub fn new(config: &BuilderConfig, number: &NumberConfig) -> Result<Self, ConfigError> {
        Self::with_matcher(config, NumberMatcher::new(config, number)?)
    }
}

impl<M: Matcher> Builder<M> {
    /// A builder with a rule of its own, which was made for the same settings.
    ///
    /// # Errors
    /// Settings that cannot be.
    pub fn with_matcher(config: &BuilderConfig, matcher: M) -> Result<Self, ConfigError> {
        config.check()?;
        let needs = matcher.needs();
        let (matched, cutter) = (Matched::new(config, &needs), Cutter::new(config, &needs));
        Ok(Self { matcher, matched, cutter, now_ns: 0, finished: false })
    }

    /// Takes fragments, best in runs of one source. All arrived at `now_ns`; a time before an
    /// earlier one is taken for that one.
    ///
    /// # Panics
    /// After [`finish`](Self::finish).
    pub fn push(&mut self, now_ns: u64, fragments: &[Fragment]) {
        assert!(!self.finished, "nothing is pushed after the end of the run");
        self.advance(now_ns);
        if !fragments.is_empty() {
            self.matcher.push(fragments, &mut self.matched);
        }
    }

    /// Takes what a source that promises says, behind the fragments that were pushed. That of any
    /// other source says nothing.
    pub fn note(&mut self, now_ns: u64, source: usize, note: SourceNote) {
        self.advance(now_ns);
        self.matcher.note(source, note, &mut self.matched);
    }

    /// Says that what has arrived since the last call may not have been pushed yet: an eighth of
    /// the time-out passes at most, however long that was. Call it once per duty cycle, before
    /// pushing. A process that was stopped, or a machine, then finds in its sockets what its open
    /// events wait for.
    pub fn resume(&mut self, now_ns: u64) {
        self.matcher.resume(now_ns);
    }

    /// Closes the events that are due. Call it once per duty cycle, even without new fragments.
    pub fn poll(&mut self, now_ns: u64) {
        self.advance(now_ns);
        if !self.finished {
            self.matcher.poll(&mut self.matched);
        }
    }

    /// Ends the run: closes every event. Then [`cut`](Self::cut) returns the rest.
    pub fn finish(&mut self, now_ns: u64) {
        self.advance(now_ns);
        if !self.finished {
            self.matcher.finish(&mut self.matched);
            self.matched.settle_all();
            self.finished = true;
        }
    }

    /// A frame's worth of events, when size or time or the end of the run say so. Call it until it
    /// returns none. `reuse` is an earlier cut whose memory may be used; it is kept until needed.
    ///
    /// A frame has at least one row, at most as many as the rule [says](crate::Needs), and its
    /// payload exceeds `frame_bytes` by less than one event. Only the payload of a single row may
    /// exceed `catchment_model::limits::COLUMN_BYTES_MAX`. Where the rule says that blocks of keys
    /// are apart, its keys are of one block.
    pub fn cut(&mut self, now_ns: u64, reuse: Option<Cut>) -> Option<Cut> {
        self.advance(now_ns);
        let mut cut = self.cutter.cut(self.now_ns, self.finished, &mut self.matched, reuse)?;
        if self.matched.has_positions() {
            let Cut { keys, columns, .. } = &mut cut;
            let missed = columns.iter_mut().enumerate().filter(|(_, column)| column.missing > 0);
            for (index, column) in missed {
                let lacking = (0..keys.len()).filter(|&row| column.lacks(row));
                let not_sent = lacking.filter(|&row| self.matcher.not_sent(index, keys[row]));
                column.not_sent = not_sent.count() as u64;
            }
        }
        Some(cut)
    }

    /// Whether a source that makes promises has passed a key whose event is closed, as it says.
    pub fn has_passed(&self, source: usize, key: u64) -> bool {
        self.matcher.has_passed(source, key)
    }

    /// Moves the descriptors of all fragments discarded since the last call to `into`'s end. They
    /// are as many as [`counts`](Self::counts) says, those that named no source, and those of which
    /// it is not known yet whether they are the source's.
    pub fn discarded(&mut self, into: &mut Vec<Discard>) {
        self.matched.take_discards(into);
    }

    /// Hands the ledger's increments since the last call to `add`.
    pub fn counts(&mut self, add: impl FnMut(SourceId, Entry, u64)) {
        self.matched.take_counts(add);
    }

    /// Sets whether events that begin from now on are wanted. Unwanted events are built as others
    /// are and then discarded (`fragments_discarded_paused`); fragments missing in them are not
    /// counted.
    pub fn set_recording(&mut self, wanted: bool) {
        self.matcher.set_recording(wanted);
    }

    /// Whether all events are closed that began before the last change by
    /// [`set_recording`](Self::set_recording).
    pub fn is_drained(&mut self) -> bool {
        self.matcher.is_drained()
    }

    /// Says that a source has fragments for which there is no room: it waits, and is not silent.
    /// Call it in each duty cycle before [`poll`](Self::poll) while this lasts.
    pub fn hold(&mut self, now_ns: u64, source: usize) {
        self.advance(now_ns);
        self.matcher.hold(source, &self.matched);
    }

    /// Says that a source may have sent what has not been read: events wait for it, however many
    /// others have passed them, until memory is short. Call it as [`hold`](Self::hold).
    pub fn hold_unread(&mut self, now_ns: u64, source: usize) {
        self.advance(now_ns);
        self.matcher.hold_unread(source, &self.matched);
    }

    /// Hands over the sources that promise and for which the next event waits, by what was closed
    /// last. A rule that matches by time names none.
    pub fn awaited(&mut self, mut each: impl FnMut(usize)) {
        self.matcher.awaited(&mut each);
    }

    /// The key below which all events are closed, cut or not.
    pub fn released_key(&self) -> u64 {
        self.matched.rows.back().map_or(self.matched.closed_key, |row| row.key + 1)
    }

    /// How many events are closed and wait to be cut.
    pub fn row_count(&self) -> u64 {
        self.matched.row_count()
    }

    /// How many fragments of a source are in no event yet, of at most `parked_max`.
    pub fn parked(&self, source: usize) -> usize {
        self.matcher.parked(source)
    }

    /// How many of a source's fragments were pushed before the first that is undecided: it was
    /// discarded by no call so far, and is in no cut. If all are decided, how many were pushed.
    /// Where the keys of a source do not rise it may be one before that. It never falls.
    ///
    /// # Panics
    /// The settings do not ask for positions.
    pub fn first_undecided(&self, source: usize) -> u64 {
        let undecided = &self.matched.undecided[source];
        let of_queues = [undecided.accepted.first(), self.matcher.first_parked(source)];
        of_queues.into_iter().flatten().min().unwrap_or(undecided.pushed)
    }

    /// One above the key of a source's newest fragment that was cut or dropped with its row; 0
    /// before the first.
    ///
    /// # Panics
    /// The settings do not ask for positions.
    pub fn decided_key(&self, source: usize) -> u64 {
        self.matched.undecided[source].decided_key
    }

    /// The key below which all events were cut or dropped.
    pub fn closed_key(&self) -> u64 {
        self.matched.closed_key
    }

    /// The state and the totals. It allocates, so it is not for every duty cycle.
    pub fn status(&self) -> BuilderStatus {
        let mut status = self.matcher.status(&self.matched);
        self.matched.add_to(&mut status);
        status
    }

    /// By source, how far its times are from its events; empty unless events are built by time.
    pub fn offsets(&self) -> &[Offsets] {
        self.matcher.offsets()
    }

    fn advance(&mut self, now_ns: u64) {
        if now_ns > self.now_ns {
            self.now_ns = now_ns;
            self.matcher.advance(now_ns);
        }
    }
}
