//! The ledger: an account, for each source, of everything that it sent.
//!
//! Two units, each with a balance that must hold at the end of a run:
//!
//! ```text
//! packets_received   = packets_accepted + every packets_malformed_*
//! fragments_received = fragments_recorded + _duplicate + _late + _out_of_range + _unknown_source
//!                    + _time_repeated + _not_owned + _ambiguous + _foreign
//!                    + every fragments_discarded_*  (+ in flight, while the run goes on)
//! ```
//!
//! Packets from addresses that a source may not send from are in none of these entries: only
//! `packets_refused` counts them.
//!
//! Each `packets_malformed_*` is a kind common to all protocols. The ledger also counts the
//! protocol's own *reasons*, by their index in the protocol's list: the reasons of a source add up
//! to its malformed packets.
//!
//! Gaps in the sequence numbers of packets, where these have some, are losses on the network
//! (`packets_missing`). What events lack shows that something is missing, and not where:
//! `fragments_missing` counts the gaps in recorded events (it can be recomputed from the files),
//! `fragments_missing_unrecorded` those in events that are in no file. If the fragment of a gap did
//! arrive, but too late or without room for it, the gap is counted as that:
//!
//! ```text
//! lost                = fragments_missing + fragments_missing_unrecorded
//!                     - fragments_late - fragments_out_of_range - fragments_discarded_memory
//!                     - fragments_discarded_unfinished - fragments_discarded_restart
//! ```
//!
//! Of these the entries of front-ends say what these have dropped, never sent, or lost themselves.

use std::fmt;

macro_rules! entries {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $role:ident;)*) => {
        /// One line of a source's ledger. The names are used everywhere: in files, in `--json`, in
        /// metrics and in Python.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Entry { $($(#[doc = $doc])* $variant,)* }

        impl Entry {
            /// All entries, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The entry's name in files, metrics and Python.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The entry's role in the balance.
            pub fn role(self) -> Role {
                match self { $(Self::$variant => Role::$role,)* }
            }
        }
    };
}

/// The role of an entry in the balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Packets that arrived.
    PacketsIn,
    /// Packets that became fragments.
    PacketsOut,
    /// Packets that were dropped: a loss.
    PacketsLost,
    /// Fragments that arrived.
    FragmentsIn,
    /// Fragments that are safe or were not needed.
    FragmentsOut,
    /// Fragments that arrived and are in no file: a loss.
    FragmentsLost,
    /// A condition or a volume; not part of a balance.
    Note,
}

