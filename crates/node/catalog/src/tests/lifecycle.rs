use catchment_model::{Entry, RunId};
use rusqlite::Connection;

use super::*;
use crate::schema::{self, Paths};
use crate::{
    CATALOG_FILE, CATALOG_FOLDER, COMMENT_BYTES_MAX, CatalogError, Quality, REMARKS_MAX,
    RUN_NUMBER_MAX, RunState, SCHEMA_VERSION, WHO_BYTES_MAX,
};

#[test]
fn numbers_rise_and_are_never_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let first = take(&mut catalog, "");
    assert_eq!(first.number(), 1);
    fail_run(&mut catalog, &first, "no socket");
    drop(first);
    assert_eq!(take(&mut catalog, "").number(), 2);
    drop(catalog);
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let mut wanted = |number| {
        let request = NumberRequest { wanted: Some(number), ..request("") };
        catalog.next_run_number(&request).unwrap().number()
    };
    assert_eq!(wanted(2), 3, "it was given");
    assert_eq!(wanted(17), 17);
    assert_eq!(wanted(9), 18, "nobody knows whether it was given before the catalogue was");
    assert_eq!(wanted(0), 19);
    assert_eq!(wanted(u64::MAX), 20);
    assert_eq!(wanted(RUN_NUMBER_MAX), RUN_NUMBER_MAX);
    let error = catalog.next_run_number(&request("")).unwrap_err();
    assert!(matches!(error, CatalogError::NoNumbers { highest: RUN_NUMBER_MAX }), "{error}");
}

#[test]
fn a_run_is_told_from_its_start_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let wanted = NumberRequest { configuration: "[run]\n", ..request("cosmics; 50% \"full\"") };
    let live = catalog.next_run_number(&wanted).unwrap();
    assert_eq!(catalog.run(1).unwrap().run.state, RunState::Starting);

    let files = Files::of("run-a", 7, 1);
    files.write(folder.path());
    let path = folder.path().join("run-a");
    begin_run(&mut catalog, &live, files.id, &path, second(1)).unwrap();
    let run = catalog.run(1).unwrap().run;
    assert_eq!((run.state, run.folder.as_deref()), (RunState::Recording, Some("run-a")));
    assert_eq!((run.started, run.ended, run.configuration), (Some(second(1)), None, Some(1)));

    end_run(&mut catalog, &live, &ended(9, 6));
    drop(live);
    catalog.scan(1).unwrap();
    let detail = catalog.run(1).unwrap();
    let run = &detail.run;
    assert_eq!(
        (run.state, run.reason.as_ref(), run.ended),
        (RunState::Complete, None, Some(second(9)))
    );
    assert_eq!((run.events, run.fragments, run.loss_count), (Some(6), Some(6), Some(2)));
    assert_eq!((run.who.as_str(), run.comment.as_str()), ("anna", "cosmics; 50% \"full\""));
    let books: Vec<_> = detail.ledger.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    // It ended in order: what was recorded is durable, whatever its TOC could know.
    let (received, recorded) = (("fragments_received", 8), ("fragments_recorded", 6));
    let expected = [received, recorded, ("fragments_durable", 6), ("fragments_late", 2)];
    assert_eq!(books, expected);
    let file = &detail.file_rows[0];
    assert_eq!((file.name.as_str(), file.events, file.closed), ("run-a-00000.catch", 6, true));
    assert_eq!(run.bytes, Some(path.join(&file.name).metadata().unwrap().len()));
    let frames = catalog.frames(1).unwrap();
    let of = |span: &crate::FrameSpan| (span.first, span.count, span.key_first, span.key_last);
    assert_eq!(frames.iter().map(of).collect::<Vec<_>>(), [(0, 1, 0, 2), (1, 1, 3, 5)]);

    let json = serde_json::to_value(&detail).unwrap();
    assert_eq!(json["id"], files.id.to_string());
    assert_eq!(json["ended"], "2026-11-21T00:00:09.000Z");
    assert_eq!(json["ledger"]["fragments_late"], 2);
}

#[test]
fn frames_of_a_file_are_told_in_a_bounded_number_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files { frames: 150, ..Files::of("run-long", 1, 1) };
    files.write(folder.path());
    let catalog = Catalog::open(folder.path()).unwrap();
    let frames = catalog.frames(1).unwrap();
    assert_eq!(frames.len(), 50);
    assert_eq!((frames[1].first, frames[1].count, frames[1].rows), (3, 3, 9));
    assert_eq!((frames[49].key_last, frames[49].time_last_ns), (449, second(149).0));
}

