//! The rules that there are without any configuration.

use catchment_model::Entry;

use crate::quantity::Quantity;
use crate::rule::{Condition, Rule, Severity, TIME_NS_MAX};

const S: u64 = 1_000_000_000;
/// A folder of a storage node with less has little space.
const FOLDER_BYTES_MIN: f64 = (1_u64 << 30) as f64;
/// A disk that completes nothing for this long counts as hung.
const WAITS_S: f64 = 5.0;
/// Anything at all is wrong.
const ANY: Condition = Condition::Above { threshold: 0.0, clear_at: 0.0 };

/// The rules that there are without any configuration, for frames that are cut that often. They
/// read `source.*.last_packet_seconds`, `.out_of_step` and `.flooding`, `loss_share`, `bad_share`,
/// bad data and `of_strangers` of each source, `queue.*.fill`, `disk.hours_left`, `rows_recorded`
/// (events and slices on disk), `next_file_refused`, `file_list_refused`, `target.*.fault`,
/// `.away`, `.spilling`, `.waits_seconds` and `.best_effort_waits_seconds`, `spill.*.fill`,
/// `.seconds_left`, `.frames_lost`, `memory.seconds_left`, and `alarms`, `refuses`, `absent`,
/// `gone`, `given_up`, `buffer_short` and `held_at_run_end` of each front-end. Loss and bad data
/// are critical from that share on.
pub fn default_rules(frame_ns: u64, heavy_loss_share: f64) -> Vec<Rule> {
    let no_rows_ns = frame_ns.saturating_mul(3).clamp(10 * S, TIME_NS_MAX);
    let rules = [
        disk_space(),
        recording(usual(
            "nothing_recorded",
            "rows_recorded",
            Condition::NoChange { for_ns: no_rows_ns },
            Severity::Critical,
            "Nothing has reached the disk for {time}",
        )),
        Rule {
            latch: true,
            ..usual(
                "run_interrupted",
                "interrupted_run",
                ANY,
                Severity::Warning,
                "Run {value} was interrupted: the program or the machine went down while it \
                 recorded. What had reached the disk can be read",
            )
        },
        recording(Rule {
            latch: true,
            clear_delay_ns: 60 * S,
            critical_at: Some(heavy_loss_share),
            ..usual("loss", "loss_share", ANY, Severity::Warning, "Losing {percent} of the data")
        }),
        recording(Rule {
            latch: true,
            clear_delay_ns: 60 * S,
            ..usual(
                "bad_data",
                "bad_share",
                Condition::Above { threshold: heavy_loss_share, clear_at: heavy_loss_share },
                Severity::Critical,
                "{percent} of the recorded data are bad",
            )
        }),
    ];
    let rules = rules.into_iter().chain(rules_of_files()).chain(rules_of_targets());
    rules
        .chain(rules_of_room())
        .chain(rules_of_waits())
        .chain(rules_of_many())
        .chain(rules_of_bad_sources())
        .chain(rules_of_front_ends())
        .collect()
}

