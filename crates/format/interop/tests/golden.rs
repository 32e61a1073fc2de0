//! Files written by other programs: FrameL 8.48.4 (every type of samples with every compression
//! that it supports), lalframe 14.0.4, and frameCPP in gwframe 0.8.4 (zero-suppressed complex
//! samples, auxiliary vectors). Their contents match values computed here. The two outside the
//! repository were written by gwpy 3 with lalframe; their contents were read by gwpy.

#![expect(clippy::disallowed_methods, reason = "golden files are read from the repository")]

use std::path::PathBuf;

use crate::common;
use crate::common::Part;
use catchment_interop::gwf::{
    Auxiliary, ChannelInfo, ChannelKind, Compress, Compression, GwfFile, Index, VectorType,
    exact_rate,
};

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(folder.join(name)).unwrap()
}

/// The whole numbers in the golden files, as represented by their types.
fn values() -> Vec<i64> {
    let mut sum = 0;
    let step = |k: i64| (k * k * 7 + k * 3) % 61 - 30;
    let sums = (0..97).map(|k| {
        sum += step(k);
        if (40..80).contains(&k) { 0 } else { sum }
    });
    sums.collect()
}

fn samples(kind: VectorType) -> Vec<u8> {
    let whole = values();
    let with = |width: usize| -> Vec<u8> {
        whole.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect()
    };
    let eighth = |value: &i64| *value as f64 / 8.0;
    let pairs = || whole.iter().zip(whole.iter().rev());
    match kind {
        VectorType::I8 | VectorType::U8 => with(1),
        VectorType::I16 | VectorType::U16 => with(2),
        VectorType::I32 | VectorType::U32 => with(4),
        VectorType::I64 | VectorType::U64 => with(8),
        VectorType::F32 => whole.iter().flat_map(|v| (eighth(v) as f32).to_le_bytes()).collect(),
        VectorType::F64 => whole.iter().flat_map(|v| eighth(v).to_le_bytes()).collect(),
        VectorType::C64 => pairs()
            .flat_map(|(re, im)| [eighth(re) as f32, *im as f32])
            .flat_map(f32::to_le_bytes)
            .collect(),
        VectorType::C128 => pairs()
            .flat_map(|(re, im)| [eighth(re), *im as f64])
            .flat_map(f64::to_le_bytes)
            .collect(),
    }
}

#[test]
fn every_type_and_compression_of_framel_is_read() {
    let file = GwfFile::open(golden("framel-8.48.gwf")).unwrap();
    assert!(matches!(file.index(), Index::Toc));
    file.verify().unwrap();
    let compressions: &[(VectorType, &[u32])] = &[
        (VectorType::I8, &[0, 1, 3]),
        (VectorType::U8, &[0, 1, 3]),
        (VectorType::I16, &[0, 1, 3, 5]),
        (VectorType::U16, &[0, 1, 3, 5]),
        (VectorType::I32, &[0, 1, 3, 8]),
        (VectorType::U32, &[0, 1, 3, 8]),
        (VectorType::F32, &[0, 1, 8]),
        (VectorType::F64, &[0, 1]),
        (VectorType::I64, &[0, 1]),
        (VectorType::U64, &[0, 1]),
        (VectorType::C64, &[0, 1]),
        (VectorType::C128, &[0, 1]),
    ];
    let count: usize = compressions.iter().map(|(_, numbers)| numbers.len()).sum();
    assert_eq!(file.channels().len(), count);
    for (kind, numbers) in compressions {
        for number in *numbers {
            let name = format!("X1:{kind:?}-{number}");
            let mut read = Vec::new();
            let info = file.read(file.find(&name).unwrap(), 0, &mut read).unwrap().unwrap();
            assert_eq!(info.kind, *kind, "{name}");
            let expected = match number {
                0 => Compression::Raw,
                1 => Compression::Zlib,
                3 => Compression::DifferenceZlib,
                5 => Compression::ZeroSuppress16,
                _ => Compression::ZeroSuppress32,
            };
            assert_eq!(info.compression, expected, "{name}");
            assert_eq!(read, samples(*kind), "{name}");
        }
    }
}

