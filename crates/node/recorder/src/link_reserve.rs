//! How far the logs of a connection may be out of order (docs/spec/event-link.md, section 5), and
//! the memory for that.
//!
//! A data connection that carries several sources is read in its order. Where there is no memory
//! for an item while the next event waits for a source of the same connection, whose item may
//! stand behind this one, the item takes memory that is set aside for the connection
//! ([`Reserve`]). If that is spent, too, and nothing is on its way to the targets that would free
//! any, the build agent is told that these sources stand behind: events wait for them no more.
//!
//! All of this is looked at where an item would be held, and never for one that has memory.

use std::collections::BTreeMap;

use catchment_builder::{Fragment, SourceNote};
use catchment_model::units::Bytes;
use catchment_wire::session::DATA_CONNECTIONS_MAX;

use crate::config::RecorderConfig;
use crate::ingest::Ingest;
use crate::link_session::Session;
use crate::pool::{RESERVES, Reserve, chunk_bytes_of};
use crate::sessions::OfRun;

/// The least that is granted, in bytes: with less, a sender keeps to the order.
const SKEW_BYTES_MIN: u64 = 64 << 10;
/// How often the build agent is told that sources stand behind.
const TOLD_EVERY_NS: u64 = 10_000_000;

/// What a session was granted, and the reserves for that.
#[derive(Default)]
pub(crate) struct Skew {
    /// Bytes by which the sources of a connection may be out of order.
    granted_bytes: u64,
    /// By data connection; none outside a run.
    reserves: Vec<OfConnection>,
}

/// What is set aside for one data connection.
struct OfConnection {
    /// Its sources: their accounts, and their numbers in the builder.
    sources: Vec<(usize, u32)>,
    /// None if it has one source, and while it is lent.
    reserve: Option<Reserve>,
    /// If it was used in vain: the calm in which that was ([`Ingest::calm`]).
    tried: u64,
    /// When the build agent was told last.
    told_ns: u64,
}

impl Skew {
    /// Gives up what is set aside: its connections are gone, or the run.
    pub(crate) fn give_up(&mut self) {
        self.reserves.clear();
    }
}

impl Session {
    /// Grants of what its sender asked for in its hello `most_bytes` at most, and in a run as much
    /// as can be set aside, by halves. Nothing where each source has a connection of its own, or
    /// events are built by time.
    pub(crate) fn grant_skew(&mut self, ingest: &Ingest, most_bytes: u64, of_run: &OfRun) {
        let all = self.sources_by_connection();
        let is_of_use = !of_run.live.is_by_time && all.iter().any(|sources| sources.len() > 1);
        let Some(welcome) = &mut self.welcome else { return };
        let most_bytes = if is_of_use { welcome.skew_bytes.min(most_bytes) } else { 0 };
        let halves = std::iter::successors(Some(most_bytes), |bytes| Some(bytes / 2));
        let mut halves = halves.take_while(|bytes| *bytes >= SKEW_BYTES_MIN);
        self.skew.granted_bytes = match of_run.is_standby {
            true => halves.next(),
            false => halves.find(|&bytes| self.skew.set_aside(ingest, bytes, &all)),
        }
        .unwrap_or(0);
        welcome.skew_bytes = self.skew.granted_bytes;
    }

    /// Goes on with what was granted before this run; whether it can, since its listener still
    /// grants that, and it can be set aside.
    pub(crate) fn keeps_skew(
        &mut self,
        ingest: &Ingest,
        (former, most_bytes): (&Skew, u64),
        of_run: &OfRun,
    ) -> bool {
        let granted_bytes = former.granted_bytes;
        if granted_bytes > most_bytes {
            return false;
        }
        self.skew.granted_bytes = granted_bytes;
        let all = self.sources_by_connection();
        granted_bytes == 0 || of_run.is_standby || self.skew.set_aside(ingest, granted_bytes, &all)
    }

    /// By data connection, its sources: their accounts, and their numbers in the builder. Those of
    /// channel links are in no order.
    fn sources_by_connection(&self) -> Vec<Vec<(usize, u32)>> {
        let mut all = Vec::new();
        for log in self.logs.iter().filter(|log| log.samples.is_none()) {
            let Ok(destination) = log.destination else { continue };
            let connection = usize::from(log.connection);
            all.resize_with(all.len().max(connection + 1), Vec::new);
            all[connection].push((destination.account as usize, destination.source));
        }
        all
    }

    /// Takes what there was no memory for from what is set aside for its connection, if the next
    /// event waits for a source of that. None if it does not.
    #[cold]
    pub(crate) fn take_aside<T>(
        &mut self,
        ingest: &mut Ingest,
        connection: u16,
        take: impl FnOnce(&mut Self, &mut Ingest) -> T,
    ) -> Option<T> {
        let index = usize::from(connection);
        let of_connection = self.skew.reserves.get_mut(index)?;
        of_connection.reserve.as_ref()?;
        if !of_connection.sources.iter().any(|&(account, _)| ingest.is_awaited(account)) {
            return None;
        }
        // Read before: what is freed from now on is tried again.
        let calm = ingest.calm();
        of_connection.refill(ingest);
        ingest.lend(of_connection.reserve.take());
        let taken = take(self, ingest);
        let of_connection = &mut self.skew.reserves[index];
        // Where places for descriptors lack, no memory was refused: they come back by themselves.
        let has_places =
            of_connection.sources.iter().all(|&(account, _)| ingest.has_place(account));
        (of_connection.reserve, of_connection.tried) =
            (ingest.lend(None), if has_places { calm } else { 0 });
        Some(taken)
    }

