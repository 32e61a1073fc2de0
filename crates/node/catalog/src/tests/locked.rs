//! A catalogue that another process has: it holds up no run, and knows of it later.

use super::*;
use crate::schema::Paths;
use crate::{
    Begun, CachedCatalog, CatalogError, Over, PATIENCE_AT_START, RunKnown, RunState, rebuild,
};

/// Has the catalogue, as another process may for as long as it likes.
fn lock(folder: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(Paths::new(folder).database()).unwrap();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    connection
}

fn is_in_use<T>(result: Result<T, CatalogError>) -> bool {
    matches!(result, Err(CatalogError::InUse { .. }))
}

#[test]
fn a_run_that_could_not_be_entered_is_entered_by_whoever_opens_the_catalogue_next() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = take(&mut Catalog::open(folder).unwrap(), "before");
    assert_eq!(first.number(), 1);
    let other = lock(folder);
    let open = || Catalog::open_within(folder, PATIENCE_AT_START).unwrap();
    assert!(is_in_use(open().next_run_number(&request("meanwhile"))));
    let live = LiveRun::without_catalog(folder, None).unwrap();
    assert_eq!(live.number(), 2);
    let (id, path) = (RunId([5; 16]), folder.join("run-b"));
    let mut known = RunKnown {
        who: "anna".into(),
        comment: "meanwhile".into(),
        configuration: "a = 1\n".into(),
        emulated: true,
        taken: second(0),
        remarks: vec![remark(0, "start", "meanwhile")],
        locations: locations(None),
        ..RunKnown::default()
    };
    known.keep(folder, &live).unwrap();
    known.begun = Some(Begun { id, folder: path, started: second(1) });
    assert!(is_in_use(open().enter(&live, &known)));
    known.keep(folder, &live).unwrap();
    drop(other);

    // Its beginning, while it is recorded.
    let detail = Catalog::open(folder).unwrap().run(2).unwrap();
    assert_eq!(detail.locations, locations(None));
    let row = detail.run;
    assert_eq!((row.state, row.started), (RunState::Recording, Some(second(1))));
    assert_eq!((row.who.as_str(), row.comment.as_str()), ("anna", "meanwhile"));
    assert_eq!((row.id, row.folder.as_deref()), (Some(id), Some("run-b")));
    let version = row.configuration.unwrap();
    assert_eq!(Catalog::open(folder).unwrap().configuration(version).unwrap().text, "a = 1\n");

    // And its end, when it is over.
    let other = lock(folder);
    let end = RunEnd { fault: Some("full".into()), ..ended(9, 6) };
    known.over = Some(Over::Ended(end));
    known.locations = locations(Some(2));
    known.targets = targets();
    known.remarks.push(remark(9, "stop", "the disk is full"));
    assert!(is_in_use(open().enter(&live, &known)));
    known.keep(folder, &live).unwrap();
    // A later version keeps one of a kind that this one does not know.
    let path = Paths::new(folder).pending(2);
    let text = std::fs::read_to_string(&path).unwrap();
    let later = text.replacen("\"locations\": [", "\"locations\": [{\"kind\":\"tape\"},", 1);
    assert_ne!(text, later);
    std::fs::write(&path, later).unwrap();
    drop((live, other));
    let detail = Catalog::open(folder).unwrap().run(2).unwrap();
    assert_eq!((detail.run.state, detail.run.reason.as_deref()), (RunState::Fault, Some("full")));
    assert_eq!((detail.run.ended, detail.run.events), (Some(second(9)), Some(6)));
    assert_eq!((detail.run.loss_count, detail.ledger.len()), (Some(2), 3));
    assert_eq!((detail.remarks, detail.run.emulated), (known.remarks, true));
    assert_eq!((detail.locations, detail.targets), (known.locations, known.targets));
    assert_eq!(std::fs::read_dir(Paths::new(folder).pending_folder()).unwrap().count(), 0);
    assert_eq!(take(&mut Catalog::open(folder).unwrap(), "after").number(), 3);
}

