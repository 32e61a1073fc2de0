//! Receive threads that are held up, and sources for which there is no room, where events are built
//! by time: what they bring then is old, and in its events.

use crate::support::{MS, Rig, S};
use crate::time::{rig, rig_of, send};
use catchment_builder::{SourceRole, TimeConfig, TimeMatcher};
use catchment_model::Entry;

/// Nanoseconds between events, ten time-outs of them, and how many a thread reads at once.
const APART: u64 = 10 * MS;
const HELD: u64 = 10 * S / APART;
const AT_ONCE: u64 = 50;

type ByTime = Rig<TimeMatcher>;

/// One event each 10 ms up to that of number `to`, of some sources; others' are not read, or there
/// is no room for them.
fn go_on(
    rig: &mut ByTime,
    events: std::ops::Range<u64>,
    sources: &[usize],
    wait: impl Fn(&mut ByTime, u64),
) {
    for event in events {
        let now = event * APART;
        sources.iter().for_each(|&source| send(rig, now, source, &[now + source as u64]));
        wait(rig, now);
        rig.poll(now);
    }
}

/// What was not read comes, some of one source after the other; a cycle each 100 ms, in which the
/// others go on. Returns the next event.
fn catch_up(
    rig: &mut ByTime,
    (from, to): (u64, u64),
    (sources, late): (&[usize], &[usize]),
    wait: impl Fn(&mut ByTime, u64),
) -> u64 {
    let mut next = to;
    let mut read = vec![from; late.len()];
    while read.iter().any(|&read| read < next) {
        let now = next * APART;
        sources.iter().for_each(|&source| send(rig, now, source, &[now + source as u64]));
        next += 1;
        for (read, &source) in read.iter_mut().zip(late) {
            let until = (*read + AT_ONCE).min(next);
            let times = (*read..until).map(|event| event * APART + source as u64);
            send(rig, now, source, &times.collect::<Vec<_>>());
            *read = until;
        }
        wait(rig, now);
        rig.poll(now);
        let status = rig.builder.status();
        assert!(status.sources.iter().all(|one| !one.out_of_step), "{:?}", status.sources);
    }
    next
}

fn hold_unread(late: &[usize]) -> impl Fn(&mut ByTime, u64) {
    move |rig, now| late.iter().for_each(|&source| rig.builder.hold_unread(now, source))
}

/// All is recorded in its event: from 1 up to there.
#[track_caller]
fn is_whole(mut rig: ByTime, events: u64) {
    rig.finish(events * APART);
    let events = events - 1;
    let counts = [rig.rows.len() as u64, rig.complete() as u64, rig.lost()];
    assert_eq!(counts, [events, events, 0], "{:?}", rig.ledger.total());
    assert_eq!(rig.total(Entry::NumberingRestarts), 0);
}

#[test]
fn a_source_whose_thread_was_held_up_is_in_step_while_what_it_sent_is_read() {
    let mut rig = rig(3, 100, |_| {});
    go_on(&mut rig, 1..100, &[0, 1, 2], |_, _| {});
    go_on(&mut rig, 100..100 + HELD, &[0, 1], hold_unread(&[2]));
    let status = rig.builder.status();
    assert_eq!((status.events_complete, status.open_events), (99, HELD));
    let read = (100, 100 + HELD);
    let next = catch_up(&mut rig, read, (&[0, 1], &[2]), hold_unread(&[2]));
    go_on(&mut rig, next..next + 300, &[0, 1, 2], |_, _| {});
    is_whole(rig, next + 300);
}

/// Boards on connections, while a folder stands still.
#[test]
fn a_source_for_which_there_was_no_room_is_in_step_while_it_catches_up() {
    let hold = |rig: &mut ByTime, now| rig.builder.hold(now, 2);
    let mut rig = rig(3, 100, |_| {});
    go_on(&mut rig, 1..100, &[0, 1, 2], |_, _| {});
    go_on(&mut rig, 100..100 + HELD, &[0, 1], hold);
    let next = catch_up(&mut rig, (100, 100 + HELD), (&[0, 1], &[2]), hold);
    go_on(&mut rig, next..next + 300, &[0, 1, 2], |_, _| {});
    is_whole(rig, next + 300);
}

/// They are no quorum of clocks beside the one that is read as it comes.
#[test]
fn most_sources_whose_thread_was_held_up_put_the_other_one_out_of_step_no_more() {
    let late = [1, 2, 3];
    let mut rig = rig(4, 100, |_| {});
    go_on(&mut rig, 1..100, &[0, 1, 2, 3], |_, _| {});
    go_on(&mut rig, 100..100 + HELD, &[0], hold_unread(&late));
    // It takes longer than a time-out.
    let next = catch_up(&mut rig, (100, 100 + HELD), (&[0], &late), hold_unread(&late));
    go_on(&mut rig, next..next + 300, &[0, 1, 2, 3], |_, _| {});
    is_whole(rig, next + 300);
}

#[test]
fn all_sources_whose_thread_was_held_up_are_in_step_though_one_is_read_before_the_other() {
    let mut rig = rig(2, 100, |_| {});
    go_on(&mut rig, 1..100, &[0, 1], |_, _| {});
    go_on(&mut rig, 100..100 + HELD, &[], hold_unread(&[0, 1]));
    let now = (100 + HELD) * APART;
    let times: Vec<u64> = (100..=100 + HELD).map(|event| event * APART).collect();
    send(&mut rig, now, 0, &times);
    hold_unread(&[0, 1])(&mut rig, now);
    rig.poll(now);
    let next = catch_up(&mut rig, (100, 101 + HELD), (&[0], &[1]), hold_unread(&[0, 1]));
    go_on(&mut rig, next..next + 300, &[0, 1], |_, _| {});
    is_whole(rig, next + 300);
}