entries! {
    /// Datagrams that the socket delivered, except refused ones.
    PacketsReceived = "packets_received", PacketsIn;
    /// Bytes of those datagrams.
    PacketBytesReceived = "packet_bytes_received", Note;
    /// Datagrams that the kernel dropped because the socket's buffer was full (SO_RXQ_OVFL).
    PacketsDroppedByKernel = "packets_dropped_by_kernel", Note;
    /// Datagrams that were decoded.
    PacketsAccepted = "packets_accepted", PacketsOut;
    /// Datagrams shorter than the shortest packet.
    PacketsMalformedShort = "packets_malformed_short", PacketsLost;
    /// Datagrams whose length differs from the one in their header.
    PacketsMalformedLength = "packets_malformed_length", PacketsLost;
    /// Datagrams whose header does not match their source's protocol.
    PacketsMalformedHeader = "packets_malformed_header", PacketsLost;
    /// Datagrams that contradict their own checksum, or its substitute.
    PacketsMalformedChecksum = "packets_malformed_checksum", PacketsLost;
    /// Datagrams with an impossible fragment.
    PacketsMalformedFragment = "packets_malformed_fragment", PacketsLost;
    /// Fragments that were decoded.
    FragmentsReceived = "fragments_received", FragmentsIn;
    /// Bytes of those fragments, their own headers included.
    FragmentBytesReceived = "fragment_bytes_received", Note;
    /// Fragments in frames that were written.
    FragmentsRecorded = "fragments_recorded", FragmentsOut;
    /// Bytes of those fragments.
    FragmentBytesRecorded = "fragment_bytes_recorded", Note;
    /// Fragments in frames that the disk acknowledged as durable (fdatasync).
    FragmentsDurable = "fragments_durable", Note;
    /// Fragments that had already arrived.
    FragmentsDuplicate = "fragments_duplicate", FragmentsOut;
    /// Fragments of events that were closed without them.
    FragmentsLate = "fragments_late", FragmentsLost;
    /// Fragments whose event number is so far from the others' that they were discarded.
    FragmentsOutOfRange = "fragments_out_of_range", FragmentsLost;
    /// Fragments that carry the id of a source other than the port's.
    FragmentsUnknownSource = "fragments_unknown_source", FragmentsLost;
    /// Fragments discarded because the memory budget was spent.
    FragmentsDiscardedMemory = "fragments_discarded_memory", FragmentsLost;
    /// Fragments in frames that could not be written.
    FragmentsDiscardedDisk = "fragments_discarded_disk", FragmentsLost;
    /// Fragments of incomplete events that the configuration drops.
    FragmentsDiscardedIncomplete = "fragments_discarded_incomplete", FragmentsLost;
    /// Fragments of sources disabled in the configuration.
    FragmentsDiscardedDisabled = "fragments_discarded_disabled", FragmentsOut;
    /// Recorded events that lack this required source.
    FragmentsMissing = "fragments_missing", Note;
    /// Unrecorded events that lack this required source.
    FragmentsMissingUnrecorded = "fragments_missing_unrecorded", Note;
    /// Fragments that arrived after a later one of the same source.
    FragmentsReordered = "fragments_reordered", Note;
    /// Recorded fragments whose tag is not that of the majority of their event's fragments.
    FragmentsBadTag = "fragments_bad_tag", Note;
    /// Recorded fragments that their sender marked as broken.
    FragmentsBadSender = "fragments_bad_sender", Note;
    /// Times that the source restarted its event numbers.
    NumberingRestarts = "numbering_restarts", Note;
    /// Numbers missing between a channel link's packets, if enough parts of slices are missing for
    /// that many packets: network losses.
    PacketsMissing = "packets_missing", Note;
    /// Raw bytes recorded with less compression than configured, for lack of time.
    BytesCompressionLowered = "bytes_compression_lowered", Note;
    /// Fragments of new packets for a time that their channel had already delivered: the sender's
    /// clock was set back slightly.
    FragmentsTimeRepeated = "fragments_time_repeated", FragmentsLost;
    /// Fragments of events that began while the run was paused, before it or after it: deliberately
    /// not recorded.
    FragmentsDiscardedPaused = "fragments_discarded_paused", FragmentsOut;
    /// Datagrams from addresses that the source's configuration does not name (`from`), and
    /// messages of front-ends that are none: in no other entry, since they cost the source nothing.
    PacketsRefused = "packets_refused", Note;
    /// Bytes of those datagrams.
    PacketBytesRefused = "packet_bytes_refused", Note;
    /// Recorded fragments in files that were removed during the run.
    FragmentsRemoved = "fragments_removed", Note;
    /// Fragments in several packets of which some never arrived.
    FragmentsDiscardedUnfinished = "fragments_discarded_unfinished", FragmentsLost;
    /// Parts of fragments in several packets that had already arrived.
    FragmentPartsRepeated = "fragment_parts_repeated", Note;
    /// Fragments of events that another node builds, whose key is not owned by this node.
    FragmentsNotOwned = "fragments_not_owned", FragmentsOut;
    /// Fragments that repeat numbers after their source had paused, too few to decide whether their
    /// packets were duplicated or the numbers restarted; and, by time, those in no event that may
    /// have come before: not recorded a second time, and not a provable loss.
    FragmentsAmbiguous = "fragments_ambiguous", FragmentsOut;
    /// Event numbers that all required senders skipped alike, more than reordering explains: their
    /// numbers jumped ahead, and no loss can be proved.
    FragmentsSkipped = "fragments_skipped", Note;
    /// Fragments of events with more bytes than `build.event_bytes_max`.
    FragmentsDiscardedTooLarge = "fragments_discarded_too_large", FragmentsLost;
    /// Recorded fragments of which a part never arrived.
    FragmentsWithHoles = "fragments_with_holes", Note;
    /// Fragments that are not the source's: from another sender, to the source's port, and with
    /// another source's id or with event numbers that match no other source's. No loss of the
    /// source.
    FragmentsForeign = "fragments_foreign", FragmentsOut;
    /// Fragments in frames that a best-effort target did not take, because it was behind.
    FragmentsNotTaken = "fragments_not_taken", FragmentsOut;
    /// Bytes of those fragments.
    FragmentBytesNotTaken = "fragment_bytes_not_taken", Note;
    /// Fragments of a front-end's session whose key does not rise, or has too many bits.
    FragmentsDiscardedOrder = "fragments_discarded_order", FragmentsLost;
    /// Fragments of a front-end's session that are longer than its source was granted.
    FragmentsDiscardedTooLong = "fragments_discarded_too_long", FragmentsLost;
    /// Fragments that a front-end sent again after a break although they had been taken: dropped by
    /// their sequence, and in no other entry.
    FragmentsRepeated = "fragments_repeated", Note;
    /// Fragments that a front-end made, dropped itself and said so: they never arrived.
    FragmentsAbandoned = "fragments_abandoned", Note;
    /// Fragments that a front-end held when its process ended, as far as it had said how many it
    /// had made: they never arrived.
    FragmentsLostSender = "fragments_lost_sender", Note;
    /// Times that a front-end's session went on after a break.
    LinkResumes = "link_resumes", Note;
    /// Fragments that had arrived and were in no frame when the recorder died, whose run another
    /// one continued, and whose senders cannot send again.
    FragmentsDiscardedRestart = "fragments_discarded_restart", FragmentsLost;
    /// Event numbers from the last recorded one before a recorder died to the first one after
    /// another had continued its run, of a source that cannot send again; and fragments of a
    /// front-end that it had released as durable and that are in no file.
    FragmentsLostRestart = "fragments_lost_restart", Note;
    /// Fragments that a front-end had released as taken when the recorder died.
    FragmentsLostTaken = "fragments_lost_taken", Note;
    /// Recorded events that lack this required source although its front-end had passed their keys:
    /// it sent nothing for them, and did not say that it dropped what it had.
    FragmentsNotSent = "fragments_not_sent", Note;
    /// Times that a front-end said a lower low-water key than before, or sent a fragment below it.
    PromiseBroken = "promise_broken", Note;
    /// Bytes of recorded fragments that never arrived: holes.
    FragmentBytesLost = "fragment_bytes_lost", Note;
    /// Recorded fragments whose own checksum is not that of their bytes.
    FragmentsBadChecksum = "fragments_bad_checksum", Note;
    /// Recorded events without this source in which it was not expected: it is sparse, or none of
    /// its groups took part.
    FragmentsNotExpected = "fragments_not_expected", Note;
    /// Records of a declared layout that are no fragments: fillers and status words.
    RecordsSkipped = "records_skipped", Note;
    /// Fragments that are in no event by their time, discarded as the configuration says.
    FragmentsDiscardedUnmatched = "fragments_discarded_unmatched", FragmentsOut;
    /// Recorded fragments that are in no event by their time, or that came after it was closed:
    /// rows of their own.
    FragmentsUnmatched = "fragments_unmatched", Note;
    /// Recorded fragments in files whose disk did not confirm them, since a sync or the close
    /// failed: they may be lost.
    FragmentsUnconfirmed = "fragments_unconfirmed", Note;
    /// Fragments of events before the latest key at which a required front-end began the run by its
    /// mark, or behind the earliest one at which one ended it: not recorded, and no loss.
    FragmentsOutsideRun = "fragments_outside_run", FragmentsOut;
    /// Fragments that are counted, not recorded, in frames that were removed or that their disk did
    /// not confirm: once such a frame is lost, no other count has them.
    FragmentCountsUnconfirmed = "fragment_counts_unconfirmed", Note;
    /// Recorded fragments in frames that became durable in the spill of a target, whose storage
    /// node or folder did not take them at that time.
    FragmentsSpilled = "fragments_spilled", Note;
    /// Those of them that became durable there later, in the same run; counted when their spill
    /// file is removed.
    FragmentsForwarded = "fragments_forwarded", Note;
}

