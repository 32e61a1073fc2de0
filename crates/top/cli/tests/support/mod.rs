//! The real binary, for the tests that run it.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::borrow::BorrowMut;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

pub use catchment_fixtures::{free, free_ports};
use catchment_wire::hadtu::{ByteOrder, PacketEncoder, SubEventHeader};
use serde_json::Value;

/// A command that runs in a folder of its own, so that what it records goes there.
pub fn catchment(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catchment"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

pub fn output(folder: &Path, arguments: &[&str]) -> Output {
    catchment(folder, arguments).output().expect("the binary starts")
}

/// Runs it, asserts its exit code and returns its stdout.
pub fn stdout(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = output(folder, arguments);
    let text = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}\n{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    text
}

pub fn json(folder: &Path, arguments: &[&str], code: i32) -> Value {
    let text = stdout(folder, arguments, code);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{text}"))
}

pub fn stderr(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = output(folder, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

pub fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name);
    path.to_str().expect("a path in text").to_owned()
}

/// Starts a command and returns it once it printed a line that contains that word.
pub fn started(folder: &Path, arguments: &[&str], word: &str) -> (Child, BufReader<ChildStdout>) {
    let (child, lines, _) = printed(catchment(folder, arguments), word);
    (child, lines)
}

/// As [`started`], for a command that was prepared; with the line.
pub fn printed(mut command: Command, word: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        let read = lines.read_line(&mut line).expect("text");
        assert!(read > 0, "{command:?} ended without saying {word:?}");
    }
    (child, lines, line)
}

/// The only run in a folder's `runs`; the catalogue stands beside it.
pub fn only_run(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder.join("runs")).expect("a folder of runs");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let runs: Vec<_> = names.filter(|name| name != ".catchment").collect();
    let [run] = &runs[..] else { panic!("expected one run, got {runs:?}") };
    folder.join("runs").join(run)
}

/// Ends a recorder in order; returns its exit code.
pub fn interrupt(mut recorder: impl BorrowMut<Child>) -> Option<i32> {
    let recorder = recorder.borrow_mut();
    // SAFETY: the process is our child, and not waited for yet.
    assert_eq!(unsafe { libc::kill(recorder.id() as i32, libc::SIGINT) }, 0);
    recorder.wait().unwrap().code()
}

/// A packet of one sub-event, of 2,000 bytes at most.
pub fn packet(order: ByteOrder, header: &SubEventHeader, payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 2_000];
    let mut encoder = PacketEncoder::begin(&mut buffer, order);
    assert!(encoder.push(header, payload), "it fits");
    let bytes = encoder.finish();
    buffer.truncate(bytes);
    buffer
}
