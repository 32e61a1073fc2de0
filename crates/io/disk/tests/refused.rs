//! If the kernel refuses io_uring, as containers often do, writing continues without it.
#![cfg(target_endian = "little")]

use crate::common::*;
use catchment_disk::{Disk, DiskConfig, DiskError, EngineChoice};

/// Makes a system call fail for this thread and those it starts; with `argument`, only if its
/// second argument equals it. Each test has its own thread, so no other one is affected.
fn refuse(call: libc::c_long, argument: Option<u32>, error: i32) {
    let load = |at| filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let equal_or_skip =
        |value, skip| filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value);
    let answer = |value| filter(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let (number_at, second_argument_at) = (0, 24);
    let mut program = vec![load(number_at)];
    let skip = if argument.is_some() { 3 } else { 1 };
    program.push(equal_or_skip(u32::try_from(call).expect("a call's number"), skip));
    if let Some(argument) = argument {
        program.extend([load(second_argument_at), equal_or_skip(argument, 1)]);
    }
    program.push(answer(libc::SECCOMP_RET_ERRNO | error.unsigned_abs()));
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("a short program"),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: these take no pointers except the program, which is valid for the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        let result = libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter);
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

fn filter(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn write_and_read_back(disk: &mut Disk) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = path(folder.path(), "a");
    let file = disk.create(&path).expect("a new file");
    let mut completions = Vec::new();
    for index in 0..20 {
        write(disk, file, index * BLOCK, 1, 5, &mut completions);
    }
    disk.sync(file, 0).expect("few syncs");
    disk.finish(file, 20 * BLOCK as u64);
    completions.extend(drain(disk));
    all_good(&completions);
    assert_eq!(std::fs::read(&path).expect("the file"), vec![5; 20 * BLOCK]);
}

#[test]
fn without_io_uring_the_portable_engine_writes_and_says_why() {
    refuse(libc::SYS_io_uring_setup, None, libc::EPERM);
    let mut disk = Disk::new(config(EngineChoice::Auto)).expect("a disk");
    assert_eq!(disk.engine(), "pwrite");
    let note = disk.engine_note().expect("a reason");
    assert!(note.starts_with("io_uring cannot be used: Operation not permitted"), "{note}");
    write_and_read_back(&mut disk);
    let error = Disk::new(config(EngineChoice::Uring)).err().expect("it was insisted on");
    assert!(matches!(error, DiskError::Engine { engine: "io_uring", .. }), "{error}");
}

#[test]
fn without_registered_buffers_io_uring_writes_and_says_why() {
    if Disk::new(config(EngineChoice::Uring)).is_err() {
        println!("skipped: io_uring cannot be used here");
        return;
    }
    let register_buffers = 0;
    refuse(libc::SYS_io_uring_register, Some(register_buffers), libc::ENOMEM);
    let mut disk = Disk::new(config(EngineChoice::Auto)).expect("a disk");
    assert_eq!(disk.engine(), "io_uring");
    let note = disk.engine_note().expect("a reason");
    assert!(note.starts_with("buffers could not be registered: "), "{note}");
    write_and_read_back(&mut disk);
}

#[test]
fn without_preallocation_all_goes_on() {
    refuse(libc::SYS_fallocate, None, libc::EOPNOTSUPP);
    let mut disk = Disk::new(config(EngineChoice::Auto)).expect("a disk");
    write_and_read_back(&mut disk);
}

#[test]
fn a_disk_without_memory_for_its_buffers_is_refused() {
    let config =
        DiskConfig { buffer_bytes: 256 << 20, buffer_count: 1_024, ..config(Default::default()) };
    refuse(libc::SYS_mmap, Some((config.memory_bytes() + (2 << 20)) as u32), libc::ENOMEM);
    let error = Disk::new(config).err().expect("256 GiB are refused");
    assert!(error.to_string().starts_with("cannot get memory for the buffers"), "{error}");
}