impl Entry {
    /// The number of entries.
    pub const COUNT: usize = Self::ALL.len();

    /// The entry with that name, or with that former name.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name {
            // Files of version 1.1 and before.
            "packets_malformed_decoding" => "packets_malformed_header",
            "packets_malformed_trailer" => "packets_malformed_checksum",
            // Files of version 1.2 and before, which also counted unrecorded fragments, and
            // compared tags with that of the event's first fragment.
            "fragments_wrong_tag" => "fragments_bad_tag",
            "fragments_flagged_error" => "fragments_bad_sender",
            name => name,
        };
        Self::ALL.iter().copied().find(|entry| entry.name() == name)
    }
}

/// Fragments that arrived and are in no event, so that an event lacks each: one loss, not two.
const ARRIVED_IN_VAIN: [Entry; 8] = [
    Entry::FragmentsLate,
    Entry::FragmentsOutOfRange,
    Entry::FragmentsDiscardedMemory,
    Entry::FragmentsDiscardedUnfinished,
    Entry::FragmentsDiscardedRestart,
    Entry::FragmentsTimeRepeated,
    Entry::FragmentsDiscardedOrder,
    Entry::FragmentsDiscardedTooLong,
];

/// The entries that count *bad data*: recorded fragments that are faulty. They are in no balance; a
/// fragment can be in several.
pub const BAD_DATA: [Entry; 4] = [
    Entry::FragmentsBadSender,
    Entry::FragmentsBadTag,
    Entry::FragmentsWithHoles,
    Entry::FragmentsBadChecksum,
];

