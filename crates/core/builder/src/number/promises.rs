//! The horizon of sources that *promise*: front-ends over sessions, whose keys rise without gaps in
//! their logs. Each fragment, and each mark, says that no fragment with a lower key will follow,
//! and nothing has to be inferred.
//!
//! - The *low-water mark* of a source is the key below which nothing of it will come. It is exact
//!   as long as its session lasts.
//! - Numbers on the wire become keys by an *offset*, a multiple of 2^bits of the shortest numbers
//!   of the run. It is fixed where a source first numbers in a session or a numbering.
//! - Events wait for the marks of *awaited* sources:
//!
//! | a source that | is awaited |
//! |---|---|
//! | is attached | until it says that it is idle |
//! | is attached and says nothing for a time-out while others deliver | no more, until it speaks |
//! | the same, required, and nothing comes of its connection either | until it is known to be cut |
//! | stands behind what there is no memory for | no more, until it speaks |
//! | has fallen silent without a word, and is required | until its wait ends |
//! | is gone | until it is attached |
//! | numbers anew, or has missed that others do | by the events of its own numbering |
//! | has marked the end of the run | until it marks a begin, or another session does |
//! | delivers only what is closed already | for a time-out, and while another one would do |
//!
//! An event that has waited for a time-out waits no longer for a source that said nothing
//! meanwhile, nor for one that is sparse; an attached source so costs one time-out and not the run.
//!
//! This module has no queues and no events, and does not know the voters of `horizon.rs`.

use std::ops::Range;

use super::numbers::{KEY_END, Numbers, Placing};
use super::settings::NUMBER_BITS_MIN;
use crate::edges::Promised;
use crate::excused::Excused;
use crate::{BuilderConfig, NumberConfig, SourceNote, SourceRole};

/// What the sources of a builder have promised.
#[derive(Debug)]
pub struct Promises {
    /// By source; empty if none promises.
    sources: Vec<Promise>,
    /// By source: its low-water mark; and 0 if it is awaited, `NOT_AWAITED` otherwise.
    marks: Vec<u64>,
    not_awaited: Vec<u64>,
    /// Keys that they have passed without a fragment, and why is counted.
    excused: Excused,
    /// The same as numbers, of those that are unplaced: of this numbering, and of the next.
    unplaced: [Excused; 2],
    /// The bits in which the numbers of all sources can be compared.
    bits: u32,
    /// The lowest key of the numbering, and how many were before it.
    base: u64,
    numberings: u32,
    /// Whether some source came to the present numbering by a mark.
    is_marked: bool,
    timeout_ns: u64,
    /// Whether some source has spoken: before, nobody is silent.
    has_begun: bool,
    now_ns: u64,
    /// Time that does not count, since what had arrived may not have been pushed.
    skipped_ns: u64,
}

#[derive(Debug)]
struct Promise {
    /// Whether it is a source of this kind, and enabled.
    promises: bool,
    role: SourceRole,
    key_bits: u32,
    /// Its low-water mark as a number; none before the first number of its session and numbering.
    number: Option<u64>,
    /// What is added to a number to give its key.
    offset: Option<u64>,
    presence: Presence,
    numbering: Numbering,
    is_idle: bool,
    /// Whether it has marked the end of the run.
    has_ended: bool,
    /// Whether it said nothing for a time-out in which others delivered.
    is_silent: bool,
    /// Whether its connection may be gone since its last word: nothing says that it is there.
    may_be_cut: bool,
    /// Whether it had an offset in the current numbering.
    is_known: bool,
    /// The newest numbering in which it numbered something before its session or its last mark.
    numbered_before: Option<u32>,
    /// Whether the first number of its session is yet to come; and where its numbers began behind
    /// the others in it, after which one, until it has caught up.
    is_new: bool,
    again: Option<(u64, Option<u64>)>,
    /// Since when, in active time, it delivers only what is closed already, and at which key it was
    /// then; anew after each half time-out.
    behind: Option<(u64, u64)>,
    /// When it last said something, in time that counts and in active time.
    spoke_ns: u64,
    spoke_active_ns: u64,
    /// When it marked the next numbering, in active time.
    marked_active_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Attached,
    /// Its connection is gone without a word.
    Waited,
    Gone,
}

/// The numbering that a source's fragments are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    Current,
    /// One that has not begun.
    Next,
    /// One that has ended without it.
    Former,
}