#[test]
fn a_run_whose_process_is_gone_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let (starting, recording) = (take(&mut catalog, ""), take(&mut catalog, ""));
    let files = Files { ended: false, ..Files::of("run-a", 7, 2) };
    files.write(folder.path());
    let path = folder.path().join("run-a");
    begin_run(&mut catalog, &recording, files.id, &path, second(1)).unwrap();
    drop(catalog);
    let states = |catalog: &Catalog| -> Vec<_> {
        told(catalog).into_iter().map(|(_, state, _)| state).collect()
    };
    // Alive: opening it again changes nothing.
    assert_eq!(states(&Catalog::open(folder.path()).unwrap()), ["starting", "recording"]);
    drop((starting, recording));
    let read_only = Catalog::open_read_only(folder.path()).unwrap();
    assert_eq!(states(&read_only), ["failed", "interrupted"]);
    drop(read_only);
    let catalog = Catalog::open(folder.path()).unwrap();
    assert_eq!(states(&catalog), ["failed", "interrupted"]);
    let run = catalog.run(2).unwrap().run;
    assert_eq!((run.events, run.ended), (Some(6), Some(second(1))), "what is on disk is told");
}

#[test]
fn what_a_killed_run_took_of_the_disk_is_given_back_when_it_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let live = take(&mut catalog, "");
    let files = Files::of("run-a", 7, 1);
    files.write(folder.path());
    let path = folder.path().join("run-a");
    begin_run(&mut catalog, &live, files.id, &path, second(1)).unwrap();
    let run = catchment_storage::Run::open(&path).unwrap();
    let last = run.frames().last().unwrap().summary;
    let end = last.offset + last.frame_bytes;
    let file = run.files().next().unwrap().path.to_owned();
    drop(run);
    // As a recorder leaves it: no TOC, blocks ahead, and the next file made.
    let write = |path: &std::path::Path| {
        std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap()
    };
    write(&file).set_len(end).unwrap();
    write(&file).set_len(end + (1 << 20)).unwrap();
    let ahead = path.join("run-a-00001.catch");
    write(&ahead).set_len(1 << 20).unwrap();
    drop((catalog, live));

    let catalog = Catalog::open(folder.path()).unwrap();
    let detail = catalog.run(1).unwrap();
    assert_eq!((detail.run.state, detail.run.events), (RunState::Interrupted, Some(6)));
    assert_eq!((detail.run.bytes, detail.file_rows.len()), (Some(end), 1));
    assert!(!ahead.exists() && file.metadata().unwrap().len() == end);
}

#[test]
fn what_a_recorder_counted_outlives_files_that_have_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let live = take(&mut catalog, "");
    let files = Files { ended: false, ..Files::of("run-a", 7, 1) };
    files.write(folder.path());
    begin_run(&mut catalog, &live, files.id, &folder.path().join("run-a"), second(1)).unwrap();
    let mut end = RunEnd { fault: Some("disk full".into()), ..ended(2, 6) };
    let ledger = end.totals.ledger.as_mut().unwrap();
    ledger.sources[0][Entry::FragmentsDiscardedDisk] = 31;
    end_run(&mut catalog, &live, &end);
    catalog.scan(1).unwrap();
    let detail = catalog.run(1).unwrap();
    assert_eq!((detail.run.loss_count, detail.file_rows.len()), (Some(33), 1));
    assert!(detail.ledger.contains(&("fragments_discarded_disk".to_owned(), 31)));
}

#[test]
fn a_run_of_which_data_were_removed_or_discarded_is_not_called_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let lost = [None, Some(Entry::FragmentsDiscardedDisk), Some(Entry::FragmentsRemoved)];
    let words = lost.map(|lost| {
        let live = take(&mut catalog, "");
        let (id, path) = (RunId([live.number() as u8; 16]), folder.path().join("run-x"));
        begin_run(&mut catalog, &live, id, &path, second(1)).unwrap();
        let mut end = ended(2, 6);
        let mut ledger = Ledger::new(1);
        if let Some(entry) = lost {
            ledger.sources[0][entry] = 31;
        }
        end.totals.ledger = Some(ledger);
        end_run(&mut catalog, &live, &end);
        let run = catalog.run(live.number()).unwrap().run;
        assert_eq!(run.state, RunState::Complete);
        run.outcome()
    });
    assert_eq!(words, ["complete", "ended, with loss", "ended, with loss"]);
}

