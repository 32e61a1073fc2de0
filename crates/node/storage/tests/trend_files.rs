//! Trends read while they are written: no row twice, none missing, whatever happens.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::signal;
use catchment_disk::FaultControl;
use catchment_fixtures::Random;
use catchment_frame::{ChannelInfo, Dtype, Numbering};
use catchment_model::{RunId, SampleRate};
use catchment_storage::{
    Codings, NewTrends, Run, Select, Trend, TrendFiles, TrendKind, TrendLengths, mend_trends,
    verify,
};
use catchment_trends::{Accumulator, Completed, TrendSeries};
use signal::{Made, Signal};

const SERIES: usize = 3;
const NS: u64 = 1_000_000_000;
/// Error numbers of the system.
const EIO: i32 = 5;
const EACCES: i32 = 13;
/// Not a multiple of any frame's rows.
const START_S: u64 = 1_795_219_213;

/// A row of a model: mean, min, max, rms, n.
type Row = ([f64; 4], u32);

/// A writer, and all rows given to it.
struct Written {
    made: Made,
    files: TrendFiles,
    series: Vec<TrendSeries>,
    seconds: Vec<BTreeMap<u64, Row>>,
    minutes: Vec<BTreeMap<u64, Row>>,
    until: u64,
    faults: FaultControl,
}

fn name(series: usize) -> String {
    format!("series-{series}")
}

fn new_trends(run: &Path, series: usize, faults: &FaultControl) -> NewTrends {
    let info = |series| ChannelInfo {
        unit: "V".into(),
        ..ChannelInfo::new(name(series), Dtype::F64, SampleRate::new(1, 1).expect("a rate"))
    };
    NewTrends {
        continues: false,
        folder: run.join("trends"),
        name: "run".into(),
        run: RunId([7; 16]),
        run_number: 1,
        emulated: false,
        config: String::new(),
        series: (0..series).map(info).collect(),
        codings: Codings::default(),
        lengths: TrendLengths { second: vec![60, 12, 3], minute: vec![8, 4, 1] },
        faults: Some(faults.clone()),
    }
}

impl Written {
    fn begin() -> Self {
        Self::of(SERIES)
    }

    fn of(series: usize) -> Self {
        let made = Signal { frames: 1, ..Signal::default() }.write();
        let faults = FaultControl::default();
        let files = TrendFiles::create(&new_trends(made.path(), series, &faults)).expect("begins");
        Self {
            made,
            files,
            series: vec![TrendSeries::new(); series],
            seconds: vec![BTreeMap::new(); series],
            minutes: vec![BTreeMap::new(); series],
            until: START_S,
            faults,
        }
    }

    fn run(&self) -> Run {
        Run::open(self.made.path()).expect("opens")
    }

    /// Gives every series its values of the seconds before `until`; some have none.
    fn give(&mut self, until: u64) {
        for (index, series) in self.series.iter_mut().enumerate() {
            for second in self.until..until {
                // Series 1 has gaps, series 2 exists only for a while, and so on.
                let kind = index % SERIES;
                let missing = (kind == 1 && second % 7 < 3) || (kind == 2 && second % 100 > 40);
                if !missing {
                    let values = (0..3).map(|n| (second * 31 % 97 + n * index as u64) as f64);
                    series.add_second(second, &values.collect::<Accumulator>());
                }
            }
            let completed = series.take_complete(until);
            keep(index, &completed, &mut self.seconds, &mut self.minutes);
            self.files.add(index, &completed);
        }
        self.until = until;
    }

    fn advance(&mut self, until: u64) {
        self.give(until);
        self.files.advance(until).expect("writes");
    }

    fn finish(&mut self) {
        for (index, series) in self.series.iter_mut().enumerate() {
            let completed = series.finish();
            keep(index, &completed, &mut self.seconds, &mut self.minutes);
            self.files.add(index, &completed);
        }
        self.files.finish(true).expect("ends");
    }

    /// The rows of a run must be the first rows of the model. Returns how many seconds.
    fn check(&self, run: &Run, whole: bool) -> u64 {
        let mut seconds = 0;
        for series in 0..self.series.len() {
            for (kind, model) in
                [(TrendKind::Second, &self.seconds), (TrendKind::Minute, &self.minutes)]
            {
                let rows = read(run, series, kind);
                let model: Vec<_> = model[series].iter().map(|(&at, &row)| (at, row)).collect();
                assert!(!whole || rows.len() == model.len(), "{kind:?}: all of series {series}");
                assert_eq!(rows, model[..rows.len()], "{kind:?} of series {series}");
                if kind == TrendKind::Second {
                    seconds += rows.len() as u64;
                }
            }
        }
        seconds
    }
}

