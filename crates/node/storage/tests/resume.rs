//! What another recorder finds of a run whose recorder died.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use catchment_frame::{
    Codec, ColumnEntry, FileHeader, FileReader, FrameInfo, FrameKind, FrameSummary, frame_ledger,
};
use catchment_model::{Entry, Ledger};
use catchment_storage::{
    CaughtUp, Elsewhere, Interrupted, Resumable, ResumedPlace, Run, RunOptions, RunPlace,
    StorageError, audit, recompute, repair, verify,
};

use super::common::{Made, Recipe, change_header, key};

/// A number that no frame counts.
const ODD: u64 = 0x1122_3344_5566_7788;

/// A file that was closed, and one that was not.
fn recipe() -> Recipe {
    Recipe { files: vec![vec![5, 7, 3], vec![4, 2, 6]], unclosed: true, ..Recipe::default() }
}

fn place(folder: &Path, is_required: bool) -> RunPlace {
    RunPlace { folders: vec![folder.to_owned()], is_required, trusts_lists: false, is_dealt: false }
}

/// The required run, and another place of it.
fn taken(required: &Made, other: &Path) -> (Resumable, ResumedPlace) {
    let places = [place(required.path(), true), place(other, false)];
    let from = Interrupted::find(&places).and_then(Interrupted::take).expect("it goes on");
    let other = from.places[1].clone();
    (from, other)
}

/// The required places are as they are without others.
fn check_required(made: &Made, from: &Resumable) {
    assert_eq!((from.sequence, from.epoch), (6, 1));
    let place = &from.places[0];
    assert_eq!((place.left_out.as_ref(), place.end, place.frames), (None, 6, 6));
    assert_eq!(place.ledger, made.ledger);
    assert!(Run::open(made.path()).expect("opens").files().all(|file| file.flags.is_some()));
}

#[test]
fn a_closed_file_says_what_its_frames_count_and_they_are_not_read() {
    let said = |mut sum: Ledger| {
        sum.sources[0][Entry::FragmentsLate] = ODD;
        sum
    };
    let run = Recipe { sum: Some(said), ..recipe() };
    let places = |made: &Made| [place(made.path(), true)];
    let made = run.make();
    let from = Interrupted::find(&places(&made)).and_then(Interrupted::take).expect("it goes on");
    assert_eq!(from.places[0].ledger.sources[0][Entry::FragmentsLate], ODD);
    // That it is no sum is found where frames are read.
    let problems = audit(&Run::open(made.path()).expect("opens")).expect("an audit").problems;
    assert_eq!(problems.len(), 1, "{problems:?}");

    // Where the table is damaged, its frames say it.
    let made = run.make();
    let bytes = std::fs::read(&made.files[0]).expect("reads");
    let odd = ODD.to_le_bytes();
    let at = bytes.windows(8).rposition(|bytes| bytes == odd).expect("the table says it");
    made.damage(0, at as u64);
    let from = Interrupted::find(&places(&made)).and_then(Interrupted::take).expect("it goes on");
    check_required(&made, &from);
    // It is made again: a power cut may leave the trailer of a table and take a part of it.
    let run = Run::open(made.path()).expect("opens");
    let (verified, audited) = (verify(&run, |_| ()), audit(&run).expect("an audit"));
    assert!(verified.is_intact() && audited.problems.is_empty(), "{verified:?}, {audited:?}");
}

#[test]
fn files_that_a_resume_has_closed_say_what_their_frames_count() {
    let (made, none) = (recipe().make(), tempfile::tempdir().expect("a folder"));
    let (from, _) = taken(&made, none.path());
    check_required(&made, &from);
    let last = std::fs::read(&made.files[1]).expect("reads");
    let last = catchment_frame::FileReader::open(&last[..]).expect("opens");
    let sum = last.frames_ledger().expect("reads").expect("a sum");
    let of_events = sum.total()[Entry::FragmentsRecorded];
    assert!(0 < of_events && of_events < made.ledger.total()[Entry::FragmentsRecorded]);
    assert!(audit(&Run::open(made.path()).expect("opens")).expect("an audit").problems.is_empty());
}

