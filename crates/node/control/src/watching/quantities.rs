//! The quantities for rules of alarms: one table for the check of rules, for the page that
//! documents them, and for the test that compares the readings with it.

use catchment_model::Entry;
use catchment_recorder::Counts;

/// A quantity for rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownQuantity {
    /// Its name; with `*` for the object if there are many: `source.*.loss_per_second`.
    pub name: String,
    /// Its meaning.
    pub description: String,
}

const NODE: [(&str, &str); 19] = [
    ("events_per_second", "Events that were built, or slices where there are no events."),
    ("packets_per_second", "Packets that came."),
    ("bytes_per_second", "Bytes of packets that came."),
    ("bytes_written_per_second", "Bytes that were written to files."),
    ("loss_per_second", "What was lost, of all sources."),
    (
        "loss_share",
        "The share of what should have been recorded in the last 10 s that was lost, 0 to 1.",
    ),
    ("bad_share", "The share of what was recorded in the last 10 s that is bad, 0 to 1."),
    ("sources_silent", "Required sources that have sent nothing for 5 s."),
    ("sources_with_loss", "Sources that lost anything in the last minute."),
    ("dead_time", "The share of the last 10 s in which data were discarded or paused."),
    (
        "interrupted_run",
        "The number of the last run before the program began, if it was interrupted: in the first \
         minute; otherwise 0.",
    ),
    ("disk.free_bytes", "What can still be written to the runs' folder."),
    (
        "disk.hours_left",
        "How long that lasts as the run last wrote; 0 while a full disk takes nothing.",
    ),
    (
        "memory.seconds_left",
        "How long memory lasts at this rate while a required target takes nothing: then front-ends \
         wait, and datagrams are dropped; 1,000,000,000 while it need not.",
    ),
    ("clock.offset_seconds", "How far the clock is off; not there where nobody keeps it."),
    ("rows_recorded", "Events and slices in frames that were written, to a file or a spill."),
    ("fault", "1 while files cannot be written and no spill takes the data, otherwise 0."),
    ("frames_refused", "Frames that a storage node refused."),
    ("sessions_refused", "Recorders and other connections that a storage node refused."),
];

const FOLDER: [(&str, &str); 2] = [
    ("fault", "1 while nothing can be written to a folder of a storage node, otherwise 0."),
    ("free_bytes", "What can still be written to the file system of a storage node's folder."),
];

const STREAM: [(&str, &str); 2] = [
    ("broken_off", "1 while a stream of a storage node has no sender and has not ended, or 0."),
    ("waits", "1 while a stream of a storage node cannot be written, otherwise 0."),
];

const QUEUE: [(&str, &str); 1] = [("fill", "How full a queue or pool is, 0 to 1.")];

const TARGET: [(&str, &str); 5] = [
    (
        "fault",
        "1 while a target cannot write its files, or its storage node refuses them, and what it \
         does not take is discarded, otherwise 0; of required ones, if there are several, of \
         storage nodes, and of folders with a spill.",
    ),
    (
        "away",
        "1 while a target's storage node, or a folder with a spill that takes nothing either, \
         takes nothing and frames wait in memory, otherwise 0; of the same.",
    ),
    (
        "spilling",
        "1 while a target takes nothing and its frames go to its spill, otherwise 0; of targets \
         with a spill.",
    ),
    (
        "waits_seconds",
        "For how long writes, a sync or the end of a file in a folder of a required target, or in \
         its spill, have not completed; of `NAME (FOLDER)`.",
    ),
    ("best_effort_waits_seconds", "The same, of a target that is best effort."),
];

const SPILL: [(&str, &str); 3] = [
    (
        "frames_lost",
        "Spilled frames of a target that cannot be read again: their files are removed or damaged.",
    ),
    ("fill", "How full the spill of a target is, 0 to 1."),
    (
        "seconds_left",
        "How long the spill of a target has room at the rate at which it is filled; 1,000,000,000 \
         while it is not.",
    ),
];

