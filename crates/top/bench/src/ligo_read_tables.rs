//! The tables of `bench ligo-read`.

use catchment_console::Table;
use catchment_model::units::Bytes;

use crate::ligo_data::Layout;
use crate::ligo_read::{Figures, NATIVE, READ_OF_60, Read, TOC, Test};
use crate::report::{Section, met};
use crate::search::median;

pub(crate) fn sections(figures: &Figures) -> Vec<Section> {
    let mut sections = vec![
        memo(figures, "cold", |read| &read.cold_s),
        memo(figures, "warm", |read| &read.warm_s),
        contents(figures),
        stored(figures),
        ranges(figures),
        targets(figures),
    ];
    sections.retain(|section| !section.table.rows.is_empty());
    sections
}

/// The memo's table: rows are lengths of frames and channels, columns are formats.
fn memo(figures: &Figures, state: &str, seconds: fn(&Read) -> &[f64]) -> Section {
    let formats = formats(figures);
    let mut head = vec!["MB/s of the channel's samples", "channel"];
    head.extend(&formats);
    head.push("the memo");
    let mut table = Table::new(&head);
    for test in &figures.tests {
        for (name, kind) in READ_OF_60.iter().zip(KINDS) {
            let read =
                |format: &&str| find(test, format, name).map(|read| (read.bytes, seconds(read)));
            if formats.iter().filter_map(read).all(|(_, seconds)| seconds.is_empty()) {
                continue;
            }
            let mut row = vec![title(test), kind.to_owned()];
            row.extend(formats.iter().map(|format| match read(format) {
                Some((bytes, seconds)) if !seconds.is_empty() => rate(bytes, seconds),
                _ => String::new(),
            }));
            row.push(memo_rate(test, kind));
            table.row(row);
        }
    }
    let how = if state == "cold" {
        "The page cache is dropped (/proc/sys/vm/drop_caches) before each read"
    } else {
        "Read twice before it counts, then again and again for 50 ms"
    };
    let repeats = if figures.tests.iter().any(|test| test.reads.iter().any(|r| r.warm_s.len() > 1))
    {
        "median of 3"
    } else {
        "once"
    };
    let scale = 3_600.0 / figures.seconds as f64;
    let coding = &figures.coding;
    let first = format!(
        "{how}; {repeats}, formats in turn. Opening every file is included. {} channels: 6 of 16,384 Hz \
         float32, 18 of 2,048 Hz float32, 36 of 256 Hz int16; {} s of data, {} raw: the memo read 1 to \
         8 hours, {scale:.1} to {:.0} times as much. Test 1: frames of 1 s in files of 1 s; test 2: 60 \
         frames of 1 s in a file; test 3: one long frame in a file.",
        figures.channels,
        figures.seconds,
        Bytes(figures.raw_bytes),
        scale * 8.0
    );
    let second = format!(
        "Catchment with {coding} from Python (`catchment.open(run)[channel].numpy()`) and from Rust; \
         HDF5 by h5py, bitshuffle and LZ4, a chunk per frame; GWF by lalframe, compressed as it does \
         unasked, and not; Parquet by pyarrow, zstd, a list per frame. Each read gave the samples that \
         were written. The memo's disk was a RAID5 of its time.{}",
        versions(figures)
    );
    let title = format!("LIGO-T000108: one channel of 60, {state}");
    Section::new(title, table).note(first).note(second)
}

/// What the memo gives for one of its kinds, in MB/s; nothing where it did not measure.
fn memo_rate(test: &Test, kind: &str) -> String {
    let layout = (test.layout.frames_per_file, test.layout.frame_s);
    let row = MEMO_KILOBYTES.iter().find(|(one, _)| *one == layout).filter(|_| test.memo.is_some());
    let column = KINDS.iter().position(|one| *one == kind);
    let rate = row.zip(column).map(|((_, rates), column)| rates[column] / 1e3);
    rate.map_or_else(String::new, |rate| rate.to_string())
}

