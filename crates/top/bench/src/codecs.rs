//! `bench codecs`: ratio and speed of each coding on data of several kinds.

use std::io::{Read, Write};
use std::time::Instant;

use catchment_codec::{Auto, Coding, ColumnEncoder, Element, decode_into};
use catchment_console::Table;
use serde::Serialize;

use crate::report::{Report, Section};
use crate::search::median;
use crate::{Bench, codec_libraries};

/// Columns are encoded one after the other, as in frames.
pub(super) const COLUMN_BYTES: usize = 1 << 20;

const COLUMNS: usize = 16;
const COLUMNS_QUICK: usize = 1;

/// `auto`, and how much of the CPU is free.
const AUTOS: [AutoCase; 3] = [
    AutoCase { name: "auto, all CPU free", cpu_free: 1.0 },
    AutoCase { name: "auto, a quarter free", cpu_free: 0.25 },
    AutoCase { name: "auto, a tenth free", cpu_free: 0.1 },
];

const CODINGS: [Coding; 9] = [
    Coding::Lz4,
    Coding::Zstd { level: 1 },
    Coding::Zstd { level: 3 },
    Coding::BitshuffleLz4,
    Coding::BitshuffleZstd { level: 1 },
    Coding::ShuffleLz4,
    Coding::ShuffleZstd { level: 1 },
    Coding::For,
    Coding::Pcodec { level: 8 },
];

/// One condition under which `auto` chooses.
struct AutoCase {
    name: &'static str,
    /// The share of the CPU that is free.
    cpu_free: f32,
}

/// One kind of data.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) element: Element,
    pub(super) raw: Vec<u8>,
}

/// The figures of one coding on one kind of data.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    data: &'static str,
    element: String,
    coding: String,
    pub(super) ratio: f64,
    pub(super) encode_bytes_per_second: f64,
    pub(super) decode_bytes_per_second: f64,
    /// Of `auto`: how much more is stored than by the best of all, in parts of the raw bytes.
    above_best_share: Option<f64>,
    /// Of `auto`: the time that choosing took, in parts of that of all encoding.
    choosing_share: Option<f64>,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let columns = if bench.quick { COLUMNS_QUICK } else { COLUMNS };
    let mut figures = Vec::new();
    for kind in kinds(columns * COLUMN_BYTES) {
        bench.now(format!("{}: memory copy, gzip", kind.name))?;
        figures.push(copy(bench, &kind));
        figures.push(gzip(bench, &kind)?);
        let mut seen = Vec::new();
        for coding in CODINGS {
            let coding = coding.for_element(kind.element);
            if !seen.contains(&coding) {
                bench.now(format!("{}: {coding}", kind.name))?;
                figures.push(coded(bench, &kind, coding)?);
                seen.push(coding);
            }
        }
        let of_kind = figures.iter().filter(|figure| figure.data == kind.name);
        let best = of_kind.map(|figure| 1.0 / figure.ratio).fold(f64::INFINITY, f64::min);
        for case in &AUTOS {
            bench.now(format!("{}: {}", kind.name, case.name))?;
            figures.push(chosen(bench, &kind, case, best)?);
        }
    }
    let mut sections = sections(bench, &figures);
    let compared = codec_libraries::compare(bench, &kinds(columns * COLUMN_BYTES))?;
    sections.push(codec_libraries::section(bench, &compared));
    let figures = serde_json::json!({"codings": figures, "libraries": compared.figures});
    Report::new("codecs", bench, sections, &figures)
}

pub(super) fn coded(bench: &mut Bench<'_>, kind: &Kind, coding: Coding) -> anyhow::Result<Figure> {
    let timed = timed(bench, kind, || move |_: &mut ColumnEncoder, _: &[u8]| coding)?;
    Ok(figure(kind, coding.to_string(), timed.stored_bytes, timed.encode, timed.decode))
}

/// As `auto` chooses, column after column: the first one pays for the trials, as in a file.
fn chosen(
    bench: &mut Bench<'_>,
    kind: &Kind,
    case: &AutoCase,
    best_share: f64,
) -> anyhow::Result<Figure> {
    let timed = timed(bench, kind, || {
        let mut auto = Auto::new(kind.element);
        move |encoder: &mut ColumnEncoder, raw: &[u8]| auto.choose(encoder, raw, case.cpu_free)
    })?;
    let codings: Vec<String> = timed.codings.iter().map(Coding::to_string).collect();
    let coding = format!("{}: {}", case.name, codings.join(", then "));
    let figure = figure(kind, coding, timed.stored_bytes, timed.encode, timed.decode);
    Ok(Figure {
        above_best_share: Some(1.0 / figure.ratio - best_share),
        choosing_share: Some(median(timed.choosing_shares)),
        ..figure
    })
}