impl Promises {
    pub fn new(config: &BuilderConfig, number: &NumberConfig) -> Self {
        let promise = |(index, &role): (usize, &SourceRole)| Promise {
            promises: config.is_promising(index) && role.is_enabled(),
            role,
            key_bits: number.number_bits,
            number: None,
            offset: None,
            presence: Presence::Attached,
            numbering: Numbering::Current,
            is_idle: false,
            has_ended: false,
            is_silent: false,
            may_be_cut: false,
            is_known: false,
            numbered_before: None,
            is_new: false,
            again: None,
            behind: None,
            spoke_ns: 0,
            spoke_active_ns: 0,
            marked_active_ns: 0,
        };
        let sources: Vec<Promise> = match config.promising.contains(&true) {
            true => config.sources.iter().enumerate().map(promise).collect(),
            false => Vec::new(),
        };
        let not_awaited = sources.iter().map(Promise::not_awaited).collect();
        let (bits, timeout_ns) = (number.number_bits, config.timeout_ns);
        let marks = vec![0; sources.len()];
        Self {
            marks,
            not_awaited,
            excused: Excused::default(),
            unplaced: Default::default(),
            sources,
            bits,
            base: 0,
            numberings: 0,
            is_marked: false,
            timeout_ns,
            has_begun: false,
            now_ns: 0,
            skipped_ns: 0,
        }
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

    /// How many sources there are, whether or not they promise; 0 if none does.
    pub fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// The bits in which the numbers of all sources can be compared.
    pub fn numbers(&self) -> Numbers {
        Numbers::new(self.bits)
    }

    /// The lowest key of the numbering.
    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Lets `most_ns` pass at most, however much time has.
    #[inline]
    pub fn resume(&mut self, now_ns: u64, most_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.now_ns);
        self.skipped_ns += passed_ns.saturating_sub(most_ns);
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// The key below which nothing of any awaited source will come.
    #[inline]
    pub fn promised(&self) -> u64 {
        let both = self.marks.iter().zip(&self.not_awaited);
        both.fold(NOT_AWAITED, |lowest, (mark, not)| lowest.min(mark | not))
    }

    /// The same of those that an event still waits for whose time-out has passed.
    pub fn promised_lately(&self) -> u64 {
        let is_late = |(index, source): (usize, &Promise)| {
            let waits = source.is_waited() || self.clock_ns() - source.spoke_ns < self.timeout_ns;
            let awaited = self.not_awaited[index] == 0 && source.role != SourceRole::Sparse;
            (waits && awaited).then(|| self.marks[index])
        };
        self.sources.iter().enumerate().filter_map(is_late).min().unwrap_or(NOT_AWAITED)
    }

    /// Whether more than half of those have passed a key that have numbered, awaited or not.
    pub fn have_most_passed(&self, key: u64) -> bool {
        let is_known = |one: &Promise| {
            let has_numbered = one.is_known || one.numbered_before == Some(self.numberings);
            one.promises && one.numbering != Numbering::Former && has_numbered
        };
        let known = self.sources.iter().zip(&self.marks).filter(|(one, _)| is_known(one));
        let (count, passed) = known.fold((0, 0), |(count, passed), (_, mark)| {
            (count + 1, passed + usize::from(key < *mark))
        });
        count == 0 || 2 * passed > count
    }

    /// How many awaited sources have said a number.
    pub fn placed_count(&self) -> usize {
        let both = self.sources.iter().zip(&self.not_awaited);
        both.filter(|(source, not)| **not == 0 && source.offset.is_some()).count()
    }

    /// Whether each awaited source has said a number.
    pub fn have_all_spoken(&self) -> bool {
        let mut both = self.sources.iter().zip(&self.not_awaited);
        both.all(|(source, not)| *not > 0 || source.number.is_some())
    }

    /// Whether those that have not said a number have said nothing for a time-out, or are sparse.
    pub fn has_start_waited(&self) -> bool {
        let awaited = self.sources.iter().zip(&self.not_awaited).filter(|(_, not)| **not == 0);
        let mut unspoken = awaited.filter(|(source, _)| source.number.is_none());
        unspoken.all(|(source, _)| {
            let quiet_ns = self.clock_ns() - source.spoke_ns;
            let is_silent = quiet_ns >= self.timeout_ns && !source.is_waited();
            source.role == SourceRole::Sparse || is_silent
        })
    }

    /// What is added to a source's numbers; none if that is not fixed.
    #[inline]
    pub fn offset(&self, index: usize) -> Option<u64> {
        self.sources[index].offset
    }

    /// The key below which nothing of a source will come.
    pub fn mark(&self, index: usize) -> u64 {
        self.marks[index]
    }

    /// The number below which a source that is awaited has delivered, dropped or left out all;
    /// 0 if it has said none in its session and numbering; none if it is not awaited.
    pub fn passed(&self, index: usize) -> Option<u64> {
        (self.not_awaited[index] == 0).then(|| self.sources[index].number.unwrap_or(0))
    }

    /// The mark of a source as a number, if it has said one.
    pub fn number(&self, index: usize) -> Option<u64> {
        self.sources[index].number
    }

    /// How many bits a source's numbers have.
    pub fn key_bits(&self, index: usize) -> u32 {
        self.sources[index].key_bits
    }

    /// Whether events wait for what a source promises, and miss it.
    pub fn is_followed(&self, index: usize) -> bool {
        self.not_awaited[index] == 0 && self.sources[index].role != SourceRole::Sparse
    }

    /// Whether events wait for what a source promises.
    pub fn is_awaited(&self, index: usize) -> bool {
        self.not_awaited[index] == 0
    }

    /// Whether a source has said that it may be silent for long.
    pub fn is_idle(&self, index: usize) -> bool {
        self.sources[index].is_idle
    }

    /// Whether what a source delivers is of the current numbering.
    pub fn is_in_step(&self, index: usize) -> bool {
        self.sources[index].numbering == Numbering::Current
    }

    /// Whether a source has missed that a numbering began.
    pub fn is_behind(&self, index: usize) -> bool {
        self.sources[index].numbering == Numbering::Former
    }

    /// Whether a source has marked a numbering that has not begun.
    #[inline]
    pub fn is_ahead(&self, index: usize) -> bool {
        self.sources[index].numbering == Numbering::Next
    }

    /// Whether a source marked a numbering that others have not followed for a time-out.
    pub fn has_numbering_waited(&self, index: usize, active_ns: u64) -> bool {
        let source = &self.sources[index];
        let waited_ns = active_ns.saturating_sub(source.marked_active_ns);
        source.numbering == Numbering::Next && waited_ns >= self.timeout_ns
    }

    /// Whether events wait for a source no more, without its word that they need not.
    pub fn is_silent(&self, index: usize) -> bool {
        self.has(index) && self.not_awaited[index] > 0 && !self.sources[index].is_idle
    }

    /// Whether a source that is attached is awaited no longer, since it said nothing new.
    pub fn has_given_up(&self, index: usize) -> bool {
        let is_there =
            |one: &Promise| one.presence == Presence::Attached && !(one.is_idle || one.has_ended);
        self.has(index) && self.sources[index].is_silent && is_there(&self.sources[index])
    }

    /// A source delivered something, so that it is not idle.
    #[inline]
    pub fn hear(&mut self, index: usize, active_ns: u64) {
        self.speak(index, active_ns);
        self.sources[index].may_be_cut = true;
        if self.sources[index].is_idle {
            self.sources[index].is_idle = false;
            self.update(index);
        }
    }

    /// A source delivered what it has promised not to: its connection is there, but that is no word
    /// that events could wait for.
    pub fn hear_nothing_new(&mut self, index: usize) {
        self.sources[index].may_be_cut = false;
    }

    /// A source is there: it said something, or it waits where it has no room.
    #[inline]
    pub fn speak(&mut self, index: usize, active_ns: u64) {
        let clock_ns = self.clock_ns();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.sources.iter_mut().for_each(|source| source.spoke_ns = clock_ns);
        }
        let source = &mut self.sources[index];
        (source.spoke_ns, source.spoke_active_ns) = (clock_ns, active_ns);
        if std::mem::take(&mut source.is_silent) {
            self.update(index);
        }
    }