/// How long the tables of contents alone take.
fn contents(figures: &Figures) -> Section {
    let formats = formats(figures);
    let mut head = vec!["TOC alone", "state"];
    head.extend(&formats);
    head.push("the memo, cold");
    let mut table = Table::new(&head);
    for test in &figures.tests {
        let files = figures.seconds.div_ceil(test.layout.frame_s * test.layout.frames_per_file);
        let published = MEMO_TOC.iter().find(|(number, ..)| test.memo == Some(*number));
        for state in ["cold", "warm"] {
            let seconds = |read: &Read| {
                if state == "cold" { read.cold_s.clone() } else { read.warm_s.clone() }
            };
            let cells: Vec<String> = formats
                .iter()
                .map(|format| {
                    let read = find(test, format, TOC).filter(|read| !seconds(read).is_empty());
                    read.map_or_else(String::new, |read| {
                        let each = median(seconds(read)) / files as f64;
                        format!("{:.3} ms a file", each * 1e3)
                    })
                })
                .collect();
            if cells.iter().all(String::is_empty) {
                continue;
            }
            let memo = published.filter(|_| state == "cold").map_or_else(String::new, |one| {
                let (_, seconds, files) = one;
                format!("{:.1} ms a file ({seconds} s, {files} files)", seconds * 1e3 / files)
            });
            let first = [format!("{}, {files} files", title(test)), state.to_owned()];
            table.row(first.into_iter().chain(cells).chain([memo]));
        }
    }
    Section::new("Tables of contents", table).note(
        "All files of the folder, in the order of their names: what there is in each is read, and \
         no channel.",
    )
}

fn versions(figures: &Figures) -> String {
    let packages: Vec<&str> = figures.packages.iter().map(|(_, text)| text.as_str()).collect();
    if packages.is_empty() { String::new() } else { format!(" With {}.", packages.join("; ")) }
}

fn stored(figures: &Figures) -> Section {
    let formats = formats(figures);
    let mut head = vec!["written"];
    head.extend(&formats);
    let mut table = Table::new(&head);
    for test in &figures.tests {
        let mut row = vec![title(test)];
        row.extend(formats.iter().map(|format| {
            let stored = test.stored.iter().find(|stored| stored.format == *format);
            stored.map_or_else(String::new, |stored| {
                let percent = stored.file_bytes as f64 * 100.0 / figures.raw_bytes as f64;
                let rate = figures.raw_bytes as f64 / 1e6 / stored.write_s;
                format!("{percent:.0} %, {rate:.0} MB/s")
            })
        }));
        table.row(row);
    }
    Section::new("Sizes, and writing", table).note(format!(
        "Size of all files in percent of the {} raw, and MB/s of raw samples written, to the page cache \
         except by Catchment, which writes to the disk. Parquet's sizes are of floats with their bytes \
         split.",
        Bytes(figures.raw_bytes)
    ))
}

/// Ranges of one channel from files that stay open.
fn ranges(figures: &Figures) -> Section {
    let mut table =
        Table::new(&["codec", "samples", "range", "read", "Catchment", "h5py", "result"]);
    for ranges in &figures.ranges {
        for read in &ranges.reads {
            let [ours, theirs] =
                [&read.ours_s, &read.theirs_s].map(|times| median(times.iter().copied()) * 1e3);
            table.row([
                ranges.coding.clone(),
                String::from(if read.dtype == "<f4" { "float32" } else { "int16" }),
                format!("{} of {} s", read.seconds, ranges.frame_s),
                read.state.clone(),
                format!("{ours:.3} ms"),
                format!("{theirs:.3} ms"),
                met(false, ours <= theirs),
            ]);
        }
    }
    Section::new("One channel, files open", table).note(
        "From Python, channels of 16,384 Hz in one frame, h5py with a chunk per frame and \
                the same codec; run, file and channel stay open, in the page cache. First: what \
                nobody has read since opening, median of 8 channels and all repeats. Again: one \
                channel, for 50 ms, as often as it goes; both keep what they have decoded.",
    )
}

/// What was asked for, and whether it was reached.
fn targets(figures: &Figures) -> Section {
    let mut table = Table::new(&["target", "measured", "asked", "result"]);
    one_of_1000(figures, &mut table);
    against_lalframe(figures, &mut table);
    for cold in &figures.cold_share {
        let shares = cold.shares();
        table.row([
            format!(
                "cold, {}: {} columns of {} against as many direct reads",
                cold.channel,
                cold.columns,
                Bytes(cold.stored_bytes / cold.columns.max(1) as u64)
            ),
            cold.measured(),
            "0.8 of both".into(),
            met(false, shares.at_once.min(shares.one_by_one) >= 0.8),
        ]);
    }
    Section::new("Targets", table)
        .note(
        "One channel of 1,000: ligo-1000 in one frame, from Python, warm, opening included; median, \
         formats in turn; h5py with bitshuffle and LZ4.",
        )
        .note(
        "Against lalframe: MB/s of the channel, warm, from Python, in Catchment's frames of 64 s; \
         lalframe compressed, in frames of 1 s in files of 1 s and of 64 s in files of 64 s.",
        )
        .note(
        "Cold: one file of 1,000 channels; the page cache is dropped (/proc/sys/vm/drop_caches) before \
         each; direct reads: O_DIRECT, of the same columns at the same offsets, into memory touched \
         before, one after the other and several at once. Catchment's time includes finding the columns \
         in the index, which is two reads more, checking and decoding them.",
        )
}

