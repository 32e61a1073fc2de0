//! Metrics for Prometheus, and the page that documents them: both from one table.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use catchment_model::ledger::BAD_DATA;
use catchment_model::{Entry, Ledger, SourceLedger};
use catchment_recorder::{FolderSnapshot, State as RecorderState, TargetSnapshot};
use catchment_run::State as NodeState;
use catchment_telemetry::utc_now;
use catchment_watch::{Level, is_loss, lost};

use crate::api;
use crate::front_ends::{FRONT_ENDS, OUTSIDE};
use crate::shared::{NodeShared, Shared, View};
use crate::watching::quantities::known_quantities;
use crate::watching::targets::{OF_TARGET, buffers, waits_seconds};

/// A metric.
struct Metric {
    name: &'static str,
    kind: &'static str,
    labels: &'static str,
    help: &'static str,
    value: fn(&NodeShared, &View, &mut Values),
}

/// The writer of a metric's values.
struct Values<'a> {
    name: &'a str,
    text: &'a mut String,
}

impl Values<'_> {
    fn put(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(self.name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let open = if index == 0 { '{' } else { ',' };
            write!(self.text, "{open}{label}=\"{text}\"").ok();
        }
        let close = if labels.is_empty() { "" } else { "}" };
        writeln!(self.text, "{close} {value}").ok();
    }
}

const SOURCE_STATUSES: [&str; 7] =
    ["good", "bad_data", "loss", "out_of_step", "silent", "never", "off"];

macro_rules! metrics {
    ($($name:literal, $kind:literal, $labels:literal, $help:literal, $value:expr;)*) => {
        &[$(Metric { name: $name, kind: $kind, labels: $labels, help: $help, value: $value },)*]
    };
}

#[path = "metrics_store.rs"]
mod store;

/// All metrics.
fn all() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().chain(store::METRICS)
}

