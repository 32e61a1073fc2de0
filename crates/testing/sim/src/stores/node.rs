//! A storage node: its agents, its disk, and its lives.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Entropy, Work};
use catchment_disk::DiskConfig;
use catchment_fixtures::Random;
use catchment_net::LinkAccess;
use catchment_ports::{
    MemoryFiles, MemoryStore, QueueIngress, Queues, StoreFaults, StoreWatch, VirtualClock,
};
use catchment_store::{Assembly, AssemblyParts, NodeObserver, StoreConfig, StreamSnapshot};

use super::plan::NodePlan;
use crate::case::Case;
use crate::plan::S;
use crate::recorder::{Called, Slot};

/// A storage node.
pub(super) struct SimNode {
    plan: NodePlan,
    case: Case,
    number: usize,
    /// The first index of its agents in the trace: of that which receives, and of the writer.
    index: u16,
    clock: VirtualClock,
    /// Its folder on the real disk, in which it finds what is in its files when it is started.
    pub(super) folder: PathBuf,
    pub(super) files: MemoryFiles,
    pub(super) life: Option<NodeLife>,
    pub(super) lives: u64,
    /// Whether its power failed, or a writer, and since then no stream was begun: what was not
    /// durable may be there in part.
    pub(super) is_unrepaired: bool,
    is_calm: bool,
    /// Until when an operation of its disk may hang.
    hangs_until_ns: u64,
    /// Since when it has nothing to write, when that was looked at last, and whether it was so for
    /// long enough.
    rests_ns: Option<u64>,
    pub(super) has_rested: bool,
}

/// A node that runs.
pub(super) struct NodeLife {
    assembly: Assembly<MemoryStore>,
    pub(super) observer: NodeObserver,
    pub(super) slots: Vec<Slot>,
    pub(super) queues: Queues,
    pub(super) port: usize,
    /// Of the disk of the newest writer.
    watches: Arc<parking_lot::Mutex<Vec<StoreWatch>>>,
    woken: Option<Arc<AtomicBool>>,
    /// Until when its agents are not called.
    held_until_ns: u64,
}

impl SimNode {
    pub(super) fn new(
        (case, plan): (&Case, &NodePlan),
        (number, index): (usize, u16),
        clock: &VirtualClock,
        root: &Path,
    ) -> Self {
        Self {
            plan: plan.clone(),
            case: *case,
            number,
            index,
            clock: clock.clone(),
            folder: root.join(format!("node-{number}")),
            files: MemoryFiles::default(),
            life: None,
            lives: 0,
            is_unrepaired: false,
            is_calm: false,
            hangs_until_ns: 0,
            rests_ns: None,
            has_rested: false,
        }
    }

    /// It is started.
    pub(super) fn begin(&mut self) {
        let name = format!("node {} life {}", self.number, self.lives);
        self.lives += 1;
        let mut chance = self.case.chance(&name);
        let queues = Queues::default();
        let port = queues.add(0);
        let watches = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let (of_store, files, clock) =
            (Arc::clone(&watches), self.files.clone(), self.clock.clone());
        let plan = self.plan.clone();
        let NodePlan { buffers, mut times, file_bytes, sync_bytes, memory_bytes, .. } = plan;
        if self.is_calm {
            times.faults = StoreFaults::default();
        }
        let mut seeds = Random::new(chance.next_u64());
        let store = move |folder: &Path| {
            let seed = seeds.next_u64();
            let store = MemoryStore::new((clock.clone(), seed), buffers, times);
            let store = store.on(&files).sized(folder, DISK_BYTES);
            *of_store.lock() = vec![store.watch()];
            store
        };
        let entropy = move || Box::new(Random::new(chance.next_u64())) as Box<dyn Entropy>;
        let sync_interval_ns = times.sync_interval_ns;
        let config = StoreConfig {
            address: ([127, 0, 0, 1], 0).into(),
            access: LinkAccess::default(),
            folders: vec![self.folder.clone()],
            memory_bytes,
            file_bytes,
            disk: DiskConfig { buffer_bytes: buffers.1, sync_interval_ns, ..DiskConfig::default() },
            sync_bytes,
            close_after_ns: plan.close_after_ns,
        };
        let parts = AssemblyParts {
            ingress: Box::new(QueueIngress::new(&queues, vec![port], PER_POLL)),
            entropy: Box::new(entropy),
            store: Box::new(store),
        };
        let (assembly, agent) = Assembly::new(config, parts);
        let observer = assembly.observer();
        let due_ns = self.clock.now_ns();
        let receive = Slot {
            agent,
            name: "receive".to_owned(),
            index: self.index,
            due_ns,
            busy_ns: 0,
            is_blocked: false,
        };
        let (slots, woken) = (vec![receive], None);
        let held_until_ns = 0;
        self.life = Some(NodeLife {
            assembly,
            observer,
            slots,
            queues,
            port,
            watches,
            woken,
            held_until_ns,
        });
    }

