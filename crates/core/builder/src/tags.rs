//! Which trigger tag an event has where its fragments have different ones.
//!
//! It is the tag of more than half of the event's fragments, whichever came first: one source at
//! another trigger is the odd one, and not all others because its fragment opened the event. Where
//! no tag has a majority, as between two sources, nothing tells which is right: then all of the
//! event's fragments count as bad.
//!
//! A fragment without a tag takes no part.
//!
//! Decided when the event is cut, since only then are all its fragments there. A cut without such
//! events costs a look at each row's flags; one with them two more passes over its fragments.
//! Memory: 24 bytes for each such row.

use catchment_model::EventFlags;

use crate::matched::Source;

/// The events of a cut whose fragments have different tags.
#[derive(Debug)]
pub struct EventTags(Vec<EventTag>);

/// One event. The tag that leads when each fragment adds to the lead of its own tag and takes from
/// that of another (Boyer and Moore) is the majority's, if there is a majority.
#[derive(Clone, Copy, Debug, Default)]
struct EventTag {
    key: u64,
    lead: u32,
    fragments: u32,
    agreeing: u32,
    tag: u8,
}

impl EventTags {
    /// Those of rows with such keys and flags, whose fragments are still in their sources' queues.
    pub fn of(keys: &[u64], flags: &[u32], sources: &[Source]) -> Self {
        let differ =
            |&(_, &flags): &(&u64, &u32)| EventFlags(flags).contains(EventFlags::TAG_MISMATCH);
        let rows = keys.iter().zip(flags).filter(differ);
        let mut events: Vec<EventTag> =
            rows.map(|(&key, _)| EventTag { key, ..EventTag::default() }).collect();
        for source in sources {
            visit(&mut events, source, |event, tag| {
                event.fragments += 1;
                match event.lead {
                    0 => (event.tag, event.lead) = (tag, 1),
                    _ if event.tag == tag => event.lead += 1,
                    _ => event.lead -= 1,
                }
            });
        }
        for source in sources {
            visit(&mut events, source, |event, tag| event.agreeing += u32::from(event.tag == tag));
        }
        Self(events)
    }

    /// How many of a source's fragments have another tag than their event.
    pub fn bad_of(&mut self, source: &Source) -> u64 {
        let mut bad = 0;
        visit(&mut self.0, source, |event, tag| {
            let majority = event.agreeing > event.fragments / 2;
            bad += u64::from(!majority || event.tag != tag);
        });
        bad
    }
}

/// Calls `visit` with the tags of a source's fragments of each of the events, which ascend as the
/// fragments do.
fn visit(events: &mut [EventTag], source: &Source, mut visit: impl FnMut(&mut EventTag, u8)) {
    let mut fragments = source.accepted.iter();
    let mut next = fragments.next();
    for event in events {
        while next.is_some_and(|fragment| fragment.key < event.key) {
            next = fragments.next();
        }
        while let Some(fragment) = next.filter(|fragment| fragment.key == event.key) {
            if fragment.has_tag {
                visit(event, fragment.tag);
            }
            next = fragments.next();
        }
    }
}
