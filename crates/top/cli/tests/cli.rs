//! The real binary, end to end: exit codes, JSON, and what a stranger would try.

use std::io::{BufRead, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::support;
use catchment_emulator::{Content, EmulatorConfig, hades_90};
use catchment_model::SourceId;
use serde_json::Value;
use support::{example, json, only_run, output, started, stderr, stdout};

#[test]
fn every_command_explains_itself() {
    let folder = tempfile::tempdir().unwrap();
    let help = stdout(folder.path(), &["--help"], 0);
    assert!(help.contains("Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 done"));
    for command in
        ["demo", "run", "emulate", "inspect", "read", "repair", "audit", "catalog", "bench"]
    {
        assert!(help.contains(command), "{command}");
        let own = stdout(folder.path(), &[command, "--help"], 0);
        assert!(own.contains("Usage: catchment"), "{own}");
        assert!(own.contains("--json"), "{own}");
    }
    assert!(stdout(folder.path(), &["--version"], 0).starts_with("catchment 0."));
}

#[test]
fn a_cause_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["inspect", "audit", "repair"] {
        let errors = stderr(folder.path(), &[command, "missing"], 1);
        assert_eq!(errors.matches("No such file").count(), 1, "{errors}");
    }
}

#[test]
fn bad_usage_ends_with_2_and_says_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (vec![], "Usage: catchment"),
        (vec!["dmeo"], "demo"),
        (vec!["demo", "--rate", "4 khz"], "expected a rate such as \"4 kHz\""),
        (vec!["demo", "--seconds", "0"], "expected a number of seconds"),
        (vec!["demo", "--fault", "loose=1"], "expected lose, duplicate"),
        (vec!["demo", "--fault", "kill=90@5"], "expected a source below 90 or its name, got 90"),
        (vec!["demo", "--fault", "kill=smal-03@5"], "below 90 or its name, got smal-03"),
        (vec!["demo", "--fault", "kill=@5"], "expected SOURCE@EVENT such as 3@1000"),
        (vec!["emulate", "hades-09"], "did you mean hades-90?"),
        (vec!["emulate", "hades-90"], "expected --to IP:PORT"),
        (vec!["emulate", "ligo-100"], "did you mean ligo-1000?"),
        (vec!["emulate", "ligo-1000"], "expected --to IP:PORT"),
        (vec!["emulate", "ligo-1000", "--to", "[::1]:9", "--events", "3"], "not for channels"),
        (vec!["emulate", "ligo-1000", "--to", "[::]:9", "--fault", "kill=0@3"], "not for channels"),
        (
            vec!["emulate", "ligo-1000", "--to", "[::1]:9", "--slice", "2 s"],
            "a packet has room for",
        ),
        (vec!["emulate", "hades-90", "--to", "[::1]:9", "--multiple", "3"], "are for channels"),
        (vec!["emulate", "midas-dumy"], "did you mean midas-dummy?"),
        (vec!["emulate", "midas-dummy"], "expected --to IP:PORT"),
        (vec!["emulate", "midas-dummy", "--links", "3"], "--links is not for front-ends"),
        (vec!["emulate", "hades-90", "--to", "[::1]:9", "--index", "1"], "are for midas-dummy"),
        (vec!["emulate", "hades-90", "--to", "[::1]:9", "--bytes", "3 kB"], "of declared layouts"),
        (vec!["emulate", "xfel-trains"], "expected --to IP:PORT"),
        (vec!["emulate", "xfel-trains", "--fault", "lose=0.1"], "--fault is not for trains"),
        (vec!["emulate", "hades-90", "--to", "[::1]:9", "--feeders", "2"], "are for trains"),
        (vec!["emulate", "xfel-trains", "--to", "[::1]:9", "--image", "8"], "rows and columns"),
        (vec!["bench", "everything"], "limits"),
        (vec!["run", "missing.toml"], "missing.toml: cannot be read"),
    ] {
        let errors = stderr(folder.path(), &arguments, 2);
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_wrong_configuration_ends_with_2_and_names_file_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[receive]\ntreads = 2\n";
    std::fs::write(folder.path().join("wrong.toml"), text).unwrap();
    let errors = stderr(folder.path(), &["run", "wrong.toml"], 2);
    let expected = "catchment: wrong.toml:2:1: unknown key \"treads\"; did you mean threads?";
    assert!(errors.starts_with(expected), "{errors}");
    assert!(!folder.path().join("runs").exists(), "nothing was started");
}

