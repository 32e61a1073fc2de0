//! A log of a session: the items of one source, in their order and without gaps
//! (docs/spec/event-link.md).
//!
//! Repeats are dropped by their sequence before anything else sees them. Fragments go to chunks as
//! those of other protocols do; what is no fragment for the builder passes the ring as a note, so
//! that the build agent knows the sequence of each fragment.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use catchment_builder::{Fragment, FragmentFlags, NoteKind, SourceNote};
use catchment_model::Entry;
use catchment_wire::PartFlags;
use catchment_wire::event_link::{
    FragmentRecord, Fragments, Heartbeat, KeyKind, Mark, MarkKind, Part, fragments,
};
use catchment_wire::session::{ByeReason, Fault, NONE, Records};

use crate::destinations::Destination;
use crate::ingest::Ingest;
use crate::link_keys::{Keys, WHOLE_BITS};
use crate::link_samples::SampleLog;
use crate::live_progress::{LiveProgress, Progress};
use crate::pool::Space;

/// What became of a message of items: it was taken, or what is left of it waits for memory.
pub(crate) type Taken = ControlFlow<()>;
pub(crate) const TAKEN: Taken = ControlFlow::Continue(());
pub(crate) const HELD: Taken = ControlFlow::Break(());

/// How often the build agent is told that a source goes on of which parts come: at most, so that
/// they fill no ring, and well within the shortest time-out that a configuration should have.
const PARTS_TOLD_EVERY_NS: u64 = 10_000_000;

/// The items of one source, as far as they have come.
pub(crate) struct Log {
    /// Where its fragments go, or why the log was refused.
    pub(crate) destination: Result<Destination, ByeReason>,
    /// The data connection that carries it.
    pub(crate) connection: u16,
    /// The sequence of the next item: all items below are in memory.
    pub(crate) taken: u64,
    /// All items below are durable.
    pub(crate) durable: u64,
    /// The items that its sender has made, as far as it has said so.
    pub(crate) made: u64,
    /// Whether its buffer is full, as its sender has said last.
    pub(crate) is_full: bool,
    progress: Progress,
    /// Bytes of the longest fragment that was granted.
    pub(crate) fragment_bytes_max: u64,
    /// Items below are of no run: they are counted, and durable.
    pub(crate) outside_until: u64,
    /// Whether its sender marks begin and end of runs, and has marked the end of this one.
    pub(crate) marks: bool,
    has_ended: bool,
    /// What was counted as outside the run, and its bytes, since that was told last.
    pub(crate) outside: Outside,
    /// Whether others wait for its source where its connection ends without a word.
    pub(crate) is_required: bool,
    /// Whether its fragments name the groups of their events, and what the last one named.
    pub(crate) is_reference: bool,
    named: u64,
    /// The groups in whose events its source is expected; 0: in all. None of a sparse source.
    pub(crate) expected_in: Option<u64>,
    keys: Keys,
    /// Whether the builder knows that it is idle since its last fragment.
    is_idle: bool,
    /// While its sender sends nothing in a pause, so that it is idle: whether it says so itself.
    at_rest: Option<bool>,
    /// The fragment of which bytes have come.
    open: Option<Open>,
    /// When the build agent was told last that the source goes on.
    told_ns: u64,
    /// What it had said when it was looked at last, and for how long its connection has brought
    /// messages since then and nothing of it.
    had_said: (u64, Option<u64>),
    quiet_ns: u64,
    /// What it is made of, if it is that of a channel link.
    pub(crate) samples: Option<Box<SampleLog>>,
}

/// Items that came outside a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// A fragment that comes in parts, or whose message is not all there.
struct Open {
    /// Its first part, or all of it as one.
    part: Part,
    /// Its key, unwrapped: what is promised while it comes does not change it. None if it does not
    /// rise.
    key: Option<u64>,
    /// Where the next bytes belong.
    position: u64,
    /// None if the fragment is a content fault, or of no run: its bytes are dropped as they come.
    space: Option<Space>,
    is_outside: bool,
}

