//! Fuzzing with libFuzzer on the stable compiler.
//!
//! Coverage comes from LLVM's pass `sancov-module`, which `-Cpasses` reaches without nightly. What
//! nightly would add is the address sanitizer; the decoders have no `unsafe` for it to watch. The
//! seeds stand in fuzz/corpus/TARGET; what a run finds goes to fuzz/found/TARGET, and an input that
//! fails to fuzz/artifacts/TARGET.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::MetadataCommand;

use crate::process::{Steps, output};
use crate::repository::Repository;

const SECONDS_DEFAULT: u64 = 60;

/// More memory than any input may make a decoder take, the corpus included.
const MEMORY_MIB_MAX: u64 = 512;

/// Far longer than any input may take, also on a machine that has other things to do.
const INPUT_SECONDS_MAX: u64 = 300;

/// One udp datagram fits, and so does a small file of several frames.
const INPUT_BYTES_MAX: u64 = 65_536;

/// What cargo-fuzz would set, less what needs nightly.
const RUSTFLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Dwarnings",
    "-Ccodegen-units=1",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];

/// Which targets run and for how long.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    target: Option<String>,
    seconds: u64,
}

impl Options {
    /// Reads `[TARGET] [--seconds N]`.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { target: None, seconds: SECONDS_DEFAULT };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == "--seconds" {
                let number = rest.next().context("--seconds needs a number")?;
                options.seconds = number.parse().context("--seconds needs a number")?;
                ensure!(options.seconds > 0, "--seconds 0 would never end");
            } else if options.target.is_none() && !argument.starts_with('-') {
                options.target = Some(argument.clone());
            } else {
                bail!("cannot read `{argument}`: fuzz [TARGET] [--seconds N]");
            }
        }
        Ok(options)
    }
}

/// Builds the targets and runs each; fails when an input fails.
pub fn run(options: &Options) -> Result<()> {
    let repository = Repository::open()?;
    let folder = repository.root.join("fuzz");
    let (targets, build_folder) = targets(&folder, options.target.as_deref())?;
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    output(Command::new(compiler).arg("--version"))
        .context("libFuzzer needs a C++ compiler (Debian: package g++)")?;
    let host = host(&mut repository.cargo())?;

    let steps = Steps::beside(repository.target.join("steps"))?;
    // With a target named, the flags do not reach build scripts, which could not be linked with
    // them.
    let mut build = repository.cargo();
    build.args(["build", "--release", "--locked", "--target", &host]).current_dir(&folder);
    build.env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS.join("\u{1f}"));
    let built = steps.run("fuzz: build", &[], &mut build);
    let programs = build_folder.join(&host).join("release");
    let mut commands = Vec::new();
    for target in targets {
        let found = folder.join("found").join(&target);
        let artifacts = folder.join("artifacts").join(&target);
        std::fs::create_dir_all(&found)?;
        std::fs::create_dir_all(&artifacts)?;
        let mut program = Command::new(programs.join(&target));
        program.args([&found, &folder.join("corpus").join(&target)]);
        program.arg(format!("-artifact_prefix={}/", artifacts.display()));
        program.arg(format!("-max_total_time={}", options.seconds));
        program.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        program.arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
        program.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
        program.args(["-verbosity=0", "-print_final_stats=1"]);
        commands.push((format!("fuzz: {target}"), program));
    }
    // Each has one thread.
    for some in commands.chunks_mut(std::thread::available_parallelism()?.get()) {
        std::thread::scope(|scope| {
            for (name, program) in some {
                scope.spawn(|| steps.run(name, &[built], program));
            }
        });
    }
    steps.finish("fuzz")
}

/// The names of the targets, each with seeds, and the folder where they are built.
fn targets(folder: &Path, chosen: Option<&str>) -> Result<(Vec<String>, std::path::PathBuf)> {
    let manifest = folder.join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec()?;
    let mut names: Vec<String> = Vec::new();
    for target in metadata.packages.iter().flat_map(|package| &package.targets) {
        if chosen.is_none_or(|chosen| chosen == target.name) {
            names.push(target.name.clone());
        }
    }
    if names.is_empty() {
        bail!("fuzz/Cargo.toml has no target {}", chosen.unwrap_or("at all"));
    }
    for name in &names {
        let seeds = std::fs::read_dir(folder.join("corpus").join(name));
        ensure!(seeds.is_ok_and(|mut seeds| seeds.next().is_some()), "fuzz/corpus/{name} is empty");
    }
    Ok((names, metadata.target_directory.into_std_path_buf()))
}

/// The name of this machine's own compilation target.
fn host(cargo: &mut Command) -> Result<String> {
    let version = output(cargo.arg("-vV"))?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("cargo -vV names no host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options> {
        Options::parse(&arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn target_and_seconds_are_read_in_any_order() {
        let wanted = Options { target: Some("hadtu_packet".to_owned()), seconds: 5 };
        assert_eq!(parse(&["hadtu_packet", "--seconds", "5"]).unwrap(), wanted);
        assert_eq!(parse(&["--seconds", "5", "hadtu_packet"]).unwrap(), wanted);
        assert_eq!(parse(&[]).unwrap(), Options { target: None, seconds: SECONDS_DEFAULT });
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(parse(&["--seconds"]).is_err());
        assert!(parse(&["--seconds", "0"]).is_err());
        assert!(parse(&["--forever"]).is_err());
        assert!(parse(&["one", "two"]).is_err());
    }
}
