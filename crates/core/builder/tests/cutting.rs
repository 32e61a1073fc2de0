//! How frames are cut.

use crate::support;
use catchment_builder::{
    Builder, BuilderConfig, ConfigError, Fragment, IncompletePolicy, NumberConfig, SourceRole, Span,
};
use catchment_fixtures::Random;
use catchment_model::Entry;
use catchment_model::limits::COLUMN_BYTES_MAX;
use support::{MS, Rig, S, window};

#[test]
fn a_frame_exceeds_its_size_by_less_than_one_event() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; 3]);
    config.frame_bytes = 10_000;
    let mut rig = Rig::new(config);
    rig.send_all(0, 0..3, 0..1_000);
    rig.poll(0);
    rig.finish(0);
    let (last, full) = rig.frame_bytes.split_last().unwrap();
    assert!(full.iter().all(|bytes| (10_000..10_300).contains(bytes)), "{full:?}");
    assert!(*last <= 10_300);
    assert_eq!(rig.frame_bytes.iter().sum::<u64>(), 300_000);
    assert!(rig.end_seen);
}

#[test]
fn a_small_frame_is_cut_when_its_time_has_come() {
    let mut rig = Rig::required(2);
    rig.send_all(0, 0..2, 0..10);
    rig.poll(0);
    rig.poll(999 * MS);
    assert!(rig.frame_rows.is_empty());
    rig.poll(S);
    assert_eq!(rig.frame_rows, [10]);
    rig.poll(5 * S);
    assert_eq!(rig.frame_rows, [10]);
}

#[test]
fn neighbours_are_one_span_and_gaps_divide() {
    let config = BuilderConfig::new(vec![SourceRole::Required; 2]);
    let mut builder = Builder::new(&config, &NumberConfig::default()).unwrap();
    let of = |source, number, offset, bytes| Fragment::new(source, number, offset, bytes);
    builder.push(0, &[of(0, 0, 40, 10), of(0, 1, 50, 0), of(0, 2, 50, 6), of(0, 3, 90, 4)]);
    builder.push(0, &[of(1, 0, 0, 8), of(1, 3, 16, 8), of(1, 2, 8, 8)]);
    builder.finish(0);
    let cut = builder.cut(0, None).unwrap();
    assert_eq!(cut.keys, [0, 1, 2, 3]);
    let [first, second] = &cut.columns[..] else { panic!("two columns") };
    assert_eq!(first.lengths, [10, 0, 6, 4]);
    assert_eq!(first.spans, [Span { offset: 40, bytes: 16 }, Span { offset: 90, bytes: 4 }]);
    assert_eq!(first.validity, None);
    assert_eq!(second.lengths, [8, 0, 8, 8]);
    assert_eq!(second.validity, Some(vec![0b1101]));
    assert_eq!(second.spans, [Span { offset: 0, bytes: 24 }]);
    assert_eq!((second.missing, second.fragments, second.payload_bytes), (1, 3, 24));
    assert!(cut.end_of_run);
}

#[test]
fn frames_end_at_multiples_of_a_key_and_where_numbers_begin_anew() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; 2]);
    config.frame_bytes = 100 << 20;
    let mut number = window(1_024, 16);
    (number.number_bits, number.frame_keys_multiple) = (16, Some(40));
    let mut rig = Rig::by_number(config, number);
    let first = 65_536 - 70;
    rig.send_all(0, 0..2, first..65_536 - 10);
    rig.poll(0);
    // 65,480 is the only multiple of 40 so far: what is behind it waits.
    assert_eq!(rig.frame_rows, [14, 40]);
    rig.send_all(0, 0..2, 65_536 - 10..65_536 + 45);
    rig.poll(0);
    assert_eq!(rig.frame_rows, [14, 40, 16, 40]);
    rig.finish(0);
    assert_eq!(rig.frame_rows, [14, 40, 16, 40, 5]);
    assert_eq!(rig.complete(), 115);
}