/// The rules of a storage node without any configuration. They read `disk.hours_left`,
/// `folder.*.fault`, `folder.*.free_bytes`, `stream.*.waits`, `stream.*.broken_off`,
/// `frames_refused` and `sessions_refused`.
pub fn store_rules() -> Vec<Rule> {
    let of = |rule: Rule, text_many: &str| Rule { text_many: Some(text_many.into()), ..rule };
    let refused = |name: &str, text: &str| {
        let condition = Condition::RisesFaster { threshold: 0.0, clear_at: 0.0, window_ns: 10 * S };
        Rule { latch: true, ..usual(name, name, condition, Severity::Warning, text) }
    };
    let little = Condition::Below { threshold: FOLDER_BYTES_MIN, clear_at: 2.0 * FOLDER_BYTES_MIN };
    vec![
        disk_space(),
        of(
            usual(
                "folder_fault",
                "folder.*.fault",
                ANY,
                Severity::Critical,
                "Folder {source} cannot be written",
            ),
            "{things} cannot be written: {sources}",
        ),
        of(
            usual(
                "folder_space",
                "folder.*.free_bytes",
                little,
                Severity::Warning,
                "Folder {source} has less than 1 GiB left",
            ),
            "{things} have less than 1 GiB left: {sources}",
        ),
        of(
            Rule {
                delay_ns: 2 * S,
                ..usual(
                    "stream_waits",
                    "stream.*.waits",
                    ANY,
                    Severity::Critical,
                    "Stream {source} cannot be written: its recorder holds its frames",
                )
            },
            "{things} cannot be written: {sources} (their recorders hold their frames)",
        ),
        of(
            Rule {
                // A recorder that resumes is back within that time.
                delay_ns: 5 * S,
                latch: true,
                ..usual(
                    "stream_broken_off",
                    "stream.*.broken_off",
                    ANY,
                    Severity::Warning,
                    "Stream {source} broke off: its recorder is gone and has not ended it",
                )
            },
            "{things} broke off: {sources} (their recorders are gone and have not ended them)",
        ),
        refused("frames_refused", "Frames are refused: {value} a second"),
        refused("sessions_refused", "Connections are refused: {value} a second"),
    ]
}

/// The usual rules on what front-ends say. What an alarm says stands behind its front-end's name.
fn rules_of_front_ends() -> [Rule; 8] {
    let of = |name, quantity, severity, text: &str, text_many: &str| Rule {
        text_many: Some(text_many.into()),
        ..usual(name, quantity, ANY, severity, text)
    };
    [
        of(
            "front_end_alarm",
            "front_end.*.alarms",
            Severity::Warning,
            "Front-end {source} raises an alarm",
            "Front-ends raise alarms: {sources}",
        ),
        of(
            "front_end_refuses",
            "front_end.*.refuses",
            Severity::Warning,
            "Front-end {source} refuses a command",
            "Front-ends refuse a command: {sources}",
        ),
        of(
            "front_end_absent",
            "front_end.*.absent",
            Severity::Critical,
            "Front-end {source} has gone away",
            "Front-ends have gone away: {sources}",
        ),
        recording(Rule {
            // A connection that breaks is back within that time.
            delay_ns: 3 * S,
            ..of(
                "front_end_gone",
                "front_end.*.gone",
                Severity::Warning,
                "Front-end {source} has gone away: the run goes on without it",
                "Front-ends have gone away: {sources} (the run goes on without them)",
            )
        }),
        of(
            "front_end_given_up",
            "front_end.*.given_up",
            Severity::Critical,
            "Front-end {source} sends what is malformed, and was given up",
            "Front-ends send what is malformed, and were given up: {sources}",
        ),
        of(
            "buffer_short",
            "front_end.*.buffer_short",
            Severity::Warning,
            "The buffer of front-end {source} is too small for its rate",
            "The buffers of front-ends are too small for their rates: {sources}",
        ),
        of(
            "held_at_run_end",
            "front_end.*.held_at_run_end",
            Severity::Critical,
            "Front-end {source} held {value} items of a run that had ended: they are in no file",
            "Front-ends held items of a run that had ended: {sources} (they are in no file)",
        ),
        of(
            "front_end_unheard",
            "front_end.*.unheard",
            Severity::Warning,
            "The node does not listen for front-ends at {source}",
            "The node does not listen for front-ends at {sources}",
        ),
    ]
}

/// The usual rules on what a disk refuses while the data are taken, and recording goes on.
fn rules_of_files() -> [Rule; 2] {
    let refused = |name, text| recording(usual(name, name, ANY, Severity::Warning, text));
    [
        refused(
            "next_file_refused",
            "The next file cannot be made: recording goes on in the open one",
        ),
        refused(
            "file_list_refused",
            "The list of the run's files cannot be written: recording goes on",
        ),
    ]
}

