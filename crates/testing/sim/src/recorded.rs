//! The contents of a recorder's files, compared with what was sent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use catchment_model::Entry;
use catchment_ports::StoreFault;

use crate::detector::SentFragment;
use crate::fault::Fault;
use crate::groups;
use crate::headers;
use crate::links;
use crate::recorder::Life;
use crate::walk::{WalkedFile, WalkedFragment, WalkedFrame, walk};
use crate::world::Outcome;

/// The contents of a life's files, as the oracle reads them.
#[derive(Debug, Default)]
pub struct Recorded {
    /// By source: how often each trigger's fragment is present.
    pub fragments: Vec<BTreeMap<u64, u64>>,
    /// Sources and triggers of fragments that may be those of other triggers: alike in bytes and
    /// number, where their source has begun its numbers again.
    pub ambiguous: BTreeSet<(usize, u64)>,
    /// By source: fragments, their bytes, rows that lack one, and rows that need none.
    pub counts: Vec<[u64; 4]>,
    /// Rows.
    pub rows: u64,
    /// By link and channel: the numbers of the samples, in ranges that follow each other.
    pub samples: BTreeMap<(usize, usize), Vec<Range<u64>>>,
    /// What cannot be read.
    pub damage: Vec<String>,
    /// By source and entry: the sum of the frames' increments.
    pub increments: BTreeMap<(usize, String), u64>,
    /// The files, by their index.
    pub files: Vec<WalkedFile>,
}

impl Recorded {
    /// Whether these samples of a link's channel are in the files, if there are any.
    pub(crate) fn has_samples(&self, of: (usize, usize), samples: &Range<u64>) -> bool {
        let holds = |one: &Range<u64>| one.start <= samples.start && samples.end <= one.end;
        samples.is_empty() || self.samples.get(&of).is_some_and(|all| all.iter().any(holds))
    }
}

/// Reads a life's files, and checks that nothing in them differs from what was sent.
pub(crate) fn read(outcome: &Outcome, life: &Life) -> Result<Recorded, String> {
    let count = outcome.plan.endpoints();
    let mut recorded = Recorded {
        fragments: vec![BTreeMap::new(); count],
        counts: vec![[0; 4]; count],
        ..Recorded::default()
    };
    let is_frames = |path: &Path| path.extension().is_some_and(|extension| extension == "catch");
    for (path, bytes) in outcome.files.all() {
        if !path.starts_with(&life.folder) || !is_frames(&path) {
            continue;
        }
        match walk(&bytes) {
            Ok(Some(mut file)) => {
                file.path = path;
                recorded.files.push(file);
            }
            Ok(None) => {}
            Err(why) => recorded.damage.push(format!("{}: {why}", path.display())),
        }
    }
    recorded.files.sort_by_key(|file| file.index);
    let files = std::mem::take(&mut recorded.files);
    // A misdirected write may have left a whole frame there.
    let may_stray = disk_lied(life);
    let is_slow = outcome.plan.case.faults.slow_disk();
    let (mut last, mut frames) = (None, BTreeSet::new());
    for file in &files {
        check_selected(outcome, life, file)?;
        let mut of_file = BTreeMap::new();
        let mut checkpoints = file.checkpoints.iter().peekable();
        for (index, frame) in file.frames.iter().enumerate() {
            while let Some((_, checkpoint)) = checkpoints.next_if(|(before, _)| *before <= index) {
                // A power cut may take a part of it and leave the frames behind it.
                let is_torn =
                    life.unsynced.contains(&file.path) && !file.damage(checkpoint).is_empty();
                if !may_stray && !is_torn {
                    let found = file.ledger(checkpoint);
                    // On a slow disk frames of the file before may still be under way.
                    let before = if is_slow { &of_file } else { &recorded.increments };
                    check_ledger((life, is_slow), &found, before)
                        .map_err(|why| format!("a checkpoint of file {}: {why}", file.index))?;
                }
            }
            recorded.damage.extend(file.damage(frame));
            let stands_for = frame.skips.unwrap_or(1);
            if last.is_some_and(|last| frame.sequence <= last) && !may_stray {
                return Err(format!("frame {} comes after {last:?}", frame.sequence));
            }
            last = last.max(Some(frame.sequence + stands_for - 1));
            if !frames.insert(frame.identity()) {
                continue;
            }
            let increment = file.increment(frame)?;
            if frame.is_channels {
                read_samples(outcome, file, frame, &increment, &mut recorded)?;
            } else {
                recorded.rows += frame.rows;
            }
            for (key, count) in increment {
                *of_file.entry(key.clone()).or_default() += count;
                *recorded.increments.entry(key).or_default() += count;
            }
            read_rows((outcome, life), file, frame, &mut recorded)?;
        }
    }
    recorded.samples.values_mut().for_each(join);
    recorded.files = files;
    Ok(recorded)
}