    /// A connection is held. If its reserve was used in vain, those of its sources that the next
    /// event waits for stand behind.
    pub(crate) fn say_behind(&mut self, ingest: &mut Ingest, connection: u16) {
        let index = usize::from(connection);
        let Some(of_connection) = self.skew.reserves.get_mut(index) else { return };
        let (calm, now_ns) = (std::mem::take(&mut of_connection.tried), ingest.now_ns());
        if calm == 0 || now_ns.saturating_sub(of_connection.told_ns) < TOLD_EVERY_NS {
            return;
        }
        of_connection.told_ns = now_ns;
        for &(account, source) in &of_connection.sources {
            if ingest.is_awaited(account) {
                ingest.describe(Fragment::said(source, SourceNote::Behind(calm)));
            }
        }
    }

    /// Sets aside again what a connection's sources need no more.
    pub(crate) fn refill(&mut self, ingest: &Ingest, connection: u16) {
        if let Some(of_connection) = self.skew.reserves.get_mut(usize::from(connection)) {
            of_connection.refill(ingest);
        }
    }

    /// Whether some of what was set aside for a connection is in use.
    pub(crate) fn uses_reserve(&self, connection: u16) -> bool {
        let of_connection = self.skew.reserves.get(usize::from(connection));
        of_connection.and_then(|one| one.reserve.as_ref()).is_some_and(Reserve::is_used)
    }
}

impl OfConnection {
    fn refill(&mut self, ingest: &Ingest) {
        if let Some(reserve) = &mut self.reserve {
            reserve.refill(ingest.excess(&self.sources));
        }
    }
}

impl Skew {
    /// Sets aside what connections with these sources need for so many bytes; whether there is
    /// enough.
    fn set_aside(&mut self, ingest: &Ingest, bytes: u64, all: &[Vec<(usize, u32)>]) -> bool {
        self.give_up();
        for sources in all {
            let is_shared = sources.len() > 1;
            let reserve = if is_shared { ingest.set_aside(bytes, sources) } else { None };
            if is_shared && reserve.is_none() {
                self.give_up();
                return false;
            }
            let sources = sources.clone();
            self.reserves.push(OfConnection { sources, reserve, tried: 0, told_ns: 0 });
        }
        true
    }
}

impl RecorderConfig {
    /// The most bytes of chunks that are set aside in a run, of so many: for each connection that
    /// sources of a front-end may share, up to a quarter.
    pub(crate) fn set_aside_bytes_max(&self, segment_bytes: u64) -> u64 {
        let (skew_bytes, chunk) = (self.skew_bytes(), self.sizes.chunk_bytes_max as u64);
        let of = |sources: u64| (sources / 2).min(CONNECTIONS_MAX) * 2 * (skew_bytes + chunk);
        let each = self.by_front_end().into_iter().filter(|&sources| sources > 1);
        let all: u64 = each.map(|sources| of(sources) + sources * chunk).sum();
        if skew_bytes == 0 { 0 } else { all.min(segment_bytes / RESERVES as u64) }
    }

    /// Whether the memory does not hold what `listen.skew_bytes` grants, as a sentence: for all
    /// front-ends as clients connect them, or for one connection with the sources of a smaller one.
    pub(crate) fn lowered_skew(&self) -> Option<String> {
        let (skew_bytes, segment_bytes) = (self.skew_bytes(), self.segment_bytes());
        let by_front_end = self.by_front_end();
        let most = by_front_end.iter().copied().max().filter(|&most| most > 1)?;
        let chunk_sizes = self.sizes.chunk_bytes_min..=self.sizes.chunk_bytes_max;
        let lanes = self.sources.len();
        let chunk_bytes = chunk_bytes_of(segment_bytes, chunk_sizes, lanes) as u64;
        let chunks = segment_bytes / chunk_bytes / RESERVES as u64;
        let shared = |sources: u64| sources.saturating_sub(CONNECTIONS_MAX).min(CONNECTIONS_MAX);
        let needed = |bytes: u64| -> u64 {
            let full = 2 * bytes.div_ceil(chunk_bytes);
            let large = by_front_end.iter().filter(|&&sources| shared(sources) > 0);
            let of_large = large.map(|&sources| shared(sources) * full + sources).sum::<u64>();
            of_large.max(full + most)
        };
        let halves = std::iter::successors(Some(skew_bytes), |bytes| Some(bytes / 2));
        let mut granted = halves.take_while(|bytes| *bytes >= SKEW_BYTES_MIN);
        let granted = granted.find(|&bytes| needed(bytes) <= chunks).unwrap_or(0);
        (granted < skew_bytes).then(|| {
            format!(
                "listen.skew_bytes: {} instead of {} for each data connection that sources of a \
                 front-end share, because what is set aside for all of them is at most a quarter \
                 of the memory for fragments, {}",
                Bytes(granted),
                Bytes(skew_bytes),
                Bytes(segment_bytes / RESERVES as u64)
            )
        })
    }

    /// The most that a listener grants; nothing where events are built by time.
    fn skew_bytes(&self) -> u64 {
        let most = self.accesses().iter().map(|access| access.skew_bytes).max();
        if self.is_by_time() { 0 } else { most.unwrap_or(0) }
    }

    /// How many sources each front-end has, by their names: sources whose names are the same before
    /// the last `/` count as of one front-end, which is known only when it connects.
    fn by_front_end(&self) -> Vec<u64> {
        let mut counts = BTreeMap::<&str, u64>::new();
        for source in self.sources.iter().filter(|source| source.is_link()) {
            let front_end = source.name.rsplit_once('/').map_or(&*source.name, |(name, _)| name);
            *counts.entry(front_end).or_default() += 1;
        }
        counts.into_values().collect()
    }
}

const CONNECTIONS_MAX: u64 = DATA_CONNECTIONS_MAX as u64;
