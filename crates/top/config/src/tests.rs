use std::time::Duration;

use catchment_builder::IncompletePolicy;
use catchment_disk::EngineChoice;
use catchment_frame::Dtype;
use catchment_recorder::TlsRule;

use super::*;
use crate::sources::numbered;

const TWO: &str = r#"
[[source_groups]]
group = "small"
count = 2
address = "127.0.0.1:50000"
first_sub_event_id = 0x8000
"#;

fn message(text: &str) -> String {
    check(Path::new("run.toml"), text).expect_err("a configuration with a fault").to_string()
}

#[test]
fn a_group_of_sources_counts_its_ports_and_ids_up() {
    let high = check(Path::new("run.toml"), TWO).unwrap();
    let sources = high.recorder.sources;
    assert_eq!(sources.len(), 2);
    assert_eq!((sources[1].name.as_str(), sources[1].group.as_str()), ("small-001", "small"));
    assert_eq!(sources[1].address, "127.0.0.1:50001".parse().unwrap());
    assert_eq!(sources[1].id, Some(0x8001));
    assert!(high.emulator.is_none());
}

#[test]
fn every_section_reaches_the_recorder() {
    let text = format!(
        r#"
[run]
folder = "/data"
number = 7
[memory]
budget = "2 GiB"
[receive]
threads = 2
cpus = [0]
spin = "50 us"
coalesce = "1 ms"
socket_buffer = "8 MiB"
[build]
timeout = "2 s"
window_events = 65536
reorder_events = 128
incomplete = "drop"
cpu = 0
[frame]
bytes = 1048576
time = "500 ms"
codec = "lz4"
[write]
file_bytes = "1 GiB"
file_time = "1 min"
sync_interval = "100 ms"
engine = "portable"
buffer_bytes = "1 MiB"
buffer_count = 4
preallocate_bytes = "64 MiB"
cpu = 0
{TWO}"#
    );
    let config = check(Path::new("run.toml"), &text).unwrap().recorder;
    assert_eq!((config.folder.as_path(), config.run_number), (Path::new("/data"), 7));
    assert_eq!(config.memory_bytes, 2 << 30);
    assert_eq!((config.receive.threads, config.receive.cpus), (2, vec![0]));
    let spin_and_coalesce = [config.receive.spin, config.receive.coalesce];
    assert_eq!(spin_and_coalesce, [50, 1_000].map(Duration::from_micros));
    assert_eq!(config.receive.socket_buffer_bytes, 8 << 20);
    assert_eq!((config.build.timeout_ns, config.build.window_events), (2_000_000_000, 65_536));
    assert_eq!((config.build.reorder_events, config.build.cpu), (128, Some(0)));
    assert!(matches!(config.build.incomplete, IncompletePolicy::Drop));
    assert_eq!((config.frame.bytes, config.frame.time_ns), (1 << 20, 500_000_000));
    assert_eq!(config.frame.codings.of("any").to_string(), "lz4");
    assert_eq!(
        (config.write.file_bytes, config.write.file_time_ns),
        (1 << 30, Some(60_000_000_000))
    );
    assert_eq!((config.write.sync_interval_ns, config.write.buffer_count), (100_000_000, 4));
    assert!(matches!(config.write.engine, EngineChoice::Portable));
    assert_eq!((config.write.buffer_bytes, config.write.preallocate_bytes), (1 << 20, 64 << 20));
    assert_eq!(config.text, text);
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_what_was_meant() {
    assert_eq!(
        message("[receive]\ntreads = 2\n"),
        "run.toml:2:1: unknown key \"treads\"; did you mean threads? \
         (known here: threads, link_threads, cpus, spin, coalesce, socket_buffer)"
    );
    assert!(
        message("[recieve]\n")
            .starts_with("run.toml:1:2: unknown key \"recieve\"; did you mean receive?")
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_told_what_was_expected() {
    assert_eq!(
        message("[frame]\nbytes = \"32 mib\"\n"),
        "run.toml:2:9: expected a size such as \"32 MiB\" or \"1.5 GB\", got \"32 mib\""
    );
    assert_eq!(
        message("[build]\ntimeout = 5\n"),
        "run.toml:2:11: invalid value: integer `5`, expected a duration with its unit, such as \"500 ms\""
    );
    assert_eq!(
        message("[frame]\ncodec = \"zst\"\n"),
        "run.toml:2:9: expected none, lz4, zstd:1 to zstd:19, bitshuffle+lz4, bitshuffle+zstd:1 to \
         bitshuffle+zstd:19, shuffle+lz4, shuffle+zstd:1 to shuffle+zstd:19, pcodec:0 to pcodec:12 \
         (without a level zstd has 1, pcodec 8) or for, or portable or auto; got \"zst\""
    );
    assert_eq!(
        message("[[sources]]\nname = \"a\"\naddress = \"localhost:1\"\n"),
        "run.toml:3:11: expected an IP address and a port such as \"127.0.0.1:50000\", got \"localhost:1\""
    );
}

#[test]
fn types_are_those_of_the_file() {
    assert_eq!(
        message("[run]\nnumber = \"5\"\n"),
        "run.toml:2:10: invalid type: string \"5\", expected an integer, 0 or more"
    );
    assert!(message("[run]\nfolder = 5\n").ends_with("integer `5`, expected a path"));
    assert!(message("[run]\nnumber = -5\n").ends_with("expected an integer, 0 or more"));
    assert!(message("run = 5\n").ends_with("integer `5`, expected a table"));
}

#[test]
fn codecs_have_a_level_without_one() {
    let codec = |name: &str| {
        let text = format!("[frame]\ncodec = \"{name}\"\n{TWO}");
        let config = check(Path::new("run.toml"), &text).ok()?.recorder;
        Some(config.frame.codings.of("any").to_string())
    };
    for (codecs, default, levels) in
        [(&["zstd", "shuffle+zstd", "bitshuffle+zstd"][..], 1, 1..=19), (&["pcodec"], 8, 0..=12)]
    {
        for name in codecs {
            assert_eq!(codec(name), Some(format!("{name}:{default}")));
            for level in -1..=20 {
                let with_level = format!("{name}:{level}");
                let expected = levels.contains(&level).then(|| with_level.clone());
                assert_eq!(codec(&with_level), expected);
            }
        }
    }
}

#[test]
fn a_value_out_of_bounds_is_found_where_it_is_written() {
    assert_eq!(
        message(&format!("[build]\nwindow_events = 1000\n{TWO}")),
        "run.toml:2:17: build.window_events: expected a power of two, 256 to 4194304, got 1000"
    );
    assert!(
        message(&format!("[receive]\ncpus = [0, 4096]\n{TWO}"))
            .starts_with("run.toml:2:8: receive.cpus: expected a CPU of this machine (")
    );
    assert!(message(&format!("[write]\ncpu = 1023\n{TWO}")).ends_with(", got 1023"));
    assert_eq!(
        message(&format!("[frame]\ntime = \"0 s\"\n{TWO}")),
        "run.toml:2:8: frame.time: expected 1 ms to 1 h, got 0 ns"
    );
    for (table, key, value, expected) in [
        ("write", "file_time", "0 s", "100 ms to 8760 h, got 0 ns"),
        ("write", "sync_interval", "0 s", "1 ms to 1 h, got 0 ns"),
        ("write", "sync_interval", "2 h", "1 ms to 1 h, got 2 h"),
        ("write", "sync_bytes", "0", "4 KiB to 1 TiB, got 0 B"),
        ("write", "sync_bytes", "2 TiB", "4 KiB to 1 TiB, got 2.20 TB"),
        ("frame", "duration", "25 h", "1 ms to 24 h, got 25 h"),
        ("build", "timeout", "90 min", "1 us to 1 h, got 90 min"),
        ("receive", "spin", "10 s", "0 ns to 20 ms, got 10 s"),
        ("receive", "coalesce", "21 ms", "0 ns to 20 ms, got 21 ms"),
        ("receive", "socket_buffer", "100 GiB", "at most 1 GiB, got 107374182400 bytes"),
    ] {
        let text = format!("[{table}]\n{key} = \"{value}\"\n{TWO}");
        let column = key.len() + 4;
        let whole = format!("run.toml:2:{column}: {table}.{key}: expected {expected}");
        assert_eq!(message(&text), whole);
    }
    // Neither rule takes what the other one is set by.
    assert_eq!(
        message(&format!("[build]\nreorder_events = 64\ntime = {{ late = \"count\" }}\n{TWO}")),
        "run.toml:3:8: build.time: expected build.match = \"time\" beside it, got number"
    );
    // What is not written follows what is.
    let high = check(Path::new("run.toml"), &format!("[build]\nwindow_events = 1024\n{TWO}"));
    assert_eq!(high.unwrap().recorder.build.reorder_events, 512);
    let id = "[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\nsub_event_id = 0x80000001\n";
    assert_eq!(
        message(id),
        "run.toml:4:16: sources[0].sub_event_id: expected an id below 0x80000000, got 0x80000001"
    );
    let text = format!("{TWO}[[sources]]\nname = \"small-001\"\naddress = \"127.0.0.1:40000\"\n");
    assert_eq!(
        message(&text),
        "run.toml:2:1: source_groups[0].name: expected a name used once, got \"small-001\" again"
    );
    let text = TWO.replace("50000", "65535");
    assert_eq!(
        message(&text),
        "run.toml:5:11: source_groups[0].address: expected 2 ports up from here, got 127.0.0.1:65535"
    );
}

#[test]
fn names_that_a_terminal_would_obey_are_refused_where_they_are_written() {
    let source = |line: &str| message(&format!("{line}\n{TWO}"));
    let table = "[[sources]]\naddress = \"127.0.0.1:1\"\nname = ";
    for (escape, got) in [("\\u001b[2J", "u{1b}"), ("\\u202e", "u{202e}"), ("\\n", "n")] {
        let refused = source(&format!("{table}\"a{escape}\""));
        let expected = format!(
            "run.toml:3:8: sources[0].name: expected no control characters, got \\{got} in \"a"
        );
        assert!(refused.starts_with(&expected), "{refused}");
        assert!(!refused.contains(catchment_model::printable::is_control), "{refused:?}");
    }
    assert_eq!(
        source(&format!("{table}\"{}\"", "n".repeat(10_000))),
        "run.toml:3:8: sources[0].name: expected at most 255 bytes, got 10000 bytes"
    );
    let group = source(&format!("{table}\"a\"\ngroup = \"\\u0007\""));
    assert!(group.starts_with("run.toml:4:9: sources[0].group: expected no"), "{group}");
    let group = message(&TWO.replace("\"small\"", "\"small\\u009b\""));
    assert!(group.contains(": source_groups[0].name: expected no"), "{group}");
    let alarm = source("[[alarms]]\nname = \"\\u001b\"\nquantity = \"fault\"\nabove = 1");
    assert!(alarm.starts_with("run.toml:2:8: alarms[0].name: expected no"), "{alarm}");
    let alarm =
        source("[[alarms]]\nname = \"x\"\nquantity = \"fault\"\nabove = 1\ntext = \"\\u001b\"");
    assert!(alarm.starts_with("run.toml:5:8: alarms[0].text: expected no"), "{alarm}");
    let channel = |from: &str, to: &str| message(&LINK.replace(from, to));
    let name = channel("\"X:TEMPERATURE\"", "\"X\\u001b\"");
    assert!(name.contains("links[0].channels[0].name: expected no control"), "{name}");
    let unit = channel("\"K\"", "\"\\u0000\"");
    assert!(unit.contains("links[0].channels[0].unit: expected no control"), "{unit}");
    let own = channel("\"X:TEMPERATURE\"", "\"catchment:packets_received\"");
    assert!(own.ends_with(
        "a name that does not begin with catchment:, got \"catchment:packets_received\""
    ));
}

#[test]
fn a_target_has_one_folder_or_several_different_ones() {
    let with = |keys: &str| format!("{TWO}\n[[targets]]\nname = \"disks\"\n{keys}\n");
    let high = check(Path::new("run.toml"), &with("folders = [\"/a\", \"/b\"]")).unwrap();
    assert_eq!(high.recorder.targets[0].place.folders(), [Path::new("/a"), Path::new("/b")]);
    assert_eq!(high.recorder.folder, Path::new("/a"));
    for (keys, expected) in [
        ("folder = \"/a\"\nfolders = [\"/b\"]", "expected no folders beside a folder"),
        ("folders = [\"/a\", \"/b\", \"/a\"]", "expected each folder once"),
        ("folders = []", "expected 1 to 16 folders"),
        ("kind = \"none\"\nfolders = [\"/a\"]", "expected no folder of the kind none"),
    ] {
        assert!(message(&with(keys)).contains(expected), "{}", message(&with(keys)));
    }
}

#[test]
fn a_required_target_of_one_folder_may_have_a_spill_apart_from_it() {
    let with = |keys: &str| format!("{TWO}\n[[targets]]\nname = \"far\"\n{keys}\n");
    let spill = "spill = \"/near/spill\"\nspill_bytes = \"1 GiB\"";
    let text = with(&format!("folder = \"/far\"\nhold_bytes = \"8 MiB\"\n{spill}"));
    let high = check(Path::new("run.toml"), &text).unwrap();
    let target = &high.recorder.targets[0];
    assert_eq!(target.spill.as_ref().map(|spill| spill.bytes_max), Some(1 << 30));
    assert_eq!(target.hold_bytes, Some(8 << 20));
    for (keys, expected) in [
        ("folders = [\"/a\", \"/b\"]", "expected it only for a required target"),
        ("folder = \"/a\"\nrole = \"best-effort\"", "expected it only for a required target"),
        ("folder = \"/near\"", "expected a folder apart from the target's own"),
        ("folder = \"/near/spill/a\"", "expected a folder apart from the target's own"),
        ("folder = \"\"\"a\nb\"\"\"", "expected a path without line breaks"),
    ] {
        let text = message(&with(&format!("{keys}\n{spill}")));
        assert!(text.contains(expected), "{text}");
    }
    let text = message(&with("folder = \"/a\"\nhold_bytes = \"8 MiB\""));
    assert!(text.contains("or has a spill"), "{text}");
}

#[test]
fn a_store_has_one_node_or_several_different_ones_and_may_have_a_spill() {
    let with =
        |keys: &str| format!("{TWO}\n[[targets]]\nname = \"far\"\nkind = \"store\"\n{keys}\n");
    let high = check(Path::new("run.toml"), &with("nodes = [\"a:1\", \"b:1\"]")).unwrap();
    let node = high.recorder.targets[0].place.node().unwrap();
    assert_eq!(node.addresses, ["a:1", "b:1"]);
    let spill = "nodes = [\"a:1\", \"b:1\"]\nspill = \"spill\"\nspill_bytes = \"1 GiB\"";
    let high = check(Path::new("run.toml"), &with(spill)).unwrap();
    let spill = high.recorder.targets[0].spill.as_ref().expect("it has one");
    assert_eq!((&*spill.folder, spill.bytes_max), (Path::new("spill"), 1 << 30));
    for (keys, expected) in [
        ("nodes = []", "expected 1 to 16 storage nodes"),
        ("nodes = [\"a:1\", \"a:1\"]", "expected each storage node once"),
        ("nodes = [\"a:1\", \"b\"]", "expected HOST:PORT"),
        ("address = \"a:1\"\nnodes = [\"b:1\"]", "expected no nodes beside an address"),
    ] {
        assert!(message(&with(keys)).contains(expected), "{}", message(&with(keys)));
    }
}

#[test]
fn a_run_has_a_folder_and_a_number_that_there_can_be() {
    let run = |line: &str| message(&format!("[run]\n{line}\n{TWO}"));
    assert_eq!(
        run("folder = \"\""),
        "run.toml:2:10: run.folder: expected a folder, such as \".\" for the present one, got \"\""
    );
    for number in ["0", "9007199254740992", "9223372036854775807"] {
        assert_eq!(
            run(&format!("number = {number}")),
            format!("run.toml:2:10: run.number: expected 1 to 9007199254740991, got {number}")
        );
    }
}

#[test]
fn sources_of_front_ends_share_the_listener() {
    let file = |listen: &str, keys: &str| {
        format!(
            "[[listen]]\n{listen}\n[[sources]]\nname = \"camera\"\nvia = \"link\"\n{keys}\n\
             [[source_groups]]\ngroup = \"crate\"\ncount = 3\nvia = \"link\"\n"
        )
    };
    let high = check(Path::new("run.toml"), &file("", "")).unwrap();
    let listener = "127.0.0.1:7100".parse().unwrap();
    let sources = high.recorder.sources;
    assert!(sources.len() == 4 && sources.iter().all(|source| source.address == listener));
    assert_eq!((&*sources[3].name, sources[3].protocol.name()), ("crate-002", "event-link"));
    // What they hold is soon durable, unless the file says otherwise.
    let synced = |text: &str| {
        let recorder = check(Path::new("run.toml"), text).unwrap().recorder;
        let write = recorder.write;
        assert_eq!(write.sync_bytes, Some(8 << 20));
        assert_eq!((write.buffer_bytes, write.buffer_count), (1 << 20, 16));
        (recorder.frame.bytes, recorder.frame.time_ns, write.sync_interval_ns)
    };
    assert_eq!(synced(&file("", "")), (4 << 20, 250_000_000, 20_000_000));
    let own = "[frame]\nbytes = \"32 MiB\"\ntime = \"2 s\"\n[write]\nsync_interval = \"1 s\"\n";
    let own = synced(&format!("{own}{}", file("", "")));
    assert_eq!(own, (32 << 20, 2_000_000_000, 1_000_000_000));
    let open = "address = \"0.0.0.0:7100\"";
    assert!(
        check(Path::new("run.toml"), &file(&format!("{open}\nwithout_protection = true"), ""))
            .is_ok()
    );
    let protected = format!("{open}\ntls = true\ntokens = true");
    let access = check(Path::new("run.toml"), &file(&protected, "")).unwrap().recorder.access;
    assert!(access.tls == TlsRule::All && access.needs_token && !access.without_protection);
    for (listen, keys, expected) in [
        (open, "", "listen[0].address: expected a loopback address, or tls = \"all\" or"),
        ("[[listen]]", "", "listen[1].address: expected a port used once, got 127.0.0.1:7100"),
        ("", "address = \"127.0.0.1:1\"", "sources[0].address: expected no address"),
        ("", "from = [\"127.0.0.0/8\"]", "sources[0].from: expected it in [[listen]]"),
        ("", "protocol = \"hadtu\"", "sources[0].protocol: expected no protocol"),
        ("", "sub_event_id = 1", "sources[0].sub_event_id: expected no such key"),
    ] {
        let message = message(&file(listen, keys));
        assert!(message.contains(expected), "{message}");
    }
    let alone = message("[[sources]]\nname = \"a\"\nvia = \"link\"\n");
    assert!(alone.contains("sources[0].via: expected [[listen]]"), "{alone}");
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        message(""),
        "run.toml: sources: expected [[sources]], [[source_groups]], [[links]] or [[accept]], got none"
    );
    assert_eq!(
        message("[[sources]]\nname = \"a\"\n"),
        "run.toml:1:1: sources[0].address: expected an address, or via = \"link\""
    );
    assert!(message("[run\n").starts_with("run.toml:1:"));
}

#[test]
fn an_emulator_takes_its_sizes_from_a_preset_or_from_the_file() {
    let preset = format!("[emulator]\npreset = \"hades-90\"\nrate = \"2 kHz\"\n{TWO}");
    let emulator = check(Path::new("run.toml"), &preset).unwrap().emulator.unwrap();
    assert_eq!(emulator.sources[1].mean_bytes, 116.0);
    assert_eq!((emulator.rate_hz, emulator.targets.len()), (Some(2_000.0), 2));
    let own =
        "[emulator]\n[[emulator.sizes]]\ngroup = \"small\"\nmean = \"1 kB\"\n".to_owned() + TWO;
    let emulator = check(Path::new("run.toml"), &own).unwrap().emulator.unwrap();
    assert_eq!(emulator.sources[0].mean_bytes, 1_000.0);
    assert!(message(&format!("[emulator]\n{TWO}")).starts_with("run.toml:1:1: emulator: expected"));
    let fault = format!("[emulator]\npreset = \"hades-90\"\nfaults.lose = 2.0\n{TWO}");
    assert_eq!(
        message(&fault),
        "run.toml:3:15: emulator.faults.lose: expected a share of the packets, 0 to 1, got 2"
    );
}

#[test]
fn names_have_one_place_for_their_number() {
    assert_eq!(numbered("hades-{:03}", 7).as_deref(), Some("hades-007"));
    assert_eq!(numbered("{}", 12).as_deref(), Some("12"));
    for bad in ["hades", "{", "{}{}", "{:x}", "a}{}", "{:0999}"] {
        assert_eq!(numbered(bad, 1), None, "{bad}");
    }
}

const LINK: &str = r#"
[[links]]
name = "ligo"
address = "127.0.0.1:20200"
slice = "125 ms"
time_scale = "gps"
preset = "ligo-1000"
[[links.channels]]
name = "X:TEMPERATURE"
dtype = "i32"
rate = "1/60 Hz"
unit = "K"
scale = 0.01
offset = 273.15
codec = "pcodec:8"
"#;

#[test]
fn a_link_has_the_channels_of_its_preset_and_its_own() {
    let text = format!("[[codecs]]\ncolumns = \"L1:FAST*\"\ncodec = \"for\"\n{LINK}");
    let config = check(Path::new("run.toml"), &text).unwrap().recorder;
    let link = &config.links[0];
    assert_eq!((link.channels.len(), link.slice_ns), (1_001, 125_000_000));
    let last = &link.channels[1_000];
    assert_eq!(last.rate.to_string(), "1/60 Hz");
    assert_eq!((last.scale, last.offset), (Some(0.01), Some(273.15)));
    let codec = |name: &str| config.frame.codings.of(name).to_string();
    let names = ["X:TEMPERATURE", "L1:FAST-0001", "L1:SLOW-0001"];
    assert_eq!(names.map(codec), ["pcodec:8", "for", "auto"]);
    assert!(config.trends && config.sources.is_empty());
    let text = format!("[trends]\nenabled = false\n{LINK}");
    assert!(!check(Path::new("run.toml"), &text).unwrap().recorder.trends);
}

#[test]
fn slices_are_as_long_as_all_channels_allow_unless_somebody_says_it() {
    let slices = |text: &str| {
        let config = check(Path::new("run.toml"), text).unwrap().recorder;
        config.links.iter().map(|link| link.slice_ns / 1_000).collect::<Vec<_>>()
    };
    let unsaid = LINK.replace("slice = \"125 ms\"\n", "");
    assert_eq!(slices(&unsaid), [250_000]);
    let fast = unsaid.replace("i32", "f32").replace("1/60 Hz", "1 MHz");
    assert_eq!(slices(&fast), [10_000]);
    let frames = "[frame]\nduration = \"1.6 ms\"\n[[links]]";
    let frames = message(&fast.replace("[[links]]", frames));
    assert!(frames.contains("frame.duration: expected a multiple of the links' slice, 1000000 ns"));
    let other = LINK.replace("ligo\"", "other\"").replace("preset = \"ligo-1000\"", "");
    let other = other.replace("X:TEMP", "Y:TEMP").replace(":20200", ":20201");
    let silent = other.replace("slice = \"125 ms\"\n", "");
    assert_eq!(slices(&format!("{fast}{silent}")), [10_000, 10_000]);
    // What one link says is so for all of them.
    assert_eq!(slices(&format!("{LINK}{silent}")), [125_000, 125_000]);
    assert!(message(&format!("{fast}{other}")).contains("slices of at most 16 ms"));
}

#[test]
fn a_link_that_cannot_work_is_told_where() {
    let change = |from: &str, to: &str| message(&LINK.replace(from, to));
    assert_eq!(
        change("\"i32\"", "\"i33\""),
        "run.toml:10:9: links[0].channels[0].dtype: expected u8 to u64, i8 to i64, f32, f64, c64 or \
         c128, got \"i33\""
    );
    assert!(
        change("1/60 Hz", "sixty").starts_with("run.toml:11:8: expected a sample rate such as")
    );
    assert!(
        change("\"1/60 Hz\"", "\"1 MHz\"")
            .ends_with("rate: expected at most 65440 bytes in a slice (X:TEMPERATURE), so slices of at most 16 ms, got 500000 in 125 ms")
    );
    assert!(
        change("unit = \"K\"", "shape = [128, 128]").starts_with(
            "run.toml:12:9: links[0].channels[0].shape: expected samples of 1 to 65440"
        )
    );
    assert!(change("ligo-1000", "ligo").contains("expected a preset of channels (ligo-1000)"));
    assert!(change("\"gps\"", "\"unix\"").starts_with("run.toml:6:14:"));
    assert_eq!(
        change("125 ms", "300 ms"),
        "run.toml:5:9: links[0].slice: expected a whole part of frame.duration, 64 s, got 300 ms"
    );
    assert_eq!(
        change("offset = 273.15", "offset = nan"),
        "run.toml:14:10: links[0].channels[0].offset: expected a finite number (X:TEMPERATURE), \
         got NaN"
    );
    assert!(
        change("scale = 0.01", "scale = 0.0")
            .starts_with("run.toml:13:9: links[0].channels[0].scale")
    );
    let text = format!("[frame]\nduration = \"100 ms\"\n{LINK}");
    assert!(message(&text).starts_with("run.toml:2:12: frame.duration: expected a multiple of"));
}

#[test]
fn a_source_says_what_its_payload_is() {
    let source = |payload: &str| {
        format!("[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\npayload = {payload}\n")
    };
    let text = source("{ dtype = \"i16\", shape = [1024], skip = 16 }");
    let config = check(Path::new("run.toml"), &text).unwrap().recorder;
    let payload = config.sources[0].payload.as_ref().unwrap();
    assert_eq!((payload.shape.clone(), payload.skip), (vec![1_024], 16));
    let text = source(
        "{ dtype = \"record\", record_bytes = 4, fields = [{ name = \"x\", dtype = \"f64\", offset = 0 }] }",
    );
    assert!(message(&text).starts_with("run.toml:4:"), "{}", message(&text));
    assert_eq!(
        message(&source("{ dtype = \"record\" }")),
        "run.toml:4:11: sources[0].payload.record_bytes: expected it to be there for records and \
         only for them"
    );
    for dtype in ["bits", ">u4", "u32be"] {
        let text = source(&format!("{{ dtype = \"{dtype}\" }}"));
        assert!(message(&text).starts_with("run.toml:4:"), "{dtype}");
    }
}

#[test]
fn the_example_of_a_thousand_channels_says_what_it_means() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/ligo-1000.toml");
    let config = load(&path).unwrap().recorder;
    assert_eq!(config.links[0].channels.len(), 1_000);
    assert_eq!(config.links[0].address.port(), 20_200);
    assert_eq!(config.frame.duration_ns, 64_000_000_000);
    assert_eq!(config.frame.codings.of("any").to_string(), "bitshuffle+lz4");
    assert_eq!(config.frame.codings.rules()[0].1.to_string(), "for");
}

#[test]
fn sources_groups_and_links_say_who_may_send_to_them() {
    let from = "from = [\"10.1.0.0/16\", \"192.168.3.7\", \"fe80::/10\"]\n";
    let source = format!("[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n{from}");
    let link = LINK.replace("slice = ", &format!("{from}slice = "));
    let text = format!("{source}{TWO}{from}{link}");
    let config = check(Path::new("run.toml"), &text).unwrap().recorder;
    let all = config.sources.iter().map(|source| &source.from).chain([&config.links[0].from]);
    for from in all {
        let shown: Vec<String> = from.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.1.0.0/16", "192.168.3.7", "fe80::/10"]);
    }
    assert!(check(Path::new("run.toml"), TWO).unwrap().recorder.sources[0].from.is_empty());
}

#[test]
fn senders_that_cannot_be_are_told_where() {
    let group = |from: &str| message(&format!("{TWO}from = {from}\n"));
    assert_eq!(
        group("[\"10.1.0.0/16\",\n  \"10.1.0.0/33\"]"),
        "run.toml:8:3: expected a network such as \"10.1.0.0/16\" or an IP address, got \"10.1.0.0/33\""
    );
    assert_eq!(
        group("[\"10.1.2.3/16\"]"),
        "run.toml:7:9: expected a network such as \"10.1.0.0/16\" or an IP address, got \
         \"10.1.2.3/16\", which is an address within 10.1.0.0/16"
    );
    assert_eq!(
        group("[]"),
        "run.toml:7:8: source_groups[0].from: expected one or more networks (omit the key to accept any sender), got none"
    );
    assert_eq!(
        group("[\"fe80::/10\"]"),
        "run.toml:7:8: source_groups[0].from: expected a network whose senders reach \
         127.0.0.1:50000, got fe80::/10"
    );
    let many = vec!["\"10.0.0.1\""; 65].join(", ");
    assert!(group(&format!("[{many}]")).ends_with("expected at most 64 networks, got 65"));
    assert!(group("\"10.0.0.0/8\"").starts_with("run.toml:7:8: invalid type: string"));
    let link = LINK.replace("slice = ", "from = [\"::1\"]\nslice = ");
    assert!(message(&link).starts_with("run.toml:5:8: links[0].from: expected a network whose"));
}

#[test]
fn links_are_emulated_where_their_preset_is_named() {
    let text = format!("[emulator]\npreset = \"ligo-1000\"\nseed = 9\nfaults.lose = 0.5\n{LINK}");
    let high = check(Path::new("run.toml"), &text).unwrap();
    assert!(high.emulator.is_none());
    let emulated = high.link_emulator.unwrap();
    assert_eq!((emulated.seed, emulated.faults.lose, emulated.links.len()), (9, 0.5, 1));
    assert_eq!((emulated.slice_ns, emulated.channels.len()), (125_000_000, 1_001));
    // Beside sources, whose sizes must be said then.
    let sizes = "[[emulator.sizes]]\ngroup = \"small\"\nmean = \"1 kB\"\n";
    let both = format!("[emulator]\npreset = \"ligo-1000\"\n{sizes}{TWO}{LINK}");
    let high = check(Path::new("run.toml"), &both).unwrap();
    assert!(high.emulator.is_some() && high.link_emulator.is_some());
    let one = both.replace("ligo-1000\"\n[[emulator", "hades-90\"\n[[emulator");
    assert!(check(Path::new("run.toml"), &one).unwrap().link_emulator.is_none());
    assert_eq!(
        message(&format!("[emulator]\npreset = \"ligo-1000\"\n{TWO}")),
        "run.toml:2:10: emulator.preset: expected [[links]] to emulate, got none"
    );
    assert_eq!(
        message(&format!("[emulator]\npreset = \"hades-90\"\n{LINK}")),
        "run.toml:1:1: emulator: expected preset = \"ligo-1000\", with which links are emulated, or \
         sources, got neither"
    );
    let shaped = LINK.replace("unit = \"K\"", "shape = [2, 3]");
    let shaped = format!("[emulator]\npreset = \"ligo-1000\"\n{shaped}");
    let emulated = check(Path::new("run.toml"), &shaped).unwrap().link_emulator.unwrap();
    assert_eq!(emulated.channels[1_000].shape, [2, 3]);
    // The largest part that a datagram holds is sent in packets that have room for it.
    let large = format!("[emulator]\npreset = \"ligo-1000\"\n{LINK}")
        .replace("unit = \"K\"", "shape = [2, 8_180]");
    let emulated = check(Path::new("run.toml"), &large).unwrap().link_emulator.unwrap();
    assert!(catchment_emulator::LinkEmulator::new(emulated).is_ok());
}

#[test]
fn every_payload_that_the_example_shows_is_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/hades-90.toml");
    let example = std::fs::read_to_string(path).unwrap();
    let shown = example.split("# payload = ").skip(1);
    let mut found = Vec::new();
    for rest in shown {
        // Up to the brace that ends it: those of fields are closed before.
        let end = rest.find('\n').filter(|end| rest[..*end].ends_with('}'));
        let end = end.unwrap_or_else(|| rest.find("] }\n").expect("its end") + 3);
        let payload = rest[..end].replace("\n#", "\n");
        let high = check(Path::new("run.toml"), &format!("{TWO}payload = {payload}\n"));
        let high = high.unwrap_or_else(|error| panic!("{payload}: {error}"));
        let payload = high.recorder.sources[1].payload.clone().expect("what was said");
        assert_eq!(payload.skip, 16);
        found.push(payload.dtype);
    }
    assert_eq!(found, [Dtype::U32, Dtype::I16, Dtype::Record]);
}