    /// Its power fails.
    pub(super) fn crash(&mut self) {
        if let Some(life) = self.life.take() {
            drop(life);
            self.is_unrepaired = true;
            // Lists and generations are durable as they are, and replaced as a whole.
            let is_other = |(path, _): &(PathBuf, _)| path.extension() != Some("catch".as_ref());
            let others: Vec<_> = self.files.all().into_iter().filter(is_other).collect();
            let name = format!("crash {} of node {}", self.lives, self.number);
            self.files.crash(&mut self.case.chance(&name));
            others.into_iter().for_each(|(path, bytes)| self.files.replace(&path, bytes));
        }
    }

    /// It is told to end.
    pub(super) fn stop(&mut self) {
        if let Some(life) = &self.life {
            life.assembly.stop();
        }
    }

    /// Its agents are not called until then.
    pub(super) fn hang(&mut self, until_ns: u64) {
        let Some(life) = &mut self.life else { return };
        life.held_until_ns = life.held_until_ns.max(until_ns);
        for slot in &mut life.slots {
            slot.busy_ns = slot.busy_ns.max(until_ns);
        }
    }

    /// Its disk does nothing wrong from now on.
    pub(super) fn calm(&mut self) {
        self.is_calm = true;
        self.plan.times.faults = StoreFaults::default();
        let watches = self.life.iter().flat_map(|life| life.watches.lock().clone());
        watches.for_each(|watch| watch.set_faults(StoreFaults::default()));
    }

    /// An operation of its disk hangs.
    pub(super) fn disk_hangs(&mut self, now_ns: u64) {
        self.hangs_until_ns = now_ns + DISK_HANGS_NS;
    }

    /// Whether something may keep it for long from saying what it has: it is not there, or its disk
    /// goes wrong. Whatever else befalls it and its connections passes within seconds.
    pub(super) fn may_not_answer(&self, now_ns: u64) -> bool {
        let faults = self.plan.times.faults;
        let full_ns = faults.full_ns.filter(|(_, until_ns)| now_ns < *until_ns);
        let goes_wrong = StoreFaults { full_ns, ..faults } != StoreFaults::default();
        self.life.is_none() || goes_wrong || now_ns < self.hangs_until_ns
    }

    /// Whether it has had nothing to write for as long as it keeps streams that nobody sends: what
    /// earlier lives have left, or a writer that failed, is closed. As at the node, time in which
    /// its agents are not called does not count: a sender could not have been heard.
    pub(super) fn is_at_rest(&mut self, now_ns: u64) -> bool {
        let Some(life) = self.life.as_ref().filter(|_| !self.has_ended()) else { return true };
        let is_closed = |stream: &StreamSnapshot| stream.has_ended || stream.is_given_up;
        let is_idle = now_ns >= life.held_until_ns
            && life.slots.len() <= 1
            && !life.assembly.has_orders()
            && life.observer.snapshot().streams.iter().all(is_closed);
        let since_ns = *self.rests_ns.get_or_insert(now_ns);
        self.rests_ns = is_idle.then_some(since_ns);
        self.has_rested = is_idle && now_ns - since_ns >= self.plan.close_after_ns + S;
        self.has_rested
    }