#[test]
fn a_frame_that_was_written_again_counts_once_and_stands_for_a_damaged_one() {
    let said: fn(Ledger) -> Ledger = |sum| sum;
    for sum in [None, Some(said)] {
        let whole = || Recipe { repeats: true, sum, ..recipe() }.make();
        let columns: Vec<u32> = whole().frames[0][2].1.iter().map(|entry| entry.id).collect();
        for damaged in std::iter::once(None).chain(columns.into_iter().map(Some)) {
            let made = whole();
            if let Some(column) = damaged {
                made.damage(0, made.offset(0, 2, column));
            }
            let places = [place(made.path(), true)];
            let from = Interrupted::find(&places).and_then(Interrupted::take).expect("goes on");
            check_required(&made, &from);
            assert_eq!((from.places[0].events, &from.cut_off), (27, &None), "{damaged:?}");
            let run = Run::open(made.path()).expect("opens");
            assert_eq!((run.frames().len(), run.event_count(), run.frames_missing()), (6, 27, 0));
        }
    }
}

#[test]
fn of_a_frame_that_stands_in_several_files_the_one_that_is_whole_counts() {
    let said: fn(Ledger) -> Ledger = |sum| sum;
    for (sum, copies) in [None, Some(said)].into_iter().flat_map(|sum| [(sum, 2), (sum, 3)]) {
        // Of three, the second file has no other frame.
        let mut files = vec![vec![5, 7, 3], vec![4, 2, 6]];
        (2..copies).for_each(|_| files.insert(1, Vec::new()));
        let recipe = Recipe { files, repeats: true, sum, ..recipe() };
        let columns = recipe.make().frames[0][2].1.iter().map(|entry| entry.id).collect::<Vec<_>>();
        for (whole, column) in (0..copies).flat_map(|one| columns.iter().map(move |id| (one, id))) {
            let made = recipe.make();
            for file in (0..copies).filter(|file| *file != whole) {
                let frame = if file == 0 { 2 } else { 0 };
                made.damage(file, made.offset(file, frame, *column));
            }
            // The second time it is files that were closed by the first.
            for _ in 0..2 {
                let places = [place(made.path(), true)];
                let from = Interrupted::find(&places).and_then(Interrupted::take).expect("goes on");
                check_required(&made, &from);
                assert_eq!(from.places[0].events, 27, "{whole} of {copies}, column {column}");
            }
        }
    }
}

#[test]
fn what_ends_the_files_of_a_killed_recorder_is_no_write_of_its_own() {
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
    let written = |made: &Made| {
        let run = Run::open(made.path()).expect("opens");
        let of =
            |path: &Path| path.metadata().and_then(|found| found.modified()).expect("is there");
        run.files().map(|file| of(file.path)).collect::<Vec<_>>()
    };
    let aged = |made: Made| {
        for path in &made.files {
            let file = File::options().write(true).open(path).expect("opens");
            file.set_modified(old).expect("sets");
        }
        made
    };
    let made = aged(recipe().make());
    repair(made.path()).expect("repairs");
    assert_eq!(written(&made), [old; 2]);
    // One is closed, and the other gets what it lacks in a third file.
    let [holder, behind] = [recipe().make(), behind()].map(aged);
    assert_eq!(both(&behind, &holder).places[0].caught_up.frames, 2);
    assert_eq!((written(&holder), written(&behind)), (vec![old; 2], vec![old; 3]));
}

