//! What `catchment run` says of a run whose end did not go well, and how it exits.

use std::io::BufRead as _;
use std::process::Stdio;
use std::time::Duration;

use crate::support;
use support::{catchment, json, output, printed};

#[test]
fn a_catalogue_that_cannot_be_written_at_the_end_of_a_run_is_complained_of() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = "[[sources]]\nname = \"silent\"\naddress = \"127.0.0.1:0\"\n";
    std::fs::write(folder.join("silent.toml"), text).unwrap();
    let mut command = catchment(folder, &["run", "silent.toml"]);
    command.stderr(Stdio::piped());
    // What takes long at a start is said before it.
    let (child, lines, first) = printed(command, " of memory ready.\n");
    assert!(first.starts_with("Making "), "{first}");
    let mut lines = lines.lines();
    assert!(lines.any(|line| line.unwrap().starts_with("Recording 1 source")), "it records");
    let other = rusqlite::Connection::open(folder.join("runs/.catchment/catalog.sqlite")).unwrap();
    other.busy_timeout(Duration::from_secs(1_200)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    // SAFETY: the process is our child, and not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let run = child.wait_with_output().unwrap();
    drop(lines);
    assert_eq!(run.status.code(), Some(0));
    let printed = String::from_utf8_lossy(&run.stderr);
    assert!(printed.contains("the catalogue of runs lacks its end: "), "{printed}");
    assert!(printed.contains("the end of run 1 waits until it can be entered"), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    drop(other);
    let run = json(folder, &["catalog", "show", "1", "--json"], 0);
    assert_eq!(run["state"], "complete", "{run}");
}

#[test]
fn an_emulator_that_fails_fails_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Any program may receive what is sent to all of a network; only one that asks for it may send
    // that, and the emulator does not.
    let text = "[emulator]\npreset = \"hades-90\"\n[[source_groups]]\ngroup = \"small\"\n\
                count = 3\nfirst_sub_event_id = 0x8000\naddress = \"127.255.255.255:0\"\n";
    std::fs::write(folder.join("all.toml"), text).unwrap();
    let run = output(folder, &["run", "all.toml", "--emulate"]);
    let printed = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{printed}");
    assert!(printed.contains("not everything ended in order: the emulator: "), "{printed}");
    assert!(printed.contains("Permission denied"), "{printed}");
    assert_eq!(json(folder, &["catalog", "show", "1", "--json"], 0)["state"], "complete");
}
