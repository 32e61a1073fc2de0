//! Trends made while a run is written, and afterwards.

use std::ops::ControlFlow;

use crate::signal;
use catchment_frame::Numbering;
use catchment_storage::{
    Run, Select, StorageError, TrendKind, TrendOptions, WriteOptions, make_trends, replace_trends,
};
use signal::{Made, Signal};

const NS: u64 = 1_000_000_000;

/// Trends of a channel, computed the slow way: (second, mean, min, max, rms, n).
fn model(made: &Made, run: &Run, name: &str, period_s: u64) -> Vec<(u64, [f64; 4], u32)> {
    let channel = run.channel(name).expect("is there");
    let index = run.channels().iter().position(|info| info.name == name).expect("is there");
    let rate = channel.info().rate;
    let mut rows: Vec<(u64, Vec<f64>)> = Vec::new();
    for segment in channel.read(&Select::All).expect("reads") {
        for sample in segment.first_sample..segment.first_sample + segment.samples {
            let period = rate.time_ns(sample) / (period_s * NS);
            let bytes = signal::sample_bytes(index, sample);
            let value = match bytes.len() {
                4 => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
                _ => f64::from(i16::from_le_bytes(bytes.try_into().expect("two bytes"))),
            };
            match rows.last_mut().filter(|(last, _)| *last == period) {
                Some((_, values)) => values.push(value),
                None => rows.push((period, vec![value])),
            }
        }
    }
    assert!(rows[0].0 * period_s * NS <= made.start_ns);
    rows.into_iter()
        .map(|(period, values)| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let rms = (values.iter().map(|v| v * v).sum::<f64>() / n).sqrt();
            let min = values.iter().copied().fold(f64::INFINITY, f64::min);
            let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (period * period_s * NS, [mean, min, max, rms], values.len() as u32)
        })
        .collect()
}

fn check_trends(made: &Made) {
    let run = Run::open(made.path()).expect("opens");
    for (kind, period_s) in [(TrendKind::Second, 1), (TrendKind::Minute, 60)] {
        for (name, _) in signal::CHANNELS {
            let expected = model(made, &run, name, period_s);
            let trend = run.trend(name, kind, &Select::All).expect("reads").expect("is there");
            assert_eq!(trend.start_ns.len(), expected.len(), "{name} {kind:?}");
            for (row, (start_ns, [mean, min, max, rms], n)) in expected.into_iter().enumerate() {
                assert_eq!(trend.start_ns[row], start_ns);
                assert_eq!(trend.n[row], n);
                assert_eq!((trend.min[row], trend.max[row]), (min, max));
                let near =
                    |got: f64, wanted: f64| (got - wanted).abs() <= 1e-9 * wanted.abs() + 1e-12;
                assert!(near(trend.mean[row], mean) && near(trend.rms[row], rms), "{name} {row}");
            }
        }
        let trend_run = run.trend_run(kind).expect("opens").expect("is there");
        assert!(trend_run.closed() && trend_run.ended());
        assert!(trend_run.files().all(|file| file.header.numbering == Numbering::File));
        assert!(catchment_storage::verify(&trend_run, |_| {}).is_intact());
    }
    assert!(run.trend("none", TrendKind::Second, &Select::All).expect("reads").is_none());
}

#[test]
fn trends_written_with_a_run_and_those_made_of_it_later_are_those_of_its_samples() {
    // 1,100 frames of 4 s: seconds of two hours, minutes of one day or two.
    for gap in [false, true] {
        let signal = Signal { gap, frames: 1_100, file_time_s: 2_000, ..Signal::default() };
        let trends = Some(TrendOptions::default());
        let made = signal.write_with(WriteOptions { trends, ..WriteOptions::small() });
        check_trends(&made);
        let folder = made.path().join("trends");
        std::fs::remove_dir_all(folder).expect("deletes");
        let run = Run::open(made.path()).expect("opens");
        assert!(run.trend("fast", TrendKind::Second, &Select::All).expect("reads").is_none());
        let mut frames = 0;
        let report = make_trends(&run, &TrendOptions::default(), |done, _| {
            frames = done;
            ControlFlow::Continue(())
        });
        let report = report.expect("makes");
        assert_eq!((frames, report.late_samples, report.without.len()), (1_100, 0, 0));
        check_trends(&made);
        make_trends(&run, &TrendOptions::default(), go_on).expect_err("they are there already");
    }
}