#[test]
fn what_is_no_run_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text.catch"), "no frame file").unwrap();
    for command in ["inspect", "read", "audit", "repair"] {
        for path in ["text.catch", "missing", "."] {
            let output = output(folder.path(), &[command, path]);
            let code = output.status.code();
            assert_eq!(code, Some(1), "{command} {path}");
        }
    }
}

#[test]
fn a_demo_is_recorded_verified_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let demo = ["demo", "--seconds", "1", "--rate", "500", "--codec", "lz4", "--json"];
    let summary = json(folder, &demo, 0);
    assert_eq!(summary["proof"]["problem_count"], 0, "{summary}");
    assert_eq!(summary["proof"]["events"], 500);
    assert_eq!(summary["proof"]["fragments"], 500 * 90);
    assert_eq!(summary["books"]["balanced"], true);
    assert_eq!(summary["books"]["total"]["fragments_recorded"], 500 * 90);
    let run = only_run(folder);
    assert_eq!(
        run.canonicalize().unwrap(),
        folder.join(summary["folder"].as_str().unwrap()).canonicalize().unwrap()
    );
    let run = run.to_str().unwrap();

    let audit = json(folder, &["audit", run, "--json"], 0);
    assert_eq!((&audit["verdict"], &audit["events"]), (&"balanced".into(), &500.into()));
    let inspected = json(folder, &["inspect", run, "--verify", "--json"], 0);
    assert_eq!(inspected["verified"]["problem_count"], 0);
    assert_eq!(inspected["sources"].as_array().unwrap().len(), 90);
    let printed = stdout(folder, &["inspect", run, "--sources", "--frames"], 0);
    assert!(printed.contains("90 (60 small, 20 medium, 10 large)"), "{printed}");
    // What compression came to, in sum of each group.
    let groups = inspected["stored"].as_array().unwrap();
    let names: Vec<_> = groups.iter().map(|group| group["group"].as_str().unwrap()).collect();
    assert_eq!(names, ["small", "medium", "large"]);
    for (group, sources) in groups.iter().zip([60, 20, 10]) {
        let columns: u64 =
            group["codecs"].as_object().unwrap().values().flat_map(Value::as_u64).sum();
        assert!(
            columns >= sources && group["stored_bytes"].as_u64() <= group["raw_bytes"].as_u64()
        );
        let line = format!("  stored   {}: ", group["group"].as_str().unwrap());
        assert!(printed.contains(&line), "{printed}");
    }

    let events = stdout(folder, &["read", run, "--events", "10..13"], 0);
    let lines: Vec<&str> = events.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "event,time_ns,flags"));
    assert!(lines[1].starts_with("10,") && lines[3].ends_with(",complete"), "{events}");
    let csv = stdout(folder, &["read", run, "--source", "large-09", "--events", "10..11"], 0);
    let raw = ["read", run, "--source", "89", "--events", "10..11", "--format", "raw"];
    let raw = output(folder, &raw).stdout;
    let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    let line = format!("{},{},{hex}", lines[1], raw.len());
    assert_eq!(csv, format!("event,time_ns,flags,bytes,fragment\n{line}\n"));
    let npy = ["read", run, "--source", "0", "--format", "npy", "--output", "small", "--json"];
    assert_eq!(json(folder, &npy, 0)["files"].as_array().unwrap().len(), 4);
    assert!(std::fs::read(folder.join("small.keys.npy")).unwrap().starts_with(b"\x93NUMPY"));
    let near = stderr(folder, &["read", run, "--source", "smal-00"], 2);
    assert!(near.contains("did you mean small-00"), "{near}");

    // The configuration that was run is in the file, and can be run again.
    std::fs::write(folder.join("again.toml"), stdout(folder, &["inspect", run, "--config"], 0))
        .unwrap();
    stdout(folder, &["run", "again.toml", "--check"], 0);
}

