//! Channels: as text, NumPy arrays, raw bytes, Parquet and Arrow.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use arrow_schema::Field;
use catchment_console::UsageError;
use catchment_frame::Dtype;
use catchment_model::TimeScale;
use catchment_model::units::grouped;
use catchment_storage::{ChannelInfo, Piece, Run, Select};

use super::arrow::{self, ArrowFile, Kind};
use super::{Sink, with_suffix};
use crate::npy::Npy;

/// Channels that are read side by side: they have the same samples.
pub(crate) struct Channels {
    indices: Vec<usize>,
    infos: Vec<ChannelInfo>,
}

impl Channels {
    /// Channels by their indices in the run.
    pub(crate) fn of(run: &Run, indices: Vec<usize>) -> anyhow::Result<Self> {
        let infos: Vec<ChannelInfo> =
            indices.iter().map(|&index| run.channels()[index].clone()).collect();
        let first = infos.first().context("no channel")?;
        let other = infos
            .iter()
            .find(|info| (info.rate, info.time_scale) != (first.rate, first.time_scale));
        if let Some(other) = other {
            anyhow::bail!(UsageError(format!(
                "{} has {} and {} has {}: one table holds channels of one rate",
                first.name, first.rate, other.name, other.rate
            )));
        }
        Ok(Self { indices, infos })
    }

    /// What their times count.
    pub(crate) fn time_scale(&self) -> TimeScale {
        self.infos[0].time_scale
    }

    /// The numbers of samples in a range of time.
    pub(crate) fn samples_at(&self, time_ns: &Range<u64>) -> Range<u64> {
        let rate = self.infos[0].rate;
        rate.first_sample_at(time_ns.start)..rate.first_sample_at(time_ns.end)
    }

    /// Refuses channels that have not the same samples in a range: to be asked before anything is
    /// written.
    pub(crate) fn check(&self, run: &Run, select: &Select) -> anyhow::Result<()> {
        let first = run.channel_at(self.indices[0]).context("a run keeps its channels")?;
        let there = samples_of(&first.pieces_in(select)?);
        for (&index, info) in self.indices.iter().zip(&self.infos).skip(1) {
            let other = run.channel_at(index).context("a run keeps its channels")?;
            let same = samples_of(&other.pieces_in(select)?) == there;
            anyhow::ensure!(
                same,
                "{} has other gaps than {}: read them one by one",
                info.name,
                self.infos[0].name
            );
        }
        Ok(())
    }

    /// Hands out the samples of a range, some at a time and in order; [`Channels::check`] has it.
    /// Returns how many there were.
    pub(crate) fn read(
        &self,
        run: &Run,
        select: &Select,
        output: &mut Output<'_>,
    ) -> anyhow::Result<u64> {
        let mut count = 0;
        let first = run.channel_at(self.indices[0]).context("a run keeps its channels")?;
        let pieces = first.pieces_in(select)?;
        let pieces =
            pieces.iter().map(|piece| (piece.frame, piece.first_sample..piece.end_sample()));
        for (frame, samples) in portions(pieces) {
            let select = Select::FrameSamples(frame, samples);
            let mut read: Vec<_> =
                run.read_many(&self.indices, &select)?.into_iter().map(Vec::into_iter).collect();
            while let Some(segment) = read[0].next() {
                let samples = segment.first_sample..segment.first_sample + segment.samples;
                let mut columns = vec![segment.bytes];
                for (segments, info) in read.iter_mut().zip(&self.infos).skip(1) {
                    let same = segments.next().filter(|other| {
                        (other.first_sample, other.samples)
                            == (samples.start, samples.end - samples.start)
                    });
                    let other = same.with_context(|| {
                        format!("{} has other samples in a frame than others", info.name)
                    })?;
                    columns.push(other.bytes);
                }
                count += samples.end - samples.start;
                output.rows(&self.infos, &samples, columns)?;
            }
        }
        Ok(count)
    }

    /// What there is of them, where a range held none of it.
    pub(crate) fn there_is(&self, run: &Run) -> anyhow::Result<String> {
        let first = run.channel_at(self.indices[0]).context("a run keeps its channels")?;
        let name = &self.infos[0].name;
        Ok(match first.time_range()? {
            None => format!("{name} has no samples in this run"),
            Some(time) => format!(
                "no sample is in that range: those of {name} are of {}..{} in nanoseconds of {}, in \
                 {} frames",
                time.start,
                time.end,
                self.infos[0].time_scale.to_string().to_uppercase(),
                grouped(run.channel_frames().len() as u64)
            ),
        })
    }