    /// A source says something about itself. The number of a mark is none that it delivers:
    /// [`reach`](Self::reach) takes it. `closed`: above the keys of closed events; none before the
    /// run's numbering has begun.
    pub fn note(&mut self, index: usize, note: SourceNote, closed: Option<u64>, active_ns: u64) {
        let is_started = closed.is_some();
        let speaks = match note {
            SourceNote::LowWater(number) | SourceNote::Excused(number) => {
                self.goes_on(index, number, closed.unwrap_or(0), active_ns)
            }
            SourceNote::Waited | SourceNote::Gone | SourceNote::Quiet | SourceNote::Behind(_) => {
                false
            }
            _ => true,
        };
        if speaks {
            self.speak(index, active_ns);
        }
        self.sources[index].may_be_cut = speaks;
        let marked = self.numbering_of_mark(index, is_started);
        let (numberings, source) = (self.numberings, &mut self.sources[index]);
        if matches!(note, SourceNote::Session { .. } | SourceNote::Numbering)
            && source.numbering == Numbering::Current
            && source.has_numbered()
        {
            source.numbered_before = Some(numberings);
        }
        match note {
            SourceNote::LowWater(_)
            | SourceNote::Excused(_)
            | SourceNote::ExpectedIn(_)
            | SourceNote::Named(_)
            | SourceNote::Quiet => {}
            SourceNote::Begin => source.has_ended = false,
            SourceNote::End(_) => source.has_ended = true,
            SourceNote::Idle(is_idle) => source.is_idle = is_idle,
            // It has a time-out to go on: its connection may break again and again before it does.
            SourceNote::Attached => {
                (source.presence, source.may_be_cut) = (Presence::Attached, false);
            }
            SourceNote::Session { key_bits } => {
                (source.presence, source.is_idle) = (Presence::Attached, false);
                (source.has_ended, source.is_new) = (false, true);
                (source.may_be_cut, source.behind) = (false, None);
                // It goes on in the numbering that the others are in.
                (source.numbering, source.is_known) = (Numbering::Current, false);
                (source.number, source.offset, source.key_bits) = (None, None, key_bits);
                self.bits = self.bits.min(key_bits.max(NUMBER_BITS_MIN));
            }
            SourceNote::Numbering => {
                source.numbering = marked;
                (source.number, source.offset) = (None, None);
                source.marked_active_ns = active_ns;
                self.is_marked |= marked == Numbering::Current;
            }
            SourceNote::Waited => {
                source.presence = Presence::Waited;
                source.is_silent &= !source.is_waited();
            }
            SourceNote::Gone => source.presence = Presence::Gone,
            // One whose connection is gone is waited for.
            SourceNote::Behind(_) => source.is_silent |= source.presence == Presence::Attached,
        }
        self.update(index);
    }