impl Log {
    /// A log whose next item has the sequence `next`, with keys of that kind and of so many bits.
    pub(crate) fn new(
        destination: Result<Destination, ByeReason>,
        (connection, next): (u16, u64),
        fragment_bytes_max: u64,
        (kind, bits): (KeyKind, u8),
    ) -> Self {
        Self {
            destination,
            connection,
            taken: next,
            durable: next,
            made: next,
            is_full: false,
            progress: Progress::new(),
            fragment_bytes_max,
            outside_until: 0,
            marks: false,
            has_ended: false,
            outside: Outside::default(),
            is_required: false,
            is_reference: false,
            named: 0,
            expected_in: None,
            keys: Keys::new(kind, bits),
            is_idle: false,
            at_rest: None,
            open: None,
            told_ns: 0,
            had_said: (0, None),
            quiet_ns: 0,
            samples: None,
        }
    }

    /// The run goes on, and has keys of the source below that one.
    pub(crate) fn continue_keys(&mut self, key: u64) {
        // Whole keys are not those of the run if numbers began again in it.
        if self.keys.bits < WHOLE_BITS {
            (self.keys.last, self.keys.low_water) = (key.checked_sub(1), key);
        }
    }

    /// A log of which nothing is taken.
    pub(crate) fn refused(at: (u16, u64), reason: ByeReason) -> Self {
        Self::new(Err(reason), at, 0, (KeyKind::Number, WHOLE_BITS))
    }

    /// Says to the build agent that the next fragment of the source is of that session.
    pub(crate) fn begin(&mut self, ingest: &mut Ingest, session: u64) {
        if let Some(samples) = &mut self.samples {
            samples.session = session;
            return self.mark(ingest);
        }
        if let Ok(destination) = self.destination {
            let (source, kind) = (destination.source, NoteKind::Session);
            ingest.describe(Fragment::note(source, kind, session, self.taken));
            self.say(ingest, SourceNote::Session { key_bits: self.keys.bits.into() });
            if let Some(groups) = self.expected_in {
                self.say(ingest, SourceNote::ExpectedIn(groups));
            }
            if self.is_reference {
                self.say(ingest, SourceNote::Named(self.named));
            }
            // One that joins a run is in it with all that it sends; another one from its mark on.
            if self.marks && !self.is_outside() {
                self.say(ingest, SourceNote::Begin);
            }
        }
    }

    /// Says something about the source to the builder.
    pub(crate) fn say(&self, ingest: &mut Ingest, note: SourceNote) {
        if let Ok(destination) = self.destination {
            ingest.describe(Fragment::said(destination.source, note));
        }
    }

    /// Its connection has brought messages, the ones before so long ago. Says to the builder that
    /// the source has been silent for a time-out of this: the others need not wait for it. Of one
    /// whose network is cut nothing comes, and that counts at most as half a time-out.
    pub(crate) fn was_heard(&mut self, ingest: &mut Ingest, passed_ns: u64, timeout_ns: u64) {
        let position = self.open.as_ref().map(|open| open.position);
        let has_said = (self.keys.low_water, position);
        if std::mem::replace(&mut self.had_said, has_said) != has_said || self.is_idle {
            self.quiet_ns = 0;
            return;
        }
        self.quiet_ns += passed_ns.min(timeout_ns / 2);
        if self.quiet_ns >= timeout_ns {
            self.quiet_ns = 0;
            self.say(ingest, SourceNote::Quiet);
        }
    }

    /// Its sender has never heard of this run, and holds items of another one: they are none of
    /// this run, and nothing is taken of them.
    pub(crate) fn pass_over(&mut self, ingest: &mut Ingest, session: u64) {
        if self.taken < self.made {
            (self.taken, self.durable) = (self.made, self.made);
            self.begin(ingest, session);
        }
    }

    /// The connection has ended: a fragment of which parts are missing begins again.
    pub(crate) fn interrupt(&mut self, ingest: &mut Ingest) {
        if let (Some(Open { space: Some(space), .. }), Ok(destination)) =
            (self.open.take(), self.destination)
        {
            let Destination { account, chunk, .. } = destination;
            ingest.give_back_space(account as usize, chunk as usize, space);
        }
    }

    /// Whether its next item is of no run.
    #[inline]
    pub(crate) fn is_outside(&self) -> bool {
        self.has_ended || self.taken < self.outside_until
    }

    /// Whether a mark says for the first time that a setting has changed in the run.
    pub(crate) fn changes_setting(&self, mark: &Mark) -> bool {
        mark.kind == MarkKind::Setting && mark.sequence >= self.taken && !self.is_outside()
    }

    /// The source's last key.
    pub(crate) fn last_key(&self) -> Option<u64> {
        self.keys.last
    }

