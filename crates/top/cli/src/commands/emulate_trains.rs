//! `catchment emulate xfel-trains`, or a configuration with sources of trains: feeders that send to
//! its nodes in turn.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context as _;
use catchment_config::{Address, counted_up};
use catchment_console::{Exit, Out, UsageError};
use catchment_emulator::{
    EmulatorLive, EmulatorThread, GivenImages, Images, Pictures, TRAINS_HZ_DEFAULT, TrainConfig,
    TrainReport,
};
use catchment_frame::{Dtype, FieldInfo};
use catchment_model::SourceId;
use catchment_model::units::{Bytes, Count, grouped};
use catchment_net::TimerReport;
use catchment_recorder::SourceConfig;
use catchment_storage::Run;
use catchment_wire::trains;

use super::emulate::{Arguments, follow};
use super::emulate_timer;
use crate::export::events::record_type;

/// The preset, by its name on the command line.
pub(super) const NAME: &str = "xfel-trains";

/// Rows and columns of an image, as `1024x1024`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageSize(u32, u32);

impl std::str::FromStr for ImageSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes =
            text.split_once('x').and_then(|(y, x)| Some((y.parse().ok()?, x.parse().ok()?)));
        let expected = || format!("expected rows and columns such as 1024x1024, got {text:?}");
        sizes.map(|(y, x)| Self(y, x)).ok_or_else(expected)
    }
}

/// What is emulated, if it is trains: the preset, or the sources of a file.
pub(super) fn configure(arguments: &Arguments) -> anyhow::Result<Option<TrainConfig>> {
    let mut config = if arguments.what == NAME {
        TrainConfig::default()
    } else {
        let path = Path::new(&arguments.what);
        if !path.exists() {
            return Ok(None);
        }
        let high = catchment_config::load(path)?;
        let is_of_trains = |source: &&SourceConfig| source.protocol.name() == trains::NAME;
        let sources: Vec<&SourceConfig> =
            high.recorder.sources.iter().filter(is_of_trains).collect();
        let Some(first) = sources.first() else { return Ok(None) };
        TrainConfig {
            nodes: sources.iter().map(|source| source.address).collect(),
            settings: high.trains.settings().clone(),
            images: images_of(first)?,
            ..TrainConfig::default()
        }
    };
    check(arguments)?;
    if let Some(Address(first)) = arguments.to {
        let nodes = arguments.nodes.unwrap_or(config.nodes.len().max(1) as u32);
        config.nodes = (0..nodes)
            .map(|index| counted_up(first, index))
            .collect::<Option<_>>()
            .ok_or_else(|| UsageError(format!("--to {first}: there are not enough ports above")))?;
    }
    if config.nodes.is_empty() || config.nodes.iter().any(|node| node.port() == 0) {
        anyhow::bail!(UsageError("expected --to IP:PORT, the first node".into()));
    }
    config.feeders = arguments.feeders.unwrap_or(config.feeders);
    config.images.pulses = arguments.pulses.unwrap_or(config.images.pulses);
    if let Some(ImageSize(y, x)) = arguments.image {
        (config.images.y, config.images.x) = (y, x);
    }
    if let Some(rate) = arguments.rate {
        config.rate_hz = rate.0;
    }
    if let Some(shown) = &arguments.images {
        let is_file = arguments.what != NAME;
        let are_given =
            [arguments.image.is_some() || is_file, arguments.pulses.is_some() || is_file];
        config.pictures = pictures(shown, &mut config.images, are_given)?;
    }
    config.only = arguments.feeder;
    config.timer = arguments.timer.map(|Address(timer)| timer);
    config.seconds = arguments.seconds;
    config.trains = arguments.events;
    config.drop_every = arguments.drop_every;
    config.seed = arguments.seed.unwrap_or(config.seed);
    config.protocol().map_err(|error| UsageError(error.to_string()))?;
    Ok(Some(config))
}

/// Refuses options that do not fit trains, or each other.
fn check(arguments: &Arguments) -> Result<(), UsageError> {
    for (key, given) in [
        ("--multiple", arguments.multiple.is_some()),
        ("--links", arguments.links.is_some()),
        ("--slice", arguments.slice.is_some()),
        ("--front-ends", arguments.front_ends.is_some()),
        ("--bytes", arguments.bytes.is_some()),
        ("--water-mark", arguments.water_mark.is_some()),
        ("--huge-every", arguments.huge_every.is_some()),
        ("--equal-bursts", arguments.equal_bursts.is_some()),
        ("--fault", !arguments.fault.is_empty()),
    ] {
        if given {
            return Err(UsageError(format!("{key} is not for trains")));
        }
    }
    for (key, given) in
        [("--group", !arguments.group.is_empty()), ("--first-run", arguments.first_run.is_some())]
    {
        if given && arguments.listen.is_none() {
            return Err(UsageError(format!("{key} is for a timer: expected --listen beside it")));
        }
    }
    if arguments.feeder.is_some() && arguments.timer.is_none() {
        return Err(UsageError("--feeder is one of several: expected --timer beside it".into()));
    }
    if arguments.timer.is_some() && (arguments.listen.is_some() || arguments.rate.is_some()) {
        let message = "the timer gives the rate: --timer has neither --listen nor --rate beside it";
        return Err(UsageError(message.into()));
    }
    Ok(())
}

