//! Agents that are not called for a while.

use super::World;
use crate::fault::Fault;
use crate::trace::Event;

impl World<'_> {
    pub(super) fn freeze(&mut self, until_ns: u64) {
        self.note(Fault::Freeze);
        let now_ns = self.now_ns();
        self.trace.push(now_ns, Event::Fault(format!("the process is stopped until {until_ns}")));
        let slots = self.recorder.iter_mut().flat_map(|recorder| &mut recorder.slots);
        slots.for_each(|slot| slot.busy_ns = slot.busy_ns.max(until_ns));
        self.stall(now_ns, until_ns);
    }

    /// The recorder, or one of its agents, is stopped for a while, or flooded.
    pub(super) fn stall(&mut self, from_ns: u64, until_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.life.stalls.push((from_ns, until_ns));
        }
    }

    pub(super) fn starve(&mut self, until_ns: u64) {
        let index = self.times.next_u64() as usize;
        let Some(recorder) = &mut self.recorder else { return };
        let index = index % recorder.slots.len();
        let slot = &mut recorder.slots[index];
        slot.busy_ns = slot.busy_ns.max(until_ns);
        let what = format!("agent {} is not called until {until_ns}", slot.index);
        self.note(Fault::Starve);
        self.stall(self.now_ns(), until_ns);
        self.trace.push(self.clock.now_ns(), Event::Fault(what));
    }

    pub(super) fn hold_receive(&mut self, until_ns: u64) {
        let now_ns = self.now_ns();
        let Some(recorder) = &mut self.recorder else { return };
        let time = (now_ns, until_ns);
        let Some(index) = recorder.hold_receive(time, self.times.next_u64()) else { return };
        self.note(Fault::HoldReceive);
        self.stall(now_ns, until_ns);
        let what = format!("receive agent {index} is not called until {until_ns}");
        self.trace.push(now_ns, Event::Fault(what));
    }
}
