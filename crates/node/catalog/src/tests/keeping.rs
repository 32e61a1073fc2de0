//! A catalogue that stays open.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;
use crate::catalog::highest;
use crate::{CachedCatalog, CatalogError, RunState, rebuild};

#[test]
fn a_rebuild_is_let_in_and_what_is_said_before_and_after_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 1).write(folder);
    let cached = CachedCatalog::of(folder);
    cached.write(|catalog| catalog.set_comment(1, "before")).unwrap();
    let comment = || cached.read(|catalog| Ok(catalog.run(1)?.run.comment)).unwrap();
    assert_eq!(comment(), "before");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                cached.close_if_wanted();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let report = rebuild(folder, |_, _| ());
        done.store(true, Relaxed);
        assert_eq!(report.unwrap().runs, 1);
    });
    assert_eq!(comment(), "before");
    cached.write(|catalog| catalog.set_comment(1, "after")).unwrap();
    assert_eq!(comment(), "after");
    cached.close();
    assert_eq!(Catalog::open(folder).unwrap().run(1).unwrap().run.comment, "after");
}

#[test]
fn who_asks_while_a_rebuild_goes_on_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 1).write(folder);
    let cached = CachedCatalog::of(folder);
    cached.write(|catalog| catalog.set_comment(1, "kept")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The questions themselves let it in.
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let read = cached.read(|catalog| Ok(catalog.run(1)?.run.comment));
                assert_eq!(read.unwrap(), "kept");
                cached.write(|catalog| catalog.set_comment(1, "kept")).unwrap();
            }
        });
        for _ in 0..5 {
            rebuild(folder, |_, _| ()).unwrap();
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn what_others_write_is_seen_and_their_ends_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cached = CachedCatalog::of(folder);
    assert_eq!(cached.read(|catalog| catalog.read(highest)).unwrap(), 0);
    let live = Catalog::open(folder).unwrap().next_run_number(&request("another's")).unwrap();
    assert_eq!(cached.read(|catalog| catalog.read(highest)).unwrap(), live.number());
    let state = || Catalog::open_read_only(folder).unwrap().run(live.number()).unwrap().run.state;
    assert_eq!(state(), RunState::Starting);
    let number = live.number();
    drop(live);
    let next = cached.write(|catalog| catalog.next_run_number(&request("ours"))).unwrap();
    assert_eq!(next.number(), number + 1);
    let row = cached.read(|catalog| catalog.run(number)).unwrap().run;
    assert_eq!(row.state, RunState::Failed);
}

#[test]
fn another_file_in_its_place_is_another_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cached = CachedCatalog::of(folder);
    cached.write(|catalog| catalog.next_run_number(&request("one"))).unwrap();
    let database = crate::schema::Paths::new(folder).database();
    let aside = database.with_extension("aside");
    Catalog::open(folder).unwrap().checkpoint().unwrap();
    std::fs::copy(&database, &aside).unwrap();
    std::fs::remove_file(&database).unwrap();
    std::fs::write(&database, "no database").unwrap();
    let error = cached.read(|catalog| catalog.read(highest)).unwrap_err();
    assert!(matches!(error, CatalogError::Damaged { .. }), "{error}");
    std::fs::rename(&aside, &database).unwrap();
    assert_eq!(cached.read(|catalog| catalog.read(highest)).unwrap(), 1);
    let error = cached.write(|catalog| catalog.set_comment(7, "")).unwrap_err();
    assert!(error.is_answer(), "{error}");
}

#[test]
fn a_catalogue_that_a_newer_program_brought_up_to_date_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cached = CachedCatalog::of(folder);
    cached.write(|catalog| catalog.next_run_number(&request("one"))).unwrap();
    cached.read(|catalog| catalog.run(1)).unwrap();
    let newer = crate::SCHEMA_VERSION + 1;
    let other = Catalog::open(folder).unwrap();
    other.read(|connection| connection.pragma_update(None, "user_version", newer)).unwrap();
    let reading = cached.read(|catalog| catalog.run(1)).unwrap_err();
    let writing = cached.write(|catalog| catalog.set_comment(1, "")).unwrap_err();
    for error in [reading, writing] {
        assert!(matches!(error, CatalogError::Newer { got, .. } if got == newer), "{error}");
    }
}

#[test]
fn who_uses_it_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 1).write(folder);
    let cached = CachedCatalog::of(folder);
    let comment = cached.write(|catalog| {
        // As another thread would: it would hang.
        cached.close();
        cached.scan(1)?;
        cached.read(|catalog| catalog.read(highest))?;
        catalog.set_comment(1, "written")?;
        Ok(catalog.run(1)?.run.comment)
    });
    assert_eq!(comment.unwrap(), "written");
}