#[test]
fn files_without_frames_behind_one_that_is_gone_are_not_the_runs() {
    for is_gone in [true, false] {
        // The last file has none, and a power cut may have taken the one before it.
        let files = vec![vec![5, 7, 3], vec![4, 2, 6], vec![1], vec![]];
        let made = Recipe { files, ..recipe() }.make();
        if is_gone {
            std::fs::remove_file(&made.files[2]).expect("removes");
        }
        let places = [place(made.path(), true)];
        let from = Interrupted::find(&places).and_then(Interrupted::take).expect("it goes on");
        let files = if is_gone { 2 } else { 4 };
        let place = &from.places[0];
        assert_eq!((place.next_index, place.files.len()), (files, files as usize));
        let audited = audit(&Run::open(made.path()).expect("opens")).expect("an audit");
        assert!(audited.incomplete.is_empty() && audited.problems.is_empty(), "{audited:?}");
        assert_eq!(made.files[3].with_extension("superseded").exists(), is_gone);
    }
}

#[test]
fn where_a_folder_may_be_away_nothing_is_cut_off_behind_a_missing_file() {
    for is_dealt in [false, true] {
        // The second file: missing, or never begun, as after a power cut; frames are cut off before
        // it, or nothing is missing between its neighbours.
        for (is_blank, below, first_item) in
            [(false, u64::MAX, 6), (true, u64::MAX, 6), (false, 2, 6), (false, u64::MAX, 3)]
        {
            let info: fn(FrameInfo) -> FrameInfo = match first_item {
                3 => |info| FrameInfo { sequence: info.sequence.min(3), ..info },
                _ => |info| info,
            };
            let files = vec![vec![5, 7, 3], vec![4, 2, 6], vec![1]];
            let made = Recipe { files, info, ..recipe() }.make();
            for (path, first_item) in made.files.iter().zip([0, 3, first_item]) {
                let part = serde_json::json!({ "number": 0, "count": 2, "first_item": first_item });
                if is_dealt {
                    change_header(path, 3, |metadata| metadata["part"] = part);
                }
            }
            match is_blank {
                true => std::fs::write(&made.files[1], [0_u8; 100]).expect("writes"),
                false => std::fs::remove_file(&made.files[1]).expect("removes"),
            }
            let before = [0, 2].map(|file: usize| std::fs::read(&made.files[file]).expect("reads"));
            let places = [RunPlace { is_dealt, ..place(made.path(), true) }];
            let found = Interrupted::find(&places).and_then(|found| found.take_below(below));
            let is_missing = !is_blank && below == u64::MAX && first_item > 3;
            match (found, is_missing) {
                (Err(StorageError::MissingFile { index: 1 }), true) => {
                    let after = [0, 2].map(|file: usize| std::fs::read(&made.files[file]));
                    assert!(before.into_iter().eq(after.map(|bytes| bytes.expect("reads"))));
                }
                (Ok(found), false) => {
                    let frames = 3.min(below) + u64::from(first_item == 3);
                    assert_eq!(found.places[0].frames, frames, "{is_dealt} {below}");
                }
                (found, _) => panic!("{is_dealt} {is_blank} {below}: {found:?}"),
            }
        }
    }
}

#[test]
fn a_place_that_is_not_required_is_cut_where_frames_are_missing() {
    let made = recipe().make();
    let info = |info| {
        let FrameInfo { sequence, .. } = info;
        FrameInfo { sequence: if sequence < 4 { sequence } else { sequence + 1 }, ..info }
    };
    // It has frames 0 to 3, 5 and 6; the last one is that of another epoch by now.
    let behind = Recipe { info, ..recipe() }.make();
    let (from, place) = taken(&made, behind.path());
    check_required(&made, &from);
    assert_eq!((place.left_out, place.end, place.frames), (None, 4, 4));
    let run = Run::open(behind.path()).expect("opens");
    assert_eq!((run.frames().len(), run.frames_missing()), (4, 0));
    assert!(behind.files[1].with_extension("superseded").is_file());
}