/// The most reasons that one protocol may have for refusing a packet.
pub const REASONS_MAX: usize = 16;

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One source's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLedger {
    counts: [u64; Entry::COUNT],
    /// Malformed packets by the reasons of the source's protocol, in the protocol's order.
    pub reasons: [u64; REASONS_MAX],
}

impl Default for SourceLedger {
    fn default() -> Self {
        Self { counts: [0; Entry::COUNT], reasons: [0; REASONS_MAX] }
    }
}

impl std::ops::Index<Entry> for SourceLedger {
    type Output = u64;

    fn index(&self, entry: Entry) -> &u64 {
        &self.counts[entry as usize]
    }
}

impl std::ops::IndexMut<Entry> for SourceLedger {
    fn index_mut(&mut self, entry: Entry) -> &mut u64 {
        &mut self.counts[entry as usize]
    }
}

/// The losses in a ledger, and whether it balances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Fragments that events lack and that did not come: not sent, or lost on the network or by
    /// their front-end. By time, some of them may have come, and be in rows of their own.
    pub fragments_lost: u64,
    /// Fragments that arrived and are in no file, for any reason that is a loss.
    pub fragments_dropped: u64,
    /// Packets that were dropped as malformed.
    pub packets_malformed: u64,
    /// Packets that the kernel dropped. If they leave gaps in events, these also count as lost; at
    /// the end of a run, or of an optional source, this is their only trace.
    pub packets_dropped_by_kernel: u64,
    /// Packets whose numbers are missing between received ones, together with slices. If they leave
    /// gaps in recorded slices, these also count as lost; at the end of a run this is their only
    /// trace.
    pub packets_missing: u64,
    /// Fragments recorded in files that were removed, or that their disk did not confirm.
    pub fragments_removed: u64,
    /// Fragments received but neither recorded nor counted as dropped: 0 at the end of a run. A
    /// negative value means that output exceeds input, which is a defect.
    pub fragments_in_flight: i128,
    /// Packets received but neither accepted nor counted as malformed: 0 when counted at rest.
    pub packets_in_flight: i128,
}

