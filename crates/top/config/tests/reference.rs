//! docs/reference/configuration.md: every key of a configuration.
//!
//! `reference.txt` has a line for each key: its default, another value, a value that is refused
//! (and, where the program's own words would depend on the machine, the range in words), and what
//! it is for. All else the page says is asked of the program: types and ranges are the words with
//! which it refuses. The tests hold the lines to the program: the parser knows these keys and no
//! others, the default written out changes nothing, the other value changes something.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use catchment_config::{ConfigFileError, High, Rate, Size, Time, check};

const LINES: &str = include_str!("reference.txt");

/// Every table, with its required keys alone.
const BASE: &str = r#"
codecs = [{ columns = "a*", codec = "lz4" }]
alarms = [{ name = "hot", quantity = "source.*.loss_per_second", rises_faster = 10.0 }]
actions = [{ name = "mail", command = ["mail"] }]
memory = { budget = "2 GiB" }
run = { own = { modulo = 4 } }
receive = {}
trains = {}
build = {}
frame = {}
encode = {}
trends = {}
write = {}
[control]
tls = { certificate = "a.pem", key = "b.pem" }
[emulator]
sizes = [{ group = "sources", mean = "400 B" }, { group = "small", mean = "400 B" },
    { group = "tiny", mean = "1 kB" }, { group = "crate", mean = "1 kB" },
    { group = "sources", mean = "1 kB" }]
faults = { kill = { source = 0, event = 1 }, restart = { source = 0, event = 1 } }
[[targets]]
name = "t"
folder = "some"
role = "best-effort"
[[targets]]
name = "more"
folder = "more"
[store]
folder = "stored"
[[layouts]]
name = "board"
order = { at = 4, mask = 0xff000000, equals = 0 }
packet = { head = 8, fields = [{ is = "checksum", kind = "copy", at = 4, to = 4 }] }
record = [{ head = 16, fields = [{ is = "tag", at = 15, width = 1 }, { is = "length", at = 0 },
    { is = "key", at = 8 }, { choose = 1, at = 12, width = 1 }] },
    { head = 16, bytes = 16, fields = [{ is = "key", at = 8 }] }]
[[listen]]
[[sources]]
name = "a"
address = "127.0.0.1:0"
sub_event_id = 1
payload = { dtype = "u32" }
[[source_groups]]
group = "small"
count = 2
address = "127.0.0.1:0"
first_sub_event_id = 2
payload = { dtype = "record", record_bytes = 8, fields = [{ name = "x", dtype = "u8", offset = 0 }] }
[[links]]
name = "l"
address = "127.0.0.1:0"
channels = [{ name = "x", dtype = "i16", rate = "8 Hz" }]
"#;

/// Keys of which one excludes the others.
const RIVALS: [&[&str]; 3] = [
    &["is", "equals", "choose", "each"],
    &["above", "below", "rises_faster", "falls_faster", "no_change"],
    &["command", "webhook"],
];

struct Section {
    heading: &'static str,
    /// Where such tables stand.
    paths: Vec<String>,
    text: &'static str,
    keys: Vec<Key>,
}