    /// Whether all its agents have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.life.as_ref().is_none_or(|life| life.slots.is_empty())
    }

    /// Something has come over its connections.
    pub(super) fn wake(&mut self, now_ns: u64) {
        let slots = self.life.iter_mut().flat_map(|life| &mut life.slots);
        let receive = slots.filter(|slot| slot.index == self.index && !slot.is_blocked);
        receive.for_each(|slot| slot.wake(now_ns));
    }

    /// When one of its agents is called next.
    pub(super) fn next_ns(&mut self) -> u64 {
        let Some(life) = &mut self.life else { return u64::MAX };
        let due_ns = life.watches.lock().iter().map(StoreWatch::due_ns).min().unwrap_or(u64::MAX);
        let next = |slot: &mut Slot| {
            if slot.index != self.index {
                slot.due_ns = slot.due_ns.min(due_ns);
            }
            slot.next_ns()
        };
        life.slots.iter_mut().map(next).min().unwrap_or(u64::MAX)
    }

    /// What its disks did since that was last asked for.
    pub(super) fn watches(&self) -> Vec<StoreWatch> {
        self.life.as_ref().map_or(Vec::new(), |life| life.watches.lock().clone())
    }

    /// Calls one of its agents that are due, and carries out what it has ordered.
    ///
    /// # Errors
    /// The real disk.
    pub(super) fn call(&mut self, times: &mut Random) -> Result<Option<Called>, String> {
        let now_ns = self.clock.now_ns();
        let Some(life) = &mut self.life else { return Ok(None) };
        let count = life.slots.iter().filter(|slot| slot.is_due(now_ns)).count();
        if count == 0 {
            return Ok(None);
        }
        let nth = times.index(count);
        let mut due = life.slots.iter().enumerate().filter(|(_, slot)| slot.is_due(now_ns));
        let Some((at, _)) = due.nth(nth) else { return Ok(None) };
        let slot = &mut life.slots[at];
        let Work { done, wake_at_ns, is_blocked, ended } = slot.agent.work(now_ns);
        let index = slot.index;
        let longest_ns = if done == 0 { 3_000 } else { [5_000, 50_000, 500_000][times.index(3)] };
        let busy_ns = 500 + times.below(longest_ns);
        slot.busy_ns = now_ns + busy_ns;
        (slot.due_ns, slot.is_blocked) = (wake_at_ns.max(slot.busy_ns), is_blocked);
        if ended {
            life.slots.swap_remove(at);
            let has_failed = || {
                let streams = life.observer.snapshot().streams;
                streams.iter().any(|stream| stream.trouble.is_some() && !stream.has_ended)
            };
            self.is_unrepaired |= index != self.index && has_failed();
        }
        if life.woken.as_ref().is_some_and(|woken| woken.swap(false, Relaxed)) {
            let writer = life.slots.iter_mut().filter(|slot| slot.index != self.index);
            writer.for_each(|slot| slot.wake(now_ns));
        }
        self.carry_out(now_ns).map_err(|error| format!("the folder of a node: {error}"))?;
        Ok(Some(Called { index, done, busy_ns, ended }))
    }

    /// Does what its agent has ordered. A stream that has no writer gets one behind what the node
    /// finds on the real disk, where it ends what is left there.
    fn carry_out(&mut self, now_ns: u64) -> std::io::Result<()> {
        let Some(life) = self.life.as_mut().filter(|life| life.assembly.has_orders()) else {
            return Ok(());
        };
        let is_written = life.slots.iter().any(|slot| slot.index != self.index);
        if !is_written {
            copy_out(&self.files, &self.folder)?;
        }
        for writer in life.assembly.carry_out(now_ns) {
            life.slots.push(Slot {
                agent: writer.agent,
                name: "writer".to_owned(),
                index: self.index + 1,
                due_ns: now_ns,
                busy_ns: 0,
                is_blocked: false,
            });
            life.woken = Some(writer.woken);
            self.is_unrepaired = false;
        }
        copy_in(&self.files, &self.folder, is_written)
    }
}

/// Puts files on the real disk, in place of what is there.
pub(super) fn copy_out(files: &MemoryFiles, folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    for (path, bytes) in files.all() {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, bytes)?;
    }
    Ok(())
}

/// Takes files from the real disk; where a writer is at work, only the one that is not its own.
fn copy_in(files: &MemoryFiles, folder: &Path, is_written: bool) -> std::io::Result<()> {
    if !is_written {
        files.all().iter().for_each(|(path, _)| files.remove(path));
    }
    for stream in folder.read_dir()? {
        for file in stream?.path().read_dir()? {
            let path = file?.path();
            if !is_written || path.file_name() == Some("generation".as_ref()) {
                files.replace(&path, std::fs::read(&path)?);
            }
        }
    }
    Ok(())
}

/// Messages of each connection that one poll delivers.
const PER_POLL: usize = 64;
/// How long an operation of a disk that hangs takes at most.
const DISK_HANGS_NS: u64 = 120 * S;
/// The disk of a node.
const DISK_BYTES: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::BEGIN_NS;
    use crate::stores::StoresPlan;

    #[test]
    fn a_node_does_not_rest_while_its_agents_are_not_called() {
        let case = Case::stored(0);
        let (plan, clock) = (StoresPlan::of(case), VirtualClock::at(BEGIN_NS));
        let of_node = &plan.nodes[0];
        let root = tempfile::tempdir().unwrap();
        let mut node = SimNode::new((&case, of_node), (0, 0), &clock, root.path());
        node.begin();
        // It looks for what is not closed.
        node.call(&mut case.chance("times")).unwrap();
        let (held_ns, rest_ns) = (100 * S, of_node.close_after_ns + S);
        assert!(!node.is_at_rest(BEGIN_NS));
        node.hang(BEGIN_NS + held_ns);
        assert!(!node.is_at_rest(BEGIN_NS + rest_ns));
        for (now_ns, is_at_rest) in [(0, false), (rest_ns - 1, false), (rest_ns, true)] {
            assert_eq!(node.is_at_rest(BEGIN_NS + held_ns + now_ns), is_at_rest, "{now_ns}");
        }
        assert!(node.has_rested);
    }
}
