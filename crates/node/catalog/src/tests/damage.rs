use super::*;
use crate::schema::{Paths, beside};
use crate::{CatalogError, Search, rebuild};

/// Thirty runs with comments of some length, and one with files, closed.
fn made(folder: &Path) -> Vec<u8> {
    let mut catalog = Catalog::open(folder).unwrap();
    for run in 0..30 {
        drop(take(&mut catalog, &format!("run {run} {}", "x".repeat(200))));
    }
    let request = NumberRequest { configuration: "[run]\nnumber = 31\n", ..request("files") };
    let live = catalog.next_run_number(&request).unwrap();
    let files = Files { frames: 40, ..Files::of("run-a", 1, 31) };
    files.write(folder);
    begin_run(&mut catalog, &live, files.id, &folder.join("run-a"), second(1)).unwrap();
    end_run(&mut catalog, &live, &ended(9, 120));
    catalog.scan(31).unwrap();
    drop((catalog, live));
    drop(Catalog::open(folder).unwrap());
    std::fs::read(Paths::new(folder).database()).unwrap()
}

/// Everything that reads; whatever it says, it says as damage or as nothing.
fn looked_through(folder: &Path) -> Result<(), CatalogError> {
    let catalog = Catalog::open_read_only(folder)?;
    catalog.search(&Search { text: "run".into(), ..Search::default() })?;
    catalog.configurations()?;
    for number in 1..=31 {
        match catalog.run(number) {
            Ok(_) | Err(CatalogError::NoRun { .. }) => {}
            Err(error) => return Err(error),
        }
        catalog.frames(number)?;
        catalog.copies(number)?;
    }
    Ok(())
}

#[test]
fn a_damaged_catalogue_says_what_helps_and_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let whole = made(folder);
    let path = Paths::new(folder).database();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let mut damaged = 0;
    for round in 0..60 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(if round == 0 { 0 } else { draw(whole.len()) }),
            1 => (0..1 + draw(4)).for_each(|_| bytes[draw(whole.len())] ^= 1 << draw(8)),
            _ => {
                let (at, count) = (draw(whole.len()), draw(8_192));
                bytes.iter_mut().skip(at).take(count).for_each(|byte| *byte = draw(256) as u8);
            }
        }
        for suffix in ["-wal", "-shm"] {
            let _absent = std::fs::remove_file(beside(&path, suffix));
        }
        std::fs::write(&path, &bytes).unwrap();
        match looked_through(folder) {
            Ok(()) => {}
            // A flipped bit can also look like a newer version.
            Err(CatalogError::Newer { .. }) => continue,
            Err(error) => {
                damaged += 1;
                let is_damage = matches!(error, CatalogError::Damaged { .. });
                assert!(is_damage, "round {round}: {error}");
                assert!(error.to_string().contains("catchment catalog rebuild"), "{error}");
            }
        }
        rebuild(folder, |_, _| ()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        looked_through(folder).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let mut catalog = Catalog::open(folder).unwrap();
        assert_eq!(catalog.run(31).unwrap().run.events, Some(120), "round {round}");
        assert!(take(&mut catalog, "").number() > 31, "round {round}");
    }
    assert!(damaged > 20, "{damaged} of 60 were seen to be damaged");
}

#[test]
fn numbers_are_given_though_the_catalogue_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder);
    std::fs::write(Paths::new(folder).database(), b"this is no database, but long enough").unwrap();
    let error = Catalog::open(folder).unwrap_err();
    assert!(matches!(error, CatalogError::Damaged { .. }), "{error}");
    let live = LiveRun::without_catalog(folder, None).unwrap();
    assert_eq!(live.number(), 32);
    let next = LiveRun::without_catalog(folder, Some(3)).unwrap();
    assert_eq!(next.number(), 33);
    rebuild(folder, |_, _| ()).unwrap();
    assert_eq!(take(&mut Catalog::open(folder).unwrap(), "").number(), 34);
    // Without that file too the runs say which numbers were given.
    let other = tempfile::tempdir().unwrap();
    Files::of("run-a", 1, 12).write(other.path());
    assert_eq!(LiveRun::without_catalog(other.path(), None).unwrap().number(), 13);
}

#[test]
fn a_log_that_was_cut_anywhere_costs_no_number_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(folder.path()).unwrap();
    for _ in 0..5 {
        drop(take(&mut catalog, "logged"));
    }
    // While it is open its last commits are in the log alone.
    let paths = Paths::new(folder.path());
    let database = std::fs::read(paths.database()).unwrap();
    let log = std::fs::read(beside(&paths.database(), "-wal")).unwrap();
    assert!(log.len() > 20_000, "a log of {} bytes", log.len());
    let numbers = std::fs::read(paths.numbers()).unwrap();
    for cut in (0..log.len()).step_by(1_371) {
        let copy = tempfile::tempdir().unwrap();
        let paths = Paths::new(copy.path());
        paths.make().unwrap();
        std::fs::write(paths.database(), &database).unwrap();
        std::fs::write(beside(&paths.database(), "-wal"), &log[..cut]).unwrap();
        std::fs::write(paths.numbers(), &numbers).unwrap();
        let mut catalog = Catalog::open(copy.path()).unwrap_or_else(|e| panic!("cut {cut}: {e}"));
        assert!(told(&catalog).iter().all(|(_, state, _)| *state == "failed"));
        assert_eq!(take(&mut catalog, "").number(), 6, "cut {cut}");
    }
}