fn keep(
    index: usize,
    completed: &Completed,
    seconds: &mut [BTreeMap<u64, Row>],
    minutes: &mut [BTreeMap<u64, Row>],
) {
    for (rows, model) in [(&completed.seconds, seconds), (&completed.minutes, minutes)] {
        for row in rows {
            let of = row.statistics;
            let before =
                model[index].insert(row.index, ([of.mean, of.min, of.max, of.rms], of.n as u32));
            assert!(before.is_none());
        }
    }
}

fn rows(trend: &Trend, kind: TrendKind) -> Vec<(u64, Row)> {
    let row = |at: usize| {
        let values = [trend.mean[at], trend.min[at], trend.max[at], trend.rms[at]];
        (trend.start_ns[at] / kind.period_ns(), (values, trend.n[at]))
    };
    (0..trend.start_ns.len()).map(row).collect()
}

fn read(run: &Run, series: usize, kind: TrendKind) -> Vec<(u64, Row)> {
    let trend = run.trend(&name(series), kind, &Select::All).expect("reads").expect("is there");
    rows(&trend, kind)
}

#[test]
fn rows_are_read_within_a_tails_frame_of_being_complete_by_whoever_opened_when() {
    let mut written = Written::begin();
    let early = written.run();
    assert_eq!(written.check(&early, false), 0, "there is a trend before there are rows");
    for second in 1..400 {
        written.advance(START_S + second);
        let count = written.check(&early, false);
        assert_eq!(written.check(&written.run(), false), count);
        let due = |(&at, _): (&u64, &Row)| at + 3 <= START_S + second;
        let due = written.seconds.iter().flatten().filter(|&row| due(row)).count();
        assert!(count >= due as u64, "{count} of {due} rows after {second} s");
    }
    // A range of time with arbitrary bounds.
    for (begin, end) in [(3, 7), (50, 130), (391, 500), (200, 395)] {
        let range = (START_S + begin) * NS..(START_S + end) * NS;
        let select = Select::TimeNs(range.clone());
        let trend = early.trend(&name(1), TrendKind::Second, &select).expect("reads");
        let all = read(&early, 1, TrendKind::Second);
        let expected = all.into_iter().filter(|(at, _)| range.contains(&(at * NS)));
        assert_eq!(
            rows(&trend.expect("is there"), TrendKind::Second),
            expected.collect::<Vec<_>>()
        );
    }
    written.finish();
    written.check(&early, true);
    written.check(&written.run(), true);
    for kind in [TrendKind::Second, TrendKind::Minute] {
        let run = early.trend_run(kind).expect("opens").expect("is there");
        assert!(run.closed() && run.ended() && verify(&run, |_| {}).is_intact());
        let whole = if kind == TrendKind::Second { 60 } else { 8 };
        let length = whole * kind.period_ns();
        let frames: Vec<_> = run.channel_frames().iter().map(|f| f.summary.info).collect();
        assert!(frames.is_sorted_by(|a, b| a.time_last_ns <= b.time_first_ns));
        let cell = |time_ns: u64| time_ns / length;
        assert!(frames.iter().all(|f| cell(f.time_first_ns) == cell(f.time_last_ns - 1)));
        assert!(frames.windows(2).all(|f| cell(f[0].time_first_ns) < cell(f[1].time_first_ns)));
        let inside = std::fs::read_dir(run.path()).expect("lists");
        assert!(inside.flatten().all(|entry| entry.path().is_file()), "no tails are left");
    }
}

#[test]
fn frames_of_so_many_series_that_they_are_joined_in_batches_have_every_row() {
    // Half a megabyte is read of a tail at a time: 218 series of 60 rows.
    let mut written = Written::of(250);
    for second in (1..130).step_by(5) {
        written.advance(START_S + second);
    }
    written.check(&written.run(), false);
    written.finish();
    let seconds = written.check(&written.run(), true);
    assert!(seconds > 250 * 60, "{seconds} rows");
    let run = written.run().trend_run(TrendKind::Second).expect("opens").expect("is there");
    assert!(verify(&run, |_| {}).is_intact());
}

