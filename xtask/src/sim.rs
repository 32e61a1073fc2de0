//! The simulator: seeds, and whether it finds planted defects.
//!
//! Planted defects are patches in crates/testing/sim/mutants. Each is applied to a copy of the
//! committed tree in target/mutants, which is built there, and the simulator runs until it finds
//! it. What is not committed is not in the copy.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{output, succeed};
use crate::repository::Repository;

/// Seeds within which every planted defect must be found.
const SEEDS_MAX: u64 = 1_000;

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
    let mut table = Vec::new();
    for patch in patches(&repository.root.join("crates/testing/sim/mutants"))? {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_meant = arguments.iter().any(|argument| name.starts_with(argument.as_str()));
        if !arguments.is_empty() && !is_meant {
            continue;
        }
        plant(&repository, &copy, &patch)?;
        let mut cargo = repository.cargo();
        cargo.args(BUILD).current_dir(&copy).env("CARGO_TARGET_DIR", &build);
        succeed(&mut cargo).with_context(|| format!("{name} does not compile"))?;
        let found = find(&build.join("release/catchment-sim"))?;
        println!("{name}: {found}");
        table.push((name, found));
    }
    println!("\n| planted defect | found by |\n|---|---|");
    table.iter().for_each(|(name, found)| println!("| {name} | {found} |"));
    let missed: Vec<_> = table.iter().filter(|(_, found)| found == NOT_FOUND).collect();
    ensure!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
    Ok(())
}

fn patches(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir()?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Makes the copy what is committed, and applies a patch to it. Files that stay as they are keep
/// their times, so that cargo builds only what a patch changes.
fn plant(repository: &Repository, copy: &Path, patch: &Path) -> Result<()> {
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
    let patch = patch.to_string_lossy();
    succeed(&mut git(copy, &["apply", &patch]))
}

/// The first seed that fails, and how it does.
fn find(simulator: &Path) -> Result<String> {
    let mut program = Command::new(simulator);
    program.args(["0", "--first", "--as-it-is", "--threads", "1", "--seeds"]);
    let printed = program.arg(SEEDS_MAX.to_string()).output()?;
    let printed = String::from_utf8_lossy(&printed.stdout);
    let failed = printed.lines().find_map(|line| line.strip_prefix("seed "));
    Ok(failed.map_or_else(|| NOT_FOUND.to_owned(), |line| format!("seed {line}")))
}

const NOT_FOUND: &str = "no seed";
const BUILD: [&str; 5] = ["build", "--release", "--locked", "--package", "catchment-sim"];