/// The usual rules on targets that do not take the data, and on what becomes of these.
fn rules_of_targets() -> [Rule; 4] {
    let of = |name, quantity, severity, text: &str, text_many: &str| {
        let rule = usual(name, quantity, ANY, severity, text);
        recording(Rule { text_many: Some(text_many.into()), ..rule })
    };
    // A connection that breaks is back within that time.
    let late = |rule| Rule { delay_ns: 3 * S, ..rule };
    [
        of(
            "target_fault",
            "target.*.fault",
            Severity::Warning,
            "Target {source} cannot be written: what it does not take is discarded there, and \
             counted",
            "{things} cannot be written: {sources} (what they do not take is discarded there)",
        ),
        late(of(
            "target_away",
            "target.*.away",
            Severity::Critical,
            "Target {source} is away: its frames wait in memory",
            "{things} are away: {sources} (their frames wait in memory)",
        )),
        late(of(
            "target_spilling",
            "target.*.spilling",
            Severity::Warning,
            "Target {source} takes nothing now, its frames go to its spill",
            "{things} take nothing now, their frames go to their spills: {sources}",
        )),
        Rule {
            latch: true,
            text_many: Some(
                "Spilled frames of {things} are lost: {sources} (their files were removed or are \
                 damaged)"
                    .into(),
            ),
            ..usual(
                "spill_lost",
                "spill.*.frames_lost",
                Condition::RisesFaster { threshold: 0.0, clear_at: 0.0, window_ns: 10 * S },
                Severity::Critical,
                "Spilled frames of target {source} are lost: their files were removed or are \
                 damaged",
            )
        },
    ]
}

/// The usual rules on what runs out while a target takes nothing. There is time to make room.
fn rules_of_room() -> [Rule; 2] {
    let below = |threshold: f64| Condition::Below { threshold, clear_at: 1.5 * threshold };
    let of = |name, quantity, seconds, text| {
        recording(usual(name, quantity, below(seconds), Severity::Critical, text))
    };
    [
        Rule {
            text_many: Some(
                "Spills are full in {time} at this rate, and then frames wait in memory: {sources}"
                    .into(),
            ),
            ..of(
                "spill_space",
                "spill.*.seconds_left",
                600.0,
                "The spill of {source} is full in {time} at this rate, and then frames wait in \
                 memory",
            )
        },
        of(
            "memory_space",
            "memory.seconds_left",
            60.0,
            "Memory lasts for {time} at this rate, since a target takes nothing: then front-ends \
             wait, and datagrams are lost",
        ),
    ]
}

/// The usual rules on disks that complete nothing, also while a run ends. Network file systems
/// pause for some seconds, and go on.
fn rules_of_waits() -> [Rule; 2] {
    let of = |name, quantity, severity| Rule {
        text_many: Some(
            "Disks of targets have not completed a write, a sync or a close for up to {time}: \
             {sources}"
                .into(),
        ),
        ..usual(
            name,
            quantity,
            Condition::Above { threshold: WAITS_S, clear_at: WAITS_S },
            severity,
            "Target {source} waits for its disk: a write, a sync or a close has not completed for \
             {time}",
        )
    };
    let best_effort = "target.*.best_effort_waits_seconds";
    [
        of("target_waits", "target.*.waits_seconds", Severity::Critical),
        of("best_effort_target_waits", best_effort, Severity::Warning),
    ]
}

