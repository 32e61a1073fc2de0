//! What was forwarded from a spill after its run's end, in the catalogue and in the lists of the
//! run's files.

use std::path::Path;

use catchment_catalog::{CatalogError, Remark, SpillForwarded};
use catchment_frame::{LocationKind, RunLocation};
use catchment_recorder::Forwarded;
use catchment_storage::list_locations;
use catchment_telemetry::utc_now;

use super::CatalogClient;

impl CatalogClient {
    /// Has a run's record say that everything is forwarded of a stream that it had left in a spill.
    /// False: the run's own end is not entered yet.
    ///
    /// # Errors
    /// The catalogue cannot be read or written.
    pub(crate) fn forwarded(&self, one: &Forwarded) -> Result<bool, CatalogError> {
        let found = self.at_once(|catalog| catalog.in_spill(one.run, &one.spill, &one.name))?;
        let Some(detail) = found else {
            // It says so already, or is in no catalogue: a program that was killed then may not
            // have looked at the files.
            for folder in one.locations.iter().filter(|place| place.kind == LocationKind::Folder) {
                let path = Path::new(&folder.address).join(&folder.name);
                if let Err(error) = self.catalog.scan_folder(&path, one.run) {
                    let folder = path.display();
                    tracing::warn!(%folder, %error, "the catalogue does not know the run's files");
                }
            }
            return Ok(true);
        };
        if !detail.run.state.is_final() {
            return Ok(false);
        }
        let number = detail.run.number;
        let mut locations: Vec<RunLocation> = now_at(&detail.locations, one);
        for folder in locations.iter().filter(|place| place.kind == LocationKind::Folder) {
            let path = Path::new(&folder.address).join(&folder.name);
            if let Err(error) = list_locations(&path, one.run, &locations) {
                tracing::warn!(run = number, %error, "a list of files lacks where the run is");
            }
        }
        locations.retain(|place| place.kind != LocationKind::Spill || place.frames != Some(0));
        let remark = remark(one);
        let fragments = one.fragments.iter().map(|(source, count)| (&**source, *count)).collect();
        let (target, locations, is_whole) = (&*one.target, &*locations, one.is_whole);
        let remark = remark.as_ref();
        let forwarded = SpillForwarded { target, locations, fragments, is_whole, remark };
        self.at_once(|catalog| catalog.enter_forwarded(number, &forwarded))?;
        let has_files = one.locations.iter().any(|place| place.kind == LocationKind::Folder);
        if has_files && let Err(error) = self.catalog.scan(number) {
            tracing::warn!(run = number, %error, "the catalogue does not know the run's files");
        }
        let (frames, lost) = (one.frames, one.frames_lost);
        tracing::info!(run = number, frames, lost, to = one.place, "what was spilled is forwarded");
        Ok(true)
    }
}

/// Where a run's frames are now, that were there before: none in the spill. How many a node has is
/// known if one program has forwarded all that waited for it when the run ended.
fn now_at(before: &[RunLocation], one: &Forwarded) -> Vec<RunLocation> {
    let is_spill = |place: &RunLocation| {
        place.kind == LocationKind::Spill
            && (&place.address, &place.name) == (&one.spill, &one.name)
    };
    let waited = before.iter().find(|place| is_spill(place)).and_then(|place| place.frames);
    let is_counted = waited == Some(one.frames + one.frames_lost);
    let now = |place: &RunLocation| {
        let key = |one: &RunLocation| (one.kind, one.address.clone(), one.name.clone());
        let mut now = one.locations.iter().filter(|_| place.target == one.target);
        let found = now.find(|now| key(now) == key(place));
        match found {
            _ if is_spill(place) => {
                RunLocation { frames: Some(0), bytes: Some(0), ..place.clone() }
            }
            None => place.clone(),
            Some(now) if now.kind == LocationKind::Folder => {
                let RunLocation { frames, bytes, ref files, .. } = *now;
                RunLocation { frames, bytes, files: files.clone(), ..place.clone() }
            }
            Some(now) => {
                let frames = place.frames.zip(now.frames).filter(|_| is_counted);
                let says_files = !now.file_frames.is_empty();
                RunLocation {
                    frames: frames.map(|(before, more)| before.saturating_add(more)),
                    // Of what was forwarded only the bytes of its files are known.
                    bytes: None,
                    first_frame: place.first_frame.into_iter().chain(now.first_frame).min(),
                    last_frame: place.last_frame.max(now.last_frame),
                    file_frames: if says_files { &now.file_frames } else { &place.file_frames }
                        .clone(),
                    ..place.clone()
                }
            }
        }
    };
    before.iter().map(now).collect()
}

/// What is said of it, if this program has forwarded or missed anything.
fn remark(one: &Forwarded) -> Option<Remark> {
    let Forwarded { frames, frames_lost: lost, spill, place, .. } = one;
    let missed = match lost {
        0 => String::new(),
        lost => format!("; {lost} could not be read, and are lost"),
    };
    let text = format!("{frames} frames that waited in {spill} were forwarded to {place}{missed}");
    let (time, kind, who) = (utc_now(), Remark::ALONE.to_owned(), String::new());
    (frames + lost > 0).then_some(Remark { time, kind, who, text })
}

#[cfg(test)]
mod tests {
    use catchment_catalog::NumberRequest;
    use catchment_fixtures::hadtu_sources;
    use catchment_frame::Schema;
    use catchment_model::RunId;
    use catchment_storage::{Ending, EventFrame, NewRun, RunWriter, WriteOptions};

    use super::*;

    #[test]
    fn files_that_a_program_was_killed_before_it_looked_at_are_found_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let (id, path) = (RunId([7; 16]), folder.path().join("run-a"));
        let client = CatalogClient::of(folder.path());
        let live = client.take(&NumberRequest::default()).unwrap();
        // As it says once all is forwarded: nothing waits in a spill.
        client.begin(&live, (id, &path), Vec::new());
        let schema = Schema::events(hadtu_sources(1, |_| true));
        let run = NewRun { run: id, ..NewRun::new(path, "run-a", schema).unwrap() };
        let mut writer = RunWriter::create(run, WriteOptions::small()).unwrap();
        let (keys, times_ns, flags, sources) = (&[1], &[1], &[0], Vec::new());
        let frame = EventFrame { keys, times_ns, flags, sources, increments: None };
        writer.write_events(frame).unwrap();
        writer.finish(Ending::default()).unwrap();
        let address = folder.path().display().to_string();
        let location = RunLocation { address, name: "run-a".to_owned(), ..RunLocation::default() };
        let forwarded = Forwarded {
            run: id,
            target: "local".to_owned(),
            name: "run-a".to_owned(),
            spill: "/spill".to_owned(),
            place: location.address.clone(),
            frames: 0,
            frames_lost: 0,
            is_whole: true,
            fragments: Vec::new(),
            locations: vec![location],
        };
        assert!(client.forwarded(&forwarded).unwrap());
        let detail = client.read(|catalog| catalog.run(live.number())).unwrap();
        assert_eq!(detail.file_rows.len(), 1);
    }
}
