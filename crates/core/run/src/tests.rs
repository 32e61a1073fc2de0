//! Every situation that three devices can come into, by going through all of them: from each, every
//! command, every answer to an order, every silence, every fault. Situations that differ only in
//! times and in numbers of orders are one.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::*;

const S: u64 = 1_000_000_000;
const DRAIN_NS: u64 = 20 * S;

/// The devices as they really are, with control beside them.
#[derive(Clone)]
struct World {
    control: Control,
    now_ns: u64,
    requests: u64,
    /// Orders that were handed out, and for how many of them time has run out.
    orders: Vec<Order>,
    late: Vec<Order>,
    /// What each device is; none: it went its own way, so that nobody can say.
    real: Vec<Option<State>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Ask(Command),
    /// The order at that place is done.
    Ok(usize),
    /// It is not; the device is where it was, or in fault.
    Refuse(usize),
    Fault(usize),
    /// Time passes until the next deadline.
    Wait,
    /// A device reports a fault, or that it is well again.
    Break(usize),
    Mend(usize),
    /// An order whose time was over is answered.
    Late,
}

const PATHS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn specs(count: usize) -> Vec<DeviceSpec> {
    let spec = |(index, &path): (usize, &&'static str)| {
        // All steps take as long, so that fewer situations differ.
        let spec = DeviceSpec { timeout_ns: |_| S, ..DeviceSpec::new(path, "device") };
        DeviceSpec { stops_run: index == 1, ..spec }
    };
    PATHS.iter().take(count).enumerate().map(spec).collect()
}

impl World {
    fn new(count: usize) -> Self {
        let control = Control::new(specs(count), DRAIN_NS, 0);
        let real = vec![Some(State::Idle); count];
        Self { control, now_ns: 0, requests: 0, orders: Vec::new(), late: Vec::new(), real }
    }

    fn index(&self, path: &str) -> usize {
        PATHS.iter().position(|one| *one == path).expect("a device")
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves: Vec<Move> = Command::ALL.iter().map(|&one| Move::Ask(one)).collect();
        for index in 0..self.orders.len() {
            moves.extend([Move::Ok(index), Move::Refuse(index), Move::Fault(index)]);
        }
        moves
            .extend((0..self.real.len()).flat_map(|index| [Move::Break(index), Move::Mend(index)]));
        moves.extend([Move::Wait, Move::Late]);
        moves
    }

    /// Does it, and says whether it could be done at all.
    fn go(&mut self, go: Move) -> bool {
        match go {
            Move::Ask(command) => self.ask(command),
            Move::Ok(place) => self.answer(place, None),
            Move::Refuse(place) => {
                let order = &self.orders[place];
                let state = self.real[self.index(order.path)].unwrap_or(State::Idle);
                self.answer(place, Some(state));
            }
            Move::Fault(place) => self.answer(place, Some(State::Fault)),
            Move::Wait => match self.control.next_deadline_ns() {
                None => return false,
                Some(deadline_ns) => self.now_ns = deadline_ns.max(self.now_ns),
            },
            Move::Break(index) => {
                if self.control.report(self.now_ns, PATHS[index], State::Fault, "broken") {
                    // It may still say later that it is well.
                    self.real[index] = None;
                }
            }
            Move::Mend(index) => {
                let state = State::Recording;
                if !self.control.report(self.now_ns, PATHS[index], state, "") {
                    return false;
                }
                self.real[index] = Some(state);
            }
            Move::Late => {
                let Some(order) = self.late.pop() else { return false };
                let before = self.situation();
                let token = order.token;
                let done = Ok(order.action.target());
                let reply = self.control.reply(self.now_ns, order.path, token, done);
                assert_eq!(reply, Reply::Late);
                assert_eq!(self.situation(), before, "a late reply changes nothing");
            }
        }
        self.collect();
        self.check();
        true
    }

    fn ask(&mut self, command: Command) {
        self.requests += 1;
        let request = request(&format!("r{}", self.requests), command);
        let (state, legal) = (self.control.state(), self.control.legal());
        let busy = self.control.under_way();
        let before = self.situation();
        let answer = self.control.request(self.now_ns, request.clone());
        match &answer {
            Answer::Refused(refusal) => {
                assert!(!legal.contains(&command), "{command} in {state}: {refusal}");
                assert_eq!(self.situation(), before, "what is refused changes nothing");
                match refusal {
                    Refusal::Illegal(illegal) => assert_eq!(illegal.state, state),
                    Refusal::UnderWay { command, .. } => {
                        assert_eq!(Some(*command), busy.map(|busy| busy.request.command));
                    }
                    Refusal::Ended => assert!(self.control.ended()),
                    other => panic!("{other}"),
                }
            }
            _ => assert!(legal.contains(&command), "{command} in {state}"),
        }
        // The same again is answered alike and not done again.
        let again = self.control.request(self.now_ns, request);
        let now = match &answer {
            Answer::Started(result) | Answer::Done(result) => Answer::Repeat(result.clone()),
            refused => refused.clone(),
        };
        assert_eq!(again, now);
    }

    fn answer(&mut self, place: usize, failed: Option<State>) {
        let order = self.orders.remove(place);
        let index = self.index(order.path);
        let reply = match failed {
            None => Ok(order.action.target()),
            Some(state) => Err(Failed { reason: format!("no {}", order.action), state }),
        };
        self.real[index] = Some(failed.unwrap_or(order.action.target()));
        let taken = self.control.reply(self.now_ns, order.path, order.token, reply);
        assert_eq!(taken, Reply::Taken);
    }