    /// The numbering that a source marks: the next one if it was in the present one before, also in
    /// an earlier session, and otherwise the one to which others came by a mark. Where others
    /// number without a mark, the first one of a source is of the next numbering, too.
    fn numbering_of_mark(&self, index: usize, is_started: bool) -> Numbering {
        let source = &self.sources[index];
        let has_begun = |other: &Promise| other.has_numbered() || other.numbered_before.is_some();
        let have_others_begun =
            || is_started || self.sources.iter().any(|other| other.promises && has_begun(other));
        let is_next = match (source.numbering, source.numbered_before) {
            (Numbering::Next, _) => true,
            (Numbering::Former, _) => false,
            (Numbering::Current, _) if source.has_numbered() => true,
            (Numbering::Current, Some(before)) => before == self.numberings,
            (Numbering::Current, None) => !self.is_marked && have_others_begun(),
        };
        if is_next { Numbering::Next } else { Numbering::Current }
    }

    /// Whether a number is one that events can wait for. One that begins again without a word, and
    /// is below what its source has promised already, is out of step: it would hold up all others
    /// until it has caught up.
    ///
    /// So would a source that delivers only what is below `closed`, the keys of closed events. It
    /// has one time-out to catch up, and another one whenever the keys that it delivered in half of
    /// one are half of what it is behind, or more: that it comes nearer while events wait for it.
    #[inline]
    pub fn goes_on(&mut self, index: usize, number: u64, closed: u64, active_ns: u64) -> bool {
        let source = &mut self.sources[index];
        let Some(offset) = source.offset else { return true };
        let (key, mark) = (number.wrapping_add(offset), self.marks[index]);
        if key >= closed.max(mark) {
            source.behind = None;
            // What has no key moves no mark.
            return key <= KEY_END;
        }
        self.catches_up(index, key, closed, active_ns)
    }