#[test]
fn injected_losses_end_with_3_and_are_counted_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let demo = ["demo", "--seconds", "1", "--rate", "1000", "--water-mark", "2 kB", "--json"];
    let faults = ["--fault", "lose=0.01", "--fault", "corrupt=0.01"];
    let summary = json(folder, &[&demo[..], &faults[..]].concat(), 3);
    let (books, sent) = (&summary["books"], &summary["sent"]);
    assert_eq!(books["balanced"], true, "{summary}");
    assert_eq!(summary["proof"]["problem_count"], 0, "{summary}");
    assert!(sent["fragments_lost"].as_u64() > Some(0), "{summary}");
    // A corrupt packet is dropped whole: what it held is missing from its events, too.
    let lost =
        sent["fragments_lost"].as_u64().unwrap() + sent["fragments_corrupted"].as_u64().unwrap();
    assert_eq!(books["fragments_lost"].as_u64(), Some(lost), "{summary}");
    assert_eq!(books["packets_malformed"], sent["packets_corrupted"], "{summary}");
    assert!(summary["malformed"]["first_bytes"].as_str().unwrap().len() > 8, "{summary}");
    let run = only_run(folder);
    let audit = json(folder, &["audit", run.to_str().unwrap(), "--json"], 3);
    assert_eq!(audit["verdict"], "data_lost");
}

#[test]
fn demo_and_the_audit_of_its_run_agree_about_loss() {
    for (fault, loses) in [
        (None, false),
        (Some("duplicate=0.05"), false),
        // Much, so that also a machine that sends little in a second loses some.
        (Some("lose=0.5"), true),
        (Some("corrupt=0.5"), true),
        (Some("kill=small-03@5"), true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut demo = vec!["demo", "--seconds", "1", "--rate", "500", "--water-mark", "2 kB"];
        demo.extend(fault.iter().flat_map(|fault| ["--fault", fault]));
        let code = output(folder, &demo).status.code().expect("it ended by itself");
        // A machine that is too busy may lose without a fault, too.
        assert!(code == 3 || (code == 0 && !loses), "{fault:?} ended with {code}");
        stdout(folder, &["audit", only_run(folder).to_str().unwrap()], code);
    }
}

#[test]
fn everything_acknowledged_before_a_kill_is_read_back_as_it_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (mut child, mut lines) =
        started(folder, &["demo", "--seconds", "3600", "--rate", "8"], "recording");
    // Until the recorder says that frames are on disk.
    let mut line = String::new();
    let mut acknowledged = 0;
    while acknowledged == 0 {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it goes on");
        acknowledged = on_disk(&line);
    }
    let run = only_run(folder);
    let run = run.to_str().unwrap();
    let alive = json(folder, &["audit", run, "--json"], 0);
    assert_eq!(alive["closing"], "recording", "{alive}");
    let printed = stdout(folder, &["audit", run], 0);
    assert!(
        printed.contains("It is still being recorded") && !printed.contains("nothing was lost"),
        "{printed}"
    );
    let seen = alive["events"].as_u64().unwrap();
    assert!(seen >= acknowledged, "{acknowledged} were acknowledged, {seen} are in the file");
    child.kill().unwrap();
    child.wait().unwrap();
    // The output before it died counts, too.
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let acknowledged = rest.lines().map(on_disk).chain([acknowledged, seen]).max().unwrap();

    // The system may let go of the files a little after the process.
    let mut audit = output(folder, &["audit", run, "--json"]);
    let read =
        |output: &Output| serde_json::from_slice::<Value>(&output.stdout).expect("an object");
    while read(&audit)["closing"] == "recording" {
        audit = output(folder, &["audit", run, "--json"]);
    }
    let killed = read(&audit);
    assert_eq!(killed["closing"], "killed", "{killed}");
    // What reached it at last is lost, if nothing else is.
    assert_eq!(audit.status.code(), Some(3), "{killed}");
    assert_eq!(
        (&killed["verdict"], &killed["extent"]),
        (&"data_lost".into(), &"interrupted".into())
    );
    let printed = stdout(folder, &["audit", run], 3);
    assert!(printed.contains("in flight when the recorder was killed"), "{printed}");
    assert!(!printed.contains("unexplained") && !printed.contains("nothing was lost"), "{printed}");
    let inspected = stdout(folder, &["inspect", run], 0);
    assert!(inspected.contains("NOT CLOSED"), "{inspected}");
    let events = as_sent(run);
    assert!(events >= acknowledged, "{acknowledged} were acknowledged, {events} are left");

    // A frame that was under way between others leaves a hole, which repair tells with 3.
    let repaired = output(folder, &["repair", run, "--json"]);
    assert!(matches!(repaired.status.code(), Some(0 | 3)), "{repaired:?}");
    let report = read(&repaired);
    assert_eq!(report["files"][0]["outcome"], "closed", "{report}");
    assert_eq!(as_sent(run), events);
    let after = json(folder, &["inspect", run, "--verify", "--json"], 0);
    assert_eq!((&after["closed"], &after["verified"]["problem_count"]), (&true.into(), &0.into()));
    let printed = stdout(folder, &["inspect", run], 0);
    assert!(!printed.contains("NOT BALANCE") && !printed.contains("nothing was lost"), "{printed}");
    stdout(folder, &["audit", run], 3);
    assert_eq!(json(folder, &["repair", run, "--json"], 0)["files"][0]["outcome"], "intact");
}

