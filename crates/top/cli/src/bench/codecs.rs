//! `bench codecs`: what each coding makes of data of several kinds, and how fast.

use std::io::{Read, Write};
use std::time::Instant;

use catchment_codec::{Auto, Coding, ColumnEncoder, Element, decode_into};
use serde::Serialize;

use super::Bench;
use super::report::{Report, Section};
use super::search::median;
use crate::output::Table;

/// Columns are encoded one after the other, as in frames.
const COLUMN_BYTES: usize = 1 << 20;

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

/// One kind of data.
struct Kind {
    name: &'static str,
    element: Element,
    raw: Vec<u8>,
}

/// What one coding made of one kind.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    data: &'static str,
    element: String,
    coding: String,
    ratio: f64,
    encode_bytes_per_second: f64,
    decode_bytes_per_second: f64,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let columns = if bench.quick { 1 } else { 16 };
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
        for (name, free) in [("auto, all CPU free", 1.0), ("auto, a tenth free", 0.1)] {
            let mut encoder = ColumnEncoder::new();
            let first = &kind.raw[..COLUMN_BYTES];
            let coding = Auto::new(kind.element).choose(&mut encoder, first, free);
            let figure = coded(bench, &kind, coding)?;
            figures.push(Figure { coding: format!("{name}: {coding}"), ..figure });
        }
    }
    Ok(Report {
        name: "codecs",
        quick: bench.quick,
        sections: sections(bench, &figures),
        figures: serde_json::to_value(&figures)?,
    })
}

fn coded(bench: &mut Bench<'_>, kind: &Kind, coding: Coding) -> anyhow::Result<Figure> {
    let mut encoder = ColumnEncoder::new();
    let mut decoded = vec![0; COLUMN_BYTES];
    let (mut encode, mut decode, mut stored_bytes) = (Vec::new(), Vec::new(), 0);
    for round in 0..=bench.repeats() {
        let (mut encoding, mut decoding) = (0.0, 0.0);
        stored_bytes = 0;
        for raw in kind.raw.chunks_exact(COLUMN_BYTES) {
            let start = Instant::now();
            let encoded = encoder.encode(coding, kind.element, raw);
            encoding += start.elapsed().as_secs_f64();
            stored_bytes += encoded.stored.len();
            let start = Instant::now();
            decode_into(encoded.codec, encoded.stored, &mut decoded)?;
            decoding += start.elapsed().as_secs_f64();
            if round == 0 && decoded != raw {
                bench.broken.push(format!("{}: {coding} gives other bytes back", kind.name));
            }
        }
        // The first round touches the memory and checks the bytes.
        if round > 0 {
            encode.push(kind.raw.len() as f64 / encoding);
            decode.push(kind.raw.len() as f64 / decoding);
        }
    }
    Ok(figure(kind, coding.to_string(), stored_bytes, encode, decode))
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
    }
}

fn sections(bench: &Bench<'_>, figures: &[Figure]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let title = |figure: &Figure| format!("{} ({})", figure.data, figure.element);
    for figure in figures {
        if sections.last().is_none_or(|section| section.title != title(figure)) {
            let table = Table::new(&["coding", "ratio", "encode GB/s", "decode GB/s"]);
            sections.push(Section { title: title(figure), notes: Vec::new(), table });
        }
        let Some(section) = sections.last_mut() else { continue };
        section.table.row([
            figure.coding.clone(),
            format!("{:.2}", figure.ratio),
            format!("{:.2}", figure.encode_bytes_per_second / 1e9),
            format!("{:.2}", figure.decode_bytes_per_second / 1e9),
        ]);
    }
    if let Some(last) = sections.last_mut() {
        last.notes.push(format!(
            "One thread, columns of 1 MiB, median of {}; GB/s of raw bytes. Columns that do not \
             become 5 % smaller are stored raw, after a trial on samples.",
            bench.repeats()
        ));
    }
    sections
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
    let mut red = 0.0;
    let floats = (0..bytes / 4).flat_map(|_| {
        red = 0.999 * red + noise.normal();
        ((red + 0.1 * noise.normal()) as f32).to_le_bytes()
    });
    kind("coloured noise", Element::F32, floats.collect());
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
    let random = (0..bytes / 8).flat_map(|_| (noise.next() << 32 ^ noise.next()).to_le_bytes());
    kind("random bytes", Element::Bytes, random.collect());
    kinds
}
