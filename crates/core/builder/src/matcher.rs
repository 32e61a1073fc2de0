//! What a building rule is to the builder, and what it needs of it.

use crate::{BuilderStatus, Fragment, Matched, Offsets, SourceNote};

/// A building rule: which fragments are one event, and when an event closes.
///
/// A matcher puts what it decides into a [`Matched`]: a row for each event that closes, by
/// ascending key, and the accepted fragments of each source in key order. It may append a fragment
/// when it accepts it, with the key of an event that is still open, or when its event closes; a
/// rule that matches by time knows the key only then. All fragments of an event are appended before
/// its row. Discarded fragments and the ledger's increments go the same way.
///
/// The *ordinal* of a fragment is the number of its source's fragments that were pushed before it.
/// A matcher that keeps a fragment keeps its ordinal, which [`Matched::append`] needs.
///
/// It knows nothing of frames. Its memory is bounded: it closes no further events while
/// [`Matched::row_count`] says that rows pile up.
pub trait Matcher {
    /// What it needs of its builder, which asks once, before anything else.
    fn needs(&self) -> Needs;

    /// Sets the clock: the calls that follow happen at this time. It never goes back.
    fn advance(&mut self, now_ns: u64);

    /// Says that what has arrived since the last call may not have been pushed yet. A time-out must
    /// not pass at once, however long that was. `now_ns` may be ahead of the clock.
    fn resume(&mut self, now_ns: u64);

    /// Takes fragments, best in runs of one source. [`Matched::usable`] sorts out the runs of
    /// which nothing is used.
    fn push(&mut self, fragments: &[Fragment], matched: &mut Matched);

    /// Takes what a source that promises says, behind the fragments that were pushed. A rule that
    /// knows no promises has nothing to do.
    fn note(&mut self, source: usize, note: SourceNote, matched: &mut Matched) {
        let _ = (source, note, matched);
    }

    /// Says that a source has fragments for which there is no room: it waits, and is not silent.
    /// Called in each duty cycle before [`poll`](Self::poll) while this lasts.
    fn hold(&mut self, source: usize, matched: &Matched);

    /// The same of a source that may have sent what has not been read: where a rule lets most
    /// sources decide, they do not decide that it is late.
    fn hold_unread(&mut self, source: usize, matched: &Matched) {
        self.hold(source, matched);
    }

    /// Hands over the sources that promise and for which the next event waits.
    fn awaited(&mut self, each: &mut dyn FnMut(usize)) {
        let _ = each;
    }

    /// Closes the events that are due. Called once per duty cycle, even without new fragments.
    fn poll(&mut self, matched: &mut Matched);

    /// Closes all events and discards what belongs to none: the run has ended. Called once, and
    /// neither `push` nor `poll` after it.
    fn finish(&mut self, matched: &mut Matched);

    /// Sets whether events that begin from now on are wanted. Unwanted events are built as others
    /// are; their rows are dropped as `fragments_discarded_paused`.
    fn set_recording(&mut self, wanted: bool);

    /// Whether all events are closed that began before the last change by
    /// [`set_recording`](Self::set_recording).
    fn is_drained(&mut self) -> bool;

    /// Whether a source has passed a key whose event is closed: it delivers nothing more for that,
    /// and has said so. A rule that knows no promises cannot tell.
    fn has_passed(&self, source: usize, key: u64) -> bool {
        let _ = (source, key);
        false
    }

    /// The same of one that delivered nothing for the key, and did not say why.
    fn not_sent(&self, source: usize, key: u64) -> bool {
        let _ = (source, key);
        false
    }

    /// How many fragments of a source are in no event yet.
    fn parked(&self, source: usize) -> usize;

    /// An ordinal that none of a source's fragments in no event is below; none if there are none.
    /// Only if the settings ask for positions.
    fn first_parked(&self, source: usize) -> Option<u64>;

    /// By source, how far its times are from its events; empty unless the rule knows times.
    fn offsets(&self) -> &[Offsets] {
        &[]
    }

    /// The matcher's part of the status: all but the released events, their bytes, and the
    /// fragments in `matched`, which the builder adds. `fragments_held` counts only fragments that
    /// are not in `matched`.
    fn status(&self, matched: &Matched) -> BuilderStatus;
}

/// What a building rule needs of its builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Rows of a frame at most. The rule closes no further events while as many wait to be cut.
    pub rows_max: u64,
    /// Where frames end though they are not full; none: nowhere.
    pub blocks: Option<KeyBlocks>,
    /// Whether fragments have ordinals though the settings ask for no positions.
    pub ordinals: bool,
}

impl Needs {
    /// Those of a rule that needs nothing but a bound for rows.
    pub fn rows(rows_max: u64) -> Self {
        Self { rows_max, blocks: None, ordinals: false }
    }
}

/// Blocks of consecutive keys: those of a frame are of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBlocks {
    /// How many keys a block has; the last one of a cycle may have fewer.
    pub keys: u64,
    /// Bits of the keys within one cycle, in each of which blocks are counted anew.
    pub cycle_bits: u32,
}

impl KeyBlocks {
    /// The block of a key: its cycle, and the block within it.
    pub(crate) fn of(self, key: u64) -> (u64, u64) {
        let bits = self.cycle_bits;
        (key >> bits, (key & ((1 << bits) - 1)) / self.keys)
    }
}
