//! Where a recorder begins: with a new run, or behind what an earlier recorder has left of one.
//!
//! The sums over the frames of a place are its ledger ([`Resumable`]). It is split as the live
//! ledger is: into what happens before frames are made, which all places have in common, and what
//! became of frames in each. What frames lack that a place did not get is *carried* by its next
//! frame; what the recorder that died had received of datagrams and not recorded is *lost*, and in
//! the next frame of all.

use std::sync::Arc;

use catchment_frame::{FileHeader, FrameInfo, FrameKind, Origin, Position, Positions, Superseded};
use catchment_model::{Entry, Ledger, SourceLedger};
use catchment_storage::{CaughtUp, PartLeft, Resumable};

use crate::config::RecorderConfig;
use crate::target_config::{Place, Variant};

/// Where a recorder begins.
#[derive(Clone, Debug)]
pub(crate) struct Beginning {
    /// The recorder's number among those that record the run together.
    pub(crate) stream: u32,
    /// 0 unless the run goes on.
    pub(crate) epoch: u32,
    /// The number of the first frame.
    pub(crate) sequence: u64,
    /// How far sources were decided.
    pub(crate) positions: Positions,
    /// The ledger of what happens before frames are made, as far as frames have it.
    pub(crate) common: Ledger,
    /// What the first frame counts before all else.
    pub(crate) lost: Ledger,
    /// By target.
    pub(crate) targets: Vec<TargetBeginning>,
}

/// The same of a target.
#[derive(Clone, Debug)]
pub(crate) struct TargetBeginning {
    /// Why the run goes on without it, if it does.
    pub(crate) left_out: Option<String>,
    /// The ledger of what became of frames.
    pub(crate) ledger: Ledger,
    /// What its next frame counts of those that it did not get.
    pub(crate) carried: Ledger,
    /// Positions that it is to have.
    pub(crate) carried_positions: Positions,
    /// These frames, if there are any.
    pub(crate) missing: Option<FrameInfo>,
    pub(crate) files: FileBeginning,
    /// Its files so far, frames and events in them, and their bytes.
    pub(crate) paths: Vec<std::path::PathBuf>,
    pub(crate) frames: u64,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// Of several nodes: what each has.
    pub(crate) parts: Vec<PartLeft>,
    /// One above the number of its last frame.
    pub(crate) end: u64,
    /// Those that were copied to it from another target when the run was found.
    pub(crate) caught_up: CaughtUp,
}

/// What the first of a target's new files says, and those behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileBeginning {
    pub(crate) index: u32,
    pub(crate) epoch: u32,
    pub(crate) superseded: Arc<[Superseded]>,
}

impl FileBeginning {
    /// A header as it is from now on.
    pub(crate) fn of(&self, header: FileHeader) -> FileHeader {
        FileHeader { epoch: self.epoch, superseded: self.superseded.to_vec(), ..header }
    }
}

impl Beginning {
    /// That of a new run of so many sources and links.
    pub(crate) fn new_run(sources: usize, targets: usize) -> Self {
        let none = Ledger::new(sources);
        let target = TargetBeginning {
            left_out: None,
            ledger: none.clone(),
            carried: none.clone(),
            carried_positions: Positions::default(),
            missing: None,
            files: FileBeginning::default(),
            paths: Vec::new(),
            frames: 0,
            events: 0,
            bytes: 0,
            parts: Vec::new(),
            end: 0,
            caught_up: CaughtUp::default(),
        };
        Self {
            stream: 0,
            epoch: 0,
            sequence: 0,
            positions: Positions::default(),
            common: none.clone(),
            lost: none,
            targets: vec![target; targets],
        }
    }

    /// That of a recorder with a new run, or behind what is left of one.
    pub(crate) fn of(config: &RecorderConfig, from: Option<&Resumable>) -> Self {
        let (sources, targets) = (config.ledger_count(), config.targets());
        let stream = config.stream;
        let Some(from) = from else {
            return Self { stream, ..Self::new_run(sources, targets.len()) };
        };
        let required = targets.iter().map(|one| one.required && one.place != Place::None);
        let variants: Vec<_> = Variant::of(config).into_iter().zip(required).collect();
        let mut beginning = Self { stream, ..Self::behind(from, sources, &variants) };
        let missing = beginning.targets.iter_mut().filter_map(|target| target.missing.as_mut());
        missing.for_each(|info| info.origin.stream = stream);
        beginning
    }

    /// Behind what is left of a run. Each target has a variant, and may be required to have it.
    fn behind(from: &Resumable, sources: usize, variants: &[(Variant, bool)]) -> Self {
        let mut beginning = Self {
            epoch: from.epoch,
            sequence: from.sequence,
            positions: from.positions.clone(),
            ..Self::new_run(sources, variants.len())
        };
        let superseded: Arc<[Superseded]> = from.superseded.as_slice().into();
        for (target, place) in beginning.targets.iter_mut().zip(&from.places) {
            let (index, epoch, superseded) =
                (place.next_index, from.epoch, Arc::clone(&superseded));
            target.files = FileBeginning { index, epoch, superseded };
            target.paths.clone_from(&place.files);
            target.left_out.clone_from(&place.left_out);
            target.parts.clone_from(&place.parts);
            target.carried_positions.clone_from(&place.carried_positions);
            (target.end, target.caught_up) = (place.end, place.caught_up);
            (target.frames, target.events, target.bytes) =
                (place.frames, place.events, place.bytes);
        }
        for source in 0..sources {
            beginning.split(from, source, variants);
        }
        let behind = variants.iter().zip(&from.places).map(|((variant, _), place)| {
            (place.end < from.sequence).then(|| FrameInfo {
                kind: FrameKind::SKIPPED,
                sequence: place.end,
                rows: from.sequence - place.end,
                origin: Origin { epoch: from.epoch, variant: variant.number, ..Origin::SINGLE },
                ..FrameInfo::EMPTY
            })
        });
        for (target, missing) in beginning.targets.iter_mut().zip(behind) {
            target.missing = missing;
        }
        beginning
    }

