//! What each of two nodes gets that share the frames.

use catchment_wire::session::SILENCE_NS;

use super::*;
use crate::store_nodes::AWAY_NS;

/// As many bytes as go to a node in a row.
const ROW_BYTES: usize = 64 << 10;
/// Between two looks at the nodes.
const LOOK_NS: u64 = SECOND_NS / 20;

impl Both {
    /// Offers a frame that is a row by itself.
    fn offer_row(&mut self) {
        let (sequence, now_ns) = (self.target.end, self.target.now_ns);
        let (ledger, increment) = (self.head.ledger, &self.head.increment);
        let (form, _) = ledger_column(ledger, increment, increment);
        let takes = self.offer_with(sequence, now_ns, &[column(form, vec![0; ROW_BYTES])]);
        assert!(takes, "{}", self.warnings());
    }

    /// How many frames each node has got.
    fn dealt(&self) -> [u64; 2] {
        [0, 1].map(|index| self.target.nodes.all[index].end_item(0))
    }
}

#[test]
fn a_node_that_acknowledges_a_quarter_as_often_gets_a_quarter_of_the_frames() {
    let (mut run, peers) = Both::shared();
    run.pass(&peers, SECOND_NS);
    for look in 0..400 {
        // As many as may be held; more would wait.
        while run.held().iter().sum::<usize>() < 16 {
            run.offer_row();
        }
        for index in (0..2).filter(|&index| index == 0 || look % 4 == 0) {
            let mut peer = peers[index].lock();
            peer.durable = (peer.durable + 1).min(run.dealt()[index]);
        }
        run.pass(&peers, LOOK_NS);
    }
    // Neither has waited for frames while the other one had too many.
    assert_eq!(peers.each_ref().map(|peer| peer.lock().durable), [400, 100]);
    let [fast, slow] = run.held();
    assert!(fast.abs_diff(slow) <= 2, "{fast} and {slow} frames are on their way");
}

#[test]
fn a_node_that_dies_is_left_out_within_seconds_and_the_other_gets_what_it_had_not_acknowledged() {
    // Its connections break; or it says nothing any more.
    for (is_silent, most_ns) in [(false, AWAY_NS), (true, SILENCE_NS + AWAY_NS)] {
        let (mut run, peers) = Both::shared();
        run.pass(&peers, SECOND_NS);
        (0..8).for_each(|_| run.offer_row());
        run.pass(&peers, LOOK_NS);
        assert_eq!(run.held(), [4, 4]);
        let mut dying = peers[0].lock();
        (dying.is_there, dying.is_silent) = (is_silent, is_silent);
        drop(dying);
        let died_ns = run.target.now_ns;
        while run.held()[0] > 0 {
            run.pass(&peers, LOOK_NS);
            let passed_ns = run.target.now_ns - died_ns;
            // It is noticed at a look, and counts from there.
            assert!(passed_ns <= most_ns + 2 * LOOK_NS, "after {passed_ns} ns: {}", run.warnings());
        }
        assert_eq!(run.held(), [0, 8]);
        // Nor does it get what comes.
        run.offer_row();
        assert_eq!(run.held(), [0, 9]);
        run.store(&peers[1], 1);
        run.pass(&peers, SECOND_NS);
        let total = run.live.targets[0].total(&run.live.ledger).total();
        let counts = [Entry::FragmentsDurable, Entry::FragmentsDiscardedDisk].map(|one| total[one]);
        assert_eq!((run.held(), counts), ([0, 0], [27, 0]));
    }
}
