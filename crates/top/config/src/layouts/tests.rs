//! Declared layouts in a configuration: what is read, and what is refused.

use std::path::Path;

use catchment_wire::layouts::{Layouts, example_counted, example_layouts, example_variants};
use catchment_wire::{PartFlags, Protocol};

use crate::{ConfigFileError, High, check};

/// A source with a layout, declared by these lines.
fn with_layout(layout: &str) -> Result<High, ConfigFileError> {
    let source = "[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\nprotocol = \"layout\"\nlayout = \"one\"\n";
    check(Path::new("run.toml"), &format!("{source}[[layouts]]\nname = \"one\"\n{layout}"))
}

#[test]
fn a_declared_layout_is_the_protocol_of_its_sources() {
    let key =
        "packet = { head = 8, fields = [{ is = \"key\", at = 0, width = 8, bits = [0, 31] }] }";
    let high = with_layout(key).unwrap();
    let protocol = &high.recorder.sources[0].protocol;
    assert_eq!((protocol.name(), protocol.number_bits()), ("layout", 32));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/boards.toml");
    let boards = crate::load(&path).unwrap();
    let [trb, ..] = example_layouts();
    assert_eq!(
        boards.layouts[0].layout(),
        trb.layout(),
        "the example is that of the specification"
    );
}

#[test]
fn a_source_may_have_several_layouts_and_each_error_names_its_key() {
    let source = |layouts: &str, more: &str| {
        let packet = |name: &str, choice: u32, rest: &str| {
            format!(
                "[[layouts]]\nname = \"{name}\"\npacket = {{ head = 12, {rest}fields = [\
                 {{ choose = {choice}, at = 0 }}, {{ is = \"key\", at = 4 }}, \
                 {{ is = \"time\", at = 8, rate = \"1 MHz\" }}] }}\n"
            )
        };
        let plain = "[[layouts]]\nname = \"plain\"\npacket = { head = 8, \
                     fields = [{ choose = 7, at = 0 }, { is = \"key\", at = 4 }] }\n";
        let settings = packet("settings", 3, "skip = true, ");
        let text = format!(
            "{more}[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\nprotocol = \"layout\"\n\
             layout = {layouts}\n{}{}{settings}{plain}",
            packet("x", 1, ""),
            packet("y", 2, ""),
        );
        check(Path::new("run.toml"), &text)
    };
    let by_time = "build = { match = \"time\", time = { window = \"1 us\" } }\n";
    let high = source("[\"x\", \"y\", \"settings\"]", "").unwrap();
    let protocol = &high.recorder.sources[0].protocol;
    assert_eq!((protocol.declared().len(), protocol.number_bits()), (3, 32));
    let timed = source("[\"x\", \"settings\", \"y\"]", by_time).unwrap();
    assert_eq!(timed.recorder.sources[0].protocol.clock_hz(), Some(1_000_000));
    assert_eq!(source("[\"y\"]", "").unwrap().recorder.sources[0].protocol.declared().len(), 1);
    let names = "the name of one of [[layouts]], x or y or settings or plain";
    for (layouts, more, expected) in [
        ("[]", "", "layout: expected a layout with fragments, got none".to_owned()),
        ("\"settings\"", "", "layout: expected a layout with fragments, got none".to_owned()),
        ("[\"x\", \"z\"]", "", format!("layout[1]: expected {names}, got \"z\"")),
        (
            "[\"x\", \"y\", \"x\"]",
            "",
            "layout[2]: \"x\" can never be chosen: \"x\" has the same choose".to_owned(),
        ),
        (
            "[\"x\", \"plain\"]",
            by_time,
            "layout[1]: expected a layout with a time of as many bits in every fragment".to_owned(),
        ),
    ] {
        let error = source(layouts, more).unwrap_err().to_string();
        assert!(error.contains(&format!(": sources[0].{expected}")), "{error}");
        assert!(error.starts_with("run.toml:"), "{error}");
    }
    let error = source("7", "").unwrap_err().to_string();
    assert!(error.contains("a layout's name, or a list of such names"), "{error}");
}

