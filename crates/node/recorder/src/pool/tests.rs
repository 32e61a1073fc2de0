//! Chunks that are taken and come back, and the columns in them.

use catchment_builder::{ColumnCut, Cut};
use catchment_encoder::Column as _;
use catchment_fixtures::Random;

use super::*;
use crate::column_bytes::{ChunkBytes, ColumnBytes};

const CHUNK_BYTES: usize = 128 << 10;
const CHUNKS: RangeInclusive<usize> = CHUNK_BYTES..=2 * CHUNK_BYTES;

#[test]
fn a_chunk_comes_back_when_its_source_has_moved_on_and_its_bytes_are_done() {
    let pool = ChunkPool::new("segments", 4 << 20, CHUNKS, 1, 1, 0).unwrap();
    let held = Arc::new(Held::new(1, None));
    let mut used = ChunkUse::new(&pool, vec![0], Arc::clone(&held));
    let payload = vec![7_u8; 60_000];
    let mut chunk = pool.take().unwrap();
    held.took(0, 1);
    let mut ranges = Vec::new();
    while let Some(offset) = pool.append(&mut chunk, &payload, 1) {
        used.arrived(&pool, 0, offset, 60_000);
        ranges.push(offset);
    }
    assert_eq!(ranges.len(), pool.chunk_bytes() / 60_000);
    for &offset in &ranges {
        // SAFETY: just appended by this thread, not given back.
        assert_eq!(unsafe { pool.bytes(offset, 60_000) }, payload);
        used.done(&pool, offset, 60_000);
    }
    used.give_back(&pool);
    assert_eq!((held.of(0), pool.fill().level()), (1, pool.chunk_bytes() as u64));
    let mut next = pool.take().unwrap();
    held.took(0, 1);
    let offset = pool.append(&mut next, &payload, 1).unwrap();
    used.arrived(&pool, 0, offset, 60_000);
    used.give_back(&pool);
    assert_eq!((held.of(0), pool.fill().level()), (1, pool.chunk_bytes() as u64));
}

/// A length that is no multiple of a page is refused, and the memory behind it would be touched for
/// the first time while packets come in.
#[test]
fn what_is_populated_at_the_start_ends_with_a_step() {
    const TRAIN_BYTES: u64 = 1_073_754_173;
    let room = 16 << 30;
    let bytes = populated_bytes(TRAIN_BYTES, room);
    assert!(bytes as u64 >= 4 * TRAIN_BYTES && bytes < room);
    assert_eq!(bytes % POPULATE_STEP_BYTES, 0);
    assert_eq!(populated_bytes(0, room), POPULATED_BYTES);
    assert_eq!(populated_bytes(u64::MAX, room), room);
}

#[test]
fn what_is_appended_stands_on_its_alignment() {
    let pool = ChunkPool::new("segments", 1 << 20, CHUNKS, 1, 1, 0).unwrap();
    let mut chunk = pool.take().unwrap();
    let first = pool.append(&mut chunk, &[1; 3], 8).unwrap();
    let second = pool.append(&mut chunk, &[2; 16], 8).unwrap();
    assert_eq!((first % 8, second), (0, first + 8));
    let left = pool.chunk_bytes() - 24;
    assert_eq!(pool.append(&mut chunk, &vec![3; left + 1], 8), None);
    assert!(pool.append(&mut chunk, &vec![3; left], 8).is_some());
    assert_eq!(pool.append(&mut chunk, &[4], 8), None);
}

