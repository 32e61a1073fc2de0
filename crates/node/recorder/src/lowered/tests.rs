use std::path::PathBuf;

use catchment_frame::{Codings, ColumnCoding, Dtype, Pattern};
use catchment_model::SampleRate;

use super::*;
use crate::LinkConfig;

/// A link of 4 MB/s.
fn config(memory_bytes: u64) -> RecorderConfig {
    let mut config = RecorderConfig::new(PathBuf::from("runs"), Vec::new());
    config.memory_bytes = memory_bytes;
    let rate = SampleRate::new(10_000, 1).unwrap();
    let channel = |n: u32| ChannelConfig::new(format!("X:{n}"), Dtype::F32, rate);
    let address = "127.0.0.1:0".parse().unwrap();
    config.links = vec![LinkConfig::new("link", address, (0..100).map(channel).collect())];
    config.check_values().unwrap();
    config
}

#[test]
fn frames_that_memory_makes_shorter_are_told_with_both_figures() {
    let messages = config(1 << 30).lowered();
    let expected = "frame.duration: frames of channels cover 42.5 s instead of 64.0 s, because a \
                    quarter of the memory for channels, 170 MB, is less than \
                    frame.channel_bytes, 268 MB (a memory.budget of 1.53 GB would do), and the \
                    channels bring 4.00 MB/s";
    assert_eq!(messages, [expected]);
    // With what it says it is so.
    let enough = config(1 << 30).memory_bytes_for(256_000_000);
    assert_eq!(config(enough).lowered(), Vec::<String>::new());
    assert_eq!(config(enough - 1_000_000).lowered().len(), 1);
    assert_eq!(config(16 << 30).lowered(), Vec::<String>::new());
}

#[test]
fn a_folder_with_trends_and_a_spill_is_named() {
    let mut config = config(1 << 30);
    let spill = Some(crate::SpillConfig { folder: "spill".into(), bytes_max: 1 << 30 });
    let target = TargetConfig { spill, ..TargetConfig::folder("remote", "runs".into()) };
    config.targets = vec![target.clone()];
    config.trends = true;
    let named = |config: &RecorderConfig| config.trends_beside_spills().collect::<Vec<_>>();
    assert!(named(&config)[0].starts_with("targets.trends: remote has a spill and trends, "));
    config.targets = vec![TargetConfig { trends: false, ..target.clone() }];
    assert_eq!(named(&config), Vec::<String>::new());
    config.targets = vec![TargetConfig { spill: None, ..target }];
    assert_eq!(named(&config), Vec::<String>::new());
}

#[test]
fn frames_of_events_that_memory_makes_smaller_are_told_where_they_are_compressed() {
    let address = "127.0.0.1:0".parse().unwrap();
    let sources = vec![crate::config::SourceConfig::new("s0", address)];
    let mut config = RecorderConfig::new(PathBuf::from("runs"), sources);
    config.memory_bytes = 200 << 20;
    config.frame.codings = Codings::new(ColumnCoding::Auto);
    let messages = config.lowered();
    let expected = "frame.bytes: frames of events have 14.1 MB instead of 33.6 MB, an eighth \
                    of the memory for fragments, so that compression can be lowered in time (a \
                    memory.budget of 447 MB would do)";
    assert_eq!(messages, [expected]);
    // With what it says it is so.
    config.memory_bytes = config.memory_bytes_for_events();
    assert_eq!(config.lowered(), Vec::<String>::new());
    config.memory_bytes = 200 << 20;
    config.frame.codings = Codings::new(ColumnCoding::NONE);
    assert_eq!(config.lowered(), Vec::<String>::new());
}

#[test]
fn frames_that_their_own_bound_makes_shorter_are_told_too() {
    let mut config = config(16 << 30);
    config.frame.channel_bytes = 64 << 20;
    let messages = config.lowered().concat();
    assert!(messages.contains("16.8 s instead of 64.0 s, because frame.channel_bytes is 67.1 MB"));
    config.frame.duration_ns = 16_000_000_000;
    assert_eq!(config.lowered(), Vec::<String>::new());
}

#[test]
fn a_budget_beyond_what_is_available_is_told() {
    let config = config(1 << 30);
    let system = |available_bytes| SystemMemory {
        machine_bytes: 16 << 30,
        group_bytes: None,
        available_bytes,
    };
    let messages = config.memory_short(&system(Some(300_000_000))).unwrap();
    let expected = "memory.budget: 300 MB are available now, less than the 1.07 GB of the budget";
    assert!(messages.starts_with(expected), "{messages}");
    assert_eq!(config.memory_short(&system(Some(2 << 30))), None);
    assert_eq!(config.memory_short(&system(None)), None);
}

#[test]
fn a_codec_that_another_rule_gives_than_before_is_told() {
    let mut config = config(16 << 30);
    let rules = [("X:*", "lz4"), ("X:1?", "for"), ("X:?", "lz4")];
    let with = |rules: &[(&str, &str)]| {
        let rule = |all: Codings, (pattern, codec): &(&str, &str)| {
            all.with(pattern.parse().unwrap(), codec.parse().unwrap())
        };
        rules.iter().fold(Codings::new(ColumnCoding::Auto), rule)
    };
    config.frame.codings = with(&rules).with(Pattern::name("X:12"), "zstd:3".parse().unwrap());
    let messages = config.codings_reordered();
    let expected = "codecs[1] (X:1?) gives X:10 and 8 more for; until version 0.1, codecs[0] \
                    (X:*) gave lz4: of several rules that fit a name, the last one applies now";
    assert_eq!(messages, [expected]);
    config.frame.codings = with(&rules[1..]);
    assert_eq!(config.codings_reordered(), Vec::<String>::new());
}

