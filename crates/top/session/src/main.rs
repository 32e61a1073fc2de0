//! `catchment demo` as a program of its own, for `make demo`.

use catchment_console::{Out, outlive_file_limits};
use catchment_session::{EXIT_CODES, demo, exit_code};
use clap::Parser;

/// Records an emulated HADES-like detector of 90 sources and verifies every byte: `catchment demo`
#[derive(Debug, Parser)]
#[command(name = "catchment-demo", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    /// One JSON object on stdout instead of text; what goes wrong is text on stderr all the same
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    arguments: demo::Arguments,
}

fn main() {
    outlive_file_limits();
    let cli = Cli::parse();
    let mut out = Out::stdout(cli.json);
    let result = demo::run(cli.arguments, &mut out);
    std::process::exit(exit_code(result, &mut out));
}
