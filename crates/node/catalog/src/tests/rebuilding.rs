use std::time::{Duration, SystemTime};

use catchment_frame::{ChannelInfo, Dtype};
use catchment_model::TimeScale;
use catchment_storage::{ChannelColumn, ChannelFrame, Run, list_locations};

use super::*;
use crate::schema::Paths;
use crate::{Quality, rebuild};

fn again(folder: &Path) -> crate::RebuildReport {
    rebuild(folder, |_, _| ()).unwrap()
}

#[test]
fn what_stands_in_no_file_comes_from_the_old_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut catalog = Catalog::open(folder).unwrap();
    let failed = take(&mut catalog, "tried");
    fail_run(&mut catalog, &failed, "no socket");
    let request = NumberRequest { configuration: "[run]\nnumber = 2\n", ..request("kept") };
    let live = catalog.next_run_number(&request).unwrap();
    Files::of("run-b", 2, 2).write(folder);
    begin_run(&mut catalog, &live, RunId([2; 16]), &folder.join("run-b"), second(1)).unwrap();
    let end = |known: &mut RunKnown| {
        known.over = Some(Over::Ended(ended(9, 6)));
        known.locations = locations(Some(2));
        known.targets = targets();
    };
    enter(&mut catalog, &live, end).unwrap();
    catalog.scan(2).unwrap();
    catalog.set_quality(2, Quality::Good).unwrap();
    for (run, text) in [(1, "cable"), (2, "beam is gone"), (2, "noisy")] {
        catalog.add_remark(run, &remark(3, "remark", text)).unwrap();
    }
    let copy = crate::Copy {
        file: 0,
        location: "tape".into(),
        checksum: "sha256:1".into(),
        bytes: 1,
        made: second(3),
        checked: None,
    };
    catalog.write(|connection| copy.insert(connection, 2)).unwrap();
    let before: Vec<_> = (1..=2).map(|number| catalog.run(number).unwrap()).collect();
    let frames = catalog.frames(2).unwrap();
    assert_eq!((before[0].remarks.len(), before[1].remarks.len()), (1, 2));
    assert_eq!((&before[0].targets, &before[1].targets), (&Vec::new(), &targets()));
    drop((catalog, live, failed));

    // With its files, and when these are elsewhere.
    for round in 0..2 {
        let report = again(folder);
        assert_eq!((report.runs, report.runs_with_files), (2, 1 - round));
        assert_eq!((report.problems.len(), report.old_catalog), (0, None));
        let catalog = Catalog::open(folder).unwrap();
        let after: Vec<_> = (1..=2).map(|number| catalog.run(number).unwrap()).collect();
        assert_eq!(before, after);
        assert_eq!(catalog.frames(2).unwrap(), frames);
        assert_eq!(catalog.copies(2).unwrap(), std::slice::from_ref(&copy));
        assert_eq!(catalog.configuration(1).unwrap().text, "[run]\nnumber = 2\n");
        drop(catalog);
        if round == 0 {
            std::fs::remove_dir_all(folder.join("run-b")).unwrap();
        }
    }
    let mut catalog = Catalog::open(folder).unwrap();
    assert_eq!(take(&mut catalog, "").number(), 3);
}

#[test]
fn where_frames_were_sent_comes_from_the_list_of_files_where_there_is_no_old_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 1).write(folder);
    list_locations(&folder.join("run-a"), RunId([1; 16]), &locations(Some(7))).unwrap();
    let is_listed = |catalog: &Catalog| catalog.run(1).unwrap().locations == locations(Some(7));
    assert!(is_listed(&Catalog::open(folder).unwrap()));
    // What the recorder said at the beginning is less.
    let mut catalog = Catalog::open(folder).unwrap();
    let begun = locations(None);
    catalog.write(|connection| crate::locations::put(connection, 1, &begun)).unwrap();
    assert!(!is_listed(&catalog));
    catalog.scan(1).unwrap();
    assert!(is_listed(&catalog));
    // One that is not understood hides neither the run nor the others.
    for change in ["kind = 'tape'", "files = '[[1'"] {
        let sql = format!("UPDATE locations SET {change} WHERE number = 0");
        catalog.write(|connection| connection.execute(&sql, [])).unwrap();
        assert_eq!(catalog.run(1).unwrap().locations, locations(Some(7))[1..], "{change}");
        catalog
            .write(|connection| crate::locations::put(connection, 1, &locations(Some(7))))
            .unwrap();
    }
}

