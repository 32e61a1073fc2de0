//! Rules of source files: length, place, comments' width, and nothing left to do.

use crate::repository::TextFile;
use crate::tidy::Problem;

/// A file fits in a head.
const LINES_MAX: usize = 700;

/// Comments end where code does.
const COLUMNS_MAX: usize = 100;

/// Longer files, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Names that say nothing about what a module is for.
const EMPTY_NAMES: &[&str] = &["common", "misc", "util", "utils"];

/// Marks of unfinished work, in two parts so that this file has none.
const MARKS: &[(&str, &str)] =
    &[("FIX", "ME"), ("TO", "DO"), ("todo", "!"), ("unimplemented", "!"), ("X", "XX")];

/// Everything in the files that should not be.
pub fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        let lines = file.text.lines().count();
        let excepted = LONG_FILES.iter().any(|(path, _)| *path == file.path);
        if lines > LINES_MAX && !excepted {
            let what = format!("has {lines} lines, more than {LINES_MAX}");
            problems.push(Problem::new(&file.path, what));
        }
        if let Some(what) = misplaced(&file.path) {
            problems.push(Problem::new(&file.path, what));
        }
        for (line, columns) in wide_comments(&file.text) {
            let what = format!("a comment of {columns} columns, more than {COLUMNS_MAX}");
            problems.push(Problem::new(&format!("{}:{line}", file.path), what));
        }
        for (index, line) in file.text.lines().enumerate() {
            for (first, second) in MARKS {
                if has_word(line, &format!("{first}{second}")) {
                    let place = format!("{}:{}", file.path, index + 1);
                    problems.push(Problem::new(&place, format!("says {first}{second}")));
                }
            }
        }
    }
    for (path, _) in LONG_FILES {
        let long = files.iter().find(|file| file.path == *path);
        if long.is_none_or(|file| file.text.lines().count() <= LINES_MAX) {
            problems.push(Problem::new(path, "needs no exception for its length any more"));
        }
    }
    problems
}

/// Numbers and columns of lines of comments that are too wide; tables, figures and types (`@param`)
/// have lines of their own.
fn wide_comments(text: &str) -> Vec<(usize, usize)> {
    let mut is_figure = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let marks = ["///", "//!", "//", "/**", "* "];
        let mut comments = marks.iter().filter_map(|mark| line.trim_start().strip_prefix(mark));
        let Some(comment) = comments.next().map(str::trim_start) else {
            is_figure = false;
            continue;
        };
        is_figure ^= comment.starts_with("```");
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !is_figure && !comment.starts_with(['|', '@']) {
            found.push((index + 1, columns));
        }
    }
    found
}

/// A module stands in crates/FLOOR/CRATE/src/MODULE.rs or one folder deeper, under a telling name.
fn misplaced(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let ["crates", _, _, "src", modules @ ..] = &parts[..] else { return None };
    // src/bin is cargo's own folder for programs.
    if modules.len() > 2 && modules[0] != "bin" {
        return Some("stands more than one folder below src".to_owned());
    }
    let empty = modules.iter().find(|name| EMPTY_NAMES.contains(&name.trim_end_matches(".rs")))?;
    Some(format!("`{empty}` does not say what is in it"))
}

/// Whether `word` stands in `line` by itself.
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(part) && (word.ends_with('!') || !after.is_some_and(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&[file]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn file_at_the_limit_passes_and_one_more_line_is_found() {
        let path = "crates/base/model/src/ids.rs";
        assert!(found(path, &"//\n".repeat(LINES_MAX)).is_empty());
        assert_eq!(
            found(path, &"//\n".repeat(LINES_MAX + 1)),
            ["crates/base/model/src/ids.rs: has 701 lines, more than 700"]
        );
    }

    #[test]
    fn each_mark_of_unfinished_work_is_found() {
        for (first, second) in MARKS {
            let text = format!("fine\n// {first}{second} later\n");
            let found = found("xtask/src/main.rs", &text);
            assert_eq!(found, [format!("xtask/src/main.rs:2: says {first}{second}")]);
        }
    }

    #[test]
    fn a_wide_comment_is_found_unless_it_is_a_table_or_a_figure() {
        let wide = "x".repeat(COLUMNS_MAX - 4);
        let text =
            format!("/// {wide}\n/// {wide}.\n/// | {wide} |\n/// ```text\n/// {wide}.\n/// ```\n");
        assert_eq!(found("a.rs", &text), ["a.rs:2: a comment of 101 columns, more than 100"]);
        assert!(found("a.rs", &format!("let text = \"{wide}\";")).is_empty());
    }

    #[test]
    fn mark_within_a_longer_word_is_no_mark() {
        let text = format!("mk{0} {0}X {1}S", concat!("X", "XX"), concat!("TO", "DO"));
        assert!(found("a.rs", &text).is_empty());
    }

    #[test]
    fn deep_module_is_found() {
        assert!(found("crates/core/builder/src/window/slots.rs", "").is_empty());
        assert_eq!(found("crates/core/builder/src/window/slots/ring.rs", "").len(), 1);
    }

    #[test]
    fn module_whose_name_says_nothing_is_found() {
        assert_eq!(found("crates/core/builder/src/utils.rs", "").len(), 1);
        assert_eq!(found("crates/core/builder/src/common/ring.rs", "").len(), 1);
        assert!(found("crates/core/builder/tests/common/mod.rs", "").is_empty());
    }
}
