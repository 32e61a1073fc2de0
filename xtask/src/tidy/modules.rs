//! Modules stand in layers: none imports a module that imports it in turn.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::TextFile;
use crate::tidy::Problem;

/// The floors where this holds in every crate.
const LAYERED: &[&str] = &["crates/base/", "crates/format/"];

/// For each module, such as `gwf::toc`, those that it imports from.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Every crate with modules that import each other in a circle.
pub fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut crates: BTreeMap<&str, Vec<(String, &str)>> = BTreeMap::new();
    let is_layered = |path: &str| LAYERED.iter().any(|floor| path.starts_with(floor));
    for file in files.iter().filter(|file| is_layered(&file.path)) {
        let Some((folder, path)) = file.path.split_once("/src/") else { continue };
        let module = path.trim_end_matches(".rs").replace('/', "::");
        // What a crate or folder exports stands in the file of its name, which imports nothing.
        if module != "lib" && !module.ends_with("mod") && !module.ends_with("tests") {
            crates.entry(folder).or_default().push((module, &file.text));
        }
    }
    let mut problems = Vec::new();
    for (folder, modules) in crates {
        let circle = circle(imports(&modules));
        if !circle.is_empty() {
            let what = format!("modules import each other in a circle: {}", circle.join(", "));
            problems.push(Problem::new(folder, what));
        }
    }
    problems
}

fn imports(modules: &[(String, &str)]) -> Imports {
    let names: BTreeSet<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
    let mut imports = Imports::new();
    for (module, text) in modules {
        let parent = module.rsplit_once("::").map_or(String::new(), |(up, _)| format!("{up}::"));
        let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        let code: String = code.filter(|line| !line.trim_start().starts_with("//")).collect();
        let targets = imports.entry(module.clone()).or_default();
        for (word, base) in [("crate::", ""), ("super::", &parent)] {
            for (at, _) in code.match_indices(word) {
                let paths = paths(&code[at + word.len()..]).map(|path| format!("{base}{path}"));
                let found = paths.filter_map(|path| {
                    let within =
                        |name: &&&str| format!("{path}::").starts_with(&format!("{name}::"));
                    names.iter().filter(within).max_by_key(|name| name.len())
                });
                targets.extend(found.filter(|name| *name != module).map(ToString::to_string));
            }
        }
    }
    imports
}

/// The paths that an import names: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(code: &str) -> impl Iterator<Item = String> {
    let is_path = |c: char| c.is_alphanumeric() || "_:".contains(c);
    let (first, rest) = code.split_at(code.find(|c| !is_path(c)).unwrap_or(code.len()));
    let group =
        rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(group, _)| group);
    let parts = group.unwrap_or_default().split(',');
    parts.map(move |part| format!("{first}{}", part.trim()))
}

/// The modules of circles, and those between them.
fn circle(mut imports: Imports) -> Vec<String> {
    loop {
        let imported: BTreeSet<String> = imports.values().flatten().cloned().collect();
        let before = imports.len();
        let known: BTreeSet<String> = imports.keys().cloned().collect();
        imports.retain(|name, targets| {
            targets.retain(|target| known.contains(target));
            !targets.is_empty() && imported.contains(name)
        });
        if imports.len() == before {
            return imports.into_keys().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(modules: &[(&str, &str)]) -> Vec<String> {
        let file = |(name, text): &(&str, &str)| {
            let path = format!("crates/format/frame/src/{name}.rs");
            TextFile { path, text: (*text).to_owned() }
        };
        let files: Vec<TextFile> = modules.iter().map(file).collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_of_modules_is_found() {
        let expected = "crates/format/frame: modules import each other in a circle: \
                        gwf::head, gwf::toc, schema";
        let found = problems(&[
            ("lib", "mod reader;\npub use crate::reader::Reader;\n"),
            ("reader", "use crate::BLOCK;\nuse crate::gwf::toc::Toc;\n"),
            ("gwf/toc", "use super::head::{Head,\n    SIZE};\n"),
            ("gwf/head", "use crate::{kinds, schema::Schema};\n"),
            ("schema", "fn f() { crate::gwf::toc::read() }\n"),
            ("kinds", ""),
        ]);
        assert_eq!(found, [expected]);
    }

    #[test]
    fn layers_pass_and_tests_and_comments_may_import_what_they_like() {
        let found = problems(&[
            ("toc", "use crate::toc_reader::Reader;\n"),
            ("toc_reader", "// use crate::toc::Toc;\n#[cfg(test)]\nuse crate::toc::Toc;\n"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
