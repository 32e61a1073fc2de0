//! Rules of pages: the needed ones are there, links lead somewhere, decisions are listed.

use std::collections::BTreeSet;

use crate::repository::{Package, TextFile};
use crate::tidy::Problem;

/// The page that lists the decisions, written by hand.
const INDEX: &str = "docs/decisions/README.md";

/// Files that must exist.
const REQUIRED: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/ARCHITECTURE.md",
    "docs/spec/frame-file.md",
    INDEX,
    "clippy.toml",
    "crates/core/clippy.toml",
    "crates/format/clippy.toml",
];

/// Everything that pages lack. `paths`: all files of the repository; `pages`: the Markdown ones.
pub fn check(paths: &[String], pages: &[TextFile], packages: &[Package]) -> Vec<Problem> {
    let paths: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    let mut problems = Vec::new();
    for required in REQUIRED {
        if !paths.contains(required) {
            problems.push(Problem::new(required, "is missing"));
        }
    }
    for page in pages {
        problems.extend(links(page, &paths, pages));
    }
    problems.extend(decisions(pages));
    problems.extend(architecture(pages, packages));
    problems
}

fn links(page: &TextFile, paths: &BTreeSet<&str>, pages: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (line, target) in targets(&page.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let place = format!("{}:{line}", page.path);
        let (file, anchor) = match target.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor)),
            None => (target.as_str(), None),
        };
        let resolved =
            if file.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, file) };
        let Some(resolved) = resolved else {
            problems.push(Problem::new(&place, format!("`{target}` leaves the repository")));
            continue;
        };
        let folder = format!("{resolved}/");
        let exists = resolved.is_empty()
            || paths.contains(resolved.as_str())
            || paths.iter().any(|path| path.starts_with(&folder));
        if !exists {
            problems.push(Problem::new(&place, format!("`{target}` leads nowhere")));
            continue;
        }
        let headings = pages.iter().find(|page| page.path == resolved).map(|page| &page.text);
        if let (Some(anchor), Some(text)) = (anchor, headings)
            && !anchors(text).contains(anchor)
        {
            problems.push(Problem::new(&place, format!("`{target}`: no such heading")));
        }
    }
    problems
}

/// Each page of decisions is listed in the index once, by its title.
fn decisions(pages: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let index = pages.iter().find(|page| page.path == INDEX);
    let index = index.map_or("", |page| page.text.as_str());
    for page in pages {
        let Some(name) = decision(page) else { continue };
        let first = page.text.lines().next().unwrap_or_default();
        let Some(title) = first.strip_prefix("# ") else {
            problems.push(Problem::new(&page.path, "does not begin `# TITLE`"));
            continue;
        };
        let count = index.matches(&format!("]({name})")).count();
        let what = match count {
            0 => format!("is not in {INDEX}"),
            1 if index.contains(&format!("[{title}]({name})")) => continue,
            1 => format!("is not in {INDEX} by its title, `{title}`"),
            _ => format!("is in {INDEX} {count} times"),
        };
        problems.push(Problem::new(&page.path, what));
    }
    problems
}

fn architecture(pages: &[TextFile], packages: &[Package]) -> Vec<Problem> {
    let Some(page) = pages.iter().find(|page| page.path == "docs/ARCHITECTURE.md") else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for package in packages {
        let name = package.folder.rsplit('/').next().unwrap_or(&package.folder);
        if !page.text.contains(&format!("`{name}`")) && !page.text.contains(&package.name) {
            problems.push(Problem::new(&page.path, format!("does not name `{name}`")));
        }
    }
    problems
}

/// The file name of a page of decisions; none for other pages.
fn decision(page: &TextFile) -> Option<&str> {
    let name = page.path.strip_prefix("docs/decisions/")?;
    (name.ends_with(".md") && page.path != INDEX).then_some(name)
}

/// The targets of inline links and of link definitions, with their lines; code is not looked at.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line.as_str();
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split(' ').next().unwrap_or_default();
            found.push((number, target.to_owned()));
            rest = &rest[end..];
        }
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            found.push((number, target.split(' ').next().unwrap_or_default().to_owned()));
        }
    }
    found
}

/// The lines outside code blocks, numbered from 1, without their code spans.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut fence = None;
    for (index, line) in text.lines().enumerate() {
        let mark = line.trim_start().get(..3).filter(|mark| *mark == "```" || *mark == "~~~");
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let outside: Vec<&str> = line.split('`').step_by(2).collect();
                lines.push((index + 1, outside.join("`")));
            }
        }
    }
    lines
}

/// The anchors that a page's headings get.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if !fenced && title.len() < line.len() && title.starts_with(' ') {
            let kept = title.trim().chars().filter_map(|character| match character {
                ' ' => Some('-'),
                '-' | '_' => Some(character),
                _ => character.is_alphanumeric().then(|| character.to_ascii_lowercase()),
            });
            found.insert(kept.collect());
        }
    }
    found
}

/// The path that `target` means on the page at `page`; none when it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests;
