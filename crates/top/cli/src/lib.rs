//! The command line `catchment`, as a library, so that the Python package starts the same program.
//!
//! Every command has a file in `commands/`, but for two: `demo` is in `catchment-session`, with the
//! view of a recorder at work and the report on a recording, and `bench` is a crate of its own.
//!
//! Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 done, with loss or bad data.

mod captured_streams;
mod captures;
mod commands;
mod export;
mod left_out;
mod names;
mod npy;
mod refs;

use std::ffi::OsString;

use catchment_console::{Exit, Out, outlive_file_limits};
use catchment_session::{EXIT_CODES, exit_code};
use clap::{Parser, Subcommand};

/// Records what detectors send: every fragment built into events, on disk, and accounted for.
#[derive(Debug, Parser)]
#[command(name = "catchment", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    /// One JSON object on stdout instead of text; what goes wrong is text on stderr all the same
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record an emulated HADES-like detector of 90 sources and verify every byte
    Demo(catchment_session::demo::Arguments),
    /// Record the sources of a configuration file until stopped
    Run(commands::run::Arguments),
    /// Run a storage node: take frames from recorders, write them, say what is durable
    Store(commands::store::Arguments),
    /// Query and control a running node
    Ctl(commands::ctl::Arguments),
    /// Manage access tokens
    Token(commands::token::Arguments),
    /// Emulate the sources of a configuration file or a preset
    Emulate(Box<commands::emulate::Arguments>),
    /// Write emulated channels straight into files
    Generate(commands::generate::Arguments),
    /// Show how a declared layout understands a packet
    Decode(commands::decode::Arguments),
    /// Show a file's or a run's header, frames and ledger
    Inspect(commands::inspect::Arguments),
    /// Read events, fragments and channels to .npy, CSV, Parquet, Arrow or raw bytes
    Read(commands::read::Arguments),
    /// Write references with which plain xarray opens a run's channels
    Refs(commands::refs::Arguments),
    /// Write a run's data in other frames, files or codecs
    Reframe(commands::reframe::Arguments),
    /// Make one folder, or one file, of a run's files from several folders
    Merge(commands::merge::Arguments),
    /// Write chosen channels of a run, at lower rates where asked
    Reduce(commands::reduce::Arguments),
    /// Compute trends for a run that was recorded without them
    Trend(commands::trend::Arguments),
    /// Close files that a killed recorder left open
    Repair(commands::repair::Arguments),
    /// Recompute the ledger from the files and compare
    Audit(commands::audit::Arguments),
    /// List, search and annotate the runs of a folder
    Catalog(commands::catalog::Arguments),
    /// Convert GWF files into a run, or a run into GWF files
    Convert(commands::convert::Arguments),
    /// Run benchmarks and compare them with published figures
    Bench(catchment_bench::Arguments),
    /// Record what an emulator sends for as long as it sends, verifying and deleting the files
    Soak(catchment_bench::SoakArguments),
}

/// Runs a command; the first argument is the program's name. Returns the process's exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    outlive_file_limits();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // The closed stream is the one that would carry the message.
            error.print().ok();
            return error.exit_code();
        }
    };
    let mut out = Out::stdout(cli.json);
    let result = dispatch(cli.command, &mut out);
    exit_code(result, &mut out)
}

fn dispatch(command: Command, out: &mut Out) -> anyhow::Result<Exit> {
    match command {
        Command::Demo(arguments) => catchment_session::demo::run(arguments, out),
        Command::Run(arguments) => commands::run::run(arguments, out),
        Command::Store(arguments) => commands::store::run(arguments, out),
        Command::Ctl(arguments) => commands::ctl::run(arguments, out),
        Command::Token(arguments) => commands::token::run(arguments, out),
        Command::Emulate(arguments) => commands::emulate::run(*arguments, out),
        Command::Generate(arguments) => commands::generate::run(arguments, out),
        Command::Decode(arguments) => commands::decode::run(arguments, out),
        Command::Inspect(arguments) => commands::inspect::run(arguments, out),
        Command::Read(arguments) => commands::read::run(arguments, out),
        Command::Refs(arguments) => commands::refs::run(arguments, out),
        Command::Reframe(arguments) => commands::reframe::run(arguments, out),
        Command::Merge(arguments) => commands::merge::run(arguments, out),
        Command::Reduce(arguments) => commands::reduce::run(arguments, out),
        Command::Trend(arguments) => commands::trend::run(arguments, out),
        Command::Repair(arguments) => commands::repair::run(arguments, out),
        Command::Audit(arguments) => commands::audit::run(arguments, out),
        Command::Catalog(arguments) => commands::catalog::run(arguments, out),
        Command::Convert(arguments) => commands::convert::run(arguments, out),
        Command::Bench(arguments) => catchment_bench::run(arguments, out),
        Command::Soak(arguments) => catchment_bench::soak(&arguments, out),
    }
}
