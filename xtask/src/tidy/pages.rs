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
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// A repository that passes, with `files` added or put in place of its own.
    fn found(files: &[TextFile], without: &str) -> Vec<String> {
        let mut pages: Vec<TextFile> = files.to_vec();
        for (path, text) in [
            ("README.md", "# Catchment\n"),
            ("docs/ARCHITECTURE.md", "# Architecture\n\n## Two floors: up & down\n\n`model`\n"),
            ("docs/decisions/floors.md", "# Floors\n"),
            (INDEX, "- [Floors](floors.md)\n"),
        ] {
            if files.iter().all(|file| file.path != path) {
                pages.push(file(path, text));
            }
        }
        pages.retain(|page| page.path != without);
        let mut paths: Vec<String> = REQUIRED.iter().map(|&path| path.to_owned()).collect();
        paths.extend(pages.iter().map(|page| page.path.clone()));
        paths.retain(|path| path != without);
        let model = Package {
            name: "catchment-model".to_owned(),
            folder: "crates/base/model".to_owned(),
            manifest: String::new(),
            dependencies: Vec::new(),
        };
        check(&paths, &pages, &[model]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whole_repository_passes() {
        assert_eq!(found(&[], ""), Vec::<String>::new());
    }

    #[test]
    fn each_missing_page_is_found() {
        for required in REQUIRED {
            let found = found(&[], required);
            assert!(found.contains(&format!("{required}: is missing")), "{found:?}");
        }
    }

    #[test]
    fn broken_link_is_found_with_its_line() {
        let page =
            file("docs/guide/first.md", "text\n[a](../nowhere.md) and [b](../ARCHITECTURE.md)\n");
        assert_eq!(found(&[page], ""), ["docs/guide/first.md:2: `../nowhere.md` leads nowhere"]);
        let page = file("docs/guide/first.md", "[a]: missing.md\n");
        assert_eq!(found(&[page], "").len(), 1);
    }

    #[test]
    fn link_out_of_the_repository_is_found() {
        let page = file("README.md", "[a](../elsewhere.md)\n");
        assert_eq!(found(&[page], ""), ["README.md:1: `../elsewhere.md` leaves the repository"]);
    }

    #[test]
    fn link_to_a_missing_heading_is_found() {
        let page = file("README.md", "[a](docs/ARCHITECTURE.md#two-floors-up--down)\n");
        assert_eq!(found(&[page], ""), Vec::<String>::new());
        let page = file("README.md", "[a](docs/ARCHITECTURE.md#threads)\n");
        assert_eq!(found(&[page], "").len(), 1);
    }

    #[test]
    fn links_to_folders_and_the_web_pass_and_code_has_no_links() {
        let text = "[a](docs/decisions/) [b](https://example.org) `[c](d)`\n```text\n[e](f)\n```\n";
        assert_eq!(found(&[file("README.md", text)], ""), Vec::<String>::new());
    }

    #[test]
    fn decision_that_is_not_listed_is_found() {
        let page = file("docs/decisions/builds.md", "# Builds\n");
        let expected = "docs/decisions/builds.md: is not in docs/decisions/README.md";
        assert_eq!(found(&[page], ""), [expected]);
    }

    #[test]
    fn decision_that_is_listed_twice_or_by_another_title_is_found() {
        let index = file(INDEX, "- [Floors](floors.md)\n- [Storeys](floors.md)\n");
        let expected = "docs/decisions/floors.md: is in docs/decisions/README.md 2 times";
        assert_eq!(found(&[index], ""), [expected]);
        let index = file(INDEX, "- [Storeys](floors.md)\n");
        let expected =
            "docs/decisions/floors.md: is not in docs/decisions/README.md by its title, `Floors`";
        assert_eq!(found(&[index], ""), [expected]);
    }

    #[test]
    fn decision_without_a_title_is_found() {
        let page = file("docs/decisions/floors.md", "Floors\n");
        let expected = "docs/decisions/floors.md: does not begin `# TITLE`";
        assert_eq!(found(&[page], ""), [expected]);
    }

    #[test]
    fn crate_that_the_architecture_does_not_name_is_found() {
        let page = file("docs/ARCHITECTURE.md", "# Architecture\n");
        assert_eq!(found(&[page], ""), ["docs/ARCHITECTURE.md: does not name `model`"]);
    }
}
