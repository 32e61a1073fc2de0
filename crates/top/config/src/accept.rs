//! `[[accept]]`: front-ends that are admitted by a pattern of their names.
//!
//! What was admitted when a run is armed becomes text: behind that of the file stands a table
//! `[[sources]]` for each source, with what the entry says of it. So files, resume and all readers
//! know sources only, and a run can be repeated from its text.

use std::sync::Arc;

use catchment_builder::SourceRole;
use catchment_frame::Pattern;
use catchment_model::limits::SOURCES_MAX;
use catchment_model::units::Size;
use catchment_recorder::{
    ADMITTED, Accept, AdmittedSource, Listener, RecorderConfig, SourceConfig,
};
use catchment_wire::Protocol as _;
use catchment_wire::event_link::EventLink;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, value};

use crate::locate::{ConfigFileError, Located};
use crate::low::Low;
use crate::sources::expected_in;

/// An entry as it is written.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptLow {
    senders: Pattern,
    #[serde(default = "front_ends_default")]
    front_ends: usize,
    #[serde(default = "sources_default")]
    sources: usize,
    group: Option<String>,
    fragment_bytes_max: Option<Size>,
    #[serde(default)]
    role: SourceRole,
    #[serde(default)]
    expected_in: Vec<u32>,
}

/// The entries of a file.
pub(crate) fn accept(
    located: &Located<'_>,
    low: &Low,
    listeners: &[Listener],
    text: &str,
) -> Result<Vec<Accept>, ConfigFileError> {
    let error = |key: &str, message: &str| Err(located.error(key, message));
    let (all, listener) = match (&low.accept[..], listeners.first()) {
        ([], _) => return Ok(Vec::new()),
        (_, None) => {
            return error("accept[0]", "expected [[listen]], where front-ends connect, got none");
        }
        (all, Some(listener)) => (all, listener),
    };
    if low.emulator.is_some() {
        return error("accept[0]", "expected no [emulator] beside it: it is no front-end");
    }
    if all.len() > ENTRIES_MAX {
        let message = format!("expected at most {ENTRIES_MAX} entries, got {}", all.len());
        return error(&format!("accept[{ENTRIES_MAX}]"), &message);
    }
    let document: DocumentMut = text.parse().unwrap_or_default();
    if document.get("sources").is_some_and(Item::is_value) {
        return error("sources", "expected tables, [[sources]], beside [[accept]], got a list");
    }
    let entry = |(index, low): (usize, &AcceptLow)| high(located, index, low, listener);
    all.iter().enumerate().map(entry).collect()
}

fn high(
    located: &Located<'_>,
    index: usize,
    low: &AcceptLow,
    listener: &Listener,
) -> Result<Accept, ConfigFileError> {
    let path = format!("accept[{index}]");
    let &AcceptLow { front_ends, sources, role, .. } = low;
    let bounds = [("front_ends", front_ends, FRONT_ENDS_MAX), ("sources", sources, SOURCES_MAX)];
    for (key, got, most) in bounds {
        if !(1..=most).contains(&got) {
            let message = format!("expected 1 to {most}, got {got}");
            return Err(located.error(&format!("{path}.{key}"), message));
        }
    }
    let all = front_ends * sources;
    if all > SOURCES_MAX {
        let message = format!(
            "expected front_ends times sources to be at most {SOURCES_MAX}, the sources of a run, \
             got {all}"
        );
        return Err(located.error(&format!("{path}.front_ends"), message));
    }
    if role == SourceRole::Disabled {
        let message = "expected \"required\", \"optional\" or \"sparse\", got \"disabled\"";
        return Err(located.error(&format!("{path}.role"), message));
    }
    let protocol = EventLink::SESSIONS;
    let source = SourceConfig {
        from: listener.from.clone(),
        group: low.group.clone().unwrap_or_else(|| "sources".into()),
        fragment_bytes_max: low
            .fragment_bytes_max
            .map_or_else(|| protocol.fragment_bytes_max(), |size| size.0),
        protocol: Arc::new(protocol),
        role,
        expected_in: expected_in(located, &path, &low.expected_in)?,
        // No hello can name it.
        ..SourceConfig::over_session(path, listener.address)
    };
    Ok(Accept { senders: low.senders.clone(), front_ends, sources, source })
}

