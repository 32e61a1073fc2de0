//! The commands of the README and of the guides, run as they are printed.
//!
//! Every line of a block that is marked `sh` is given to a shell, page by page and in order, in a
//! folder with copies of the examples, the clients, and `run.toml` as the guide for front-ends has
//! it. Three things differ from what a reader types: the examples and commands use an address of
//! this process in place of 127.0.0.1, so that tests beside each other do not share ports; the
//! examples have little memory; and recordings take one second. A command whose remark says `until
//! Ctrl-C` runs until its block ends.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use catchment_model::SourceId;
use catchment_storage::{Run, Verdict, audit};

use crate::support::{only_run, stdout};

/// What `make test` itself does in an environment of its own: its step `pip install .`.
const ELSEWHERE: &[&str] = &["python3 -m venv venv", ". venv/bin/activate", "pip install ."];

/// Commands that report with 3 what a busy machine lost.
const MAY_REPORT_LOSS: &[&str] =
    &["catchment run", "catchment demo", "catchment audit", "catchment ctl state"];

#[test]
fn the_commands_of_the_readme_run_as_printed() {
    run_page("README.md", 8);
}

#[test]
fn the_commands_of_the_operators_guide_run_as_printed() {
    run_page("docs/guide/operating.md", 30);
}

#[test]
fn the_commands_of_the_command_line_guide_run_as_printed() {
    run_page("docs/guide/command-line.md", 25);
}

#[test]
fn the_commands_of_the_front_ends_guide_run_as_printed() {
    run_page("docs/guide/frontend.md", 5);
}

/// The front-end in Rust that the guide shows is an example of its crate, and what the recorder of
/// the guide makes of it. The crate is where the guide says.
#[test]
fn the_front_end_in_rust_is_recorded_as_printed() {
    let page = text("docs/guide/frontend.md");
    let example = text("clients/rust/examples/camera.rs");
    let (_, code) = example.split_once("\n\n").expect("a comment before it");
    assert!(code.lines().count() <= 20);
    assert!(page.contains(&format!("```rust\n{code}```\n")), "not as in the guide:\n{code}");
    let dependency = "catchment-frontend = { path = \"../catchment/clients/rust\" }";
    assert!(page.contains(&format!("```toml\n[dependencies]\n{dependency}\n```\n")));
    assert!(text("clients/rust/Cargo.toml").contains("name = \"catchment-frontend\""));
    let folder = tempfile::tempdir().unwrap();
    let shell = Shell::prepare(folder.path());
    let recorder = Running::start(&shell, "catchment run run.toml");
    let camera = example_program("camera");
    let address = "catchment+tcp://127.0.0.1:7100";
    assert!(code.contains(address));
    shell.run("camera.rs", "", &format!("{} {address}", camera.display()));
    recorder.end("camera.rs", false);
    let run = Run::open(only_run(folder.path())).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let mut keys = Vec::new();
    for frame in 0..run.frames().len() {
        let column = run.fragments(frame, SourceId(0)).unwrap();
        for (row, &key) in column.events().keys().iter().enumerate() {
            let image = column.fragment(row).expect("of its only source");
            assert!(image[..] == [key as u8; 10_000], "image {key}");
            keys.push(key);
        }
    }
    assert!(keys.into_iter().eq(0..1_000));
}

/// An example's program. All tests of the workspace make it before; some of them alone do not.
fn example_program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_catchment")).with_file_name("examples").join(name);
    if !program.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--workspace", "--locked", "--example", name]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        // With what cargo says of the tests' own package, all that looks at it would be built anew.
        let of_package =
            |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].map(|of| name.starts_with(of));
        for (name, _) in std::env::vars_os() {
            if of_package(&name.to_string_lossy()).contains(&true) {
                build.env_remove(name);
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        assert!(build.current_dir(root).status().expect("cargo").success());
    }
    program
}

#[test]
fn each_command_and_target_that_the_pages_name_exists() {
    let folder = tempfile::tempdir().unwrap();
    let help = stdout(folder.path(), &["--help"], 0);
    let makefile = text("Makefile");
    for page in
        ["README.md", "operating.md", "targets.md", "command-line.md", "python.md", "frontend.md"]
    {
        let page = if page == "README.md" { page.to_owned() } else { format!("docs/guide/{page}") };
        let text = text(&page);
        for (program, known) in [("catchment ", &help), ("make ", &makefile)] {
            let spans = text.split('`').skip(1).step_by(2);
            let lines = text.lines().chain(spans);
            let names =
                lines.filter_map(|line| line.strip_prefix(program)?.split_whitespace().next());
            for name in names.filter(|name| name.chars().all(|letter| letter.is_ascii_lowercase()))
            {
                let listed = [format!("\n  {name} "), format!("\n{name}:")];
                assert!(listed.iter().any(|name| known.contains(name)), "{page}: {program}{name}");
            }
        }
    }
}

/// A page, by its path in the repository.
fn text(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of a page's blocks of a language: of `sh`, commands with their remarks.
fn blocks(page: &str, language: &str) -> Vec<Vec<String>> {
    let mut blocks = Vec::new();
    let text = text(page);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("```") == Some(language) {
            blocks.push(
                lines.by_ref().take_while(|line| *line != "```").map(str::to_owned).collect(),
            );
        }
    }
    blocks
}

