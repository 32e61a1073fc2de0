//! Which source of a shared connection sends next.

use catchment_sender::testing::TestRecorder;
use catchment_sender::{SenderConfig, SourceConfig};

use crate::support::{SECOND, Wire, config};

/// 17 sources: 0 and 16 share a connection.
fn shared(skew_bytes: u64) -> Wire {
    let of = |index| SourceConfig {
        name: format!("s{index}"),
        fragment_bytes_max: 4_096,
        ..SourceConfig::default()
    };
    let config = config((0..17).map(of).collect());
    Wire::open(SenderConfig { skew_bytes, ..config })
}

/// Logs and keys of a connection's items in the order in which they came.
fn arrived(recorder: &TestRecorder) -> Vec<(u32, u64)> {
    recorder.arrived.iter().copied().filter(|(log, _)| matches!(log, 0 | 16)).collect()
}

#[test]
fn the_lowest_key_goes_first() {
    let mut wire = shared(4 << 20);
    for key in 0..1_000 {
        wire.push(if key % 3 == 0 { 16 } else { 0 }, key, &[1; 100]);
    }
    wire.pass_time(SECOND);
    assert!(arrived(&wire.recorder).iter().map(|(_, key)| *key).eq(0..1_000));
}

#[test]
fn a_source_that_is_silent_bounds_the_others_to_the_skew() {
    let mut wire = shared(100_000);
    for key in 0..500 {
        wire.push(0, key, &[1; 1_000]);
    }
    wire.pass_time(SECOND);
    let taken = |wire: &Wire| wire.recorder.log("camera/s0").unwrap().taken;
    let bytes = taken(&wire) * 1_016;
    assert!((1..=100_000).contains(&bytes), "{bytes} bytes ahead");
    // What it brings moves the others on, as far as its key.
    wire.push(16, 300, b"");
    wire.pass_time(SECOND);
    let ahead = taken(&wire) as i64 - 300;
    assert!((0..=100).contains(&ahead), "{ahead} fragments ahead");
    wire.sender.source(16).low_water(None, true);
    wire.pass_time(SECOND);
    assert_eq!(taken(&wire), 500);
    assert_eq!(wire.recorder.faults, [""; 0]);
}

#[test]
fn behind_a_key_a_lower_one_comes_within_the_skew() {
    const SKEW: u64 = 20_000;
    let mut wire = shared(SKEW);
    let mut random = catchment_fixtures::Random::new(7);
    // One source is sometimes ahead of the other, by a few events.
    let (mut first, mut second) = (0, 0);
    while second < 1_500 {
        if first < 1_500 && (first == second || first < second + 60 && random.chance(500)) {
            first += 1;
            wire.push(0, first, &[1; 500]);
        } else {
            second += 1;
            wire.push(16, second, &[1; 500]);
        }
        if random.chance(200) {
            wire.settle();
        }
    }
    wire.sender.source(0).low_water(None, true);
    wire.sender.source(16).low_water(None, true);
    wire.pass_time(SECOND);
    let arrived = arrived(&wire.recorder);
    assert_eq!(arrived.len(), 3_000);
    let mut inversions = 0;
    for (index, (log, key)) in arrived.iter().enumerate() {
        let later = &arrived[index + 1..];
        let lower = later.iter().rposition(|(_, later)| later < key).map_or(0, |last| last + 1);
        inversions += usize::from(lower > 0);
        let between = later[..lower].iter().filter(|(other, _)| other == log).count();
        assert!(between as u64 * 516 <= SKEW, "{between} fragments between {key} and a lower one");
    }
    assert!(inversions > 0, "the sources were out of order");
}