#[test]
fn a_place_that_cannot_take_part_is_left_out_and_costs_the_others_nothing() {
    let longer = || Recipe { files: vec![vec![5, 7, 3], vec![4, 2, 6, 1]], ..recipe() }.make();
    // Its folder is a file.
    let (made, file) = (recipe().make(), tempfile::NamedTempFile::new().expect("a file"));
    let (from, place) = taken(&made, file.path());
    check_required(&made, &from);
    assert!(place.left_out.expect("why").contains("tmp"));
    // What is to be cut off cannot be kept.
    let (made, full) = (recipe().make(), longer());
    std::fs::create_dir(full.files[1].with_extension("superseded")).expect("makes");
    let (from, place) = taken(&made, full.path());
    check_required(&made, &from);
    assert!(place.left_out.expect("why").contains("superseded"));
    // A process has it that does not answer.
    let (made, held) = (recipe().make(), longer());
    let lock = File::open(&held.files[1]).expect("opens");
    lock.lock().expect("locks");
    let before = std::fs::read(&held.files[1]).expect("reads");
    let (from, place) = taken(&made, held.path());
    check_required(&made, &from);
    assert!(place.left_out.is_some());
    assert_eq!(std::fs::read(&held.files[1]).expect("reads"), before);
    // Its files are of other sources.
    let (made, other) = (recipe().make(), Recipe { sources: 2, ..recipe() }.make());
    let (from, place) = taken(&made, other.path());
    check_required(&made, &from);
    assert!(place.left_out.is_some());
}

