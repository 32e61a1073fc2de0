use catchment_codec::decode_column;

use crate::{Ask, Coding, Column, Element, EncoderPool, Level, PoolConfig, Rule, Stored};

/// A column in pieces that adds its bytes up while they are encoded.
struct Pieces(Vec<Vec<u8>>);

impl Column for Pieces {
    type Seen = u64;

    fn raw_bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn pieces<'a>(&'a self, take: &mut dyn FnMut(&'a [u8])) {
        self.0.iter().for_each(|piece| take(piece));
    }

    fn looks(&self) -> bool {
        true
    }

    fn look(&self, seen: &mut u64, bytes: &[u8]) {
        *seen += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
}

fn ask(coding: Coding, level: Level) -> Ask {
    Ask { element: Element::U8, rule: Rule::Fixed(coding), level }
}

fn pool<C: Column>(threads: usize, bytes_max: usize) -> EncoderPool<C> {
    EncoderPool::new(PoolConfig { threads, bytes_max, ..PoolConfig::default() }).unwrap()
}

/// Columns of all sizes, some of which do not compress.
fn columns() -> impl Iterator<Item = Vec<u8>> {
    (0..300_usize).map(|number| {
        let bytes = [0, 1, 100, 3_000, 200_000, 900_000][number % 6] + number;
        let mut state = number as u32 | 1;
        let noise = move |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if number.is_multiple_of(7) { (state >> 24) as u8 } else { (state >> 31) as u8 }
        };
        (0..bytes).map(noise).collect()
    })
}

fn stored_bytes<C: Column>(done: &crate::Done<C>) -> Vec<u8> {
    let mut stored = Vec::new();
    done.stored(&mut |piece| stored.extend_from_slice(piece));
    stored
}

#[test]
fn columns_come_back_in_their_order_whole_with_their_checksums() {
    for threads in [0, 1, 3] {
        for bytes_max in [1, 1 << 20, 64 << 20] {
            let mut pool = pool(threads, bytes_max);
            let mut expected = columns();
            let mut raw = Vec::new();
            pool.encode_all(columns().map(|c| (c, ask(Coding::Lz4, Level::AsAsked))), |done| {
                let column = expected.next().unwrap();
                assert_eq!(done.column, column);
                let stored = stored_bytes(done);
                assert_eq!(stored.len(), done.stored_bytes());
                assert_eq!(catchment_frame::crc32c(&stored), done.crc32c);
                decode_column(done.codec, &stored, column.len() as u64, &mut raw).unwrap();
                assert_eq!(raw, column);
                assert!(!done.lowered);
            });
            assert!(expected.next().is_none());
        }
    }
}

#[test]
fn a_column_in_pieces_is_seen_once_whatever_becomes_of_it() {
    let mut pool = pool(2, 1 << 20);
    for (coding, level) in [
        (Coding::Lz4, Level::AsAsked),
        (Coding::Lz4, Level::None),
        (Coding::None, Level::AsAsked),
        (Coding::Lz4, Level::Cheaper),
    ] {
        let pieces = || Pieces(columns().take(12).collect());
        let sum: u64 = pieces().0.concat().iter().map(|&byte| u64::from(byte)).sum();
        pool.put(pieces(), ask(coding, level));
        let done = pool.take().unwrap();
        assert_eq!(done.seen, sum);
        assert_eq!(catchment_frame::crc32c(&stored_bytes(&done)), done.crc32c);
        assert_eq!(done.lowered, level != Level::AsAsked);
        pool.give_back(done.stored);
    }
}

#[test]
fn columns_of_one_kind_find_their_coding_together() {
    let mut pool = pool::<Vec<u8>>(2, 8 << 20);
    let rule = Rule::Auto(crate::AutoState::new(Element::I16));
    let column = |seed: u32| {
        let sample = |n: u32| ((n.wrapping_mul(2_654_435_769) ^ seed) >> 26) as i16 - 32;
        (0..50_000).flat_map(|n| sample(n).to_le_bytes()).collect::<Vec<u8>>()
    };
    let ask = |level| Ask { element: Element::I16, rule: rule.clone(), level };
    pool.encode_all((0..40).map(|seed| (column(seed), ask(Level::AsAsked))), |done| {
        assert_ne!(done.coding, Coding::None);
        assert!(done.stored_bytes() < 60_000 && !done.lowered);
    });
    pool.put(column(1), ask(Level::None));
    assert!(matches!(pool.take(), Some(crate::Done { stored: Stored::Raw, lowered: true, .. })));
}

#[test]
fn what_is_under_way_is_bounded_and_one_column_always_fits() {
    let mut pool = pool::<Vec<u8>>(2, 1_000);
    assert!(pool.has_room(1 << 30));
    pool.put(vec![1; 600], ask(Coding::Lz4, Level::AsAsked));
    assert!(pool.has_room(400) && !pool.has_room(401));
    assert_eq!(pool.under_way(), 1);
    assert!(matches!(pool.take().unwrap().stored, Stored::Encoded(_)));
    assert!(pool.has_room(1 << 30));
    assert!(pool.take().is_none());
}

#[test]
fn buffers_are_used_again() {
    let mut pool = pool::<Vec<u8>>(1, 8 << 20);
    let mut places = std::collections::HashSet::new();
    for _ in 0..100 {
        pool.put(vec![3; 500_000], ask(Coding::Lz4, Level::AsAsked));
        let done = pool.take().unwrap();
        let Stored::Encoded(bytes) = &done.stored else { panic!("it compresses") };
        places.insert(bytes.as_ptr());
        pool.give_back(done.stored);
    }
    assert_eq!(places.len(), 1);
}

#[test]
fn a_pool_that_is_dropped_with_columns_under_way_ends() {
    let mut pool = pool(2, 64 << 20);
    columns().for_each(|column| pool.put(column, ask(Coding::Lz4, Level::AsAsked)));
    drop(pool);
}