#[test]
fn a_fragment_of_many_parts_is_a_chain_of_chunks_until_it_is_done() {
    let pool = ChunkPool::new("segments", CHUNK_BYTES as u64 * 8, CHUNKS, 1, 1, 0).unwrap();
    let held = Arc::new(Held::new(1, None));
    let mut used = ChunkUse::new(&pool, vec![0], Arc::clone(&held));
    // So that the chain's chunks are not in the order of their numbers.
    let mut first: Vec<_> = std::iter::from_fn(|| pool.take()).take(4).collect();
    first.swap(0, 2);
    pool.take_back(&mut first);
    let payload: Vec<u8> = (0..CHUNK_BYTES * 3 - 5).map(|byte| (byte % 251) as u8).collect();
    let mut chunks = Vec::new();
    assert!(!pool.take_chain(CHUNK_BYTES as u64 * 9, &mut chunks) && chunks.is_empty());
    assert!(pool.take_chain(payload.len() as u64, &mut chunks));
    held.took(0, chunks.len() as u32);
    let parts: Vec<usize> = (0..payload.len()).step_by(8_184).collect();
    for &begin in parts.iter().rev() {
        let end = payload.len().min(begin + 8_184);
        pool.put_part(&chunks, begin as u64, &payload[begin..end]);
    }
    let (offset, bytes) = (pool.link(&mut chunks), payload.len() as u64);
    used.arrived(&pool, 0, offset, bytes as u32);
    // SAFETY: put there by this thread, not given back.
    let range = |span: Span| unsafe { pool.bytes(span.offset, span.bytes) };
    let read: Vec<u8> = pool.ranges(Span { offset, bytes }).flat_map(range).copied().collect();
    assert_eq!(read, payload);
    assert_eq!((held.of(0), pool.fill().level()), (3, 3 * CHUNK_BYTES as u64));
    used.done(&pool, offset, bytes);
    used.give_back(&pool);
    assert_eq!((held.of(0), pool.fill().level()), (0, 0));
}

#[test]
fn a_spent_pool_says_so() {
    let pool = ChunkPool::new("segments", CHUNK_BYTES as u64 * 3, CHUNKS, 3, 3, 0).unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(taken.len(), pool.chunk_count());
    pool.give_back(&[taken[1].id]);
    assert_eq!(pool.take().unwrap().id, taken[1].id);
    assert!(pool.take().is_none());
}

#[test]
fn a_columns_chunks_are_free_when_whoever_has_it_drops_it() {
    let pool = ChunkPool::new("segments", 512 << 10, 128 << 10..=256 << 10, 1, 1, 0).unwrap();
    let held = Arc::new(Held::new(1, Some(pool.chunk_bytes())));
    let pool = Arc::new(pool);
    let mut chunks = ChunkUse::new(&pool, vec![0], Arc::clone(&held));
    let mut cut = Cut::default();
    for byte in 0..2 {
        let mut chunk = pool.take().unwrap();
        held.took(0, 1);
        let payload = vec![byte; 1_000];
        let offset = pool.append(&mut chunk, &payload, 1).unwrap();
        chunks.arrived(&pool, 0, offset, 1_000);
        let spans = vec![Span { offset, bytes: 1_000 }];
        cut.columns.push(ColumnCut { spans, payload_bytes: 1_000, ..ColumnCut::default() });
    }
    let mut take =
        |index: usize| ColumnBytes::from(ChunkBytes::take(index, &mut cut.columns[index], &pool));
    let (first, second) = (take(0), take(1));
    drop(cut);
    assert!(pool.take_released(Vec::new()).is_empty());
    // A stage puts bytes of its own in a column's place.
    let reduced = ColumnBytes::Own(first.piece(0).unwrap()[..10].to_vec());
    drop(first);
    for span in pool.take_released(Vec::new()) {
        chunks.done(&pool, span.offset, span.bytes);
    }
    chunks.give_back(&pool);
    assert_eq!((held.of(0), pool.fill().level()), (1, pool.chunk_bytes() as u64));
    assert_eq!((reduced.raw_bytes(), reduced.piece(0).unwrap()), (10, &[0; 10][..]));
    assert_eq!((second.raw_bytes(), second.piece(0).unwrap()), (1_000, &[1; 1_000][..]));
    assert!(second.piece(1).is_none());
}

