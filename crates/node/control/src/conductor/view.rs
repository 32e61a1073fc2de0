//! The published view of the node: made twice a second, swapped in atomically.

use std::sync::Arc;

use catchment_model::Utc;
use catchment_model::units::Bytes;
use catchment_run::{Command, State};

use super::Conductor;
use crate::api;
use crate::devices::{Active, RECORDER};
use crate::front_ends;
use crate::properties;
use crate::shared::{Schemas, View};
use crate::watching::Meaning;
use crate::watching::targets::both_full;

impl Conductor {
    /// The recorder's own state: a fault of another device does not end a run.
    pub(super) fn recorder_state(&self) -> State {
        let recorder = self.control.devices().iter().find(|one| one.spec.path == RECORDER);
        recorder.map_or(self.control.state(), |device| device.state)
    }

    /// All devices, and the schemas of their properties.
    pub(super) fn device_list(&self) -> (Vec<api::Device>, Schemas) {
        let run_status = &self.devices.run_status;
        let device = |device: &catchment_run::Device| {
            let path = device.spec.path;
            let found = properties::of(path, &self.configuration, run_status, &self.shared);
            api::Device {
                path: path.into(),
                kind: device.spec.kind.into(),
                state: device.state.name().into(),
                reason: device.reason.as_ref().map(ToString::to_string),
                // They take commands together.
                commands: Vec::new(),
                properties: properties::values(found.unwrap_or_default()),
                schema: format!("/api/v1/devices/{path}/schema"),
            }
        };
        let mut devices: Vec<_> = self.control.devices().iter().map(device).collect();
        let mut schemas = Arc::clone(&self.schemas);
        for (device, schema) in front_ends::devices(run_status) {
            Arc::make_mut(&mut schemas).insert(device.path.clone(), schema);
            devices.push(device);
        }
        devices.sort_by(|a, b| a.path.cmp(&b.path));
        (devices, schemas)
    }

    pub(super) fn view(
        &self,
        now_ns: u64,
        active: Option<Active>,
        snapshot: Option<Arc<catchment_recorder::Snapshot>>,
        (meaning, devices, schemas): (Meaning, Vec<api::Device>, Schemas),
    ) -> View {
        let alarms = api::AlarmList { alarms: self.alarm_list() };
        let folder = active.as_ref().map(|active| active.folder.clone());
        let state = self.api_state(now_ns, active, snapshot.as_deref(), &meaning, &alarms);
        let sources = api::SourceList { sources: meaning.sources };
        View {
            state_json: serde_json::to_string(&state).unwrap_or_default().into(),
            sources_json: serde_json::to_string(&sources).unwrap_or_default().into(),
            state,
            sources,
            devices,
            schemas,
            alarms,
            alarms_changed: self.state.alarms_changed,
            snapshot,
            folder,
            made: None,
            is_old: false,
        }
    }

    fn offers(
        &self,
        run: Option<u64>,
        targets: &[api::Target],
        spills: &[api::Spill],
    ) -> Vec<api::CommandOffer> {
        if self.shared.settings.read_only {
            return Vec::new();
        }
        let is_store = self.shared.storing.is_some();
        let legal = self.control.legal().into_iter();
        let legal = legal.filter(|one| !is_store || *one == Command::Shutdown);
        let costs = at_end(targets, spills);
        legal.map(|one| offer(one, run, &costs)).collect()
    }

    fn alarm_list(&self) -> Vec<api::Alarm> {
        self.watching.alarms_seen().iter().map(alarm).collect()
    }

