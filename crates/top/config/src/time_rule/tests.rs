//! What is refused of building by time, and how it is said.

use std::path::Path;

use crate::{check, check_to_start};

/// Three boards by time, with these lines in `[build.time]` and in the last source's table.
fn boards(rule: &str, last: &str) -> String {
    let source = |name: &str| {
        format!(
            "[[sources]]\nname = \"{name}\"\naddress = \"127.0.0.1:0\"\nprotocol = \"layout\"\n\
             layout = \"{}\"\n",
            if name == "third" { "other" } else { "clock" }
        )
    };
    let layout = |name: &str| {
        format!(
            "[[layouts]]\nname = \"{name}\"\npacket = {{ head = 12, fields = [\
             {{ is = \"time\", at = 0, width = 6, rate = \"125 MHz\" }}, \
             {{ is = \"sequence\", at = 8 }}] }}\n"
        )
    };
    let build = format!("[build]\nmatch = \"time\"\n[build.time]\nwindow = \"200 ns\"\n{rule}\n");
    let sources = ["first", "second", "third"].map(source).concat();
    [build, layout("clock"), layout("other"), sources, last.to_owned()].concat()
}

/// The message of a text that is refused, which is about the line that contains `key`.
fn refused(text: &str, key: &str) -> String {
    let error = check(Path::new("run.toml"), text).unwrap_err();
    let lines: Vec<&str> = text.lines().collect();
    let line = lines.iter().rposition(|line| line.contains(key)).unwrap() + 1;
    assert_eq!(error.place.map(|place| place.0), Some(line), "{error}");
    error.message
}

#[test]
fn a_setting_of_a_sources_clock_is_refused_with_its_key_its_name_and_units() {
    check(Path::new("run.toml"), &boards("", "reorder = \"250 ms\"")).unwrap();
    for (key, value, more, expected) in [
        ("reorder", "500 ms", "", "at most a quarter of build.timeout, 250 ms, got 500 ms"),
        ("time_offset", "-25 h", "", "at most a day, got -25 h"),
        ("lag", "2 s", "role = \"sparse\"\n", "at most build.timeout, 1 s, got 2 s"),
    ] {
        let message = refused(&boards("", &format!("{more}{key} = \"{value}\"\n")), key);
        assert_eq!(message, format!("sources[2].{key}: expected {expected} of \"third\""));
    }
    // A clock that wraps too soon is that of the source's layout.
    let (before, last) = {
        let text = boards("", "");
        let (before, last) = text.split_once("name = \"other\"").unwrap();
        (before.to_owned(), last.replacen("width = 6", "width = 2", 1))
    };
    let text = format!("{before}name = \"other\"{last}");
    let message = refused(&text, "layout = \"other\"");
    let expected = "sources[2].layout: expected times that wrap after four times build.timeout, 4 \
                    s, or later, got 524288 ns of \"third\" in \"other\"";
    assert_eq!(message, expected);
}

#[test]
fn a_setting_of_the_rule_is_refused_with_its_unit_and_the_sources_there_are() {
    let offset = "offsets = [{ sources = \"fourth\", offset = \"1 us\" }]";
    for (rule, key, expected) in [
        ("skew = \"2 h\"", "skew", "skew: expected 1 ns to 1 h, got 2 h"),
        ("before = \"2 s\"", "before", "before: expected at most 1 s, got 2 s"),
        (
            "coincidence = 4",
            "coincidence",
            "coincidence: expected 1 to 3, as many sources as may open an event, got 4",
        ),
        (
            "openers = [\"fourth\"]",
            "openers",
            "openers: expected names of sources: first, second, third, got \"fourth\"",
        ),
        (
            offset,
            "offsets",
            "offsets[0].sources: expected names of sources: first, second, third, got \"fourth\"",
        ),
    ] {
        assert_eq!(refused(&boards(rule, ""), key), format!("build.time.{expected}"));
    }
    let sparse = boards("", "role = \"sparse\"\n")
        .replace("layout = \"clock\"\n", "layout = \"clock\"\nrole = \"sparse\"\n");
    let error = check(Path::new("run.toml"), &sparse).unwrap_err().to_string();
    let expected = "sources.role: expected a source that is neither sparse nor disabled, got none";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_setting_without_an_effect_is_refused_where_something_starts() {
    for (rule, last, key, expected) in [
        (
            "span_max = \"1 us\"",
            "",
            "build.time.span_max",
            "kind = \"gap\" beside it, got \"first\"",
        ),
        (
            "flooding = \"open\"",
            "",
            "build.time.flooding",
            "a coincidence of 2 or more beside it, got 1",
        ),
        (
            "before = \"1 us\"",
            "",
            "build.time.before",
            "openers that leave out a source beside it, got all sources",
        ),
        ("", "lag = \"1 ms\"", "sources[2].lag", "role = \"sparse\" beside it, got \"required\""),
    ] {
        let text = boards(rule, last);
        // As a recorded run's.
        check(Path::new("run.toml"), &text).unwrap();
        let error = check_to_start(Path::new("run.toml"), &text).unwrap_err();
        assert_eq!(error.message, format!("{key}: expected {expected}"));
        assert!(error.place.is_some(), "{error}");
    }
    for (rule, last) in [
        ("kind = \"gap\"\nspan_max = \"1 us\"", ""),
        ("coincidence = 2\nflooding = \"open\"", ""),
        ("openers = [\"first\"]\nbefore = \"1 us\"", ""),
        ("", "role = \"sparse\"\nlag = \"1 ms\""),
    ] {
        check_to_start(Path::new("run.toml"), &boards(rule, last)).unwrap();
    }
}