/// The events on disk that a plain line tells of.
fn on_disk(line: &str) -> u64 {
    let number = line.split("  ").find_map(|part| part.strip_suffix(" on disk"));
    number.map_or(0, |number| number.replace(',', "").parse().expect("a number"))
}

/// Compares every fragment of a demo's run with what its emulator sent; returns the events.
fn as_sent(run: &str) -> u64 {
    let run = catchment_storage::Run::open(run).expect("opens");
    let config =
        EmulatorConfig { sources: hades_90(), huge_every: 1_000, ..EmulatorConfig::default() };
    let content = Content::of(&config);
    let mut next = config.first_event;
    for frame in 0..run.frames().len() {
        let events = run.events(frame).expect("reads");
        for source in 0..config.sources.len() as u32 {
            let column = run.fragments(frame, SourceId(source)).expect("reads");
            for (row, &event) in events.keys().iter().enumerate() {
                let payload = &column.fragment(row).expect("a fragment")[16..];
                assert!(content.verify(source, event, payload), "event {event}, source {source}");
            }
        }
        assert!(events.keys().iter().is_sorted() && events.keys()[0] >= next, "each event once");
        next = events.keys()[events.len() - 1] + 1;
    }
    run.event_count()
}

#[test]
fn the_examples_run_and_their_sources_reach_the_recorder() {
    for (name, events) in [("minimal.toml", "400"), ("hades-90.toml", "800")] {
        let folder = tempfile::tempdir().unwrap();
        let (folder, path) = (folder.path(), example(name));
        stdout(folder, &["run", &path, "--check"], 0);
        let recorder = ["run", &path, "--events", events];
        let (mut child, mut lines) = started(folder, &recorder, "Recording");
        let sent = json(folder, &["emulate", &path, "--events", events, "--json"], 0);
        assert_eq!(sent["events"].to_string(), events);
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
        let expected = format!("{events} complete, 0 incomplete, {events} on disk");
        assert!(rest.contains(&expected), "{rest}");
    }
}

#[test]
fn the_example_of_trains_is_recorded_as_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, path) = (folder.path(), example("xfel-trains.toml"));
    let (mut child, mut lines) = started(folder, &["run", &path, "--events", "6"], "Recording");
    let feeders = ["emulate", &path, "--events", "6", "--rate", "20", "--feeders", "2", "--json"];
    let sent = json(folder, &feeders, 0);
    assert_eq!((&sent["trains"], &sent["train_bytes"]), (&6.into(), &2_101_565.into()));
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert!(rest.contains("6 complete, 0 incomplete, 6 on disk"), "{rest}");
}