#[test]
fn every_kind_of_channel_of_lalframe_is_read() {
    let file = GwfFile::open(golden("lalframe-14.0.gwf")).unwrap();
    file.verify().unwrap();
    let [frame] = file.frames() else { panic!("one frame") };
    assert_eq!((frame.gps_s, frame.gps_ns, frame.duration_s), (1_400_000_000, 0, 97.0));
    assert_eq!((frame.run, frame.number), (7, 3));
    let expected = [
        ("X1:ADC-F32", ChannelKind::Adc, VectorType::F32, "count", true),
        ("X1:ADC-I16", ChannelKind::Adc, VectorType::I16, "count", true),
        ("X1:PROC-F64", ChannelKind::Proc, VectorType::F64, "strain", true),
        ("X1:SPECTRUM", ChannelKind::Proc, VectorType::F64, "count", false),
        ("X1:SIM-F64", ChannelKind::Sim, VectorType::F64, "count", true),
    ];
    assert_eq!(file.channels().len(), expected.len());
    for (index, (name, kind, samples_kind, unit, time_series)) in expected.into_iter().enumerate() {
        let channel = &file.channels()[index];
        assert_eq!((channel.name.as_str(), channel.kind), (name, kind));
        let mut read = Vec::new();
        let info = file.read(index, 0, &mut read).unwrap().unwrap();
        assert_eq!(read, samples(samples_kind), "{name}");
        assert_eq!((info.unit.as_str(), info.time_series), (unit, time_series), "{name}");
        assert_eq!((info.samples, info.dx_s, info.start_s), (97, 1.0, 0.0), "{name}");
        assert_eq!(file.info(index, 0).unwrap().unwrap(), info, "{name}");
        // FrameL's slope 0 means none.
        let calibration = (kind == ChannelKind::Adc).then_some((0.0, 0.0));
        assert_eq!(info.calibration, calibration, "{name}");
    }
}

#[test]
fn zero_suppressed_complex_samples_of_framecpp_are_read() {
    let file = GwfFile::open(golden("gwframe-0.8.gwf")).unwrap();
    file.verify().unwrap();
    let constant = |parts: [&[u8]; 2]| parts.concat().repeat(97);
    for (kind, suppressed, same) in [
        (
            VectorType::C64,
            Compression::ZeroSuppress32,
            constant([&2.5_f32.to_le_bytes(), &1.25_f32.to_le_bytes()]),
        ),
        (
            VectorType::C128,
            Compression::ZeroSuppress64,
            constant([&2.5_f64.to_le_bytes(), &1.25_f64.to_le_bytes()]),
        ),
    ] {
        let bits = kind.bytes() * 8;
        let zeros = vec![0; 97 * kind.bytes()];
        for (content, expected) in [("ZERO", zeros), ("CONST", same), ("WALK", samples(kind))] {
            let name = format!("X1:COMPLEX{bits}-{content}");
            let mut read = Vec::new();
            let info = file.read(file.find(&name).unwrap(), 0, &mut read).unwrap().unwrap();
            assert_eq!((info.kind, info.compression), (kind, suppressed), "{name}");
            assert_eq!(read, expected, "{name}");
        }
    }
}

#[test]
fn auxiliary_validity_of_framecpp_is_read() {
    let file = GwfFile::open(golden("gwframe-0.8.gwf")).unwrap();
    // One flag for each sample, one for two of them, none, and all samples by FrAdcData's own.
    for (name, auxiliary, samples_invalid, data_valid) in [
        ("X1:ADC-1", true, 4, 0),
        ("X1:ADC-32", true, 32, 0),
        ("X1:ADC-GOOD", false, 0, 0),
        ("X1:ADC-BAD", false, 0, 1),
        ("X1:COMPLEX64-WALK", false, 0, 0),
    ] {
        let channel = file.find(name).unwrap();
        let info = file.info(channel, 0).unwrap().unwrap();
        assert_eq!((info.auxiliary, info.data_valid), (auxiliary, data_valid), "{name}");
        let expected = Auxiliary { samples_invalid, others: 0 };
        assert_eq!(file.auxiliary(channel, 0).unwrap(), expected, "{name}");
    }
}

