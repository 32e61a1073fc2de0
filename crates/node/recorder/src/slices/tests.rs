//! Links whose clocks are wrong, in virtual time: the builder as a recorder configures it.

use std::ops::Range;
use std::path::PathBuf;

use catchment_builder::{Builder, Discard, Fragment, FragmentFlags};
use catchment_frame::Dtype;
use catchment_model::{Entry, Ledger, SampleRate};

use super::{back_max, slice_of};
use crate::beginning::Beginning;
use crate::builder_config::{link_builder_config, link_number_config};
use crate::config::RecorderConfig;
use crate::links::{ChannelConfig, LinkConfig};

const MS: u64 = 1_000_000;
/// A slice of 250 ms in 2026.
const FIRST: u64 = 1_790_000_000 * 4 + 3;
const LANES: u32 = 9;

/// A builder, its books, and what came out of it.
struct Rig {
    builder: Builder,
    ledger: Ledger,
    discards: Vec<Discard>,
    /// Slice and channel of everything recorded, in the order of the frames.
    recorded: Vec<(u64, u32)>,
    slice_ns: u64,
    now_ns: u64,
}

impl Rig {
    /// One link of nine channels.
    fn new(slice_ns: u64) -> Self {
        let mut config = RecorderConfig::new(PathBuf::from("runs"), Vec::new());
        config.memory_bytes = 1 << 30;
        let rate = SampleRate::new(16, 1).unwrap();
        let channels = (0..LANES).map(|n| ChannelConfig::new(format!("X:{n}"), Dtype::I16, rate));
        let address = "127.0.0.1:0".parse().unwrap();
        let link = LinkConfig::new("link", address, channels.collect());
        config.links = vec![LinkConfig { slice_ns, ..link }];
        config.frame.duration_ns = 16 * slice_ns;
        let builder = link_builder_config(&config, &Beginning::new_run(1, 1));
        Self {
            builder: Builder::new(&builder, &link_number_config(&config)).unwrap(),
            ledger: Ledger::new(LANES as usize),
            discards: Vec::new(),
            recorded: Vec::new(),
            slice_ns,
            now_ns: 0,
        }
    }

    /// A packet of these channels' parts of a slice.
    fn packet(&mut self, slice: u64, lanes: Range<u32>) {
        let part = |lane| {
            let fragment = Fragment::new(lane, slice, 0, 8);
            Fragment { flags: FragmentFlags::SENT_ONCE, ..fragment }
        };
        let parts: Vec<Fragment> = lanes.map(part).collect();
        for part in &parts {
            self.ledger.sources[usize::from(part.source)][Entry::FragmentsReceived] += 1;
        }
        self.builder.push(self.now_ns, &parts);
        self.builder.poll(self.now_ns);
        self.collect();
    }

    /// A slice of all channels in so many packets, and the time that it takes.
    fn slice(&mut self, slice: u64, packets: u32) {
        let lanes = LANES / packets;
        (0..packets).for_each(|packet| self.packet(slice, packet * lanes..(packet + 1) * lanes));
        self.now_ns += self.slice_ns;
    }

    fn slices(&mut self, slices: Range<u64>, packets: u32) {
        slices.for_each(|slice| self.slice(slice, packets));
    }

    fn collect(&mut self) {
        let Self { builder, ledger, discards, recorded, now_ns, .. } = self;
        while let Some(cut) = builder.cut(*now_ns, None) {
            for (row, &key) in cut.keys.iter().enumerate() {
                let there = (0..LANES).filter(|&lane| cut.columns[lane as usize].lengths[row] > 0);
                recorded.extend(there.map(|lane| (slice_of(key), lane)));
            }
            for (source, column) in ledger.sources.iter_mut().zip(&cut.columns) {
                source[Entry::FragmentsRecorded] += column.fragments;
                source[Entry::FragmentsMissing] += column.missing;
            }
        }
        builder.discarded(discards);
        builder.counts(|source, entry, count| ledger.sources[source.index()][entry] += count);
    }

