//! Cold reads of one channel of a thousand, beside as many direct reads of the same size.
//!
//! Direct reads (O_DIRECT) are those of the channel's columns, at their offsets, into memory that
//! was touched before: one after the other, and up to [`DEPTH`] at once by as many threads.
//! Catchment has several under way, too, into memory that was touched before, and its time has more
//! in it: finding the columns in the index, checking and decoding them.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use anyhow::Context;
use catchment_disk::ReadFile;
use catchment_frame::FileReader;
use catchment_storage::ColumnCoding;
use serde::Serialize;

use crate::ligo_data::{DataSet, Layout, Scratch};
use crate::ligo_read::{can_drop_caches, drop_caches, read_once};
use crate::search::median;

/// The figures of one channel.
#[derive(Debug, Serialize)]
pub(crate) struct Cold {
    pub(crate) channel: String,
    /// Columns of the channel, each one read.
    pub(crate) columns: usize,
    /// Bytes of them as stored.
    pub(crate) stored_bytes: u64,
    /// Seconds of opening and reading, and of reading alone.
    pub(crate) whole_s: Vec<f64>,
    pub(crate) read_s: Vec<f64>,
    /// Seconds of the direct reads: one after the other, and `depth` at once.
    pub(crate) direct_s: Vec<f64>,
    pub(crate) direct_at_once_s: Vec<f64>,
    pub(crate) depth: usize,
}

/// The speed of reading as a share of that of direct reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// Of those one after the other.
    pub(crate) one_by_one: f64,
    /// Of those at once.
    pub(crate) at_once: f64,
    /// Of those at once, where opening the run counts, too.
    pub(crate) with_opening: f64,
}

impl Cold {
    pub(crate) fn shares(&self) -> Shares {
        let (read, at_once) = (ms(&self.read_s), ms(&self.direct_at_once_s));
        Shares {
            one_by_one: ms(&self.direct_s) / read,
            at_once: at_once / read,
            with_opening: at_once / ms(&self.whole_s),
        }
    }

    /// The figures in words.
    pub(crate) fn measured(&self) -> String {
        let Shares { one_by_one, at_once, with_opening } = self.shares();
        format!(
            "{:.2} ms: {at_once:.2} of {} at once ({:.2} ms), {one_by_one:.2} of one after the other \
             ({:.2} ms); opening included, {with_opening:.2} of those at once",
            ms(&self.read_s),
            self.depth,
            ms(&self.direct_at_once_s),
            ms(&self.direct_s),
        )
    }
}

/// Writes one file of many frames and reads channels of it; nothing where caches cannot be dropped.
pub(crate) fn measure(
    data: &DataSet,
    folder: &Path,
    frame_s: u64,
    repeats: usize,
    coding: ColumnCoding,
) -> anyhow::Result<Vec<Cold>> {
    if !can_drop_caches() {
        return Ok(Vec::new());
    }
    let scratch = Scratch::new(folder, "cold")?;
    let run = scratch.folder.join("run");
    let layout = Layout { frame_s, frames_per_file: data.seconds.div_ceil(frame_s) };
    let report = data.write_run(&run, layout, coding)?;
    let [path] = report.files.as_slice() else { anyhow::bail!("the run is not one file") };
    CHANNELS.iter().map(|name| channel(&run, path, name, repeats)).collect()
}