    /// Splits the ledgers of a source.
    fn split(&mut self, from: &Resumable, source: usize, variants: &[(Variant, bool)]) {
        let counted: Vec<_> = from.places.iter().map(|place| place.counted(source)).collect();
        let of_place = |place: usize| &counted[place];
        let having = || (0..variants.len()).filter(|&place| variants[place].0.has(source));
        let required = || having().filter(|&place| variants[place].1);
        let common = &mut self.common.sources[source];
        for &entry in Entry::ALL {
            let counts = |place: usize| of_place(place)[entry];
            common[entry] = match entry {
                Entry::FragmentsMissingUnrecorded => required().map(counts).min().unwrap_or(0),
                entry if is_of_frames(entry) => 0,
                _ => having().map(counts).max().unwrap_or(0),
            };
        }
        for place in having() {
            let reasons = common.reasons.iter_mut().zip(of_place(place).reasons);
            reasons.for_each(|(common, own)| *common = own.max(*common));
        }
        for place in having() {
            let target = &mut self.targets[place];
            let (own, carried) =
                (&mut target.ledger.sources[source], &mut target.carried.sources[source]);
            for &entry in Entry::ALL {
                let count = of_place(place)[entry];
                match is_of_frames(entry) {
                    true => own[entry] = count.saturating_sub(common[entry]),
                    false => carried[entry] = common[entry] - count,
                }
            }
            for (index, carried) in carried.reasons.iter_mut().enumerate() {
                *carried = common.reasons[index] - of_place(place).reasons[index];
            }
            if let Some(left) = from.places[place].carried.sources.get(source) {
                carried.add(left);
            }
        }
        // One that had no place for the last frames lacks what others have.
        let has_all = |place: &usize| from.places[*place].end >= from.sequence;
        let reference = required().find(has_all).or_else(|| required().next());
        let Some(reference) = reference else { return };
        let in_flight = |own: &SourceLedger| {
            let mut all = common.clone();
            all.add(own);
            all.balance()
        };
        let whole = in_flight(&self.targets[reference].ledger.sources[source]);
        let lost = &mut self.lost.sources[source];
        count(lost, whole.fragments_in_flight, LOST);
        count(lost, whole.packets_in_flight, ACCEPTED);
        for place in having().filter(|&place| place != reference) {
            let lacks = |entry| of_place(reference)[entry].saturating_sub(of_place(place)[entry]);
            let (bytes, missing) =
                (lacks(Entry::FragmentBytesRecorded), lacks(Entry::FragmentsMissing));
            let target = &mut self.targets[place];
            let own = &mut target.ledger.sources[source];
            let fragments = in_flight(own).fragments_in_flight - whole.fragments_in_flight;
            let Some(fragments) = u64::try_from(fragments).ok().filter(|&count| count > 0) else {
                continue;
            };
            let mut lacking = SourceLedger::default();
            match variants[place].1 {
                true => lacking[Entry::FragmentsDiscardedDisk] = fragments,
                false => {
                    lacking[Entry::FragmentsNotTaken] = fragments;
                    lacking[Entry::FragmentBytesNotTaken] = bytes;
                }
            }
            lacking[Entry::FragmentsMissingUnrecorded] = missing;
            own.add(&lacking);
            target.carried.sources[source].add(&lacking);
        }
    }

    /// The key below which all events are closed; none if the positions say nothing of it.
    pub(crate) fn closed_key(&self) -> Option<u64> {
        self.positions.newest(0, Position::CLOSED).map(|closed| closed.position)
    }
}

/// Whether an entry counts what becomes of frames.
fn is_of_frames(entry: Entry) -> bool {
    matches!(
        entry,
        Entry::FragmentsRecorded
            | Entry::FragmentBytesRecorded
            | Entry::FragmentsDurable
            | Entry::FragmentsMissing
            | Entry::FragmentsMissingUnrecorded
            | Entry::FragmentsNotExpected
            | Entry::FragmentsBadSender
            | Entry::FragmentsBadTag
            | Entry::FragmentsWithHoles
            | Entry::FragmentBytesLost
            | Entry::FragmentsBadChecksum
            | Entry::BytesCompressionLowered
            | Entry::FragmentsDiscardedDisk
            | Entry::FragmentsRemoved
            | Entry::FragmentsUnconfirmed
            | Entry::FragmentCountsUnconfirmed
            | Entry::FragmentsNotTaken
            | Entry::FragmentBytesNotTaken
            | Entry::FragmentsSpilled
            | Entry::FragmentsForwarded
    )
}

/// What came in and what became of it, where the last frame has one and not the other.
type Pair = [Entry; 2];
const LOST: Pair = [Entry::FragmentsReceived, Entry::FragmentsDiscardedRestart];
const ACCEPTED: Pair = [Entry::PacketsReceived, Entry::PacketsAccepted];

/// Counts what is in flight, so that nothing is.
fn count(ledger: &mut SourceLedger, in_flight: i128, [came, became]: Pair) {
    let entry = if in_flight < 0 { came } else { became };
    ledger[entry] += u64::try_from(in_flight.unsigned_abs()).unwrap_or(u64::MAX);
}