#[test]
fn a_writer_that_is_killed_leaves_its_rows_up_to_the_last_tails_frame() {
    for seconds in (1..260).step_by(43) {
        let mut written = Written::begin();
        for second in 1..=seconds {
            written.advance(START_S + second);
        }
        let before = written.check(&written.run(), false);
        // Dropping it does nothing.
        let Written { made, files, .. } = written;
        drop(files);
        let run = Run::open(made.path()).expect("opens");
        let after: usize = (0..SERIES).map(|one| read(&run, one, TrendKind::Second).len()).sum();
        assert_eq!(after as u64, before);
        // The frame in progress when it was killed is after the last frame.
        let tail = made.path().join("trends/second/tail-3");
        for entry in std::fs::read_dir(tail).expect("lists").flatten() {
            let mut bytes = std::fs::read(entry.path()).expect("reads");
            bytes.extend([0; 8_192]);
            bytes.extend([1; 5_000]);
            std::fs::write(entry.path(), bytes).expect("writes");
        }
        let run = Run::open(made.path()).expect("opens");
        let left: Vec<_> = (0..SERIES)
            .flat_map(|one| {
                [TrendKind::Second, TrendKind::Minute].map(|kind| read(&run, one, kind))
            })
            .collect();
        let after: usize = left.iter().step_by(2).map(Vec::len).sum();
        assert_eq!(after as u64, before);
        // After the repair, the runs of trends contain everything themselves.
        let mends = mend_trends(made.path()).expect("mends");
        assert_eq!(mends.len(), 2);
        assert!(mends.iter().all(|mend| mend.unreadable.is_empty()), "{mends:?}");
        let run = Run::open(made.path()).expect("opens");
        let mended: Vec<_> = (0..SERIES)
            .flat_map(|one| {
                [TrendKind::Second, TrendKind::Minute].map(|kind| read(&run, one, kind))
            })
            .collect();
        assert_eq!(mended, left);
        for kind in [TrendKind::Second, TrendKind::Minute] {
            let trend = run.trend_run(kind).expect("opens").expect("is there");
            assert!(trend.closed() && verify(&trend, |_| {}).is_intact());
            assert!(trend.files().all(|file| file.header.numbering == Numbering::File));
            let mut frames = trend.channel_frames().iter();
            assert!(frames.all(|frame| frame.summary.info.sequence == frame.index as u64));
            assert_eq!(trend.frames_missing(), 0);
            let inside = std::fs::read_dir(trend.path()).expect("lists");
            assert!(inside.flatten().all(|entry| entry.path().is_file()), "no tails are left");
        }
        assert_eq!(mend_trends(made.path()).expect("mends"), []);
    }
}

#[test]
fn rows_of_tails_are_mended_behind_files_that_were_never_begun_or_cannot_be_read() {
    for (seconds, bytes) in [(20, Vec::new()), (130, Vec::new()), (130, vec![7; 8_192])] {
        let mut written = Written::begin();
        for second in 1..=seconds {
            written.advance(START_S + second);
        }
        let Written { made, files, .. } = written;
        drop(files);
        let before = read(&Run::open(made.path()).expect("opens"), 0, TrendKind::Second);
        let folder = made.path().join("trends/second");
        let path = |index: u32| folder.join(format!("run-second-{index:05}.catch"));
        let next = (0..9).find(|&index| !path(index).exists()).expect("few files");
        std::fs::write(path(next), &bytes).expect("writes");
        let mends = mend_trends(made.path()).expect("mends");
        assert!(mends.iter().all(|mend| mend.unreadable.is_empty()), "{mends:?}");
        assert!(path(next + 1).exists() && !folder.join("tail-3").exists());
        assert_eq!(read(&Run::open(made.path()).expect("opens"), 0, TrendKind::Second), before);
    }
}

#[test]
fn rows_of_tails_are_mended_where_no_long_file_can_be_read() {
    let mut written = Written::begin();
    for second in 1..=20 {
        written.advance(START_S + second);
    }
    let Written { made, files, .. } = written;
    drop(files);
    let before = read(&Run::open(made.path()).expect("opens"), 0, TrendKind::Second);
    let folder = made.path().join("trends/second");
    std::fs::write(folder.join("run-second-00000.catch"), [7; 8_192]).expect("writes");
    mend_trends(made.path()).expect("mends");
    assert!(folder.join("run-second-00001.catch").exists());
    assert_eq!(read(&Run::open(made.path()).expect("opens"), 0, TrendKind::Second), before);
}