/// What images show: a word, or those of a file or a recorded run, which are as large as those of
/// the trains. `are_given` says that the sizes of an image are, and the pulses of a train.
fn pictures(shown: &str, images: &mut Images, are_given: [bool; 2]) -> anyhow::Result<Pictures> {
    match shown {
        "noise" => return Ok(Pictures::Noise),
        "rings" => return Ok(Pictures::Rings),
        "spots" => return Ok(Pictures::Spots),
        _ => {}
    }
    let wrong = |what: &dyn std::fmt::Display| UsageError(format!("--images {shown}: {what}"));
    let refused = |error: std::io::Error| {
        let expected = "expected noise, rings, spots, a .npy file or the folder of a run";
        wrong(&format_args!("{expected}: {error}"))
    };
    let found = std::fs::metadata(shown).map_err(refused)?;
    let given = if found.is_dir() {
        recorded(shown).map_err(|error| wrong(&format_args!("{error:#}")))?
    } else if found.len() > GIVEN_BYTES_MAX {
        let (most, got) = (Bytes(GIVEN_BYTES_MAX), Bytes(found.len()));
        anyhow::bail!(wrong(&format_args!("expected at most {most}, got {got}")));
    } else {
        let file = std::fs::read(shown).map_err(refused)?;
        GivenImages::parse(&file).map_err(|error| wrong(&error))?
    };
    let GivenImages { rows, columns, pulses: of_train, pictures } = given;
    let Images { y, x, pulses } = *images;
    let [size_is_given, pulses_are_given] = are_given;
    if size_is_given && (rows, columns) != (y, x) {
        let got = format_args!("got {rows}x{columns}");
        anyhow::bail!(wrong(&format_args!("expected images of {y}x{x}, {got}")));
    }
    if pulses_are_given && of_train.is_some_and(|of_train| of_train != pulses) {
        let got = of_train.unwrap_or(0);
        anyhow::bail!(wrong(&format_args!("expected {pulses} images in a train, got {got}")));
    }
    *images = Images { pulses: of_train.unwrap_or(pulses), y: rows, x: columns };
    Ok(pictures)
}

/// The images of a recorded run's trains, in order: as many whole trains as fit in the bound. What
/// never came of a recorded train is zeros.
fn recorded(folder: &str) -> anyhow::Result<GivenImages> {
    let run = Run::open_with_cache(folder, 0)?;
    let images_of = |source: SourceId| {
        let payload = record_type(&run, source)?;
        let is_images = |field: &&FieldInfo| field.name == "images" && field.dtype == Dtype::U16;
        let field = payload.fields.iter().find(is_images)?;
        let sizes = field.shape.iter().map(|&size| u32::try_from(size).ok());
        let [pulses, y, x] = sizes.collect::<Option<Vec<u32>>>()?.try_into().ok()?;
        Some((source, Images { pulses, y, x }, u64::from(payload.skip).checked_add(field.offset)?))
    };
    let found: Vec<_> =
        (0..run.sources().len() as u32).map(SourceId).filter_map(images_of).collect();
    let [(source, images, begin)] = found[..] else {
        let name = |&(source, ..): &(SourceId, Images, u64)| &*run.sources()[source.index()].name;
        let names: Vec<&str> = found.iter().map(name).collect();
        let got = if names.is_empty() { "none".into() } else { names.join(", ") };
        let field = "a field images of pulses, rows and columns of u16";
        anyhow::bail!("expected one source with {field}, got {got}");
    };
    let sizes = [images.pulses, images.y, images.x];
    let bytes = sizes.iter().try_fold(2_u64, |all, &size| all.checked_mul(size.into()));
    let bytes = bytes.filter(|bytes| (1..=GIVEN_BYTES_MAX).contains(bytes)).with_context(|| {
        let [pulses, y, x] = sizes;
        let most = Bytes(GIVEN_BYTES_MAX);
        format!("expected at most {most} of images in a train, got {pulses} of {y}x{x}")
    })?;
    let end = begin.checked_add(bytes).context("expected an offset of the images below 2^64")?;
    let (begin, end) = (begin as usize, end as usize);
    let mut pixels: Vec<u8> = Vec::new();
    'frames: for frame in 0..run.frames().len() {
        let trains = run.fragments(frame, source)?;
        let keys = trains.events().keys();
        for (row, key) in keys.iter().enumerate() {
            let Some(train) = trains.fragment(row) else { continue };
            let images = train.get(begin..end).with_context(|| {
                format!("expected {end} bytes of train {key}, got {}", train.len())
            })?;
            if pixels.len() as u64 + bytes > GIVEN_BYTES_MAX {
                break 'frames;
            }
            pixels.extend(images);
        }
    }
    anyhow::ensure!(!pixels.is_empty(), "expected recorded trains, got none");
    let Images { pulses, y, x } = images;
    let pictures = Pictures::Trains(pixels.into());
    Ok(GivenImages { pulses: Some(pulses), rows: y, columns: x, pictures })
}

