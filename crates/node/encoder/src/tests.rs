use std::sync::{Arc, Barrier};

use catchment_codec::{Codec, decode_column};

use catchment_agent::Agent;

use crate::{
    Ask, Buffers, Coding, Column, Done, Element, Encode, EncoderPool, Level, PoolConfig, Rule,
    Stored,
};

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
        let buffers = Buffers::new(bytes_max);
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
                assert_eq!(
                    catchment_frame::crc32c(&stored),
                    done.checksums.get().unwrap().crc32c()
                );
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
        assert_eq!(
            catchment_frame::crc32c(&stored_bytes(&done)),
            done.checksums.get().unwrap().crc32c()
        );
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
