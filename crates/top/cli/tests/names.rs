//! Names out of files that others made: whoever looks at them is shown the names, and no terminal
//! obeys them.

use std::path::Path;

use catchment_fixtures::hadtu_sources;
use catchment_frame::{ChannelInfo, Dtype, EntryNames, FileHeader, Schema, TocBuilder, TocFlags};
use catchment_model::printable::is_control;
use catchment_model::{Ledger, RunId, SampleRate};

use crate::support;
use support::{json, output, stderr};

/// A file with names that clear the screen, forge a line and turn text around.
fn strange_file(folder: &Path, name: &str) {
    let mut sources = hadtu_sources(2, |_| true);
    sources[0].name = name.into();
    sources[0].group = name.into();
    sources[1].name = "n".repeat(10_000);
    let channel = ChannelInfo::new(name, Dtype::I16, SampleRate::new(10, 1).unwrap());
    let header = FileHeader {
        run: RunId([7; 16]),
        run_number: 1,
        file_index: 0,
        file_id: 0x5eed,
        created_ns: 1_750_000_000_000_000_000,
        writer: name.into(),
        config: format!("# {name}\n"),
        emulated: false,
        schema: Schema::events(sources).with_channels(vec![channel]).unwrap().into(),
        ledger_entries: EntryNames::default(),
        locator: false,
        numbering: catchment_frame::Numbering::Run,
        variant: 0,
        target: None,
        part: None,
        stream: 0,
        epoch: 0,
        superseded: Vec::new(),
        base: None,
    };
    let mut file = header.encode();
    let toc = TocBuilder::new(&file);
    let flags = TocFlags { run_ended: true, ..TocFlags::default() };
    file.extend(toc.finish(file.len() as u64, &Ledger::new(2), flags));
    std::fs::create_dir(folder.join("run")).unwrap();
    std::fs::write(folder.join("run/run-00000.catch"), file).unwrap();
}

#[test]
fn a_strangers_names_are_shown_and_not_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a\x1b[2J\0\u{202e}\u{9b}\n2026-11-25T00:00:00Z error fake";
    strange_file(folder.path(), name);
    let shown = r"a\u{1b}[2J\u{0}\u{202e}\u{9b}\n2026-11-25T00:00:00Z error fake";
    for (arguments, is_named) in [
        (&["inspect", "run", "--sources", "--channels", "--frames", "--verify"][..], true),
        (&["audit", "run"], false),
        (&["read", "run", "--source", "none"], false),
        (&["read", "run", "--channel", "none"], false),
        (&["reduce", "run", "--out", "reduced", "--channel", "none"], false),
        (&["repair", "run"], false),
        (&["--json", "inspect", "run"], false),
    ] {
        let printed = output(folder.path(), arguments);
        let text = [printed.stdout, printed.stderr].concat();
        let text = String::from_utf8(text).expect("text");
        assert!(!text.contains(|c| c != '\n' && is_control(c)), "{arguments:?}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("2026-11-25")), "{arguments:?}: {text}");
        assert!(!is_named || text.contains(shown), "{arguments:?}: {text}");
    }
    // Programs get them as they are, and the file can be read.
    let run = json(folder.path(), &["--json", "inspect", "run"], 0);
    assert_eq!(run["sources"][0]["name"], name);
    assert_eq!(run["channels"][0]["name"], name);
}

#[test]
fn a_configuration_with_such_names_or_without_its_certificate_is_refused_by_its_check() {
    let folder = tempfile::tempdir().unwrap();
    let source = "[[sources]]\naddress = \"127.0.0.1:0\"\nname = ";
    let check = |text: String| {
        std::fs::write(folder.path().join("run.toml"), text).unwrap();
        stderr(folder.path(), &["run", "run.toml", "--check"], 2)
    };
    let printed = check(format!("{source}\"\\u001b[2J\"\n"));
    let expected = "run.toml:3:8: sources[0].name: expected no control characters, got \\u{1b} in";
    assert!(printed.contains(expected) && !printed.contains('\x1b'), "{printed}");
    let tls = "[control]\ntls = { certificate = \"c.pem\", key = \"k.pem\" }\n";
    let printed = check(format!("{tls}{source}\"a\"\n"));
    assert!(printed.contains("c.pem: expected certificates in PEM"), "{printed}");
}
