//! Who sends to a source's port: the source, and strangers.
//!
//! One sender of a port counts as the source's *own*: the first that sends, or the first whose
//! fragments carry the source's id, if it has one. When nothing has arrived from it for the
//! time-out, the next sender takes its place; but a sender with another id never replaces one with
//! the right id. Fragments of all other senders carry a flag, with which the builder recognizes
//! those of a stranger, since it knows which numbers fit. A source has one sender at a time; a
//! source that sends from several addresses is recorded like any other, since the flag alone
//! discards nothing, but a stranger could do the same: displays say so.
//!
//! A sender keeps its value of [`FragmentFlags::OTHER_SENDER`] when it becomes the own one, so that
//! the builder can attribute the fragments that it already has.
//!
//! Fragments that fit are no proof: a second sender with the source's id, and numbers near the
//! source's, can replace its data. Two senders send *in turn* while the own one sends again after
//! another, within the time-out of the last time. Displays then name both, whether or not their
//! fragments fit.
//!
//! The receive agent compares each packet's sender with that of the packet before; everything else
//! happens when it changes, at the first packet of the new sender that can be decoded.

use std::net::SocketAddr;

use catchment_builder::FragmentFlags;
use serde::Serialize;

use crate::ingest::due;

/// The senders of one port.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    own: Option<Sender>,
    /// The sender of the last accepted packet.
    last: Option<Sender>,
    /// The sender of the packets that arrive now.
    next: Option<SocketAddr>,
    has_changed: bool,
    /// The flags of fragments from the last sender, and from the own one.
    flag: u8,
    own_flag: u8,
    /// When a packet of another sender last followed one of the own.
    left_ns: u64,
    /// When the own one last sent again after another, and how often, each within the time-out of
    /// the time before; whether the two send in turn now.
    turned_ns: Option<u64>,
    turns: u64,
    in_turn: bool,
    pair: Option<SenderPair>,
    shown_ns: Option<u64>,
    /// Whether displays lack the present `pair`.
    is_unshown: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sender {
    address: SocketAddr,
    /// Whether its fragments carry the source's id.
    has_id: bool,
}

/// Two senders of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SenderPair {
    /// The one that counts as the source's own, and its value of the flag.
    pub(crate) own: SocketAddr,
    pub(crate) own_is_flagged: bool,
    pub(crate) other: SocketAddr,
    /// The id that fragments of the other one carry, and the source's, where they differ.
    pub(crate) ids: Option<(u32, u32)>,
    /// Whether they send in turn now, and how often any two did.
    pub(crate) in_turn: bool,
    pub(crate) turns: u64,
}

/// A sender to a source's port whose fragments are not the source's, or cannot be distinguished
/// from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stranger {
    /// Its address.
    pub sender: SocketAddr,
    /// The id that its fragments carry, and the source's, where they differ.
    pub ids: Option<(u32, u32)>,
    /// The other of two senders in turn, if nothing shows which of them is the source.
    pub in_turn_with: Option<SocketAddr>,
}

impl Stranger {
    /// The sentence for warnings and alarms.
    pub fn words(&self, source: &str) -> String {
        let Self { sender, ids, in_turn_with } = self;
        if let Some(other) = in_turn_with {
            return format!(
                "two send to {source} in turn, {other} and {sender}: one is a stranger, or it has \
                 two addresses"
            );
        }
        let ids = match ids {
            None => String::new(),
            Some((id, expected)) => format!(": their id is {id:#06x}, not {expected:#06x}"),
        };
        format!("packets from {sender} do not belong to {source}{ids}")
    }
}

impl Senders {
    /// The flags of fragments from the last sender.
    #[inline]
    pub(crate) fn flag(&self) -> u8 {
        self.flag
    }

    /// Packets are from that sender from now on.
    pub(crate) fn change(&mut self, sender: Option<SocketAddr>) {
        self.next = sender;
        self.has_changed = true;
    }

