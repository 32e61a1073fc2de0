//! The content of fragments as seen by a statistician and by a verifier.

use std::collections::HashSet;

use catchment_emulator::{Content, EmulatedSource, hades_90};

fn content(huge_every: u64, equal_bursts: Option<u32>) -> Content {
    Content::new(42, &hades_90(), huge_every, 60_000, equal_bursts)
}

#[test]
fn lengths_have_the_mean_and_the_spread_that_were_asked_for() {
    let content = content(0, None);
    for (sources, mean) in [(0..60, 116.0), (60..80, 338.0), (80..90, 1_170.0)] {
        let lengths: Vec<f64> = sources
            .flat_map(|source| (1..=5_000).map(move |event| (source, event)))
            .map(|(source, event)| content.payload_bytes(source, event) as f64)
            .collect();
        let count = lengths.len() as f64;
        let average = lengths.iter().sum::<f64>() / count;
        let variance = lengths.iter().map(|l| (l - average).powi(2)).sum::<f64>() / count;
        assert!((average / mean - 1.0).abs() < 0.005, "mean {average}, expected {mean}");
        let sigma = variance.sqrt() / mean;
        assert!((sigma - 0.2).abs() < 0.005, "sigma {sigma}");
        assert!(lengths.iter().all(|l| *l >= 8.0 && l % 4.0 == 0.0));
    }
}

#[test]
fn a_wide_spread_is_cut_at_eight_bytes() {
    let source = EmulatedSource {
        group: "g".into(),
        mean_bytes: 10.0,
        sigma: 1.0,
        sub_event_id: 1,
        board: None,
    };
    let content = Content::new(1, &[source], 0, 0, None);
    let lengths: HashSet<usize> = (0..5_000).map(|event| content.payload_bytes(0, event)).collect();
    assert_eq!(lengths.iter().min(), Some(&8));
    assert!(lengths.len() > 5);
}

#[test]
fn one_fragment_in_so_many_is_huge() {
    for huge_every in [10_u64, 1_000] {
        let content = content(huge_every, None);
        let events = 2_000 * huge_every / 90;
        let huge = (0..90)
            .flat_map(|source| (0..events).map(move |event| (source, event)))
            .filter(|&(source, event)| content.is_huge(source, event))
            .inspect(|&(source, event)| assert_eq!(content.payload_bytes(source, event), 60_000))
            .count() as f64;
        // 2,000 are expected, give or take their root.
        assert!((huge - 2_000.0).abs() < 5.0 * 2_000_f64.sqrt(), "{huge} huge ones");
    }
    let (never, always) = (content(0, None), content(1, None));
    assert!((0..10_000).all(|event| !never.is_huge(5, event) && always.is_huge(5, event)));
}

#[test]
fn huge_ones_leave_the_other_lengths_as_they_are() {
    let (with, without) = (content(50, None), content(0, None));
    for event in (0..2_000).filter(|&event| !with.is_huge(7, event)) {
        assert_eq!(with.payload_bytes(7, event), without.payload_bytes(7, event));
    }
}

#[test]
fn equal_bursts_have_one_length_per_source() {
    let content = content(0, Some(32));
    let mut lengths = HashSet::new();
    for burst in 0..100 {
        let first = content.payload_bytes(3, burst * 32);
        lengths.insert(first);
        assert!((0..32).all(|event| content.payload_bytes(3, burst * 32 + event) == first));
    }
    assert!(lengths.len() > 15, "{}", lengths.len());
}

#[test]
fn what_is_filled_is_verified() {
    let content = content(20, None);
    for source in [0, 60, 80] {
        for event in 0..200 {
            let mut payload = vec![0; content.payload_bytes(source, event)];
            content.fill(source, event, &mut payload);
            assert!(content.verify(source, event, &payload));
            assert!(!content.verify(source, event + 1, &payload));
            assert!(!content.verify(source + 1, event, &payload));
            payload.pop();
            assert!(!content.verify(source, event, &payload));
        }
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let content = content(0, None);
    let mut payload = vec![0; content.payload_bytes(85, 9)];
    content.fill(85, 9, &mut payload);
    assert!(payload.len() > 640 && content.verify(85, 9, &payload));
    for at in 0..payload.len() {
        for bit in 0..8 {
            payload[at] ^= 1 << bit;
            assert!(!content.verify(85, 9, &payload), "byte {at} bit {bit}");
            payload[at] ^= 1 << bit;
        }
    }
}

#[test]
fn no_word_comes_twice() {
    let content = content(0, None);
    let mut words = HashSet::new();
    for source in 0..90 {
        for event in 0..100 {
            let mut payload = vec![0; content.payload_bytes(source, event)];
            content.fill(source, event, &mut payload);
            for word in payload.chunks_exact(8) {
                assert!(words.insert(word.to_vec()), "source {source} event {event}");
            }
        }
    }
}

#[test]
fn the_seed_decides_everything() {
    let (one, two) = (content(10, None), Content::new(43, &hades_90(), 10, 60_000, None));
    let again = content(10, None);
    let of = |content: &Content| {
        (0..500)
            .map(|event| {
                let mut payload = vec![0; content.payload_bytes(1, event)];
                content.fill(1, event, &mut payload);
                (payload, content.tag(event))
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&one), of(&again));
    assert_ne!(of(&one), of(&two));
}

#[test]
fn tags_use_all_their_values() {
    let content = content(0, None);
    let tags: HashSet<u8> = (0..5_000).map(|event| content.tag(event)).collect();
    assert_eq!(tags.len(), 256);
}