fn run_page(page: &str, commands_min: usize) {
    let folder = tempfile::tempdir().unwrap();
    let shell = Shell::prepare(folder.path());
    let (mut assignments, mut commands) = (String::new(), 0);
    for block in blocks(page, "sh") {
        let mut running = Vec::new();
        for line in &block {
            let (command, remark) = line.split_once(" #").unwrap_or((line, ""));
            let command = command.trim_end();
            commands += 1;
            if ELSEWHERE.contains(&command) {
                continue;
            }
            if command.starts_with("RUN=") {
                assignments = format!("{}; ", shell.adapted(command));
            } else if remark.contains("until Ctrl-C") {
                running.push(Running::start(&shell, command));
            } else {
                shell.run(page, &assignments, command);
            }
        }
        let is_ended = block.iter().any(|line| line.starts_with("catchment ctl shutdown"));
        running.into_iter().rev().for_each(|one| one.end(page, is_ended));
    }
    assert!(commands >= commands_min, "{page} has {commands} commands");
}

/// A folder with the examples, and how commands are started in it.
struct Shell<'a> {
    folder: &'a Path,
    /// Stands for 127.0.0.1.
    address: String,
}

impl<'a> Shell<'a> {
    fn prepare(folder: &'a Path) -> Self {
        // A page has a thread of its own; so many addresses are this machine's.
        let id =
            folder.as_os_str().as_encoded_bytes().iter().fold(std::process::id(), |id, byte| {
                id.wrapping_mul(31).wrapping_add(u32::from(*byte))
            });
        let [a, b, c, _] = id.to_be_bytes();
        let shell = Self { folder, address: format!("127.{}.{b}.{}", 1 + a % 254, 1 + c % 254) };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        std::os::unix::fs::symlink(root.join("clients"), folder.join("clients")).unwrap();
        let config = blocks("docs/guide/frontend.md", "toml").swap_remove(0).join("\n") + "\n";
        std::fs::write(folder.join("run.toml"), small(&shell.adapted(&config))).unwrap();
        std::fs::create_dir(folder.join("examples")).unwrap();
        for entry in std::fs::read_dir(root.join("examples")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let text = small(&shell.adapted(&std::fs::read_to_string(&path).unwrap()));
                std::fs::write(folder.join("examples").join(path.file_name().unwrap()), text)
                    .unwrap();
            }
        }
        shell
    }

    fn adapted(&self, text: &str) -> String {
        text.replace("127.0.0.1", &self.address)
    }

    fn command(&self, line: &str) -> Command {
        let is_short = ["catchment run", "catchment emulate", "catchment demo"]
            .iter()
            .any(|name| line.contains(name));
        let mut line = self.adapted(line);
        if is_short {
            for seconds in ["--seconds 5", "--seconds 10"] {
                let whole_word = line.ends_with(seconds) || line.contains(&format!("{seconds} "));
                line = if whole_word { line.replace(seconds, "--seconds 1") } else { line };
            }
        }
        let program = Path::new(env!("CARGO_BIN_EXE_catchment")).parent().expect("a folder");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(self.folder).stdin(Stdio::null());
        command.env("PATH", path).env("CATCHMENT_URL", format!("http://{}:8750", self.address));
        command.env_remove("CATCHMENT_TOKEN").env_remove("CATCHMENT_CERTIFICATE");
        command
    }

    fn run(&self, page: &str, assignments: &str, line: &str) {
        let Output { status, stdout, stderr } =
            self.command(&format!("{assignments}{line}")).output().expect("a shell");
        let [stdout, stderr] =
            [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let reports_loss = MAY_REPORT_LOSS.iter().any(|name| line.starts_with(name));
        let is_right = status.success() || (reports_loss && status.code() == Some(3));
        assert!(is_right, "{page}: {line}: {status}\n{stdout}\n{stderr}");
        assert!(!stderr.contains("panicked"), "{page}: {line}: {stderr}");
    }
}

/// The example with little memory and few blocks ahead, so that it starts quickly.
fn small(example: &str) -> String {
    let sizes = [("budget = \"1 GiB\"", "budget = \"512 MiB\""), ("2 GiB", "512 MiB")];
    let ahead = ("preallocate_bytes = \"1 GiB\"", "preallocate_bytes = \"4 MiB\"");
    let text = sizes
        .iter()
        .chain([&ahead])
        .fold(example.to_owned(), |text, (large, small)| text.replace(large, small));
    if text.contains("[memory]") {
        return text;
    }
    text + "[memory]\nbudget = \"256 MiB\"\n\
        [write]\nbuffer_bytes = \"1 MiB\"\npreallocate_bytes = \"4 MiB\"\n"
}

/// A process that does not outlive a test that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A command that runs until Ctrl-C.
struct Running {
    line: String,
    child: Killed,
    rest: std::thread::JoinHandle<String>,
}

impl Running {
    /// Returns when it records, or serves.
    fn start(shell: &Shell<'_>, line: &str) -> Self {
        let mut command = shell.command(&format!("exec {line} 2>&1"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a shell");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let child = Killed(child);
        let mut printed = String::new();
        while !printed.contains("Recording ") && !printed.contains("Serving ") {
            let read = lines.read_line(&mut printed).expect("text");
            assert!(read > 0, "{line}: ended\n{printed}");
        }
        let rest = std::thread::spawn(move || {
            lines.read_to_string(&mut printed).expect("text");
            printed
        });
        Self { line: line.to_owned(), child, rest }
    }

    fn end(mut self, page: &str, is_ended: bool) {
        if !is_ended {
            // SAFETY: it takes nothing that must live; the child was not waited for.
            let sent = unsafe { libc::kill(self.child.0.id() as i32, libc::SIGINT) };
            assert_eq!(sent, 0, "{page}: {}", self.line);
        }
        let status = self.child.0.wait().expect("a child");
        let printed = self.rest.join().expect("text");
        assert!(matches!(status.code(), Some(0 | 3)), "{page}: {}: {status}\n{printed}", self.line);
    }
}
