//! Which frames of a target are settled, and the positions of sources that its files state.
//!
//! A frame is settled when it is synced, or when it is missing (not taken, refused or failed) and
//! a synced frame has its counts: the next that is begun behind it. What is settled without a gap
//! is published ([`LinkPositions`](crate::link_positions::LinkPositions)).
//!
//! ```text
//! missing -> under way -> recorded -> syncing -> settled
//!    ^            |           |          |
//!    +------------+-----------+----------+  it fails, or its file is removed
//! ```
//!
//! Neighbours of one fate are one entry, so that there are about as many as frames under way.
//! Positions of a missing frame go into the next frame's column. A table of contents has those of
//! its file and of the files before it, and none of a file behind it: after a crash only a part of
//! that may be left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catchment_frame::{FrameInfo, FrameKind, Position, Positions};
use catchment_writer::StoreFile;

use crate::file::OpenFile;
use crate::frames::FrameHead;
use crate::live::Live;

/// The frames of one target that are not settled, oldest first.
pub(crate) struct Settlement {
    live: Arc<Live>,
    target: usize,
    frames: Vec<Unsettled>,
    /// Number of frames begun.
    begun: u64,
    /// Positions that no frame has.
    carried: Positions,
    /// Those of all frames so far.
    newest: Positions,
    /// The number of the newest frame begun, and the positions of those before it.
    last: u64,
    before_last: Positions,
    /// Positions of recorded frames, by the number of their file.
    files: BTreeMap<u32, Positions>,
    /// Files that have ended and are in `files`.
    ended: BTreeSet<u32>,
}

/// Neighbouring frames of one fate.
#[derive(Debug)]
struct Unsettled {
    /// One above the number of the last.
    end: u64,
    fate: Fate,
    positions: Positions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// No frame has its counts.
    Missing,
    /// It, or the frame that has its counts, is being written: the one that was begun as that.
    UnderWay(u64),
    Recorded(StoreFile),
    Syncing(StoreFile),
    Settled,
}

/// What is known of a frame that is begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct BegunFrame {
    /// What its column states.
    pub(crate) positions: Arc<[Position]>,
    /// Its number among the frames begun.
    number: u64,
}

impl Settlement {
    /// That of a target, if there are link sources.
    pub(crate) fn of(live: &Arc<Live>, target: usize) -> Option<Self> {
        let of_target = &live.targets[target].variant;
        let (mut newest, begins) = (Positions::default(), &live.beginning);
        for one in begins.positions.records() {
            if one.session == 0 || of_target.has(one.source as usize) {
                newest.add(&[*one]);
            }
        }
        let mut of_before = BTreeMap::new();
        if !newest.records().is_empty() {
            of_before.insert(begins.targets[target].files.index, newest.clone());
        }
        live.link_positions.has_links().then(|| Self {
            live: Arc::clone(live),
            target,
            frames: Vec::new(),
            begun: 0,
            carried: begins.targets[target].carried_positions.clone(),
            files: of_before,
            last: 0,
            before_last: newest.clone(),
            newest,
            ended: BTreeSet::new(),
        })
    }

    /// A frame is begun, which has the counts of all that are missing.
    pub(crate) fn begin(&mut self, info: &FrameInfo, positions: &Arc<[Position]>) -> BegunFrame {
        let number = self.begun;
        self.begun += 1;
        // A frame whose disk was left comes again, behind the one that is skipped before it.
        let is_before_last = info.numbers().1 < self.last;
        if !is_before_last {
            (self.last, self.before_last) = (info.numbers().1, self.newest.clone());
        }
        self.newest.add(positions);
        let mut all = std::mem::take(&mut self.carried);
        let positions = match all.records().is_empty() {
            true => Arc::clone(positions),
            false => {
                all.add(positions);
                // Frames behind a failed one have newer ones, and none may fall.
                all.raise_to(if is_before_last { &self.before_last } else { &self.newest });
                all.records().into()
            }
        };
        self.set(Fate::Missing, Fate::UnderWay(number));
        // What a skipped frame stands for is there already.
        if info.kind != FrameKind::SKIPPED {
            self.put(info, Fate::UnderWay(number), &positions);
        }
        BegunFrame { positions, number }
    }

