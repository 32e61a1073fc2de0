//! What counts, what does not, and what is refused.

use crate::common::{assert_near, model_of, rows_near};
use catchment_frame::{ChannelInfo, Dtype};
use catchment_model::SampleRate;
use catchment_trends::{
    Accumulator, CounterTrend, Row, Span, Statistic, TrendChannel, TrendError, TrendSeries, spans,
};
use proptest::prelude::*;

const KILOHERTZ: u64 = 1_000;

fn channel(dtype: Dtype) -> TrendChannel {
    TrendChannel::new(dtype, &[], rate(KILOHERTZ, 1)).expect("numbers")
}

fn rate(num: u64, den: u64) -> SampleRate {
    SampleRate::new(num, den).expect("a rate")
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The one second that all samples are in.
fn second_of(channel: &TrendChannel, bytes: &[u8]) -> Accumulator {
    let partial = channel.partial(5 * KILOHERTZ, &[], bytes).expect("fits");
    let [(5, accumulator)] = partial.seconds() else { panic!("one second: {partial:?}") };
    *accumulator
}

#[test]
fn nan_and_infinity_take_no_part_and_are_counted() {
    for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
        for at in 0..100 {
            let mut values: Vec<f32> = (0..100).map(|n| n as f32 - 30.0).collect();
            values[at] = broken;
            let is = second_of(&channel(Dtype::F32), &floats(&values)).statistics();
            assert_eq!((is.n, is.not_finite, is.saturated), (99, 1, 0));
            assert_eq!(is.min, if at == 0 { -29.0 } else { -30.0 });
            assert_eq!(is.max, if at == 99 { 68.0 } else { 69.0 });
            let wide: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
            rows_near(&[Row { index: 5, statistics: is }], &[model_of(5, &wide)], 1e-3);
        }
    }
}

#[test]
fn a_second_of_nothing_but_nan_has_a_row_that_says_so() {
    let partial = channel(Dtype::F32).partial(0, &[], &floats(&[f32::NAN; 1_000])).expect("fits");
    let mut series = TrendSeries::new();
    series.add(&partial);
    let rows = series.finish();
    for row in rows.seconds.iter().chain(&rows.minutes) {
        let is = row.statistics;
        assert!(is.mean.is_nan() && is.min.is_nan() && is.max.is_nan() && is.rms.is_nan());
        assert_eq!((row.index, is.n, is.not_finite), (0, 0, 1_000));
    }
    assert_eq!((rows.seconds.len(), rows.minutes.len()), (1, 1));
}

#[test]
fn a_second_with_one_nan_does_not_spoil_its_minute() {
    let mut values = [1.0; 2_000];
    values[7] = f32::NAN;
    let mut series = TrendSeries::new();
    series.add(&channel(Dtype::F32).partial(0, &[], &floats(&values)).expect("fits"));
    let minute = series.finish().minutes[0].statistics;
    assert_eq!((minute.mean, minute.rms, minute.n, minute.not_finite), (1.0, 1.0, 1_999, 1));
}

#[test]
fn saturated_samples_take_part_and_are_counted() {
    let samples: Vec<u8> =
        [i16::MIN, 0, i16::MAX, i16::MAX, 5].iter().flat_map(|raw| raw.to_le_bytes()).collect();
    let is = second_of(&channel(Dtype::I16), &samples).statistics();
    assert_eq!((is.n, is.saturated), (5, 3));
    assert_eq!((is.min, is.max), (-32_768.0, 32_767.0));
    assert_near(is.mean, (-32_768.0 + 2.0 * 32_767.0 + 5.0) / 5.0, 1e-11);

    // Of an unsigned type 0 is what an idle counter says.
    let is = second_of(&channel(Dtype::U8), &[0, 0, 255, 7]).statistics();
    assert_eq!(is.saturated, 1);
}

#[test]
fn limits_are_those_of_the_raw_samples() {
    // In volts, and upside down.
    let adc = channel(Dtype::I16).scaled(-0.001, 1.0).expect("finite");
    let raw: Vec<u8> =
        [32_767_i16, 32_766, -32_768, 0].iter().flat_map(|raw| raw.to_le_bytes()).collect();
    let is = second_of(&adc, &raw).statistics();
    assert_eq!(is.saturated, 2);
    assert_near(is.min, -31.767, 1e-14);
    assert_near(is.max, 33.768, 1e-14);
}