    /// Takes new orders, and puts those aside whose time is over.
    fn collect(&mut self) {
        let new = self.control.poll(self.now_ns);
        self.orders.extend(new);
        let busy = |order: &Order| {
            let index = self.control.devices.iter().position(|one| one.spec.path == order.path);
            self.control.devices[index.expect("a device")].waits_for(order.token)
        };
        let (orders, over): (Vec<Order>, Vec<Order>) =
            std::mem::take(&mut self.orders).into_iter().partition(busy);
        for order in &over {
            let index = self.index(order.path);
            self.real[index] = None;
        }
        self.orders = orders;
        // One is as good as many.
        self.late.extend(over);
        self.late.truncate(1);
    }

    fn check(&self) {
        let control = &self.control;
        let waiting = control.under_way().map(|under_way| under_way.waiting_for);
        for order in &self.orders {
            assert!(order.deadline_ns > self.now_ns, "every order has a deadline ahead");
        }
        let mut paths: Vec<&str> = self.orders.iter().map(|order| order.path).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), self.orders.len(), "a device has one order at a time");
        assert_eq!(waiting.is_some(), !self.orders.is_empty(), "under way is who waits");
        assert_eq!(waiting.map_or(0, |waiting| waiting.len()), self.orders.len());
        let devices = control.devices();
        for device in devices {
            assert!(!device.state.is_broken() || device.reason.is_some(), "{device:?}");
        }
        if control.state().is_broken() {
            assert!(control.reason().is_some(), "a broken node says why");
        }
        if control.under_way().is_some() {
            return;
        }
        for (device, real) in devices.iter().map(|one| (one, self.real[self.index(one.spec.path)]))
        {
            if !device.state.is_broken() {
                assert_eq!(device.state, control.common, "{devices:?}");
            }
            // What would not be made safe counts as fault, whatever it says.
            if let Some(real) = real.filter(|_| !device.state.is_broken()) {
                assert_eq!(device.state, real, "{devices:?}");
            }
        }
        if control.ended() {
            assert!(control.legal().is_empty());
        } else {
            assert!(!control.legal().is_empty(), "there is always something to do");
        }
    }

    /// All that decides what can happen next, without times and numbers.
    fn situation(&self) -> String {
        let mut text = String::new();
        for device in &self.control.devices {
            write!(text, "{:?} ", device.decisive()).expect("a string");
        }
        let course = self.control.course.as_ref().map(|course| course.decisive());
        write!(
            text,
            "{:?} {:?} {:?} {} {:?}",
            course,
            self.control.common,
            self.real,
            self.late.is_empty(),
            self.control.ended,
        )
        .expect("a string");
        text
    }
}

fn request(id: &str, command: Command) -> Request {
    Request {
        id: RequestId::new(id).expect("an id"),
        command,
        device: None,
        who: "shift".to_owned(),
        comment: None,
        configuration: None,
        run: None,
    }
}

/// Goes on from where a world is until nothing is under way, with devices that never answer.
fn ends_by_itself(world: &World) {
    let mut world = world.clone();
    let began_ns = world.now_ns;
    let mut steps = 0;
    while world.control.under_way().is_some() {
        assert!(world.go(Move::Wait), "something under way has a deadline");
        steps += 1;
        assert!(steps < 100, "a command ends");
    }
    if world.control.ended() {
        assert!(world.now_ns - began_ns <= DRAIN_NS + S, "a shutdown ends in time");
    }
}

/// All situations that can be reached in so many moves.
fn explore(count: usize, depth: usize) -> usize {
    let world = World::new(count);
    let mut seen = BTreeSet::from([world.situation()]);
    let mut front = vec![world];
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &front {
            for go in world.moves() {
                let mut world = world.clone();
                if world.go(go) && seen.insert(world.situation()) {
                    ends_by_itself(&world);
                    next.push(world);
                }
            }
        }
        front = next;
    }
    eprintln!("{count} devices: {} situations, {} at the rim", seen.len(), front.len());
    front.len()
}

#[test]
fn every_situation_of_two_devices_keeps_the_promises() {
    assert_eq!(explore(2, 60), 0, "all situations were reached");
}

#[test]
fn every_sequence_of_moves_of_three_devices_keeps_the_promises() {
    explore(3, 7);
}

#[test]
fn long_random_ways_of_eight_devices_keep_the_promises() {
    for seed in 1..=60_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % bound as u64) as usize
        };
        eprintln!("seed {seed}");
        let mut world = World::new(8);
        let mut ways = BTreeSet::new();
        for _ in 0..1_000 {
            let mut moves = world.moves();
            // Mostly things go well, or no run would ever be on.
            let mostly = |go: &Move| match world.orders.is_empty() {
                true => matches!(go, Move::Mend(_) | Move::Ask(_)),
                false => matches!(go, Move::Ok(_)),
            };
            if below(25) > 0 {
                moves.retain(mostly);
            }
            if below(200) > 0 {
                moves.retain(|go| *go != Move::Ask(Command::Shutdown));
            }
            world.go(moves[below(moves.len())]);
            ways.insert(world.control.state());
            if world.control.ended() {
                world = World::new(8);
            }
        }
        ends_by_itself(&world);
        assert!(ways.len() > 3, "seed {seed} went nowhere: {ways:?}");
    }
}

#[test]
fn ten_thousand_requests_are_remembered_and_no_more() {
    let mut world = World::new(1);
    for number in 0..REQUESTS_REMEMBERED + 5 {
        let id = format!("n{number}");
        let answer = world.control.request(0, request(&id, Command::Pause));
        assert!(matches!(answer, Answer::Refused(Refusal::Illegal(_))));
    }
    assert_eq!(world.control.memory.len(), REQUESTS_REMEMBERED);
    let id = |number: usize| RequestId::new(format!("n{number}")).expect("an id");
    assert!(world.control.result(&id(4)).is_none());
    assert!(world.control.result(&id(5)).is_some());
}