    /// Whether the sender of the current packet must be [accepted](Self::accept) first.
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Handles the first accepted packet after a change of sender. `has_id` says whether its
    /// fragments carry the source's id; none if the source has no id.
    pub(crate) fn accept(&mut self, has_id: Option<bool>, now_ns: u64, timeout_ns: u64) {
        self.has_changed = has_id.is_none();
        let Some(address) = self.next else {
            (self.last, self.flag) = (None, self.own_flag);
            return;
        };
        let known = |sender: Option<Sender>| {
            sender.is_some_and(|sender| sender.address == address && sender.has_id)
        };
        let has_id = has_id == Some(true) || known(self.own) || known(self.last);
        let sender = Sender { address, has_id };
        self.last = Some(sender);
        match self.own {
            Some(own) if own.address != address && (own.has_id || !has_id) => {
                self.hear_other(own.address, address, now_ns);
                self.follow(now_ns, timeout_ns);
            }
            // No fragment of another sender was the source's.
            own => {
                let is_back = own.is_some_and(|own| own.address == address);
                if is_back && self.flag != self.own_flag {
                    self.turn(now_ns, timeout_ns);
                }
                self.take_for_own(sender);
            }
        }
    }

    /// Handles a packet of the own sender after one of another.
    fn turn(&mut self, now_ns: u64, timeout_ns: u64) {
        let turned_ns = self.turned_ns.replace(now_ns);
        self.in_turn = turned_ns.is_some_and(|turned| now_ns.saturating_sub(turned) < timeout_ns);
        self.turns += u64::from(self.in_turn);
        self.is_unshown |= self.in_turn;
    }

    fn take_for_own(&mut self, sender: Sender) {
        (self.own, self.flag) = (Some(sender), self.own_flag);
        let Some(pair) = &mut self.pair else { return };
        let is_other = pair.other == sender.address;
        self.is_unshown |= is_other || pair.own != sender.address;
        pair.own = sender.address;
        if is_other {
            self.pair = None;
        }
    }

    fn hear_other(&mut self, own: SocketAddr, other: SocketAddr, now_ns: u64) {
        if self.flag == self.own_flag {
            self.left_ns = now_ns;
        }
        self.flag = !self.own_flag & FragmentFlags::OTHER_SENDER;
        // A sender whose id shows that it is a stranger is named before one that may be the source.
        if self.pair.is_none_or(|pair| pair.ids.is_none() && pair.other != other) {
            self.pair = Some(self.pair_of(own, other, None));
            self.is_unshown = true;
        }
    }

    fn pair_of(&self, own: SocketAddr, other: SocketAddr, ids: Option<(u32, u32)>) -> SenderPair {
        let own_is_flagged = self.own_flag & FragmentFlags::OTHER_SENDER != 0;
        SenderPair { own, own_is_flagged, other, ids, in_turn: false, turns: 0 }
    }

    /// Makes the last sender the source's own once the own one is gone.
    pub(crate) fn follow(&mut self, now_ns: u64, timeout_ns: u64) {
        let turned_ns = self.turned_ns.unwrap_or(now_ns);
        if self.in_turn && now_ns.saturating_sub(turned_ns) >= timeout_ns {
            (self.in_turn, self.is_unshown) = (false, true);
        }
        let is_gone =
            self.flag != self.own_flag && now_ns.saturating_sub(self.left_ns) >= timeout_ns;
        let Some((own, last)) = self.own.zip(self.last).filter(|_| is_gone) else { return };
        if last.has_id || !own.has_id {
            self.own = Some(last);
            self.own_flag = self.flag | FragmentFlags::NEW_SENDER;
            self.flag = self.own_flag;
            self.is_unshown |= self.pair.is_some();
            self.pair = None;
        }
    }