/// What encoding and decoding took, round by round.
#[derive(Default)]
struct Timed {
    stored_bytes: usize,
    /// Raw bytes per second.
    encode: Vec<f64>,
    decode: Vec<f64>,
    /// The time that choosing took, in parts of that of encoding.
    choosing_shares: Vec<f64>,
    codings: Vec<Coding>,
}

/// Encodes and decodes each column with the coding that is chosen for it, by a choice that begins
/// anew each round.
fn timed<C: FnMut(&mut ColumnEncoder, &[u8]) -> Coding>(
    bench: &mut Bench<'_>,
    kind: &Kind,
    choice: impl Fn() -> C,
) -> anyhow::Result<Timed> {
    let mut encoder = ColumnEncoder::new();
    let mut decoded = vec![0; COLUMN_BYTES];
    let mut timed = Timed::default();
    for round in 0..=bench.repeats() {
        let mut choose = choice();
        let (mut choosing, mut encoding, mut decoding) = (0.0, 0.0, 0.0);
        timed.stored_bytes = 0;
        for raw in kind.raw.chunks_exact(COLUMN_BYTES) {
            let start = Instant::now();
            let coding = choose(&mut encoder, raw);
            choosing += start.elapsed().as_secs_f64();
            let encoded = encoder.encode(coding, kind.element, raw);
            encoding += start.elapsed().as_secs_f64();
            timed.stored_bytes += encoded.stored.len();
            let start = Instant::now();
            decode_into(encoded.codec, encoded.stored, &mut decoded)?;
            decoding += start.elapsed().as_secs_f64();
            if round == 0 && decoded != raw {
                bench.broken.push(format!("{}: {coding} gives other bytes back", kind.name));
            }
            if round == 0 && timed.codings.last() != Some(&coding) {
                timed.codings.push(coding);
            }
        }
        // The first round touches the memory and checks the bytes.
        if round > 0 {
            timed.encode.push(kind.raw.len() as f64 / encoding);
            timed.decode.push(kind.raw.len() as f64 / decoding);
            timed.choosing_shares.push(choosing / encoding);
        }
    }
    Ok(timed)
}

fn gzip(bench: &Bench<'_>, kind: &Kind) -> anyhow::Result<Figure> {
    let (mut encode, mut decode, mut stored_bytes) = (Vec::new(), Vec::new(), 0);
    let mut decoded = Vec::with_capacity(COLUMN_BYTES);
    for _ in 0..bench.repeats() {
        let (mut encoding, mut decoding) = (0.0, 0.0);
        stored_bytes = 0;
        for raw in kind.raw.chunks_exact(COLUMN_BYTES) {
            let start = Instant::now();
            let level = flate2::Compression::new(1);
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(raw)?;
            let stored = encoder.finish()?;
            encoding += start.elapsed().as_secs_f64();
            stored_bytes += stored.len();
            let start = Instant::now();
            decoded.clear();
            flate2::read::GzDecoder::new(&stored[..]).read_to_end(&mut decoded)?;
            decoding += start.elapsed().as_secs_f64();
        }
        encode.push(kind.raw.len() as f64 / encoding);
        decode.push(kind.raw.len() as f64 / decoding);
    }
    Ok(figure(kind, "gzip -1".to_owned(), stored_bytes, encode, decode))
}

fn copy(bench: &Bench<'_>, kind: &Kind) -> Figure {
    let mut to = vec![1; COLUMN_BYTES];
    let mut rates = Vec::new();
    for _ in 0..bench.repeats() {
        let start = Instant::now();
        for raw in kind.raw.chunks_exact(COLUMN_BYTES) {
            std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(raw));
        }
        rates.push(kind.raw.len() as f64 / start.elapsed().as_secs_f64());
    }
    figure(kind, "memory copy".to_owned(), kind.raw.len(), rates.clone(), rates)
}

fn figure(
    kind: &Kind,
    coding: String,
    stored_bytes: usize,
    encode: Vec<f64>,
    decode: Vec<f64>,
) -> Figure {
    Figure {
        data: kind.name,
        element: kind.element.to_string(),
        coding,
        ratio: kind.raw.len() as f64 / stored_bytes.max(1) as f64,
        encode_bytes_per_second: median(encode),
        decode_bytes_per_second: median(decode),
        above_best_share: None,
        choosing_share: None,
    }
}