#[test]
fn what_people_said_is_salvaged_from_a_catalogue_of_each_older_version() {
    for version in 1..crate::SCHEMA_VERSION {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        paths.make().unwrap();
        let path = paths.database();
        let mut old = rusqlite::Connection::open(&path).unwrap();
        crate::schema::migrate(&mut old, &path, version).unwrap();
        let run = "INSERT INTO runs (number, taken_ns, who, comment, state, quality) \
            VALUES (5, 7, 'anna', 'cosmics', 'failed', 'bad')";
        old.execute(run, []).unwrap();
        drop(old);
        assert_eq!(again(folder.path()).old_catalog, None, "version {version}");
        let detail = Catalog::open(folder.path()).unwrap().run(5).unwrap();
        assert_eq!((detail.run.comment.as_str(), detail.run.quality), ("cosmics", Quality::Bad));
        let texts: Vec<_> = detail.remarks.iter().map(|remark| remark.text.as_str()).collect();
        // Since version 4 remarks have a table of their own, which had none here.
        let expected: &[&str] = if version < 4 { &["cosmics"] } else { &[] };
        assert_eq!(texts, expected, "version {version}");
    }
}

#[test]
fn a_folder_without_a_catalogue_gets_one_of_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 1).write(folder);
    Files::of("run-b", 2, 1).write(folder);
    Files { ended: false, ..Files::of("run-c", 3, 30) }.write(folder);
    Files::of("run-d", 4, 0).write(folder);
    std::fs::create_dir(folder.join("notes")).unwrap();
    std::fs::create_dir(folder.join("run-e")).unwrap();
    std::fs::write(folder.join("run-e/run-e-00000.catch"), b"nothing of ours").unwrap();

    let report = again(folder);
    assert_eq!((report.runs, report.highest_number, &report.interrupted[..]), (4, 32, &[30][..]));
    let renumbered: Vec<_> = report
        .renumbered
        .iter()
        .map(|run| (run.number, run.number_in_files, &*run.folder))
        .collect();
    assert_eq!(renumbered, [(31, 1, "run-b"), (32, 0, "run-d")]);
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].contains("run-e-00000.catch"), "{:?}", report.problems);

    // It stays so, and a new one is made without being asked for.
    let states = |catalog: &Catalog| -> Vec<_> {
        told(catalog).into_iter().map(|(number, state, _)| (number, state)).collect()
    };
    let expected = [(1, "complete"), (30, "interrupted"), (31, "complete"), (32, "complete")];
    assert_eq!(states(&Catalog::open(folder).unwrap()), expected);
    again(folder);
    assert_eq!(states(&Catalog::open(folder).unwrap()), expected);
    std::fs::remove_dir_all(Paths::new(folder).folder()).unwrap();
    let mut catalog = Catalog::open(folder).unwrap();
    assert_eq!(states(&catalog), expected);
    let detail = catalog.run(1).unwrap();
    assert_eq!((detail.run.fragments, detail.run.loss_count), (Some(6), Some(2)));
    assert_eq!(detail.run.ended, Some(second(1)));
    assert_eq!(take(&mut catalog, "").number(), 33);
}

#[test]
fn a_run_that_was_emulated_says_so_whoever_entered_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files { emulated: true, ..Files::of("run-a", 1, 1) }.write(folder);
    Files::of("run-b", 2, 2).write(folder);
    let emulated = |catalog: &Catalog| {
        let runs = catalog.search(&crate::Search::default()).unwrap();
        runs.into_iter().rev().map(|run| run.emulated).collect::<Vec<_>>()
    };
    assert_eq!(emulated(&Catalog::open(folder).unwrap()), [true, false]);
    // One that the recorder enters, before there is a file; the next is a detector's again.
    let mut catalog = Catalog::open(folder).unwrap();
    let request = NumberRequest { emulated: true, ..request("") };
    drop((catalog.next_run_number(&request).unwrap(), take(&mut catalog, "")));
    assert_eq!(emulated(&catalog), [true, false, true, false]);
    drop(catalog);
    again(folder);
    assert_eq!(emulated(&Catalog::open(folder).unwrap()), [true, false, true, false]);
}

