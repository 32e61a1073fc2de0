//! A detector of two sources that a test plays, and small disks to record to.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use catchment_disk::FaultPlan;
use catchment_model::Entry;
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, State};
use catchment_storage::{Run, Verdict, audit, verify};
use catchment_wire::hadtu::ByteOrder;

use super::{config, packet, senders, total};

const PAYLOAD_BYTES: usize = 8_000;

/// Two sources that send the same events, as fast as the recorder takes them up.
pub struct Detector {
    pub recorder: Recorder,
    sockets: Vec<UdpSocket>,
    next_event: u32,
}

impl Detector {
    pub fn start(config: RecorderConfig) -> Self {
        let recorder = Recorder::start(config).unwrap();
        let sockets = senders(&recorder);
        Self { recorder, sockets, next_event: 1 }
    }

    /// Sends events and waits until they are recorded or discarded, so that it is never memory that
    /// runs out first.
    pub fn send(&mut self, events: u32) {
        self.send_on(events);
        self.wait(|r| r.snapshot().ledger.balance().fragments_in_flight == 0);
    }

    /// Sends events and waits until the recorder has received them.
    pub fn send_on(&mut self, events: u32) {
        let payload = vec![0x5a; PAYLOAD_BYTES];
        for _ in 0..events {
            for (source, socket) in self.sockets.iter().enumerate() {
                let number = self.next_event & 0xff_ffff;
                let packet = packet(source as u32, ByteOrder::Big, &[(number, &payload)]);
                socket.send(&packet).unwrap();
            }
            self.next_event += 1;
        }
        let sent = u64::from(self.next_event - 1) * 2;
        self.wait(|recorder| received(recorder) == sent);
    }

    /// Sends on until the recorder is in that state.
    pub fn send_until(&mut self, reached: impl Fn(&State) -> bool) {
        while !reached(&self.recorder.snapshot().state) {
            self.send(20);
        }
    }

    pub fn wait(&self, reached: impl Fn(&Recorder) -> bool) {
        while !reached(&self.recorder) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    pub fn stop(self) -> RunSummary {
        let sent = u64::from(self.next_event - 1) * 2;
        let summary = self.recorder.stop().unwrap();
        assert_eq!(total(&summary, Entry::FragmentsReceived), sent);
        let balance = summary.last.ledger.balance();
        assert!(balance.holds(), "{balance:?}");
        summary
    }
}

pub fn received(recorder: &Recorder) -> u64 {
    recorder.snapshot().ledger.total()[Entry::FragmentsReceived]
}

pub fn in_fault(state: &State) -> bool {
    matches!(state, State::Fault { .. })
}

pub fn small_frames(folder: &Path, plan: Option<FaultPlan>) -> RecorderConfig {
    let mut config = config(folder, 2);
    config.frame.bytes = 256 << 10;
    config.frame.time_ns = 20_000_000;
    config.write.buffer_bytes = 64 << 10;
    config.write.preallocate_bytes = 1 << 20;
    config.write.faults = plan;
    config
}

/// Everything in the files reads back, and the books of the files are those of the summary.
pub fn assert_readable(summary: &RunSummary, verdict: Verdict) {
    let run = Run::open(&summary.folder).unwrap();
    let report = verify(&run, |_| {});
    assert!(report.is_intact(), "{report:?}");
    let audit = audit(&run).unwrap();
    assert_eq!(audit.verdict, verdict, "{audit:?}");
    let recorded = total(summary, Entry::FragmentsRecorded);
    assert_eq!(audit.recomputed.total()[Entry::FragmentsRecorded], recorded);
    assert_eq!(summary.last.files.len(), run.files().len());
}

/// A file system of its own, unmounted at the end.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None, with the reason printed, where mounting is not permitted.
    pub fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (path, options) = (c_text(folder.path()), std::ffi::CString::new(options).unwrap());
        let kind = c"tmpfs".as_ptr();
        // SAFETY: all texts end with a zero byte and live through the call.
        let result = unsafe { libc::mount(kind, path.as_ptr(), kind, 0, options.as_ptr().cast()) };
        if result != 0 {
            println!("not run: cannot mount: {}", std::io::Error::last_os_error());
            return None;
        }
        Some(Self(folder))
    }

    /// An ext4 file system of that size in a file; none, with the reason printed, where that cannot
    /// be made or mounted.
    pub fn ext4(image: &Path, bytes: u64) -> Option<Self> {
        std::fs::File::create(image).unwrap().set_len(bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let commands = [
            vec!["mkfs.ext4", "-q", "-F", image.to_str().unwrap()],
            vec!["mount", "-o", "loop", image.to_str().unwrap(), folder.path().to_str().unwrap()],
        ];
        for command in commands {
            let done = std::process::Command::new(command[0]).args(&command[1..]).output();
            let said = done.map(|done| (done.status.success(), done.stderr));
            if !matches!(said, Ok((true, _))) {
                println!("not run: {command:?}: {said:?}");
                return None;
            }
        }
        Some(Self(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // SAFETY: the text ends with a zero byte and lives through the call.
        let result = unsafe { libc::umount2(c_text(self.path()).as_ptr(), libc::MNT_DETACH) };
        assert_eq!(result, 0, "unmounted");
    }
}

pub fn c_text(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(PathBuf::from(path).into_os_string().into_encoded_bytes()).unwrap()
}