fn sections(bench: &Bench<'_>, figures: &[Figure]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let title = |figure: &Figure| format!("{} ({})", figure.data, figure.element);
    for figure in figures {
        if sections.last().is_none_or(|section| section.title != title(figure)) {
            let heads = ["coding", "ratio", "encode GB/s", "decode GB/s", "above best", "choosing"];
            sections.push(Section::new(title(figure), Table::new(&heads)));
        }
        let Some(section) = sections.last_mut() else { continue };
        section.table.row([
            figure.coding.clone(),
            format!("{:.2}", figure.ratio),
            format!("{:.2}", figure.encode_bytes_per_second / 1e9),
            format!("{:.2}", figure.decode_bytes_per_second / 1e9),
            share(figure.above_best_share),
            share(figure.choosing_share),
        ]);
    }
    if let Some(last) = sections.last_mut() {
        last.notes.push(format!(
            "One thread, columns of 1 MiB, median of {}; GB/s of raw bytes. Columns that do not \
             become 5 % smaller are stored raw, after a trial on samples. Of `auto`, which chooses \
             for the first column of each round and looks again: how much more it stores than the \
             best above, as a part of the raw bytes, and how much of its encoding time went into \
             choosing ({} columns to a round).",
            bench.repeats(),
            if bench.quick { COLUMNS_QUICK } else { COLUMNS }
        ));
    }
    sections
}

fn share(share: Option<f64>) -> String {
    share.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share))
}

/// The same noise every time: xorshift.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Uniform from 0 to 1.
    fn share(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 53) as f64
    }

    /// Normal, with mean 0 and sigma 1, near enough: a sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }

    fn poisson(&mut self, mean: f64) -> u16 {
        let (limit, mut product, mut count) = ((-mean).exp(), self.share(), 0);
        while product > limit {
            product *= self.share();
            count += 1;
        }
        count
    }
}

fn kinds(bytes: usize) -> Vec<Kind> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut kinds = Vec::new();
    let mut kind = |name, element, raw: Vec<u8>| {
        assert_eq!(raw.len(), bytes);
        kinds.push(Kind { name, element, raw });
    };
    let words = |word: &mut dyn FnMut(usize) -> u16| -> Vec<u8> {
        (0..bytes / 2).flat_map(|i| word(i).to_le_bytes()).collect()
    };
    let adc = words(&mut |i| {
        let pedestal = 500.0 + 37.0 * (i / 1_024 % 64) as f64;
        (pedestal + 5.0 * noise.normal()) as u16
    });
    kind("ADC noise, sigma 5 around pedestals", Element::U16, adc);
    let image = words(&mut |i| {
        let (x, y) = ((i % 512) as f64 - 256.0, (i / 512 % 512) as f64 - 256.0);
        let radius = x.hypot(y);
        let on_ring = (radius - 120.0).abs() < 4.0 || (radius - 200.0).abs() < 3.0;
        if on_ring { noise.next() as u16 % 16_384 } else { 0 }
    });
    kind("image, mostly zeros, two rings", Element::U16, image);
    let counts = words(&mut |_| noise.poisson(2.0));
    kind("image of Poisson counts, mean 2", Element::U16, counts);
    kind("ramp", Element::U16, words(&mut |i| (i % 30_000) as u16));
    kind("constant", Element::U16, words(&mut |_| 1_234));
    let mut red = 0.0;
    let floats = (0..bytes / 4).flat_map(|_| {
        red = 0.999 * red + noise.normal();
        ((red + 0.1 * noise.normal()) as f32).to_le_bytes()
    });
    kind("coloured noise", Element::F32, floats.collect());
    let floats = (0..bytes / 4).flat_map(|_| (noise.normal() as f32).to_le_bytes());
    kind("white noise", Element::F32, floats.collect());
    let mut celsius = 21.0;
    let floats = (0..bytes / 4).flat_map(|_| {
        celsius += 0.001 * noise.normal();
        ((celsius * 100.0_f64).round() as f32 / 100.0).to_le_bytes()
    });
    kind("slow drift in hundredths", Element::F32, floats.collect());
    let mut events = Vec::with_capacity(bytes + 300);
    let mut number = 0_u32;
    while events.len() < bytes {
        number += 1;
        let words = 10 + noise.next() as u32 % 40;
        for field in [16 + 4 * words, 0x0002_0001, number, 0x0101] {
            events.extend(field.to_be_bytes());
        }
        for word in 0..words {
            let time = noise.next() as u32 & 0x7ff;
            events.extend((0x3000_0000 | (word % 32) << 22 | time).to_be_bytes());
        }
    }
    events.truncate(bytes);
    kind("event fragments, words of 32 bits", Element::Record(4), events);
    let words = ["threshold", "of", "channel", "is", "12.5", "mV,", "warning:", "temperature"];
    let text = std::iter::repeat_with(|| words[noise.next() as usize % words.len()].bytes());
    let text = text.flat_map(|word| word.chain([b' '])).take(bytes);
    kind("text", Element::Bytes, text.collect());
    let random = (0..bytes / 8).flat_map(|_| (noise.next() << 32 ^ noise.next()).to_le_bytes());
    kind("random bytes", Element::Bytes, random.collect());
    kinds
}