#[test]
fn a_number_that_no_run_has_any_more_is_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    drop(take(&mut catalog, ""));
    drop(take(&mut catalog, ""));
    drop(catalog);
    // The catalogue is gone, and what was before the last rebuild; the file beside them is there.
    std::fs::remove_file(Paths::new(folder.path()).database()).unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    assert_eq!(told(&catalog), []);
    assert_eq!(take(&mut catalog, "").number(), 3);
    drop(catalog);
    // And the other way round.
    std::fs::remove_file(Paths::new(folder.path()).numbers()).unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    assert_eq!(take(&mut catalog, "").number(), 4);
}

#[test]
fn a_run_that_is_being_recorded_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut catalog = Catalog::open(folder).unwrap();
    let live = take(&mut catalog, "now");
    Files { ended: false, ..Files::of("run-a", 1, 1) }.write(folder);
    begin_run(&mut catalog, &live, RunId([1; 16]), &folder.join("run-a"), second(1)).unwrap();
    drop(catalog);
    assert!(again(folder).interrupted.is_empty());
    let mut catalog = Catalog::open(folder).unwrap();
    assert_eq!(told(&catalog), [(1, "recording", "now".to_owned())]);
    end_run(&mut catalog, &live, &ended(9, 6));
    assert_eq!(told(&catalog), [(1, "complete", "now".to_owned())]);
}

#[test]
fn a_run_that_could_not_say_its_identity_is_known_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut catalog = Catalog::open(folder).unwrap();
    // Killed between the recorder's start and begin_run.
    drop(take(&mut catalog, "mine"));
    drop(catalog);
    Files { ended: false, ..Files::of("run-a", 1, 1) }.write(folder);
    again(folder);
    let catalog = Catalog::open(folder).unwrap();
    assert_eq!(told(&catalog), [(1, "interrupted", "mine".to_owned())]);
    assert_eq!(catalog.run(1).unwrap().run.id, Some(RunId([1; 16])));
}

#[test]
fn a_copy_in_other_frames_is_not_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 1).write(folder);
    Files { frames: 1, ..Files::of("run-a-reframed", 1, 1) }.write(folder);
    let report = again(folder);
    assert_eq!(report.runs, 1);
    assert_eq!(report.problems, ["run-a-reframed is the same run as run-a, which stands for both"]);
}

/// Writes a run of a channel whose sender's clock is so far ahead, or behind; its file is last
/// written five seconds after it was begun.
fn write_samples(folder: &Path, sample: impl Fn(u64) -> u64) {
    let channel = ChannelInfo::new("X:A", Dtype::U8, "1".parse().unwrap());
    let schema =
        Schema::channels(Vec::new(), vec![ChannelInfo { time_scale: TimeScale::Utc, ..channel }]);
    let run = NewRun::new(folder, "run", schema.unwrap()).unwrap();
    let mut writer = RunWriter::create(run, WriteOptions::small()).unwrap();
    let id = writer.run().schema.columns.iter().find_map(ChannelInfo::of).unwrap().id;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let first_sample = sample(now.as_secs());
    let (start_ns, end_ns) = (first_sample * 1_000_000_000, (first_sample + 3) * 1_000_000_000);
    let samples = ColumnData::Raw(&[1, 2, 3]);
    let columns = vec![ChannelColumn { id, first_sample, spans: &[], samples }];
    let (keys, increments) = ((0, 0), None);
    writer.write_channels(ChannelFrame { start_ns, end_ns, columns, keys, increments }).unwrap();
    let ending = Ending { run_ended: true, ..Ending::default() };
    let file = writer.finish(ending).unwrap().files.remove(0);
    let begun = Duration::from_nanos(Run::open(folder).unwrap().header().created_ns);
    let written = SystemTime::UNIX_EPOCH + begun + Duration::from_secs(5);
    std::fs::File::options().write(true).open(file).unwrap().set_modified(written).unwrap();
}

#[test]
fn a_run_whose_senders_clocks_are_wrong_ends_when_its_files_were_last_written() {
    const DAY_S: u64 = 86_400;
    let folder = tempfile::tempdir().unwrap();
    for (name, ahead) in [("run-ahead", true), ("run-behind", false)] {
        let sample = |now| if ahead { now + 53 * DAY_S } else { now - 53 * DAY_S };
        write_samples(&folder.path().join(name), sample);
    }
    let catalog = Catalog::open(folder.path()).unwrap();
    for (number, seconds) in [(1, 5), (2, 0)] {
        let run = catalog.run(number).unwrap().run;
        let (started, ended) = (run.started.unwrap().0, run.ended.unwrap().0);
        assert_eq!(ended - started, seconds * 1_000_000_000, "{:?}", run.folder);
    }
}
