//! Written data are read back: any channels, any samples, through the FrTOC and by walking.

use crate::common;
use crate::common::{Part, some_file};
use catchment_fixtures::CountedReads;
use catchment_interop::gwf::{
    ChannelKind, Compress, FrameStart, GwfError, GwfFile, GwfWriter, History, Index, OpenOptions,
    Series, SeriesKind, VectorType, WriteOptions,
};
use proptest::prelude::*;

/// Type, kind, bytes, comment and unit, start.
type Drawn = (VectorType, SeriesKind, Vec<u8>, (String, String), f64);

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let kinds = prop::sample::select(VectorType::ALL.map(|(kind, _)| kind).to_vec());
    let series = prop_oneof![
        Just(SeriesKind::Proc),
        (-10f32..10.0, 0.1f32..2.0).prop_map(|(bias, slope)| SeriesKind::Adc { bias, slope }),
    ];
    // Bytes that compress, and bytes that do not.
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..600),
        prop::collection::vec(0u8..3, 0..3_000),
    ];
    let texts = ("[ -~]{0,20}", "[a-z^ ]{0,8}");
    let part = (kinds, series, bytes, texts, 0.0f64..0.5);
    prop::collection::vec(part, 0..8).prop_map(|parts| {
        let make = |(index, part): (usize, Drawn)| {
            let (kind, series, mut bytes, (comment, unit), start_s) = part;
            bytes.truncate(bytes.len() / kind.bytes() * kind.bytes());
            let mut part = Part::new(&format!("X1:{}", (index * 5) % 8), kind, bytes);
            (part.kind, part.comment, part.unit, part.start_s) = (series, comment, unit, start_s);
            part
        };
        parts.into_iter().enumerate().map(make).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_was_written_is_read(
        frames in prop::collection::vec(parts(), 1..5),
        level in 0u32..10,
        ignore_toc: bool,
    ) {
        let compress = if level == 0 { Compress::Raw } else { Compress::Zlib { level } };
        let bytes = common::file(compress, &frames);
        let file = GwfFile::open_with(&bytes, OpenOptions { ignore_toc }).unwrap();
        file.verify().unwrap();
        assert_holds(&file, &frames);
    }
}

/// Asserts that `file` contains `frames` and nothing else.
fn assert_holds<R: catchment_interop::ReadAt>(file: &GwfFile<R>, frames: &[Vec<Part>]) {
    assert_eq!(file.frames().len(), frames.len());
    let mut samples = Vec::new();
    let mut count = 0;
    for (index, parts) in frames.iter().enumerate() {
        let frame = file.frames()[index];
        assert_eq!((frame.gps_s, frame.number), (1_400_000_000 + index as u32, index as u32));
        for part in parts {
            let kind = match part.kind {
                SeriesKind::Proc => ChannelKind::Proc,
                SeriesKind::Adc { .. } => ChannelKind::Adc,
            };
            let mut channels = file.channels().iter();
            let channel =
                channels.position(|one| one.name == part.name && one.kind == kind).unwrap();
            assert!(file.channels()[channel].is_in(index));
            let info = file.read(channel, index, &mut samples).unwrap().unwrap();
            assert_eq!(samples, part.samples);
            assert_eq!(info.kind, part.samples_kind);
            assert_eq!((info.dx_s, info.start_s), (part.dx_s, part.start_s));
            // The unit is in the vector, too.
            assert_eq!((&info.unit, &info.comment), (&part.unit, &part.comment));
            let calibration = match part.kind {
                SeriesKind::Proc => None,
                SeriesKind::Adc { bias, slope } => Some((bias, slope)),
            };
            assert_eq!(info.calibration, calibration);
            assert_eq!(file.info(channel, index).unwrap(), Some(info));
            count += 1;
        }
    }
    let frames_with = |channel: &catchment_interop::gwf::Channel| {
        (0..frames.len()).filter(|frame| channel.is_in(*frame)).count()
    };
    assert_eq!(file.channels().iter().map(frames_with).sum::<usize>(), count);
}

#[test]
fn reading_a_channel_reads_its_structures_and_nothing_else() {
    let frame = |frame: u8| -> Vec<Part> {
        let make = |channel: u8| {
            let bytes = (0..40_000u32).map(|i| (i * 7 + i / 251) as u8 ^ channel ^ frame).collect();
            Part::new(&format!("X1:{channel:02}"), VectorType::F32, bytes)
        };
        (0..60).map(make).collect()
    };
    let bytes = common::file(Compress::Raw, &[frame(0), frame(1)]);
    let source = CountedReads::new(&bytes);
    let file = GwfFile::open(&source).unwrap();
    let (reads, read) = source.take();
    assert!(reads <= 5 && read < 20_000, "opening took {reads} reads of {read} bytes");

    let mut samples = Vec::new();
    for (name, frame_index) in [("X1:00", 0), ("X1:17", 1), ("X1:59", 0), ("X1:59", 1)] {
        let channel = file.find(name).unwrap();
        file.read(channel, frame_index, &mut samples).unwrap().unwrap();
        let index: usize = name[3..].parse().unwrap();
        assert_eq!(samples, frame(frame_index as u8)[index].samples);
        // Its structures, and the dictionary if it comes between them.
        let (reads, read) = source.take();
        assert!(reads == 1 && read < 44_000, "{name}: {reads} reads of {read} bytes");

        file.info(channel, frame_index).unwrap().unwrap();
        let (reads, read) = source.take();
        assert!(reads <= 3 && read < 3_000, "{name}: {reads} reads of {read} bytes for its facts");
    }
}

#[test]
fn what_a_killed_writer_left_is_read_up_to_its_last_whole_frame() {
    let whole = some_file();
    let frames = GwfFile::open(&whole).unwrap().frames().to_vec();
    for bytes in [whole.len() - 1, whole.len() - 47, frames[1].position as usize + 300] {
        let file = GwfFile::open(&whole[..bytes]).unwrap();
        let Index::Walk { reason: Some(_), .. } = file.index() else { panic!("cut to {bytes}") };
        let there = if bytes > frames[1].position as usize + 1_000 { 2 } else { 1 };
        assert_eq!(file.frames(), &frames[..there]);
        let mut samples = Vec::new();
        for (index, channel) in file.channels().iter().enumerate() {
            assert!(channel.is_in(there - 1));
            file.read(index, there - 1, &mut samples).unwrap().unwrap();
        }
        assert!(file.verify().is_err());
    }
}

#[test]
fn what_cannot_be_written_as_it_is_is_refused_and_writes_nothing() {
    let start = FrameStart::new(1_400_000_000, 1.0);
    let good = Series::new("X1:A", VectorType::I16, 0.5, &[1, 0, 2, 0]);
    let mut writer = GwfWriter::new(Vec::new(), WriteOptions::new("X1")).unwrap();
    let before = writer.bytes();
    let bad = [
        (start, vec![Series { name: "", ..good }]),
        (start, vec![Series { name: "X1:\0", ..good }]),
        (start, vec![good, good]),
        (start, vec![Series { samples: &[1, 0, 2], ..good }]),
        (start, vec![Series { dx_s: 0.0, ..good }]),
        (start, vec![Series { dx_s: f64::NAN, ..good }]),
        (start, vec![Series { start_s: f64::INFINITY, ..good }]),
        (FrameStart { gps_ns: 1_000_000_000, ..start }, vec![good]),
        (FrameStart { duration_s: 0.0, ..start }, vec![good]),
        (FrameStart { duration_s: f64::NAN, ..start }, vec![good]),
    ];
    for (start, series) in bad {
        let refused = writer.frame(&start, &series);
        assert!(matches!(refused, Err(GwfError::Refused { .. })), "{refused:?}");
    }
    assert_eq!(writer.bytes(), before);
    writer.frame(&start, &[good]).unwrap();
    // Frames rise and do not overlap.
    for gps_s in [0, 1_399_999_999, 1_400_000_000] {
        assert!(writer.frame(&FrameStart { gps_s, ..start }, &[good]).is_err(), "{gps_s}");
    }
    let half = FrameStart { gps_ns: 500_000_000, ..start };
    assert!(writer.frame(&half, &[good]).is_err());
    writer.frame(&FrameStart { gps_s: 1_400_000_001, ..start }, &[good]).unwrap();
    let file = GwfFile::open(writer.finish().unwrap()).unwrap();
    assert_eq!(file.frames().len(), 2);

    let empty = GwfWriter::new(Vec::new(), WriteOptions::new("X1")).unwrap();
    assert!(matches!(empty.finish(), Err(GwfError::Refused { .. })));
    let long = "x".repeat(65_535);
    assert!(GwfWriter::new(Vec::new(), WriteOptions::new(long)).is_err());
    let compress = Compress::Zlib { level: 10 };
    let options = WriteOptions { compress, ..WriteOptions::new("X1") };
    assert!(GwfWriter::new(Vec::new(), options).is_err());
}

/// Fails after that many bytes.
struct Failing(usize);

impl std::io::Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_whose_sink_failed_never_finishes() {
    let start = FrameStart::new(1_400_000_000, 1.0);
    let series = Series::new("X1:A", VectorType::I16, 0.5, &[1, 0, 2, 0]);
    let mut writer = GwfWriter::new(Failing(2_000), WriteOptions::new("X1")).unwrap();
    assert!(matches!(writer.frame(&start, &[series]), Err(GwfError::Write(_))));
    let next = FrameStart { gps_s: 1_400_000_001, ..start };
    assert!(matches!(writer.frame(&next, &[series]), Err(GwfError::Broken)));
    assert!(matches!(writer.finish(), Err(GwfError::Broken)));
}

#[test]
fn frames_carry_where_they_come_from() {
    let history = History { name: "catchment".into(), gps_s: 5, comment: "version 1".into() };
    let options = WriteOptions { history: Some(history), run: -3, ..WriteOptions::new("X1") };
    let mut writer = GwfWriter::new(Vec::new(), options).unwrap();
    let start = FrameStart { gps_ns: 250, data_quality: 9, ..FrameStart::new(10, 0.5) };
    writer.frame(&start, &[Series::new("X1:A", VectorType::I16, 0.25, &[1, 0, 2, 0])]).unwrap();
    let bytes = writer.finish().unwrap();
    for ignore_toc in [false, true] {
        let file = GwfFile::open_with(&bytes, OpenOptions { ignore_toc }).unwrap();
        let frame = file.frames()[0];
        assert_eq!((frame.gps_s, frame.gps_ns, frame.duration_s), (10, 250, 0.5));
        assert_eq!((frame.run, frame.data_quality), (-3, 9));
    }
}
