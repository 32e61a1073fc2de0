//! Processes that are killed (SIGKILL) at every step of every operation: at every twentieth of
//! SQLite's instructions, and between any two changes of files. None of it waits for time to pass.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use super::*;
use crate::schema::Paths;
use crate::step::kill_at;
use crate::{Over, Quality, RunKnown, RunState, rebuild};

/// What a process does that may be killed. It says each number on stdout once it has it.
fn operate(what: &str, folder: &Path) {
    match what {
        "open" => drop(Catalog::open(folder).unwrap()),
        "rebuild" => drop(rebuild(folder, |_, _| ()).unwrap()),
        "without" => {
            println!("number {}", LiveRun::without_catalog(folder, None).unwrap().number())
        }
        "life" => {
            let mut catalog = Catalog::open(folder).unwrap();
            let request = NumberRequest { configuration: "a = 1\n", ..request("life") };
            let live = catalog.next_run_number(&request).unwrap();
            println!("number {}", live.number());
            let mut id = [0; 16];
            id[..8].copy_from_slice(&live.number().to_le_bytes());
            let name = format!("run-{}", live.number());
            let path = folder.join(&name);
            let files = Files { id: RunId(id), name, ..Files::of("", 0, live.number()) };
            files.write(folder);
            begin_run(&mut catalog, &live, RunId(id), &path, second(1)).unwrap();
            catalog.set_comment(live.number(), "changed").unwrap();
            catalog.set_quality(live.number(), Quality::Good).unwrap();
            catalog.put_configuration("a = 2\n", "anna", second(1)).unwrap();
            end_run(&mut catalog, &live, &ended(9, 6));
            catalog.scan(live.number()).unwrap();
        }
        "fail" => {
            let mut catalog = Catalog::open(folder).unwrap();
            let live = take(&mut catalog, "fail");
            println!("number {}", live.number());
            fail_run(&mut catalog, &live, "no socket");
        }
        "many" => {
            for _ in 0..40 {
                let live = take(&mut Catalog::open(folder).unwrap(), "one of many");
                println!("number {}", live.number());
            }
        }
        other => match other.strip_prefix("record-") {
            Some(seed) => super::model::record(seed.parse().expect("a seed"), folder),
            None => panic!("{other}"),
        },
    }
}

/// The process that [`spawn`] starts.
#[test]
fn child() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let mut parts = order.splitn(3, ' ');
    let mut part = || parts.next().expect("three parts");
    let (what, step, folder) = (part(), part(), part());
    kill_at(step.parse().expect("a number"));
    operate(what, Path::new(folder));
}

pub(super) fn spawn(what: &str, step: i64, folder: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::crash::child", "--nocapture"])
        .env(ORDER, format!("{what} {step} {}", folder.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The numbers that it said, and whether it was killed.
pub(super) fn ended_child(child: std::process::Child) -> (Vec<u64>, bool) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // The test harness writes before it on the same line.
    let said = text.split("number ").skip(1);
    let numbers = said.map(|rest| rest.split_whitespace().next().unwrap().parse().unwrap());
    let killed = output.status.signal() == Some(libc::SIGKILL);
    assert!(killed || output.status.success(), "{text}");
    (numbers.collect(), killed)
}

/// Kills at step 0, 1, 2, … until the operation comes to its end; after each, `check`.
fn at_every_step(what: &str, folder: &Path, mut check: impl FnMut(i64, Vec<u64>)) -> i64 {
    for step in 0.. {
        let (numbers, killed) = ended_child(spawn(what, step, folder));
        check(step, numbers);
        if !killed {
            return step;
        }
    }
    unreachable!("every operation ends")
}

/// The catalogue opens, is whole, and gives a number that nobody had.
fn sound(folder: &Path, given: &mut BTreeSet<u64>, said: Vec<u64>) {
    for number in said {
        assert!(given.insert(number), "{number} was given twice");
    }
    let mut catalog = Catalog::open(folder).unwrap();
    for (number, state, _) in told(&catalog) {
        assert!(["failed", "interrupted", "complete"].contains(&state), "{number} is {state}");
        let files = catalog.run(number).unwrap().file_rows.len();
        assert!(state != "complete" || files == 1, "{number} has {files} files");
    }
    let check = |connection: &rusqlite::Connection| {
        connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
    };
    assert_eq!(catalog.read(check).unwrap(), "ok");
    let next = take(&mut catalog, "after").number();
    assert!(given.insert(next), "{next} was given twice");
    assert_eq!(given.last(), Some(&next), "numbers rise");
    let left = std::fs::read_dir(Paths::new(folder).live_folder()).unwrap().count();
    assert!(left == 0, "{left} lock files stay");
}

#[test]
fn a_killed_process_leaves_a_sound_catalogue_and_no_number_twice() {
    for what in ["life", "fail", "without"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        drop(Catalog::open(folder).unwrap());
        let mut given = BTreeSet::new();
        let steps = at_every_step(what, folder, |_, said| sound(folder, &mut given, said));
        assert!(steps > 2, "{what}: {steps} steps");
    }
}

#[test]
fn a_catalogue_that_was_killed_while_it_was_made_is_made_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 3).write(folder);
    let steps = at_every_step("open", folder, |step, _| {
        let mut catalog = Catalog::open(folder).unwrap();
        assert_eq!(told(&catalog), [(3, "complete", String::new())], "step {step}");
        assert_eq!(take(&mut catalog, "").number(), 4);
        drop(catalog);
        std::fs::remove_dir_all(Paths::new(folder).folder()).unwrap();
    });
    assert!(steps > 20, "{steps} steps");
}