/// Checks what an entry says of sources, by what would be refused if one front-end was admitted
/// before any was.
pub(crate) fn check(
    located: &Located<'_>,
    recorder: &RecorderConfig,
) -> Result<(), ConfigFileError> {
    let has_admitted = recorder.text.contains(ADMITTED);
    for (index, entry) in recorder.accept.iter().enumerate().filter(|_| !has_admitted) {
        let first = recorder.sources.len();
        let sources = recorder.sources.iter().chain([&entry.source]).cloned().collect();
        let with_one = RecorderConfig { sources, ..recorder.clone() };
        let Err(error) = with_one.check() else { continue };
        let own = format!("sources[{first}]");
        let key = match error.key.strip_prefix(&own) {
            Some(key) => format!("accept[{index}]{key}"),
            // Patterns of names may be of those that will come.
            None if error.key == "targets" => continue,
            None => error.key.clone(),
        };
        return Err(located.expected(&key, &error.expected, &error.got));
    }
    Ok(())
}

/// The text of a configuration with the sources that were admitted.
///
/// # Errors
/// It has no such entry.
pub fn with_admitted(text: &str, sources: &[AdmittedSource]) -> Result<String, String> {
    if sources.is_empty() {
        return Ok(text.to_owned());
    }
    let document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    let entries: Vec<&dyn TableLike> = match document.get("accept") {
        Some(Item::ArrayOfTables(tables)) => {
            tables.iter().map(|table| table as &dyn TableLike).collect()
        }
        Some(item) => {
            let tables = item.as_array().into_iter().flatten();
            tables.filter_map(|one| Some(one.as_inline_table()? as &dyn TableLike)).collect()
        }
        None => Vec::new(),
    };
    let mut tables = ArrayOfTables::new();
    for AdmittedSource { name, accept } in sources {
        let entry = entries.get(*accept).ok_or_else(|| format!("there is no accept[{accept}]"))?;
        let mut table = Table::new();
        table.insert("name", value(name));
        table.insert("via", value("link"));
        for (key, item) in entry.iter().filter(|(key, _)| !OWN_KEYS.contains(key)) {
            let plain = item.as_value().map(|value| value.clone().decorated(" ", ""));
            let plain = plain.ok_or_else(|| format!("accept[{accept}].{key} is no value"))?;
            table.insert(key, Item::Value(plain));
        }
        tables.push(table);
    }
    let mut admitted = DocumentMut::new();
    admitted.insert("sources", Item::ArrayOfTables(tables));
    Ok(format!("{text}{ADMITTED}{admitted}"))
}

fn front_ends_default() -> usize {
    64
}

fn sources_default() -> usize {
    16
}

