//! The simulator: seeds, and whether it finds planted defects.
//!
//! Planted defects are patches. Each is applied to a copy of the committed tree in target/mutants,
//! which is built there. Those in crates/testing/sim/mutants the simulator must find; those in
//! crates/io/disk/mutants are of code that it replaces, and the tests of every store must find
//! them. What is not committed is not in the copy.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{output, succeed};
use crate::repository::Repository;

/// Seeds within which every planted defect must be found.
const SEEDS_MAX: u64 = 1_000;
/// The same with events by time, and with storage nodes, which come before them.
const SEEDS_BY_TIME: &str = "200";
const SEEDS_OF_STORES: &str = "200";

/// Builds the simulator and runs it with these arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let repository = Repository::open()?;
    succeed(repository.cargo().args(BUILD))?;
    let mut program = Command::new(repository.target.join("release/catchment-sim"));
    succeed(program.args(arguments).current_dir(&repository.root))
}

/// Plants each defect, or those whose names begin with one of the arguments, and has it found.
pub fn mutants(arguments: &[String]) -> Result<()> {
    let repository = Repository::open()?;
    let copy = repository.target.join("mutants/tree");
    let build = repository.target.join("mutants/target");
    let cargo = || {
        let mut cargo = repository.cargo();
        cargo.current_dir(&copy).env("CARGO_TARGET_DIR", &build);
        cargo
    };
    let mut table = Vec::new();
    let finders: [(&str, Finder); 2] = [
        ("crates/testing/sim/mutants", find_by_simulator),
        ("crates/io/disk/mutants", find_by_tests),
    ];
    for (folder, find) in finders {
        // What fails without a planted defect finds none.
        plant(&repository, &copy, None)?;
        let found = find(&cargo, &build).with_context(|| folder.to_owned())?;
        ensure!(found == NOT_FOUND, "without a planted defect: {found}");
        for patch in patches(&repository.root.join(folder))? {
            let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_meant = arguments.iter().any(|argument| name.starts_with(argument.as_str()));
            if !arguments.is_empty() && !is_meant {
                continue;
            }
            plant(&repository, &copy, Some(&patch))?;
            let found = find(&cargo, &build).with_context(|| name.clone())?;
            println!("{name}: {found}");
            table.push((name, found));
        }
    }
    println!("\n| planted defect | found by |\n|---|---|");
    table.iter().for_each(|(name, found)| println!("| {name} | {found} |"));
    let missed: Vec<_> = table.iter().filter(|(_, found)| found == NOT_FOUND).collect();
    ensure!(missed.is_empty(), "not found, of {SEEDS_MAX} seeds or by the tests: {missed:?}");
    Ok(())
}

fn patches(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir()?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Makes the copy what is committed, and applies a patch to it, if there is one. Files that stay as
/// they are keep their times, so that cargo builds only what a patch changes.
fn plant(repository: &Repository, copy: &Path, patch: Option<&Path>) -> Result<()> {
    let git = |folder: &Path, arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(folder).args(arguments);
        git
    };
    if !copy.join(".git").exists() {
        let copy = copy.to_string_lossy();
        succeed(&mut git(&repository.root, &["clone", "--quiet", "--shared", ".", &copy]))?;
    }
    let head = output(&mut git(&repository.root, &["rev-parse", "HEAD"]))?;
    let head = head.trim();
    succeed(&mut git(copy, &["fetch", "--quiet", &repository.root.to_string_lossy(), "HEAD"]))?;
    succeed(&mut git(copy, &["reset", "--quiet", "--hard", head]))?;
    match patch.map(Path::to_string_lossy) {
        Some(patch) => succeed(&mut git(copy, &["apply", &patch])),
        None => Ok(()),
    }
}

/// Builds the copy, given a cargo that runs in it and where that builds, and has a defect found.
type Finder = fn(&dyn Fn() -> Command, &Path) -> Result<String>;

/// The first seed that fails, and how it does: of those that once failed, or from 0 on, by time,
/// with storage nodes, and by number.
fn find_by_simulator(cargo: &dyn Fn() -> Command, build: &Path) -> Result<String> {
    succeed(cargo().args(BUILD)).context("it does not compile")?;
    let count = SEEDS_MAX.to_string();
    let first = ["0", "--first", "--threads", "1", "--seeds", &count];
    let by_time = ["0", "--time", "--first", "--threads", "1", "--seeds", SEEDS_BY_TIME];
    let stores = ["0", "--stores", "--first", "--threads", "1", "--seeds", SEEDS_OF_STORES];
    let kept = KEPT_SEEDS.lines().map(|line| line.split('#').next().unwrap_or_default());
    let kept = kept.map(|case| case.split_whitespace().collect::<Vec<_>>());
    let first = [by_time.to_vec(), stores.to_vec(), first.to_vec()];
    for arguments in kept.filter(|case| !case.is_empty()).chain(first) {
        let mut program = Command::new(build.join("release/catchment-sim"));
        let printed = program.args(arguments).arg("--as-it-is").output()?;
        let printed = String::from_utf8_lossy(&printed.stdout);
        if let Some(line) = printed.lines().find_map(|line| line.strip_prefix("seed ")) {
            return Ok(format!("seed {line}"));
        }
    }
    Ok(NOT_FOUND.to_owned())
}

/// The first test of a store that fails.
fn find_by_tests(cargo: &dyn Fn() -> Command, _build: &Path) -> Result<String> {
    succeed(cargo().args(TESTS).arg("--no-run")).context("it does not compile")?;
    let printed = cargo().args(TESTS).arg("stores::").output()?;
    let printed = String::from_utf8_lossy(&printed.stdout);
    let failed = printed.lines().find_map(|line| {
        line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(|test| format!("test {test}"))
    });
    Ok(failed.unwrap_or_else(|| NOT_FOUND.to_owned()))
}

const KEPT_SEEDS: &str = include_str!("../../crates/testing/sim/seeds.txt");
const NOT_FOUND: &str = "nothing";
const BUILD: [&str; 5] = ["build", "--release", "--locked", "--package", "catchment-sim"];
const TESTS: [&str; 6] = ["test", "--locked", "--package", "catchment-disk", "--test", "all"];