#[test]
fn a_killed_rebuild_loses_nothing_that_people_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Files::of("run-a", 1, 3).write(folder);
    let mut catalog = Catalog::open(folder).unwrap();
    catalog.set_comment(3, "remember").unwrap();
    drop(take(&mut catalog, "failed"));
    drop(catalog);
    let steps = at_every_step("rebuild", folder, |step, _| {
        let expected = [(3, "complete", "remember".to_owned()), (4, "failed", "failed".to_owned())];
        // Also for those who only read, before anybody puts it in order.
        assert_eq!(told(&Catalog::open_read_only(folder).unwrap()), expected, "step {step}");
        assert_eq!(told(&Catalog::open(folder).unwrap()), expected, "step {step}");
    });
    assert!(steps > 20, "{steps} steps");
}

#[test]
fn a_process_that_dies_while_it_looks_up_what_another_left_leaves_that_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for step in 0.. {
        let mut catalog = Catalog::open(folder).unwrap();
        let live = take(&mut catalog, "killed");
        let number = live.number();
        let name = format!("run-{number}");
        let mut id = [1; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        let (id, ended, in_flight) = (RunId(id), false, 5);
        let files = Files { id, name: name.clone(), ended, in_flight, ..Files::of("", 0, number) };
        files.write(folder);
        begin_run(&mut catalog, &live, id, &folder.join(name), second(1)).unwrap();
        drop((catalog, live));
        // Another one has its number from beside the catalogue, and waits to be entered.
        let late = LiveRun::without_catalog(folder, None).unwrap();
        let late_number = late.number();
        let over = Some(Over::Ended(super::ended(9, 6)));
        let (name, comment) = (format!("run-{late_number}"), "late".to_owned());
        let id = RunId(id.0.map(|byte| byte ^ 2));
        Files { id, name: name.clone(), ..Files::of("", 0, late_number) }.write(folder);
        let begun = Some(Begun { id, folder: folder.join(name), started: second(1) });
        let known = RunKnown { comment, begun, over, taken: second(3), ..RunKnown::default() };
        known.keep(folder, &late).unwrap();
        drop(late);
        let (_, killed) = ended_child(spawn("open", step, folder));
        let catalog = Catalog::open(folder).unwrap();
        let detail = catalog.run(number).unwrap();
        let run = &detail.run;
        assert_eq!((run.state, run.files), (RunState::Interrupted, Some(1)), "step {step}");
        assert_eq!((run.events, run.loss_count), (Some(6), Some(2 + 5)), "step {step}");
        assert!(!detail.ledger.is_empty() && detail.file_rows.len() == 1, "step {step}");
        let detail = catalog.run(late_number).unwrap();
        let run = &detail.run;
        assert_eq!((run.state, run.comment.as_str()), (RunState::Complete, "late"), "step {step}");
        assert_eq!(detail.file_rows.len(), 1, "step {step}");
        let pending = std::fs::read_dir(Paths::new(folder).pending_folder()).unwrap();
        assert_eq!(pending.count(), 0, "step {step}");
        if !killed {
            assert!(step > 10, "{step} steps");
            break;
        }
    }
}

#[test]
fn two_processes_at_once_get_different_numbers() {
    let folder = tempfile::tempdir().unwrap();
    // Neither finds a catalogue: one makes it.
    let children: Vec<_> = (0..2).map(|_| spawn("many", -1, folder.path())).collect();
    let mut all = BTreeSet::new();
    for child in children {
        let (numbers, killed) = ended_child(child);
        assert!(!killed && numbers.len() == 40 && numbers.is_sorted(), "{numbers:?}");
        all.extend(numbers);
    }
    assert_eq!(all, (1..=80).collect());
}

const ORDER: &str = "CATALOG_CHILD";
