use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::*;

/// What came of each step, without its time.
fn said(steps: &Steps) -> Vec<String> {
    let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = steps.lines().into_iter().map(words);
    let untimed = |line: String| match line.split_once(" min ") {
        // Without the minutes before it and the seconds behind it.
        Some((before, after)) => {
            let word = before.rsplit_once(' ').map_or("", |(word, _)| word);
            format!("{word} {}", &after["00 s ".len()..]).trim().to_owned()
        }
        None => line,
    };
    lines.map(untimed).collect()
}

#[test]
fn what_needs_nothing_of_a_failed_step_runs_and_the_rest_is_told() {
    let steps = Steps::in_turn();
    let page = steps.time("page", &[Step::NONE], || Ok(()));
    let program = steps.run("program", &[], &mut Command::new("false"));
    let tests = steps.time("tests", &[page, program], || panic!("it needs the program"));
    let more = steps.time("more", &[tests], || panic!("it needs the tests"));
    let mut ran = false;
    let types = steps.time("types", &[page], || {
        ran = true;
        Ok(())
    });
    steps.time("all", &[types, more, program], || panic!("it needs more"));
    assert!(ran);
    assert_eq!(
        said(&steps),
        [
            "passed page",
            "FAILED program: exit status: 1: \"false\"",
            "not run tests: it needs `program`",
            "not run more: it needs `tests`",
            "passed types",
            "not run all: it needs `more`",
            "in all",
        ]
    );
    let error = steps.finish("test").unwrap_err().to_string();
    assert_eq!(error, "test: of 6 steps 1 failed and 3 were not run");
}

#[test]
fn steps_that_all_pass_are_no_error() {
    let steps = Steps::in_turn();
    let first = steps.run("first", &[], &mut Command::new("true"));
    steps.time("second", &[first], || Ok(()));
    assert_eq!(said(&steps), ["passed first", "passed second", "in all"]);
    steps.finish("test").unwrap();
}

#[test]
fn steps_beside_each_other_are_all_told_and_what_one_needs_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let steps = Steps::beside(folder.path().join("steps")).unwrap();
    let touch = |name: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo said; echo complained >&2; touch \"$0\""]);
        shell.arg(folder.path().join(name));
        shell
    };
    // The one ends only when the other has.
    let wait = || {
        while !folder.path().join("other").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let one = scope.spawn(|| steps.time("one", &[], wait));
        let other = steps.run("the other", &[], &mut touch("other"));
        let both = [one.join().unwrap(), other];
        steps.run("both", &both, &mut touch("both"));
    });
    let printed = std::fs::read_to_string(folder.path().join("steps/the-other.txt")).unwrap();
    assert_eq!(printed, "said\ncomplained\n");
    let mut said = said(&steps);
    said[..2].sort();
    assert_eq!(said, ["passed one", "passed the other", "passed both", "in all"]);
}

#[test]
fn the_gate_goes_on_after_a_failure_and_fails_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let make = folder.path().join("make");
    // Everything but the check passes.
    let script = "#!/bin/sh\necho \"$1\" >> \"$CALLS\"\n[ \"$1\" != check ]\n";
    std::fs::write(&make, script).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&make, std::fs::Permissions::from_mode(0o755)).unwrap();
    let calls = folder.path().join("calls");
    let path = std::env::var("PATH").unwrap();
    let gate = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/run");
    let mut run = Command::new(gate);
    run.env("PATH", format!("{}:{path}", folder.path().display())).env("CALLS", &calls);
    let told = run.output().unwrap();
    assert_eq!(std::fs::read_to_string(calls).unwrap(), "check\nfuzz\ntest\n");
    assert_eq!(told.status.code(), Some(1));
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("FAILED") && text.contains("make check"), "{text}");
    assert_eq!(text.matches("passed").count(), 2, "{text}");
}

#[test]
fn what_stands_still_is_killed_with_all_that_it_has_started() {
    let mut command = Command::new("sh");
    // A shell that waits for its child, which waits for as long.
    command.args(["-c", "sleep 1000 & echo started; wait"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    kill(&mut child).unwrap();
    // The pipe ends with the last that has its other end.
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
}

#[test]
fn a_command_that_takes_longer_than_it_may_fails() {
    let error = succeed_in(Duration::ZERO, Command::new("sleep").arg("1000")).unwrap_err();
    assert!(error.to_string().starts_with("it stands still"), "{error:#}");
}