/// All metrics except those of storage nodes and of the ledger, which are named after its entries.
const METRICS: &[Metric] = metrics! {
    "catchment_build_info", "gauge", "version", "1, with the program's version.",
        |_, view, out| out.put(&[("version", &view.state.node.version)], 1.0);
    "catchment_uptime_seconds", "gauge", "", "Since the program was started.",
        |shared, _, out| out.put(&[], utc_now().0.saturating_sub(shared.started_ns) as f64 / 1e9);
    "catchment_view_age_seconds", "gauge", "",
        "Since the control thread last looked, twice a second; the rest says nothing if it is long.",
        |_, view, out| out.put(&[], view.age().unwrap_or_default().as_secs_f64());
    "catchment_state", "gauge", "state", "1 for the state that the node is in, 0 for the others.",
        |_, view, out| for state in NodeState::ALL.iter().map(|state| state.name()) {
            out.put(&[("state", state)], f64::from(view.state.state == state));
        };
    "catchment_verdict", "gauge", "level",
        "1 for the verdict on the data flow (good, held, bad_data, loss, heavy_bad_data, \
         heavy_loss, not_recording), 0 for the others.",
        |_, view, out| for level in Level::ALL.iter().map(|level| level.name()) {
            out.put(&[("level", level)], f64::from(view.state.verdict.level == level));
        };
    "catchment_run_number", "gauge", "", "The run that is being recorded; 0 if there is none.",
        |_, view, out| out.put(&[], view.state.run.as_ref().map_or(0.0, |run| run.number as f64));
    "catchment_loss_ratio", "gauge", "",
        "The share of what should have been recorded in the last 10 s that was lost.",
        |_, view, out| out.put(&[], view.state.verdict.loss_share.unwrap_or(0.0));
    "catchment_bad_data_ratio", "gauge", "",
        "The share of what was recorded in the last 10 s that is bad.",
        |_, view, out| out.put(&[], view.state.verdict.bad_share.unwrap_or(0.0));
    "catchment_bad_fragments_total", "counter", "reason",
        "Recorded fragments that are not as they should be, by the ledger's entry.",
        |_, view, out| {
            let total = view.snapshot.as_ref().map(|one| one.ledger.total()).unwrap_or_default();
            for &entry in &BAD_DATA {
                out.put(&[("reason", entry.name())], total[entry] as f64);
            }
        };
    "catchment_lost_fragments_total", "counter", "reason",
        "What is in no file though it was sent: fragments, or packets that would have been some, by \
         the ledger's entry. A fragment that came too late is in two of them: as missing and as late.",
        |_, view, out| {
            let total = view.snapshot.as_ref().map(|one| one.ledger.total()).unwrap_or_default();
            for &entry in Entry::ALL.iter().filter(|entry| is_loss(**entry)) {
                out.put(&[("reason", entry.name())], total[entry] as f64);
            }
        };
    "catchment_source_lost_fragments_total", "counter", "source",
        "The same of each source, for all reasons together, each fragment once.",
        |_, view, out| {
            let none = SourceLedger::default();
            for (index, source) in view.by_index().enumerate() {
                let counts = view.snapshot.as_ref().and_then(|one| one.ledger.sources.get(index));
                out.put(&[("source", source)], lost(counts.unwrap_or(&none)) as f64);
            }
        };
    "catchment_source_malformed_packets_total", "counter", "source, reason",
        "Packets that were refused, by the reasons of the source's protocol. They add up to the \
         ledger's packets_malformed_* of that source.",
        |_, view, out| if let Some(snapshot) = &view.snapshot {
            let ledgers = snapshot.ledger.sources.iter().zip(snapshot.reasons.iter());
            for (source, (counts, reasons)) in view.by_index().zip(ledgers) {
                for (reason, &count) in reasons.iter().zip(&counts.reasons) {
                    out.put(&[("source", source), ("reason", reason)], count as f64);
                }
            }
        };
    "catchment_dead_time_ratio", "gauge", "",
        "The share of the last 10 s in which data were discarded or paused.",
        |_, view, out| out.put(&[], view.state.dead_time);
    "catchment_sources", "gauge", "status",
        "Sources and links: good, bad_data, loss, out_of_step, silent, never; off where nothing is \
         counted.",
        |_, view, out| for status in SOURCE_STATUSES {
            let with = view.sources.sources.iter().filter(|source| source.status == status);
            out.put(&[("status", status)], with.count() as f64);
        };
    "catchment_source_out_of_step", "gauge", "source",
        "1 for each source and link whose numbers do not fit to the others'; its data are in no \
         event.",
        |_, view, out| for source in &view.sources.sources {
            if source.status == "out_of_step" {
                out.put(&[("source", &source.name)], 1.0);
            }
        };
    "catchment_source_parked_fragments", "gauge", "source",
        "Fragments that wait for other sources to come to their numbers, or to confirm them; not 0.",
        |_, view, out| for source in &view.sources.sources {
            if source.parked_fragments > 0 {
                out.put(&[("source", &source.name)], source.parked_fragments as f64);
            }
        };
    "catchment_source_link_waits_total", "counter", "source",
        "How often others waited for a source whose connection had ended without a word; not 0.",
        |_, view, out| of_links(view, out, |link| link.waits as f64);
    "catchment_source_link_waited_seconds_total", "counter", "source",
        "For how long they waited, in all; not 0.",
        |_, view, out| of_links(view, out, |link| link.waited_ms as f64 / 1e3);
    "catchment_source_marks_ignored_total", "counter", "source",
        "Marks of a source that begin or end other runs than this one; not 0.",
        |_, view, out| of_links(view, out, |link| link.marks_ignored as f64);
    "catchment_source_fragments_skew_total", "counter", "source",
        "Rows without a source that events did not wait for any more while its connection was \
         held; not 0.",
        |_, view, out| of_links(view, out, |link| link.fragments_skew as f64);
    "catchment_source_abandoned_total", "counter", "source, reason",
        "Fragments that a source's front-end abandoned in the run, by its reason: buffer, hardware, \
         busy, other; not 0.",
        |_, view, out| for source in &view.sources.sources {
            for (reason, &count) in &source.link.abandoned {
                out.put(&[("source", &source.name), ("reason", reason)], count as f64);
            }
        };
    "catchment_source_items_made", "gauge", "source",
        "Items (fragments, marks, packets of a link) that a source's sender has made in its \
         session, as far as it has said so; not 0.",
        |_, view, out| of_links(view, out, |link| link.made as f64);
    "catchment_source_items_taken", "gauge", "source",
        "Items of these that are in the recorder's memory, or were; not 0.",
        |_, view, out| of_links(view, out, |link| link.taken as f64);
    "catchment_source_items_durable", "gauge", "source",
        "Items of these that are durable; not 0.",
        |_, view, out| of_links(view, out, |link| link.durable as f64);
    "catchment_source_until_durable_seconds", "gauge", "source, quantile",
        "How long items of the last seconds took from taken to durable, to a fifth of it: half of \
         them (0.5), and 99 % (0.99).",
        |_, view, out| for source in &view.sources.sources {
            let of_link = &source.link;
            let (half, most) = (of_link.until_durable_ms_median, of_link.until_durable_ms_p99);
            for (quantile, ms) in [("0.5", half), ("0.99", most)] {
                if let Some(ms) = ms {
                    out.put(&[("source", &source.name), ("quantile", quantile)], ms / 1e3);
                }
            }
        };
    "catchment_front_end_fragments_outside_run_total", "counter", "front_end",
        "Fragments, or packets of a link, that a front-end sent while there was no run; not 0.",
        |_, view, out| outside_runs(view, out);
    "catchment_events_complete_total", "counter", "", "Events built with all required sources.",
        |_, view, out| count(view, out, |counts| counts.events_complete);
    "catchment_events_incomplete_total", "counter", "",
        "Events built without some required source.",
        |_, view, out| count(view, out, |counts| counts.events_incomplete);
    "catchment_events_capped_total", "counter", "",
        "Events by time that would have gone on, and that build.time.span_max ended.",
        |_, view, out| count(view, out, |counts| counts.events_capped);
    "catchment_events_open", "gauge", "", "Events that wait for sources.",
        |_, view, out| count(view, out, |counts| counts.events_open);
    "catchment_events_recorded_total", "counter", "",
        "Events in frames that were written, to a file or a spill.",
        |_, view, out| count(view, out, |counts| counts.events_recorded);
    "catchment_slices_recorded_total", "counter", "",
        "Slices of channels in frames that were written, to a file or a spill.",
        |_, view, out| count(view, out, |counts| counts.slices_recorded);
    "catchment_frames_recorded_total", "counter", "",
        "Frames that were written, to a file or a spill.",
        |_, view, out| count(view, out, |counts| counts.frames_recorded);
    "catchment_written_bytes_total", "counter", "", "Bytes of the files' frames and headers.",
        |_, view, out| count(view, out, |counts| counts.bytes_written);
    "catchment_writes_begun_total", "counter", "", "Writes to the run's files that were begun.",
        |_, view, out| count(view, out, |counts| counts.writes_begun);
    "catchment_writes_completed_total", "counter", "",
        "Writes to the run's files that have completed: the others are under way.",
        |_, view, out| count(view, out, |counts| counts.writes_completed);
    "catchment_next_file_refused", "gauge", "",
        "1 while the next file cannot be made: the open one goes on beyond its limits.",
        |_, view, out| count(view, out, |counts| counts.next_file_refused);
    "catchment_file_list_refused", "gauge", "",
        "1 while the list of the run's files cannot be written.",
        |_, view, out| count(view, out, |counts| counts.file_list_refused);
    "catchment_faults_total", "counter", "", "How often recording went into fault.",
        |_, view, out| if let Some(snapshot) = &view.snapshot {
            out.put(&[], snapshot.faults as f64);
        };
    "catchment_recorder_fault", "gauge", "",
        "1 while files cannot be written and no spill takes the data.",
        |_, view, out| if let Some(snapshot) = &view.snapshot {
            let fault = matches!(snapshot.state, RecorderState::Fault { .. });
            out.put(&[], f64::from(fault));
        };
    "catchment_target_spilling", "gauge", "target",
        "1 while a target takes nothing and its frames go to its spill; of targets with a spill.",
        |_, view, out| for target in targets(view).filter(|one| one.spill.is_some()) {
            out.put(&[("target", &target.name)], f64::from(target.is_spilling()));
        };
    "catchment_target_fault", "gauge", "target",
        "1 while a target cannot write its files, nor, if it has one, its spill.",
        |_, view, out| for target in targets(view) {
            let fault = matches!(target.state, RecorderState::Fault { .. });
            out.put(&[("target", &target.name)], f64::from(fault));
        };
    "catchment_target_written_bytes_total", "counter", "target",
        "Bytes of a target's frames and headers.",
        |_, view, out| for target in targets(view) {
            out.put(&[("target", &target.name)], target.counts.bytes_written as f64);
        };
    "catchment_target_fragments_total", "counter", "target, source, entry",
        "What became of a source's fragments in a target, by the ledger's entry.",
        |_, view, out| for target in targets(view) {
            for (source, counts) in view.by_index().zip(&target.ledger.sources) {
                for entry in OF_TARGET {
                    let labels =
                        [("target", &*target.name), ("source", source), ("entry", entry.name())];
                    out.put(&labels, counts[entry] as f64);
                }
            }
        };
    "catchment_target_caught_up_frames_total", "counter", "target",
        "Frames that a target lacked when its run went on after a recorder's death, and got from \
         another one.",
        |_, view, out| for target in targets(view) {
            out.put(&[("target", &target.name)], target.counts.frames_caught_up as f64);
        };
    "catchment_target_caught_up_bytes_total", "counter", "target", "Bytes of the files with these.",
        |_, view, out| for target in targets(view) {
            out.put(&[("target", &target.name)], target.counts.bytes_caught_up as f64);
        };
    "catchment_target_queue_bytes", "gauge", "target", "Columns that wait for a target.",
        |_, view, out| for target in targets(view) {
            out.put(&[("target", &target.name)], target.queue.level as f64);
        };
    "catchment_target_queue_capacity_bytes", "gauge", "target",
        "The most that may wait for it, but for one larger column.",
        |_, view, out| for target in targets(view) {
            out.put(&[("target", &target.name)], target.queue.capacity as f64);
        };
    "catchment_target_buffer_bytes", "gauge", "target", "Bytes in a target's disk buffers.",
        |_, view, out| for target in targets(view) {
            if let Some(buffers) = buffers(target) {
                out.put(&[("target", &target.name)], buffers.level_bytes as f64);
            }
        };
    "catchment_target_buffer_capacity_bytes", "gauge", "target", "The most that they can hold.",
        |_, view, out| for target in targets(view) {
            if let Some(buffers) = buffers(target) {
                out.put(&[("target", &target.name)], buffers.capacity_bytes as f64);
            }
        };
    "catchment_target_folder_free_bytes", "gauge", "target, folder",
        "What can still be written to a folder of a target.",
        |_, view, out| for (target, folder) in folders(view) {
            if let Some(bytes) = folder.spare_bytes {
                let path = folder.path.display().to_string();
                out.put(&[("target", &target.name), ("folder", &path)], bytes as f64);
            }
        };
    "catchment_target_folder_current", "gauge", "target, folder",
        "1 for the folder in which a target writes its present file.",
        |_, view, out| for (target, folder) in folders(view) {
            let path = folder.path.display().to_string();
            let labels = [("target", &*target.name), ("folder", &*path)];
            out.put(&labels, f64::from(folder.is_current));
        };
    "catchment_target_folder_away", "gauge", "target, folder",
        "1 while a folder is not used, because its disk failed, is full or does not respond.",
        |_, view, out| for (target, folder) in folders(view) {
            let path = folder.path.display().to_string();
            let labels = [("target", &*target.name), ("folder", &*path)];
            out.put(&labels, f64::from(folder.away.is_some()));
        };
    "catchment_target_folder_waits_seconds", "gauge", "target, folder",
        "For how long writes, a sync or the end of a file in a folder have not completed; 0 if \
         none is under way.",
        |_, view, out| for (target, folder) in folders(view) {
            let path = folder.path.display().to_string();
            let labels = [("target", &*target.name), ("folder", &*path)];
            out.put(&labels, waits_seconds(folder));
        };
    "catchment_spill_waits_seconds", "gauge", "target",
        "For how long the disk of a spill has not answered a call that is under way; 0 if none is.",
        |_, view, out| for spill in &view.state.spills {
            out.put(&[("target", &spill.target)], spill.waits_seconds);
        };
    "catchment_spill_room_seconds", "gauge", "target",
        "For how long a spill has room at the rate of the last seconds; only while the frames of \
         its target go there.",
        |_, view, out| for spill in &view.state.spills {
            if let Some(seconds) = spill.room_seconds {
                out.put(&[("target", &spill.target)], seconds);
            }
        };
    "catchment_target_node_durable_frames_total", "counter", "target, node",
        "Frames that a storage node of a target has acknowledged as durable in this run, or in the \
         last one; of a single node, without those that came from a spill.",
        |_, view, out| nodes(view, out, |node| node.frames_durable as f64);
    "catchment_target_node_durable_bytes_total", "counter", "target, node",
        "Their stored bytes.",
        |_, view, out| nodes(view, out, |node| node.bytes_durable as f64);
    "catchment_target_node_held_bytes", "gauge", "target, node",
        "Stored bytes of frames for a storage node that it has not acknowledged.",
        |_, view, out| nodes(view, out, |node| node.bytes_held as f64);
    "catchment_target_node_connected", "gauge", "target, node",
        "1 while frames can be sent to a storage node.",
        |_, view, out| nodes(view, out, |node| f64::from(node.is_connected));
    "catchment_target_node_away_seconds", "gauge", "target, node",
        "For how long a storage node has taken nothing; 0 while it does.",
        |_, view, out| nodes(view, out, |node| {
            let away_ns = node.away_since_ns.map(|since_ns| utc_now().0.saturating_sub(since_ns));
            away_ns.unwrap_or(0) as f64 / 1e9
        });
    "catchment_spill_frames_total", "counter", "target, what",
        "Frames that were spilled, forwarded, and lost because they could not be read again.",
        |_, view, out| for spill in &view.state.spills {
            let all = [
                ("spilled", spill.frames_spilled),
                ("forwarded", spill.frames_forwarded),
                ("lost", spill.frames_lost),
            ];
            for (what, count) in all {
                out.put(&[("target", &*spill.target), ("what", what)], count as f64);
            }
        };
    "catchment_spill_lost_frames_total", "counter", "target, reason",
        "Spilled frames that are lost, since their files were removed or are damaged.",
        |_, view, out| for spill in &view.state.spills {
            let damaged = spill.frames_lost.saturating_sub(spill.frames_removed);
            for (reason, count) in [("removed", spill.frames_removed), ("damaged", damaged)] {
                out.put(&[("target", &*spill.target), ("reason", reason)], count as f64);
            }
        };
    "catchment_spill_bytes_total", "counter", "target, what",
        "Stored bytes that were spilled, and bytes of files that were forwarded.",
        |_, view, out| for spill in &view.state.spills {
            let all = [("spilled", spill.bytes_spilled), ("forwarded", spill.bytes_forwarded)];
            for (what, count) in all {
                out.put(&[("target", &*spill.target), ("what", what)], count as f64);
            }
        };
    "catchment_spill_waiting_frames", "gauge", "target", "Frames that wait in a spill.",
        |_, view, out| for spill in &view.state.spills {
            out.put(&[("target", &spill.target)], spill.frames_waiting as f64);
        };
    "catchment_spill_waiting_bytes", "gauge", "target", "Bytes of files in a spill.",
        |_, view, out| for spill in &view.state.spills {
            out.put(&[("target", &spill.target)], spill.bytes_waiting as f64);
        };
    "catchment_spill_capacity_bytes", "gauge", "target", "The most bytes in a spill.",
        |_, view, out| for spill in &view.state.spills {
            out.put(&[("target", &spill.target)], spill.bytes_max as f64);
        };
    "catchment_spill_damaged_files_total", "counter", "target",
        "Files of a spill that were kept aside, since not all in them could be read.",
        |_, view, out| for spill in &view.state.spills {
            out.put(&[("target", &spill.target)], spill.files_damaged as f64);
        };
    "catchment_queue_bytes", "gauge", "queue", "Bytes in a queue or pool for which the run waits.",
        |_, view, out| for fill in view.snapshot.iter().flat_map(|one| &one.fills) {
            out.put(&[("queue", &fill.name)], fill.level as f64);
        };
    "catchment_queue_highest_bytes", "gauge", "queue", "The most that was in it in this run.",
        |_, view, out| for fill in view.snapshot.iter().flat_map(|one| &one.fills) {
            out.put(&[("queue", &fill.name)], fill.highest as f64);
        };
    "catchment_queue_capacity_bytes", "gauge", "queue", "The most that it can hold.",
        |_, view, out| for fill in view.snapshot.iter().flat_map(|one| &one.fills) {
            out.put(&[("queue", &fill.name)], fill.capacity as f64);
        };
    "catchment_thread_cpu_seconds_total", "counter", "thread", "CPU time of a thread of the recorder.",
        |_, view, out| for thread in view.snapshot.iter().flat_map(|one| &one.threads) {
            out.put(&[("thread", &thread.name)], thread.cpu_ns as f64 / 1e9);
        };
    "catchment_disk_free_bytes", "gauge", "", "What can still be written to the runs' folder.",
        |_, view, out| if let Some(bytes) = view.state.disk.free_bytes {
            out.put(&[], bytes as f64);
        };
    "catchment_disk_left_seconds", "gauge", "",
        "How long that lasts at the rate at which the run last wrote; 0 in fault for a full disk.",
        |_, view, out| if let Some(hours) = view.state.disk.hours_left {
            out.put(&[], hours * 3_600.0);
        };
    "catchment_alarms", "gauge", "severity", "Alarms that are not cleared: warning or critical.",
        |_, view, out| {
            let api::AlarmCounts { critical, warning, .. } = view.state.alarms;
            out.put(&[("severity", "critical")], critical as f64);
            out.put(&[("severity", "warning")], warning as f64);
        };
    "catchment_alarms_unacknowledged", "gauge", "", "Alarms that nobody has acknowledged.",
        |_, view, out| out.put(&[], view.state.alarms.unacknowledged as f64);
    "catchment_alarms_raised_total", "counter", "", "Alarms that were raised.",
        |shared, _, out| out.put(&[], shared.counts.alarms_raised.load(Relaxed) as f64);
    "catchment_alarm_actions_failed_total", "counter", "",
        "Commands and webhooks of alarms that failed or took too long.",
        |shared, _, out| out.put(&[], shared.counts.actions_failed.load(Relaxed) as f64);
    "catchment_alarm_actions_dropped_total", "counter", "",
        "Commands and webhooks of alarms that were not begun, since too many waited.",
        |shared, _, out| out.put(&[], shared.counts.actions_dropped.load(Relaxed) as f64);
    "catchment_http_connections_total", "counter", "", "Connections to the API and the page.",
        |shared, _, out| out.put(&[], shared.counts.connections.load(Relaxed) as f64);
    "catchment_http_connections_refused_total", "counter", "",
        "Connections that were closed at once: their address had too many, or files need the descriptors.",
        |shared, _, out| out.put(&[], shared.counts.refused_connections.load(Relaxed) as f64);
    "catchment_http_requests_total", "counter", "", "Requests.",
        |shared, _, out| out.put(&[], shared.counts.requests.load(Relaxed) as f64);
    "catchment_http_problems_total", "counter", "", "Requests that were answered with a problem.",
        |shared, _, out| out.put(&[], shared.counts.problems.load(Relaxed) as f64);
    "catchment_http_streams_total", "counter", "", "Streams of updates that were opened.",
        |shared, _, out| out.put(&[], shared.counts.streams.load(Relaxed) as f64);
    "catchment_http_streams_refused_total", "counter", "",
        "Streams that were refused, since their address had too many.",
        |shared, _, out| out.put(&[], shared.counts.refused_streams.load(Relaxed) as f64);
    "catchment_tokens_refused_total", "counter", "", "Tokens that were not known, or were revoked.",
        |shared, _, out| out.put(&[], shared.counts.refused_tokens.load(Relaxed) as f64);
    "catchment_audit_lines_lost_total", "counter", "",
        "Lines of the audit log that could not be written.",
        |shared, _, out| out.put(&[], shared.audit.lost() as f64);
    "catchment_log_lines_total", "counter", "", "Lines of the log.",
        |shared, _, out| out.put(&[], shared.logs.count() as f64);
    "catchment_log_lines_dropped_total", "counter", "",
        "Lines of the log that were not written to stderr, since too many waited.",
        |shared, _, out| out.put(&[], shared.logs.dropped() as f64);
};

