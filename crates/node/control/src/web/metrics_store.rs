//! The metrics of a storage node.

use super::{Metric, Values};
use crate::api::{Store, StoreFolder, StoreStream};
use crate::shared::View;

const STATES: [&str; 5] = ["open", "waits", "broken_off", "cut_off", "ended"];

pub(super) const METRICS: &[Metric] = metrics! {
    "catchment_store_streams", "gauge", "state",
        "Streams that a storage node has had since it began: open, waits, broken_off, cut_off, \
         ended.",
        |_, view, out| for store in view.state.store.iter() {
            for state in STATES {
                let count = store.streams.iter().filter(|stream| stream.state == state).count();
                out.put(&[("state", state)], count as f64);
            }
        };
    "catchment_store_stream_taken_frames", "gauge", "stream",
        "The position up to which a stream's frames have come.",
        |_, view, out| streams(view, out, |stream| stream.taken as f64);
    "catchment_store_stream_durable_frames", "gauge", "stream",
        "The position up to which a stream's frames are durable.",
        |_, view, out| streams(view, out, |stream| stream.durable as f64);
    "catchment_store_stream_written_bytes_total", "counter", "stream",
        "Bytes of a stream's frames that were written.",
        |_, view, out| streams(view, out, |stream| stream.bytes_written as f64);
    "catchment_store_stream_waits", "gauge", "stream",
        "1 while a stream's frames cannot be written.",
        |_, view, out| streams(view, out, |stream| f64::from(stream.state == "waits"));
    "catchment_store_stream_broken_off", "gauge", "stream",
        "1 while a stream has no sender and has not ended.",
        |_, view, out| streams(view, out, |stream| f64::from(stream.state == "broken_off"));
    "catchment_store_stream_syncs_total", "counter", "stream", "Syncs of a stream's files.",
        |_, view, out| streams(view, out, |stream| stream.syncs.count as f64);
    "catchment_store_stream_sync_seconds_total", "counter", "stream", "How long they took.",
        |_, view, out| streams(view, out, |stream| stream.syncs.total_seconds);
    "catchment_store_stream_sync_seconds_max", "gauge", "stream", "The longest one.",
        |_, view, out| streams(view, out, |stream| stream.syncs.longest_seconds);
    "catchment_store_folder_free_bytes", "gauge", "folder",
        "What can still be written to the file system of a storage node's folder.",
        |_, view, out| for folder in view.state.store.iter().flat_map(|store| &store.folders) {
            if let Some(bytes) = folder.free_bytes {
                out.put(&[("folder", &folder.path)], bytes as f64);
            }
        };
    "catchment_store_folder_written_bytes_total", "counter", "folder",
        "Bytes of frames that were written to a folder.",
        |_, view, out| folders(view, out, |folder| folder.bytes_written as f64);
    "catchment_store_folder_fault", "gauge", "folder",
        "1 while nothing can be written to a folder.",
        |_, view, out| folders(view, out, |folder| f64::from(folder.fault.is_some()));
    "catchment_store_folder_failures_total", "counter", "folder", "How often a folder failed.",
        |_, view, out| folders(view, out, |folder| folder.failures as f64);
    "catchment_store_frames_total", "counter", "fate",
        "Frames that came to a storage node: taken, repeated (there already), corrupt, unfit and \
         superseded (refused).",
        |_, view, out| for store in view.state.store.iter() {
            let frames = &store.frames;
            out.put(&[("fate", "taken")], frames.taken as f64);
            out.put(&[("fate", "repeated")], frames.repeated as f64);
            out.put(&[("fate", "corrupt")], frames.corrupt as f64);
            out.put(&[("fate", "unfit")], frames.unfit as f64);
            out.put(&[("fate", "superseded")], frames.superseded as f64);
        };
    "catchment_store_taken_bytes_total", "counter", "", "Bytes of frames that were taken.",
        |_, view, out| of_store(view, out, |store| store.frames.taken_bytes as f64);
    "catchment_store_refusals_total", "counter", "reason",
        "Sessions that were refused or ended for a fault of their sender, by the reason that it \
         was told.",
        |_, view, out| for store in view.state.store.iter() {
            for (reason, &count) in &store.refusals {
                out.put(&[("reason", reason)], count as f64);
            }
        };
    "catchment_store_connections_unopened_total", "counter", "",
        "Connections that ended before they said what they are, or that opened no session in \
         time: without TLS where it is needed, not trusting the certificate, or port scans.",
        |_, view, out| of_store(view, out, |store| store.connections_unopened as f64);
    "catchment_store_faults_total", "counter", "",
        "Connections that were closed for a framing fault.",
        |_, view, out| of_store(view, out, |store| store.faults as f64);
    "catchment_store_waiting_bytes", "gauge", "", "Bytes of frames that are not written yet.",
        |_, view, out| of_store(view, out, |store| store.waiting_bytes as f64);
    "catchment_store_memory_bytes", "gauge", "",
        "The most that may wait, with the buffers for what comes next.",
        |_, view, out| of_store(view, out, |store| store.memory_bytes as f64);
};

fn streams(view: &View, out: &mut Values<'_>, of: fn(&StoreStream) -> f64) {
    for stream in view.state.store.iter().flat_map(|store| &store.streams) {
        out.put(&[("stream", &stream.name)], of(stream));
    }
}

fn folders(view: &View, out: &mut Values<'_>, of: fn(&StoreFolder) -> f64) {
    for folder in view.state.store.iter().flat_map(|store| &store.folders) {
        out.put(&[("folder", &folder.path)], of(folder));
    }
}

fn of_store(view: &View, out: &mut Values<'_>, of: fn(&Store) -> f64) {
    if let Some(store) = &view.state.store {
        out.put(&[], of(store));
    }
}