    /// Ends the run: the books balance, and everything that came is recorded once or counted.
    fn finish(mut self) -> Self {
        self.builder.finish(self.now_ns);
        self.collect();
        assert_eq!(self.builder.status().fragments_held, 0);
        for source in &self.ledger.sources {
            assert!(source.balance().holds(), "{source:?}");
        }
        let total = self.ledger.total();
        assert_eq!(total[Entry::FragmentsRecorded], self.recorded.len() as u64);
        let dropped = total[Entry::FragmentsReceived] - total[Entry::FragmentsRecorded];
        assert_eq!(self.discards.len() as u64, dropped, "each with its reason");
        self
    }

    fn count(&self, entry: Entry) -> u64 {
        self.ledger.total()[entry]
    }

    /// How many of these slices' parts are not recorded.
    fn lacks(&self, slices: Range<u64>) -> u64 {
        let all = (slices.end - slices.start) * u64::from(LANES);
        let there = self.recorded.iter().filter(|(slice, _)| slices.contains(slice));
        let mut there: Vec<_> = there.collect();
        there.sort();
        there.dedup();
        all - there.len() as u64
    }
}

/// Where a wrong clock can stand: near, a window away, years away, at either end of time.
fn wrong_clocks() -> Vec<u64> {
    let far = [3, 60, 1_000, 3_000, 5_000, 20_000, 400_000, 1 << 31, (1 << 32) + 7];
    let far = far.into_iter().flat_map(|far| [FIRST - far, FIRST + far]);
    far.chain([0, 1, i64::MAX as u64 / (250 * MS) - 200]).collect()
}

#[test]
fn wrong_first_packets_do_not_spoil_the_link() {
    for wrong in wrong_clocks() {
        // Whole slices in one packet, or a third of the channels in each.
        for (wrong_packets, per_slice) in [(1, 1), (1, 3), (2, 3), (100, 1), (100, 3)] {
            let mut rig = Rig::new(250 * MS);
            let lanes = LANES / per_slice;
            for packet in 0..wrong_packets {
                let part = packet % per_slice * lanes;
                rig.packet(wrong + u64::from(packet / per_slice), part..part + lanes);
            }
            rig.slices(FIRST..FIRST + 200, per_slice);
            let rig = rig.finish();
            let case = format!("{wrong} for {wrong_packets} of {per_slice}");
            // Where the two times are a few slices apart, they overlap.
            let overlap = wrong.abs_diff(FIRST) < 200;
            let lost = rig.lacks(FIRST..FIRST + 200);
            let repeated = rig.count(Entry::FragmentsTimeRepeated);
            assert!(lost == 0 || overlap, "{case}: {lost} parts, {:?}", rig.ledger.total());
            assert!(lost == 0 || lost <= repeated, "{case}: {lost} parts, {repeated} counted");
        }
    }
}

#[test]
fn a_hundred_packets_of_as_many_clocks_do_not_spoil_the_link() {
    for seed in 1..20_u64 {
        let mut rig = Rig::new(250 * MS);
        for packet in 0..100 {
            let mixed = (seed << 32 | packet).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let lane = packet as u32 % 3 * 3;
            rig.packet(mixed >> 29, lane..lane + 3);
        }
        rig.slices(FIRST..FIRST + 100, 3);
        let rig = rig.finish();
        // What stood in the way was given up within a few time-outs, countedly.
        assert_eq!(rig.lacks(FIRST + 40..FIRST + 100), 0, "{seed}: {:?}", rig.ledger.total());
    }
}