/// Chunks are taken, freed and set aside at random, by a pool and by numbers.
#[test]
fn what_is_set_aside_is_there_for_its_reserve_and_for_nobody_else() {
    const CHUNKS_ALL: usize = 64;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let bytes = (CHUNKS_ALL * CHUNK_BYTES) as u64;
        let pool = ChunkPool::new("", bytes, CHUNK_BYTES..=CHUNK_BYTES, 1, 1, 0).unwrap();
        let pool = Arc::new(pool);
        // All chunks that are in use, and each reserve with how many it has and how many are left.
        let mut used: Vec<Chunk> = Vec::new();
        let mut reserves: Vec<(Reserve, usize, usize)> = Vec::new();
        for _ in 0..400 {
            let promised: usize = reserves.iter().map(|(_, all, _)| all).sum();
            let set_aside: usize = reserves.iter().map(|(_, _, left)| left).sum();
            let rest = CHUNKS_ALL - used.len() - set_aside;
            let count = random.below(6) as usize;
            match random.below(6) {
                0 => {
                    let chunk = pool.take();
                    assert_eq!(chunk.is_some(), rest > 0);
                    used.extend(chunk);
                }
                1 => {
                    let bytes = (count * CHUNK_BYTES) as u64;
                    assert_eq!(pool.take_chain(bytes, &mut used), count <= rest);
                }
                2 => {
                    let (bytes, sources) = (random.below(3) * CHUNK_BYTES as u64 + 1, 2);
                    let all = 2 * bytes.div_ceil(CHUNK_BYTES as u64) as usize + sources;
                    let left = all.saturating_sub(count);
                    let reserve = Reserve::new(&pool, (bytes, sources), count);
                    let fits = promised + all <= CHUNKS_ALL / 4 && left <= rest;
                    assert_eq!(reserve.is_some(), fits);
                    reserves.extend(reserve.map(|one| (one, all, left)));
                }
                3 => {
                    let mut back = used.split_off(used.len() - count.min(used.len()));
                    pool.take_back(&mut back);
                }
                _ if reserves.is_empty() => {}
                4 => {
                    let index = random.below(reserves.len() as u64) as usize;
                    let (reserve, all, left) = &mut reserves[index];
                    if random.below(2) == 0 {
                        assert_eq!(reserve.take_chain(count, &mut used), count <= *left);
                        *left -= if count <= *left { count } else { 0 };
                    } else {
                        reserve.refill(count);
                        *left += (*all - *left).saturating_sub(count).min(rest);
                    }
                    assert_eq!(reserve.is_used(), *left < *all);
                }
                _ => drop(reserves.swap_remove(random.below(reserves.len() as u64) as usize)),
            }
            let mut ids: Vec<u32> = used.iter().map(|chunk| chunk.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), used.len(), "each is taken once, with seed {seed}");
            assert_eq!(pool.fill().level(), (used.len() * CHUNK_BYTES) as u64);
        }
        drop(reserves);
        used.extend(std::iter::from_fn(|| pool.take()));
        assert_eq!(used.len(), CHUNKS_ALL, "nothing is set aside for nobody");
    }
}

#[test]
fn what_frames_fill_is_in_no_share_where_every_source_waits() {
    let pool = ChunkPool::new("segments", CHUNK_BYTES as u64 * 8, CHUNKS, 2, 2, 0).unwrap();
    for (chunk_bytes, in_share) in [(Some(pool.chunk_bytes()), 2), (None, 3)] {
        let held = Arc::new(Held::new(2, chunk_bytes));
        let mut used = ChunkUse::new(&pool, vec![0, 1], Arc::clone(&held));
        let mut chunks = Vec::new();
        assert!(pool.take_chain(CHUNK_BYTES as u64 * 2 + 1, &mut chunks));
        held.took(1, 3);
        let (offset, bytes) = (pool.link(&mut chunks), CHUNK_BYTES as u64 * 2 + 1);
        used.arrived(&pool, 1, offset, bytes as u32);
        assert_eq!(held.in_share(1), 3);
        // A part of a chunk leaves it in the share.
        used.framed(1, CHUNK_BYTES as u64 + 1);
        assert_eq!((held.in_share(0), held.in_share(1)), (0, in_share));
        used.framed(1, CHUNK_BYTES as u64);
        let ranges: Vec<Span> = pool.ranges(Span { offset, bytes }).collect();
        ranges.into_iter().for_each(|span| used.released(&pool, span));
        used.give_back(&pool);
        assert_eq!((held.of(1), held.in_share(1), pool.fill().level()), (0, 0, 0));
    }
}