/// The usual rules on each source, queue and spill.
fn rules_of_many() -> [Rule; 5] {
    let many = |rule, delay_ns, text: &str| {
        recording(Rule { delay_ns, text_many: Some(text.into()), ..rule })
    };
    let silent = usual(
        "source_silent",
        "source.*.last_packet_seconds",
        Condition::Above { threshold: 5.0, clear_at: 2.0 },
        Severity::Critical,
        "{source} is silent: no packet for {time}",
    );
    let out_of_step = usual(
        "source_out_of_step",
        "source.*.out_of_step",
        ANY,
        Severity::Critical,
        "{source} is out of step: its numbers or clock do not fit, its data are in no event",
    );
    let flooding = usual(
        "source_flooding",
        "source.*.flooding",
        ANY,
        Severity::Warning,
        "{source} floods: most of its fragments are in no event, and it opens none",
    );
    let full = |name, quantity, text| {
        let condition = Condition::Above { threshold: 0.8, clear_at: 0.6 };
        usual(name, quantity, condition, Severity::Warning, text)
    };
    let queue_full = full("queue_full", "queue.*.fill", "Queue {source} is {percent} full");
    let spill_full = full(
        "spill_full",
        "spill.*.fill",
        "The spill of {source} is {percent} full: when it has no room, frames wait in memory",
    );
    let silent_many = "{things} are silent: {sources} (no packet for up to {time})";
    let out_of_step_many = "{things} are out of step: {sources} (their numbers or clocks do not \
        fit, their data are in no event)";
    [
        many(silent, 0, silent_many),
        // While all sources restart, each may be out of step for a moment.
        many(out_of_step, 2 * S, out_of_step_many),
        many(
            flooding,
            0,
            "{things} flood: {sources} (most of their fragments are in no event, and they open \
             none)",
        ),
        many(queue_full, 2 * S, "{things} are up to {percent} full: {sources}"),
        spill_full,
    ]
}

/// The usual rules on what a source sends and should not, and on what others send to its port.
fn rules_of_bad_sources() -> [Rule; 5] {
    let rises = |name, entry: &str, text: &str, text_many: &str| {
        let condition = Condition::RisesFaster { threshold: 0.0, clear_at: 0.0, window_ns: 10 * S };
        let quantity = format!("source.*.{entry}");
        let rule = usual(name, &quantity, condition, Severity::Warning, text);
        recording(Rule { latch: true, text_many: Some(text_many.into()), ..rule })
    };
    [
        rises(
            "bad_sender",
            Entry::FragmentsBadSender.name(),
            "{source} marks its data as broken: {value} fragments a second",
            "{things} mark their data as broken: {sources} (up to {value} fragments a second)",
        ),
        rises(
            "bad_tag",
            Entry::FragmentsBadTag.name(),
            "{source} is at another trigger than its events: {value} fragments a second",
            "{things} are at another trigger than their events: {sources} (up to {value} \
             fragments a second)",
        ),
        rises(
            "with_holes",
            Entry::FragmentsWithHoles.name(),
            "{source} has fragments of which a part is missing: {value} a second",
            "{things} have fragments of which a part is missing: {sources} (up to {value} a \
             second)",
        ),
        rises(
            "bad_checksum",
            Entry::FragmentsBadChecksum.name(),
            "{source} has fragments with a wrong checksum: {value} a second",
            "{things} have fragments with a wrong checksum: {sources} (up to {value} a second)",
        ),
        rises(
            "stranger",
            "of_strangers",
            "Somebody else sends to the port of {source}: {value} fragments a second are not its \
             own",
            "Somebody else sends to the ports of {things}: {sources} (up to {value} fragments a \
             second are not their own)",
        ),
    ]
}

fn disk_space() -> Rule {
    Rule {
        delay_ns: 10 * S,
        // If its target has a spill, recording goes on.
        text_zero: Some("Disk is full: make room, and it is written again by itself".into()),
        ..usual(
            "disk_space",
            "disk.hours_left",
            Condition::Below { threshold: 1.0, clear_at: 1.5 },
            Severity::Critical,
            "Disk will be full in {time}",
        )
    }
}

fn usual(name: &str, quantity: &str, condition: Condition, severity: Severity, text: &str) -> Rule {
    let quantity = Quantity::new(quantity).expect("a quantity's name");
    let (clear_delay_ns, acknowledged_for_ns) = (5 * S, 600 * S);
    let rule = Rule::new(name, quantity, condition);
    Rule { severity, text: text.into(), clear_delay_ns, acknowledged_for_ns, ..rule }
}

fn recording(rule: Rule) -> Rule {
    Rule { only_while_recording: true, ..rule }
}
