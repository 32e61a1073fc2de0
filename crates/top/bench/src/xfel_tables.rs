//! The tables of `bench xfel`.

use crate::Bench;
use crate::report::{Section, bytes, met, percent, table};
use crate::search::{median, middle};
use crate::xfel::{ASKED, Figures, OneAndSeveral, REFERENCE, Received};

/// How busy the reference's receiving core was.
const REFERENCE_PERCENT: f64 = 40.0;
/// What several sources may cost more for each byte than one.
const DEARER: f64 = 1.1;

pub(crate) fn sections(bench: &Bench<'_>, figures: &Figures) -> Vec<Section> {
    vec![rates(bench, figures), holes(figures), sources(bench, figures), nodes(bench, figures)]
}

fn rates(bench: &Bench<'_>, figures: &Figures) -> Section {
    let rate = |all: &[Received]| median(all.iter().map(|one| one.bytes_per_second));
    let discarded = match figures.discarded.is_empty() {
        true => f64::INFINITY,
        false => rate(&figures.discarded),
    };
    let share = |one: &Received| match one.direct_write {
        0.0 => one.bytes_per_second / figures.direct_write.min(discarded),
        disk => one.bytes_per_second / disk.min(discarded),
    };
    let mut rows: Vec<(&str, Received)> = Vec::new();
    for (name, all) in [("discarded", &figures.discarded), ("recorded", &figures.recorded)] {
        if !all.is_empty() {
            rows.push((name, middle(all.clone(), |one| one.bytes_per_second)));
        }
    }
    let table = table(
        &rows,
        &[
            ("trains", &|(name, _)| (*name).to_owned()),
            ("each", &|(_, one)| bytes(one.train_bytes as f64)),
            ("number", &|(_, one)| one.sent.to_string()),
            ("sent/s", &|(_, one)| bytes(one.sent_per_second)),
            ("bytes/s", &|(_, one)| bytes(one.bytes_per_second)),
            ("disk", &|(_, one)| match one.direct_write {
                0.0 => String::new(),
                disk => bytes(disk),
            }),
            ("share", &|(_, one)| format!("{:.2}", share(one))),
            ("receive", &|(_, one)| percent(one.receive_percent)),
            ("feeder", &|(_, one)| percent(one.feeder_percent)),
            ("others", &|(_, one)| percent(one.other_percent)),
        ],
    );
    let reached = figures.recorded.first().is_some_and(|_| {
        let shares = figures.recorded.iter().map(share);
        rate(&figures.recorded) >= REFERENCE || median(shares) >= ASKED
    });
    let section = Section::new("The highest rate without loss", table)
        .note(format!(
            "Direct write alone, at first: {}/s. Disk: the mean of direct writes right before and \
             right behind a recording.",
            bytes(figures.direct_write)
        ))
        .note(
            "Bytes/s: of recorded trains from the first packet until all are durable. The memory \
             holds four trains, and the time between the last packet and that is at most the time \
             of two trains: the rate goes on.",
        )
        .note(format!(
            "Share: of the smaller of disk and receive and discard. Asked: {ASKED} of it, \
             or the reference's {}/s (one train in 0.8776 s). {}",
            bytes(REFERENCE),
            met(bench.quick, reached)
        ))
        .note(format!(
            "Percent of one CPU; the reference's receiving core was busy to {REFERENCE_PERCENT} %. \
             Recorded: the Adler-32 of each train was checked."
        ));
    match figures.recorded.is_empty() {
        true => section.note("No rate was recorded without loss."),
        false => section,
    }
}

fn holes(figures: &Figures) -> Section {
    let table = table(
        [&figures.holed],
        &[
            ("trains", &|one| one.sent.to_string()),
            ("each", &|one| bytes(one.train_bytes as f64)),
            ("sent/s", &|one| bytes(one.sent_per_second)),
            ("recorded", &|one| one.recorded.to_string()),
            ("with holes", &|one| one.with_holes.to_string()),
            ("bytes missing", &|one| one.bytes_lost.to_string()),
            ("not as sent", &|one| one.wrong.to_string()),
        ],
    );
    Section::new("A packet of every hundredth train left out", table).note(
        "At half of the highest rate. Not as sent: recorded trains with other bytes or other holes \
         than were sent and left out.",
    )
}

fn sources(bench: &Bench<'_>, figures: &Figures) -> Section {
    let OneAndSeveral { middles, share, is_whole } = &figures.sources;
    let table = table(
        middles,
        &[
            ("sources", &|one| one.sources.to_string()),
            ("each train", &|one| bytes(one.train_bytes as f64)),
            ("sent", &|one| one.sent.to_string()),
            ("recorded", &|one| one.recorded.to_string()),
            ("sent/s", &|one| bytes(one.sent_per_second)),
            ("of the highest", &|_| format!("{share:.2}")),
            ("bytes/s", &|one| bytes(one.bytes_per_second)),
            ("receive", &|one| format!("{:.3} core-s/GB", one.receive_seconds())),
        ],
    );
    let [one, several] = middles;
    let reached = *is_whole && several.receive_seconds() <= DEARER * one.receive_seconds();
    let rate = match *is_whole {
        true => "At the highest rate tried at which neither loses a train in any round.",
        false => "At the lowest rate tried; trains were lost.",
    };
    Section::new("One source, and several whose packets are interleaved", table).note(format!(
        "{rate} In turn, {} rounds; of each the one in the middle. Of the highest: the rate as a \
         share of the highest one without loss, above. Asked: nothing lost, and of the receive \
         thread's time for each byte at most 10 % more. {}",
        bench.repeats(),
        met(bench.quick, reached)
    ))
}

fn nodes(bench: &Bench<'_>, figures: &Figures) -> Section {
    let rows =
        [("the highest rate", &figures.in_turn), ("the reference's times", &figures.reference)];
    let table = table(
        rows,
        &[
            ("two nodes in turn", &|(name, _)| (*name).to_owned()),
            ("feeders", &|(_, one)| one.feeders.to_string()),
            ("trains", &|(_, one)| one.sent.to_string()),
            ("sent/s", &|(_, one)| bytes(one.sent_per_second)),
            ("recorded", &|(_, one)| one.recorded_text()),
            ("with holes", &|(_, one)| one.with_holes.to_string()),
            ("dropped by kernel", &|(_, one)| one.dropped_by_kernel.to_string()),
            ("bytes/s", &|(_, one)| bytes(one.bytes_per_second)),
        ],
    );
    let whole = [&figures.in_turn, &figures.reference].map(|one| met(bench.quick, one.is_whole()));
    Section::new("Two nodes as two processes", table).note(format!(
        "One machine and one disk for both. The reference's times: three feeders, each with a \
         train in 2.4 s. Asked: nothing lost. {}",
        whole.join(" ").trim()
    ))
}