#[test]
fn an_event_waits_for_a_source_that_was_never_heard_while_what_it_sent_is_unread() {
    for heard in [1, 3] {
        let all: Vec<usize> = (0..=heard).collect();
        let (heard, late) = (&all[..heard], &all[heard..]);
        let mut rig = rig(all.len(), 100, |_| {});
        go_on(&mut rig, 1..HELD, heard, hold_unread(late));
        let status = rig.builder.status();
        assert_eq!((status.events_complete, status.events_incomplete), (0, 0));
        let next = catch_up(&mut rig, (1, HELD), (heard, late), hold_unread(late));
        go_on(&mut rig, next..next + 300, &all, |_, _| {});
        is_whole(rig, next + 300);
    }
}

/// What they bring of old times is not where the run begins.
#[test]
fn most_sources_whose_thread_was_held_up_from_the_start_begin_where_the_other_one_is() {
    let late = [1, 2, 3];
    let mut rig = rig(4, 100, |_| {});
    go_on(&mut rig, 1..HELD, &[0], hold_unread(&late));
    let next = catch_up(&mut rig, (1, HELD), (&[0], &late), hold_unread(&late));
    go_on(&mut rig, next..next + 300, &[0, 1, 2, 3], |_, _| {});
    is_whole(rig, next + 300);
}

/// Those of short cycles agree, and would put the other one out of step.
#[test]
fn a_run_waits_for_the_clock_that_says_in_which_cycle_the_others_are_while_it_is_unread() {
    let zero = 773_456_166 * S;
    let mut rig = rig(3, 100, |time| time.clocks[..2].iter_mut().for_each(|one| one.bits = 44));
    let all = |rig: &mut ByTime, sources: &[usize], event: u64| {
        let ns = zero + event * APART;
        sources.iter().for_each(|&source| send(rig, event * APART, source, &[ns]));
    };
    for event in 1..HELD {
        all(&mut rig, &[0, 1], event);
        hold_unread(&[2])(&mut rig, event * APART);
        rig.poll(event * APART);
    }
    let times: Vec<u64> = (1..HELD).map(|event| zero + event * APART).collect();
    send(&mut rig, HELD * APART, 2, &times);
    for event in HELD..HELD + 300 {
        all(&mut rig, &[0, 1, 2], event);
        rig.poll(event * APART);
    }
    is_whole(rig, HELD + 300);
}

#[test]
fn an_event_does_not_wait_for_a_source_that_was_silent_before_its_thread_was_held_up() {
    for ever in [false, true] {
        let mut rig = rig(3, 100, |_| {});
        let begins = if ever { 100 } else { 1 };
        go_on(&mut rig, 1..begins, &[0, 1, 2], |_, _| {});
        go_on(&mut rig, begins..begins + 300, &[0, 1], |_, _| {});
        go_on(&mut rig, begins + 300..begins + 600, &[0, 1], hold_unread(&[2]));
        let status = rig.builder.status();
        assert!(status.sources[2].silent && status.open_events < 2, "{}", status.open_events);
        assert_eq!(status.events_incomplete + status.open_events, 600);
        rig.finish((begins + 600) * APART);
    }
}

/// One that never comes costs a time-out behind that, and not more.
#[test]
fn an_event_waits_for_a_time_out_when_all_is_read_and_nothing_came() {
    for ever in [false, true] {
        let mut rig = rig(3, 100, |_| {});
        let begins = if ever { 100 } else { 1 };
        go_on(&mut rig, 1..begins, &[0, 1, 2], |_, _| {});
        go_on(&mut rig, begins..begins + HELD, &[0, 1], hold_unread(&[2]));
        assert_eq!(rig.builder.status().events_incomplete, 0);
        go_on(&mut rig, begins + HELD..begins + HELD + 110, &[0, 1], |_, _| {});
        let status = rig.builder.status();
        assert!(status.open_events < 2, "{}", status.open_events);
        rig.finish((begins + HELD + 110) * APART);
    }
}

/// A camera sends each 3 s, which is longer than a time-out and a step that is believed at once.
#[test]
fn a_sparse_source_is_waited_for_while_what_it_sent_is_unread() {
    let camera = |event: &u64| event % 300 == 50;
    for ever in [false, true] {
        let roles = vec![SourceRole::Required, SourceRole::Required, SourceRole::Sparse];
        let mut rig = rig_of(roles, 100, |_: &mut TimeConfig| {});
        let begins = if ever { 1_000 } else { 1 };
        let send_camera = |rig: &mut ByTime, now: u64| {
            if camera(&(now / APART)) {
                send(rig, now, 2, &[now + 2]);
            }
        };
        go_on(&mut rig, 1..begins, &[0, 1], send_camera);
        go_on(&mut rig, begins..begins + HELD, &[0, 1], hold_unread(&[2]));
        let now = (begins + HELD) * APART;
        for event in (begins..begins + HELD).filter(camera) {
            send(&mut rig, now, 2, &[event * APART + 2]);
        }
        hold_unread(&[2])(&mut rig, now);
        rig.poll(now);
        let end = begins + HELD + 1_000;
        go_on(&mut rig, begins + HELD..end, &[0, 1], send_camera);
        rig.finish(end * APART);
        let with_it = rig.rows.values().filter(|row| row.fragments[2].is_some()).count();
        assert_eq!(with_it, (1..end).filter(camera).count(), "{:?}", rig.ledger.sources[2]);
        assert_eq!(
            (rig.rows.len(), rig.complete(), rig.lost()),
            (end as usize - 1, end as usize - 1, 0)
        );
    }
}