#[test]
fn sample_files_are_read_with_the_values_that_gwpy_reads() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/samples/gwf");
    if !folder.is_dir() {
        // The files are not part of the repository; the test below has similar ones.
        println!("not run: {} is not there", folder.display());
        return;
    }
    let read = |name: &str| GwfFile::open(std::fs::read(folder.join(name)).unwrap()).unwrap();
    let file = read("X-LALFR_PROC-1400000000-1.gwf");
    assert_file(&file, 1_400_000_000, 1);
    let first = [0.345_584_18, 0.821_618_14, 0.330_437_06, -1.303_157_2];
    assert_floats(&file, "X1:FAST-STRAIN", 16_384, &first, -158.956_997_648_550_8);
    let first = [154.511_2, -201.928_31, 50.608_784, -53.547_497];
    assert_floats(&file, "X1:MED-MIC", 2_048, &first, -2_390.711_231_091_991);
    assert_integers(&file, "X1:SLOW-ADC", 256, &[20, 1, 197, -86, -158, -235], -4_692);

    let file = read("X-LALFR_PROC-1400000016-8.gwf");
    assert_file(&file, 1_400_000_016, 8);
    let first = [-0.464_435_22, -2.313_702_8, 0.099_618_7, -0.335_546];
    assert_floats(&file, "X1:FAST-STRAIN", 16_384, &first, -188.207_715_470_130_1);
    let first = [4.640_714, 20.807_234, -141.340_27, -62.255_936];
    assert_floats(&file, "X1:MED-MIC", 2_048, &first, -965.303_265_616_805_8);
    assert_integers(&file, "X1:SLOW-ADC", 256, &[-114, -34, 266, 155, -108, 58], -444);
}

#[test]
fn the_like_of_the_sample_files_made_here_is_read_back() {
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as i16 / 128
    };
    let floats: Vec<f32> = (0..16_384).map(|_| f32::from(noise()) / 64.0).collect();
    let integers: Vec<i16> = (0..256).map(|_| noise()).collect();
    let parts = vec![
        Part::new(
            "X1:FAST-STRAIN",
            VectorType::F32,
            floats.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ),
        Part::new(
            "X1:SLOW-ADC",
            VectorType::I16,
            integers.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ),
    ];
    let file = GwfFile::open(common::file(Compress::Zlib { level: 1 }, &[parts])).unwrap();
    assert_file(&file, 1_400_000_000, 1);
    let sum = floats.iter().map(|value| f64::from(*value)).sum();
    assert_floats(&file, "X1:FAST-STRAIN", 16_384, &floats[..6], sum);
    let sum = integers.iter().map(|value| i64::from(*value)).sum();
    assert_integers(&file, "X1:SLOW-ADC", 256, &integers[..6], sum);
}

fn assert_file(file: &GwfFile<Vec<u8>>, gps_s: u32, seconds: u32) {
    file.verify().unwrap();
    let [frame] = file.frames() else { panic!("one frame") };
    assert_eq!((frame.gps_s, frame.gps_ns), (gps_s, 0));
    assert_eq!(frame.duration_s, f64::from(seconds));
}

fn read(file: &GwfFile<Vec<u8>>, name: &str, rate: u64) -> (ChannelInfo, Vec<u8>) {
    let mut samples = Vec::new();
    let info = file.read(file.find(name).unwrap(), 0, &mut samples).unwrap().unwrap();
    let duration_s = file.frames()[0].duration_s as u64;
    assert_eq!(info.samples, rate * duration_s, "{name}");
    assert_eq!(exact_rate(info.dx_s, info.samples, duration_s * 1_000_000_000), Some((rate, 1)));
    assert!(info.time_series, "{name}");
    (info, samples)
}

fn assert_floats(file: &GwfFile<Vec<u8>>, name: &str, rate: u64, first: &[f32], sum: f64) {
    let (info, samples) = read(file, name, rate);
    assert_eq!(info.kind, VectorType::F32, "{name}");
    let chunks = samples.as_chunks::<4>().0;
    let values: Vec<f32> = chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert_eq!(values[..first.len()], *first, "{name}");
    let got: f64 = values.iter().map(|value| f64::from(*value)).sum();
    // numpy adds in another order.
    assert!((got - sum).abs() < 1e-6, "{name}: the samples add up to {got}, not to {sum}");
}

fn assert_integers(file: &GwfFile<Vec<u8>>, name: &str, rate: u64, first: &[i16], sum: i64) {
    let (info, samples) = read(file, name, rate);
    assert_eq!(info.kind, VectorType::I16, "{name}");
    let chunks = samples.as_chunks::<2>().0;
    let values: Vec<i16> = chunks.iter().map(|bytes| i16::from_le_bytes(*bytes)).collect();
    assert_eq!(values[..first.len()], *first, "{name}");
    assert_eq!(values.iter().map(|value| i64::from(*value)).sum::<i64>(), sum, "{name}");
}