#[test]
fn a_reader_at_any_moment_gets_every_row_once() {
    let mut written = Written::begin();
    let (done, told) = (AtomicBool::new(false), AtomicU64::new(0));
    let path = written.made.path().to_owned();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (path, done, told) = (&path, &done, &told);
                scope.spawn(move || {
                    let early = Run::open(path).expect("opens");
                    let mut looks = 0;
                    loop {
                        let last = done.load(SeqCst);
                        let least = told.load(SeqCst);
                        let opened = (reader == 0).then(|| Run::open(path).expect("opens"));
                        let rows = read(opened.as_ref().unwrap_or(&early), 0, TrendKind::Second);
                        // Series 0 has every second.
                        let seconds = START_S..START_S + rows.len() as u64;
                        assert!(rows.iter().map(|(at, _)| *at).eq(seconds));
                        assert!(rows.len() as u64 >= least, "{} of {least}", rows.len());
                        looks += 1;
                        if last {
                            break looks;
                        }
                    }
                })
            })
            .collect();
        for second in 1..500 {
            written.advance(START_S + second);
            told.store(second.saturating_sub(3), SeqCst);
        }
        written.finish();
        told.store(499, SeqCst);
        done.store(true, SeqCst);
        for reader in readers {
            assert!(reader.join().expect("reads") > 0);
        }
    });
}

#[test]
fn a_disk_that_refuses_for_a_while_costs_nothing_and_for_long_the_oldest_rows_countedly() {
    type Fault = fn(&FaultControl, bool);
    let faults: [Fault; 3] = [
        |control, on| control.set_space(on.then_some(0)),
        |control, on| control.refuse_opens(on.then_some(EACCES)),
        |control, on| control.fail_finishes(on.then_some(EIO)),
    ];
    for (fault, length) in faults.into_iter().flat_map(|fault| [(fault, 100), (fault, 900)]) {
        let mut written = Written::begin();
        let early = written.run();
        for second in 1..100 {
            written.advance(START_S + second);
        }
        fault(&written.faults, true);
        let mut refused = 0;
        for second in 100..100 + length {
            written.give(START_S + second);
            refused += u64::from(written.files.advance(START_S + second).is_err());
            if second % 50 == 0 {
                // Existing rows can be read all the time.
                assert!(read(&early, 0, TrendKind::Second).len() >= 96);
            }
        }
        assert!(refused > 0);
        fault(&written.faults, false);
        // At most one postponed attempt is refused.
        for second in 100 + length..400 + length {
            written.advance(START_S + second);
        }
        written.finish();
        let lost = written.files.rows_lost();
        assert!(length > 100 || lost == 0, "{lost} rows lost");
        for run in [&early, &written.run()] {
            let mut read_rows = 0;
            for series in 0..SERIES {
                for (kind, model) in
                    [(TrendKind::Second, &written.seconds), (TrendKind::Minute, &written.minutes)]
                {
                    let rows = read(run, series, kind);
                    assert!(rows.is_sorted_by_key(|(at, _)| *at));
                    assert!(rows.iter().all(|(at, row)| model[series].get(at) == Some(row)));
                    read_rows += rows.len();
                }
            }
            let all = |model: &Vec<BTreeMap<u64, Row>>| model.iter().map(BTreeMap::len).sum();
            let all: [usize; 2] = [all(&written.seconds), all(&written.minutes)];
            assert_eq!(read_rows as u64 + lost, all.iter().sum::<usize>() as u64);
        }
    }
}

#[test]
fn whatever_happens_rows_are_read_once_or_counted_as_lost() {
    for seed in 1..=5_u64 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut written = Written::begin();
        let early = written.run();
        let mut refused = false;
        for _ in 0..120 {
            let step = match random.below(12) {
                0 => random.below(400),
                1 => 0,
                _ => random.below(9),
            };
            match random.below(15) {
                0 => written.faults.set_space(Some(random.below(200_000))),
                1 => written.faults.refuse_opens(Some(EIO)),
                2 => written.faults.fail_finishes(Some(EIO)),
                3..6 => {
                    written.faults.set_space(None);
                    written.faults.refuse_opens(None);
                    written.faults.fail_finishes(None);
                }
                _ => {}
            }
            written.give(written.until + step);
            refused |= written.files.advance(written.until).is_err();
            if random.below(5) == 0 {
                let rows = read(&early, 0, TrendKind::Second);
                assert!(rows.iter().all(|(at, row)| written.seconds[0].get(at) == Some(row)));
            }
        }
        written.faults.set_space(None);
        written.faults.refuse_opens(None);
        written.faults.fail_finishes(None);
        written.finish();
        let run = written.run();
        let mut there = 0;
        for series in 0..SERIES {
            for (kind, model) in
                [(TrendKind::Second, &written.seconds), (TrendKind::Minute, &written.minutes)]
            {
                let rows = read(&run, series, kind);
                assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
                assert!(rows.iter().all(|(at, row)| model[series].get(at) == Some(row)));
                there += model[series].len() as u64 - rows.len() as u64;
            }
        }
        assert_eq!(there, written.files.rows_lost());
        assert!(refused || there == 0);
    }
}
