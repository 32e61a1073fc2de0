//! The house's rules that neither the compiler nor clippy holds: imports go down the floors, files
//! stay short, links lead somewhere.
//!
//! Each rule is a pure function from data to [`Problem`]s, so that its tests can plant a violation.

mod agents;
mod imports;
mod modules;
mod pages;
mod sources;

use std::fmt;

use anyhow::{Result, bail};

use crate::repository::Repository;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    place: String,
    what: String,
}

impl Problem {
    fn new(place: &str, what: impl Into<String>) -> Self {
        Self { place: place.to_owned(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.what)
    }
}

/// Checks every rule.
pub fn check() -> Result<()> {
    let repository = Repository::open()?;
    let paths = repository.files()?;
    let sources =
        repository.read(&paths, &[".rs", ".py", ".pyi", ".ts", ".tsx", ".mjs", ".css"])?;
    let texts = repository.read(&paths, &[".md"])?;
    let mut problems = imports::check(&repository.packages);
    problems.extend(sources::check(&sources));
    problems.extend(agents::check(&sources));
    problems.extend(modules::check(&sources));
    problems.extend(pages::check(&paths, &texts, &repository.packages));
    report(&problems)
}

/// Checks the rules of pages alone.
pub fn check_pages() -> Result<()> {
    let repository = Repository::open()?;
    let paths = repository.files()?;
    let texts = repository.read(&paths, &[".md"])?;
    report(&pages::check(&paths, &texts, &repository.packages))
}

fn report(problems: &[Problem]) -> Result<()> {
    for problem in problems {
        eprintln!("{problem}");
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{} against the house's rules", problems.len())
}