    /// What writes lines: time and values.
    pub(crate) fn csv<'a>(&self, mut sink: Sink<'a>) -> anyhow::Result<Output<'a>> {
        let mut head = String::from("time_ns");
        for info in &self.infos {
            let elements = elements(info);
            for element in 0..elements {
                let name = info.name.replace('"', "\"\"");
                let quote = if info.name.contains([',', '"', '\n']) { "\"" } else { "" };
                let index = if elements > 1 { format!("[{element}]") } else { String::new() };
                write!(head, ",{quote}{name}{index}{quote}")?;
            }
        }
        head.push('\n');
        sink.text(&head)?;
        Ok(Output::Csv(sink))
    }

    /// What writes bytes, of one channel.
    pub(crate) fn raw<'a>(&self, sink: Sink<'a>) -> anyhow::Result<Output<'a>> {
        self.only("--format raw")?;
        Ok(Output::Raw(sink))
    }

    /// What writes NAME.times.npy and NAME.samples.npy, of one channel.
    pub(crate) fn npy(&self, base: &Path) -> anyhow::Result<Output<'static>> {
        let info = self.only("--format npy")?;
        let dtype = info.dtype.numpy();
        let dtype = dtype.with_context(|| format!("numpy has no type for {}", info.name))?;
        let (dtype, sample_bytes) = (format!("'{dtype}'"), info.sample_bytes() as usize);
        let named = |suffix| with_suffix(base, suffix);
        Ok(Output::Npy {
            times: Npy::create(&named(".times.npy"), "'<u8'", 8)?,
            samples: Npy::create_of(&named(".samples.npy"), &dtype, &info.shape, sample_bytes)?,
        })
    }

    /// What writes a table: the column `time`, and one per channel.
    pub(crate) fn arrow(&self, path: &Path, kind: Kind) -> anyhow::Result<Output<'static>> {
        let mut fields = vec![arrow::time_field()];
        for info in &self.infos {
            let data_type = arrow::data_type(info.dtype, &info.shape)
                .with_context(|| format!("Arrow has no type for {}", info.name))?;
            let mut about = vec![
                ("unit".to_owned(), info.unit.clone()),
                ("sample_rate".to_owned(), info.rate.to_string()),
                ("time_scale".to_owned(), info.time_scale.to_string()),
            ];
            about.extend(info.scale.map(|scale| ("scale".to_owned(), scale.to_string())));
            about.extend(info.offset.map(|offset| ("offset".to_owned(), offset.to_string())));
            let field = Field::new(&info.name, data_type, false);
            fields.push(field.with_metadata(about.into_iter().collect::<HashMap<_, _>>()));
        }
        Ok(Output::Arrow(ArrowFile::create(path, kind, fields)?))
    }

    fn only(&self, what: &str) -> anyhow::Result<&ChannelInfo> {
        match self.infos.as_slice() {
            [info] => Ok(info),
            several => Err(UsageError(format!(
                "{what} takes one channel, and {} fit; Parquet, Arrow and CSV take several",
                several.len()
            ))
            .into()),
        }
    }
}

/// What is read at a time: a frame's pieces as far as they go together, and parts of long ones.
fn portions(pieces: impl IntoIterator<Item = (usize, Range<u64>)>) -> Vec<(usize, Range<u64>)> {
    let mut portions: Vec<(usize, Range<u64>)> = Vec::new();
    for (frame, piece) in pieces {
        if let Some((last, samples)) = portions.last_mut()
            && *last == frame
            && piece.start >= samples.end
            && piece.end - samples.start <= ROWS_MAX
        {
            samples.end = piece.end;
            continue;
        }
        let mut from = piece.start;
        while from < piece.end {
            let to = piece.end.min(from.saturating_add(ROWS_MAX));
            portions.push((frame, from..to));
            from = to;
        }
    }
    portions
}

/// Which samples are there: ranges that do not touch.
fn samples_of(pieces: &[Piece]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for piece in pieces {
        match ranges.last_mut() {
            Some(last) if last.end == piece.first_sample => last.end = piece.end_sample(),
            _ => ranges.push(piece.first_sample..piece.end_sample()),
        }
    }
    ranges
}