fn one_of_1000(figures: &Figures, table: &mut Table) {
    let Some(test) = &figures.one_of_1000 else { return };
    for read in test.reads.iter().filter(|read| read.format == "Catchment") {
        let Some(other) = find(test, "HDF5", &read.channel) else { continue };
        let [ours, theirs] = [read, other].map(|read| median(read.warm_s.iter().copied()) * 1e3);
        table.row([
            format!("{} of 1,000, {} s frame", read.channel, test.layout.frame_s),
            format!("{ours:.2} ms"),
            format!("below h5py's {theirs:.2} ms"),
            met(false, ours < theirs),
        ]);
    }
}

fn against_lalframe(figures: &Figures, table: &mut Table) {
    let of = |frame_s: u64, per_file: u64| {
        let fits = move |test: &&Test| {
            (test.layout.frame_s, test.layout.frames_per_file) == (frame_s, per_file)
        };
        figures.tests.iter().find(fits)
    };
    let Some(ours) = of(64, 1) else { return };
    for (index, factor) in [(0, 50.0), (2, 100.0)] {
        for theirs in [of(1, 1), Some(ours)].into_iter().flatten() {
            let name = READ_OF_60[index];
            let (Some(read), Some(other)) =
                (find(ours, "Catchment", name), find(theirs, "GWF", name))
            else {
                continue;
            };
            let [read, other] = [read, other].map(|read| speed(read.bytes, &read.warm_s));
            let times = read / other;
            let asked = if theirs.layout.frame_s == 1 {
                format!("{factor:.0} times")
            } else {
                String::new()
            };
            let result = if asked.is_empty() { String::new() } else { met(false, times >= factor) };
            table.row([
                format!(
                    "{} against lalframe's frames of {} s",
                    KINDS[index], theirs.layout.frame_s
                ),
                format!("{times:.0} times ({read:.0} against {other:.1} MB/s)"),
                asked,
                result,
            ]);
        }
    }
}

fn title(test: &Test) -> String {
    let Layout { frame_s, frames_per_file } = test.layout;
    let memo = test.memo.map_or_else(String::new, |number| format!("test {number}: "));
    if frames_per_file > 1 {
        format!("{memo}{frames_per_file} x {frame_s} s")
    } else {
        format!("{memo}{frame_s} s")
    }
}

/// The formats that were measured, in the order in which they were.
fn formats(figures: &Figures) -> Vec<&str> {
    let mut formats = Vec::new();
    for read in figures.tests.iter().flat_map(|test| &test.reads) {
        if !formats.contains(&read.format.as_str()) {
            formats.push(&read.format);
        }
    }
    formats.sort_by_key(|&format| (format == NATIVE, format != "Catchment"));
    formats
}

fn find<'a>(test: &'a Test, format: &str, channel: &str) -> Option<&'a Read> {
    test.reads.iter().find(|read| read.format == format && read.channel == channel)
}

fn speed(bytes: u64, seconds: &[f64]) -> f64 {
    bytes as f64 / 1e6 / median(seconds.iter().copied())
}

fn rate(bytes: u64, seconds: &[f64]) -> String {
    let rate = speed(bytes, seconds);
    if rate < 10.0 { format!("{rate:.2}") } else { format!("{rate:.0}") }
}

/// What the memo gives, in kB/s of each of [`KINDS`], by frames per file and seconds per frame.
const MEMO_KILOBYTES: [((u64, u64), [f64; 3]); 6] = [
    ((1, 1), [1_700.0, 230.0, 23.0]),
    ((60, 1), [3_500.0, 440.0, 61.0]),
    ((1, 30), [19_000.0, 6_400.0, 730.0]),
    ((1, 60), [24_000.0, 8_500.0, 1_600.0]),
    ((1, 120), [26_000.0, 11_000.0, 2_100.0]),
    ((1, 240), [30_000.0, 17_000.0, 3_500.0]),
];
/// The memo's test, seconds and files of reading the tables of contents alone.
const MEMO_TOC: [(u32, f64, f64); 2] = [(1, 39.0, 3_600.0), (2, 1.1, 117.0)];
/// The memo's three channels, in the order of [`READ_OF_60`].
const KINDS: [&str; 3] = ["16 kHz, 4 B", "2 kHz, 4 B", "256 Hz, 2 B"];