const FRONT_END: [(&str, &str); 8] = [
    ("alarms", "1 while a front-end raises an alarm, otherwise 0; of `NAME (ALARM)`."),
    ("refuses", "1 while a front-end refuses a command, otherwise 0."),
    (
        "absent",
        "1 while a required front-end is not connected, though it was in this run or since the last \
         one, otherwise 0.",
    ),
    (
        "gone",
        "1 while a front-end that is not required has gone away from a run without a word, \
         otherwise 0; of a run that is armed or recorded.",
    ),
    (
        "given_up",
        "1 for a front-end that was told not to come again, after three framing faults between \
         which nothing was taken, otherwise 0.",
    ),
    (
        "buffer_short",
        "1 while a front-end's buffer is too small for its rate: it says that it lasts for less \
         than frame.time, sync_interval and 0.2 s (of a link of channels, than two times \
         frame.duration), or is full of what waits to be durable; otherwise 0.",
    ),
    (
        "held_at_run_end",
        "Items that a front-end held of runs that had ended, since the present run was armed.",
    ),
    ("unheard", "1 while nothing listens for front-ends at this address between runs."),
];

const SOURCE: [(&str, &str); 8] = [
    (
        "last_packet_seconds",
        "The age of the last packet, or the run's if none came; of required sources.",
    ),
    (
        "out_of_step",
        "1 while its numbers do not fit to the others', otherwise 0; of required sources.",
    ),
    (
        "flooding",
        "1 while most of its fragments are in no event, by time, so that it opens none, or 0.",
    ),
    ("fill", "How full the receive buffer in the kernel is, 0 to 1."),
    ("packets_per_second", "Packets that came."),
    ("bytes_per_second", "Bytes of packets that came."),
    ("loss_per_second", "What was lost."),
    (
        "of_strangers",
        "Fragments that others sent to its port: those that are foreign, and one for each turn of \
         another sender whose fragments fit.",
    ),
];

/// Numbers and truth values (0 and 1) among the properties of devices, by the last word of a
/// device's path.
const DEVICE: [(&str, &[&str]); 8] = [
    ("catalog", &["usable"]),
    ("emulator", &["event_count", "link_count", "packet_count", "rate_hz", "seed", "source_count"]),
    ("front_ends", &["connected_count", "refusing_count"]),
    ("store", &["folder_count", "memory_bytes", "stream_count"]),
    ("recorder", &["link_count", "memory_bytes", "run_number", "source_count"]),
    (
        "receive",
        &["packet_count", "socket_buffer_bytes", "socket_buffer_granted_bytes", "thread_count"],
    ),
    ("build", &["complete_count", "incomplete_count", "open_count", "timeout_seconds"]),
    (
        "write",
        &["file_bytes", "file_count", "frame_count", "sync_interval_seconds", "written_bytes"],
    ),
];

/// The devices with a property that rules can use.
pub fn devices_with(property: &str) -> Vec<&'static str> {
    let with = DEVICE.iter().filter(|(_, properties)| properties.contains(&property));
    with.map(|(device, _)| *device).collect()
}

/// All quantities for rules.
pub fn known_quantities() -> Vec<KnownQuantity> {
    let mut all = Vec::new();
    let mut put = |name: String, description: &str| {
        all.push(KnownQuantity { name, description: description.trim().to_owned() });
    };
    NODE.iter().for_each(|(name, description)| put((*name).into(), description));
    Counts::NAMES.iter().for_each(|(name, description)| put((*name).into(), description));
    for entry in Entry::ALL {
        put(entry.name().into(), "This entry of the ledger, of all sources.");
    }
    QUEUE.iter().for_each(|(name, description)| put(format!("queue.*.{name}"), description));
    TARGET.iter().for_each(|(name, description)| put(format!("target.*.{name}"), description));
    SPILL.iter().for_each(|(name, description)| put(format!("spill.*.{name}"), description));
    FOLDER.iter().for_each(|(name, description)| put(format!("folder.*.{name}"), description));
    STREAM.iter().for_each(|(name, description)| put(format!("stream.*.{name}"), description));
    let of_front_ends = FRONT_END.iter();
    of_front_ends.for_each(|(name, text)| put(format!("front_end.*.{name}"), text));
    SOURCE.iter().for_each(|(name, description)| put(format!("source.*.{name}"), description));
    let mut properties: Vec<_> = DEVICE.iter().flat_map(|(_, all)| all.iter().copied()).collect();
    properties.sort_unstable();
    properties.dedup();
    for property in properties {
        let devices = devices_with(property).join(", ");
        put(format!("device.*.{property}"), &format!("This property of a device: {devices}."));
    }
    for entry in Entry::ALL {
        put(format!("source.*.{}", entry.name()), "This entry of the source's ledger.");
    }
    all
}
