//! The commands that are a sequence of steps: demo, test, check, bench, docs.

use std::process::Command;

use anyhow::Result;

use crate::process::{Steps, succeed};
use crate::python::Python;
use crate::repository::Repository;
use crate::tidy;
use crate::web::{Web, chromium};

/// Every bench, reduced, so that none can rot: the arguments of one command each.
const BENCHES_REDUCED: &[&[&str]] = &[
    &["bench", "limits", "--quick"],
    &["bench", "hades", "--quick"],
    &["bench", "codecs", "--quick"],
    &["bench", "ligo-read", "--quick"],
    &["bench", "ligo-space", "--quick"],
    &["bench", "ligo-record", "--quick"],
    &["bench", "control", "--quick"],
];

/// Folders that commands make, besides cargo's.
const MADE: &[&str] = &[
    ".venv",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "fuzz/target",
    "fuzz/found",
    "web/node_modules",
    "web/dist",
    "web/test-results",
];

/// Builds the program and runs its demonstration with `arguments`.
pub fn demo(arguments: &[String]) -> Result<()> {
    let repository = Repository::open()?;
    crate::web::build()?;
    succeed(&mut build(&repository))?;
    succeed(Command::new(repository.program()).arg("demo").args(arguments))
}

/// Runs every test there is. What fails keeps only those from running that need what it makes.
pub fn test() -> Result<()> {
    let repository = Repository::open()?;
    let mut steps = Steps::default();
    // First, since the program holds the page that was there when it was built.
    let web = Web::of(&repository);
    let made = web.build(&mut steps);
    let built = steps.run("rust: build the program", &[], &mut build(&repository));
    let mut tests = repository.cargo();
    tests.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    steps.run("rust: cargo test", &[], &mut tests);
    let python = Python::prepare(&repository, &mut steps)?;
    python.test(&mut steps, built);
    web.test(&mut steps, made, (&repository.program(), built));
    for arguments in BENCHES_REDUCED {
        let mut bench = Command::new(repository.program());
        let folder = repository.target.join("bench");
        bench.args(*arguments).arg("--out").arg(&folder).arg("--scratch").arg(folder.join("runs"));
        bench.current_dir(&repository.root).env("CATCHMENT_PYTHON", python.interpreter());
        let needs = [built, python.ready()];
        steps.run(&format!("catchment {}", arguments.join(" ")), &needs, &mut bench);
    }
    steps.finish("test")
}

/// Tests the page over a recorder with emulated sources.
pub fn web_real() -> Result<()> {
    let repository = Repository::open()?;
    let mut steps = Steps::default();
    let web = Web::of(&repository);
    let made = web.build(&mut steps);
    let built = steps.run("rust: build the program", &[], &mut build(&repository));
    let browser = steps.time("web: Chromium", &[], chromium);
    web.test_real(&mut steps, (made, browser), (&repository.program(), built));
    steps.finish("web --real")
}

/// Checks form, lints, the house's rules, docs and types.
pub fn check() -> Result<()> {
    let repository = Repository::open()?;
    let mut steps = Steps::default();
    let format = ["fmt", "--all", "--check"];
    steps.run("rust: format", &[], repository.cargo().args(format));
    let fuzz_manifest = ["--manifest-path", "fuzz/Cargo.toml"];
    steps.run("fuzz: format", &[], repository.cargo().args(format).args(fuzz_manifest));
    steps.time("tidy", &[], tidy::check);
    let mut clippy = repository.cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--locked", "--keep-going"]);
    steps.run("rust: clippy", &[], clippy.args(["--", "-D", "warnings"]));
    steps.run("rust: docs", &[], &mut reference(&repository));
    Python::prepare(&repository, &mut steps)?.check(&mut steps);
    steps.finish("check")
}

/// Runs one bench with its arguments, or all of them.
pub fn bench(arguments: &[String]) -> Result<()> {
    let repository = Repository::open()?;
    succeed(&mut build(&repository))?;
    let all = ["limits", "hades", "codecs", "ligo-read", "ligo-space", "ligo-record", "control"];
    let all = all.map(|name| vec![name.to_owned()]);
    let one = [arguments.to_vec()];
    for bench in if arguments.is_empty() { &all[..] } else { &one } {
        let mut program = Command::new(repository.program());
        succeed(program.arg("bench").args(bench).current_dir(&repository.root))?;
    }
    Ok(())
}

/// Builds the crates' reference and checks every link.
pub fn docs() -> Result<()> {
    let repository = Repository::open()?;
    let mut steps = Steps::default();
    steps.run("rust: docs", &[], &mut reference(&repository));
    steps.time("links", &[], tidy::check_pages);
    steps.finish("docs")?;
    println!("{}", repository.target.join("doc/catchment_cli/index.html").display());
    Ok(())
}

/// Removes what builds have made, the Python environment and what the fuzzer found; recorded runs
/// stay.
pub fn clean() -> Result<()> {
    let repository = Repository::open()?;
    for folder in MADE {
        let folder = repository.root.join(folder);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
    }
    succeed(repository.cargo().arg("clean"))
}

fn build(repository: &Repository) -> Command {
    let mut command = repository.cargo();
    command.args(["build", "--release", "--locked", "--package", "catchment-cli"]);
    command
}

fn reference(repository: &Repository) -> Command {
    let mut command = repository.cargo();
    command.args(["doc", "--no-deps", "--workspace", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}