fn folders(view: &View) -> impl Iterator<Item = (&TargetSnapshot, &FolderSnapshot)> {
    targets(view).flat_map(|target| target.folders.iter().map(move |folder| (target, folder)))
}

fn targets(view: &View) -> impl Iterator<Item = &TargetSnapshot> {
    view.snapshot.iter().flat_map(|snapshot| &snapshot.targets)
}

fn nodes(view: &View, out: &mut Values<'_>, of: fn(&api::TargetNode) -> f64) {
    for target in &view.state.targets {
        for node in &target.nodes {
            out.put(&[("target", &target.name), ("node", &node.address)], of(node));
        }
    }
}

fn count(view: &View, out: &mut Values<'_>, of: fn(&catchment_recorder::Counts) -> u64) {
    if let Some(snapshot) = &view.snapshot {
        out.put(&[], of(&snapshot.counts) as f64);
    }
}

fn of_links(view: &View, out: &mut Values<'_>, of: fn(&api::LinkState) -> f64) {
    for source in &view.sources.sources {
        let value = of(&source.link);
        if value > 0.0 {
            out.put(&[("source", &source.name)], value);
        }
    }
}

fn outside_runs(view: &View, out: &mut Values<'_>) {
    for device in &view.devices {
        let count = device.properties.get(OUTSIDE).and_then(serde_json::Value::as_f64);
        let name = device.path.strip_prefix(FRONT_ENDS).and_then(|rest| rest.strip_prefix('/'));
        if let (Some(name), Some(count)) = (name, count.filter(|count| *count > 0.0)) {
            out.put(&[("front_end", name)], count);
        }
    }
}

