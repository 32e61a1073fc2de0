//! Sources that promise, of whose connections nothing comes any more: they may be cut off, or hang.

use crate::promises::config;
use crate::support::{MS, Rig, S};
use catchment_builder::{SourceNote, SourceRole};
use catchment_model::Entry;

use SourceRole::{Optional, Required};

#[test]
fn a_required_source_of_whose_connection_nothing_comes_is_waited_for_until_that_is_known() {
    let mut rig = Rig::whole(config(&[Required, Required, Optional]));
    rig.send_all(0, 0..3, 0..10);
    let send = |rig: &mut Rig, ms: std::ops::Range<u64>| {
        for ms in ms {
            rig.send(ms * MS, 0, [9 + ms]);
            rig.poll(ms * MS);
        }
    };
    send(&mut rig, 1..2_500);
    let status = rig.builder.status();
    assert_eq!((rig.rows.len(), status.sources[1].given_up), (10, false));
    assert!(status.sources[2].given_up, "an optional one gets a time-out");
    rig.builder.note(2_500 * MS, 1, SourceNote::Waited);
    send(&mut rig, 2_500..4_000);
    assert_eq!(rig.rows.len(), 10);
    rig.builder.note(4 * S, 1, SourceNote::Attached);
    rig.send(4 * S, 1, 10..4_009);
    rig.poll(4 * S);
    assert_eq!((rig.rows.len(), rig.count(1, Entry::FragmentsLate)), (4_009, 0));
    // What it has promised already is no word that events could wait for.
    rig.send(4 * S, 1, [0]);
    send(&mut rig, 4_000..6_000);
    assert_eq!(rig.rows.len(), 6_009);
    assert!(rig.builder.status().sources[1].given_up);
    // One that hangs is awaited again once its connection is gone.
    rig.builder.note(6 * S, 1, SourceNote::Waited);
    send(&mut rig, 6_000..8_000);
    assert_eq!(rig.rows.len(), 6_009);
    // A connection that breaks again and again, and brings nothing, costs others a time-out.
    rig.builder.note(8 * S, 1, SourceNote::Attached);
    send(&mut rig, 8_000..9_500);
    assert_eq!(rig.rows.len(), 9_509);
    rig.finish(10 * S);
}