/// Checks that a file has the sources and channels that its target gets, and describes the others.
fn check_selected(outcome: &Outcome, life: &Life, file: &WalkedFile) -> Result<(), String> {
    let selected = outcome.plan.selected(life.target);
    let links = outcome.plan.config.links.iter().zip(&selected.channels);
    let channels = links.flat_map(|(link, has)| link.channels.iter().zip(has));
    let named = |wanted: bool| -> BTreeSet<String> {
        let own = channels.clone().filter(|(_, has)| **has == wanted);
        own.map(|(channel, _)| channel.name.clone()).collect()
    };
    if file.stored != selected.sources || file.channels != [true, false].map(named) {
        let (stored, channels) = (&file.stored, &file.channels);
        return Err(format!("it gets {selected:?}, its file {stored:?} and {channels:?}"));
    }
    match (file.variant == 0) == selected.is_all() {
        true => Ok(()),
        false => Err(format!("variant {} of {selected:?}", file.variant)),
    }
}

/// Checks the ledger of a checkpoint: it is at least the sum of the frames before it that are
/// written, and at most the run's final ledger. What describes a frame is counted once that is
/// recorded, which it may not be yet where the disk is slow.
fn check_ledger(
    (life, is_slow): (&Life, bool),
    found: &Result<BTreeMap<(usize, String), u64>, String>,
    increments: &BTreeMap<(usize, String), u64>,
) -> Result<(), String> {
    let found = found.as_ref().map_err(Clone::clone)?;
    for (source, ledger) in life.last.ledger.sources.iter().enumerate() {
        for (entry, last) in ledger.iter() {
            let of = |counts: &BTreeMap<(usize, String), u64>| {
                counts.get(&(source, entry.name().to_owned())).copied().unwrap_or(0)
            };
            let is_late = is_slow && OF_FRAMES.contains(&entry);
            let (count, before) = (of(found), if is_late { 0 } else { of(increments) });
            // What a recorder that died had counted and not recorded is counted nowhere.
            let last = if life.deaths > 0 { u64::MAX } else { last };
            if !(before..=last.max(before)).contains(&count) {
                return Err(format!("source {source}: {entry}: {count}, not {before} to {last}"));
            }
        }
    }
    Ok(())
}

/// Joins ranges that follow each other or overlap.
fn join(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        let joins = next.start <= before.end;
        before.end = if joins { before.end.max(next.end) } else { before.end };
        joins
    });
}

/// A frame's samples must be those that were sent, and as many bytes as it counts as recorded.
fn read_samples(
    outcome: &Outcome,
    file: &WalkedFile,
    frame: &WalkedFrame,
    increment: &BTreeMap<(usize, String), u64>,
    recorded: &mut Recorded,
) -> Result<(), String> {
    let plan = &outcome.plan;
    let mut bytes_of = vec![0; plan.endpoints()];
    file.samples(frame, |name, source, pieces| {
        let link = source - plan.sources.len();
        let channel = name.rsplit('c').next().and_then(|number| number.parse::<usize>().ok());
        let channel = channel.ok_or_else(|| format!("{name} is no channel"))?;
        let sample_bytes = plan.links[link].channels[channel].sample_bytes();
        for &(first, bytes) in pieces {
            bytes_of[source] += bytes.len() as u64;
            let samples = bytes.chunks(sample_bytes as usize);
            let count = samples.len() as u64;
            for (number, found) in (first..).zip(samples) {
                let sent = links::sample(plan.case.seed, (link, channel), number);
                if found != &sent[..sample_bytes as usize] {
                    return Err(format!("{name}: sample {number} is another one"));
                }
            }
            let rate = plan.links[link].channels[channel].rate;
            headers::check_samples(frame, first..first + count, rate)
                .map_err(|why| format!("{name}: {why}"))?;
            recorded.samples.entry((link, channel)).or_default().push(first..first + count);
        }
        Ok(())
    })?;
    let entries = [Entry::FragmentsRecorded, Entry::FragmentBytesRecorded, Entry::FragmentsMissing];
    for (source, held) in bytes_of.into_iter().enumerate().skip(plan.sources.len()) {
        let of = |entry: Entry| increment.get(&(source, entry.name().to_owned())).copied();
        let counts = entries.map(|entry| of(entry).unwrap_or(0));
        if counts[1] != held && file.damage(frame).is_empty() {
            let said = counts[1];
            return Err(format!("frame {}: {said} bytes of channels, {held} here", frame.sequence));
        }
        for (sum, count) in recorded.counts[source].iter_mut().zip(counts) {
            *sum += count;
        }
    }
    Ok(())
}

