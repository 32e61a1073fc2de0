//! All writers of a node, as one agent: on one thread, which any of their disks wakes.
//!
//! Nothing that a writer does waits for a disk. Writes and syncs are in the kernel; files are made,
//! ended and removed by helper threads; and a writer that ends while something is under way is
//! dropped on a thread of its own. So a disk that hangs stops no stream in another folder.
//!
//! A panic is that of all streams of the thread: each gets a fault that names the thread, and its
//! session ends. Their files stay as a killed node leaves them, and are ended when the stream is
//! opened again; beside a part in a folder that was left out they are cut behind what is durable.

use catchment_agent::{Agent, Work};
use catchment_disk::Disk;
use crossbeam_channel::{Receiver, TryRecvError};

use crate::host::{Begun, Dropping};

/// The agent's state.
pub(crate) struct Writers {
    /// Those that are begun. It goes first: whoever begins one later finds that.
    new: Receiver<Begun<Disk>>,
    writers: Vec<Begun<Disk>>,
    dropping: Dropping,
}

impl Writers {
    pub(crate) fn new(writers: Vec<Begun<Disk>>, new: Receiver<Begun<Disk>>) -> Self {
        Self { new, writers, dropping: Dropping::default() }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        // Not one after the other: each may wait for its disk.
        self.writers.iter().for_each(Begun::note_panic);
    }
}