/// What takes samples.
pub(crate) enum Output<'a> {
    /// Lines: time and values.
    Csv(Sink<'a>),
    /// The bytes of one channel.
    Raw(Sink<'a>),
    /// NAME.times.npy and NAME.samples.npy, of one channel.
    Npy { times: Npy, samples: Npy },
    /// A table: the column `time`, and one per channel.
    Arrow(ArrowFile),
}

impl Output<'_> {
    /// Takes the bytes of every channel.
    fn rows(
        &mut self,
        infos: &[ChannelInfo],
        samples: &Range<u64>,
        columns: Vec<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let count = (samples.end - samples.start) as usize;
        let mut times_ns = infos[0].rate.times_ns(samples.start).take(count);
        match self {
            Self::Csv(sink) => sink.bytes(lines(infos, times_ns, &columns)?.as_bytes())?,
            Self::Raw(sink) => columns.iter().try_for_each(|bytes| sink.bytes(bytes))?,
            Self::Npy { times, samples } => {
                times_ns.try_for_each(|time| times.numbers(&[time]))?;
                columns.iter().try_for_each(|bytes| samples.bytes(bytes))?;
            }
            Self::Arrow(file) => {
                // Arrow counts from 1970 and knows no scale: its name stands in the columns'
                // metadata.
                let since_1970 = infos[0].time_scale.epoch_ns();
                let times_ns = times_ns.map(|time| time.saturating_add(since_1970));
                let mut arrays = vec![arrow::times(times_ns)];
                for (data_type, bytes) in file.data_types().skip(1).zip(columns) {
                    arrays.push(arrow::array(&data_type, bytes)?);
                }
                file.write(arrays)?;
            }
        }
        Ok(())
    }

    /// Hands over what came so far.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Csv(sink) | Self::Raw(sink) => Ok(sink.flush()?),
            Self::Npy { .. } | Self::Arrow(_) => Ok(()),
        }
    }

    /// Ends, and says which files were written, if any were made here.
    pub(crate) fn finish(mut self) -> anyhow::Result<Vec<PathBuf>> {
        self.flush()?;
        Ok(match self {
            Self::Csv(_) | Self::Raw(_) => Vec::new(),
            Self::Npy { times, samples } => vec![times.finish()?, samples.finish()?],
            Self::Arrow(file) => vec![file.finish()?],
        })
    }
}

fn lines(
    infos: &[ChannelInfo],
    times_ns: impl Iterator<Item = u64>,
    columns: &[Vec<u8>],
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for (row, time) in times_ns.enumerate() {
        write!(text, "{time}")?;
        for (info, bytes) in infos.iter().zip(columns) {
            let sample_bytes = info.sample_bytes() as usize;
            let size = sample_bytes / elements(info);
            for element in bytes[row * sample_bytes..][..sample_bytes].chunks_exact(size) {
                text.push(',');
                push_number(&mut text, info.dtype, element)?;
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// Numbers in one sample; a complex one is one.
fn elements(info: &ChannelInfo) -> usize {
    info.shape.iter().product::<u64>().max(1) as usize
}

/// One number as text, as short as it reads back the same.
fn push_number(text: &mut String, dtype: Dtype, bytes: &[u8]) -> std::fmt::Result {
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().expect("the type's size"))
        };
    }
    match dtype {
        Dtype::U8 => write!(text, "{}", number!(u8)),
        Dtype::I8 => write!(text, "{}", number!(i8)),
        Dtype::U16 => write!(text, "{}", number!(u16)),
        Dtype::I16 => write!(text, "{}", number!(i16)),
        Dtype::U32 => write!(text, "{}", number!(u32)),
        Dtype::I32 => write!(text, "{}", number!(i32)),
        Dtype::U64 => write!(text, "{}", number!(u64)),
        Dtype::I64 => write!(text, "{}", number!(i64)),
        Dtype::F32 => write!(text, "{}", number!(f32)),
        Dtype::F64 => write!(text, "{}", number!(f64)),
        Dtype::C64 | Dtype::C128 => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            let part = if dtype == Dtype::C64 { Dtype::F32 } else { Dtype::F64 };
            push_number(text, part, real)?;
            let mut second = String::new();
            push_number(&mut second, part, imaginary)?;
            let sign = if second.starts_with('-') { "" } else { "+" };
            write!(text, "{sign}{second}j")
        }
        _ => bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")),
    }
}

/// Samples that are in memory at once, of every channel.
const ROWS_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_at_once_but_for_long_pieces_and_what_it_shares_with_others() {
        let pieces = [
            (0, 0..100),
            (0, 150..250),
            (0, ROWS_MAX..ROWS_MAX + 10),
            // A clock that was set back, and one that gives the same samples again.
            (1, 50..150),
            (1, 50..51 + 2 * ROWS_MAX),
        ];
        let second = 50 + ROWS_MAX;
        let expected = [
            (0, 0..250),
            (0, ROWS_MAX..ROWS_MAX + 10),
            (1, 50..150),
            (1, 50..second),
            (1, second..second + ROWS_MAX),
            (1, second + ROWS_MAX..second + ROWS_MAX + 1),
        ];
        assert_eq!(portions(pieces), expected);
    }

    #[test]
    fn numbers_are_written_as_they_read_back() {
        let mut text = String::new();
        push_number(&mut text, Dtype::I16, &(-5i16).to_le_bytes()).expect("a String takes all");
        text.push(' ');
        push_number(&mut text, Dtype::F32, &0.1f32.to_le_bytes()).expect("a String takes all");
        text.push(' ');
        let complex = [1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat();
        push_number(&mut text, Dtype::C64, &complex).expect("a String takes all");
        assert_eq!(text, "-5 0.1 1.5-2j");
    }
}