#[test]
fn a_frame_of_a_multiple_of_keys_is_still_cut_by_its_size() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required]);
    config.frame_bytes = 6_000;
    let number = NumberConfig { frame_keys_multiple: Some(100), ..NumberConfig::default() };
    let mut rig = Rig::by_number(config, number);
    rig.send_all(0, 0..1, 0..230);
    rig.poll(0);
    rig.finish(0);
    assert_eq!(rig.frame_rows, [60, 40, 60, 40, 30]);
}

#[test]
fn fragments_without_bytes_are_rows_like_others() {
    let mut rig = Rig::required(2);
    for source in 0..2 {
        let fragments: Vec<Fragment> =
            (0..100).map(|number| rig.fragment(source, number, 0)).collect();
        rig.push(0, &fragments);
    }
    rig.finish(0);
    assert_eq!((rig.rows.len(), rig.complete()), (100, 100));
    assert_eq!(rig.frame_bytes, [0]);
}

#[test]
fn one_huge_fragment_per_1000_events_on_each_of_90_sources_delays_nobody() {
    for huge_bytes in [100_000, 10_000_000] {
        let mut rig = Rig::required(90);
        let mut random = Random::new(2_008);
        let (mut huge, mut open_max) = (0, 0);
        for step in 0..50 {
            let now = step * 10 * MS;
            for source in 0..90 {
                let mut fragments = Vec::new();
                for number in step * 100..(step + 1) * 100 {
                    let is_huge = random.chance(1);
                    huge += u64::from(is_huge);
                    let bytes = if is_huge { huge_bytes } else { 116 };
                    fragments.push(rig.fragment(source, number, bytes));
                }
                rig.push(now, &fragments);
            }
            rig.poll(now);
            open_max = open_max.max(rig.builder.status().open_events);
        }
        assert!(huge > 300);
        assert_eq!(open_max, 0, "every event closes in the cycle in which it came");
        rig.finish(S);
        assert_eq!((rig.rows.len(), rig.complete()), (5_000, 5_000));
        let (last, full) = rig.frame_bytes.split_last().unwrap();
        let event_max = u64::from(huge_bytes) * 10;
        assert!(full.iter().all(|bytes| (32 << 20..(32 << 20) + event_max).contains(bytes)));
        assert!(*last < (32 << 20) + event_max);
    }
}

#[test]
fn a_fragment_of_64_mib_is_built() {
    let mut rig = Rig::required(3);
    for source in 0..3 {
        let fragments = [0, 1, 2].map(|number| rig.fragment(source, number, 64 << 20));
        rig.push(0, &fragments);
    }
    rig.poll(0);
    assert_eq!(rig.frame_rows, [1, 1, 1]);
    rig.finish(0);
    assert_eq!(rig.complete(), 3);
}

#[test]
fn a_frame_ends_before_a_row_with_which_its_payload_would_exceed_a_column() {
    const MIB: u32 = 1 << 20;
    let column_mib = (COLUMN_BYTES_MAX >> 20) as u32;
    // Of each row the MiB of one fragment per source; the last of them alone is more than fits.
    let rows = [1, column_mib / 2 - 1, 1, column_mib / 2, 7, column_mib, 1];
    for frame_bytes in [COLUMN_BYTES_MAX - 1, u64::MAX] {
        let mut config = BuilderConfig::new(vec![SourceRole::Required; 2]);
        (config.frame_bytes, config.waiting_bytes_max) = (frame_bytes, 1 << 40);
        let mut rig = Rig::new(config);
        for (number, mib) in (0..).zip(rows) {
            for source in 0..2 {
                let fragment = rig.fragment(source, number, mib * MIB);
                rig.push(0, &[fragment]);
            }
        }
        rig.poll(0);
        rig.finish(0);
        assert_eq!(rig.frame_rows, [2, 1, 1, 1, 1, 1], "{frame_bytes}");
        assert_eq!(rig.complete(), rows.len());
        let whole = |bytes: &u64| *bytes <= COLUMN_BYTES_MAX;
        assert_eq!(rig.frame_bytes.iter().filter(|bytes| whole(bytes)).count(), 5);
    }
}

