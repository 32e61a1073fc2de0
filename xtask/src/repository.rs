//! The repository as data: its packages and its files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// The repository that this program was built from.
pub struct Repository {
    /// Its folder.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// The workspace's packages, by folder.
    pub packages: Vec<Package>,
}

/// One package of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name, such as `catchment-wire`.
    pub name: String,
    /// Its folder in the repository, such as `crates/format/wire`.
    pub folder: String,
    /// What its Cargo.toml says.
    pub manifest: String,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
}

/// A dependency as a Cargo.toml declares it.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// Whether tests, examples and benches alone have it.
    pub dev: bool,
}

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Its path in the repository, with `/`.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl Repository {
    /// Reads the packages with `cargo metadata`.
    pub fn open() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec()?;
        let root = metadata.workspace_root.into_std_path_buf();
        let mut packages = Vec::new();
        for package in metadata.packages {
            let manifest = package.manifest_path.into_std_path_buf();
            let folder = manifest.parent().context("a manifest has a folder")?;
            packages.push(Package {
                name: package.name.to_string(),
                folder: relative(&root, folder)?,
                manifest: std::fs::read_to_string(&manifest)?,
                dependencies: package
                    .dependencies
                    .into_iter()
                    .map(|dependency| Dependency {
                        dev: dependency.kind == DependencyKind::Development,
                        name: dependency.name,
                    })
                    .collect(),
            });
        }
        packages.sort_by(|a, b| a.folder.cmp(&b.folder));
        Ok(Self { root, target: metadata.target_directory.into_std_path_buf(), packages })
    }

    /// `cargo`, to be run in the repository's folder.
    pub fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        self.command(cargo)
    }

    /// A program, to be run in the repository's folder. What cargo tells xtask of its own package
    /// does not reach it: ring's build script looks at that, so that ring, and all that uses it,
    /// would be compiled again whenever `cargo` is called without xtask and then with it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }

    /// The release build of the program `catchment`.
    pub fn program(&self) -> PathBuf {
        self.target.join("release/catchment")
    }

    /// The program that cargo builds with the tests.
    pub fn tested_program(&self) -> PathBuf {
        self.target.join("debug/catchment")
    }

    /// All files that are not made by a build or a run, by path.
    pub fn files(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if entry.file_type()?.is_dir() {
                    let made = [
                        "target",
                        "runs",
                        "artifacts",
                        "found",
                        "__pycache__",
                        "node_modules",
                        "dist",
                        "test-results",
                    ];
                    let hidden = name.starts_with('.') && name != ".ci";
                    if !hidden && !made.contains(&&*name) {
                        folders.push(entry.path());
                    }
                } else {
                    found.push(relative(&self.root, &entry.path())?);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Reads those of `paths` whose name ends with one of `endings`.
    pub fn read(&self, paths: &[String], endings: &[&str]) -> Result<Vec<TextFile>> {
        let mut files = Vec::new();
        for path in paths {
            if endings.iter().any(|ending| path.ends_with(ending)) {
                let text = std::fs::read_to_string(self.root.join(path))
                    .with_context(|| format!("cannot read {path}"))?;
                files.push(TextFile { path: path.clone(), text });
            }
        }
        Ok(files)
    }
}

fn relative(root: &Path, path: &Path) -> Result<String> {
    let path = path.strip_prefix(root)?;
    Ok(path.to_str().with_context(|| format!("{} is no UTF-8", path.display()))?.to_owned())
}