    fn api_state(
        &self,
        now_ns: u64,
        active: Option<Active>,
        snapshot: Option<&catchment_recorder::Snapshot>,
        meaning: &Meaning,
        alarms: &api::AlarmList,
    ) -> api::State {
        let run = active.as_ref().filter(|active| !active.ended);
        let number = run.map(|active| active.number);
        let space = self.shared.disk.space();
        let mut warnings = snapshot.map_or_else(Vec::new, |one| one.warnings.clone());
        let past = snapshot.iter().flat_map(|one| &one.past_warnings);
        warnings.extend(past.map(ToString::to_string));
        warnings.extend(self.shared.catalog.trouble());
        let mut spills = self.spills(snapshot);
        for spill in &mut spills {
            spill.room_seconds = meaning.lasts.spills.get(&spill.target).copied();
        }
        let problems = spills.iter().flat_map(|spill| {
            spill.problems.iter().map(|text| format!("spill of {}: {text}", spill.target))
        });
        warnings.extend(problems);
        warnings.extend(meaning.store_errors.iter().cloned());
        if let Some(age) = self.shared.disk.silent() {
            let folder = self.configuration.recorder.folder.display();
            warnings.push(format!("the disk of {folder} has not answered for {} s", age.as_secs()));
        }
        api::State {
            node: api::NodeInfo {
                name: self.shared.settings.name.clone(),
                version: env!("CARGO_PKG_VERSION").into(),
                started: Utc(self.shared.started_ns).to_string(),
                uptime_seconds: now_ns.saturating_sub(self.shared.started_ns) as f64 / 1e9,
            },
            time: Utc(now_ns).to_string(),
            verdict: api::Verdict {
                level: meaning.verdict.level.name().into(),
                loss_share: meaning.verdict.loss_share,
                bad_share: meaning.verdict.bad_share,
                text: meaning.verdict.text.clone(),
                reasons: meaning.verdict.reasons.clone(),
            },
            state: match &meaning.store {
                Some(store) => store_state(store).name().into(),
                None => self.control.state().name().into(),
            },
            reason: self.control.reason().map(ToString::to_string),
            under_way: self.control.under_way().map(|one| api::UnderWay {
                request: one.request.id.to_string(),
                command: one.request.command.name().into(),
                since: Utc(one.since_ns).to_string(),
                waiting_for: one.waiting_for.into_iter().map(str::to_owned).collect(),
                reason: self.state.held_up.clone(),
            }),
            commands: self.offers(number, &meaning.targets, &spills),
            emulated: run.map_or(self.configuration.emulates(), |active| active.emulated),
            run: run.zip(snapshot).map(|(active, snapshot)| run_now(active, snapshot, now_ns)),
            rates: meaning.rates.clone(),
            loss: meaning.loss.clone(),
            bad: meaning.bad.clone(),
            dead_time: meaning.dead_time,
            memory_seconds: meaning.lasts.memory_seconds,
            disk: api::Disk {
                folder: self.configuration.recorder.folder.display().to_string(),
                free_bytes: space.map(|space| space.free_bytes),
                total_bytes: space.map(|space| space.total_bytes),
                hours_left: meaning.lasts.hours_shown(),
            },
            flow: meaning.flow.clone(),
            targets: meaning.targets.clone(),
            spills,
            store: meaning.store.clone(),
            sources: meaning.counts.clone(),
            alarms: alarm_counts(alarms),
            warnings,
        }
    }
}

/// The state of a storage node, which takes no commands: whether anything is being stored.
fn store_state(store: &api::Store) -> State {
    let has = |state: &str| store.streams.iter().any(|stream| stream.state == state);
    match () {
        // Files that are open are written, also where there is no room for the next one.
        () if has("open") => State::Recording,
        () if store.folders.iter().all(|folder| folder.fault.is_some()) => State::Fault,
        () if has("waits") => State::Recording,
        () => State::Idle,
    }
}

fn run_now(active: &Active, snapshot: &catchment_recorder::Snapshot, now_ns: u64) -> api::RunNow {
    let counts = &snapshot.counts;
    api::RunNow {
        number: active.number,
        id: active.id.clone(),
        folder: active.folder.display().to_string(),
        started: Utc(active.started_ns).to_string(),
        seconds: now_ns.saturating_sub(active.started_ns) as f64 / 1e9,
        who: active.who.clone(),
        comment: active.comment.clone(),
        emulated: active.emulated,
        events: counts.events_recorded + counts.slices_recorded,
        frames: counts.frames_recorded,
        files: snapshot.files.len() as u64,
        bytes_written: counts.bytes_written,
    }
}

