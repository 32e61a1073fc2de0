//! What becomes of a run whose terminal goes away.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Child;

use crate::support;
use support::{catchment, json, printed};

fn silent(folder: &Path) -> [&'static str; 2] {
    let text = "[memory]\nbudget = \"256 MiB\"\n\
        [[sources]]\nname = \"silent\"\naddress = \"127.0.0.1:0\"\n";
    std::fs::write(folder.join("silent.toml"), text).unwrap();
    ["run", "silent.toml"]
}

fn state(folder: &Path) -> serde_json::Value {
    json(folder, &["catalog", "show", "1", "--json"], 0)["state"].clone()
}

fn send(child: &Child, signal: i32) {
    // SAFETY: the process is our child, and not waited for yet.
    let sent = unsafe { libc::kill(child.id() as i32, signal) };
    assert_eq!(sent, 0, "{}", io::Error::last_os_error());
}

/// Sets what a program that is about to be started does when it hears of its terminal's end; these
/// tests may run under `nohup`.
fn heed(what: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: the call is safe after a fork and touches no memory.
    match unsafe { libc::signal(libc::SIGHUP, what) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Both ends of a terminal: the program's, and that of whoever looks at it.
fn terminal() -> (OwnedFd, File) {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut::<libc::c_char>();
    // SAFETY: the places are valid to write to, and the rest may be null.
    let opened = unsafe {
        let (settings, size) = (std::ptr::null(), std::ptr::null());
        libc::openpty(&raw mut ours, &raw mut theirs, none, settings, size)
    };
    assert_eq!(opened, 0, "{}", io::Error::last_os_error());
    // The program must not keep our end open.
    // SAFETY: it changes a flag of a descriptor that is ours.
    unsafe { libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: both are open, and nobody else's.
    unsafe { (OwnedFd::from_raw_fd(theirs), File::from_raw_fd(ours)) }
}

#[test]
fn a_run_whose_terminal_is_closed_ends_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (theirs, mut ours) = terminal();
    let mut command = catchment(folder, &silent(folder));
    command.stdout(theirs.try_clone().unwrap()).stderr(theirs.try_clone().unwrap());
    command.stdin(theirs);
    let own_terminal = || {
        heed(libc::SIG_DFL)?;
        // SAFETY: both calls are safe after a fork and touch no memory.
        match unsafe { (libc::setsid(), libc::ioctl(0, libc::TIOCSCTTY, 0)) } {
            (1.., 0) => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: it does nothing but these calls.
    unsafe { command.pre_exec(own_terminal) };
    let mut child = command.spawn().unwrap();
    // Its ends of the terminal.
    drop(command);
    let mut seen = Vec::new();
    let mut piece = [0; 1_024];
    // The view is being drawn.
    while !String::from_utf8_lossy(&seen).contains("\u{1b}[J") {
        let read = ours.read(&mut piece).unwrap();
        seen.extend_from_slice(&piece[..read]);
    }
    drop(ours);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(state(folder), "complete");
}

#[test]
fn a_second_sighup_is_no_haste() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut command = catchment(folder, &silent(folder));
    // SAFETY: it does nothing but that call.
    unsafe { command.pre_exec(|| heed(libc::SIG_DFL)) };
    let (mut child, _lines, _) = printed(command, "Socket buffers of");
    send(&child, libc::SIGHUP);
    send(&child, libc::SIGHUP);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(state(folder), "complete");
}

#[test]
fn a_run_without_a_terminal_goes_on_where_somebody_wants_that() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut command = catchment(folder, &silent(folder));
    // SAFETY: it does nothing but that call.
    unsafe { command.pre_exec(|| heed(libc::SIG_IGN)) };
    let (mut child, lines, _) = printed(command, "Socket buffers of");
    send(&child, libc::SIGHUP);
    let lines = BufReader::new(lines).lines().map(Result::unwrap);
    let mut lines = lines.skip_while(|line| line.starts_with("Lowered: "));
    for _ in 0..3 {
        let line = lines.next().expect("it goes on");
        assert!(line.contains("  recording  "), "{line}");
    }
    send(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(state(folder), "complete");
}