#[test]
fn an_end_stands_though_what_waited_before_it_is_entered_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut catalog = Catalog::open(folder).unwrap();
    let live = take(&mut catalog, "");
    let begun = Begun { id: RunId([1; 16]), folder: folder.join("run-a"), started: second(1) };
    let (begun, locations_then) = (Some(begun), locations(None));
    let mut known = RunKnown { begun, locations: locations_then, ..RunKnown::default() };
    known.keep(folder, &live).unwrap();
    let path = Paths::new(folder).pending(1);
    let waited = std::fs::read(&path).unwrap();
    known.over = Some(Over::Ended(RunEnd { fault: Some("full".into()), ..ended(9, 6) }));
    known.locations = locations(Some(2));
    catalog.enter(&live, &known).unwrap();
    // Its process is killed before it removes that.
    std::fs::write(&path, waited).unwrap();
    drop(live);
    let detail = Catalog::open(folder).unwrap().run(1).unwrap();
    assert_eq!((detail.run.state, detail.run.reason.as_deref()), (RunState::Fault, Some("full")));
    assert_eq!((detail.run.ended, detail.locations), (Some(second(9)), known.locations));
}

#[test]
fn a_run_whose_end_waits_does_not_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    let live = take(&mut catalog, "");
    begin_run(&mut catalog, &live, RunId([1; 16]), folder.path(), second(1)).unwrap();
    let over = Some(Over::Ended(ended(9, 6)));
    let begun = Begun { id: RunId([1; 16]), folder: folder.path().into(), started: second(1) };
    let known = RunKnown { begun: Some(begun), over, ..RunKnown::default() };
    known.keep(folder.path(), &live).unwrap();
    drop(live);
    assert!(matches!(catalog.resume(1), Err(CatalogError::NoRun { number: 1 })));
    assert_eq!(catalog.run(1).unwrap().run.state, RunState::Complete);
}

#[test]
fn no_number_is_given_twice_though_the_file_of_numbers_is_lost_while_another_has_the_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut catalog = Catalog::open(folder).unwrap();
    for number in 1..=3 {
        assert_eq!(take(&mut catalog, "").number(), number);
    }
    drop(catalog);
    let other = lock(folder);
    std::fs::remove_file(Paths::new(folder).numbers()).unwrap();
    assert_eq!(LiveRun::without_catalog(folder, None).unwrap().number(), 4);
    // Nor though it is a copy from before.
    std::fs::write(Paths::new(folder).numbers(), "2\n").unwrap();
    assert_eq!(LiveRun::without_catalog(folder, None).unwrap().number(), 4);
    drop(other);
    assert_eq!(take(&mut Catalog::open(folder).unwrap(), "").number(), 5);
}

#[test]
fn what_waits_of_a_run_whose_number_is_anothers_is_kept_for_people_to_look_at() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 1).write(folder);
    drop(Catalog::open(folder).unwrap());
    let live = LiveRun::hold(&Paths::new(folder), 1).unwrap();
    let begun = Begun { id: RunId([2; 16]), folder: folder.join("b"), started: second(1) };
    let known = RunKnown { begun: Some(begun), ..RunKnown::default() };
    known.keep(folder, &live).unwrap();
    std::fs::write(Paths::new(folder).pending_folder().join("7.json"), "no entry").unwrap();
    let mut catalog = Catalog::open(folder).unwrap();
    assert_eq!(catalog.run(1).unwrap().run.id, Some(RunId([1; 16])));
    assert!(matches!(catalog.enter(&live, &known), Err(CatalogError::OtherRun { number: 1, .. })));
    // Nor is one that never began entered for it.
    let over = Over::Failed { why: "no memory".into(), at: second(2) };
    let failed = RunKnown { over: Some(over), ..RunKnown::default() };
    assert!(matches!(catalog.enter(&live, &failed), Err(CatalogError::OtherRun { number: 1, .. })));
    assert_eq!(catalog.run(1).unwrap().run.state, RunState::Complete);
    let entries = std::fs::read_dir(Paths::new(folder).pending_folder()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["1.refused", "7.refused"]);
}

#[test]
fn whoever_must_not_wait_opens_the_catalogue_beside_others_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let cached = CachedCatalog::of(folder.path());
    cached
        .write(|_| {
            // Somebody of this process is at it, and does not end before this has.
            let number = |catalog: &mut Catalog| catalog.next_run_number(&request(""));
            let live = std::thread::scope(|scope| {
                let other = scope.spawn(|| cached.write_within(PATIENCE_AT_START, number));
                other.join().unwrap()
            });
            assert_eq!(live.unwrap().number(), 1);
            Ok(())
        })
        .unwrap();
    let other = lock(folder.path());
    let number = |catalog: &mut Catalog| catalog.next_run_number(&request(""));
    assert!(is_in_use(cached.write_within(PATIENCE_AT_START, number)));
    drop(other);
    assert_eq!(cached.write_within(PATIENCE_AT_START, number).unwrap().number(), 2);
}

