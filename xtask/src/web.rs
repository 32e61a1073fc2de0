//! The page's side: packages from npm as the lockfile says, the build, and the tests in Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

use crate::debian;
use crate::process::{Step, Steps, output, succeed};
use crate::repository::Repository;

/// What Vite runs on.
const NODE_MIN: (u32, u32) = (20, 19);

/// Where Debian puts its browser; `$CHROMIUM` names another.
const CHROMIUM: &str = "/usr/bin/chromium";

/// What `web/dist` is made from.
const SOURCES: &[&str] =
    &["src", "index.html", "package-lock.json", "tsconfig.json", "vite.config.ts"];

/// The script that puts the page into the program. Cargo does not see that a folder has come to be.
const INTO_PROGRAM: &str = "crates/node/control/build.rs";

/// The folder `web`.
pub struct Web {
    root: PathBuf,
    folder: PathBuf,
}

/// What has been made of the page.
#[derive(Clone, Copy)]
pub struct Made {
    packages: Step,
    page: Step,
}

impl Web {
    /// The page of this repository.
    pub fn of(repository: &Repository) -> Self {
        let root = repository.root.clone();
        Self { folder: root.join("web"), root }
    }

    /// Installs what the lockfile names, unless it is there, and builds `web/dist`, unless it is
    /// newer than what it is made from: the program that holds it would be built again, too.
    pub fn build(&self, steps: &Steps) -> Made {
        let node = steps.time("web: Node", &[], node_is_there);
        let packages = steps.time("web: npm ci", &[node], || self.install());
        let page = steps.time("web: npm run build", &[packages], || self.build_page());
        Made { packages, page }
    }

    fn build_page(&self) -> Result<()> {
        let page = self.folder.join("dist/index.html");
        let built = page.metadata().and_then(|it| it.modified()).ok();
        let changed = SOURCES.iter().map(|name| newest(&self.folder.join(name)));
        let changed = changed.collect::<Result<Vec<_>>>()?.into_iter().max();
        if built.is_some() && built > changed {
            return Ok(());
        }
        succeed(self.npm().args(["run", "build"]))?;
        let script = std::fs::File::options().append(true).open(self.root.join(INTO_PROGRAM))?;
        Ok(script.set_modified(SystemTime::now())?)
    }

    /// The unit tests, then the page in Chromium against its mock. The step is Chromium's.
    pub fn test(&self, steps: &Steps, made: Made) -> Step {
        // The build looks at the types, too, but it does not know the tests' files.
        steps.run("web: types", &[made.packages], self.npm().args(["run", "check"]));
        steps.run("web: vitest", &[made.packages], self.npm().args(["run", "test"]));
        let browser = steps.time("web: Chromium", &[], chromium);
        let needs = [made.page, browser];
        steps.run("web: playwright", &needs, self.npm().args(["run", "test:page"]));
        browser
    }

    /// The page in Chromium against a recorder of `program`.
    pub fn test_real(
        &self,
        steps: &Steps,
        (made, browser): (Made, Step),
        (program, built): (&Path, Step),
    ) {
        let mut tests = self.npm();
        tests.args(["run", "test:real"]).env("CATCHMENT_PROGRAM", program);
        let needs = [made.page, browser, built];
        steps.run("web: playwright over a recorder", &needs, &mut tests);
    }

    fn install(&self) -> Result<()> {
        let lock = std::fs::read_to_string(self.folder.join("package-lock.json"))?;
        let installed = self.folder.join("node_modules/installed.json");
        if std::fs::read_to_string(&installed).is_ok_and(|text| text == lock) {
            return Ok(());
        }
        succeed(self.npm().args(["ci", "--no-audit", "--no-fund"]))?;
        Ok(std::fs::write(&installed, &lock)?)
    }

    fn npm(&self) -> Command {
        let mut command = Command::new("npm");
        command.current_dir(&self.folder);
        // The browser is Debian's; none is fetched.
        command.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
        command
    }
}

/// `make web`: builds the page, or says in one line that it was not built.
pub fn build() -> Result<()> {
    let repository = Repository::open()?;
    if let Err(error) = node_is_there() {
        println!("The page was not built: {error:#}.");
        return Ok(());
    }
    let steps = Steps::in_turn();
    Web::of(&repository).build(&steps);
    steps.finish("web")
}

/// When a file, or the file of a folder that was changed last, was changed.
fn newest(path: &Path) -> Result<SystemTime> {
    let about = path.metadata().with_context(|| path.display().to_string())?;
    let mut newest_time = about.modified()?;
    if about.is_dir() {
        for entry in std::fs::read_dir(path)? {
            newest_time = newest_time.max(newest(&entry?.path())?);
        }
    }
    Ok(newest_time)
}

/// Node is there and not too old.
fn node_is_there() -> Result<()> {
    let version = output(Command::new("node").arg("--version")).unwrap_or_default();
    let version = version.trim();
    ensure!(
        node_is_new_enough(version),
        "the page needs Node {}.{} or newer, found {}",
        NODE_MIN.0,
        NODE_MIN.1,
        if version.is_empty() { "none" } else { version },
    );
    Ok(())
}

/// Takes the Chromium that is there, or installs Debian's where this process may.
pub fn chromium() -> Result<()> {
    let chosen = std::env::var_os("CHROMIUM").map_or_else(|| CHROMIUM.into(), PathBuf::from);
    if chosen.exists() {
        return Ok(());
    }
    if chosen != Path::new(CHROMIUM) || !debian::may_install() {
        bail!(
            "{} is missing: the page's tests need Chromium (Debian: apt-get install chromium; \
             elsewhere set CHROMIUM)",
            chosen.display()
        );
    }
    debian::install(&["chromium"])
}

/// Reads `v20.19.0`.
fn node_is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= NODE_MIN,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::node_is_new_enough;

    #[test]
    fn node_is_asked_for_by_number_not_by_text() {
        assert!(node_is_new_enough("v20.19.0"));
        assert!(node_is_new_enough("v100.0.1"));
        assert!(!node_is_new_enough("v20.9.5"));
        assert!(!node_is_new_enough("v9.99.0"));
        assert!(!node_is_new_enough(""));
    }
}