    /// The run ends, and the connection stays: a fragment of which parts are missing is of no run.
    pub(crate) fn leave_run(&mut self, ingest: &mut Ingest) {
        let Some(open) = &mut self.open else { return };
        (open.is_outside, open.key) = (true, None);
        if let (Some(space), Ok(destination)) = (open.space.take(), self.destination) {
            let Destination { account, chunk, .. } = destination;
            ingest.give_back_space(account as usize, chunk as usize, space);
        }
    }

    /// Whether its sender may send it as the log of the same session before. The source of a
    /// front-end that was admitted has a number in runs alone.
    pub(crate) fn grants_as(&self, former: &Self) -> bool {
        let source = |log: &Self| log.destination.map(|to| to.source).ok();
        let has_none = |log: &Self| source(log) == Some(NONE);
        let is_same = source(self) == source(former)
            || has_none(self) && former.destination.is_ok()
            || has_none(former) && self.destination.is_ok();
        is_same && self.fragment_bytes_max == former.fragment_bytes_max
    }

    /// Shows how far it is.
    pub(crate) fn show(&mut self, live: &LiveProgress, now_ns: u64) {
        // What was said last may be behind what has come since.
        let made = self.made.max(self.taken);
        self.progress.show(live, now_ns, [made, self.taken, self.durable]);
    }

    /// Goes on where the log of the same session has ended, at whose next item it begins.
    pub(crate) fn follow(&mut self, former: Self) {
        (self.made, self.open, self.outside) = (former.made, former.open, former.outside);
    }

    /// How many of `count` items from `sequence` on were taken before.
    pub(crate) fn repeats(&self, sequence: u64, count: u64) -> Result<u64, Fault> {
        match self.taken.checked_sub(sequence) {
            Some(behind) => Ok(behind.min(count)),
            None => Err(Fault::Sequence { expected: self.taken, got: sequence }),
        }
    }

