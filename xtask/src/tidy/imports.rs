//! What a package may depend on, from what its Cargo.toml says.

use crate::repository::{Dependency, Package};
use crate::tidy::Problem;

/// The floors, downwards. A package depends on floors below its own; `core` and `io` stand side by
/// side and never see each other. `clients` is what others link; `testing` may use all and is used
/// by tests alone.
const FLOORS: &[(&str, u32)] = &[
    ("testing", 6),
    ("top", 5),
    ("node", 4),
    ("clients", 3),
    ("core", 2),
    ("io", 2),
    ("format", 1),
    ("base", 0),
];

/// Dependencies within a floor, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("control", "recorder", "control starts, stops and watches recorders"),
    ("control", "emulator", "control starts and stops emulated detectors"),
    ("control", "store", "control starts, stops and watches storage nodes"),
    ("control", "storage", "samples of what was recorded are read from the files"),
    ("control", "catalog", "runs get their numbers from the catalogue"),
    ("emulator", "runner", "the emulators' senders are agents too"),
    ("recorder", "runner", "the recorder starts its agents' threads"),
    ("frame", "codec", "columns of the frame file are stored by the codecs"),
    ("telemetry", "model", "live counters count in the ledger's words"),
    ("cli", "bench", "the benches are a subcommand of the one binary"),
    ("cli", "config", "commands read configuration files"),
    ("cli", "console", "commands write to a terminal and end on a signal"),
    ("cli", "session", "`run` shows its recording as the demonstration does"),
    ("session", "config", "the demonstration records a preset"),
    ("session", "console", "a recording is shown on a terminal and ends on a signal"),
    ("bench", "config", "the benches record a preset, as a configuration file describes it"),
    ("bench", "console", "the benches write to a terminal and end on a signal"),
    ("python", "cli", "the Python package installs the command `catchment` too"),
    ("catalog", "storage", "the catalogue is made from what the files say"),
    ("convert", "storage", "GWF files are converted from and to runs"),
    ("recorder", "encoder", "the recorder's frames are encoded by the pool"),
    ("writer", "encoder", "columns of all frames are encoded by the pool"),
    ("recorder", "writer", "the recorder's frames go into files by the one writer"),
    ("store", "encoder", "buffers of columns are the encoder's"),
    ("store", "runner", "the storage node starts its agents' threads"),
    ("store", "storage", "the storage node ends what an earlier one has left as a recorder does"),
    ("store", "writer", "frames of a storage node go into files by the one writer"),
    ("storage", "writer", "runs that are not recorded are written by the one writer, too"),
    ("storage", "encoder", "and their columns are encoded by the pool"),
    ("storage", "runner", "by agents on threads"),
    (
        "recorder",
        "storage",
        "trends are runs that storage writes; tests read back what was recorded",
    ),
];

/// Those that only tests have.
const EXCEPTIONS_OF_TESTS: &[(&str, &str, &str)] = &[
    ("recorder", "emulator", "the recorder's tests need a sender"),
    ("store", "recorder", "what a storage node stores comes from a recorder"),
];

/// Crates of others that give core and format what these floors must not have.
const IMPURE: &[&str] = &[
    "crossbeam-channel",
    "crossbeam-queue",
    "getrandom",
    "io-uring",
    "libc",
    "mio",
    "nix",
    "rand",
    "rayon",
    "rtrb",
    "signal-hook",
    "socket2",
    "tempfile",
    "tokio",
];

/// Packages whose errors end a program and are read by people alone.
const PROGRAMS: &[&str] = &["catchment-bench", "catchment-cli", "catchment-session", "xtask"];

/// Everything that the packages depend on and should not.
pub fn check(packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        if let Err(what) = place(package) {
            problems.push(Problem::new(&package.folder, what));
            continue;
        }
        if !package.manifest.contains("[lints]\nworkspace = true") {
            problems.push(Problem::new(&package.folder, "does not take the workspace's lints"));
        }
        for dependency in &package.dependencies {
            let target = packages.iter().find(|other| other.name == dependency.name);
            let verdict = match target {
                Some(target) => inside(package, target, dependency.dev),
                None => outside(package, dependency),
            };
            if let Err(what) = verdict {
                problems.push(Problem::new(&package.folder, what));
            }
        }
    }
    problems
}

/// A package stands in crates/FLOOR/CRATE under the name catchment-CRATE; xtask and what is not in
/// crates/ may be called as they like.
fn place(package: &Package) -> Result<(), String> {
    let parts: Vec<&str> = package.folder.split('/').collect();
    match parts[..] {
        ["crates", floor, name] => {
            if level(floor).is_none() {
                return Err(format!("`{floor}` is no floor"));
            }
            let wanted = format!("catchment-{name}");
            if package.name != wanted {
                return Err(format!("is called `{}`, not `{wanted}`", package.name));
            }
            Ok(())
        }
        ["crates", ..] => Err("stands elsewhere than in crates/FLOOR/CRATE".to_owned()),
        _ => Ok(()),
    }
}

/// Whether `from` may depend on `to`, both in this workspace.
fn inside(from: &Package, to: &Package, dev: bool) -> Result<(), String> {
    let Some(to_floor) = floor(to) else {
        return Err(format!("depends on `{}`, which is no part of the product", to.name));
    };
    let Some(from_floor) = floor(from) else {
        return Err(format!("depends on `{}`, but stands outside the floors", to.name));
    };
    if to_floor == "testing" {
        return if dev || from_floor == "testing" {
            Ok(())
        } else {
            Err(format!("depends on `{}` outside its tests", to.name))
        };
    }
    let of_tests = if dev { EXCEPTIONS_OF_TESTS } else { &[] };
    let mut excepted = EXCEPTIONS.iter().chain(of_tests);
    let excepted = excepted.any(|&(one, other, _)| is(from, one) && is(to, other));
    if excepted || level(to_floor) < level(from_floor) {
        Ok(())
    } else {
        Err(format!("depends on `{}`: {from_floor} -> {to_floor} is not downwards", to.name))
    }
}

/// Whether `from` may depend on a crate of others.
fn outside(from: &Package, dependency: &Dependency) -> Result<(), String> {
    let name = dependency.name.as_str();
    if dependency.dev {
        return Ok(());
    }
    if matches!(floor(from), Some("core" | "format")) && IMPURE.contains(&name) {
        return Err(format!(
            "depends on `{name}`: core and format have no sockets, files, threads"
        ));
    }
    if name == "anyhow" && !PROGRAMS.contains(&from.name.as_str()) {
        return Err("depends on `anyhow`: a library's errors are an enum of its own".to_owned());
    }
    Ok(())
}

/// Whether it is the package of that name in its floor.
fn is(package: &Package, name: &str) -> bool {
    package.name.strip_prefix("catchment-") == Some(name)
}

fn floor(package: &Package) -> Option<&str> {
    let folder = package.folder.as_str();
    folder
        .strip_prefix("crates/")
        .or(Some(folder).filter(|it| it.starts_with("clients/")))?
        .split('/')
        .next()
}

fn level(floor: &str) -> Option<u32> {
    FLOORS.iter().find(|(name, _)| *name == floor).map(|(_, level)| *level)
}

#[cfg(test)]
mod tests;