#[test]
fn a_target_names_channels_of_its_links() {
    let of = |keys: &str| {
        let text = format!(
            "{LINK}\n[[targets]]\nname = \"all\"\nfolder = \"all\"\n[[targets]]\n\
             name = \"some\"\nfolder = \"some\"\n{keys}"
        );
        check(Path::new("run.toml"), &text)
    };
    let links = of("").expect("is right").recorder.links;
    let first = &links[0].channels[0].name;
    let recorder = of(&format!("channels = [\"{first}*\"]\ntrends = false")).expect("is right");
    let [all, some] = &recorder.recorder.targets[..] else { panic!("two targets") };
    assert_eq!((all.channels.as_ref(), all.trends), (None, true));
    assert_eq!(
        (some.channels.as_ref().map(|names| names.contains(first)), some.trends),
        (Some(true), false)
    );
    for (keys, wrong) in [
        (
            "channels = [\"*\", \"NONE-*\"]",
            "targets[1].channels: expected patterns of names of channels of the links that it gets, \
             got NONE-*",
        ),
        (
            "role = \"best-effort\"\ntrends = true",
            "targets[1].trends: expected false, or a required folder",
        ),
    ] {
        let error = of(keys).expect_err("is wrong");
        assert!(error.to_string().contains(wrong), "{error}");
        assert!(error.place.is_some(), "{error}");
    }
    assert!(!of("role = \"best-effort\"").expect("is right").recorder.targets[1].trends);
    let spill = "spill = \"spill\"\nspill_bytes = \"1 GiB\"\n";
    for (keys, trends) in [("", false), ("trends = true\n", true)] {
        let targets = of(&format!("{spill}{keys}")).expect("is right").recorder.targets;
        assert_eq!(targets[1].trends, trends);
    }
}