#[test]
fn a_part_of_a_target_goes_on_behind_its_items_whatever_their_numbers() {
    // Numbers fall behind the first file.
    let info = |info: FrameInfo| FrameInfo { sequence: (info.sequence + 3) % 6, ..info };
    let whole = |_: &Made| ();
    let torn = |made: &Made| {
        let second = made.frames[1][1].0.offset;
        let file = File::options().write(true).open(&made.files[1]).expect("opens");
        file.set_len(second + 100).expect("cuts");
    };
    // A power cut may take any write that was not synced, and leave those behind it.
    let without = |made: &Made, frame: usize| {
        let begin = made.frames[1][frame].0.offset as usize;
        let mut bytes = std::fs::read(&made.files[1]).expect("reads");
        bytes[begin..begin + 4_096].fill(0);
        std::fs::write(&made.files[1], bytes).expect("writes");
    };
    let repaired = |made: &Made| {
        without(made, 1);
        assert_eq!(repair(made.path()).expect("closes").closed(), 1);
    };
    // How many items were before the second file, what befell that, and what is kept.
    type Befall<'a> = &'a dyn Fn(&Made);
    let cases: [(u64, Befall<'_>, u64, u64); 7] = [
        (3, &whole, 6, 6),
        // Frames of the first file were sent again.
        (2, &whole, 5, 6),
        // What was between them is gone.
        (4, &whole, 3, 3),
        (3, &torn, 4, 4),
        (3, &|made| without(made, 1), 4, 4),
        (3, &|made| without(made, 0), 3, 3),
        // A repair lists what it finds.
        (3, &repaired, 4, 4),
    ];
    for (before, befall, items, frames) in cases {
        let made = Recipe { info, ..recipe() }.make();
        for (path, first_item) in made.files.iter().zip([0, before]) {
            let part = serde_json::json!({ "number": 0, "count": 2, "first_item": first_item });
            change_header(path, 3, |metadata| metadata["part"] = part);
        }
        befall(&made);
        let places = [RunPlace { is_dealt: true, ..place(made.path(), true) }];
        let from = Interrupted::find(&places).and_then(Interrupted::take).expect("it goes on");
        let place = &from.places[0];
        // A file that counts items which are gone would be in the way of all behind it.
        let next_index = if before > 3 { 1 } else { 2 };
        assert_eq!((place.items, place.frames, place.next_index), (items, frames, next_index));
        assert!(Run::open(made.path()).expect("opens").closed());
        assert!(before <= 3 || made.files[1].with_extension("superseded").exists());
    }
}

#[test]
fn an_item_that_stands_in_two_files_of_a_part_counts_once_and_a_frame_that_is_two_items_twice() {
    for (before, frames, events) in [(2, 6, 27), (3, 7, 30)] {
        let made = Recipe { repeats: true, counts_repeated: before == 3, ..recipe() }.make();
        for (path, first_item) in made.files.iter().zip([0, before]) {
            let part = serde_json::json!({ "number": 0, "count": 2, "first_item": first_item });
            change_header(path, 3, |metadata| metadata["part"] = part);
        }
        let places = [RunPlace { is_dealt: true, ..place(made.path(), true) }];
        let from = Interrupted::find(&places).and_then(Interrupted::take).expect("it goes on");
        let place = &from.places[0];
        assert_eq!((place.items, place.frames, place.events), (before + 4, frames, events));
        assert_eq!(place.ledger, made.ledger);
        // The table of the last file has the sum.
        let run = Run::open(made.path()).expect("opens");
        assert_eq!(run.recorded_ledger().expect("reads"), Some(recompute(&run).0));
    }
}

#[test]
fn a_part_is_cut_at_its_first_item_with_a_number_that_is_not_the_runs() {
    let info = |info: FrameInfo| FrameInfo { sequence: (info.sequence + 3) % 6, ..info };
    // Files with 3, 4, 5 and 0, 1, 2.
    for (below, items, files) in [(6, 6, 2), (5, 2, 1), (3, 0, 1)] {
        let made = Recipe { info, ..recipe() }.make();
        for (path, first_item) in made.files.iter().zip([0, 3]) {
            let part = serde_json::json!({ "number": 0, "count": 2, "first_item": first_item });
            change_header(path, 3, |metadata| metadata["part"] = part);
        }
        let places = [RunPlace { is_dealt: true, ..place(made.path(), true) }];
        for _ in 0..2 {
            let found = Interrupted::find(&places).and_then(|found| found.take_below(below));
            let place = &found.expect("it goes on").places[0];
            assert_eq!((place.items, place.frames, place.next_index), (items, items, files));
        }
        let sum = audit(&Run::open(made.path()).expect("opens")).expect("an audit");
        assert!(sum.problems.is_empty(), "{below}: {sum:?}");
    }
}

/// Two required places; what of them is left.
fn both(first: &Made, second: &Made) -> Resumable {
    let places = [place(first.path(), true), place(second.path(), true)];
    Interrupted::find(&places).and_then(Interrupted::take).expect("it goes on")
}

/// Each place balances by itself, and both together have these frames, each once.
fn check_both(made: [&Made; 2], frames: usize) {
    for one in made {
        let run = Run::open(one.path()).expect("opens");
        assert!(verify(&run, |_| {}).is_intact());
        assert_eq!((run.frames().len(), run.frames_missing()), (frames, 0));
        let audited = audit(&run).expect("an audit");
        assert!(audited.problems.is_empty() && audited.differences.is_empty(), "{audited:?}");
    }
    let run = Run::open_folders(&made.map(Made::path), RunOptions::default()).expect("opens");
    assert_eq!(run.frames().len(), frames);
    let keys = (0..frames).flat_map(|frame| run.events(frame).expect("reads").keys().to_vec());
    let expected = (0..run.event_counts().expect("reads").events).map(key);
    assert!(keys.eq(expected));
}

/// A place that was behind: the others' last two frames are missing, and a third is torn.
fn behind() -> Made {
    let made = recipe().make();
    let file = File::options().write(true).open(&made.files[1]).expect("opens");
    file.set_len(made.frames[1][1].0.offset + 100).expect("cuts");
    made
}

#[test]
fn a_required_place_that_lacks_frames_gets_those_of_another_as_they_are_stored() {
    for codec in [Codec::None, Codec::Lz4] {
        let holder = Recipe { codec, ..recipe() }.make();
        let behind = behind();
        let from = both(&behind, &holder);
        check_required(&holder, &Resumable { places: from.places[1..].to_vec(), ..from.clone() });
        assert_eq!(from.cut_off, None);
        let [own, other] = &from.places[..] else { panic!("two places") };
        let CaughtUp { place, frames, bytes } = own.caught_up;
        assert_eq!((place, frames, other.caught_up), (1, 2, CaughtUp::default()));
        assert_eq!((own.frames, own.events, own.end), (other.frames, other.events, 6));
        assert_eq!((own.next_index, own.files.len()), (3, 3));
        assert_eq!(own.ledger, other.ledger);
        assert_eq!(own.files[2].metadata().expect("is there").len(), bytes);
        check_both([&behind, &holder], 6);
        // The columns are those of the holder.
        let copy = std::fs::read(&own.files[2]).expect("reads");
        let copy = FileReader::open(&copy[..]).expect("opens");
        assert_eq!((copy.header().epoch, copy.header().file_index), (1, 2));
        for (index, (_, entries)) in holder.frames[1][1..].iter().enumerate() {
            for entry in entries.iter().filter(|entry| entry.id != 3) {
                let found = copy.find(index, entry.id).expect("reads").expect("has it");
                let of = |one: &ColumnEntry| (one.codec, one.crc32c, one.stored_bytes, one.rows);
                assert_eq!(of(&found), of(entry));
            }
        }
        // What is left of the run that goes on is left alone by another resume, in any order.
        let again = both(&holder, &behind);
        assert_eq!((again.sequence, again.epoch, again.cut_off), (6, 2, None));
        assert!(again.places.iter().all(|place| place.caught_up.frames == 0));
        check_both([&behind, &holder], 6);
    }
}

#[test]
fn a_place_counts_of_copied_frames_what_it_has_not_counted_before() {
    // The holder had lost its fourth frame: what it had counted of that came with the fifth.
    let skipped = |frame| (frame == 2).then_some(Entry::FragmentsDiscardedDisk);
    let (behind, holder) = (behind(), Recipe { skipped, ..recipe() }.make());
    let from = both(&behind, &holder);
    assert_eq!(from.sequence, 6);
    let [own, other] = [0, 1].map(|place: usize| from.places[place].ledger.total());
    assert_eq!(own[Entry::FragmentsDiscardedDisk], 0);
    assert!(other[Entry::FragmentsDiscardedDisk] > 0);
    assert_eq!(own[Entry::FragmentsReceived], other[Entry::FragmentsReceived]);
    assert_eq!(own[Entry::FragmentsRecorded], own[Entry::FragmentsReceived]);
    let audited = audit(&Run::open(behind.path()).expect("opens")).expect("an audit");
    assert!(audited.problems.is_empty() && audited.differences.is_empty(), "{audited:?}");
}

#[test]
fn a_run_goes_on_before_a_frame_that_its_only_holder_cannot_give() {
    let behind = behind();
    // Its fifth frame is damaged, and the lowest is the position.
    let damaged = recipe().make();
    damaged.damage(1, damaged.offset(1, 1, 6) + 1);
    let from = both(&behind, &damaged);
    assert_eq!(from.sequence, 4);
    let why = from.cut_off.expect("why");
    assert!(why.contains("frame 4") && why.contains("cannot be read"), "{why}");
    check_both([&behind, &damaged], 4);

    // Its last frame is: one is copied.
    let (behind, damaged) = (self::behind(), recipe().make());
    damaged.damage(1, damaged.offset(1, 2, 6) + 1);
    let from = both(&behind, &damaged);
    assert_eq!((from.sequence, from.places[0].caught_up.frames), (5, 1));
    assert!(from.cut_off.expect("why").contains("frame 5"));
    check_both([&behind, &damaged], 5);

    // It has lost it by itself.
    let behind = self::behind();
    let skipped = |frame| (frame == 4).then_some(Entry::FragmentsDiscardedDisk);
    let lost = Recipe { skipped, ..recipe() }.make();
    let from = both(&behind, &lost);
    assert_eq!((from.sequence, from.places[0].caught_up.frames), (4, 0));
    assert!(from.cut_off.expect("why").contains("frame 4"));
    check_both([&behind, &lost], 4);
}

#[test]
fn a_place_whose_last_frame_stands_for_later_ones_gets_what_it_lacks_before_it() {
    // Its fourth frame is torn, and the fifth stands for the sixth, too.
    let behind = Recipe {
        files: vec![vec![5, 7, 3], vec![4, 2]],
        skipped: |frame| (frame == 4).then_some(Entry::FragmentsDiscardedDisk),
        info_skipped: |info| FrameInfo { kind: FrameKind::SKIPPED, rows: 2, ..info },
        ..recipe()
    };
    let behind = behind.make();
    behind.damage(1, behind.offset(1, 0, 6) + 1);
    // Of the other one's the sixth is.
    let holder = recipe().make();
    holder.damage(1, holder.offset(1, 2, 6) + 1);
    let from = both(&behind, &holder);
    assert_eq!((from.sequence, from.places[0].caught_up.frames), (5, 2));
    assert_eq!(from.places[0].ledger, from.places[1].ledger);
    check_both([&behind, &holder], 5);
}

#[test]
fn parts_that_are_cut_off_one_after_the_other_are_all_kept() {
    let made = recipe().make();
    let cut = |frame: usize, name: &str| {
        made.damage(1, made.offset(1, frame, 6) + 1);
        let FrameSummary { offset, frame_bytes, .. } = made.frames[1][frame].0;
        let bytes = std::fs::read(&made.files[1]).expect("reads");
        let bytes = bytes[offset as usize..(offset + frame_bytes) as usize].to_vec();
        let places = [place(made.path(), true)];
        let from = Interrupted::find(&places).and_then(Interrupted::take).expect("it goes on");
        assert_eq!(from.sequence, 3 + frame as u64);
        (made.files[1].with_extension(name), bytes)
    };
    for (path, bytes) in [cut(2, "superseded"), cut(1, "2.superseded")] {
        assert!(std::fs::read(&path).expect("reads") == bytes, "{}", path.display());
    }
}

#[test]
fn copies_that_cannot_be_written_leave_the_lowest_as_the_position() {
    let (behind, holder) = (behind(), recipe().make());
    // A folder stands where the file with the copies is to be.
    std::fs::create_dir(behind.path().join("run-00002.catch")).expect("makes");
    let from = both(&behind, &holder);
    assert_eq!((from.sequence, from.places[0].caught_up.frames), (4, 0));
    let why = from.cut_off.expect("why");
    assert!(why.contains("cannot be copied") && why.contains("run-00002"), "{why}");
    std::fs::remove_dir(behind.path().join("run-00002.catch")).expect("removes");
    check_both([&behind, &holder], 4);
}

/// The required run, beside a storage node that has frames below `end`, with that sum.
fn beside(made: &Made, end: u64, ledger: &Ledger) -> Result<Resumable, StorageError> {
    beside_with(made, end, ledger, |_| true)
}

/// The same, where the node stores some sources.
fn beside_with(
    made: &Made,
    end: u64,
    ledger: &Ledger,
    is_stored: fn(usize) -> bool,
) -> Result<Resumable, StorageError> {
    let bytes = std::fs::read(&made.files[0]).expect("reads");
    let header = FileReader::open(&bytes[..]).expect("opens").header().clone();
    let mut header = FileHeader { epoch: 6, ..header };
    for (number, source) in Arc::make_mut(&mut header.schema).sources.iter_mut().enumerate() {
        source.stored = is_stored(number);
    }
    let (shown, ledger) = ("the storage node node:1".to_owned(), ledger.clone());
    let node = Elsewhere { place: 1, shown, header, end, ledger };
    let none = RunPlace { folders: Vec::new(), ..place(Path::new(""), false) };
    let places = [place(made.path(), true), none];
    Interrupted::find_beside(&places, &[node]).and_then(Interrupted::take)
}

#[test]
fn a_place_elsewhere_gets_copies_of_the_frames_that_it_lacks() {
    let (behind, holder) = (behind(), recipe().make());
    let own = Interrupted::find(&[place(behind.path(), true)]).and_then(Interrupted::take);
    let mut ledger = own.expect("it goes on").places.swap_remove(0).ledger;
    let from = beside(&holder, 4, &ledger).expect("it goes on");
    assert_eq!((from.sequence, from.epoch, &from.cut_off), (6, 7, &None));
    let [here, node] = &from.places[..] else { panic!("two places") };
    assert_eq!((here.end, node.end, node.caught_up.frames), (6, 4, 0));
    let bytes = std::fs::read(&holder.files[0]).expect("reads");
    let header = FileReader::open(&bytes[..]).expect("opens").header().clone();
    let mut copies = from.lacking(1, header).expect("its files can be read");
    for number in 4..6 {
        let file = copies.next_file().expect("reads").expect("a frame");
        let reader = FileReader::open(&file).expect("opens");
        let [frame] = reader.frames() else { panic!("one frame") };
        assert_eq!(frame.info.sequence, number);
        let (counts, problems) = frame_ledger(&reader, 0);
        assert!(problems.is_empty(), "{problems:?}");
        ledger.add(&counts);
    }
    assert!(copies.next_file().expect("reads").is_none());
    for source in &mut ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
    assert_eq!(ledger, here.ledger);
}

#[test]
fn a_frame_that_stands_for_some_beyond_the_end_counts_nothing_that_another_place_counts_again() {
    // The fifth frame stands for the sixth, too, which the node lacks.
    let made = Recipe {
        files: vec![vec![5, 7, 3], vec![4, 2]],
        skipped: |frame| (frame == 4).then_some(Entry::FragmentsDiscardedDisk),
        info_skipped: |info| FrameInfo { kind: FrameKind::SKIPPED, rows: 2, ..info },
        ..recipe()
    };
    let of_node: [fn(usize) -> bool; 3] = [|_| true, |source| source == 0, |_| false];
    for is_stored in of_node {
        let made = made.make();
        let from = beside_with(&made, 5, &made.ledger, is_stored).expect("it goes on");
        let here = &from.places[0];
        let is_kept = !(0..3).any(is_stored);
        assert_eq!((from.sequence, here.end), (5, if is_kept { 5 } else { 4 }));
        // Whatever the node does not store is counted here alone.
        for (source, all) in made.ledger.sources.iter().enumerate() {
            let is_all = here.counted(source) == *all;
            assert_eq!(is_all, !is_stored(source), "source {source}");
            let in_frames = here.ledger.sources[source] == *all;
            assert_eq!(in_frames, is_kept, "source {source}");
        }
        assert!(verify(&Run::open(made.path()).expect("opens"), |_| {}).is_intact());
    }
}

#[test]
fn a_run_ends_where_a_folder_does_if_a_place_elsewhere_has_more() {
    let made = recipe().make();
    let from = beside(&made, 9, &made.ledger).expect("it goes on");
    assert_eq!((from.sequence, from.places[0].end, from.places[1].end), (6, 6, 9));
    let why = from.cut_off.expect("why");
    assert!(why.contains("frame 6 ") && why.contains("node:1 cannot be read here"), "{why}");
}

#[test]
fn a_run_is_cut_where_its_sender_says() {
    for (below, end) in [(5, 5), (3, 3), (0, 0), (6, 6), (7, 6)] {
        let made = recipe().make();
        let found = Interrupted::find(&[place(made.path(), true)]);
        let from = found.and_then(|found| found.take_below(below)).expect("it goes on");
        assert_eq!((from.sequence, from.places[0].frames), (end, end));
        let run = Run::open(made.path()).expect("opens");
        assert!(verify(&run, |_| {}).is_intact());
        assert_eq!(run.frames().len() as u64, end);
    }
}