    #[cold]
    fn catches_up(&mut self, index: usize, key: u64, closed: u64, active_ns: u64) -> bool {
        let behind = &mut self.sources[index].behind;
        let goes_on = match *behind {
            None => true,
            Some((_, since_ns)) if active_ns - since_ns < self.timeout_ns / 2 => return false,
            Some((before, _)) => closed.saturating_sub(key) <= 2 * key.saturating_sub(before),
        };
        *behind = Some((key, active_ns));
        goes_on && key >= self.marks[index]
    }

    /// Fragments of a source begin at that number. `reached`: above the keys that it has delivered;
    /// `closed`: above those of closed events.
    pub fn compare(&mut self, index: usize, number: u64, (reached, closed): (u64, u64)) {
        let numbers = self.numbers();
        let source = &mut self.sources[index];
        let Some(offset) = source.offset else { return };
        let key = number.wrapping_add(offset);
        if std::mem::take(&mut source.is_new) && key < closed.max(reached) {
            let after = (key < reached).then(|| numbers.number_of(reached - 1));
            source.again = Some((number, after));
        }
        source.again.take_if(|_| key >= closed.max(reached));
    }

    /// Where the numbers of a source began again in a session of its own, and after which one; or
    /// where they began, if it is given up since it does not catch up.
    pub fn again(&self, index: usize) -> Option<(u64, Option<u64>)> {
        let source = &self.sources[index];
        source.again.filter(|(_, after)| after.is_some() || source.is_silent)
    }

    /// No number of a source below that one will follow.
    #[inline]
    pub fn reach(&mut self, index: usize, number: u64) {
        let source = &mut self.sources[index];
        source.number = Some(source.number.map_or(number, |before| before.max(number)));
        if let Some(offset) = source.offset {
            let key = number.wrapping_add(offset);
            // What has no key says nothing about keys.
            if key <= KEY_END {
                self.marks[index] = self.marks[index].max(key);
            }
        }
    }

    /// The same, and why those between its mark and that number are missing is counted.
    pub fn reach_excused(&mut self, index: usize, number: u64, is_placed: bool, closed: u64) {
        let (from, from_key) = (self.sources[index].number, self.marks[index]);
        self.reach(index, number);
        let to_key = self.marks[index];
        match from.filter(|&from| from < number) {
            _ if is_placed => self.excuse(index, from_key..to_key, closed),
            Some(from) => {
                let of_numbering = &mut self.unplaced[usize::from(self.is_ahead(index))];
                of_numbering.add(index, from..number, 0);
            }
            None => {}
        }
    }

    /// These keys of a source are missing, and why is counted. Those below `closed` are forgotten.
    pub fn excuse(&mut self, index: usize, keys: Range<u64>, closed: u64) {
        if !keys.is_empty() {
            self.excused.add(index, keys, closed);
        }
    }

    /// Whether a source promises, and has passed a key.
    pub fn has_passed(&self, index: usize, key: u64) -> bool {
        self.has(index) && key < self.marks[index]
    }

    /// Whether a source has passed a key, and it is not counted why it lacks that.
    pub fn was_not_sent(&self, index: usize, key: u64) -> bool {
        self.has_passed(index, key) && !self.excused.has(index, key)
    }

    /// Fixes the offset of a source, so that a number of it gets its place.
    pub fn place(&mut self, index: usize, number: u64, placing: Placing) {
        let (numbers, base) = (self.numbers(), self.base);
        let from_base = || base + numbers.number_of(number.wrapping_sub(base));
        let key = match placing {
            Placing::First if base == 0 => number,
            Placing::First => from_base(),
            Placing::Near(reference) => {
                let key = numbers.near(reference, number);
                if (base..KEY_END).contains(&key) { key } else { from_base() }
            }
        };
        let source = &mut self.sources[index];
        let offset = key.wrapping_sub(number);
        (source.offset, source.is_known) = (Some(offset), true);
        if let Some(mark) = source.number {
            self.reach(index, mark);
        }
        let numberings = if self.is_ahead(index) { 1 } else { 2 };
        for unplaced in &mut self.unplaced[..numberings] {
            for Range { start, end } in unplaced.take(index) {
                let (from, to) = (start.wrapping_add(offset), end.wrapping_add(offset));
                // What has no key is missing in no event.
                if from < to && to <= KEY_END {
                    self.excused.add(index, from..to, 0);
                }
            }
        }
    }

