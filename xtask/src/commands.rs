//! The commands that are a sequence of steps: demo, test, check, bench, docs.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::process::{Step, Steps, succeed};
use crate::python::Python;
use crate::repository::Repository;
use crate::tidy;
use crate::web::{Web, chromium};

/// Every bench.
const BENCHES: [&str; 13] = [
    "limits",
    "builder",
    "hades",
    "alpha",
    "codecs",
    "ligo-read",
    "ligo-space",
    "ligo-record",
    "targets",
    "store",
    "midas-dummy",
    "xfel",
    "control",
];

/// Of cargo: all tests, also after one that failed.
const TESTS: [&str; 4] = ["test", "--workspace", "--locked", "--no-fail-fast"];

/// Spinning processes of `test --busy`, and how often it runs the tests.
const SPINNING: usize = 4;
const BUSY_ROUNDS: usize = 3;

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

/// Builds the demonstration and runs it with `arguments`. Its program is a part of `catchment` that
/// compiles in half the time.
pub fn demo(arguments: &[String]) -> Result<()> {
    let repository = Repository::open()?;
    crate::web::build()?;
    succeed(&mut build(&repository, "catchment-demo"))?;
    succeed(Command::new(repository.target.join("release/catchment-demo")).args(arguments))
}

/// Builds the program, and the page that it serves.
pub fn program() -> Result<()> {
    let repository = Repository::open()?;
    crate::web::build()?;
    succeed(&mut build(&repository, "catchment"))
}

/// Runs every test there is. What fails keeps only those from running that need what it makes. What
/// waits for a browser or a recorder runs beside what compiles. The program and Python's module are
/// tested as the tests are compiled: a release build would take as long as all else.
pub fn test() -> Result<()> {
    let repository = Repository::open()?;
    // The long ones wait for a recorder, a disk or a node: a second one has the CPU meanwhile.
    let test_threads = 2 * std::thread::available_parallelism()?.get();
    let steps = Steps::beside(repository.target.join("steps"))?;
    // First, since the program holds the page that was there when it was built.
    let web = Web::of(&repository);
    let made = web.build(&steps);
    let python = Python::prepare(&repository, &steps)?;
    std::thread::scope(|scope| {
        let page = scope.spawn(|| web.test(&steps, made));
        let mut tests = repository.cargo();
        tests.args(TESTS);
        let built = steps.run("rust: build the tests", &[], tests.arg("--no-run"));
        let (steps, web, python, repository) = (&steps, &web, &python, &repository);
        let program = repository.tested_program();
        scope.spawn(move || {
            let installed = python.install(steps);
            steps.time("c: OpenSSL", &[], crate::debian::openssl);
            python.test(steps, installed, (&program, built));
            let browser = page.join().expect("the page's tests are steps, none of which panics");
            web.test_real(steps, (made, browser), (&program, built));
            // Reduced, so that none can rot.
            BENCHES.iter().for_each(|name| {
                bench_reduced(repository, steps, name, (&program, built, python));
            });
        });
        let mut tests = repository.cargo();
        tests.args(TESTS).env("RUST_TEST_THREADS", test_threads.to_string());
        match mounts_fuse() {
            true => drop(tests.env("CATCHMENT_NEEDS_FUSE", "1")),
            false => println!("tests over FUSE do nothing: none can be mounted here"),
        }
        steps.run("rust: cargo test", &[built], &mut tests);
    });
    steps.finish("test")
}

/// Whether this can mount file systems for tests: one that then does not mount its own fails. It
/// tries, in a namespace of its own: root in a container may lack the right to.
fn mounts_fuse() -> bool {
    let mount = ["--mount", "mount", "-t", "tmpfs", "none", "/mnt"];
    let mounted = Command::new("unshare").args(mount).stderr(Stdio::null()).status();
    let opened = File::options().read(true).write(true).open("/dev/fuse");
    mounted.is_ok_and(|status| status.success()) && opened.is_ok()
}