#[test]
fn events_that_nobody_cuts_are_held_up_and_not_piled_up() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; 2]);
    config.parked_max = 200;
    let mut rig = Rig::by_number(config, window(1_024, 100));
    for step in 0..100 {
        rig.send_all(step * MS, 0..2, step * 100..(step + 1) * 100);
        rig.builder.poll(step * MS);
        let status = rig.builder.status();
        assert!(status.released_events <= 2 * 1_024 && status.fragments_held <= 2 * (3 * 1_024));
    }
    rig.collect(S);
    rig.finish(2 * S);
    assert!(rig.lost() > 0);
    assert!(rig.frame_rows.iter().all(|&rows| rows <= 1_024));
}

#[test]
fn a_run_of_dropped_events_only_makes_no_frame() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; 2]);
    config.incomplete = IncompletePolicy::Drop;
    let mut rig = Rig::new(config);
    for step in 0..300 {
        rig.send(step * 10 * MS, 0, step * 10..(step + 1) * 10);
        rig.poll(step * 10 * MS);
        rig.poll(step * 10 * MS + MS);
    }
    rig.finish(10 * S);
    assert_eq!(rig.rows.len(), 0);
    assert_eq!(rig.count(0, Entry::FragmentsDiscardedIncomplete), 3_000);
    assert_eq!(rig.count(1, Entry::FragmentsMissingUnrecorded), 3_000);
}

#[test]
fn a_cut_given_back_is_used_again() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required]);
    config.frame_bytes = 1_000;
    let mut builder = Builder::new(&config, &NumberConfig::default()).unwrap();
    let fragments: Vec<Fragment> = (0..20).map(|n| Fragment::new(0, n, 0, 100)).collect();
    builder.push(0, &fragments[..10]);
    builder.poll(0);
    let first = builder.cut(0, None).unwrap();
    let memory = first.keys.as_ptr();
    assert!(builder.cut(0, Some(first)).is_none());
    builder.push(0, &fragments[10..]);
    builder.poll(0);
    assert_eq!(builder.cut(0, None).unwrap().keys.as_ptr(), memory);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    use SourceRole::{Disabled, Required};
    let sound = || BuilderConfig::new(vec![Required; 2]);
    let refused = |change: fn(&mut BuilderConfig)| {
        let mut config = sound();
        change(&mut config);
        config.check().expect_err("refused")
    };
    let by_number = |change: fn(&mut NumberConfig)| {
        let mut number = NumberConfig::default();
        change(&mut number);
        Builder::new(&sound(), &number).map(|_| ()).expect_err("refused")
    };
    assert!(Builder::new(&sound(), &NumberConfig::default()).is_ok());
    assert_eq!(refused(|c| c.sources.clear()), ConfigError::Sources { got: 0 });
    assert_eq!(refused(|c| c.sources = vec![Required; 5_000]), ConfigError::Sources { got: 5_000 });
    assert_eq!(refused(|c| c.sources = vec![Disabled]), ConfigError::AllDisabled);
    assert_eq!(refused(|c| c.timeout_ns = 0), ConfigError::Timeout { got: 0 });
    assert_eq!(refused(|c| c.frame_bytes = 0), ConfigError::FrameBytes);
    assert_eq!(refused(|c| c.parked_max = 0), ConfigError::Parked { got: 0 });
    assert_eq!(by_number(|n| n.number_bits = 8), ConfigError::NumberBits { got: 8 });
    assert!(matches!(by_number(|n| n.window_events = 1_000), ConfigError::Window { .. }));
    assert!(matches!(by_number(|n| n.window_events = 1 << 23), ConfigError::Window { .. }));
    assert!(matches!(by_number(|n| n.reorder_events = 1 << 20), ConfigError::Reorder { .. }));
    assert_eq!(by_number(|n| n.frame_keys_multiple = Some(0)), ConfigError::FrameKeys);
    let sparse = BuilderConfig::new(vec![Required, SourceRole::Sparse]);
    let refused = Builder::new(&sparse, &NumberConfig::default()).map(|_| ());
    assert_eq!(refused, Err(ConfigError::Sparse { index: 1 }));
}
