//! Agents have no clock, thread, file, socket or random order: only so can they be stepped in
//! virtual time, twice with the same result.

use crate::repository::TextFile;
use crate::tidy::Problem;
use crate::tidy::sources::has_word;

/// Folders whose files are agents' or are used by agents.
const AGENTS: &[&str] = &[
    "crates/base/agent/src/",
    "crates/node/emulator/src/pace.rs",
    "crates/node/emulator/src/sender.rs",
    "crates/node/encoder/src/",
    "crates/node/recorder/src/",
    "crates/node/store/src/",
    "crates/node/writer/src/",
];

/// Files among them that are at the edge, each with its reason.
const EDGES: &[(&str, &str)] = &[
    (
        "crates/node/recorder/src/budget.rs",
        "asks the system for its memory, before agents are made",
    ),
    ("crates/node/recorder/src/config.rs", "counts the machine's CPUs, before agents are made"),
    ("crates/node/recorder/src/preflight.rs", "starts the thread of an agent"),
    (
        "crates/node/recorder/src/forward_wait.rs",
        "waits for what is forwarded, before there are agents",
    ),
    ("crates/node/recorder/src/frame_feed.rs", "starts and ends the thread of a target"),
    (
        "crates/node/recorder/src/interrupted.rs",
        "looks for an interrupted run before there are agents",
    ),
    (
        "crates/node/recorder/src/node_left.rs",
        "asks a storage node for one, before there are agents",
    ),
    ("crates/node/recorder/src/recorder.rs", "starts and ends the agents' threads"),
    ("crates/node/recorder/src/spill.rs", SPILL),
    ("crates/node/recorder/src/spill/ending.rs", SPILL),
    ("crates/node/recorder/src/spill/folder.rs", SPILL),
    ("crates/node/recorder/src/spill/forward.rs", "starts and ends the threads that forward"),
    ("crates/node/recorder/src/spill/identity.rs", SPILL),
    ("crates/node/recorder/src/spill/reader.rs", SPILL),
    ("crates/node/recorder/src/spill/writer.rs", SPILL),
    (
        "crates/node/recorder/src/spill_counts.rs",
        "times calls to a spill's disk, during which its agent has no time",
    ),
    ("crates/node/recorder/src/standby.rs", "starts and ends the threads between runs"),
    ("crates/node/store/src/folder_marks.rs", "marks the node's folders"),
    ("crates/node/store/src/host.rs", "starts and ends the threads of writers"),
    ("crates/node/store/src/node.rs", "starts and ends the agents' threads, and makes folders"),
    ("crates/node/store/src/stored.rs", "reads the folders of streams"),
];

const SPILL: &str =
    "a spill's folder is behind no port yet: the simulator's storage nodes have no spill";

/// Words by which a file would have what agents must not have.
const WORDS: &[(&str, &str)] = &[
    ("Clock", "a clock"),
    ("Instant", "a clock"),
    ("SystemTime", "a clock"),
    ("utc_now", "a clock"),
    ("Condvar", "a wait"),
    ("recv_timeout", "a wait"),
    ("send_timeout", "a wait"),
    ("sleep", "a wait"),
    ("JoinHandle", "a thread"),
    ("thread::", "a thread"),
    ("File", "a file"),
    ("OpenOptions", "a file"),
    ("fs", "a file"),
    ("TcpListener", "a socket"),
    ("TcpStream", "a socket"),
    ("UdpSocket", "a socket"),
    ("HashMap", "a random order"),
    ("HashSet", "a random order"),
    ("RandomState", "a random order"),
];

/// Every line of an agent that names what it must not have.
pub fn check(files: &[TextFile]) -> Vec<Problem> {
    let is_agent = |path: &str| {
        let tests = path.ends_with("/tests.rs");
        AGENTS.iter().any(|folder| path.starts_with(folder) && path.ends_with(".rs") && !tests)
    };
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| is_agent(&file.path)) {
        let found = found(&file.text);
        if EDGES.iter().any(|(path, _)| *path == file.path) {
            if found.is_empty() {
                problems.push(Problem::new(&file.path, "is at no edge any more"));
            }
            continue;
        }
        for (line, word, what) in found {
            let place = format!("{}:{line}", file.path);
            problems.push(Problem::new(&place, format!("an agent has {what}: `{word}`")));
        }
    }
    problems
}

/// Lines, words and what they stand for, up to the file's tests.
fn found(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
    let mut found = Vec::new();
    for (index, line) in code {
        let code = line.split("//").next().unwrap_or_default();
        // What a message says is not what the code does.
        let code: String = code.split('"').step_by(2).collect();
        let named = |word: &str| match word.ends_with("::") {
            true => code.contains(word),
            false => has_word(&code, word),
        };
        let words = WORDS.iter().filter(|(word, _)| named(word));
        found.extend(words.map(|(word, what)| (index + 1, *word, *what)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&[file]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_agent_with_a_clock_is_found_by_its_line_and_others_may_have_one() {
        let text = "// Instant\nfn f() {\n    Instant::now();\n}\n";
        let expected = "crates/node/recorder/src/build.rs:3: an agent has a clock: `Instant`";
        assert_eq!(problems("crates/node/recorder/src/build.rs", text), [expected]);
        assert!(problems("crates/node/control/src/conductor.rs", text).is_empty());
    }

    #[test]
    fn a_map_in_random_order_is_found() {
        let text = "use std::collections::{BTreeMap, HashMap};\n";
        let expected = "crates/node/writer/src/files.rs:1: an agent has a random order: `HashMap`";
        assert_eq!(problems("crates/node/writer/src/files.rs", text), [expected]);
    }

    #[test]
    fn tests_comments_and_messages_may_name_what_they_like() {
        let text = "/// A thread.\nwarn(\"the thread failed\");\n#[cfg(test)]\nmod tests {\n\
                    std::thread::sleep(1);\n}\n";
        assert!(problems("crates/node/encoder/src/pool.rs", text).is_empty());
    }

    #[test]
    fn an_edge_that_is_none_any_more_is_found() {
        let expected = "crates/node/recorder/src/recorder.rs: is at no edge any more";
        assert_eq!(problems("crates/node/recorder/src/recorder.rs", "fn f() {}\n"), [expected]);
    }
}
