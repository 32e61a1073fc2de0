//! Which sources that promise the next event waits for, and how it stops.

use catchment_builder::{SourceNote, SourceRole::Required};
use catchment_model::Entry;

use crate::promises::config;
use crate::support::{MS, Rig};

#[test]
fn an_event_waits_no_more_for_a_source_that_stands_behind_until_it_speaks() {
    let mut rig = Rig::whole(config(&[Required; 3]));
    let awaited = |rig: &mut Rig| {
        let mut all = Vec::new();
        rig.builder.awaited(|source| all.push(source));
        all
    };
    assert!(awaited(&mut rig).is_empty());
    rig.send(0, 0, 0..3);
    rig.poll(0);
    // The numbering has not begun.
    assert_eq!(awaited(&mut rig), [1, 2]);
    rig.send(0, 1, 0..2);
    rig.send(0, 2, [0]);
    rig.poll(0);
    assert_eq!((keys(&rig), awaited(&mut rig)), (vec![0], vec![2]));
    rig.builder.note(MS, 2, SourceNote::Behind(0));
    rig.poll(MS);
    assert_eq!((keys(&rig), awaited(&mut rig)), (vec![0, 1], vec![1]));
    // What it brings is late, and it counts again.
    rig.send(2 * MS, 2, [1]);
    rig.send(2 * MS, 1, [2]);
    rig.poll(2 * MS);
    assert_eq!((keys(&rig), awaited(&mut rig)), (vec![0, 1], vec![2]));
    assert_eq!(rig.count(2, Entry::FragmentsLate), 1);
    // One whose connection is gone without a word is waited for.
    rig.builder.note(3 * MS, 2, SourceNote::Waited);
    rig.builder.note(3 * MS, 2, SourceNote::Behind(0));
    rig.poll(3 * MS);
    assert_eq!(awaited(&mut rig), [2]);
    rig.finish(4 * MS);
    assert_eq!(rig.count(2, Entry::FragmentsMissing), 2);
}

fn keys(rig: &Rig) -> Vec<u64> {
    rig.rows.keys().copied().collect()
}