#[test]
fn every_type_has_its_limits() {
    let ends: [(Dtype, Vec<u8>, Vec<u8>); 8] = [
        (Dtype::U8, vec![0xff], vec![0]),
        (Dtype::I8, vec![0x7f], vec![0x80]),
        (Dtype::U16, u16::MAX.to_le_bytes().into(), vec![0; 2]),
        (Dtype::I16, i16::MAX.to_le_bytes().into(), i16::MIN.to_le_bytes().into()),
        (Dtype::U32, u32::MAX.to_le_bytes().into(), vec![0; 4]),
        (Dtype::I32, i32::MAX.to_le_bytes().into(), i32::MIN.to_le_bytes().into()),
        (Dtype::U64, u64::MAX.to_le_bytes().into(), vec![0; 8]),
        (Dtype::I64, i64::MAX.to_le_bytes().into(), i64::MIN.to_le_bytes().into()),
    ];
    for (dtype, highest, lowest) in ends {
        let channel = channel(dtype);
        assert_eq!(second_of(&channel, &highest).statistics().saturated, 1, "{dtype:?}");
        let signed = dtype.name().starts_with('i');
        assert_eq!(
            second_of(&channel, &lowest).statistics().saturated,
            u64::from(signed),
            "{dtype:?}"
        );
        assert_eq!(
            second_of(&channel, &vec![1; lowest.len()]).statistics().saturated,
            0,
            "{dtype:?}"
        );
    }
}

#[test]
fn one_sample_per_minute_gives_one_row_each() {
    let slow = TrendChannel::new(Dtype::F32, &[], rate(1, 60)).expect("numbers");
    let mut series = TrendSeries::new();
    series.add(&slow.partial(1_000, &[], &floats(&[1.0, -2.0, 3.0])).expect("fits"));
    let rows = series.take_complete(60_000 + 120);
    assert_eq!(rows.seconds.iter().map(|row| row.index).collect::<Vec<_>>(), [60_000, 60_060]);
    assert_eq!(rows.minutes.iter().map(|row| row.index).collect::<Vec<_>>(), [1_000, 1_001]);
    let rows = series.finish();
    assert_eq!(rows.seconds[0].index, 60_120);
    let is = rows.minutes[0].statistics;
    assert_eq!((is.mean, is.min, is.max, is.rms, is.n), (3.0, 3.0, 3.0, 3.0, 1));
}

#[test]
fn seconds_without_a_sample_have_no_row() {
    let bytes = floats(&vec![1.0; 2_500]);
    let gaps = [Span { row: 500, sample: 4_100 }, Span { row: 1_500, sample: 5_200 }];
    let partial = channel(Dtype::F32).partial(0, &gaps, &bytes).expect("fits");
    let counts: Vec<(u64, u64)> = partial.seconds().iter().map(|(at, of)| (*at, of.n())).collect();
    // 0..500, 4,100..5,100, 5,200..6,200.
    assert_eq!(counts, [(0, 500), (4, 900), (5, 100 + 800), (6, 200)]);
}

#[test]
fn minutes_are_complete_when_their_last_second_is() {
    let mut series = TrendSeries::new();
    let one = |value: f64| -> Accumulator { [value].into_iter().collect() };
    for second in 30..150 {
        series.add_second(second, &one(second as f64));
    }
    let rows = series.take_complete(59);
    assert_eq!((rows.seconds.len(), rows.minutes.len()), (29, 0));
    let rows = series.take_complete(60);
    assert_eq!((rows.seconds.len(), rows.minutes.len()), (1, 1));
    assert_eq!((rows.minutes[0].index, rows.minutes[0].statistics.n), (0, 30));
    let rows = series.take_complete(149);
    assert_eq!((rows.seconds.len(), rows.minutes.len()), (89, 1));
    assert_eq!(rows.minutes[0].statistics.mean, 89.5);
    let rows = series.finish();
    assert_eq!((rows.seconds.len(), rows.minutes.len()), (1, 1));
    assert_eq!((rows.minutes[0].index, rows.minutes[0].statistics.n), (2, 30));
    assert_eq!(series.late_samples(), 0);
}

#[test]
fn samples_of_seconds_that_were_given_out_are_counted_as_late() {
    let mut series = TrendSeries::new();
    let channel = channel(Dtype::F32);
    series.add(&channel.partial(5_500, &[], &floats(&[1.0; 500])).expect("fits"));
    assert_eq!(series.take_complete(6).seconds.len(), 1);
    series.add(&channel.partial(5_000, &[], &floats(&[f32::NAN; 1_200])).expect("fits"));
    assert_eq!(series.late_samples(), 1_000);
    let rows = series.finish();
    assert_eq!((rows.seconds[0].index, rows.seconds[0].statistics.not_finite), (6, 200));
    assert_eq!(rows.minutes[0].statistics.n, 500);
}