impl Balance {
    /// Whether everything is accounted for. True only for a ledger at rest.
    pub fn holds(&self) -> bool {
        self.fragments_in_flight == 0 && self.packets_in_flight == 0
    }

    /// Whether any sent data are in no file.
    pub fn lost_data(&self) -> bool {
        self.fragments_lost > 0
            || self.fragments_dropped > 0
            || self.packets_malformed > 0
            || self.packets_dropped_by_kernel > 0
            || self.packets_missing > 0
            || self.fragments_removed > 0
    }
}

impl SourceLedger {
    /// Entries and counts, in the order of the entries' numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Entry, u64)> + '_ {
        Entry::ALL.iter().map(|&entry| (entry, self[entry]))
    }

    /// The sum of all entries with that role.
    pub fn sum(&self, role: Role) -> u64 {
        // Counts may come from a damaged file: they saturate.
        let counts = self.iter().filter(|(entry, _)| entry.role() == role).map(|(_, count)| count);
        counts.fold(0, u64::saturating_add)
    }

    /// Fragments that are counted for another reason than that they were recorded: those in no
    /// frame, and recorded ones whose file is gone or may be.
    pub fn counted_out(&self) -> u64 {
        let is_counted_out = |entry: Entry| match entry.role() {
            Role::FragmentsOut => entry != Entry::FragmentsRecorded,
            Role::FragmentsLost => true,
            _ => matches!(
                entry,
                Entry::FragmentsRemoved
                    | Entry::FragmentsUnconfirmed
                    | Entry::FragmentCountsUnconfirmed
            ),
        };
        let counts = self.iter().filter(|(entry, _)| is_counted_out(*entry));
        counts.map(|(_, count)| count).fold(0, u64::saturating_add)
    }

    /// Adds another ledger's counts to this one's.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = mine.saturating_add(theirs);
        }
        for (mine, theirs) in self.reasons.iter_mut().zip(other.reasons) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// The counts of this ledger less those of `earlier`, entry by entry.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut delta = Self::default();
        for (index, count) in delta.counts.iter_mut().enumerate() {
            *count = self.counts[index].saturating_sub(earlier.counts[index]);
        }
        for (index, count) in delta.reasons.iter_mut().enumerate() {
            *count = self.reasons[index].saturating_sub(earlier.reasons[index]);
        }
        delta
    }

    /// How many of the recorded fragments are bad ([`BAD_DATA`]). A fragment that is bad for two
    /// reasons counts twice, up to the number recorded, because it is not counted separately.
    pub fn bad_data(&self) -> u64 {
        let bad = BAD_DATA.iter().map(|&entry| self[entry]).fold(0, u64::saturating_add);
        bad.min(self[Entry::FragmentsRecorded])
    }

    /// Losses and balance of these counts.
    pub fn balance(&self) -> Balance {
        let gaps =
            self[Entry::FragmentsMissing].saturating_add(self[Entry::FragmentsMissingUnrecorded]);
        let arrived_in_vain =
            ARRIVED_IN_VAIN.iter().fold(0_u64, |sum, &entry| sum.saturating_add(self[entry]));
        let fragments_dropped = self.sum(Role::FragmentsLost);
        Balance {
            fragments_lost: gaps.saturating_sub(arrived_in_vain),
            fragments_dropped,
            packets_malformed: self.sum(Role::PacketsLost),
            packets_dropped_by_kernel: self[Entry::PacketsDroppedByKernel],
            packets_missing: self[Entry::PacketsMissing],
            fragments_removed: self[Entry::FragmentsRemoved]
                .saturating_add(self[Entry::FragmentsUnconfirmed]),
            fragments_in_flight: i128::from(self.sum(Role::FragmentsIn))
                - i128::from(self.sum(Role::FragmentsOut))
                - i128::from(fragments_dropped),
            packets_in_flight: i128::from(self.sum(Role::PacketsIn))
                - i128::from(self.sum(Role::PacketsOut))
                - i128::from(self.sum(Role::PacketsLost)),
        }
    }
}

