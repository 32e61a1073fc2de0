//! The rule once more, as docs/decisions/building-by-time.md has it: all times sorted, and taken in
//! that order. It knows nothing of queues, clocks, leads and time-outs.

use std::collections::{BTreeMap, BTreeSet};

use catchment_builder::{TimeConfig, WindowKind};

/// A fragment: its source, and its number among those that the source sent.
pub type Id = (usize, usize);

/// What is one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The time from which it is counted.
    pub ns: i128,
    pub members: Vec<Id>,
    /// Whether it is one fragment that is in no event.
    pub is_alone: bool,
}

/// A fragment whose time is known, and the groups that it names.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    pub ns: i128,
    pub id: Id,
    pub groups: u64,
}

/// Sources that send many fragments alone: each has a level, which a stray raises by one, time
/// lowers by one in each 2,048th of a time-out between two of its strays, and an event by 16. At
/// 256 the source floods, and opens nothing until its level is 0.
pub struct Floods {
    timeout_ns: i128,
    openers: u32,
    /// Source, level, and when its last stray was: of the one from which most of the last came.
    suspect: Option<(usize, u32, i128)>,
    flooding: Vec<(usize, u32, i128)>,
}

impl Floods {
    pub fn new(rule: &TimeConfig, sources: usize, timeout_ns: u64) -> Self {
        let openers = (0..sources).filter(|&source| rule.opens(source)).count() as u32;
        let timeout_ns = i128::from(timeout_ns);
        Self { timeout_ns, openers, suspect: None, flooding: Vec::new() }
    }

    fn coincidence(&self, rule: &TimeConfig) -> u32 {
        rule.coincidence.min(self.openers - self.flooding.len() as u32)
    }

    fn stray(&mut self, source: usize, ns: i128, rule: &TimeConfig) {
        if rule.coincidence == 1 || !rule.opens(source) {
            return;
        }
        let apart_ns = self.timeout_ns / 2_048;
        let raised = |(_, level, last_ns): (usize, u32, i128)| {
            let passed = u32::try_from((ns - last_ns).max(0) / apart_ns).unwrap_or(u32::MAX);
            (source, (level.saturating_sub(passed) + 1).min(256), ns)
        };
        if let Some(one) = self.flooding.iter_mut().find(|one| one.0 == source) {
            *one = raised(*one);
            return;
        }
        // One that is not the suspect makes that one less suspect, as an event does.
        match self.suspect {
            Some(one) if one.0 == source => self.suspect = Some(raised(one)),
            Some((other, level, last_ns)) if level > 16 => {
                self.suspect = Some((other, level - 16, last_ns));
            }
            _ => self.suspect = Some((source, 1, ns)),
        }
        let Some(one) = self.suspect.filter(|one| one.0 == source && one.1 == 256) else { return };
        // At most half of the openers do.
        if 2 * (self.flooding.len() as u32 + 1) <= self.openers {
            self.flooding.push(one);
            self.suspect = None;
        }
    }

    fn event(&mut self) {
        let lowered = |one: &mut (usize, u32, i128)| one.1 = one.1.saturating_sub(16);
        self.suspect.iter_mut().for_each(lowered);
        self.flooding.iter_mut().for_each(lowered);
        self.flooding.retain(|one| one.1 > 0);
    }
}

/// What these fragments come to, in the order of time; those of a source with one time are in the
/// order in which they came.
pub fn groups(
    fragments: &[Timed],
    (rule, mut floods): (&TimeConfig, Floods),
    expected_in: &[u64],
) -> Vec<Group> {
    // By their places, until they are in groups.
    let timed = fragments.iter().enumerate();
    let mut left: BTreeSet<(i128, Id)> =
        timed.map(|(place, one)| (one.ns, (one.id.0, place))).collect();
    let (window_ns, before_ns) = (i128::from(rule.window_ns), i128::from(rule.before_ns));
    let mut groups = Vec::new();
    loop {
        let excluded: Vec<usize> = floods.flooding.iter().map(|one| one.0).collect();
        let opens = |one: &&(i128, Id)| rule.opens(one.1.0) && !excluded.contains(&one.1.0);
        let anchor = left.iter().find(opens).copied();
        let other = left.iter().find(|one| !opens(one)).copied();
        let is_lone = |ns: i128| anchor.is_none_or(|(anchor_ns, _)| ns + before_ns < anchor_ns);
        if let Some((ns, id)) = other.filter(|(ns, _)| is_lone(*ns)) {
            left.remove(&(ns, id));
            floods.stray(id.0, ns, rule);
            groups.push(Group { ns, members: vec![id], is_alone: true });
            continue;
        }
        let Some((anchor_ns, anchor)) = anchor else { break };
        let last_ns = anchor_ns + i128::from(rule.span_ns_max).max(window_ns);
        let in_reach = left.range((anchor_ns - before_ns, (0, 0))..=(last_ns, MOST));
        // The first ones of each source.
        let mut firsts: BTreeMap<usize, Vec<(i128, Id)>> = BTreeMap::new();
        for &(ns, id) in in_reach {
            let of_source = firsts.entry(id.0).or_default();
            if of_source.len() < rule.fragments_max as usize {
                of_source.push((ns, id));
            }
        }
        let firsts = || firsts.values().flatten();
        let mut end_ns = anchor_ns + window_ns;
        if rule.kind == WindowKind::Gap {
            let mut opening: Vec<i128> = firsts().filter(opens).map(|(ns, _)| *ns).collect();
            opening.sort_unstable();
            for ns in opening.into_iter().filter(|&ns| ns >= anchor_ns) {
                if ns <= end_ns {
                    end_ns = end_ns.max(ns + window_ns);
                }
            }
            end_ns = end_ns.min(last_ns);
        }
        let in_window: Vec<(i128, Id)> =
            firsts().filter(|(ns, _)| *ns <= end_ns).copied().collect();
        let openers: BTreeSet<usize> = in_window.iter().filter(opens).map(|one| one.1.0).collect();
        if (openers.len() as u64) < u64::from(floods.coincidence(rule)) {
            left.remove(&(anchor_ns, anchor));
            floods.stray(anchor.0, anchor_ns, rule);
            groups.push(Group { ns: anchor_ns, members: vec![anchor], is_alone: true });
            continue;
        }
        floods.event();
        let took_part = rule.reference.map_or(0, |_| fragments[anchor.1].groups);
        let members = in_window
            .into_iter()
            .filter(|(_, (source, _))| is_expected(expected_in[*source], took_part));
        let members: Vec<(i128, Id)> = members.collect();
        members.iter().for_each(|one| assert!(left.remove(one)));
        let members = members.into_iter().map(|(_, id)| id).collect();
        groups.push(Group { ns: anchor_ns, members, is_alone: false });
    }
    let members = groups.iter_mut().flat_map(|group| &mut group.members);
    members.for_each(|id| *id = fragments[id.1].id);
    groups
}

/// Whether an event in which these took part expects a source.
pub fn is_expected(expected_in: u64, took_part: u64) -> bool {
    expected_in == 0 || took_part == 0 || expected_in & took_part > 0
}

const MOST: Id = (usize::MAX, usize::MAX);