#[test]
fn channels_are_sent_to_as_many_links_as_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    // Two neighbours that nobody has: the system's own choice, and the next one if it is free.
    let sockets = std::iter::repeat_with(|| {
        let first = std::net::UdpSocket::bind("127.0.0.1:0").ok()?;
        let next = first.local_addr().ok()?.port().checked_add(1)?;
        Some((first, std::net::UdpSocket::bind(("127.0.0.1", next)).ok()?))
    });
    let (first, _second) = sockets.take(1_000).flatten().next().unwrap();
    let to = first.local_addr().unwrap().to_string();
    let command = ["emulate", "ligo-1000", "--to", &to, "--links", "2", "--multiple", "50"];
    let ends = ["--slice", "125 ms", "--seconds", "0.05", "--fault", "lose=0.2", "--json"];
    let sent = json(folder.path(), &[&command[..], &ends[..]].concat(), 0);
    assert_eq!((&sent["slices"], &sent["slice_ns"]), (&20.into(), &125_000_000.into()));
    // Two and a half seconds of the preset's 3.63 MB/s.
    assert_eq!(sent["sample_bytes"], 9_084_000);
    for link in sent["links"].as_array().unwrap() {
        assert_eq!(link["fragments_made"], 500 * 20);
        assert!(link["packets_lost"].as_u64() > Some(0));
    }
    let mut bytes = [0; 65_536];
    let received = first.recv(&mut bytes).unwrap();
    assert!(catchment_wire::link::Packet::parse(&bytes[..received]).is_ok());
}

#[test]
fn a_run_without_sources_ends_by_time_and_by_signal() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    silent(folder);
    let summary = json(folder, &["run", "silent.toml", "--seconds", "0.1", "--json"], 0);
    assert_eq!(summary["counts"]["events_complete"], 0);
    assert!(summary["sockets"]["granted_bytes_min"].as_u64() > Some(0), "{summary}");
    let (mut child, mut lines) = started(folder, &["run", "silent.toml"], "Socket buffers of");
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert!(rest.contains("0 complete"), "{rest}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(folder, &["demo", "--seconds", "0.5", "--rate", "2000", "--json"], 0);
    let run = only_run(folder);
    let arguments = ["read", run.to_str().unwrap(), "--source", "0"];
    let (mut child, lines) = started(folder, &arguments, "event,time_ns,flags,bytes,fragment");
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_quick_benches_run_and_leave_nothing_but_results() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["limits", "hades", "control"] {
        let results = json(folder, &["bench", name, "--quick", "--json"], 0);
        assert_eq!((&results["bench"], &results["quick"]), (&name.into(), &true.into()));
        assert!(folder.join(format!("bench/results/{name}-quick.md")).exists());
        assert!(!folder.join("runs").exists(), "{name} deleted what it recorded");
    }
}

/// A configuration of one source that never sends.
fn silent(folder: &Path) {
    let text = "[[sources]]\nname = \"silent\"\naddress = \"127.0.0.1:0\"\n";
    std::fs::write(folder.join("silent.toml"), text).unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_found_before_a_run_begins() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    silent(folder);
    let silent = std::fs::read_to_string(folder.join("silent.toml")).unwrap();
    let check = |runs: &str, code: i32| {
        let text = format!("[run]\nfolder = {runs:?}\n{silent}");
        std::fs::write(folder.join("other.toml"), text).unwrap();
        let printed = output(folder, &["run", "other.toml", "--check"]);
        assert_eq!(printed.status.code(), Some(code), "{runs}");
        String::from_utf8(printed.stderr).unwrap()
    };
    check("there/will/be/runs", 0);
    assert!(!folder.join("there").exists(), "nothing is made to check");
    std::fs::write(folder.join("file"), "").unwrap();
    for runs in ["file", "file/runs"] {
        let printed = check(runs, 2);
        let expected = "other.toml:2:10: run.folder: expected a folder that can be written, got ";
        assert!(printed.contains(expected), "{printed}");
    }
    let printed = check("/proc/runs", 2);
    assert!(printed.contains("got /proc: it is the kernel's, and no disk"), "{printed}");
    // What would keep the node from being served is found, too.
    let open = format!("[control]\nlisten = \"0.0.0.0:0\"\n{silent}");
    std::fs::write(folder.join("open.toml"), open).unwrap();
    for more in [&["--check"][..], &[]] {
        let printed = stderr(folder, &[&["run", "open.toml"], more].concat(), 2);
        assert!(
            printed.contains("refused to listen on 0.0.0.0:0: there is neither TLS"),
            "{printed}"
        );
    }
    // Whoever may do everything needs a disk on which nobody may write.
    let closed = folder.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "ro", "tmpfs"]).arg(&closed);
    let mounted = mount.output().is_ok_and(|printed| printed.status.success());
    // SAFETY: it takes nothing and always succeeds.
    if mounted || unsafe { libc::geteuid() } != 0 {
        let printed = check("closed/runs", 2);
        let reason = if mounted { "Read-only file system" } else { "Permission denied" };
        assert!(printed.contains("closed: ") && printed.contains(reason), "{printed}");
    }
    if mounted {
        assert!(Command::new("umount").arg(&closed).status().unwrap().success());
    }
}