fn channel(run: &Path, path: &Path, name: &str, repeats: usize) -> anyhow::Result<Cold> {
    let columns = columns(path, name)?;
    let mut cold = Cold {
        channel: name.into(),
        columns: columns.len(),
        stored_bytes: columns.iter().map(|column| column.bytes).sum(),
        whole_s: Vec::new(),
        read_s: Vec::new(),
        direct_s: Vec::new(),
        direct_at_once_s: Vec::new(),
        depth: columns.len().clamp(1, DEPTH),
    };
    // Once each before it counts, so that none finds the disk behind this machine colder, and in
    // each order as often, so that none gains by what came before it.
    for round in 0..=repeats {
        for method in ORDERS[round % ORDERS.len()] {
            drop_caches()?;
            let counts = round > 0;
            match method {
                Method::OneByOne => {
                    let seconds = read_directly(path, &columns, 1)?;
                    cold.direct_s.extend(counts.then_some(seconds));
                }
                Method::AtOnce => {
                    let seconds = read_directly(path, &columns, cold.depth)?;
                    cold.direct_at_once_s.extend(counts.then_some(seconds));
                }
                Method::Catchment => {
                    let once = read_once(run, name)?;
                    cold.whole_s.extend(counts.then_some(once.whole_s));
                    cold.read_s.extend(counts.then_some(once.read_s));
                }
            }
        }
    }
    Ok(cold)
}

/// The ways of reading that are measured in turn.
#[derive(Clone, Copy)]
enum Method {
    OneByOne,
    AtOnce,
    Catchment,
}

const ORDERS: [[Method; 3]; 6] = {
    use Method::{AtOnce, Catchment, OneByOne};
    [
        [OneByOne, AtOnce, Catchment],
        [Catchment, AtOnce, OneByOne],
        [AtOnce, Catchment, OneByOne],
        [OneByOne, Catchment, AtOnce],
        [Catchment, OneByOne, AtOnce],
        [AtOnce, OneByOne, Catchment],
    ]
};

/// A column of a channel in a file.
struct Column {
    offset: u64,
    bytes: u64,
}

/// The columns of a channel in a file.
fn columns(path: &Path, name: &str) -> anyhow::Result<Vec<Column>> {
    let reader = FileReader::open(ReadFile::open(path)?)?;
    let channels = &reader.channel_columns().channels;
    let channel = channels.iter().find(|channel| channel.name == name);
    let id = channel.with_context(|| format!("there is no channel {name}"))?.id;
    let mut columns = Vec::new();
    for (index, frame) in reader.frames().iter().enumerate() {
        if let Some(entry) = reader.find(index, id)? {
            let offset = frame.offset + entry.offset;
            columns.push(Column { offset, bytes: entry.stored_bytes });
        }
    }
    Ok(columns)
}

/// Seconds of reading these columns with O_DIRECT, `depth` at once, opening not included.
fn read_directly(path: &Path, columns: &[Column], depth: usize) -> anyhow::Result<f64> {
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    let longest = columns.iter().map(|column| column.bytes).max().unwrap_or(0);
    let (next, ready) = (AtomicUsize::new(0), Barrier::new(depth));
    let work = || {
        // Touched before, as any program would have its buffer.
        let mut buffer = vec![1_u8; longest as usize + 3 * BLOCK as usize];
        let aligned = buffer.as_ptr().align_offset(BLOCK as usize);
        let buffer = &mut buffer[aligned..];
        ready.wait();
        let begin = Instant::now();
        while let Some(&Column { offset, bytes }) = columns.get(next.fetch_add(1, Relaxed)) {
            let from = offset / BLOCK * BLOCK;
            let length = ((offset + bytes).next_multiple_of(BLOCK) - from) as usize;
            let read = file.read_at(&mut buffer[..length], from)? as u64;
            anyhow::ensure!(from + read >= offset + bytes, "a direct read was cut short");
        }
        Ok(begin.elapsed().as_secs_f64())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..depth).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = others.into_iter().map(|thread| thread.join().expect("no thread panics"));
        std::iter::once(own).chain(others).try_fold(0.0, |most: f64, each| Ok(most.max(each?)))
    })
}

/// Milliseconds in the middle.
fn ms(seconds: &[f64]) -> f64 {
    median(seconds.iter().copied()) * 1e3
}

/// The alignment of direct reads.
const BLOCK: u64 = 4096;
/// Direct reads at once, at most: enough for the disk of one machine.
pub(crate) const DEPTH: usize = 8;
/// One of each rate.
const CHANNELS: [&str; 3] = ["L1:FAST-0024", "L1:MEDIUM-0074", "L1:SLOW-0150"];