    /// A frame was not begun.
    pub(crate) fn missing(&mut self, info: &FrameInfo, positions: &[Position]) {
        self.carry(positions);
        self.put(info, Fate::Missing, positions);
    }

    /// Positions of a frame that is not missing, since it will be begun later.
    pub(crate) fn carry(&mut self, positions: &[Position]) {
        self.newest.add(positions);
        self.carried.add(positions);
    }

    /// Whether positions are in no frame.
    pub(crate) fn has_carried(&self) -> bool {
        !self.carried.records().is_empty()
    }

    /// A frame that was begun is missing after all.
    pub(crate) fn failed(&mut self, frame: &BegunFrame) {
        self.carried.add(&frame.positions);
        self.set(Fate::UnderWay(frame.number), Fate::Missing);
    }

    /// A frame is in that file.
    pub(crate) fn recorded(&mut self, frame: &BegunFrame, file: StoreFile, file_index: u32) {
        self.files.entry(file_index).or_default().add(&frame.positions);
        self.set(Fate::UnderWay(frame.number), Fate::Recorded(file));
    }

    /// A sync of what is recorded in a file has begun.
    pub(crate) fn sync_begun(&mut self, file: StoreFile) {
        self.set(Fate::Recorded(file), Fate::Syncing(file));
    }

    /// It has succeeded.
    pub(crate) fn synced(&mut self, file: StoreFile) {
        self.set(Fate::Syncing(file), Fate::Settled);
        if self.frames.first().is_some_and(|first| first.fate == Fate::Settled) {
            let Unsettled { end, positions, .. } = self.frames.remove(0);
            // A frame that was begun behind those of a session may have some of the one before.
            let is_newest = |one: &&Position| {
                let newest = self.newest.newest(one.source, one.what);
                newest.is_none_or(|newest| newest.session == one.session)
            };
            let told: Vec<_> = positions.records().iter().filter(is_newest).copied().collect();
            self.live.link_positions.settled(self.target, end, &told);
        }
    }

    /// A file was closed, and all in it is durable.
    pub(crate) fn closed(&mut self, file: StoreFile) {
        self.sync_begun(file);
        self.synced(file);
    }

    /// The target keeps nothing, and has got a frame or will not get it.
    pub(crate) fn kept_nowhere(&self, head: &FrameHead) {
        let end = head.info.numbers().1.saturating_add(1);
        self.live.link_positions.settled(self.target, end, &head.positions);
    }

    /// The target settles no further frames.
    pub(crate) fn end(&self) {
        self.live.link_positions.ended(self.target);
    }

    /// What was recorded in a file is gone: the next frame says so, and has its positions.
    pub(crate) fn removed(&mut self, file: StoreFile, file_index: u32) {
        if let Some(positions) = self.files.get(&file_index) {
            self.carried.add(positions.records());
        }
        self.set(Fate::Recorded(file), Fate::Missing);
        self.set(Fate::Syncing(file), Fate::Missing);
    }

    /// A file gets no table of contents any more.
    pub(crate) fn file_ended(&mut self, file_index: u32) {
        if self.files.contains_key(&file_index) {
            self.ended.insert(file_index);
        }
        // The next file's positions stand behind those of an oldest one that needs them no more.
        while self.files.len() > 1
            && let Some(oldest) = self.files.first_entry()
            && self.ended.remove(oldest.key())
        {
            let mut before = oldest.remove();
            if let Some(mut next) = self.files.first_entry() {
                before.add(next.get().records());
                next.insert(before);
            }
        }
    }

    /// Has the next table of a file state the newest positions up to its last recorded frame.
    pub(crate) fn state_in(&self, file: &mut OpenFile) {
        let mut newest = Positions::default();
        let files = self.files.range(..=file.index);
        files.for_each(|(_, positions)| newest.add(positions.records()));
        file.set_positions(&newest);
    }