/// Metrics in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "node",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(shared): Shared) -> impl IntoResponse {
    let text = render(&shared, &shared.view());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

fn render(shared: &NodeShared, view: &View) -> String {
    let mut text = String::new();
    for metric in all() {
        let Metric { name, kind, help, .. } = metric;
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
        (metric.value)(shared, view, &mut Values { name, text: &mut text });
    }
    // All are present from the first moment, with 0: a series that first appears shows no rise.
    let none = Ledger::default();
    let ledger = view.snapshot.as_ref().map_or(&none, |snapshot| &snapshot.ledger);
    let (total, none) = (ledger.total(), SourceLedger::default());
    let names: Vec<&str> = view.by_index().collect();
    for &entry in Entry::ALL {
        let name = ledger_name(entry, "");
        writeln!(text, "# HELP {name} {}\n# TYPE {name} counter", ledger_help(entry)).ok();
        Values { name: &name, text: &mut text }.put(&[], total[entry] as f64);
    }
    for &entry in Entry::ALL {
        let name = ledger_name(entry, "source_");
        writeln!(text, "# HELP {name} {}\n# TYPE {name} counter", ledger_help(entry)).ok();
        let mut values = Values { name: &name, text: &mut text };
        for (index, source) in names.iter().enumerate() {
            let counts = ledger.sources.get(index).unwrap_or(&none);
            values.put(&[("source", source)], counts[entry] as f64);
        }
    }
    text
}