impl Agent for Writers {
    fn work(&mut self, now_ns: u64) -> Work {
        let mut all = Work::until_woken(0);
        let is_last = loop {
            match self.new.try_recv() {
                Ok(begun) => self.writers.push(begun),
                Err(error) => break error == TryRecvError::Disconnected,
            }
        };
        let mut index = 0;
        while let Some(one) = self.writers.get_mut(index) {
            let Work { done, wake_at_ns, ended, .. } = one.work(now_ns);
            all.done += done;
            if ended {
                self.dropping.take(self.writers.swap_remove(index));
            } else {
                all.wake_at_ns = all.wake_at_ns.min(wake_at_ns);
                index += 1;
            }
        }
        all.ended = is_last && self.writers.is_empty();
        all
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use catchment_agent::Entropy;
    use catchment_disk::{Disk, DiskConfig, FaultControl, FaultPlan};
    use catchment_fixtures::{Random, wait_while};
    use catchment_model::Ledger;
    use catchment_network_folder::{NetworkFolder, Operation, Refused};
    use catchment_telemetry::Clock;
    use crossbeam_channel::Sender;

    use crate::config::StoreConfig;
    use crate::host::{HasEnded, Host, HostDisks, OnThread};
    use crate::items::Item;
    use crate::state::{NodeState, StreamState};
    use crate::writer::tests::{frame, parts};
    use crate::writer::{Writer, WriterParts};

    struct Panics;

    impl Entropy for Panics {
        fn random_u64(&mut self) -> io::Result<u64> {
            panic!("as it is to")
        }
    }

    /// A node's writers on their thread, and its folders.
    struct Rig {
        host: OnThread,
        config: StoreConfig,
        node: NodeState,
    }

    /// A stream, of which frames from 0 on are sent.
    struct Stream {
        input: Sender<Item>,
        wake: catchment_agent::Waker,
        state: Arc<StreamState>,
        has_ended: HasEnded,
        sent: u64,
    }

    impl Rig {
        fn new(folders: Vec<PathBuf>, control: &FaultControl) -> Self {
            let faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
            let disk = DiskConfig {
                buffer_bytes: 64 << 10,
                preallocate_bytes: 0,
                faults,
                ..DiskConfig::default()
            };
            let config = StoreConfig {
                address: ([127, 0, 0, 1], 0).into(),
                access: catchment_net::LinkAccess::default(),
                folders,
                memory_bytes: 1 << 20,
                file_bytes: 1 << 30,
                disk,
                sync_bytes: u64::MAX,
                close_after_ns: 0,
            };
            let node = NodeState::new(config.memory_bytes, &config.folders);
            Self { host: OnThread::new(Clock::start()).unwrap(), config, node }
        }

        fn begin(&mut self, folder: usize, name: &str, entropy: Box<dyn Entropy>) -> Stream {
            self.begin_with(folder, name, |parts| parts.entropy = entropy)
        }

        fn begin_with(
            &mut self,
            folder: usize,
            name: &str,
            change: impl FnOnce(&mut WriterParts<Disk>),
        ) -> Stream {
            let path = self.config.folders[folder].join(name);
            std::fs::create_dir_all(&path).unwrap();
            let paths = [path];
            let HostDisks { stores, waker, .. } = self.host.disks(&paths, &self.config).unwrap();
            let now_ns = self.host.now_ns();
            let of_folder = vec![Arc::clone(&self.node.folders[folder])];
            let (mut parts, input, state) = parts(stores, &paths, (of_folder, false), now_ns);
            parts.entropy = random();
            change(&mut parts);
            let has_ended = self.host.begin(name, Writer::new(parts), ()).unwrap();
            Stream { input, wake: waker, state, has_ended, sent: 0 }
        }

        /// Sends a frame.
        fn send(&self, stream: &mut Stream) {
            stream.input.send(frame(&self.node, stream.sent, self.host.now_ns())).unwrap();
            stream.sent += 1;
            stream.wake.wake();
        }

        /// Sends a frame, and waits until it is durable.
        fn record(&self, stream: &mut Stream) {
            self.send(stream);
            wait_while(|| stream.state.durable.load(Relaxed) < stream.sent);
        }
    }

    fn random() -> Box<dyn Entropy> {
        Box::new(Random::new(9))
    }

    fn folders(folder: &Path) -> Vec<PathBuf> {
        vec![folder.join("first"), folder.join("second")]
    }

    #[test]
    fn a_panic_gives_all_streams_of_the_thread_a_fault_that_names_it_and_the_next_has_a_new_thread()
    {
        let folder = tempfile::tempdir().unwrap();
        let mut rig = Rig::new(folders(folder.path()), &FaultControl::default());
        let mut good = rig.begin(0, "good", random());
        rig.record(&mut good);
        let mut bad = rig.begin(1, "bad", Box::new(Panics));
        rig.send(&mut bad);
        wait_while(|| !good.has_ended.get() || !bad.has_ended.get());
        for (stream, durable) in [(good, 1), (bad, 0)] {
            let fault = stream.state.fault.lock().clone().expect("it has failed");
            assert_eq!(fault.reason, "the thread write has failed");
            let left = stream.state.at_end.lock().as_ref().map(|one| one.sequence);
            assert_eq!((left, fault.cuts.len()), (Some(durable), durable as usize));
        }
        let mut next = rig.begin(0, "next", random());
        rig.record(&mut next);
        let Stream { input, has_ended, state, .. } = next;
        drop(input);
        assert_eq!(rig.host.end().as_deref(), Some("write"));
        assert!(has_ended.get() && !state.has_failed());
    }

    #[test]
    fn a_writer_that_cannot_say_what_it_leaves_has_a_fault_as_the_others_of_its_thread() {
        let folder = tempfile::tempdir().unwrap();
        let mut rig = Rig::new(folders(folder.path()), &FaultControl::default());
        let mut good = rig.begin(0, "good", random());
        rig.record(&mut good);
        // A defect that the first frame shows, and the sum of what is durable once more.
        let mut bad = rig.begin_with(1, "bad", |parts| parts.ledger = Ledger::new(2));
        rig.send(&mut bad);
        wait_while(|| !good.has_ended.get() || !bad.has_ended.get());
        for (stream, files) in [(good, 1), (bad, 0)] {
            let fault = stream.state.fault.lock().clone().expect("it has failed");
            assert_eq!(fault.reason, "the thread write has failed");
            assert_eq!(fault.cuts.len(), files);
            assert_eq!(stream.state.at_end.lock().is_some(), files > 0);
        }
        assert_eq!(rig.host.end().as_deref(), Some("write"));
    }

    #[test]
    fn a_writer_that_ends_while_its_disk_hangs_is_dropped_beside_the_others() {
        let Some(remote) = NetworkFolder::mount(Refused { direct: true, blocks: true }) else {
            return;
        };
        let (folder, control) = (tempfile::tempdir().unwrap(), FaultControl::default());
        let folders = vec![remote.path().join("first"), folder.path().join("second")];
        let mut rig = Rig::new(folders, &control);
        let (mut far, mut near) = (rig.begin(0, "far", random()), rig.begin(1, "near", random()));
        rig.record(&mut far);
        // The list of files is written behind that of `far`, by the same helper.
        let mut before = rig.begin(0, "before", random());
        rig.record(&mut before);
        drop(before.input);
        wait_while(|| !before.has_ended.get());
        let stalled = remote.stall(Operation::Sync);
        rig.send(&mut far);
        wait_while(|| remote.waiting(Operation::Sync) == 0);
        control.fail_writes(Some(libc::EIO));
        rig.send(&mut far);
        wait_while(|| !far.state.has_failed());
        for _ in 0..3 {
            rig.record(&mut near);
        }
        assert!(!far.has_ended.get(), "its sync is under way");
        drop(stalled);
        wait_while(|| !far.has_ended.get());
        drop(near.input);
        assert_eq!(rig.host.end(), None);
        assert!(near.has_ended.get() && !near.state.has_failed());
    }
}