    fn put(&mut self, info: &FrameInfo, fate: Fate, positions: &[Position]) {
        let end = info.numbers().1.saturating_add(1);
        let mut own = Positions::default();
        own.add(positions);
        self.frames.push(Unsettled { end, fate, positions: own });
        self.join();
    }

    fn set(&mut self, from: Fate, to: Fate) {
        self.frames.iter_mut().filter(|one| one.fate == from).for_each(|one| one.fate = to);
        self.join();
    }

    /// Joins neighbours of one fate.
    fn join(&mut self) {
        self.frames.dedup_by(|next, before| {
            let joins = next.fate == before.fate;
            if joins {
                before.end = before.end.max(next.end);
                before.positions.add(next.positions.records());
            }
            joins
        });
    }
}

impl Drop for Settlement {
    /// Also if the target's agent has failed.
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use catchment_agent::FileId;
    use catchment_model::SourceId;
    use catchment_wire::event_link::EventLink;

    use super::*;
    use crate::config::{RecorderConfig, SourceConfig};

    /// The settlement of the only target of a run with one link source.
    struct Rig {
        live: Arc<Live>,
        settlement: Settlement,
        sequence: u64,
        session: u64,
    }

    const FILE: StoreFile = StoreFile { store: 0, id: FileId(1) };
    const NEXT: StoreFile = StoreFile { store: 0, id: FileId(2) };

    impl Rig {
        fn new() -> Self {
            let source = SourceConfig::new("source".to_owned(), ([127, 0, 0, 1], 0).into());
            let protocol = Arc::new(EventLink::SESSIONS);
            let source = SourceConfig { protocol, ..source };
            let live = Arc::new(Live::new(&RecorderConfig::new("".into(), vec![source])));
            let settlement = Settlement::of(&live, 0).expect("there is a link source");
            Self { live, settlement, sequence: 0, session: 5 }
        }

        /// The next frame, which decides up to ten times its number plus ten.
        fn next(&mut self) -> (FrameInfo, Arc<[Position]>) {
            let info = FrameInfo { sequence: self.sequence, ..FrameInfo::EMPTY };
            self.sequence += 1;
            let position = 10 * self.sequence;
            let (what, session) = (Position::LINK, self.session);
            (info, [Position { source: 0, what, session, position }].into())
        }

        fn begin(&mut self) -> BegunFrame {
            let (info, positions) = self.next();
            self.settlement.begin(&info, &positions)
        }

        fn recorded(&mut self, file: StoreFile) {
            let frame = self.begin();
            self.settlement.recorded(&frame, file, file.id.0 as u32);
        }

        fn sync(&mut self, file: StoreFile) {
            self.settlement.sync_begun(file);
            self.settlement.synced(file);
        }

        /// Of the newest session.
        fn durable(&self) -> u64 {
            let mut durable = 0;
            self.live.link_positions.read(&mut |source, session, position| {
                assert_eq!((source, session), (SourceId(0), self.session));
                durable = position;
            });
            durable
        }
    }

    #[test]
    fn a_sync_settles_what_was_recorded_when_it_began() {
        let mut rig = Rig::new();
        rig.recorded(FILE);
        rig.settlement.sync_begun(FILE);
        rig.recorded(FILE);
        assert_eq!(rig.durable(), 0);
        rig.settlement.synced(FILE);
        assert_eq!((rig.durable(), rig.live.link_positions.frames_settled()), (10, 1));
        rig.sync(FILE);
        assert_eq!(rig.durable(), 20);
        // Of two files, the older one's frames come first.
        rig.recorded(FILE);
        rig.recorded(NEXT);
        rig.sync(NEXT);
        assert_eq!(rig.durable(), 20);
        rig.settlement.closed(FILE);
        assert_eq!((rig.durable(), rig.settlement.frames.len()), (40, 0));
    }