#[test]
fn sources_of_a_declared_stream_share_a_port_by_their_ids() {
    let layout = "[[layouts]]\nname = \"one\"\ntransport = \"stream\"\nfragment = \"body\"\n\
        [layouts.packet]\nhead = 20\nbytes_max = \"64 kB\"\nfields = [\
        { is = \"length\", at = 0 }, { is = \"source\", at = 4 }, { is = \"key\", at = 8 }, \
        { is = \"position\", at = 12, unit = 8 }, { is = \"total\", at = 16 }]\n";
    let source = |name: &str, id: &str| {
        format!(
            "[[sources]]\nname = \"{name}\"\naddress = \"127.0.0.1:20100\"\nprotocol = \"layout\"\nlayout = \"one\"\n{id}\n"
        )
    };
    let of = |first: &str, second: &str| {
        let text = [layout, &source("a", first), &source("b", second)].concat();
        check(Path::new("run.toml"), &text)
    };
    let high = of("sub_event_id = 1", "sub_event_id = 2").unwrap();
    let sources = &high.recorder.sources;
    assert_eq!((sources[0].address, sources[1].id), (sources[1].address, Some(2)));
    assert_eq!(sources[0].protocol.transport(), catchment_wire::Transport::Connections);
    let error = of("sub_event_id = 1", "").unwrap_err().to_string();
    let expected =
        "sources[1].sub_event_id: expected the id that fragments on connections carry, got none";
    assert!(error.contains(expected), "{error}");
    let error = of("sub_event_id = 1", "sub_event_id = 1").unwrap_err().to_string();
    assert!(error.contains("an id other than that of a on the same port"), "{error}");
    // One port understands one layout.
    let other = layout.replace("\"one\"", "\"other\"");
    let second = source("b", "sub_event_id = 2").replace("\"one\"", "\"other\"");
    let text = [layout, &*other, &source("a", "sub_event_id = 1"), &second].concat();
    let error = check(Path::new("run.toml"), &text).unwrap_err().to_string();
    let expected =
        "sources[1].layout: expected \"one\", as a has, which shares the port, got other";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_layout_that_cannot_be_is_refused_with_the_place_and_the_key() {
    let refused = |layout: &str| with_layout(layout).unwrap_err().to_string();
    let field = |field: &str| refused(&format!("packet = {{ head = 8, fields = [{field}] }}"));
    let path = "layouts[0].packet.fields[0]";
    for (fields, expected) in [
        ("{ at = 5, is = \"key\" }", ".at: expected bytes 0 to 7 (head), got 5 to 8"),
        (
            "{ at = 0, is = \"key\", bits = [8, 40] }",
            ".bits: expected bits 0 to 31, rising, got [8, 40]",
        ),
        ("{ at = 0, equals = 993, width = 1 }", ".equals: expected a value of 8 bits, got 0x3e1"),
        (
            "{ at = 0, is = \"key\", equals = 1 }",
            ": expected exactly one of is, equals, choose, each, got is and equals",
        ),
        ("{ at = 0 }", ": expected exactly one of is, equals, choose, each, got none"),
        (
            "{ at = 0, is = \"key\", unit = 4 }",
            ".unit: expected it with is = \"length\" or \"position\" or \"total\" alone",
        ),
        ("{ at = 0, is = \"checksum\" }", ": expected kind with checksum, got none"),
        (
            "{ at = 0, is = \"length\", bits = [0, 2] }, { at = 4, is = \"key\" }",
            ": expected lengths that reach the head of 8 bytes, got 7 bytes at most, in 3 bits",
        ),
    ] {
        let error = field(fields);
        assert!(error.contains(&format!("{path}{expected}")), "{error}");
        assert!(error.starts_with("run.toml:8:"), "{error}");
    }
    let time = field("{ at = 0, is = \"time\", rate = \"1 MHz\" }");
    let expected = "sources[0].layout: expected a layout with a key, or build.match = \"time\" for \
                    times alone, got times of \"a\"";
    assert!(time.contains(expected), "{time}");
    let rate = field("{ at = 0, is = \"time\", rate = \"33.3333333333 MHz\" }");
    assert!(rate.contains("such as \"125 MHz\", a whole number of Hz, got \"33.33"), "{rate}");
    let twice = field(
        "{ at = 0, is = \"time\", rate = \"1 MHz\", bits = [0, 19] }, \
         { at = 0, is = \"time\", bits = [16, 31] }",
    );
    let expected = "fields[1]: expected bits of time once, got bits of fields[0]";
    assert!(twice.contains(expected), "{twice}");
    let records = refused(
        "packet = { head = 4 }\nrecord = [{ head = 8, bytes = 8, fields = [{ choose = 1, at = 0 }, \
         { is = \"key\", at = 4 }] }, { head = 8, bytes = 8, fields = [{ is = \"key\", at = 4, \
         width = 2 }] }]",
    );
    let expected = "as many bits, got a key of 16 bits and a key of 32 bits";
    assert!(records.contains(expected), "{records}");
    let error = field("{ at = 0, is = \"mask\" }");
    assert!(error.contains("unknown value \"mask\""), "{error}");
    let error = field("{ at = 0, is = \"groups\" }");
    assert!(error.contains("groups: expected a value of 1 to 16 bits, got 32"), "{error}");
    let text = "[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\n";
    let of = |more: &str| {
        check(Path::new("run.toml"), &format!("{text}{more}")).unwrap_err().to_string()
    };
    let error = of("protocol = \"layout\"\nlayout = \"one\"\n");
    assert!(
        error.contains("expected one of [[layouts]], of which there is none, got \"one\""),
        "{error}"
    );
    let error = of("layout = \"one\"\n");
    assert!(error.contains("expected it with protocol = \"layout\", got \"hadtu\""), "{error}");
}

/// What the packet of some hexadecimal digits holds, as the specification shows it.
fn shown(protocol: &dyn Protocol, hex: &str) -> String {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let packet: Vec<u8> = digits.chunks_exact(2).map(digit).collect();
    let mut parts = Vec::new();
    let decoded = protocol.decoder().decode(0, &packet, &mut parts).unwrap();
    let number = if protocol.clock_hz().is_none() { "key" } else { "time" };
    let mut text = String::new();
    for part in &parts {
        text +=
            &format!("-> source {:#x}, {number} {:#x}, tag {:#x}", part.id, part.number, part.tag);
        if part.groups > 0 {
            text += &format!(", groups {:#x}", part.groups);
        }
        if part.flags & PartFlags::SENDER_ERROR > 0 {
            text += ", broken";
        }
        text += &format!(": bytes {} to {}\n", part.offset, part.offset + part.bytes - 1);
    }
    // Its bits alone: what is continued over a wrap begins anywhere.
    let sequence = decoded.sequence.map(|number| format!("sequence {}", number % (1 << 32)));
    let skipped = (decoded.skipped > 0).then(|| format!("{} skipped", decoded.skipped));
    let more: Vec<String> = sequence.into_iter().chain(skipped).collect();
    if !more.is_empty() {
        text += &format!("-> {}\n", more.join(", "));
    }
    text
}

#[test]
fn the_examples_of_the_specification_are_read_as_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/spec/layouts.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, examples) = page.split_once("\n## 7. Examples\n").unwrap();
    let (examples, _) = examples.split_once("\n## 8.").unwrap();
    let fenced = |example: &str, kind: &str| {
        let (_, rest) = example.split_once(&format!("```{kind}\n")).unwrap();
        rest.split_once("```\n").unwrap().0.to_owned()
    };
    let examples: Vec<&str> = examples.split("\n### ").skip(1).collect();
    let expected = example_layouts().map(|one| vec![one]).into_iter();
    let more = [example_variants().declared().to_vec(), vec![example_counted()]];
    let expected: Vec<_> = expected.chain(more).collect();
    assert_eq!(examples.len(), expected.len());
    for (example, expected) in examples.into_iter().zip(expected) {
        let names: Vec<&str> = expected.iter().map(|one| one.layout().name.as_str()).collect();
        let by_time = match expected[0].layout().has_keys() {
            true => "",
            false => "build = { match = \"time\", time = { window = \"1 us\" } }\n",
        };
        let source = format!(
            "{by_time}[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\nprotocol = \"layout\"\n\
             layout = {names:?}\n"
        );
        let high = check(Path::new("run.toml"), &(source + &fenced(example, "toml"))).unwrap();
        assert!(high.layouts.iter().map(Layouts::layout).eq(expected.iter().map(Layouts::layout)));
        let protocol = &*high.recorder.sources[0].protocol;
        let (text, mut hex, mut read) = (fenced(example, "text"), String::new(), String::new());
        for line in text.lines() {
            if line.starts_with("->") && !hex.is_empty() {
                read += &format!("{hex}{}", shown(protocol, &hex));
                hex.clear();
            }
            if !line.starts_with("->") {
                hex += &format!("{line}\n");
            }
        }
        assert_eq!(read, text, "{names:?}");
    }
}