fn read_rows(
    (outcome, life): (&Outcome, &Life),
    file: &WalkedFile,
    frame: &WalkedFrame,
    recorded: &mut Recorded,
) -> Result<(), String> {
    // By row: the candidates of each fragment, which must be of one event.
    let mut rows: BTreeMap<usize, Vec<(usize, u64, Vec<SentFragment>)>> = BTreeMap::new();
    // By row: the number of fragments, including forged ones.
    let mut held: BTreeMap<usize, usize> = BTreeMap::new();
    let mut wrong = None;
    let number_mask = (1 << outcome.plan.number_bits()) - 1;
    // Those that lack a required source, and the sources that are not expected.
    let (mut lacking, mut unexpected) = (BTreeSet::new(), BTreeSet::new());
    file.fragments(frame, |WalkedFragment { key, row, source, bytes, is_expected, .. }| {
        if !is_expected {
            unexpected.insert((row, source));
        }
        let Some(bytes) = bytes else {
            let is_missing = is_expected && file.required[source];
            recorded.counts[source][2] += u64::from(is_missing);
            let is_needless = !is_expected || outcome.plan.is_sparse(source);
            recorded.counts[source][3] += u64::from(is_needless);
            lacking.extend(is_missing.then_some(row));
            return;
        };
        *held.entry(row).or_insert(0) += 1;
        recorded.counts[source][0] += 1;
        recorded.counts[source][1] += bytes.len() as u64;
        let sent = &outcome.sent.sources[source];
        let found: Vec<_> = sent.find(bytes).iter().map(|&at| sent.fragments[at]).collect();
        // Sub-events contain their number; empty fragments of several packets do not.
        let fits = |one: &&SentFragment| one.number == key & number_mask;
        let of_number: Vec<_> = found.iter().filter(fits).copied().collect();
        if of_number.is_empty() {
            let is_parts = outcome.plan.sources[source].in_parts;
            if is_parts || !sent.is_of_corrupted(bytes) {
                let what = match found.first() {
                    Some(one) => format!("the fragment of event {} ({})", one.trigger, one.number),
                    None => format!("{} bytes that it never sent", bytes.len()),
                };
                wrong.get_or_insert(format!("event {key}: s{source} has {what}"));
            }
            return;
        }
        rows.entry(row).or_default().push((source, key, of_number));
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    // The remaining contents of a damaged frame are unknown.
    let said = if file.damage(frame).is_empty() { file.rows(frame)? } else { None };
    if let Some(said) = said.as_ref().filter(|_| !frame.is_channels) {
        headers::check_ranges(frame, said)?;
    }
    let may_be_forged = |&(source, ..): &(usize, u64, Vec<SentFragment>)| {
        !outcome.sent.sources[source].corrupted.is_empty()
    };
    // Rows of sources with their own numbering may mix events.
    let may_mix = outcome.plan.case.faults.has(Fault::Misnumber);
    // Times and flags are those of whole events.
    let is_whole = file.stored[..outcome.plan.sources.len()].iter().all(|&stored| stored);
    for (row, fragments) in rows {
        let triggers = one_event(outcome, &fragments, recorded)?;
        let is_known = held.get(&row) == Some(&fragments.len());
        if said.is_some() && !may_mix {
            let unexpected = unexpected.range((row, 0)..(row + 1, 0)).map(|(_, source)| *source);
            groups::check_row(outcome, file, &fragments, &triggers, &unexpected.collect())?;
        }
        // What was sent again arrived twice.
        if let Some(said) = &said
            && is_known
            && life.deaths == 0
            && is_whole
            && !may_mix
            && !fragments.iter().any(may_be_forged)
        {
            let row = (&said[row], lacking.contains(&row));
            headers::check_row((outcome, life), row, &fragments, &triggers)?;
        }
    }
    Ok(())
}

/// The fragments of a row must be of one event, and recorded once. Returns the events to which all
/// of them may belong.
fn one_event(
    outcome: &Outcome,
    fragments: &[(usize, u64, Vec<SentFragment>)],
    recorded: &mut Recorded,
) -> Result<BTreeSet<u64>, String> {
    let of = |fragments: &[SentFragment]| -> BTreeSet<u64> {
        fragments.iter().map(|fragment| fragment.trigger).collect()
    };
    let mut common: Option<BTreeSet<u64>> = None;
    for (.., candidates) in fragments {
        let triggers = of(candidates);
        common = Some(match common {
            None => triggers,
            Some(common) => common.intersection(&triggers).copied().collect(),
        });
    }
    let common = common.unwrap_or_default();
    // A source with its own numbering is matched by its own numbers.
    let may_differ = outcome.plan.case.faults.has(Fault::Misnumber);
    if common.is_empty() && !may_differ {
        let triggers: Vec<_> =
            fragments.iter().map(|(source, _, of_source)| (source, of(of_source))).collect();
        return Err(format!("event {}: its fragments are of {triggers:?}", fragments[0].1));
    }
    for (source, key, candidates) in fragments {
        let trigger = common.first().copied().unwrap_or(candidates[0].trigger);
        let count = recorded.fragments[*source].entry(trigger).or_default();
        *count += 1;
        if candidates.len() > 1 && common.len() != 1 {
            recorded.ambiguous.insert((*source, trigger));
        }
        // A packet from before a restart that is repeated after it looks new if its source's own
        // numbers are near those at which all restart.
        let may_seem_new = may_differ && outcome.plan.case.faults.has(Fault::Renumber);
        if *count > 1 && candidates.len() == 1 && !may_seem_new {
            return Err(format!("event {key}: the fragment of s{source} is recorded twice"));
        }
    }
    Ok(common)
}

/// Whether files may contain frames other than those written without an error: the disk reported
/// success falsely, or reported a failure and then could not cut off the surplus.
pub(crate) fn disk_lied(life: &Life) -> bool {
    let has = |fault| life.disk.contains(&fault);
    let is_uncut = has(StoreFault::FinishError) || life.has_crashed;
    let keeps = is_uncut && (has(StoreFault::WriteError) || has(StoreFault::Full));
    life.lied || has(StoreFault::TornWrite) || has(StoreFault::MisdirectedWrite) || keeps
}

/// Entries that describe frames.
const OF_FRAMES: [Entry; 4] = [
    Entry::FragmentsNotExpected,
    Entry::FragmentsBadSender,
    Entry::FragmentsBadTag,
    Entry::BytesCompressionLowered,
];

/// Lists the files and their frames, and each recorder's final statements about itself.
pub fn files(outcome: &Outcome) -> String {
    let mut text = String::new();
    for life in &outcome.lives {
        let last = &life.last;
        for (source, ledger) in last.ledger.sources.iter().enumerate() {
            let counts = ledger.iter().filter(|(_, count)| *count > 0);
            let counts: String = counts.map(|(entry, count)| format!(" {entry} {count}")).collect();
            text += &format!("{} s{source}:{counts}\n", life.folder.display());
        }
        text += &format!("{:?} {:?} {:?}\n", last.state, last.counts, last.warnings);
    }
    for (path, bytes) in outcome.files.all() {
        let length = bytes.len();
        text += &match walk(&bytes) {
            Ok(Some(file)) => {
                let toc = file.toc.as_ref().map(|toc| (toc.flags, toc.frames));
                let frames = file.frames.iter().map(|frame| {
                    format!(
                        " {}@{}+{} ({} rows)",
                        frame.sequence, frame.offset, frame.bytes, frame.rows
                    )
                });
                let frames: String = frames.collect();
                format!("{}: {length} bytes, TOC {toc:?}:{frames}\n", path.display())
            }
            Ok(None) => format!("{}: {length} bytes, zeros\n", path.display()),
            Err(why) => format!("{}: {length} bytes, {why}\n", path.display()),
        };
    }
    text
}
