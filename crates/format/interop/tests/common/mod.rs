//! Files built in code.
#![allow(dead_code, reason = "each test uses some of this")]

use catchment_interop::gwf::{
    Compress, FrameStart, GwfWriter, Series, SeriesKind, VectorType, WriteOptions,
};

/// A channel's part of a frame, owned.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: String,
    pub unit: String,
    pub comment: String,
    pub kind: SeriesKind,
    pub samples_kind: VectorType,
    pub dx_s: f64,
    pub start_s: f64,
    pub samples: Vec<u8>,
}

impl Part {
    pub fn new(name: &str, samples_kind: VectorType, samples: Vec<u8>) -> Self {
        let count = (samples.len() / samples_kind.bytes()).max(1);
        Self {
            name: name.to_owned(),
            unit: "count".to_owned(),
            comment: String::new(),
            kind: SeriesKind::Proc,
            samples_kind,
            dx_s: 1.0 / count as f64,
            start_s: 0.0,
            samples,
        }
    }

    pub fn series(&self) -> Series<'_> {
        Series {
            name: &self.name,
            unit: &self.unit,
            comment: &self.comment,
            kind: self.kind,
            samples_kind: self.samples_kind,
            dx_s: self.dx_s,
            start_s: self.start_s,
            samples: &self.samples,
        }
    }
}

/// A file of frames of 1 s.
pub fn file(compress: Compress, frames: &[Vec<Part>]) -> Vec<u8> {
    let options = WriteOptions { compress, ..WriteOptions::new("X1") };
    let mut writer = GwfWriter::new(Vec::new(), options).unwrap();
    for (number, parts) in frames.iter().enumerate() {
        let number = number as u32;
        let start = FrameStart { number, ..FrameStart::new(1_400_000_000 + number, 1.0) };
        let series: Vec<Series<'_>> = parts.iter().map(Part::series).collect();
        writer.frame(&start, &series).unwrap();
    }
    writer.finish().unwrap()
}

/// Three channels in two frames, the last of them in the second frame alone.
pub fn some_file() -> Vec<u8> {
    let ramp = |step: i32, count: i32| (0..count).flat_map(move |i| (i * step).to_le_bytes());
    let frame = |number: i32| {
        let mut parts = vec![
            Part::new("X1:RAMP", VectorType::I32, ramp(number + 1, 64).collect()),
            Part::new("X1:FLOAT", VectorType::F32, ramp(1 << 20, 32).collect()),
        ];
        parts[1].kind = SeriesKind::Adc { bias: 1.5, slope: -0.25 };
        parts[1].comment = "a comment".to_owned();
        if number == 1 {
            parts.push(Part::new("X1:LATE", VectorType::U8, vec![7; 200]));
        }
        parts
    };
    file(Compress::Zlib { level: 6 }, &[frame(0), frame(1)])
}