/// Records for a moment, and returns the run's number.
fn recorded(folder: &Path, more: &[&str]) -> u64 {
    let run = ["run", "silent.toml", "--seconds", "0.05", "--json"];
    let summary = json(folder, &[&run, more].concat(), 0);
    summary["number"].as_u64().expect("a number")
}

#[test]
fn what_was_run_stands_in_the_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    silent(folder);
    assert!(stderr(folder, &["catalog", "ls"], 1).contains("catchment catalog rebuild"));
    assert_eq!(recorded(folder, &["--comment", "first \"light\""]), 1);
    assert_eq!(recorded(folder, &[]), 2);

    let list = json(folder, &["catalog", "ls", "--json"], 0);
    assert_eq!((&list["runs"][0]["number"], &list["next"]), (&2.into(), &Value::Null));
    let first = json(folder, &["catalog", "show", "1", "--json"], 0);
    assert_eq!(
        (&first["state"], &first["comment"]),
        (&"complete".into(), &"first \"light\"".into())
    );
    assert_eq!((&first["events"], &first["loss_count"]), (&0.into(), &0.into()));
    let name = first["folder"].as_str().unwrap();
    let inspected = json(folder, &["inspect", &format!("runs/{name}"), "--json"], 0);
    assert_eq!(inspected["run_number"], 1, "{inspected}");
    let text = stdout(folder, &["catalog", "show", "1", "--configuration"], 0);
    assert_eq!(text, std::fs::read_to_string(folder.join("silent.toml")).unwrap());

    stdout(folder, &["catalog", "set", "2", "--remark", "pedestal", "--quality", "good"], 0);
    // As it was called once.
    stdout(folder, &["catalog", "set", "2", "--comment", "no beam"], 0);
    let found = stdout(folder, &["catalog", "search", "PEDESTAL", "--quality", "good"], 0);
    assert!(found.contains("good") && !found.contains("first"), "{found}");
    let shown = stdout(folder, &["catalog", "show", "2"], 0);
    let (first, second) = (shown.find("pedestal").unwrap(), shown.find("no beam").unwrap());
    assert!(first < second, "{shown}");
    let first = stdout(folder, &["catalog", "show", "1"], 0);
    assert!(first.contains(", start\n") && first.contains("first \"light\""), "{first}");
    let printed = stdout(folder, &["catalog", "ls", "--limit", "1"], 0);
    assert!(printed.contains("complete") && printed.contains("more: --before 2"), "{printed}");
    assert!(stdout(folder, &["catalog", "show", "2"], 0).contains("quality        good"));

    assert!(stderr(folder, &["catalog", "show", "9"], 1).contains("there is no run 9"));
    for wrong in [
        vec!["catalog", "ls", "--limit", "0"],
        vec!["catalog", "set", "1"],
        vec!["catalog", "set", "1", "--quality", "fine"],
        vec!["catalog", "set", "1", "--comment", "\u{7}"],
        vec!["catalog", "search", "--since", "yesterday"],
        vec!["run", "silent.toml", "--comment", "\u{1b}[2J"],
    ] {
        stderr(folder, &wrong, 2);
    }
}

