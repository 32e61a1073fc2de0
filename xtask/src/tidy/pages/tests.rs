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