/// Entries of a file, and the front-ends that one admits.
const ENTRIES_MAX: usize = 64;
const FRONT_ENDS_MAX: usize = 1_024;
/// The keys that are not those of sources.
const OWN_KEYS: [&str; 3] = ["senders", "front_ends", "sources"];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn checked(text: &str) -> Result<RecorderConfig, String> {
        let high = crate::check(Path::new("run.toml"), text);
        high.map(|high| high.recorder).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_admitted_becomes_sources_with_what_the_entry_says() {
        let text = "[[listen]]\naddress = \"127.0.0.1:7300\"\n# first\n[[sources]]\n\
                    name = \"own\"\nvia = \"link\"\n[[accept]]\nsenders = \"left-*\"\n\
                    [[accept]]\nsenders = \"*\"\nfront_ends = 3 # few\nsources = 2\n\
                    role = \"optional\" # as they are\ngroup = \"guests\"\n\
                    fragment_bytes_max = \"2 MiB\"\nexpected_in = [3, 5] # two\n[frame]\n";
        let base = checked(text).unwrap();
        assert_eq!((base.sources.len(), base.accept.len()), (1, 2));
        assert_eq!((base.accept[0].front_ends, base.accept[0].sources), (64, 16));
        assert_eq!((base.accept[1].front_ends, base.accept[1].sources), (3, 2));
        let source = |name: &str, accept| AdmittedSource { name: name.to_owned(), accept };
        let admitted = [source("left-1", 0), source("z/\"a\"", 1)];
        let whole = with_admitted(text, &admitted).unwrap();
        assert!(whole.strip_prefix(text).unwrap().starts_with(ADMITTED));
        let sources = checked(&whole).unwrap().sources;
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["own", "left-1", "z/\"a\""]);
        let [_, left, guest] = &sources[..] else { panic!("{names:?}") };
        assert_eq!(
            (left.role, left.expected_in, &*left.group),
            (SourceRole::Required, 0, "sources")
        );
        assert_eq!(left.address, "127.0.0.1:7300".parse().unwrap());
        assert!(left.is_link());
        assert_eq!((guest.role, guest.expected_in), (SourceRole::Optional, 0b10_1000));
        assert_eq!((&*guest.group, guest.fragment_bytes_max), ("guests", 2 << 20));
        // Nobody is admitted, or more are.
        assert_eq!(with_admitted(text, &[]).unwrap(), text);
        let again = with_admitted(&whole, &[source("more", 0)]).unwrap();
        assert_eq!(checked(&again).unwrap().sources.len(), 4);
        assert!(with_admitted(text, &[source("more", 2)]).is_err());
    }

    #[test]
    fn what_is_admitted_comes_after_the_groups_so_that_their_numbers_stay() {
        let text = "[[listen]]\naddress = \"127.0.0.1:7303\"\n[[sources]]\nname = \"own\"\n\
                    via = \"link\"\nfragment_bytes_max = \"1 MiB\"\n[[source_groups]]\n\
                    group = \"many\"\ncount = 2\nvia = \"link\"\nfragment_bytes_max = \"1 MiB\"\n\
                    [[accept]]\nsenders = \"*\"\nfragment_bytes_max = \"1 MiB\"\n";
        let admitted = ["a", "b"].map(|name| AdmittedSource { name: name.to_owned(), accept: 0 });
        let names = |text: &str| -> Vec<String> {
            checked(text).unwrap().sources.into_iter().map(|source| source.name).collect()
        };
        let own = ["own", "many-000", "many-001"];
        assert_eq!(names(text), own);
        let whole = with_admitted(text, &admitted).unwrap();
        assert_eq!(names(&whole), [&own[..], &["a", "b"][..]].concat());
        // A fault is at its table.
        let twice = whole.replace("\"b\"", "\"many-001\"");
        let refused = checked(&twice).unwrap_err();
        assert!(refused.contains("sources[2].name: expected a name used once"), "{refused}");
    }

    #[test]
    fn a_run_may_have_no_source_before_front_ends_are_admitted() {
        for rule in ["", "build = { match = \"time\", time = { window = \"1 us\" } }\n"] {
            let base = format!("{rule}[[listen]]\n[[listen]]\naddress = \"127.0.0.1:7301\"\n");
            let text = format!("{base}[[accept]]\nsenders = \"camera-*\"");
            let recorder = checked(&text).unwrap();
            let refused = recorder.check_run().unwrap_err().to_string();
            assert!(refused.contains("a connected front-end that [[accept]] admits"), "{refused}");
            assert!(recorder.has_front_ends());
            let source = AdmittedSource { name: "camera-1".to_owned(), accept: 0 };
            let recorder = checked(&with_admitted(&text, &[source]).unwrap()).unwrap();
            assert_eq!(recorder.check_run(), Ok(()));
        }
    }

    #[test]
    fn offsets_may_name_front_ends_that_are_not_admitted_yet() {
        let by_time = "match = \"time\", time = { window = \"1 us\",";
        let with = |build: &str, offset: &str| {
            let offsets = format!("[{{ sources = \"camera-2\", offset = \"{offset}\" }}]");
            format!(
                "build = {{ {build} offsets = {offsets} }} }}\n[[listen]]\n\
                 address = \"127.0.0.1:7304\"\n[[sources]]\nname = \"own\"\nvia = \"link\"\n\
                 [[accept]]\nsenders = \"camera-*\"\n"
            )
        };
        let base = with(by_time, "-3 us");
        assert_eq!(checked(&base).unwrap().sources.len(), 1);
        let mut whole = base;
        for name in ["camera-1", "camera-2"] {
            let source = AdmittedSource { name: name.to_owned(), accept: 0 };
            whole = with_admitted(&whole, &[source]).unwrap();
            checked(&whole).unwrap();
        }
        let sources = checked(&whole).unwrap().sources;
        let offsets: Vec<i64> = sources.iter().map(|source| source.clock.offset_ns).collect();
        assert_eq!(offsets, [0, 0, -3_000]);
        for (text, expected) in [
            (with(by_time, "25 h"), "offsets[0].offset: expected at most a day"),
            (with("time = {", "1 us"), "offsets[0].offset: expected build.match = \"time\""),
        ] {
            let refused = checked(&text).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn what_opens_events_may_be_a_front_end_that_is_not_admitted_yet() {
        let with = |settings: &str, own: &str| {
            format!(
                "build = {{ match = \"time\", time = {{ window = \"1 us\", {settings} }} }}\n\
                 [[listen]]\naddress = \"127.0.0.1:7305\"\n{own}\
                 [[accept]]\nsenders = \"camera-*\"\n"
            )
        };
        let own = "[[sources]]\nname = \"own\"\nvia = \"link\"\n";
        for (openers, comes) in [
            ("openers = [\"camera-2\"]", "camera-2"),
            ("openers = [\"camera-2/*\"]", "camera-2/left"),
            ("openers = [\"own\", \"camera-2/left\"], coincidence = 2", "camera-2/left"),
        ] {
            let base = with(openers, own);
            assert_eq!(checked(&base).unwrap().sources.len(), 1, "{openers}");
            // One that does not open events may be admitted first, and no run begins with it.
            let first = AdmittedSource { name: "camera-1".to_owned(), accept: 0 };
            let one = with_admitted(&base, &[first]).unwrap();
            let refused = checked(&one).unwrap().check_run().unwrap_err();
            assert!(refused.key.starts_with("build.time."), "{refused}");
            let second = AdmittedSource { name: comes.to_owned(), accept: 0 };
            let both = checked(&with_admitted(&one, &[second]).unwrap()).unwrap();
            assert_eq!(both.check_run(), Ok(()), "{openers}");
            let opens = both.time_config().unwrap().openers;
            assert!(opens[2] && !opens[1], "{opens:?}");
        }
        // Where all required sources open events, one that is admitted may be the only one.
        let optional = own.replace("via", "role = \"optional\"\nvia");
        assert_eq!(checked(&with("", &optional)).unwrap().sources.len(), 1);
        for settings in ["openers = [\"nobody\"]", "openers = [\"own\", \"cameras-1\"]"] {
            let refused = checked(&with(settings, own)).unwrap_err();
            assert!(refused.contains("openers: expected names of sources"), "{refused}");
        }
        // Its other settings are known before it comes.
        let refused = checked(&with("openers = [\"camera-2\"], jump = \"2 h\"", own)).unwrap_err();
        assert!(refused.contains("build.time.jump: expected"), "{refused}");
    }

    #[test]
    fn entries_that_cannot_be_are_refused_by_name() {
        let listen = "[[listen]]\naddress = \"127.0.0.1:7302\"\n";
        for (before, entry, expected) in [
            ("", "", "accept[0]: expected [[listen]], where front-ends connect, got none"),
            (listen, "front_ends = 0", "accept[0].front_ends: expected 1 to 1024, got 0"),
            (listen, "sources = 4097", "accept[0].sources: expected 1 to 4096, got 4097"),
            (listen, "sources = 65", "expected front_ends times sources to be at most 4096"),
            (listen, "role = \"disabled\"", "accept[0].role: expected \"required\", \"opt"),
            (listen, "expected_in = [64]", "accept[0].expected_in: expected numbers of groups"),
            (listen, "fragment_bytes_max = 0", "accept[0].fragment_bytes_max: expected 1 to"),
            (listen, "group = \"\\u0001\"", "accept[0].group: expected"),
            (listen, "colour = 1", "unknown key \"colour\""),
            (listen, "[emulator]", "accept[0]: expected no [emulator] beside it"),
            (
                "sources = [{ name = \"a\", address = \"127.0.0.1:1\" }]\n[[listen]]\n",
                "",
                "sources: expected tables, [[sources]], beside [[accept]], got a list",
            ),
        ] {
            let text = format!("{before}[[accept]]\nsenders = \"*\"\n{entry}\n");
            let refused = checked(&text).unwrap_err();
            assert!(refused.contains(expected), "{entry}: {refused}");
        }
        let refused = checked(&format!("{listen}[[accept]]\nsenders = \"[\"\n")).unwrap_err();
        assert!(refused.contains("expected a pattern of names"), "{refused}");
        let refused = checked(&format!("{listen}[[accept]]\n")).unwrap_err();
        assert!(refused.contains("\"senders\" is missing"), "{refused}");
        // What one front-end needs is known before it comes.
        let budget = "[memory]\nbudget = \"24 MiB\"\n";
        let refused = checked(&format!("{budget}{listen}[[accept]]\nsenders = \"*\"\n"));
        assert!(refused.unwrap_err().contains("memory.budget: expected at least"));
    }
}