#[test]
fn a_run_that_ended_in_order_and_could_not_say_so_is_found_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let live = take(&mut catalog, "");
    let files = Files::of("run-a", 7, 1);
    files.write(folder.path());
    begin_run(&mut catalog, &live, files.id, &folder.path().join("run-a"), second(1)).unwrap();
    drop((catalog, live));
    let catalog = Catalog::open(folder.path()).unwrap();
    let detail = catalog.run(1).unwrap();
    assert_eq!((detail.run.state, detail.run.reason), (RunState::Complete, None));
    assert_eq!((detail.run.events, detail.run.loss_count), (Some(6), Some(2)));
    assert_eq!(detail.ledger[0], ("fragments_received".to_owned(), 8));
}

#[test]
fn the_end_of_a_run_counts_whatever_the_catalogue_thought_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let live = LiveRun::without_catalog(folder.path(), Some(4)).unwrap();
    assert_eq!(live.number(), 4);
    let mut catalog = Catalog::open(folder.path()).unwrap();
    assert_eq!(take(&mut catalog, "").number(), 5);
    begin_run(&mut catalog, &live, RunId([1; 16]), &folder.path().join("run-x"), second(1))
        .unwrap();
    let end = RunEnd { fault: Some("disk full".into()), ..ended(2, 3) };
    end_run(&mut catalog, &live, &end);
    let run = catalog.run(4).unwrap().run;
    assert_eq!((run.state, run.reason.as_deref()), (RunState::Fault, Some("disk full")));
    let error =
        begin_run(&mut catalog, &live, RunId([2; 16]), folder.path(), second(1)).unwrap_err();
    assert!(matches!(error, CatalogError::OtherRun { number: 4, .. }), "{error}");
}

#[test]
fn comments_are_kept_as_they_are_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    drop(take(&mut catalog, ""));
    for comment in ["'; DROP TABLE runs; --", "Überprüfung \u{1f52d}\nzweite Zeile", "%_\\", ""] {
        catalog.set_comment(1, comment).unwrap();
        assert_eq!(catalog.run(1).unwrap().run.comment, comment);
    }
    catalog.set_comment(1, &"x".repeat(COMMENT_BYTES_MAX)).unwrap();
    let error = catalog.set_comment(1, &"x".repeat(COMMENT_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.to_string(), "expected a comment of at most 16384 bytes, got 16385 bytes");
    for bad in ["bell \u{7}", "\u{1b}[2J", "nul \0", "\u{9b}0m"] {
        assert!(matches!(catalog.set_comment(1, bad), Err(CatalogError::Text { .. })), "{bad:?}");
    }
    assert_eq!(catalog.run(1).unwrap().run.comment.len(), COMMENT_BYTES_MAX);
    let who = "w".repeat(WHO_BYTES_MAX + 1);
    let wrong = NumberRequest { who: &who, ..request("") };
    assert!(matches!(catalog.next_run_number(&wrong), Err(CatalogError::Text { .. })));
    catalog.set_quality(1, Quality::Questionable).unwrap();
    assert_eq!(catalog.run(1).unwrap().run.quality, Quality::Questionable);
    let missing = catalog.set_quality(2, Quality::Bad).unwrap_err();
    assert_eq!(missing.to_string(), "there is no run 2 in the catalogue");
}