#[test]
fn a_clock_set_back_a_little_repeats_its_time_and_is_counted() {
    let mut rig = Rig::new(250 * MS);
    rig.slices(FIRST..FIRST + 100, 3);
    // Four slices are a second.
    rig.slices(FIRST + 96..FIRST + 200, 3);
    let rig = rig.finish();
    assert_eq!(rig.lacks(FIRST..FIRST + 200), 0);
    assert_eq!(rig.count(Entry::FragmentsTimeRepeated), 4 * u64::from(LANES));
    assert_eq!(rig.count(Entry::FragmentsDuplicate) + rig.count(Entry::NumberingRestarts), 0);
    assert!(rig.ledger.balance().lost_data());
}

#[test]
fn a_clock_set_ahead_a_little_leaves_a_gap_that_is_missed() {
    let mut rig = Rig::new(250 * MS);
    rig.slices(FIRST..FIRST + 100, 3);
    rig.slices(FIRST + 104..FIRST + 200, 3);
    let rig = rig.finish();
    assert_eq!(rig.recorded.len() as u64, 196 * u64::from(LANES));
    assert_eq!(rig.count(Entry::FragmentsMissingUnrecorded), 4 * u64::from(LANES));
}

#[test]
fn a_clock_set_far_goes_on_in_another_time_and_nothing_is_lost() {
    for wrong in wrong_clocks() {
        if wrong.abs_diff(FIRST) < 3_000 {
            continue;
        }
        for per_slice in [1, 3] {
            let mut rig = Rig::new(250 * MS);
            rig.slices(FIRST..FIRST + 100, per_slice);
            rig.slices(wrong..wrong + 100, per_slice);
            // And it is set right.
            rig.slices(FIRST + 200..FIRST + 300, per_slice);
            let rig = rig.finish();
            assert_eq!(rig.recorded.len(), 300 * LANES as usize, "{:?}", rig.ledger.total());
            let missed = rig.count(Entry::FragmentsMissingUnrecorded);
            assert!(missed <= 4_096 * u64::from(LANES), "no years are missed: {missed}");
            assert!(rig.count(Entry::NumberingRestarts) > 0);
        }
    }
}

#[test]
fn one_packet_of_another_time_harms_no_other() {
    for wrong in wrong_clocks() {
        if wrong.abs_diff(FIRST) < 200 {
            continue;
        }
        let mut rig = Rig::new(250 * MS);
        rig.slices(FIRST..FIRST + 100, 3);
        rig.packet(wrong, 0..3);
        rig.slices(FIRST + 100..FIRST + 200, 3);
        let rig = rig.finish();
        let total = rig.ledger.total();
        assert_eq!(rig.lacks(FIRST..FIRST + 200), 0, "{wrong}: {total:?}");
        let wrongly = rig.recorded.iter().filter(|(slice, _)| *slice == wrong).count() as u64;
        assert_eq!(
            rig.count(Entry::FragmentsOutOfRange) + rig.count(Entry::FragmentsLate) + wrongly,
            3
        );
    }
}

#[test]
fn a_run_of_short_slices_goes_on_for_years() {
    for first in [(1 << 31) - 500, (1 << 32) - 500, 1_790_000_000_000] {
        let mut rig = Rig::new(MS);
        rig.slices(first..first + 1_000, 3);
        // A few slices of every fifty minutes, until two turns of 32 bits are over.
        let mut slice = first + 1_000;
        while slice < first + (1 << 33) {
            slice += 3_000_000;
            rig.now_ns += 1_000 * MS;
            rig.slices(slice..slice + 3, 3);
        }
        let rig = rig.finish();
        let total = rig.ledger.total();
        assert_eq!(total[Entry::FragmentsRecorded], total[Entry::FragmentsReceived], "{total:?}");
        assert_eq!(total[Entry::FragmentsMissingUnrecorded], 0, "nobody numbered what is between");
        assert!(rig.recorded.is_sorted(), "in the order of their time");
    }
}

#[test]
fn what_repeats_time_is_bounded_by_time_and_by_slices() {
    assert_eq!([1, 250, 3_600_000].map(|ms| back_max(ms * MS, 4_096)), [1_024, 40, 16]);
}