#[test]
fn a_number_that_the_configuration_wants_is_given_if_nobody_had_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    silent(folder);
    let text = std::fs::read_to_string(folder.join("silent.toml")).unwrap();
    std::fs::write(folder.join("silent.toml"), format!("[run]\nnumber = 7\n{text}")).unwrap();
    assert_eq!(recorded(folder, &[]), 7);
    let again = output(folder, &["run", "silent.toml", "--seconds", "0.05"]);
    assert_eq!(again.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&again.stderr).contains("this is run 8: run.number = 7"));
}

#[test]
fn a_killed_recorder_was_interrupted_and_its_number_is_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    silent(folder);
    let (mut child, _lines) = started(folder, &["run", "silent.toml"], "Socket buffers of");
    let state = || json(folder, &["catalog", "show", "1", "--json"], 0)["state"].clone();
    assert_eq!(state(), "recording");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(state(), "interrupted");
    let printed = stdout(folder, &["catalog", "show", "1"], 0);
    assert!(
        printed.contains("+: at least, since what its recorder received last was"),
        "{printed}"
    );
    assert_eq!(recorded(folder, &[]), 2);
    assert_eq!(state(), "interrupted");
    let rebuilt = json(folder, &["catalog", "rebuild", "--json"], 0);
    assert_eq!((&rebuilt["runs"], &rebuilt["interrupted"]), (&2.into(), &vec![1].into()));
    assert_eq!(state(), "interrupted");
}

#[test]
fn a_catalogue_that_another_process_has_holds_up_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    silent(folder);
    assert_eq!(recorded(folder, &[]), 1);
    let other = rusqlite::Connection::open(folder.join("runs/.catchment/catalog.sqlite")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let run = output(folder, &["run", "silent.toml", "--seconds", "0.05", "--comment", "late"]);
    assert_eq!(run.status.code(), Some(0));
    let printed = String::from_utf8_lossy(&run.stderr);
    let expected = "the run is entered when the catalogue can be opened again";
    assert!(printed.contains(expected) && printed.lines().count() == 1, "{printed}");
    stderr(folder, &["catalog", "show", "2"], 1);
    drop(other);
    let second = json(folder, &["catalog", "show", "2", "--json"], 0);
    assert_eq!((&second["state"], &second["comment"]), (&"complete".into(), &"late".into()));
    assert_eq!((&second["events"], &second["files"]), (&0.into(), &1.into()));
    assert_eq!(recorded(folder, &[]), 3);
}

/// The frame files of the only run.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(only_run(folder)).unwrap().map(|entry| entry.unwrap().path());
    let is_file = |path: &std::path::PathBuf| path.extension().is_some_and(|name| name == "catch");
    let mut files: Vec<_> = entries.filter(is_file).collect();
    files.sort();
    files
}

#[test]
fn a_run_that_lacks_files_or_their_ends_is_not_verified() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = "[write]\nfile_time = \"100 ms\"\npreallocate_bytes = \"1 MiB\"\n";
    let text = text.to_owned()
        + "[frame]\ntime = \"20 ms\"\n[emulator]\npreset = \"hades-90\"\n\
        rate = \"300 Hz\"\n[[source_groups]]\ngroup = \"small\"\ncount = 2\n\
        address = \"127.0.0.1:0\"\nfirst_sub_event_id = 0x8000\n";
    std::fs::write(folder.join("small.toml"), text).unwrap();
    let node = ["run", "small.toml", "--listen", "127.0.0.1:0", "--events", "900", "--emulate"];
    stdout(folder, &node, 0);
    let (run, files) = (only_run(folder), files(folder));
    let (run, last) = (run.to_str().unwrap(), files.last().unwrap());
    assert!(files.len() > 2, "{files:?}");
    let verified = |code| stdout(folder, &["inspect", run, "--verify"], code);
    assert!(verified(0).contains("all intact"));
    stdout(folder, &["audit", run], 0);

    let whole = std::fs::read(last).unwrap();
    for file in [&files[0], &files[1], last] {
        let bytes = std::fs::read(file).unwrap();
        std::fs::remove_file(file).unwrap();
        let index = files.iter().position(|other| other == file).unwrap();
        let expected = format!("file {index} of the run is missing");
        for printed in [verified(1), stdout(folder, &["audit", run], 1)] {
            assert!(printed.contains(&expected) && printed.contains("NOT "), "{printed}");
        }
        std::fs::write(file, bytes).unwrap();
    }
    for damage in [[&whole[..], b"x"].concat(), whole[..whole.len() - 4096].to_vec()] {
        std::fs::write(last, damage).unwrap();
        for printed in [verified(1), stdout(folder, &["audit", run], 1)] {
            assert!(printed.contains("it was closed with"), "{printed}");
        }
    }
    // Repair gives it its trailer again, and a TOC that is lost too is made anew: what the recorder
    // counted at the end is lost with it.
    stdout(folder, &["repair", run], 0);
    assert_eq!(std::fs::read(last).unwrap(), whole);
    assert!(verified(0).contains("all intact"));
    stdout(folder, &["audit", run], 0);
    let mut bytes = whole[..whole.len() - 4096].to_vec();
    let toc = whole[whole.len() - 4096 + 32..].first_chunk().map(|&at| u64::from_le_bytes(at));
    bytes[toc.unwrap() as usize] ^= 1;
    std::fs::write(last, bytes).unwrap();
    stdout(folder, &["repair", run], 0);
    assert!(verified(0).contains("all intact"));
    stdout(folder, &["audit", run], 3);
}