/// What the end of a run costs, or waits for: storage nodes that take nothing are not waited for,
/// and folders are.
fn at_end(targets: &[api::Target], spills: &[api::Spill]) -> String {
    let is_away = |target: &&api::Target| {
        let takes_nothing = ["away", "fault"].contains(&target.state.as_str());
        target.required && takes_nothing && target.queue.level_bytes > 0
    };
    let costs = targets.iter().filter(is_away).filter_map(|target| {
        let (bytes, name) = (Bytes(target.queue.level_bytes), &target.name);
        if target.node.is_some() {
            return Some(format!(
                " {bytes} wait in memory for {name}, which takes nothing now: what it has not \
                 taken shortly afterwards is lost."
            ));
        }
        let spill = spills.iter().find(|spill| spill.target == *name)?;
        let (folder, why) = (target.folder.as_deref()?, target.reason.as_deref()?);
        Some(format!(" It cannot end now: {}.", both_full(folder, spill, bytes, why)))
    });
    costs.collect()
}

/// A command as the page offers it: with a question if it has serious consequences.
/// `at_end`: what the end of the run costs.
fn offer(command: Command, run: Option<u64>, at_end: &str) -> api::CommandOffer {
    let confirm = match (command, run) {
        (Command::Stop, Some(run)) => Some(format!("Ends run {run} for everybody.{at_end}")),
        (Command::Pause, Some(run)) => {
            Some(format!("Data that come are discarded until run {run} is resumed."))
        }
        (Command::Reset, Some(run)) => Some(format!("Ends run {run} and forgets the fault.")),
        (Command::Shutdown, _) => {
            Some(format!("Ends the run and the program: this page goes with it.{at_end}"))
        }
        _ => None,
    };
    api::CommandOffer { name: command.name().into(), confirm }
}

/// An alarm in the API's form.
pub(super) fn alarm(alarm: &catchment_watch::Alarm) -> api::Alarm {
    api::Alarm {
        id: alarm.id.to_string(),
        name: alarm.name.clone(),
        severity: alarm.severity.name().into(),
        state: alarm.state.name().into(),
        text: alarm.text.clone(),
        value: alarm.value,
        threshold: Some(alarm.threshold),
        since: Utc(alarm.since_ns).to_string(),
        ended: alarm.ended_ns.map(|ns| Utc(ns).to_string()),
        acknowledged_by: alarm.acknowledged_by.clone(),
        source: alarm.source.clone(),
        group: alarm.group.clone(),
        sources: alarm.sources.clone(),
        source_count: alarm.source_count,
    }
}

fn alarm_counts(list: &api::AlarmList) -> api::AlarmCounts {
    let open = || list.alarms.iter().filter(|alarm| alarm.state != "cleared");
    let of = |severity: &str| open().filter(|alarm| alarm.severity == severity).count() as u64;
    let unseen = open().filter(|alarm| ["active", "latched"].contains(&alarm.state.as_str()));
    api::AlarmCounts {
        critical: of("critical"),
        warning: of("warning"),
        unacknowledged: unseen.count() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_a_run_is_told_what_waits_for_a_node_that_takes_nothing() {
        let queue = api::Queue { level_bytes: 118_000_000, ..api::Queue::default() };
        let target = |node: Option<&str>, state: &str| api::Target {
            name: "vault".into(),
            required: true,
            node: node.map(Into::into),
            state: state.into(),
            queue: queue.clone(),
            ..api::Target::default()
        };
        let spills = [api::Spill {
            target: "vault".into(),
            folder: "/spill".into(),
            bytes_waiting: 16_000_000,
            bytes_max: 16_000_000,
            ..api::Spill::default()
        }];
        let confirm = |target| offer(Command::Stop, Some(5), &at_end(&[target], &spills)).confirm;
        let plain = Some("Ends run 5 for everybody.".to_owned());
        assert_eq!(confirm(target(Some("there:1"), "recording")), plain);
        // A folder is waited for.
        let (folder, reason) = (Some("/data".into()), Some("disk full: no room".into()));
        let full = api::Target { folder, reason, ..target(None, "fault") };
        let waits = "Ends run 5 for everybody. It cannot end now: /data is full, its spill /spill \
                     (16.0 MB of 16.0 MB) takes nothing either, and 118 MB wait in memory. Make \
                     room in /data: the run then ends by itself.";
        assert_eq!(confirm(full).as_deref(), Some(waits));
        let costs = "Ends run 5 for everybody. 118 MB wait in memory for vault, which takes \
                     nothing now: what it has not taken shortly afterwards is lost.";
        assert_eq!(confirm(target(Some("there:1"), "away")).as_deref(), Some(costs));
    }
}