#[test]
fn threads_without_a_socket_are_told() {
    let mut config = config(16 << 30);
    config.receive.link_threads = 4;
    let messages = config.lowered();
    assert_eq!(messages, ["receive.link_threads: 1 instead of 4, one for each of the links"]);
}

#[test]
fn data_in_the_clear_beyond_this_machine_are_told_of_each_listener_that_takes_them() {
    let address = |text: &str| text.parse().unwrap();
    let sources = vec![crate::SourceConfig::over_session("a", address("127.0.0.1:1"))];
    let mut config = RecorderConfig::new(PathBuf::from("runs"), sources);
    // Others on this machine may have the rest.
    config.memory_bytes = 1 << 20;
    let access = |tls, needs_token| LinkAccess { tls, needs_token, ..LinkAccess::default() };
    let mut told = |own: LinkAccess, further: (&str, LinkAccess)| {
        config.access = own;
        let (address, from, access) = (address(further.0), Vec::new(), further.1);
        config.listeners = vec![crate::Listener { address, from, access }];
        config.warnings().concat()
    };
    let control = || access(TlsRule::Control, true);
    let messages = told(control(), ("10.0.0.1:1", control()));
    assert!(messages.contains("may send data to 10.0.0.1:1 in the clear (tls = \"control\")"));
    assert!(!messages.contains("without protection"), "{messages}");
    // On this machine, and under TLS, nobody else sees them.
    assert_eq!(told(control(), ("127.0.0.2:1", control())), "");
    assert_eq!(told(control(), ("10.0.0.1:1", access(TlsRule::All, true))), "");
    let messages = told(control(), ("10.0.0.1:1", access(TlsRule::Control, false)));
    assert!(messages.contains("without protection") && !messages.contains("in the clear"));
}

#[test]
fn a_skew_that_memory_does_not_hold_is_told_with_both_figures() {
    let address = "127.0.0.1:0".parse().unwrap();
    let source = |n| crate::config::SourceConfig {
        fragment_bytes_max: 1 << 16,
        ..crate::config::SourceConfig::over_session(format!("crate/{n}"), address)
    };
    let with = |sources: usize, skew_bytes, memory_bytes| {
        let sources = (0..sources).map(source).collect();
        let mut config = RecorderConfig::new(PathBuf::from("runs"), sources);
        config.access.skew_bytes = skew_bytes;
        config.memory_bytes = config.memory_bytes_min() + memory_bytes;
        config.check_values().unwrap();
        config.lowered_skew()
    };
    // A client of 17 sources shares one of its 16 connections; and one of 32 all of them.
    for (sources, memory_bytes, granted) in
        [(17, 0, Some("4.19 MB")), (17, 1 << 30, None), (32, 1 << 30, Some("4.19 MB"))]
    {
        let lowered = with(sources, 16 << 20, memory_bytes);
        let expected =
            granted.map(|bytes| format!("listen.skew_bytes: {bytes} instead of 16.8 MB"));
        assert_eq!(lowered.is_some(), expected.is_some(), "{sources}: {lowered:?}");
        let begins = |text: &String| lowered.as_ref().is_some_and(|one| one.starts_with(text));
        assert!(expected.as_ref().is_none_or(begins), "{sources}: {lowered:?}");
    }
    assert_eq!(with(32, 0, 0), None);
    // Nobody shares a connection.
    assert_eq!(with(1, 16 << 20, 0), None);
}

#[test]
fn two_events_must_fit_beside_what_is_set_aside_for_front_ends() {
    let address = "127.0.0.1:0".parse().unwrap();
    let source = |n| crate::config::SourceConfig {
        fragment_bytes_max: 64 << 20,
        ..crate::config::SourceConfig::over_session(format!("crate/{n}"), address)
    };
    let mut config = RecorderConfig::new(PathBuf::from("runs"), (0..20).map(source).collect());
    config.build.event_bytes_max = Some(64 << 20);
    let without = config.two_events_bytes_min();
    assert_eq!(without, (2 * 20 * 64) << 20);
    config.access.skew_bytes = 1 << 20;
    // Ten pairs may share a connection each: twice the skew, and what borders of chunks take.
    let beside = config.two_events_bytes_min() - without;
    assert!((20 << 20..32 << 20).contains(&beside), "{beside}");
    // No more than a quarter of the chunks is set aside.
    config.access.skew_bytes = 1 << 30;
    let least = config.two_events_bytes_min();
    assert!(least.abs_diff(without / 3 * 4) <= 4, "{least} with {without}");
    config.memory_bytes = config.memory_bytes_min() - 8;
    let refused = config.check_values().unwrap_err().to_string();
    assert!(refused.contains("two events of the longest fragments and the skew"), "{refused}");
}