/// The ledgers of all sources of a run; index is the source's number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// One ledger per source.
    pub sources: Vec<SourceLedger>,
}

impl Ledger {
    /// An empty ledger for that many sources.
    pub fn new(source_count: usize) -> Self {
        Self { sources: vec![SourceLedger::default(); source_count] }
    }

    /// How many recorded fragments are bad, over all sources.
    pub fn bad_data(&self) -> u64 {
        self.sources.iter().map(SourceLedger::bad_data).fold(0, u64::saturating_add)
    }

    /// All sources together, without reasons: protocols have different ones.
    pub fn total(&self) -> SourceLedger {
        let mut total = SourceLedger::default();
        self.sources.iter().for_each(|source| total.add(source));
        SourceLedger { reasons: [0; REASONS_MAX], ..total }
    }

    /// Adds another ledger with the same number of sources.
    ///
    /// # Panics
    /// If the numbers of sources differ.
    pub fn add(&mut self, other: &Self) {
        assert_eq!(self.sources.len(), other.sources.len(), "ledgers of the same sources");
        self.sources.iter_mut().zip(&other.sources).for_each(|(mine, theirs)| mine.add(theirs));
    }

    /// The counts of this ledger less those of `earlier`.
    ///
    /// # Panics
    /// If the numbers of sources differ.
    pub fn since(&self, earlier: &Self) -> Self {
        assert_eq!(self.sources.len(), earlier.sources.len(), "ledgers of the same sources");
        let pairs = self.sources.iter().zip(&earlier.sources);
        Self { sources: pairs.map(|(now, then)| now.since(then)).collect() }
    }