#[test]
fn the_schema_says_scale_and_offset() {
    let mut info = ChannelInfo::new("X:CH", Dtype::I16, rate(KILOHERTZ, 1));
    info.scale = Some(2.0);
    let is = second_of(&TrendChannel::of(&info).expect("numbers"), &[1, 0, 3, 0]).statistics();
    assert_eq!((is.min, is.max), (2.0, 6.0));
    info.offset = Some(-1.0);
    let is = second_of(&TrendChannel::of(&info).expect("numbers"), &[1, 0, 3, 0]).statistics();
    assert_eq!((is.min, is.max), (1.0, 5.0));
    info.shape = vec![2];
    let is =
        second_of(&TrendChannel::of(&info).expect("pairs"), &[1, 0, 3, 0, 5, 0, 0, 0]).statistics();
    assert_eq!((is.min, is.max, is.mean, is.n), (-1.0, 9.0, 3.5, 4));
}

#[test]
fn what_has_no_trend_is_refused() {
    let hz = rate(10, 1);
    for dtype in [Dtype::Opaque, Dtype::Bits, Dtype::Record, Dtype::Unknown(99)] {
        let refused = TrendChannel::new(dtype, &[], hz);
        assert_eq!(refused.err(), Some(TrendError::Dtype { dtype }));
    }
    assert!(TrendChannel::new(Dtype::F32, &[1, 1], hz).is_ok());
    assert!(TrendChannel::new(Dtype::F32, &[640, 480], hz).is_ok());
    for shape in [vec![0], vec![3, 0], vec![1 << 40, 1 << 40]] {
        let refused = TrendChannel::new(Dtype::F32, &shape, hz);
        assert_eq!(refused.err(), Some(TrendError::Shape { shape }));
    }
    assert!(channel(Dtype::F32).scaled(f64::NAN, 0.0).is_err());
    assert!(channel(Dtype::F32).scaled(1.0, f64::INFINITY).is_err());
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let channel = channel(Dtype::F32);
    let bytes = floats(&[1.0; 10]);
    assert!(matches!(channel.partial(0, &[], &bytes[1..]), Err(TrendError::Bytes { .. })));
    let span = |row, sample| Span { row, sample };
    for bad in [
        vec![span(10, 100)],
        vec![span(u64::MAX, 100)],
        vec![span(5, 99), span(5, 200)],
        vec![span(5, 200), span(7, 201)],
        vec![span(5, 4)],
        vec![span(5, 200), span(4, 300)],
    ] {
        let refused = channel.partial(0, &bad, &bytes);
        assert!(matches!(refused, Err(TrendError::Span { .. })), "{bad:?}: {refused:?}");
    }
    assert!(channel.partial(0, &[span(0, 7), span(5, 12), span(6, 20)], &bytes).is_ok());
    assert!(channel.partial(8, &[span(0, 7)], &bytes).is_err());
    for far in [u64::MAX, u64::MAX - 9, u64::MAX / 1_000] {
        assert!(matches!(channel.partial(far, &[], &bytes), Err(TrendError::Time { .. })));
        let there = channel.partial(0, &[span(1, far)], &bytes);
        assert!(matches!(there, Err(TrendError::Time { .. })));
    }
    assert!(channel.partial(0, &[], &[]).expect("nothing fits").seconds().is_empty());
}

#[test]
fn rows_become_channels_with_their_gaps() {
    let statistics = |n: u64| {
        let values: Vec<f64> = (0..n).map(|n| n as f64).collect();
        values.into_iter().collect::<Accumulator>().statistics()
    };
    let row = |index, n| Row { index, statistics: statistics(n) };
    let rows = [row(100, 1), row(101, 2), row(105, 3), row(106, 4), row(200, 5)];
    let expected = [Span { row: 2, sample: 105 }, Span { row: 4, sample: 200 }];
    assert_eq!(spans(&rows), expected);
    assert!(spans(&rows[..2]).is_empty() && spans(&[]).is_empty());
    let names = Statistic::ALL.map(Statistic::suffix);
    assert_eq!(names, ["mean", "min", "max", "rms", "n"]);
    for statistic in Statistic::ALL {
        let mut bytes = Vec::new();
        statistic.append(&rows, &mut bytes);
        let bits = statistic.dtype().bits().expect("numbers");
        assert_eq!(bytes.len() as u64, rows.len() as u64 * bits / 8);
        match statistic {
            Statistic::N => assert_eq!(bytes[16..], 5_u32.to_le_bytes()),
            Statistic::Max => assert_eq!(bytes[32..], 4.0_f64.to_le_bytes()),
            Statistic::Mean => assert_eq!(bytes[32..], 2.0_f64.to_le_bytes()),
            Statistic::Min => assert_eq!(bytes[32..], 0.0_f64.to_le_bytes()),
            Statistic::Rms => assert_eq!(bytes[32..], 6.0_f64.sqrt().to_le_bytes()),
        }
    }
    let mut many = rows[0];
    many.statistics.n = 1 << 40;
    let mut bytes = Vec::new();
    Statistic::N.append(&[many], &mut bytes);
    assert_eq!(bytes, u32::MAX.to_le_bytes());
}