    #[test]
    fn a_missing_frame_is_settled_with_the_frame_that_has_its_counts() {
        let mut rig = Rig::new();
        let late = rig.begin();
        rig.recorded(NEXT);
        rig.settlement.failed(&late);
        // The frame behind it was begun before that was known.
        rig.sync(NEXT);
        assert_eq!(rig.durable(), 0);
        let (info, positions) = rig.next();
        rig.settlement.missing(&info, &positions);
        let skipped = FrameInfo { kind: FrameKind::SKIPPED, rows: 1, ..info };
        let skipped = rig.settlement.begin(&skipped, &Arc::default());
        // No position falls, though that of the failed frame is an older one.
        assert_eq!(skipped.positions[0].position, 30);
        rig.settlement.recorded(&skipped, NEXT, 2);
        assert_eq!(rig.durable(), 0);
        rig.sync(NEXT);
        assert_eq!((rig.durable(), rig.live.link_positions.frames_settled()), (30, 3));
    }

    #[test]
    fn a_skipped_frame_states_nothing_of_the_frame_that_comes_again_behind_it() {
        let mut rig = Rig::new();
        let late = rig.begin();
        let again = rig.begin();
        rig.settlement.failed(&late);
        let kind = FrameKind::SKIPPED;
        let skipped = FrameInfo { kind, rows: 1, sequence: 0, ..FrameInfo::EMPTY };
        let skipped = rig.settlement.begin(&skipped, &Arc::default());
        assert_eq!((skipped.positions[0].position, again.positions[0].position), (10, 20));
        rig.settlement.recorded(&skipped, FILE, 1);
        rig.sync(FILE);
        assert_eq!(rig.durable(), 10);
        rig.settlement.recorded(&again, FILE, 1);
        rig.sync(FILE);
        assert_eq!(rig.durable(), 20);
    }

    #[test]
    fn what_is_removed_is_settled_with_the_next_frame_which_has_its_positions() {
        let mut rig = Rig::new();
        rig.recorded(FILE);
        rig.settlement.removed(FILE, 1);
        rig.settlement.closed(FILE);
        assert_eq!((rig.durable(), rig.settlement.has_carried()), (0, true));
        let next = rig.begin();
        assert_eq!(next.positions[0].position, 20);
        rig.settlement.recorded(&next, NEXT, 2);
        rig.sync(NEXT);
        assert_eq!((rig.durable(), rig.settlement.has_carried()), (20, false));
    }

    #[test]
    fn what_is_removed_brings_no_session_back_that_four_have_followed() {
        let mut rig = Rig::new();
        rig.recorded(FILE);
        rig.recorded(NEXT);
        for session in 6..=9 {
            rig.session = session;
            rig.recorded(NEXT);
        }
        rig.settlement.removed(FILE, 1);
        // Of session 5 this would be 10 behind 20.
        let next = rig.begin();
        assert_eq!((next.positions.len(), next.positions[0].session), (1, 9));
    }

    #[test]
    fn a_position_of_a_session_that_was_followed_does_not_hide_that_of_the_newest() {
        let mut rig = Rig::new();
        rig.recorded(FILE);
        rig.session = 6;
        rig.recorded(NEXT);
        rig.sync(FILE);
        rig.sync(NEXT);
        rig.settlement.removed(FILE, 1);
        let info = FrameInfo { sequence: 2, ..FrameInfo::EMPTY };
        let frame = rig.settlement.begin(&info, &Arc::default());
        assert_eq!((frame.positions[0].session, frame.positions[0].position), (5, 10));
        rig.settlement.recorded(&frame, NEXT, 2);
        rig.sync(NEXT);
        assert_eq!((rig.durable(), rig.live.link_positions.frames_settled()), (20, 3));
    }

    #[test]
    fn there_are_as_many_entries_as_frames_under_way_and_files() {
        let mut rig = Rig::new();
        rig.begin();
        for _ in 0..1_000 {
            let (info, positions) = rig.next();
            rig.settlement.missing(&info, &positions);
        }
        (0..1_000).for_each(|_| rig.recorded(FILE));
        assert_eq!(rig.settlement.frames.len(), 2);
        rig.settlement.file_ended(1);
        for index in 3..100 {
            let frame = rig.begin();
            rig.settlement.recorded(&frame, NEXT, index);
            rig.settlement.file_ended(index - 1);
        }
        assert!(rig.settlement.files.len() < 3 && rig.settlement.ended.is_empty());
    }
}