#[test]
fn a_recorders_own_books_stand_where_its_files_lack_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut catalog = Catalog::open(folder).unwrap();
    // Their processes look at the files, and are there for some time.
    let mut lives = Vec::new();
    for (fault, in_files) in [(true, false), (false, true)] {
        let live = take(&mut catalog, "");
        let number = live.number();
        let (id, name) = (RunId([number as u8; 16]), format!("run-{number}"));
        Files { id, ended: in_files, ..Files::of(&name, 0, number) }.write(folder);
        begin_run(&mut catalog, &live, id, &folder.join(name), second(1)).unwrap();
        let mut end = ended(9, 6);
        let ledger = end.totals.ledger.as_mut().unwrap();
        ledger.sources[0][Entry::FragmentsReceived] += 100;
        ledger.sources[0][Entry::FragmentsDiscardedDisk] += 100;
        end.fault = fault.then(|| "the disk was full".to_owned());
        end_run(&mut catalog, &live, &end);
        catalog.scan(number).unwrap();
        lives.push(live);
    }
    let check = |catalog: &Catalog| {
        let states = [RunState::Fault, RunState::Complete];
        for ((number, loss), state) in [(1, 102), (2, 2)].into_iter().zip(states) {
            let detail = catalog.run(number).unwrap();
            assert_eq!((detail.run.state, detail.run.ended), (state, Some(second(9))));
            assert_eq!((detail.run.loss_count, detail.run.files), (Some(loss), Some(1)));
            let discarded = detail.ledger.iter().any(|(_, count)| *count == 100);
            assert_eq!(discarded, number == 1, "{:?}", detail.ledger);
        }
    };
    check(&catalog);
    drop(catalog);
    rebuild(folder, |_, _| ()).unwrap();
    check(&Catalog::open(folder).unwrap());
}

#[test]
fn what_was_in_flight_when_a_run_was_interrupted_counts_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files { ended: false, in_flight: 7, ..Files::of("run-a", 1, 1) }.write(folder);
    Files { in_flight: 7, ..Files::of("run-b", 2, 2) }.write(folder);
    let catalog = Catalog::open(folder).unwrap();
    let row = catalog.run(1).unwrap().run;
    assert_eq!((row.state, row.loss_count), (RunState::Interrupted, Some(2 + 7)));
    // Of a run that ended, books that do not balance are no loss.
    let row = catalog.run(2).unwrap().run;
    assert_eq!((row.state, row.loss_count), (RunState::Complete, Some(2)));
}

#[test]
fn what_was_said_of_a_run_that_waits_is_not_lost_where_the_catalogue_is_made_again_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    drop(take(&mut Catalog::open(folder).unwrap(), "before"));
    std::fs::write(Paths::new(folder).database(), [7; 40_000]).unwrap();
    let live = LiveRun::without_catalog(folder, None).unwrap();
    let id = RunId([5; 16]);
    Files { id, ..Files::of("run-b", 5, live.number()) }.write(folder);
    let known = RunKnown {
        who: "anna".into(),
        comment: "precious words".into(),
        configuration: "a = 1\n".into(),
        taken: second(0),
        remarks: vec![remark(0, "start", "precious words")],
        begun: Some(Begun { id, folder: folder.join("run-b"), started: second(1) }),
        over: Some(Over::Ended(ended(9, 6))),
        ..RunKnown::default()
    };
    known.keep(folder, &live).unwrap();
    let number = live.number();
    drop(live);
    rebuild(folder, |_, _| ()).unwrap();
    let detail = Catalog::open(folder).unwrap().run(number).unwrap();
    let row = detail.run;
    assert_eq!((row.who.as_str(), row.comment.as_str()), ("anna", "precious words"));
    assert!(row.configuration.is_some());
    assert_eq!((row.id, detail.remarks), (Some(id), known.remarks));
}

#[test]
fn who_looks_whether_a_process_is_alive_keeps_nobody_from_starting_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::new(folder.path());
    paths.make().unwrap();
    // It has looked just now, until the one that starts a run has met it.
    let path = paths.live(1);
    let looks = std::fs::File::create(&path).unwrap();
    looks.try_lock_shared().unwrap();
    let opened = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        links.filter(|link| *link == path).count()
    };
    let started = std::thread::scope(|scope| {
        let run = scope.spawn(|| LiveRun::without_catalog(folder.path(), None));
        catchment_fixtures::wait_while(|| !run.is_finished() && opened() < 2);
        drop(looks);
        run.join().unwrap()
    });
    assert_eq!(started.unwrap().number(), 1);
}