impl View {
    /// The sources' names in order of number.
    pub(super) fn by_index(&self) -> impl Iterator<Item = &str> {
        let mut sources: Vec<_> = self.sources.sources.iter().collect();
        sources.sort_by_key(|source| source.index);
        sources.into_iter().map(|source| source.name.as_str())
    }
}

/// `fragment_bytes_received` is `catchment_fragment_received_bytes_total`: the unit comes last.
fn ledger_name(entry: Entry, of: &str) -> String {
    let name = entry.name();
    let plain: Vec<&str> = name.split('_').filter(|word| *word != "bytes").collect();
    let unit = if plain.len() < name.split('_').count() { "_bytes" } else { "" };
    format!("catchment_{of}{}{unit}_total", plain.join("_"))
}

fn ledger_help(entry: Entry) -> String {
    format!("The ledger's entry {}, of this run.", entry.name())
}

/// `docs/metrics.md`.
pub fn document() -> String {
    let mut text = String::from(
        "# Metrics\n\nWhat `GET /metrics` of a node under control says, in Prometheus' text format. \
         This page is made from the code\n(`CATCHMENT_WRITE=1 cargo test -p catchment-control \
         --test metrics` writes it anew).\n\nCounters of the recorder begin at zero with each run. \
         Ratios are 0 to 1.\n\n| metric | kind | labels | what |\n| --- | --- | --- | --- |\n",
    );
    for Metric { name, kind, labels, help, .. } in all() {
        writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").ok();
    }
    text += "\n## The ledger\n\nEach entry of the ledger is a counter of all sources together, and one \
        per source\n(`catchment_source_…_total{source=\"…\"}`), both from the start of the program. What the \
        entries mean, and how they balance, is said in\n`crates/base/model/src/ledger.rs`.\n\n\
        | entry | metric | metric per source |\n| --- | --- | --- |\n";
    for &entry in Entry::ALL {
        let (all, one) = (ledger_name(entry, ""), ledger_name(entry, "source_"));
        writeln!(text, "| {} | `{all}` | `{one}` |", entry.name()).ok();
    }
    text += "\n## Quantities of alarms\n\nWhat a rule of `[[alarms]]` can look at: `quantity`. `*` is \
        every source, queue or device, or the name of one. Counts are\nof this run, and not there without one. \
        Configurations that name anything else are refused.\n\n| quantity | what |\n| --- | --- |\n";
    for known in known_quantities() {
        writeln!(text, "| `{}` | {} |", known.name, known.description).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_prometheus_wants_them_and_used_once() {
        let mut names: Vec<String> = all().map(|metric| metric.name.to_owned()).collect();
        for &entry in Entry::ALL {
            names.extend([ledger_name(entry, ""), ledger_name(entry, "source_")]);
        }
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(names.iter().all(|name| name.chars().all(fits)));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        for metric in all() {
            assert_eq!(
                metric.kind == "counter",
                metric.name.ends_with("_total"),
                "{}",
                metric.name
            );
        }
        assert_eq!(
            ledger_name(Entry::FragmentBytesReceived, ""),
            "catchment_fragment_received_bytes_total"
        );
    }
}