#[test]
fn remarks_are_appended_and_none_takes_the_place_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let first = remark(0, "start", "cosmics");
    let request = NumberRequest { remark: Some(&first), ..request("cosmics") };
    drop(catalog.next_run_number(&request).unwrap());
    let later = [remark(2, "stop", "beam is gone"), remark(1, "remark", "noisy\n\u{1f52d}")];
    for remark in &later {
        catalog.add_remark(1, remark).unwrap();
        // Told twice, it is there once: what waits is entered again by whoever is next.
        catalog.add_remark(1, remark).unwrap();
    }
    let [stop, noisy] = later;
    let all = [first, noisy, stop];
    assert_eq!(catalog.run(1).unwrap().remarks, all);
    assert_eq!(catalog.run(1).unwrap().run.comment, "cosmics", "what it was started for");
    for bad in ["", "  ", "bell \u{7}", "\u{1b}[2J"] {
        let refused = catalog.add_remark(1, &remark(3, "remark", bad));
        assert!(matches!(refused, Err(CatalogError::Text { .. })), "{bad:?}");
    }
    let missing = catalog.add_remark(2, &remark(3, "remark", "x")).unwrap_err();
    assert_eq!(missing.to_string(), "there is no run 2 in the catalogue");
    for at in all.len()..REMARKS_MAX {
        catalog.add_remark(1, &remark(at as u64, "remark", "again")).unwrap();
    }
    let many = catalog.add_remark(1, &remark(9_999, "remark", "x")).unwrap_err();
    assert!(many.is_answer() && many.to_string().contains("at most 1000 remarks"), "{many}");
    assert_eq!(catalog.run(1).unwrap().remarks.len(), REMARKS_MAX);
}

#[test]
fn a_configuration_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    assert_eq!(catalog.put_configuration("a = 1\n", "anna", second(1)).unwrap(), 1);
    assert_eq!(catalog.put_configuration("a = 2\n", "bert", second(2)).unwrap(), 2);
    assert_eq!(catalog.put_configuration("a = 1\n", "carl", second(3)).unwrap(), 1);
    let versions = catalog.configurations().unwrap();
    assert_eq!(versions.iter().map(|one| one.version).collect::<Vec<_>>(), [2, 1]);
    let one = catalog.configuration(1).unwrap();
    assert_eq!(
        (one.text.as_str(), one.about.who.as_str(), one.about.bytes),
        ("a = 1\n", "anna", 6)
    );
    let digest = "cb78bd8a17f7b751fe0d4663366dcbc257204033ef7ddd64b1f2969573b5b2e2";
    assert_eq!(one.about.sha256, digest);
    assert!(matches!(catalog.configuration(3), Err(CatalogError::NoConfiguration { version: 3 })));
}

#[test]
fn an_older_catalogue_is_brought_up_to_date_and_a_newer_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::new(folder.path());
    paths.make().unwrap();
    let path = paths.database();
    let mut old = Connection::open(&path).unwrap();
    schema::migrate(&mut old, &path, 1).unwrap();
    old.execute("UPDATE numbers SET highest = 41", []).unwrap();
    let run = "INSERT INTO runs (number, taken_ns, started_ns, who, comment, state, quality) \
        VALUES (?, 1, 7, 'anna', ?, 'complete', 'good')";
    old.execute(run, (41, "cosmics")).unwrap();
    old.execute(run, (40, "")).unwrap();
    drop(old);
    // Also by those who only want to read.
    let read = Catalog::open_read_only(folder.path()).unwrap();
    let (before, without) = (read.run(41).unwrap(), read.run(40).unwrap());
    drop(read);
    assert_eq!((before.run.comment.as_str(), before.run.emulated), ("cosmics", false));
    // Who wrote it nobody knows: anybody could replace it.
    let comment = Remark { who: String::new(), time: Utc(7), ..remark(0, "comment", "cosmics") };
    assert_eq!((before.remarks, without.remarks), (vec![comment], vec![]));
    let mut catalog = Catalog::open(folder.path()).unwrap();
    assert_eq!(take(&mut catalog, "").number(), 42);
    assert!(catalog.copies(42).unwrap().is_empty());
    drop(catalog);

    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    drop(newer);
    let wanted = format!("has version {}, this program knows versions up to", SCHEMA_VERSION + 1);
    for error in [
        Catalog::open(folder.path()).unwrap_err(),
        Catalog::open_read_only(folder.path()).unwrap_err(),
        crate::rebuild(folder.path(), |_, _| ()).unwrap_err(),
    ] {
        assert!(error.to_string().contains(&wanted), "{error}");
    }
}

#[test]
fn another_programs_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(CATALOG_FOLDER).join(CATALOG_FILE);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    Connection::open(&path).unwrap().execute("CREATE TABLE mine (x)", []).unwrap();
    let error = Catalog::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("another program's database"), "{error}");
    let tables: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn reading_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let error = Catalog::open_read_only(folder.path()).unwrap_err();
    assert!(matches!(error, CatalogError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("catchment catalog rebuild"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