struct Key {
    name: &'static str,
    default: Default,
    other: &'static str,
    wrong: &'static str,
    range: Option<&'static str>,
    text: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Default {
    Required,
    Is(&'static str),
    /// What follows from other values, or from the machine.
    Words(&'static str),
}

fn sections() -> Vec<Section> {
    LINES.trim_end().split("\n\n").map(section).collect()
}

fn section(lines: &'static str) -> Section {
    let (head, rest) = lines.split_once('\n').expect("a heading");
    let (heading, paths) = head.split_once(" = ").unwrap_or((head, ""));
    let own = heading.replace("[[", "").replace("]]", "[]");
    let own = own.trim_matches(['[', ']']);
    let paths: Vec<String> = match (paths, heading.starts_with("[[")) {
        ("", false) => vec![own.to_owned()],
        ("", true) => vec![format!("{}[]", own.replace('.', "[]."))],
        (paths, _) => paths.split(' ').map(str::to_owned).collect(),
    };
    let (text, keys) = match rest.split_once('\n') {
        Some((first, keys)) if !first.contains(" | ") => (first, keys),
        _ => ("", rest),
    };
    Section { heading, paths, text, keys: keys.lines().map(key).collect() }
}

fn key(line: &'static str) -> Key {
    let cells: Vec<&str> = line.split(" | ").collect();
    let [name, default, other, wrong, text] = cells[..] else { panic!("five cells: {line}") };
    let default = match default.strip_prefix('(') {
        Some(words) => Default::Words(words.strip_suffix(')').expect("a bracket")),
        None if default == "required" => Default::Required,
        None => Default::Is(default),
    };
    let (wrong, range) = match wrong.split_once(" => ") {
        Some((wrong, range)) => (wrong, Some(range)),
        None => (wrong.trim(), None),
    };
    Key { name, default, other, wrong, range, text }
}

impl Section {
    /// The key in the first such table.
    fn path(&self, key: &Key) -> String {
        format!("{}.{}", self.paths[0], key.name)
    }
}

/// A target that is a storage node, with what that key needs beside it.
fn to_store(table: &mut dyn toml_edit::TableLike, path: &str) {
    table.insert("kind", Item::Value("store".into()));
    if path != "targets[].nodes" {
        table.insert("address", Item::Value("node:7100".into()));
    }
    table.remove("folder");
    if path != "targets[].address" && path != "targets[].kind" {
        table.insert("role", Item::Value("required".into()));
    }
    match path {
        "targets[].spill" => drop(table.insert("spill_bytes", Item::Value("1 GiB".into()))),
        "targets[].spill_bytes" => drop(table.insert("spill", Item::Value("spill".into()))),
        _ => {}
    }
}

/// Has the other keys of a table fit a value of that path.
fn fit(table: &mut dyn toml_edit::TableLike, path: &str, value: Option<&str>) {
    match (path, value) {
        ("targets[].kind", Some("\"none\"")) => drop(table.remove("folder")),
        ("targets[].folders" | "store.folders", Some(_)) => drop(table.remove("folder")),
        ("targets[].kind", Some("\"store\""))
        | (
            "targets[].address"
            | "targets[].nodes"
            | "targets[].hold_bytes"
            | "targets[].certificate"
            | "targets[].token_file"
            | "targets[].spill"
            | "targets[].spill_bytes",
            _,
        ) => to_store(table, path),
        ("sources[].via" | "source_groups[].via", Some("\"link\"")) => {
            // Such a source has no port, and its packets no ids.
            for key in ["address", "sub_event_id", "first_sub_event_id"] {
                table.remove(key);
            }
        }
        ("sources[].protocol" | "source_groups[].protocol", Some("\"event-link\"")) => {
            for key in ["sub_event_id", "first_sub_event_id"] {
                table.remove(key);
            }
        }
        // Each role has keys of its own, and a constant none.
        ("layouts[].packet.fields[].rate", _) => field_is(table, "time"),
        ("layouts[].packet.fields[].unit" | "layouts[].packet.fields[].plus", _) => {
            field_is(table, "length");
        }
        ("layouts[].packet.fields[].is", Some(_)) => field_is(table, "source"),
        ("layouts[].packet.fields[].equals", Some(_)) => {
            field_is(table, "source");
            table.remove("is");
        }
        ("layouts[].transport", Some("\"stream\"")) => {
            let packet = table.get_mut("packet").and_then(Item::as_table_like_mut).unwrap();
            packet.insert("bytes_max", Item::Value(1_000.into()));
            packet.insert("bytes", Item::Value(100.into()));
            let fields = packet.get_mut("fields").and_then(Item::as_array_mut).unwrap();
            fields.push("{ is = \"source\", at = 0 }".parse::<toml_edit::Value>().unwrap());
        }
        ("layouts[].record[].fields[].each", Some(_)) => {
            table.insert("at", Item::Value(0.into()));
        }
        ("layouts[].record[].bytes", Some(_)) => {
            let fields = table.get_mut("fields").and_then(Item::as_array_mut).unwrap();
            fields.remove(1);
        }
        ("sources[].layout" | "source_groups[].layout", Some(_)) => {
            table.insert("protocol", Item::Value("layout".into()));
            for key in ["sub_event_id", "first_sub_event_id"] {
                table.remove(key);
            }
        }
        ("sources[].lag" | "source_groups[].lag", _) => {
            table.insert("role", Item::Value("sparse".into()));
        }
        // Only others have a queue of their own.
        ("targets[].role", Some("\"required\"") | None) => drop(table.remove("queue_bytes")),
        // Only a required folder has trends.
        ("targets[].trends", _) => drop(table.remove("role")),
        _ => {}
    }
}

/// The base with that value at that path; none takes what is there away.
fn with(path: &str, value: Option<&str>) -> String {
    let mut document: DocumentMut = BASE.parse().unwrap();
    if path == "run.folder" {
        document.remove("targets");
    }
    if path.starts_with("build.time")
        || path == "build.match" && value == Some("\"time\"")
        || TIMED.iter().any(|key| path.ends_with(key))
    {
        build_by_time(&mut document);
    }
    if path.starts_with("build.time.offsets[]") {
        let offsets = "[{ sources = \"a\", offset = \"3 ns\" }]";
        document["build"]["time"]["offsets"] = offsets.parse::<Item>().unwrap();
    }
    if value == Some("true") {
        skip(&mut document, path);
    }
    if path == "run.stream" {
        document["run"]["id"] = toml_edit::value("6b0e62e5b1f64c2c9a4a6f2a1d3c7e90");
    }
    if value.is_some_and(|value| ["\"link\"", "\"event-link\""].contains(&value))
        || path.ends_with(".layout")
    {
        // No emulator sends that.
        document.remove("emulator");
    }
    if path.starts_with("listen[]") {
        // It is that of sources which no emulator has.
        document.remove("emulator");
        document.remove("sources");
        let source = "[[sources]]\nname = \"camera\"\nvia = \"link\"\n";
        let text: DocumentMut = source.parse().unwrap();
        document.extend(text.iter().map(|(key, item)| (key.to_owned(), item.clone())));
    }
    if path.starts_with("accept[]") {
        document.remove("emulator");
        document.insert("accept", "[{ senders = \"x-*\" }]".parse::<Item>().unwrap());
    }
    let (within, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut table: &mut dyn toml_edit::TableLike = document.as_table_mut();
    for part in within.split('.').filter(|part| !part.is_empty()) {
        let name = part.trim_end_matches("[]");
        let empty = match part.ends_with("[]") {
            false => Item::Table(Table::new()),
            true => Item::Value(Array::from_iter([InlineTable::new()]).into()),
        };
        let item = table.entry(name).or_insert(empty);
        table = match part.ends_with("[]") {
            false => item.as_table_like_mut().unwrap(),
            true => match item {
                Item::ArrayOfTables(tables) => tables.get_mut(0).unwrap(),
                item => first(item.as_array_mut().unwrap_or_else(|| panic!("{path}"))),
            },
        };
    }
    for rival in RIVALS.iter().filter(|names| names.contains(&name)).flat_map(|names| *names) {
        table.remove(rival);
    }
    table.remove(name);
    fit(table, path, value);
    if let Some(value) = value {
        let value: Value = value.parse().unwrap_or_else(|error| panic!("{value}: {error}"));
        table.insert(name, Item::Value(value));
    }
    document.to_string()
}

/// Fits the base to a layout that skips something.
fn skip(document: &mut DocumentMut, path: &str) {
    match path {
        "layouts[].packet.skip" => {
            document["layouts"][0].as_table_like_mut().unwrap().remove("record");
        }
        "layouts[].packet.skip_rest" => {
            let fields = document["layouts"][0]["packet"]["fields"].as_array_mut().unwrap();
            fields.push(r#"{ is = "count", at = 0 }"#.parse::<Value>().unwrap());
        }
        _ => {}
    }
}

/// Has the base's events built by time.
fn build_by_time(document: &mut DocumentMut) {
    for key in ["emulator", "layouts", "sources", "source_groups", "build", "run"] {
        document.remove(key);
    }
    let text: DocumentMut = BY_TIME.parse().unwrap();
    document.extend(text.iter().map(|(key, item)| (key.to_owned(), item.clone())));
}

/// Keys of sources whose events are built by time, and such sources.
const TIMED: [&str; 3] = ["[].time_offset", "[].reorder", "[].lag"];
const BY_TIME: &str = r#"
build = { match = "time", time = { window = "1 us" } }
[[layouts]]
name = "clock"
packet = { head = 8, fields = [{ is = "time", at = 0, width = 8, rate = "1 GHz" }] }
[[sources]]
name = "a"
address = "127.0.0.1:0"
protocol = "layout"
layout = "clock"
[[source_groups]]
group = "small"
count = 2
address = "127.0.0.1:0"
protocol = "layout"
layout = "clock"
"#;

/// A field with another role than the base has there.
fn field_is(table: &mut dyn toml_edit::TableLike, role: &str) {
    for key in ["kind", "to"] {
        table.remove(key);
    }
    table.insert("is", Item::Value(role.into()));
}

fn first(array: &mut Array) -> &mut InlineTable {
    array.get_mut(0).and_then(Value::as_inline_table_mut).expect("a table in it")
}

fn read(text: &str) -> Result<High, ConfigFileError> {
    check(Path::new("run.toml"), text)
}

/// All that the program makes of a text, but for the text itself.
fn used(text: &str) -> String {
    let mut high = read(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    high.recorder.text.clear();
    format!("{high:?}")
}

/// How the program refuses that value, without the place.
fn refused(path: &str, value: &str) -> Option<String> {
    let error = read(&with(path, Some(value))).err()?;
    Some(error.message)
}

/// What would have been accepted, by the message of a refusal.
fn expected(message: &str) -> &str {
    if let Some((_, known)) = message.split_once("(known here: ") {
        return known.trim_end_matches(')');
    }
    let (_, rest) = message.split_once("expected ").unwrap_or_else(|| panic!("{message}"));
    rest.rfind(", got").or(rest.rfind("; got")).map_or(rest, |end| &rest[..end])
}

/// A type, in the parser's words.
struct Type {
    list: bool,
    word: String,
    /// What it is, of those that are written as text.
    sentence: Option<String>,
}

fn type_of(path: &str) -> Type {
    let words = |value: &str| {
        let message = refused(path, value)?;
        message.starts_with("invalid type").then(|| expected(&message).to_owned())
    };
    let text = refused(path, "\"?\"").unwrap_or_default();
    let is_word =
        |value: &str| refused(path, value).is_some_and(|one| one.starts_with("unknown value"));
    if let Some(list) = ["\"?\"", "[\"?\"]"].iter().position(|value| is_word(value)) {
        return Type { list: list == 1, word: "word".into(), sentence: None };
    }
    // A table may be written as a list, too, and some names as one name or several.
    let one = words("1").unwrap_or_default();
    let is_either = one.contains(", or a list of such");
    if is_either || one == "a table" {
        let word = if is_either { "string or list of strings" } else { "table" };
        return Type { list: false, word: word.into(), sentence: None };
    }
    let alone = words("[]");
    let list = alone.is_none();
    // No value is a list of lists of tables.
    let words = alone.or_else(|| words("[\"?\"]")).or_else(|| words("[[{}]]"));
    let words = words.unwrap_or_else(|| panic!("{path} takes anything"));
    let word = match words.as_str() {
        words if words.starts_with("an integer") => "integer",
        "a number" => "number",
        "a string" => "string",
        "a path" => "path",
        "true or false" => "`true` or `false`",
        "a table" => "table",
        words if words.starts_with('"') => "word or table",
        words => {
            let word = words.trim_start_matches("an ").trim_start_matches("a ");
            let end = [" with", " such", " and", ","].iter().filter_map(|end| word.find(end)).min();
            let word = word[..end.unwrap_or(word.len())].to_owned();
            // There are few enough codecs to name them all.
            let sentence = if word == "codec" { expected(&text) } else { words };
            return Type { list, word, sentence: Some(sentence.to_owned()) };
        }
    };
    Type { list, word: word.to_owned(), sentence: None }
}

fn page() -> String {
    let (mut tables, mut types) = (String::new(), BTreeMap::new());
    for section in sections() {
        writeln!(tables, "\n## `{}`\n", section.heading).unwrap();
        if !section.text.is_empty() {
            writeln!(tables, "{}\n", section.text).unwrap();
        }
        tables += "| key | type | default | range | meaning |\n| --- | --- | --- | --- | --- |\n";
        for key in &section.keys {
            let path = section.path(key);
            let Type { list, word, sentence } = type_of(&path);
            let shown = match (list, word.split_once(' ')) {
                (false, _) => word.clone(),
                (true, None) => format!("list of {word}s"),
                (true, Some((first, rest))) => format!("list of {first}s {rest}"),
            };
            let default = match key.default {
                Default::Required => "required".to_owned(),
                Default::Is(value) => format!("`{value}`"),
                Default::Words(words) => words.to_owned(),
            };
            let wrong = Some(key.wrong).filter(|wrong| !wrong.is_empty());
            let message = wrong.and_then(|wrong| refused(&path, wrong)).unwrap_or_default();
            let range = match (key.range, key.wrong) {
                (Some(words), _) => words,
                (None, "") => "",
                // That is said once, of the type.
                (None, "\"?\"") if sentence.is_some() => "",
                (None, _) => expected(&message),
            };
            types.extend(sentence.map(|sentence| (word, sentence)));
            let Key { name, text, .. } = key;
            writeln!(tables, "| `{name}` | {shown} | {default} | {range} | {text} |").unwrap();
        }
    }
    let mut page = String::from(HEAD);
    for (word, sentence) in types {
        writeln!(page, "- {word}: {sentence}").unwrap();
    }
    page + &tables
}

const HEAD: &str = "\
# Configuration

Every key of a configuration file (TOML), as `catchment run FILE` reads it. This page is made from the code
(`CATCHMENT_WRITE=1 cargo test -p catchment-config configuration` writes it again);
a test compares the two.
`catchment run FILE --check` checks a file without recording; [examples/](../../examples/) has files to begin with.

Only the keys of the sources or links are required. Unknown keys are errors. Types that are written as text:

";

#[test]
fn the_page_of_the_configuration_is_made_from_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../../../docs/reference/configuration.md");
    let page = page();
    if std::env::var_os("CATCHMENT_WRITE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference/configuration.md is old: CATCHMENT_WRITE=1 writes it");
}

#[test]
fn the_parser_knows_the_keys_of_the_reference_and_no_others() {
    let sections = sections();
    let mut listed: BTreeSet<String> = BTreeSet::new();
    for section in &sections {
        for path in &section.paths {
            listed.extend(section.keys.iter().map(|key| format!("{path}.{}", key.name)));
            // A table is a key of the table around it.
            listed.insert(path.trim_end_matches("[]").to_owned());
        }
    }
    let known = |path: &str| {
        let unknown = format!("{path}.not_a_key");
        let unknown = unknown.trim_start_matches('.');
        let message = refused(unknown, "1").unwrap_or_else(|| panic!("{path} takes any key"));
        assert!(message.contains("unknown key \"not_a_key\""), "{path}: {message}");
        let names = expected(&message).split(", ").map(str::to_owned);
        names
            .map(|name| format!("{path}.{name}").trim_start_matches('.').to_owned())
            .collect::<Vec<_>>()
    };
    let paths = sections.iter().flat_map(|section| &section.paths);
    let known: BTreeSet<String> = paths.flat_map(|path| known(path)).chain(known("")).collect();
    assert_eq!(listed, known);
}

#[test]
fn defaults_are_what_the_program_uses_and_other_values_are_read() {
    let base = used(BASE);
    for section in sections() {
        for key in &section.keys {
            // Not every table can have every key: records have fields, numbers have none.
            let paths = section.paths.iter().map(|path| format!("{path}.{}", key.name));
            let fits = |path: &String| read(&with(path, Some(key.other))).is_ok();
            let path = paths.clone().find(fits).unwrap_or_else(|| section.path(key));
            let other = used(&with(&path, Some(key.other)));
            let without = with(&path, None);
            match key.default {
                Default::Required => assert!(read(&without).is_err(), "{path} is not required"),
                Default::Is(value) => {
                    let without = used(&without);
                    assert_eq!(used(&with(&path, Some(value))), without, "{path} = {value}");
                    // A key of a single value so far has no other one.
                    let same = key.other == value;
                    assert!(same || other != without, "{path} = {} changes nothing", key.other);
                }
                Default::Words(_) => assert_ne!(other, base, "{path} changes nothing"),
            }
            let wrong = Some(key.wrong).filter(|wrong| !wrong.is_empty());
            let refused = wrong.is_none_or(|wrong| refused(&path, wrong).is_some());
            assert!(refused, "{path} = {} is accepted", key.wrong);
        }
    }
}

/// Values at the ends of a range, and the next ones beyond them.
struct Bounds {
    inside: Vec<String>,
    outside: Vec<String>,
}

/// What a range says, in the words of the page, of values of that type; none without numbers.
fn bounds(range: &str, word: &str) -> Option<Bounds> {
    let (range, factor) = match range.strip_prefix("a power of two, ") {
        Some(range) => (range, 2),
        None => (range, 1),
    };
    let (range, step) = match range.strip_prefix("a multiple of ") {
        Some(range) => {
            let (step, range) = range.split_once(", ")?;
            (range, whole(step, "size")?)
        }
        None => (range, 1),
    };
    let start = |text: &str| {
        let words: Vec<&str> = text.split([' ', ',']).collect();
        // With its unit, if it has one.
        let [number, unit] = [words.first()?, words.get(1).unwrap_or(&"")];
        let number_alone = whole(number, word).is_some() || number.parse::<f64>().is_ok();
        let both = format!("{number} {unit}");
        let both_fit = ["size", "duration", "rate"].contains(&word) && fits(&both, word);
        if both_fit { Some(both) } else { number_alone.then(|| (*number).to_owned()) }
    };
    let (low, high) = if let Some((_, after)) = range.split_once("above ") {
        let (low, high) = after.split_once(", up to ")?;
        (Some((low.to_owned(), false)), Some((start(high)?, true)))
    } else if let Some(after) = range.strip_prefix("more than ") {
        (Some((start(after)?, false)), None)
    } else if let Some((_, after)) = range.split_once("an id below ") {
        (Some(("0".to_owned(), true)), Some((after.to_owned(), false)))
    } else if let Some(most) = range.strip_prefix("at most ").or(range.strip_prefix("up to ")) {
        (Some(("0".to_owned(), true)), Some((start(most)?, true)))
    } else {
        let (before, after) = range.split_once(" to ")?;
        let words: Vec<&str> = before.split(' ').collect();
        // The number before it, with its unit or without one.
        let last = |count| start(&words[words.len() - count..].join(" "));
        let low = (1..=words.len().min(2)).rev().find_map(last)?;
        (Some((low, true)), Some((start(after)?, true)))
    };
    let mut found = Bounds { inside: Vec::new(), outside: Vec::new() };
    for (end, sign) in [(low, -1), (high, 1)] {
        let Some((text, included)) = end else { continue };
        // From the bound on and away from the range.
        let beyond = next(&text, word, sign, step, factor)?;
        match included {
            true => {
                found.inside.push(next(&text, word, 0, step, factor)?);
                found.outside.push(beyond);
            }
            false => {
                found.inside.push(next(&text, word, -sign, step, factor)?);
                found.outside.push(next(&text, word, 0, step, factor)?);
            }
        }
    }
    Some(found)
}

fn fits(text: &str, word: &str) -> bool {
    match word {
        "size" => text.parse::<Size>().is_ok(),
        "duration" => text.parse::<Time>().is_ok(),
        _ => text.parse::<Rate>().is_ok(),
    }
}

/// A number that is counted: an integer, bytes, nanoseconds, or the length of a text.
fn whole(text: &str, word: &str) -> Option<i128> {
    let digits = text.trim_start_matches("0x");
    let base = if digits.len() < text.len() { 16 } else { 10 };
    let plain = i128::from_str_radix(digits, base).ok();
    plain.or_else(|| match word {
        "size" => Some(text.parse::<Size>().ok()?.0.into()),
        "duration" => Some(text.parse::<Time>().ok()?.0.into()),
        _ => None,
    })
}

/// The value so many steps from that one, as it is written in a file.
fn next(text: &str, word: &str, steps: i128, step: i128, factor: i128) -> Option<String> {
    if matches!(word, "number" | "rate") {
        let value = match word {
            "rate" => text.parse::<Rate>().ok()?.0?,
            _ => text.parse().ok()?,
        };
        let value = match steps {
            1 => value.next_up(),
            -1 => value.next_down(),
            _ => value,
        };
        return Some(if word == "rate" { format!("\"{value} Hz\"") } else { format!("{value:?}") });
    }
    let value = whole(text, word)?;
    // Durations are read as floats.
    let step = if value > 1 << 53 && word == "duration" { 1_000 } else { step };
    let value = match (factor, steps) {
        (1, _) | (_, 0) => value + steps * step,
        (_, 1) => value * factor,
        (..) => value / factor,
    };
    match word {
        "integer" | "size" => Some(value.to_string()),
        "duration" => Some(format!("\"{value} ns\"")),
        "string" => Some(format!("\"{}\"", "x".repeat(usize::try_from(value).ok()?))),
        _ => None,
    }
}

#[test]
fn ranges_of_the_page_are_those_of_the_program() {
    let mut tried = 0;
    for section in sections() {
        for key in section.keys.iter().filter(|key| !key.wrong.is_empty()) {
            let path = section.path(key);
            let Type { list, word, .. } = type_of(&path);
            let message = refused(&path, key.wrong).unwrap();
            let range = key.range.unwrap_or_else(|| expected(&message));
            let Some(bounds) = bounds(range, &word).filter(|_| !list) else {
                let counted = ["integer", "size", "duration", "number", "rate"];
                let must = key.range.is_none() && !list && counted.contains(&&*word);
                assert!(!must, "{path}: no bounds in {range:?}");
                continue;
            };
            for value in &bounds.inside {
                // What the whole then needs is no bound of this key.
                let found = refused(&path, value);
                let others = ["memory.budget: ", "sources: "];
                let found = found.filter(|found| !others.iter().any(|key| found.starts_with(key)));
                assert_eq!(found, None, "{path} = {value}, in {range:?}");
            }
            for value in &bounds.outside {
                assert!(refused(&path, value).is_some(), "{path} = {value}, not in {range:?}");
            }
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried} ranges");
}
