//! The project's own commands. `make NAME` and CI call them; each is `cargo xtask NAME`.

mod commands;
mod debian;
mod fuzz;
mod process;
mod python;
mod repository;
mod sim;
mod test_long;
mod tidy;
mod web;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask COMMAND

  demo [ARGS]                      build and run the demonstration
  build                            build the program, target/release/catchment
  test                             every test: Rust, Python, end to end, reduced benches
  test --busy                      the Rust tests three times, beside four spinning processes
  test-long [NAMES]                networks that go down and processes that are killed (as root), a
                                   thread that is held up, two soaks, planted defects, 20,000 new
                                   seeds and 3,000 of each kind, 10 min of each fuzz target; or
                                   some of these steps. Writes bench/results/test-long.md
  check                            format, lints, tidy, docs, Python's types
  tidy                             the house's rules
  sim [SEED] [ARGS]                seeds of the simulator until stopped, or one; sim --help
  sim-mutants [NAME]               whether the simulator finds planted defects
  fuzz [TARGET] [--seconds N]      the fuzz targets, N seconds each (60)
  bench [NAME [ARGS]]              the benches, or one of them
  web [--real]                     the page, into web/dist; --real tests it over a recorder
  docs                             the reference of the crates, and all links
  clean                            remove what builds have made";

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let Some((command, rest)) = arguments.split_first() else { bail!("{USAGE}") };
    match (command.as_str(), rest) {
        ("demo", _) => commands::demo(rest),
        ("build", []) => commands::program(),
        ("test", []) => commands::test(),
        ("test", [busy]) if busy == "--busy" => commands::test_busy(),
        ("test-long", _) => test_long::run(rest),
        ("check", []) => commands::check(),
        ("tidy", []) => tidy::check(),
        ("fuzz", _) => fuzz::run(&fuzz::Options::parse(rest)?),
        ("sim", _) => sim::run(rest),
        ("sim-mutants", _) => sim::mutants(rest),
        ("bench", _) => commands::bench(rest),
        ("web", []) => web::build(),
        ("web", [real]) if real == "--real" => commands::web_real(),
        ("docs", []) => commands::docs(),
        ("clean", []) => commands::clean(),
        ("help" | "--help" | "-h", _) => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("cannot read `{}`\n\n{USAGE}", arguments.join(" ")),
    }
}
