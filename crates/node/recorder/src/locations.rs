//! Where the frames of a run are sent, for its index: in the catalogue, and in the list of files of
//! its folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use catchment_frame::{LOCATION_RANGES_MAX, LocationKind, RunLocation};
use catchment_model::RunId;
use catchment_storage::{EXTENSION, list_locations};

use crate::live::{Live, State};
use crate::live_target::LiveTarget;
use crate::recorder::Recorder;
use crate::target_config::{NodeConfig, Place};

impl Live {
    /// Where the frames of the run with that folder are sent; once it `has_ended`, what is there.
    pub(crate) fn locations(&self, folder: &Path, has_ended: bool) -> Vec<RunLocation> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        self.targets.iter().flat_map(|target| target.locations(&name, has_ended)).collect()
    }

    /// Adds where the frames of a run that has ended are to the list of each of its folders. The
    /// catalogue has it, too, and each file says of which target it is.
    pub(crate) fn list_locations(&self, run: RunId, folder: &Path, locations: &[RunLocation]) {
        let name = folder.file_name().unwrap_or_default();
        let (mut has_files, mut is_listed) = (false, false);
        for target in &self.targets {
            let is_left = target.is_left.load(Relaxed);
            let is_in_fault = matches!(*target.state.lock(), State::Fault { .. });
            let files = target.files.lock().clone();
            for one in &target.folders {
                let one = one.snapshot();
                let folder = one.path.join(name);
                if !files.iter().any(|path| path.parent() == Some(folder.as_path())) {
                    continue;
                }
                has_files = true;
                // A disk that does not answer would hold up the end of the run.
                let away = one.away.or_else(|| target.away.lock().clone());
                let result = match away {
                    _ if is_in_fault => Err("its target has failed".to_owned()),
                    Some(away) => Err(away),
                    _ if is_left => Err("its disk does not answer".to_owned()),
                    None => {
                        list_locations(&folder, run, locations).map_err(|error| error.to_string())
                    }
                };
                match result {
                    Ok(has_list) => is_listed |= has_list,
                    Err(error) => self.warn_once(format!(
                        "the list of files in {} lacks where the run is: {error}",
                        folder.display()
                    )),
                }
            }
        }
        if has_files && !is_listed {
            let text = "no list of the run's files has where it is; the catalogue does";
            self.warn_once(text.to_owned());
        }
    }
}

/// Whether it is a spill in which nothing waited when the run ended. It is listed in case an
/// earlier end of the run said otherwise.
pub(crate) fn is_empty_spill(location: &RunLocation) -> bool {
    location.kind == LocationKind::Spill && location.frames == Some(0)
}

impl Recorder {
    /// Where the run's frames are sent.
    pub fn locations(&self) -> Vec<RunLocation> {
        self.observer().0.locations(self.folder(), false)
    }
}

impl LiveTarget {
    fn locations(&self, run: &str, has_ended: bool) -> Vec<RunLocation> {
        let name = match self.place {
            Place::Node(_) => NodeConfig::stream_name(run, self.variant.number),
            Place::Folders(_) | Place::None => run.to_owned(),
        };
        let location = |kind, address: String| RunLocation {
            target: self.name.clone(),
            kind,
            address,
            name: name.clone(),
            required: self.required,
            ..RunLocation::default()
        };
        let path = |path: &PathBuf| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.display().to_string()
        };
        let folders = self.place.folders().iter();
        let mut all: Vec<RunLocation> =
            folders.map(|one| location(LocationKind::Folder, path(one))).collect();
        all.extend(self.nodes.iter().map(|one| location(LocationKind::Node, one.address.clone())));
        all.extend(self.spill_folder.iter().map(|one| location(LocationKind::Spill, path(one))));
        if has_ended {
            self.add_contents(&mut all, run);
        }
        all
    }

    /// Says what is there of a run that has ended.
    fn add_contents(&self, all: &mut [RunLocation], run: &str) {
        let counts = self.counters.read();
        let spill = self.spill.as_ref().map(|spill| spill.read()).unwrap_or_default();
        let handed_over = self.spill.as_ref().map(|spill| spill.handed_over()).unwrap_or_default();
        let waiting = spill.frames_waiting + handed_over.0;
        let files = self.files.lock().clone();
        let mut nodes = self.nodes.iter().map(|node| node.read());
        let mut folders = self.place.folders().iter();
        let is_only_folder = folders.len() == 1;
        // Of several nodes each has counted what it got from the spill.
        let forwarded = if self.nodes.len() > 1 { 0 } else { spill.frames_forwarded };
        for location in all {
            match location.kind {
                LocationKind::Folder => {
                    let Some(folder) = folders.next().map(|folder| folder.join(run)) else {
                        continue;
                    };
                    let files = files.iter().filter(|path| path.parent() == Some(folder.as_path()));
                    location.files = ranges(files.filter_map(|path| file_index(path)));
                    if is_only_folder {
                        location.frames = Some(counts.frames_recorded.saturating_sub(waiting));
                        // Of what waits only the bytes of its files are known.
                        location.bytes = (waiting == 0).then_some(counts.bytes_written);
                    }
                }
                LocationKind::Node => {
                    let Some(node) = nodes.next() else { continue };
                    location.frames = Some(node.frames_durable + forwarded);
                    // Of what was forwarded only the bytes of its files are known.
                    let is_known = forwarded == 0;
                    location.bytes = is_known.then_some(node.bytes_durable);
                    (location.first_frame, location.last_frame) = node.numbers.unzip();
                    location.file_frames = node.files;
                }
                LocationKind::Spill => {
                    location.frames = Some(waiting);
                    location.bytes = Some(spill.bytes_waiting + handed_over.1);
                }
            }
        }
    }
}

/// A file's index, by its name.
pub(crate) fn file_index(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    name.rsplit_once('-')?.1.parse().ok()
}

/// Indexes that rise, each the first and the last of some that follow each other; if there are too
/// many, from the lowest to the highest.
pub(crate) fn ranges(indexes: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    if ranges.len() > LOCATION_RANGES_MAX {
        let lowest = ranges.iter().map(|(first, _)| *first).min();
        let highest = ranges.iter().map(|(_, last)| *last).max();
        ranges = lowest.zip(highest).into_iter().collect();
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_follow_each_other_are_a_range() {
        let paths = ["run-7-00000.catch", "a/run-7-00001.catch", "run-7-00004.catch", "x.catch"];
        let indexes = paths.iter().filter_map(|path| file_index(Path::new(path)));
        assert_eq!(ranges(indexes), [(0, 1), (4, 4)]);
        assert_eq!(ranges((0..64).map(|one| 2 * one)).len(), 64);
        assert_eq!(ranges((0..65).map(|one| 2 * one)), [(0, 128)]);
    }
}