/// Runs the Rust tests several times with spinning processes beside them: a test that takes the
/// speed of the machine for granted fails here before it fails elsewhere.
pub fn test_busy() -> Result<()> {
    let repository = Repository::open()?;
    let steps = Steps::in_turn();
    let mut tests = repository.cargo();
    let built = steps.run("rust: build the tests", &[], tests.args(TESTS).arg("--no-run"));
    let _spinning = (0..SPINNING).map(|_| Spinning::start()).collect::<Result<Vec<_>>>()?;
    for round in 1..=BUSY_ROUNDS {
        let mut tests = repository.cargo();
        let name = format!("rust: cargo test, busy, {round} of {BUSY_ROUNDS}");
        steps.run(&name, &[built], tests.args(TESTS));
    }
    steps.finish("test --busy")
}

/// A process that spins as long as this one lives.
struct Spinning(std::process::Child);

impl Spinning {
    fn start() -> Result<Self> {
        // `kill -0` sends nothing: it asks whether the process is there, and fails when it is not.
        let spin = "while kill -0 \"$PPID\" 2>/dev/null; do :; done";
        Ok(Self(Command::new("sh").args(["-c", spin]).spawn()?))
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn bench_reduced(
    repository: &Repository,
    steps: &Steps,
    name: &str,
    (program, built, python): (&Path, Step, &Python<'_>),
) {
    let folder = repository.target.join("bench");
    let mut bench = Command::new(program);
    let arguments = ["bench", name, "--quick"];
    bench.args(arguments).arg("--out").arg(&folder).arg("--scratch").arg(folder.join("runs"));
    bench.current_dir(&repository.root).env("CATCHMENT_PYTHON", python.interpreter());
    let needs = [built, python.ready()];
    steps.run(&format!("catchment {}", arguments.join(" ")), &needs, &mut bench);
}

/// Tests the page over a recorder with emulated sources.
pub fn web_real() -> Result<()> {
    let repository = Repository::open()?;
    let steps = Steps::in_turn();
    let web = Web::of(&repository);
    let made = web.build(&steps);
    let built = steps.run("rust: build the program", &[], &mut build(&repository, "catchment"));
    let browser = steps.time("web: Chromium", &[], chromium);
    web.test_real(&steps, (made, browser), (&repository.program(), built));
    steps.finish("web --real")
}

/// Checks form, lints, the house's rules, docs and types; Python's beside Rust's.
pub fn check() -> Result<()> {
    let repository = Repository::open()?;
    let steps = Steps::beside(repository.target.join("steps"))?;
    let python = Python::prepare(&repository, &steps)?;
    std::thread::scope(|scope| {
        scope.spawn(|| python.check(&steps));
        let format = ["fmt", "--all", "--check"];
        steps.run("rust: format", &[], repository.cargo().args(format));
        let fuzz_manifest = ["--manifest-path", "fuzz/Cargo.toml"];
        steps.run("fuzz: format", &[], repository.cargo().args(format).args(fuzz_manifest));
        steps.time("tidy", &[], tidy::check);
        let mut clippy = repository.cargo();
        clippy.args(["clippy", "--workspace", "--all-targets", "--locked", "--keep-going"]);
        steps.run("rust: clippy", &[], clippy.args(["--", "-D", "warnings"]));
        steps.run("rust: docs", &[], &mut reference(&repository));
    });
    steps.finish("check")
}

/// Runs one bench with its arguments, or all of them.
pub fn bench(arguments: &[String]) -> Result<()> {
    let repository = Repository::open()?;
    succeed(&mut build(&repository, "catchment"))?;
    let all = BENCHES.map(|name| vec![name.to_owned()]);
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
    let steps = Steps::in_turn();
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

/// Builds a program. Python's module is named, and not built, so that its features of others'
/// crates are chosen: with others `pip install .` would compile nearly everything once more. So are
/// both programs, which then share what they have in common.
pub fn build(repository: &Repository, program: &str) -> Command {
    let mut command = repository.cargo();
    command.args(["build", "--release", "--locked", "--bin", program]);
    ["cli", "session", "python"].iter().for_each(|name| {
        command.args(["--package", &format!("catchment-{name}")]);
    });
    command
}

fn reference(repository: &Repository) -> Command {
    let mut command = repository.cargo();
    command.args(["doc", "--no-deps", "--workspace", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}