#[test]
fn trends_that_are_made_anew_take_the_place_of_the_old_ones_only_when_they_are_whole() {
    let signal = Signal { frames: 40, file_time_s: 2_000, ..Signal::default() };
    let made = signal.write();
    let options = TrendOptions::default();
    let trends = made.path().join("trends");
    let inside = || {
        let entries = std::fs::read_dir(&trends).expect("lists").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    // Once with none, once with existing ones, once after an interrupted exchange.
    for round in 0..3 {
        if round == 2 {
            std::fs::create_dir_all(trends.join("old")).expect("makes");
            std::fs::create_dir_all(trends.join("new/second")).expect("makes");
            std::fs::rename(trends.join("second"), trends.join("old/second")).expect("renames");
        }
        let run = Run::open(made.path()).expect("opens");
        let report = replace_trends(&run, &options, go_on).expect("makes");
        assert_eq!(report.late_samples, 0);
        check_trends(&made);
        assert_eq!(inside(), ["minute", "second"]);
    }
    // Every column of a frame in the middle is damaged: the old trends stay.
    let run = Run::open(made.path()).expect("opens");
    let summary = run.channel_frames()[20].summary;
    let path = run.files().next().expect("a file").path.to_owned();
    let mut bytes = std::fs::read(&path).expect("reads");
    let columns = summary.offset + u64::from(summary.header_bytes);
    bytes[columns as usize..(summary.offset + summary.frame_bytes) as usize].fill(0xa5);
    std::fs::write(&path, bytes).expect("writes");
    let before = run.trend("fast", TrendKind::Second, &Select::All).expect("reads");
    let run = Run::open(made.path()).expect("opens");
    let error = replace_trends(&run, &options, go_on).expect_err("a damaged column");
    assert!(error.to_string().contains("move the folder of the trends elsewhere"), "{error}");
    assert_eq!(inside(), ["minute", "second"]);
    let run = Run::open(made.path()).expect("opens");
    assert_eq!(run.trend("fast", TrendKind::Second, &Select::All).expect("reads"), before);
    assert!(before.as_ref().is_some_and(|trend| trend.n.len() == 160));
    // If there are none, some are better: without the damaged frame's four seconds.
    std::fs::remove_dir_all(&trends).expect("deletes");
    let report = make_trends(&run, &options, go_on).expect("makes");
    assert!(report.left_out.iter().all(|line| line.contains("frame ")), "{:?}", report.left_out);
    assert!(report.left_out.iter().any(|line| line.contains("channel fast")));
    let run = Run::open(made.path()).expect("opens");
    let trend = run.trend("fast", TrendKind::Second, &Select::All).expect("reads");
    assert!(trend.is_some_and(|trend| trend.n.len() == 156));
    assert!(run.trend_run(TrendKind::Second).expect("opens").is_some_and(|run| run.lost_data()));
}

#[test]
fn trends_that_are_stopped_leave_nothing_in_the_way_of_the_next_ones() {
    let made = Signal::default().write();
    let run = Run::open(made.path()).expect("opens");
    let stop = |_, _| ControlFlow::Break(());
    let options = TrendOptions::default();
    let error = make_trends(&run, &options, stop).expect_err("was stopped");
    assert!(matches!(error, StorageError::Stopped), "{error}");
    make_trends(&run, &options, go_on).expect("makes");
}

fn go_on(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