    /// The run of another builder goes on, which had keys of a source below that one. Its session
    /// is waited for.
    pub fn continue_at(&mut self, index: usize, key: u64) {
        if self.has(index) {
            let source = &mut self.sources[index];
            (source.presence, source.is_known) = (Presence::Waited, true);
            self.marks[index] = key;
        }
    }

    /// A source takes back what it has promised beyond a key, and goes on in the numbering of the
    /// others.
    pub fn take_back(&mut self, index: usize, key: u64) {
        self.marks[index] = self.marks[index].min(key);
        self.sources[index].numbering = Numbering::Current;
        self.update(index);
    }

    /// A numbering begins at a base, with those that have marked it and those that have numbered
    /// nothing yet. The others have missed it.
    pub fn begin_numbering(&mut self, base: u64) {
        for (index, source) in self.sources.iter_mut().enumerate() {
            source.numbering = match source.numbering {
                Numbering::Next => Numbering::Current,
                Numbering::Current if !source.has_numbered() => Numbering::Current,
                Numbering::Current => {
                    source.numbered_before = Some(self.numberings);
                    Numbering::Former
                }
                Numbering::Former => Numbering::Former,
            };
            if source.numbering == Numbering::Current {
                (source.offset, source.is_known) = (None, false);
                self.marks[index] = base;
            }
            self.not_awaited[index] = source.not_awaited();
        }
        self.unplaced.swap(0, 1);
        self.unplaced[1] = Excused::default();
        (self.base, self.numberings, self.is_marked) = (base, self.numberings + 1, true);
    }

    /// Whether some source has marked a numbering that has not begun.
    pub fn is_ahead_any(&self) -> bool {
        self.sources.iter().any(|source| source.promises && source.numbering == Numbering::Next)
    }

    /// Those that said nothing for a time-out in which others delivered are awaited no longer.
    pub fn give_up_silent(&mut self, active_ns: u64) {
        for index in 0..self.sources.len() {
            let source = &self.sources[index];
            let quiet_ns = active_ns.saturating_sub(source.spoke_active_ns);
            if !source.is_silent && !source.is_waited() && quiet_ns >= self.timeout_ns {
                self.give_up(index);
            }
        }
    }

    /// Those that have said no number are awaited no longer, but for what they do of the next
    /// numbering.
    pub fn give_up_unspoken(&mut self) {
        for index in 0..self.sources.len() {
            if self.sources[index].number.is_none() && self.is_in_step(index) {
                self.give_up(index);
            }
        }
    }

    fn give_up(&mut self, index: usize) {
        self.sources[index].is_silent = true;
        self.update(index);
    }

    fn update(&mut self, index: usize) {
        self.not_awaited[index] = self.sources[index].not_awaited();
    }

    /// The time that counts.
    fn clock_ns(&self) -> u64 {
        self.now_ns - self.skipped_ns
    }
}

impl Promised for Promises {
    fn key_of(&self, index: usize, number: u64) -> Option<u64> {
        Some(number.wrapping_add(self.offset(index)?))
    }

    fn is_awaited(&self, index: usize) -> bool {
        self.not_awaited[index] == 0
    }

    fn promised(&self) -> u64 {
        Promises::promised(self)
    }

    fn passed_key(&self, index: usize) -> Option<u64> {
        Some(self.marks[index])
    }
}

impl Promise {
    fn not_awaited(&self) -> u64 {
        let awaited = self.promises
            && self.presence != Presence::Gone
            && self.numbering == Numbering::Current
            && !(self.is_idle || self.is_silent || self.has_ended);
        if awaited { 0 } else { NOT_AWAITED }
    }

    /// Whether it has numbered something in the current numbering.
    fn has_numbered(&self) -> bool {
        self.is_known || self.number.is_some()
    }

    /// Whether it is waited for however long it is silent. Whether a connection is gone is known
    /// after a few seconds.
    fn is_waited(&self) -> bool {
        let may_be_cut = self.presence == Presence::Attached && self.may_be_cut;
        self.role == SourceRole::Required && (self.presence == Presence::Waited || may_be_cut)
    }
}

const NOT_AWAITED: u64 = u64::MAX;