    /// Takes the fragments of a message, of which some may have been taken before: those of a
    /// repeat, or, if the message was held, those for which there was memory.
    pub(crate) fn take_fragments(
        &mut self,
        ingest: &mut Ingest,
        destination: Destination,
        (message, records, body): (&Fragments, Records<'_, FragmentRecord>, &[u8]),
        was_held: bool,
    ) -> Result<Taken, Fault> {
        let skipped = self.check_fragments(message.sequence, records.len() as u64)?;
        if !was_held {
            ingest.count(destination.account as usize, Entry::FragmentsRepeated, skipped);
        }
        let mut continues = 0;
        for (record, bytes) in fragments(records, body).skip(skipped as usize) {
            if self.take_fragment(ingest, destination, (&record, bytes), continues).is_break() {
                return Ok(HELD);
            }
            continues = FragmentFlags::CONTINUES;
        }
        Ok(TAKEN)
    }

    /// How many of the fragments of a message were taken before. The others may come now.
    pub(crate) fn check_fragments(&self, sequence: u64, count: u64) -> Result<u64, Fault> {
        let skipped = self.repeats(sequence, count)?;
        match self.open.is_some() && skipped < count {
            true => Err(self.not_continued()),
            false => Ok(skipped),
        }
    }

    /// Takes a fragment that is there. Its key and length may be faults.
    pub(crate) fn take_fragment(
        &mut self,
        ingest: &mut Ingest,
        destination: Destination,
        (record, bytes): (&FragmentRecord, &[u8]),
        flags: u8,
    ) -> Taken {
        let account = destination.account as usize;
        if self.is_outside() {
            self.pass_outside(ingest, bytes.len() as u64);
            return TAKEN;
        }
        let Some(key) = self.keys.rise(record.key) else {
            self.drop_item(ingest, Entry::FragmentsDiscardedOrder);
            return TAKEN;
        };
        if bytes.len() as u64 > self.fragment_bytes_max {
            self.drop_item(ingest, Entry::FragmentsDiscardedTooLong);
            self.pass_keys(ingest, key, key);
            return TAKEN;
        }
        if !ingest.has_place(account) {
            return HELD;
        }
        let chunk = destination.chunk as usize;
        let stored = match bytes.len() {
            // An empty fragment is recorded as such, and takes no memory.
            0 => Some(0),
            length if length > ingest.pool().chunk_bytes() => store_long(ingest, account, bytes),
            _ => ingest.store(account, chunk, bytes, destination.align as usize),
        };
        let Some(offset) = stored else { return HELD };
        let flags = flags | sender_flags(record.flags, record.tag);
        let fragment = Fragment::new(destination.source, key, offset, record.bytes);
        self.name(ingest, record.groups);
        self.describe(ingest, account, Fragment { tag: record.tag, flags, ..fragment });
        TAKEN
    }

    /// Takes a part of a fragment.
    pub(crate) fn take_part(
        &mut self,
        ingest: &mut Ingest,
        destination: Destination,
        (part, bytes): (&Part, &[u8]),
        was_held: bool,
    ) -> Result<Taken, Fault> {
        if self.is_repeat(part)? {
            let is_last = part.position + bytes.len() as u64 == part.fragment_bytes;
            if !was_held && is_last {
                ingest.count(destination.account as usize, Entry::FragmentsRepeated, 1);
            }
            return Ok(TAKEN);
        }
        if self.open_fragment(ingest, destination, part).is_break() {
            return Ok(HELD);
        }
        self.put(ingest, bytes);
        self.finish_fragment(ingest, destination);
        Ok(TAKEN)
    }

    /// Whether a part is of a fragment that was taken before. Otherwise it may come now.
    pub(crate) fn is_repeat(&self, part: &Part) -> Result<bool, Fault> {
        if self.repeats(part.sequence, 1)? == 1 {
            return Ok(true);
        }
        let is_next = match &self.open {
            None => part.position == 0,
            Some(open) => {
                open.position == part.position
                    && Part { position: open.part.position, ..*part } == open.part
            }
        };
        if is_next { Ok(false) } else { Err(self.not_continued()) }
    }

    /// Takes memory for all of a fragment of which bytes come, if it has none yet; held if there is
    /// too little now. A content fault needs none.
    pub(crate) fn open_fragment(
        &mut self,
        ingest: &mut Ingest,
        destination: Destination,
        part: &Part,
    ) -> Taken {
        if self.open.is_some() {
            return TAKEN;
        }
        let (bytes, is_outside) = (part.fragment_bytes, self.is_outside());
        let key = self.keys.rise(part.key).filter(|_| !is_outside);
        let is_fault = key.is_none() || bytes > self.fragment_bytes_max;
        let Destination { account, chunk, align, .. } = destination;
        let (account, chunk, align) = (account as usize, chunk as usize, align as usize);
        let space = match is_fault {
            true => None,
            false if !ingest.has_place(account) => return HELD,
            false => match ingest.take_space(account, chunk, bytes, align) {
                None => return HELD,
                space => space,
            },
        };
        self.open = Some(Open { part: *part, key, position: 0, space, is_outside });
        if std::mem::take(&mut self.is_idle) {
            self.say(ingest, SourceNote::Idle(false));
        }
        TAKEN
    }

    /// Where the next bytes of the open fragment belong; none if they are dropped.
    pub(crate) fn room<'a>(&'a mut self, ingest: &'a Ingest) -> Option<&'a mut [u8]> {
        let open = self.open.as_mut()?;
        Some(ingest.pool().room(open.space.as_mut()?, open.position))
    }

    /// Takes the next bytes of the open fragment.
    pub(crate) fn put(&mut self, ingest: &mut Ingest, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(room) = self.room(ingest)
            && !rest.is_empty()
        {
            let now = rest.len().min(room.len());
            assert!(now > 0, "the bytes are the fragment's");
            room[..now].copy_from_slice(&rest[..now]);
            self.filled(ingest, now);
            rest = &rest[now..];
        }
        self.filled(ingest, rest.len());
    }

    /// So many more bytes of the open fragment are where they belong, or dropped.
    ///
    /// Says that the source is there, and has nothing below the fragment's key: its bytes may take
    /// longer than a source may be silent.
    pub(crate) fn filled(&mut self, ingest: &mut Ingest, bytes: usize) {
        let now_ns = ingest.now_ns();
        let Some(open) = &mut self.open else { return };
        open.position += bytes as u64;
        if now_ns.saturating_sub(self.told_ns) >= PARTS_TOLD_EVERY_NS
            && let Some(key) = open.key
        {
            self.told_ns = now_ns;
            self.say(ingest, SourceNote::LowWater(key));
        }
    }

    /// Takes the open fragment, if all of it is there.
    pub(crate) fn finish_fragment(&mut self, ingest: &mut Ingest, destination: Destination) {
        let is_all = |open: &mut Open| open.position == open.part.fragment_bytes;
        let Some(open) = self.open.take_if(is_all) else { return };
        let Open { part, key, space, is_outside, .. } = open;
        if is_outside {
            return self.pass_outside(ingest, part.fragment_bytes);
        }
        match (key, space) {
            (Some(key), Some(space)) => {
                let offset = ingest.pool().publish(space);
                // At most 1,920 MiB.
                let bytes = part.fragment_bytes as u32;
                let flags = sender_flags(part.flags, part.tag);
                let fragment = Fragment::new(destination.source, key, offset, bytes);
                self.name(ingest, part.groups);
                let fragment = Fragment { tag: part.tag, flags, ..fragment };
                self.describe(ingest, destination.account as usize, fragment);
            }
            (key, _) => {
                let reason = match key {
                    Some(_) => Entry::FragmentsDiscardedTooLong,
                    None => Entry::FragmentsDiscardedOrder,
                };
                self.drop_item(ingest, reason);
                if let Some(key) = key {
                    self.pass_keys(ingest, key, key);
                }
            }
        }
    }

    /// Takes a mark, in the run of that number, which is being stopped or not.
    pub(crate) fn take_mark(
        &mut self,
        ingest: &mut Ingest,
        mark: &Mark,
        (run_number, is_to_stop): (u64, bool),
    ) -> Result<(), Fault> {
        let new = mark.count - self.repeats(mark.sequence, mark.count)?;
        if new == 0 {
            return Ok(());
        }
        if self.open.is_some() {
            return Err(self.not_continued());
        }
        let has_keys = mark.flags & Mark::KEYS != 0;
        let (mut now, mut reason) = (new, None);
        match mark.kind {
            MarkKind::Abandoned => {
                // Those of no run are no loss of this one, and their keys are none of its own.
                let outside = match self.has_ended {
                    true => new,
                    false => new.min(self.outside_until.saturating_sub(self.taken)),
                };
                if outside > 0 {
                    self.outside.count += outside;
                    self.pass(ingest, outside, None);
                    now -= outside;
                }
                let link = self.destination.ok().and_then(|one| ingest.link(one.account as usize));
                if let Some(link) = link {
                    link.abandoned(mark.reason, now);
                }
                let has_keys = has_keys && outside == 0;
                reason = Some(Entry::FragmentsAbandoned);
                if let Some(last) = self.keys.rise(mark.key_last).filter(|_| has_keys) {
                    let first = self.keys.rise(mark.key).filter(|first| *first <= last);
                    self.pass_keys(ingest, first.unwrap_or(last), last);
                }
            }
            MarkKind::Numbering => {
                self.keys.begin();
                if !self.has_ended {
                    self.say(ingest, SourceNote::Numbering);
                }
            }
            // An end that nobody asked for may be one that is sent again in a run that goes on.
            MarkKind::Begin | MarkKind::End
                if mark.run_number != run_number || mark.kind == MarkKind::End && !is_to_stop =>
            {
                let account = self.destination.map(|one| one.account as usize).ok();
                if let Some(link) = account.and_then(|account| ingest.link(account)) {
                    link.marks_ignored.fetch_add(1, Relaxed);
                }
            }
            // One that connects again while the run is being stopped may mark once more that it
            // joins: what it has ended stays so.
            MarkKind::Begin if self.marks && !self.has_ended => {
                if self.is_outside() {
                    self.outside_until = 0;
                    self.say(ingest, SourceNote::Begin);
                }
                let key = Some(mark.key).filter(|_| has_keys);
                if let Some(low_water) = key.and_then(|key| self.keys.promise(key)) {
                    self.say(ingest, SourceNote::LowWater(low_water));
                }
            }
            MarkKind::End if self.marks && !self.is_outside() => {
                let behind = self.keys.end(Some(mark.key_last).filter(|_| has_keys));
                self.say(ingest, SourceNote::End(behind));
                self.has_ended = true;
            }
            MarkKind::Begin | MarkKind::End | MarkKind::Setting => {}
        }
        if now > 0 {
            self.pass(ingest, now, reason);
        }
        Ok(())
    }

    /// Takes a heartbeat. One that stands among repeats says nothing.
    pub(crate) fn take_heartbeat(
        &mut self,
        ingest: &mut Ingest,
        heartbeat: &Heartbeat,
    ) -> Result<(), Fault> {
        self.repeats(heartbeat.sequence, 0)?;
        if heartbeat.sequence < self.taken {
            return Ok(());
        }
        if heartbeat.flags & Heartbeat::LOW_WATER != 0 {
            let falls = self.keys.falls(heartbeat.low_water);
            match (self.keys.promise(heartbeat.low_water), self.destination) {
                (Some(low_water), _) => self.say(ingest, SourceNote::LowWater(low_water)),
                (None, Ok(destination)) if falls => {
                    ingest.count(destination.account as usize, Entry::PromiseBroken, 1);
                }
                _ => {}
            }
        }
        let says_idle = heartbeat.flags & Heartbeat::IDLE != 0;
        self.at_rest = self.at_rest.and(Some(says_idle));
        self.set_idle(ingest, says_idle || self.at_rest.is_some());
        Ok(())
    }

    /// Its sender sends nothing in a pause, and all that it had made is taken; or goes on.
    pub(crate) fn rest(&mut self, ingest: &mut Ingest, is_at_rest: bool) {
        match (self.at_rest, is_at_rest) {
            (None, true) => {
                self.at_rest = Some(self.is_idle);
                self.set_idle(ingest, true);
            }
            (Some(says_idle), false) => {
                self.at_rest = None;
                self.set_idle(ingest, says_idle);
            }
            _ => {}
        }
    }

    fn set_idle(&mut self, ingest: &mut Ingest, is_idle: bool) {
        if std::mem::replace(&mut self.is_idle, is_idle) != is_idle {
            self.say(ingest, SourceNote::Idle(is_idle));
        }
    }

    /// Takes the first and the last key of what is no fragment for the builder, which it promises
    /// nothing below, and which is counted already.
    fn pass_keys(&mut self, ingest: &mut Ingest, first: u64, last: u64) {
        self.say(ingest, SourceNote::LowWater(first));
        self.keys.take(last);
        self.say(ingest, SourceNote::Excused(self.keys.low_water));
    }

    /// Says which groups took part in the event of the next fragment, where they are others than in
    /// the one before.
    #[inline]
    fn name(&mut self, ingest: &mut Ingest, groups: u64) {
        if self.is_reference && groups != self.named {
            self.named = groups;
            self.say(ingest, SourceNote::Named(groups));
        }
    }

    /// Passes a fragment on. It is counted when a frame decides it (`tape.rs`).
    #[inline]
    fn describe(&mut self, ingest: &mut Ingest, account: usize, fragment: Fragment) {
        if fragment.number < self.keys.low_water {
            ingest.count(account, Entry::PromiseBroken, 1);
        }
        self.keys.take(fragment.number);
        self.is_idle = false;
        self.taken += 1;
        ingest.describe_waiting(account, fragment);
    }

    /// Counts a fragment that costs itself and not its connection.
    #[cold]
    fn drop_item(&mut self, ingest: &mut Ingest, reason: Entry) {
        self.pass(ingest, 1, Some(reason));
    }

    /// Counts an item of no run.
    pub(crate) fn pass_outside(&mut self, ingest: &mut Ingest, bytes: u64) {
        self.outside.count += 1;
        self.outside.bytes += bytes;
        self.pass(ingest, 1, None);
    }

    /// Passes items that are none for the builder.
    #[cold]
    fn pass(&mut self, ingest: &mut Ingest, count: u64, reason: Option<Entry>) {
        if let Ok(destination) = self.destination {
            ingest.describe(Fragment::passed(destination.source, count, reason));
        }
        self.taken += count;
    }

    /// A fragment in parts is not continued where it ended.
    #[cold]
    fn not_continued(&self) -> Fault {
        let (position, bytes, fragment_bytes) = match &self.open {
            Some(open) => (open.position, 0, open.part.fragment_bytes),
            None => (0, 0, 0),
        };
        Fault::Part { position, bytes, fragment_bytes }
    }
}

/// Stores a fragment that is longer than a chunk; none if there is no memory.
#[cold]
pub(crate) fn store_long(ingest: &mut Ingest, account: usize, bytes: &[u8]) -> Option<u64> {
    let mut chunks = Vec::new();
    if !ingest.take_chain(account, bytes.len() as u64, &mut chunks) {
        return None;
    }
    ingest.pool().put_part(&chunks, 0, bytes);
    Some(ingest.pool().link(&mut chunks))
}

/// The flags of a descriptor: an item is taken once, and tag 0 is none.
fn sender_flags(flags: u8, tag: u8) -> u8 {
    let error = u8::from(flags & PartFlags::SENDER_ERROR != 0);
    let untagged = u8::from(tag == 0);
    let flags = (FragmentFlags::SENDER_ERROR * error) | (FragmentFlags::UNTAGGED * untagged);
    FragmentFlags::SENT_ONCE | flags
}