#[test]
fn good_frames_are_never_called_deletable_and_what_is_no_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let demo = ["demo", "--seconds", "120", "--rate", "100"];
    let ((mut child, mut lines), mut line) = (started(folder, &demo, "recording"), String::new());
    while on_disk(&line) == 0 {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it goes on");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (run, file) = (only_run(folder), files(folder).remove(0));
    // The system may let go of the file a little after the process.
    while json(folder, &["inspect", run.to_str().unwrap(), "--verify", "--json"], 0)["verified"]["extent"]
        == "growing"
    {}
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[..4096].fill(0);
    std::fs::write(&file, bytes).unwrap();
    for path in [&run, &file] {
        let path = path.to_str().unwrap();
        for command in ["inspect", "audit"] {
            let printed = stderr(folder, &[command, path], 1);
            assert!(printed.contains("whole frames stand behind it: keep the file"), "{printed}");
        }
        let printed = stdout(folder, &["repair", path], 1);
        assert!(printed.contains("keep the file") && !printed.contains("deleted"), "{printed}");
    }

    let fifo = folder.join("fifo.catch");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for command in ["inspect", "audit", "repair", "read"] {
        let printed = stderr(folder, &[command, "fifo.catch"], 1);
        assert!(printed.contains("fifo.catch: expected a regular file, got a FIFO"), "{printed}");
        let printed = stderr(folder, &[command, "/dev/null"], 1);
        assert!(printed.contains("/dev/null: expected a regular file, got a device"), "{printed}");
    }
}

#[test]
fn a_damaged_catalogue_keeps_nothing_from_being_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    silent(folder);
    assert_eq!(recorded(folder, &["--comment", "lost with the catalogue"]), 1);
    let database = folder.join("runs/.catchment/catalog.sqlite");
    std::fs::write(&database, "no database at all, as long as it may be").unwrap();
    let list = stderr(folder, &["catalog", "ls"], 1);
    assert!(list.contains("is damaged") && list.contains("catchment catalog rebuild"), "{list}");

    let run = output(folder, &["run", "silent.toml", "--seconds", "0.05", "--json"]);
    assert_eq!(run.status.code(), Some(0));
    let printed = String::from_utf8_lossy(&run.stderr);
    assert!(printed.contains("recording goes on without the catalogue of runs"), "{printed}");
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(summary["number"], 2, "it is taken from the file beside");

    // 3: the remarks are gone, and it says so.
    let rebuilt = json(folder, &["catalog", "rebuild", "--json"], 3);
    assert_eq!((&rebuilt["runs"], &rebuilt["highest_number"]), (&2.into(), &2.into()));
    assert!(rebuilt["old_catalog"].as_str().unwrap().contains("is damaged"), "{rebuilt}");
    assert_eq!(recorded(folder, &[]), 3);
    assert!(stdout(folder, &["catalog", "rebuild"], 0).starts_with("3 runs, 3 of them"));
}