#[test]
fn magnitudes_are_the_trend_of_complex_numbers() {
    let parts: [f32; 6] = [3.0, 4.0, 0.0, -2.0, f32::NAN, 1.0];
    let is = second_of(&channel(Dtype::C64), &floats(&parts)).statistics();
    assert_eq!((is.n, is.not_finite, is.min, is.max, is.mean), (2, 1, 2.0, 5.0, 3.5));
    let scaled = channel(Dtype::C64).scaled(2.0, 1.0).expect("finite");
    let is = second_of(&scaled, &floats(&parts[2..4])).statistics();
    assert_near(is.mean, (1.0_f64 + 16.0).sqrt(), 1e-15);
}

#[test]
fn squares_beyond_float64_give_an_infinite_rms_and_a_right_mean() {
    let bytes: Vec<u8> =
        [1e200, 3e200].iter().flat_map(|value: &f64| value.to_le_bytes()).collect();
    let is = second_of(&channel(Dtype::F64), &bytes).statistics();
    assert_eq!((is.n, is.mean, is.min, is.max, is.rms), (2, 2e200, 1e200, 3e200, f64::INFINITY));
}

#[test]
fn counters_are_followed_at_any_pace() {
    let mut trend = CounterTrend::new();
    let at = |ms: u64| ms * 1_000_000;
    for (ms, value) in [(100, 1.0), (600, 3.0), (999, 5.0), (3_000, 10.0), (61_000, -1.0)] {
        trend.push(at(ms), value);
    }
    let rows = trend.take_complete(61);
    assert_eq!(rows.seconds.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 3]);
    let is = rows.seconds[0].statistics;
    assert_eq!((is.mean, is.min, is.max, is.n), (3.0, 1.0, 5.0, 3));
    assert_eq!(rows.minutes[0].statistics.n, 4);
    trend.push(at(60_500), 7.0);
    assert_eq!(trend.late_samples(), 0);
    trend.push(at(61_500), 7.0);
    let rows = trend.finish();
    assert_eq!((rows.seconds.len(), rows.seconds[0].statistics.mean), (1, 3.0));
    assert_eq!((rows.minutes[0].index, rows.minutes[0].statistics.n), (1, 2));
    assert_eq!(trend.late_samples(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_order_of_merges_makes_no_difference(
        values in prop::collection::vec(-1e9..1e9f64, 1..400),
        pieces in 1usize..20,
    ) {
        let pieces: Vec<Accumulator> = values
            .chunks(values.len().div_ceil(pieces))
            .map(|piece| piece.iter().copied().collect())
            .collect();
        let merged = |pieces: &mut dyn Iterator<Item = &Accumulator>| {
            let mut all = Accumulator::EMPTY;
            pieces.for_each(|piece| all.merge(piece));
            Row { index: 0, statistics: all.statistics() }
        };
        let forward = merged(&mut pieces.iter());
        let backward = merged(&mut pieces.iter().rev());
        let at_once: Accumulator = values.iter().copied().collect();
        rows_near(&[backward], &[forward], 1e-3);
        rows_near(&[Row { index: 0, statistics: at_once.statistics() }], &[forward], 1e-3);
    }

    #[test]
    fn mean_and_rms_lie_where_they_must(values in prop::collection::vec(-10.0..10.0f64, 1..50)) {
        let is = values.into_iter().collect::<Accumulator>().statistics();
        prop_assert!(is.min <= is.mean && is.mean <= is.max);
        prop_assert!(is.mean.abs() <= is.rms && is.rms <= is.min.abs().max(is.max.abs()));
    }
}