    /// Losses summed over the sources; it balances only if every source does.
    pub fn balance(&self) -> Balance {
        self.sources.iter().map(SourceLedger::balance).fold(Balance::default(), |sum, one| {
            Balance {
                fragments_lost: sum.fragments_lost.saturating_add(one.fragments_lost),
                fragments_dropped: sum.fragments_dropped.saturating_add(one.fragments_dropped),
                packets_malformed: sum.packets_malformed.saturating_add(one.packets_malformed),
                packets_dropped_by_kernel: sum
                    .packets_dropped_by_kernel
                    .saturating_add(one.packets_dropped_by_kernel),
                packets_missing: sum.packets_missing.saturating_add(one.packets_missing),
                fragments_removed: sum.fragments_removed.saturating_add(one.fragments_removed),
                // Magnitudes, so one source's surplus cannot hide another's deficit.
                fragments_in_flight: sum.fragments_in_flight + one.fragments_in_flight.abs(),
                packets_in_flight: sum.packets_in_flight + one.packets_in_flight.abs(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_by_its_name() {
        for &entry in Entry::ALL {
            assert_eq!(Entry::from_name(entry.name()), Some(entry));
        }
    }

    #[test]
    fn former_names_lead_to_the_entries_of_bad_data() {
        assert_eq!(Entry::from_name("fragments_wrong_tag"), Some(Entry::FragmentsBadTag));
        assert_eq!(Entry::from_name("fragments_flagged_error"), Some(Entry::FragmentsBadSender));
    }

    #[test]
    fn bad_data_are_recorded_data_and_no_loss() {
        let mut source = SourceLedger::default();
        source[Entry::FragmentsReceived] = 10;
        source[Entry::FragmentsRecorded] = 10;
        source[Entry::FragmentsBadSender] = 4;
        assert_eq!(source.bad_data(), 4);
        source[Entry::FragmentsBadTag] = 9;
        assert_eq!(source.bad_data(), 10);
        assert!(source.balance().holds() && !source.balance().lost_data());
        let ledger = Ledger { sources: vec![source, SourceLedger::default()] };
        assert_eq!(ledger.bad_data(), 10);
    }

    #[test]
    fn a_surplus_in_one_source_does_not_hide_a_deficit_in_another() {
        let mut ledger = Ledger::new(2);
        ledger.sources[0][Entry::FragmentsReceived] = 1;
        ledger.sources[1][Entry::FragmentsRecorded] = 1;
        assert!(!ledger.balance().holds());
        assert!(ledger.total().balance().holds());
    }

    #[test]
    fn a_late_fragment_is_not_also_lost_on_the_network() {
        let mut source = SourceLedger::default();
        source[Entry::FragmentsReceived] = 10;
        source[Entry::FragmentsRecorded] = 9;
        source[Entry::FragmentsLate] = 1;
        source[Entry::FragmentsMissing] = 3;
        let balance = source.balance();
        assert!(balance.holds());
        assert_eq!((balance.fragments_lost, balance.fragments_dropped), (2, 1));
        source[Entry::FragmentsReceived] += 1;
        source[Entry::FragmentsDiscardedUnfinished] = 1;
        let balance = source.balance();
        assert!(balance.holds());
        assert_eq!((balance.fragments_lost, balance.fragments_dropped), (1, 2));
        assert!(balance.lost_data());
        // A front-end whose clock stands: each event lacks it, and what it sends is discarded.
        let mut source = SourceLedger::default();
        source[Entry::FragmentsReceived] = 1_000;
        source[Entry::FragmentsRecorded] = 10;
        source[Entry::FragmentsTimeRepeated] = 990;
        source[Entry::FragmentsMissing] = 991;
        let balance = source.balance();
        assert_eq!((balance.fragments_lost, balance.fragments_dropped), (1, 990));
        // One whose keys stand, or whose fragments are longer than it was granted.
        for entry in [Entry::FragmentsDiscardedOrder, Entry::FragmentsDiscardedTooLong] {
            let mut source = SourceLedger::default();
            source[Entry::FragmentsReceived] = 20;
            source[Entry::FragmentsRecorded] = 12;
            source[entry] = 8;
            source[Entry::FragmentsMissing] = 8;
            let balance = source.balance();
            assert_eq!((balance.fragments_lost, balance.fragments_dropped), (0, 8), "{entry}");
        }
    }

    #[test]
    fn fragments_whose_files_were_removed_are_lost_though_they_were_recorded() {
        let mut source = SourceLedger::default();
        source[Entry::FragmentsReceived] = 10;
        source[Entry::FragmentsRecorded] = 10;
        assert!(!source.balance().lost_data());
        source[Entry::FragmentsRemoved] = 4;
        let ledger = Ledger { sources: vec![source.clone(), source] };
        assert!(ledger.balance().holds() && ledger.balance().lost_data());
        assert_eq!(ledger.balance().fragments_removed, 8);
    }

    #[test]
    fn what_is_counted_out_is_all_that_is_accounted_for_and_not_recorded() {
        let mut source = SourceLedger::default();
        source[Entry::FragmentsReceived] = 20;
        source[Entry::FragmentsRecorded] = 12;
        source[Entry::FragmentsDiscardedOrder] = 5;
        source[Entry::FragmentsDiscardedPaused] = 3;
        assert!(source.balance().holds());
        assert_eq!(source.counted_out(), 8);
        source[Entry::FragmentsUnconfirmed] = 4;
        source[Entry::FragmentsRemoved] = 2;
        source[Entry::FragmentCountsUnconfirmed] = 1;
        assert_eq!(source.counted_out(), 8 + 7);
    }

    #[test]
    fn forged_counts_saturate() {
        let mut ledger = Ledger::new(2);
        for source in &mut ledger.sources {
            for &entry in Entry::ALL {
                source[entry] = u64::MAX;
            }
        }
        assert!(!ledger.balance().holds());
        assert!(ledger.balance().lost_data());
    }

    #[test]
    fn what_came_since_and_what_was_before_add_up() {
        let mut before = Ledger::new(1);
        before.sources[0][Entry::PacketsReceived] = 5;
        let mut after = before.clone();
        after.sources[0][Entry::PacketsReceived] = 12;
        let mut sum = before.clone();
        sum.add(&after.since(&before));
        assert_eq!(sum, after);
    }
}