    /// Whether a fragment with an id other than its source's belongs to a stranger. If it does not,
    /// and its sender never had the right id, other senders are not strangers either: the next
    /// sender becomes the own.
    pub(crate) fn is_foreign(&mut self, expected: Option<u32>, id: u32) -> bool {
        if self.flag == self.own_flag {
            self.own = self.own.filter(|own| own.has_id);
            return false;
        }
        if let Some((own, last)) = self.own.zip(self.last) {
            let ids = expected.map(|expected| (id, expected));
            let pair = Some(self.pair_of(own.address, last.address, ids));
            self.is_unshown |= self.pair != pair;
            self.pair = pair;
        }
        true
    }

    /// The update for displays, if one is due: a pair of senders, or none.
    pub(crate) fn take_unshown(&mut self, now_ns: u64) -> Option<Option<SenderPair>> {
        if !self.is_unshown || !due(&mut self.shown_ns, now_ns) {
            return None;
        }
        self.is_unshown = false;
        let &mut Self { in_turn, turns, .. } = self;
        Some(self.pair.map(|pair| SenderPair { in_turn, turns, ..pair }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TIMEOUT_NS: u64 = 1_000 * MS;
    const OTHER: u8 = FragmentFlags::OTHER_SENDER;
    const NEW: u8 = FragmentFlags::NEW_SENDER;

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 5_000))
    }

    impl Senders {
        /// A packet came from that host at that time: the flag of its fragments.
        fn hear(&mut self, at_ms: u64, host: u8, has_id: bool) -> u8 {
            let last = self.last.map(|last| last.address);
            if last != Some(address(host)) {
                self.change(Some(address(host)));
            }
            if self.has_changed() {
                self.accept(Some(has_id), at_ms * MS, TIMEOUT_NS);
            }
            self.follow(at_ms * MS, TIMEOUT_NS);
            self.flag()
        }

        fn other(&self) -> Option<SocketAddr> {
            self.pair.map(|pair| pair.other)
        }
    }

    #[test]
    fn a_sender_takes_the_place_of_one_that_is_gone_for_the_time_out_and_keeps_its_flag() {
        let mut senders = Senders::default();
        assert_eq!((senders.hear(0, 1, false), senders.hear(900, 1, false)), (0, 0));
        // The next sender is heard 100 ms later, every 500 ms.
        assert_eq!((senders.hear(1_000, 2, false), senders.hear(1_500, 2, false)), (OTHER, OTHER));
        assert_eq!(senders.other(), Some(address(2)));
        assert_eq!(senders.hear(1_999, 2, false), OTHER);
        assert_eq!(senders.hear(2_000, 2, false), OTHER | NEW);
        assert_eq!(senders.other(), None, "it is the source");
        assert_eq!(senders.take_unshown(3_000 * MS), Some(None));
        // A third takes its place in turn, and the first one would be another again.
        assert_eq!((senders.hear(3_000, 3, false), senders.hear(4_000, 3, false)), (0, NEW));
        assert_eq!(senders.hear(4_001, 1, false), OTHER);
        assert_eq!(senders.other(), Some(address(1)));
    }

    #[test]
    fn a_sender_that_is_slow_but_not_gone_keeps_its_place_whoever_sends_meanwhile() {
        let mut senders = Senders::default();
        for at_ms in (0..20_000).step_by(900) {
            assert_eq!(senders.hear(at_ms, 1, false), 0);
            for later_ms in [1, 400, 899] {
                assert_eq!(senders.hear(at_ms + later_ms, 2 + (later_ms % 2) as u8, false), OTHER);
            }
        }
        // Two others in turn do not make it look heard.
        assert_eq!(senders.hear(30_000, 2, false), OTHER | NEW);
    }

