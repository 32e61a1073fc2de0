//! `catchment store`: a storage node.

use std::path::PathBuf;
use std::sync::Arc;

use catchment_config::StoreHigh;
use catchment_console::{Exit, Out, UsageError, complain};
use catchment_control::{
    Configuration, ConfigurationFault, Configure, LogFormat, LogLevel, Node, Settings,
    check_certificate, check_protection, own_folder,
};
use catchment_model::units::{Bytes, counted};
use catchment_session::{Ends, own_settings, seconds};

use crate::commands::run_control::serve;

/// Takes frames from recorders as CONFIG says, until Ctrl-C or --seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file (TOML), with [store]
    config: PathBuf,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Only check the configuration
    #[arg(long)]
    check: bool,
}

/// The file of a storage node on disk.
struct File(PathBuf);

impl Configure for File {
    fn read(&self) -> Result<String, String> {
        let path = self.0.display();
        std::fs::read_to_string(&self.0).map_err(|error| format!("{path}: {error}"))
    }

    fn check(&self, text: &str) -> Result<Configuration, ConfigurationFault> {
        let high = catchment_config::check_store(&self.0, text);
        let StoreHigh { store, control, rules } = high.map_err(|error| ConfigurationFault {
            message: error.message,
            position: error.place,
        })?;
        let control = control.map(|control| format!("{control:?}")).unwrap_or_default();
        Ok(Configuration::of_store(store, rules, control))
    }
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let Arguments { config: path, seconds, check } = arguments;
    let StoreHigh { store, control, .. } = catchment_config::load_store(&path)?;
    let (settings, log) = match control {
        Some(control) => (control.settings, (control.log, control.level)),
        None => (own_settings(None), (LogFormat::None, LogLevel::INFO)),
    };
    if check {
        return say_checked(&path, &settings, &store.folders, out);
    }
    let folders = store.folders.iter().map(|folder| folder.display().to_string());
    let folders: Vec<String> = folders.collect();
    let ends = Ends { seconds, events: None };
    let begun = |node: &Node, out: &mut Out| {
        let Some(address) = node.store_address() else { return Ok(()) };
        out.say(format_args!("Storing at {address}, in {}", folders.join(" and ")))?;
        for folder in node.state().store.iter().flat_map(|store| &store.folders) {
            if let Some(fault) = &folder.fault {
                complain(format_args!("{} is not used: {fault}", folder.path));
            }
        }
        if out.json {
            let urls = serde_json::json!({
                "address": address, "folders": folders, "url": node.url(),
            });
            out.object(&urls)?;
        }
        Ok(())
    };
    let ended = serve(Arc::new(File(path)), settings, log, ends, out, begun)?;
    if let Some(last) = &ended.stored {
        if out.json {
            out.object(last)?;
        }
        let frames = counted(last.frames_taken, "frame");
        let streams = counted(last.streams.len() as u64, "stream");
        let bytes = Bytes(last.bytes_taken);
        out.say(format_args!("Stored {frames}, {bytes}, of {streams}"))?;
        for stream in &last.streams {
            if let Some(trouble) = &stream.trouble {
                out.say(format_args!("{}: {trouble}", stream.name))?;
            }
        }
    }
    Ok(match ended.failed {
        Some(why) => {
            complain(why);
            Exit::Failed
        }
        None => Exit::Done,
    })
}

fn say_checked(
    path: &std::path::Path,
    settings: &Settings,
    folders: &[PathBuf],
    out: &mut Out,
) -> anyhow::Result<Exit> {
    let own = folders.first().map(|folder| own_folder(folder)).unwrap_or_default();
    check_certificate(settings)
        .and_then(|()| check_protection(settings, &own))
        .map_err(|error| UsageError(error.to_string()))?;
    out.say(format_args!("{}: a storage node, no fault", path.display()))?;
    Ok(Exit::Done)
}
