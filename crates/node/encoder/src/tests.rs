use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

use catchment_codec::{Codec, decode_column};

use catchment_agent::Agent;
use catchment_fixtures::CountingAllocator;

use crate::{
    Ask, Buffers, Coding, Column, Done, Element, Encode, EncoderPool, Level, PoolConfig, Rule,
    Stored,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A column in pieces that sums its bytes while they are encoded.
struct Pieces(Vec<Vec<u8>>);

impl Column for Pieces {
    type Seen = u64;

    fn raw_bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn piece(&self, index: usize) -> Option<&[u8]> {
        self.0.get(index).map(Vec::as_slice)
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

/// A pool and its agents, which run in turn.
struct Rig<C: Column> {
    pool: EncoderPool<C>,
    encoders: Vec<Encode<C>>,
    turn: usize,
}

impl<C: Column> Rig<C> {
    fn new(encoders: usize, bytes_max: usize) -> Self {
        Self::with(encoders, bytes_max, Buffers::new(bytes_max))
    }

    fn with(encoders: usize, bytes_max: usize, buffers: Buffers) -> Self {
        let pool = EncoderPool::new(PoolConfig { bytes_max, buffers, ..PoolConfig::default() });
        Self { encoders: (0..encoders).map(|_| pool.encoder()).collect(), pool, turn: 0 }
    }

    /// The oldest column, once it is encoded.
    fn take(&mut self) -> Option<Done<C>> {
        while self.pool.under_way() > 0 {
            if let Some(done) = self.pool.take() {
                return Some(done);
            }
            self.turn = (self.turn + 1) % self.encoders.len();
            self.encoders[self.turn].work(0);
        }
        None
    }

    /// Encodes columns, as many at a time as there is room for.
    fn encode_all(
        &mut self,
        columns: impl Iterator<Item = (C, Ask)>,
        mut each: impl FnMut(&mut Done<C>),
    ) {
        let mut columns = columns.peekable();
        loop {
            while let Some((column, ask)) =
                columns.next_if(|(column, _)| self.pool.has_room(column.raw_bytes()))
            {
                self.pool.put(column, ask);
            }
            let Some(mut done) = self.take() else { return };
            each(&mut done);
        }
    }
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

fn stored_bytes<C: Column>(done: &Done<C>) -> Vec<u8> {
    let mut stored = Vec::new();
    let pieces = (0..).map_while(|index| done.stored_piece(index));
    pieces.for_each(|piece| stored.extend_from_slice(piece));
    stored
}

/// Those of a large column that is stored as it is are only computed where it is copied.
fn check_checksums<C: Column>(done: &Done<C>, stored: &[u8]) {
    match done.checksums.get() {
        Some(checksums) => assert_eq!(checksums.crc32c(), catchment_frame::crc32c(stored)),
        None => assert!(!done.is_encoded() && stored.len() >= 256 << 10),
    }
}

#[test]
fn columns_come_back_in_their_order_whole_with_their_checksums() {
    for encoders in [1, 3] {
        for bytes_max in [1, 1 << 20, 64 << 20] {
            let mut rig = Rig::new(encoders, bytes_max);
            let mut expected = columns();
            let mut raw = Vec::new();
            rig.encode_all(columns().map(|c| (c, ask(Coding::Lz4, Level::AsAsked))), |done| {
                let column = expected.next().unwrap();
                assert_eq!(done.column, column);
                let stored = stored_bytes(done);
                assert_eq!(stored.len(), done.stored_bytes());
                check_checksums(done, &stored);
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
    let mut rig = Rig::new(2, 1 << 20);
    for (coding, level) in [
        (Coding::Lz4, Level::AsAsked),
        (Coding::Lz4, Level::None),
        (Coding::None, Level::AsAsked),
        (Coding::Lz4, Level::Cheaper),
    ] {
        let pieces = || Pieces(columns().take(12).collect());
        let sum: u64 = pieces().0.concat().iter().map(|&byte| u64::from(byte)).sum();
        rig.pool.put(pieces(), ask(coding, level));
        let done = rig.take().unwrap();
        assert_eq!(done.seen, sum);
        check_checksums(&done, &stored_bytes(&done));
        assert_eq!(done.lowered, level != Level::AsAsked);
    }
}

#[test]
fn columns_of_one_kind_find_their_coding_together() {
    let mut rig = Rig::<Vec<u8>>::new(2, 8 << 20);
    let rule = Rule::Auto(crate::AutoState::new(Element::I16));
    let column = |seed: u32| {
        let sample = |n: u32| ((n.wrapping_mul(2_654_435_769) ^ seed) >> 26) as i16 - 32;
        (0..50_000).flat_map(|n| sample(n).to_le_bytes()).collect::<Vec<u8>>()
    };
    let ask = |level| Ask { element: Element::I16, rule: rule.clone(), level };
    rig.encode_all((0..40).map(|seed| (column(seed), ask(Level::AsAsked))), |done| {
        assert_ne!(done.coding, Coding::None);
        assert!(done.stored_bytes() < 60_000 && !done.lowered);
    });
    rig.pool.put(column(1), ask(Level::None));
    assert!(matches!(rig.take(), Some(Done { stored: Stored::Column, lowered: true, .. })));
}

const ZSTD_19: Coding = Coding::Zstd { level: 19 };

#[test]
fn columns_that_wait_get_no_more_than_the_present_level() {
    let mut rig = Rig::<Vec<u8>>::new(1, 8 << 20);
    // Larger than a batch, so that an agent takes one at a time.
    let column = || vec![7; 200_000];
    for level in [Level::AsAsked, Level::AsAsked, Level::AsAsked, Level::None] {
        rig.pool.put(column(), ask(ZSTD_19, level));
    }
    let mut codings = Vec::new();
    for level in [Level::AsAsked, Level::Cheaper, Level::None, Level::AsAsked] {
        rig.pool.set_level(level);
        let done = rig.take().expect("it is under way");
        assert_eq!(done.lowered, done.coding != ZSTD_19);
        codings.push(done.coding);
    }
    let cheaper = ZSTD_19.cheaper(Element::U8);
    assert!(cheaper != ZSTD_19 && cheaper != Coding::None);
    // The last was submitted when there was no time.
    assert_eq!(codings, [ZSTD_19, cheaper, Coding::None, Coding::None]);
}

/// A column that waits, once it has been begun, until its owner has continued.
struct Begun(Vec<u8>, Arc<Barrier>);

impl Column for Begun {
    type Seen = bool;

    fn raw_bytes(&self) -> usize {
        self.0.len()
    }

    fn piece(&self, index: usize) -> Option<&[u8]> {
        (index == 0).then_some(&self.0)
    }

    fn looks(&self) -> bool {
        true
    }

    fn look(&self, seen: &mut bool, _: &[u8]) {
        if !std::mem::replace(seen, true) {
            self.1.wait();
            self.1.wait();
        }
    }
}

#[test]
fn a_column_that_was_begun_is_given_up_where_there_is_no_time() {
    let Rig { mut pool, mut encoders, .. } = Rig::new(1, 8 << 20);
    let barrier = Arc::new(Barrier::new(2));
    let column = vec![7; 2 << 20];
    pool.put(Begun(column.clone(), Arc::clone(&barrier)), ask(ZSTD_19, Level::AsAsked));
    let mut encoder = encoders.remove(0);
    let agent = std::thread::spawn(move || encoder.work(0));
    barrier.wait();
    pool.set_level(Level::None);
    barrier.wait();
    agent.join().unwrap();
    let done = pool.take().expect("it is encoded");
    assert!(done.lowered && done.codec == Codec::None && done.coding == Coding::None);
    assert!(stored_bytes(&done) == column);
    assert_eq!(catchment_frame::crc32c(&column), done.checksums.get().unwrap().crc32c());
}

#[test]
fn what_is_under_way_is_bounded_and_one_column_always_fits() {
    let mut rig = Rig::<Vec<u8>>::new(2, 1_000);
    assert!(rig.pool.has_room(1 << 30));
    rig.pool.put(vec![1; 600], ask(Coding::Lz4, Level::AsAsked));
    assert!(rig.pool.has_room(400) && !rig.pool.has_room(401));
    assert_eq!(rig.pool.under_way(), 1);
    assert!(rig.pool.take().is_none(), "nothing has encoded it");
    assert!(matches!(rig.take().unwrap().stored, Stored::Encoded(_)));
    assert!(rig.pool.has_room(1 << 30));
    assert!(rig.take().is_none());
}

#[test]
fn buffers_are_used_again() {
    let mut rig = Rig::<Vec<u8>>::new(1, 8 << 20);
    let mut addresses = std::collections::HashSet::new();
    for _ in 0..100 {
        rig.pool.put(vec![3; 500_000], ask(Coding::Lz4, Level::AsAsked));
        let done = rig.take().unwrap();
        let Stored::Encoded(bytes) = &done.stored else { panic!("it compresses") };
        addresses.insert(bytes.as_ptr());
    }
    assert_eq!(addresses.len(), 1);
}

#[test]
fn agents_of_a_pool_that_is_dropped_with_columns_under_way_end() {
    let Rig { mut pool, mut encoders, .. } = Rig::new(2, 64 << 20);
    columns().for_each(|column| pool.put(column, ask(Coding::Lz4, Level::AsAsked)));
    assert!(!encoders[0].work(0).ended);
    drop(pool);
    assert!(encoders.iter_mut().all(|encoder| encoder.work(0).ended));
}

/// A large column of 16-bit samples with some noise, in pieces of uneven lengths.
fn large(bytes: usize, noise_bits: u32) -> Pieces {
    let mut state = 1_u64;
    let sample = |n: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((n / 5_000) as u16 ^ (state >> (64 - noise_bits)) as u16).to_le_bytes()
    };
    let raw: Vec<u8> = (0..bytes as u32 / 2).flat_map(sample).collect();
    Pieces(raw.chunks(100_000 - 16 * 7).map(<[u8]>::to_vec).collect())
}

fn ask_of(rule: Rule) -> Ask {
    Ask { element: Element::U16, rule, level: Level::AsAsked }
}

#[test]
fn a_large_column_is_the_same_for_any_number_of_agents_and_size_of_pieces() {
    let raw = large(12 << 20, 3).0.concat();
    let sum: u64 = raw.iter().map(|&byte| u64::from(byte)).sum();
    for coding in [Coding::BitshuffleLz4, Coding::Lz4, Coding::For, Coding::Pcodec { level: 1 }] {
        let mut stored = Vec::new();
        for (encoders, bytes_max) in [(1, 1 << 20), (3, 1 << 20), (2, 8 << 20), (2, 64 << 20)] {
            let mut rig = Rig::new(encoders, bytes_max);
            // It comes out in its place, between small ones.
            rig.pool.put(Pieces(vec![vec![1; 1_000]]), ask_of(Rule::Fixed(coding)));
            rig.pool.put(large(12 << 20, 3), ask_of(Rule::Fixed(coding)));
            rig.pool.put(Pieces(vec![vec![2; 1_000]]), ask_of(Rule::Fixed(coding)));
            assert_eq!(rig.take().map(|done| done.seen), Some(1_000));
            let done = rig.take().expect("it is encoded");
            assert_eq!(rig.take().map(|done| done.seen), Some(2_000));
            assert_eq!(done.seen, sum);
            assert!(done.is_encoded() && !done.lowered && done.coding == coding);
            let in_pieces = matches!(done.stored, Stored::Pieces(_));
            assert_eq!(in_pieces, bytes_max < 64 << 20, "{coding}, {bytes_max}");
            let bytes = stored_bytes(&done);
            assert_eq!(bytes.len(), done.stored_bytes());
            let mut decoded = Vec::new();
            decode_column(done.codec, &bytes, raw.len() as u64, &mut decoded).expect("decodes");
            assert!(decoded == raw, "{coding}, {encoders} agents, {bytes_max}");
            assert!(done.stored_bytes() < raw.len() / 10 * 8, "{coding}: {}", done.stored_bytes());
            check_checksums(&done, &bytes);
            stored.push(bytes);
        }
        assert!(stored[0] == stored[1], "{coding}: the agents leave no trace");
        let is_same = stored[0] == stored[3];
        assert!(is_same || !matches!(coding, Coding::BitshuffleLz4 | Coding::For));
    }
}

#[test]
fn a_large_column_takes_its_result_and_little_more() {
    let mut rig = Rig::<Pieces>::new(3, 1 << 20);
    for rule in [Rule::Fixed(Coding::Lz4), Rule::Auto(crate::AutoState::new(Element::U16))] {
        let mut result_bytes = 0;
        let column = large(24 << 20, 3);
        let most = ALLOCATOR.most_bytes(|| {
            rig.pool.put(column, ask_of(rule));
            result_bytes = rig.take().expect("it is encoded").memory_bytes();
        });
        assert!(most < result_bytes + (4 << 20), "{most}, {result_bytes} of them the result");
        assert!(result_bytes > 4 << 20);
    }
}

#[test]
fn a_large_column_without_time_or_memory_or_that_does_not_shrink_goes_as_it_is() {
    let rule = || Rule::Fixed(Coding::BitshuffleZstd { level: 3 });
    // Noise is met in the samples, or stands only where no sample is taken: those are the first
    // 64 KiB of each sixteenth.
    let noise = large(24 << 20, 16);
    let (mut raw, noisy) = (large(24 << 20, 3).0.concat(), noise.0.concat());
    for (raw, noisy) in raw.chunks_mut(3 << 19).zip(noisy.chunks(3 << 19)) {
        raw[64 << 10..].copy_from_slice(&noisy[64 << 10..]);
    }
    let hidden = Pieces(raw.chunks(1 << 20).map(<[u8]>::to_vec).collect());
    for (column, lent_max, level, lowered) in [
        (large(12 << 20, 3), usize::MAX, Level::None, true),
        (large(12 << 20, 3), 1 << 20, Level::AsAsked, true),
        (noise, usize::MAX, Level::AsAsked, false),
        (hidden, usize::MAX, Level::AsAsked, false),
    ] {
        let (raw, seen) =
            (column.0.concat(), column.0.concat().iter().map(|&b| u64::from(b)).sum::<u64>());
        let mut rig = Rig::with(2, 1 << 20, Buffers::lending(0, lent_max));
        rig.pool.put(column, ask_of(rule()));
        assert!(rig.encoders[0].work(0).done > 0, "it is begun");
        rig.encoders[1].work(0);
        rig.pool.set_level(level);
        let done: Done<Pieces> = rig.take().expect("it comes out");
        assert!(!done.is_encoded(), "{level:?}, {lent_max}: {}", done.stored_bytes());
        assert_eq!(done.codec, Codec::None);
        assert!(done.lowered == lowered && done.seen == seen);
        assert!(stored_bytes(&done) == raw);
        // The next one is encoded.
        drop(done);
        rig.pool.set_level(Level::AsAsked);
        rig.pool.put(Pieces(vec![vec![0; 200_000]]), ask_of(rule()));
        assert!(rig.take().is_some_and(|done| done.is_encoded()));
    }
}

/// A column whose bytes cannot be read any more once it is torn.
struct Torn(Vec<u8>, Arc<AtomicBool>);

impl Column for Torn {
    type Seen = ();

    fn raw_bytes(&self) -> usize {
        self.0.len()
    }

    fn piece(&self, index: usize) -> Option<&[u8]> {
        assert!(!self.1.load(Relaxed), "it is torn");
        (index == 0).then_some(&self.0)
    }
}

#[test]
fn an_agent_that_fails_in_a_piece_fails_the_pool() {
    let Rig { mut pool, mut encoders, .. } = Rig::<Torn>::new(2, 1 << 20);
    let torn = Arc::new(AtomicBool::new(false));
    pool.put(Torn(vec![0; 12 << 20], Arc::clone(&torn)), ask_of(Rule::Fixed(Coding::Lz4)));
    assert!(encoders.iter_mut().all(|encoder| encoder.work(0).done > 0));
    torn.store(true, Relaxed);
    let panics = |work: &mut dyn FnMut()| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
    };
    assert!(panics(&mut || assert!(encoders[1].work(0).done > 0)));
    assert!(panics(&mut || drop(pool.take())));
}