    #[test]
    fn two_send_in_turn_while_both_are_heard_within_the_time_out() {
        let mut senders = Senders::default();
        let shown = |senders: &mut Senders, at_ms: u64| {
            let pair = senders.take_unshown(at_ms * MS).flatten();
            pair.map(|pair| (pair.own, pair.other, pair.in_turn, pair.turns))
        };
        senders.hear(0, 1, true);
        // One packet of the one before may be late where a source goes on from another address.
        senders.hear(10, 2, true);
        senders.hear(11, 1, true);
        assert_eq!(shown(&mut senders, 11), Some((address(1), address(2), false, 0)));
        for at_ms in (500..3_000).step_by(500) {
            senders.hear(at_ms, 2, true);
            senders.hear(at_ms + 1, 1, true);
        }
        assert_eq!(shown(&mut senders, 3_000), Some((address(1), address(2), true, 5)));
        senders.follow(3_501 * MS, TIMEOUT_NS);
        assert_eq!(shown(&mut senders, 4_500), Some((address(1), address(2), false, 5)));
    }

    #[test]
    fn no_sender_with_another_id_takes_the_place_of_one_whose_id_is_right() {
        let mut senders = Senders::default();
        for at_ms in (0..20_000).step_by(2_000) {
            assert_eq!(senders.hear(at_ms, 1, true), 0);
            for later_ms in (10..2_000).step_by(10) {
                assert_eq!(senders.hear(at_ms + later_ms, 2, false), OTHER);
                assert!(senders.is_foreign(Some(5), 6));
            }
        }
        let (other, ids) = (address(2), Some((6, 5)));
        assert_eq!(senders.pair.map(|pair| (pair.other, pair.ids)), Some((other, ids)));
        // The source goes on from another address, between packets of the stranger.
        assert_eq!(senders.hear(20_000, 3, true), OTHER | NEW);
        assert_eq!(senders.hear(20_001, 2, false), 0);
        assert!(senders.is_foreign(Some(5), 6));
        assert_eq!(senders.pair.map(|pair| pair.own_is_flagged), Some(true));
    }

    #[test]
    fn a_stranger_that_comes_first_is_not_taken_for_the_source_if_its_id_is_another() {
        let mut senders = Senders::default();
        assert_eq!(senders.hear(0, 2, false), 0);
        assert!(!senders.is_foreign(Some(5), 6), "nobody else sends");
        assert_eq!(senders.hear(1, 1, true), 0);
        assert_eq!(senders.hear(2, 2, false), OTHER);
        assert!(senders.is_foreign(Some(5), 6));
        // Its own wrong ids make the source no stranger.
        assert_eq!(senders.hear(3, 1, true), 0);
        assert!(!senders.is_foreign(Some(5), 7));
        assert_eq!(senders.hear(4, 2, false), OTHER);
        assert_eq!(senders.pair.map(|pair| (pair.own, pair.other)), Some((address(1), address(2))));
    }

    #[test]
    fn one_that_is_known_by_its_id_is_named_before_one_that_may_be_the_source() {
        let mut senders = Senders::default();
        senders.hear(0, 1, true);
        senders.hear(1, 2, false);
        assert!(senders.is_foreign(Some(5), 6));
        assert_eq!((senders.hear(2, 3, true), senders.other()), (OTHER, Some(address(2))));
        senders.hear(3, 4, false);
        assert!(senders.is_foreign(Some(5), 8));
        assert_eq!(senders.other(), Some(address(4)));
    }

    #[test]
    fn a_sender_of_which_nothing_is_accepted_is_no_sender() {
        let mut senders = Senders::default();
        senders.hear(0, 1, false);
        senders.change(Some(address(2)));
        assert_eq!((senders.flag(), senders.other()), (0, None));
        // A packet without fragments says nothing of its id: the next one does.
        senders.accept(None, 2 * MS, TIMEOUT_NS);
        assert!(senders.has_changed());
        senders.accept(Some(true), 3 * MS, TIMEOUT_NS);
        assert!(!senders.has_changed());
        assert_eq!(senders.own.map(|own| own.address), Some(address(2)));
    }
}