/// The images that a source's payload type has.
fn images_of(source: &SourceConfig) -> anyhow::Result<Images> {
    let fields = source.payload.iter().flat_map(|payload| &payload.fields);
    let mut images = fields.filter(|field| field.name == "images");
    let shape = images.next().map(|field| field.shape.clone()).unwrap_or_default();
    let sizes = shape.iter().map(|&size| u32::try_from(size).ok()).collect::<Option<Vec<u32>>>();
    let Some([pulses, y, x]) = sizes.as_deref() else {
        let name = &source.name;
        let expected = "expected the preset's payload, with a field images of pulses, rows and \
                        columns";
        anyhow::bail!(UsageError(format!("source {name:?}: {expected}, got none")));
    };
    let found = Images { pulses: *pulses, y: *y, x: *x };
    if source.payload.as_ref() != Some(&found.payload_type()) {
        let expected = "expected the preset's payload (docs/spec/train-transfer.md, section 6)";
        anyhow::bail!(UsageError(format!("source {:?}: {expected}, got another", source.name)));
    }
    Ok(found)
}

pub(super) fn run(
    mut config: TrainConfig,
    arguments: &Arguments,
    out: &mut Out,
) -> anyhow::Result<Exit> {
    // A timer beside the feeders; it ends with them.
    let mut timing = None;
    if arguments.listen.is_some() {
        let timer = emulate_timer::timer(arguments, TRAINS_HZ_DEFAULT)?;
        config.timer = Some(timer.address());
        timing = Some(EmulatorThread::start_timer(timer)?);
    }
    let report = follow(EmulatorThread::start_trains(config)?, live_line, out)?;
    let timer = timing.map(EmulatorThread::finish).transpose()?;
    say_report(&Report { trains: &report, timer: timer.as_ref() }, out)?;
    Ok(if report.packets_unsent == 0 { Exit::Done } else { Exit::Loss })
}

fn live_line(live: &EmulatorLive, seconds: f64) -> String {
    let bytes = live.bytes.load(Relaxed);
    format!(
        "{seconds:.1} s  {} trains  {} packets  {}  {}/s",
        grouped(live.events.load(Relaxed)),
        grouped(live.packets.load(Relaxed)),
        Bytes(bytes),
        Bytes((bytes as f64 / seconds) as u64)
    )
}

/// What the feeders of this process sent, and the timer beside them if there is one.
#[derive(serde::Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    trains: &'a TrainReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    timer: Option<&'a TimerReport>,
}

fn say_report(report: &Report<'_>, out: &mut Out) -> anyhow::Result<()> {
    if out.json {
        return Ok(out.object(report)?);
    }
    if let Some(timer) = report.timer {
        emulate_timer::say_report(timer, out)?;
    }
    let report = report.trains;
    let seconds = report.seconds.max(1e-9);
    out.line(format_args!(
        "Sent {} trains of {} in {:.1} s ({} trains/s, {} packets), seed {}, {:.0} % of a CPU.",
        grouped(report.trains),
        Bytes(report.train_bytes),
        report.seconds,
        Count(report.trains as f64 / seconds),
        grouped(report.packets),
        report.seed,
        report.cpu_ns as f64 / 1e7 / seconds
    ))?;
    for (what, count, unit) in [
        ("left out on purpose", report.dropped.len() as u64, "packets"),
        ("not taken by the kernel", report.packets_unsent, "packets"),
        ("skipped, their tick came too early", report.trains_skipped, "trains"),
    ] {
        if count > 0 {
            out.line(format_args!("  {what}: {} {unit}", grouped(count)))?;
        }
    }
    Ok(())
}

/// Bytes of a file of images, or of what is taken of a run.
const GIVEN_BYTES_MAX: u64 = 1 << 30;
