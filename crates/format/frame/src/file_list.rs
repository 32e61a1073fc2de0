//! The list of a run's files: a text in the run's folder that names the files that must exist.
//!
//! ```text
//! {"catchment_files":1,"run":"6b0e62e5b1f64c2c9a4a6f2a1d3c7e90"}
//! {"begun":0,"file_id":"a1b2c3d4e5f60718"}
//! {"begun":1,"file_id":"0f1e2d3c4b5a6978"}
//! {"closed":0,"bytes":1073741824}
//! {"closed":1,"bytes":52428800}
//! {"ended":2}
//! {"location":{"target":"store","kind":"node","address":"10.0.0.7:7100","name":"run-1",..}}
//! ```
//!
//! One JSON object per line, each appended once its statement is true on disk, so the list never
//! names more than exists. A killed writer leaves a list without an end, and perhaps half a line,
//! which is ignored. An append begins with the header if the file has no whole line: it is new, or
//! the previous one was removed.

use std::collections::{BTreeMap, HashMap};

use catchment_model::{RunId, named};
use serde::{Deserialize, Serialize};

use crate::file_frames::{FileFrames, LOCATION_RANGES_MAX};

/// The list's name in the run's folder.
pub const FILE_LIST_NAME: &str = "files.jsonl";
/// The most bytes of a list: enough for half a million files.
pub const FILE_LIST_BYTES_MAX: u64 = 64 << 20;
/// The most bytes of a line.
pub const FILE_LIST_LINE_BYTES_MAX: usize = 64 << 10;
/// The most places that a list names.
pub const LOCATIONS_MAX: usize = 1_024;
/// The most bytes of a place's target, address and name together.
pub const LOCATION_TEXT_BYTES_MAX: usize = 8 << 10;

named! {
    /// What has frames of a run.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    LocationKind {
        /// A folder of the recorder's machine.
        #[default]
        Folder = "folder",
        /// A storage node.
        Node = "node",
        /// The folder of frames that wait for a storage node.
        Spill = "spill",
    }
}

/// Something to which a recorder sent frames of a run: an entry of the run's index. What is not
/// known is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLocation {
    /// The target of which it is a part, or the whole.
    pub target: String,
    /// What it is.
    pub kind: LocationKind,
    /// The path of the folder in which runs have folders, or the node's host and port.
    pub address: String,
    /// The name of the run's folder there.
    pub name: String,
    /// Whether the run waits for the target.
    pub required: bool,
    /// Durable frames: of a folder, if it is the only one of its target; of a node, with those
    /// that came from the spill; of a spill, those that waited there when the run ended.
    #[serde(default)]
    pub frames: Option<u64>,
    /// Their bytes.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Of a node: the lowest number of these frames. Others may have some of those in between.
    #[serde(default)]
    pub first_frame: Option<u64>,
    /// The highest.
    #[serde(default)]
    pub last_frame: Option<u64>,
    /// Of a folder: the indexes of its files, each the first and the last of some that follow each
    /// other. Where there would be more than [`LOCATION_RANGES_MAX`], as where a target has several
    /// folders, it is one from the lowest to the highest, and other folders of the target have
    /// some in between.
    #[serde(default)]
    pub files: Vec<(u32, u32)>,
    /// Of a node: which frames are in which of the files that it has closed, in the order of these.
    /// File 7 of the folder `run-1` is `run-1-00007.catch`. Where there would be more than
    /// [`LOCATION_RANGES_MAX`], some stand for several files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_frames: Vec<FileFrames>,
}

impl RunLocation {
    /// Whether it has no more than may be kept of it, and each range its first before its last.
    fn is_within_limits(&self) -> bool {
        let text = self.target.len() + self.address.len() + self.name.len();
        let frames = self.first_frame.zip(self.last_frame);
        text <= LOCATION_TEXT_BYTES_MAX
            && self.files.len() <= LOCATION_RANGES_MAX
            && self.files.iter().all(|(first, last)| first <= last)
            && self.file_frames.len() <= LOCATION_RANGES_MAX
            && self.file_frames.iter().all(FileFrames::is_valid)
            && frames.is_none_or(|(first, last)| first <= last)
    }
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileListLine {
    /// The header, the first line: the identity of the run.
    Run(RunId),
    /// A file's header has been written.
    Begun {
        /// The file's index.
        index: u32,
        /// The random number in its header.
        file_id: u64,
    },
    /// A file has its TOC and trailer, and is durable.
    Closed {
        /// The file's index.
        index: u32,
        /// Its length.
        bytes: u64,
    },
    /// Nothing of a file is kept: its writer deletes it, and another one may get its index.
    Removed {
        /// The file's index.
        index: u32,
    },
    /// The writer has ended, and no more files will follow.
    Ended {
        /// The number of files: the highest index plus one.
        files: u32,
    },
    /// The run has ended, and had frames sent there. It says nothing of the files of this folder.
    Location(RunLocation),
}

impl FileListLine {
    /// The line's text, including its end.
    pub fn encode(&self) -> String {
        let line = match self.clone() {
            Self::Run(run) => Line {
                catchment_files: Some(VERSION),
                run: Some(run.to_string()),
                ..Line::default()
            },
            Self::Begun { index, file_id } => Line {
                begun: Some(index),
                file_id: Some(format!("{file_id:016x}")),
                ..Line::default()
            },
            Self::Closed { index, bytes } => {
                Line { closed: Some(index), bytes: Some(bytes), ..Line::default() }
            }
            Self::Removed { index } => Line { removed: Some(index), ..Line::default() },
            Self::Ended { files } => Line { ended: Some(files), ..Line::default() },
            Self::Location(location) => {
                let location = serde_json::to_value(location);
                let location = location.expect("strings and numbers are valid JSON");
                Line { location: Some(location), ..Line::default() }
            }
        };
        serde_json::to_string(&line).expect("strings and numbers are valid JSON") + "\n"
    }
}

/// A list's data about a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedFile {
    /// The random number in its header.
    pub file_id: Option<u64>,
    /// Its length, if it was closed.
    pub closed_bytes: Option<u64>,
    /// The greatest length with which it was closed: a file that was cut and closed again by
    /// `repair` is shorter.
    pub longest_bytes: Option<u64>,
}

/// A list of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileList {
    /// The identity of the run.
    pub run: RunId,
    /// The files that it names, by index.
    pub files: BTreeMap<u32, ListedFile>,
    /// The number of files, once the writer has ended.
    pub ended: Option<u32>,
    /// Where the run's frames were sent, once it has ended: of lines for one place the last,
    /// without spills in which nothing waits.
    pub locations: Vec<RunLocation>,
    /// Lines that could not be read, counted from 1.
    pub unread_lines: Vec<usize>,
}

/// Why a list is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileListError {
    /// There is no whole line: its writer was stopped before it wrote one.
    #[error("it has no whole line")]
    Empty,
    /// No line gives the identity of the run.
    #[error("no line of it is a file-list header")]
    Header,
    /// It was written by a newer version.
    #[error("it has version {got}; this program reads version {VERSION}")]
    Version {
        /// Its version.
        got: u32,
    },
}

impl FileList {
    /// Reads a list. Unreadable lines are left out and named: a stopped machine may have left half
    /// of one. Text after the last line's end is also left out, and so are additions of later
    /// versions.
    ///
    /// # Errors
    /// No whole line, none with the run's identity, or a newer version.
    pub fn decode(text: &[u8]) -> Result<Self, FileListError> {
        let end = text.iter().rposition(|&byte| byte == b'\n').ok_or(FileListError::Empty)?;
        let lines = || text[..=end].split_inclusive(|&byte| byte == b'\n').zip(1..);
        // The first line, except half a line left by a stopped machine.
        let run = lines().find_map(|(line, _)| header(line)).ok_or(FileListError::Header)??;
        let mut list = Self {
            run,
            files: BTreeMap::new(),
            ended: None,
            locations: Vec::new(),
            unread_lines: Vec::new(),
        };
        let mut places = HashMap::new();
        for (line, number) in lines() {
            if line != b"\n" && list.take(line, &mut places).is_none() {
                list.unread_lines.push(number);
            }
        }
        let is_empty = |one: &RunLocation| one.kind == LocationKind::Spill && one.frames == Some(0);
        list.locations.retain(|one| !is_empty(one));
        Ok(list)
    }

    /// The least number of files in the run: all with a lower index must exist.
    pub fn files_expected(&self) -> u32 {
        let named = self.files.last_key_value().map_or(0, |(index, _)| index.saturating_add(1));
        named.max(self.ended.unwrap_or(0))
    }

    /// `places`: where in the list each location is.
    fn take(&mut self, line: &[u8], places: &mut HashMap<LocationKey, usize>) -> Option<()> {
        let line = parsed(line)?;
        if let Some(index) = line.begun {
            let file_id = u64::from_str_radix(&line.file_id?, 16).ok()?;
            // A file that could not be written was deleted, and its index reused.
            let file_id = Some(file_id);
            self.files.insert(index, ListedFile { file_id, ..ListedFile::default() });
        } else if let Some(index) = line.closed {
            let bytes = line.bytes?;
            let file = self.files.entry(index).or_default();
            file.closed_bytes = Some(bytes);
            file.longest_bytes = file.longest_bytes.max(Some(bytes));
        } else if let Some(index) = line.removed {
            self.files.remove(&index);
        } else if line.ended.is_some() {
            self.ended = line.ended;
        } else if let Some(location) = line.location {
            // One of a kind that only later versions know is left out.
            let Ok(location) = serde_json::from_value::<RunLocation>(location) else {
                return Some(());
            };
            return if location.is_within_limits() { self.put(location, places) } else { None };
        }
        Some(())
    }

    /// A run that was resumed has a line for each of its ends.
    fn put(
        &mut self,
        location: RunLocation,
        places: &mut HashMap<LocationKey, usize>,
    ) -> Option<()> {
        let RunLocation { target, kind, address, name, .. } = location.clone();
        let next = self.locations.len();
        let key = (target, kind, address, name);
        match places.get(&key) {
            Some(&place) => self.locations[place] = location,
            None if next < LOCATIONS_MAX => {
                places.insert(key, next);
                self.locations.push(location);
            }
            None => return None,
        }
        Some(())
    }
}

/// What two lines for one place have in common.
type LocationKey = (String, LocationKind, String, String);

/// A line's keys. None is nearly as long as the limit, which bounds what is made of one.
fn parsed(line: &[u8]) -> Option<Line> {
    if line.len() > FILE_LIST_LINE_BYTES_MAX { None } else { serde_json::from_slice(line).ok() }
}

/// The identity of the run, if the line is a header.
fn header(line: &[u8]) -> Option<Result<RunId, FileListError>> {
    let line = parsed(line)?;
    match line.catchment_files? {
        VERSION => line.run?.parse().ok().map(Ok),
        got => Some(Err(FileListError::Version { got })),
    }
}

/// A line's keys. One of `begun`, `closed`, `removed`, `ended` and `location` is present; in later
/// versions there may be none.
#[derive(Default, Serialize, Deserialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    catchment_files: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    begun: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<serde_json::Value>,
}

const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<FileListLine> {
        vec![
            FileListLine::Run(RunId([7; 16])),
            FileListLine::Begun { index: 0, file_id: 0xfeed },
            FileListLine::Begun { index: 1, file_id: u64::MAX },
            FileListLine::Closed { index: 0, bytes: 1 << 40 },
            FileListLine::Ended { files: 2 },
            FileListLine::Location(location()),
        ]
    }

    fn location() -> RunLocation {
        RunLocation {
            target: "store".into(),
            kind: LocationKind::Node,
            address: "10.0.0.7:7100".into(),
            frames: Some(3),
            last_frame: Some(u64::MAX),
            files: vec![(0, 2), (4, 4)],
            ..RunLocation::default()
        }
    }

    fn text(lines: &[FileListLine]) -> String {
        lines.iter().map(FileListLine::encode).collect()
    }

    #[test]
    fn a_list_comes_back_as_it_was_written() {
        let list = FileList::decode(text(&lines()).as_bytes()).expect("decodes");
        let closed = Some(1 << 40);
        let first =
            ListedFile { file_id: Some(0xfeed), closed_bytes: closed, longest_bytes: closed };
        let second = ListedFile { file_id: Some(u64::MAX), ..ListedFile::default() };
        assert_eq!(list.files, BTreeMap::from([(0, first), (1, second)]));
        assert_eq!((list.run, list.ended), (RunId([7; 16]), Some(2)));
        assert_eq!((list.files_expected(), list.unread_lines.len()), (2, 0));
        assert_eq!(list.locations, [location()]);
    }

    #[test]
    fn a_list_that_is_cut_at_any_byte_says_what_its_whole_lines_say() {
        let text = text(&lines());
        let first = text.find('\n').expect("lines") + 1;
        for cut in 0..text.len() {
            let list = FileList::decode(&text.as_bytes()[..cut]);
            if cut < first {
                assert_eq!(list, Err(FileListError::Empty), "cut at {cut}");
                continue;
            }
            let list = list.expect("decodes");
            let whole = text[..cut].matches('\n').count();
            let stated = &lines()[1..whole];
            let named = stated.iter().filter(|line| matches!(line, FileListLine::Begun { .. }));
            let ended = stated.iter().any(|line| matches!(line, FileListLine::Ended { .. }));
            let ended = ended.then_some(2);
            assert_eq!((list.files.len(), list.ended), (named.count(), ended), "cut at {cut}");
            assert!(list.locations.is_empty());
            assert!(list.unread_lines.is_empty());
        }
    }

    #[test]
    fn a_file_that_was_removed_is_not_expected_unless_it_is_begun_again() {
        let mut lines = lines()[..3].to_vec();
        lines.push(FileListLine::Removed { index: 1 });
        let list = FileList::decode(text(&lines).as_bytes()).expect("decodes");
        assert_eq!((list.files_expected(), list.files.contains_key(&1)), (1, false));
        lines.push(FileListLine::Begun { index: 1, file_id: 5 });
        let list = FileList::decode(text(&lines).as_bytes()).expect("decodes");
        assert_eq!((list.files_expected(), list.files[&1].file_id), (2, Some(5)));
        assert!(list.unread_lines.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_named_and_costs_no_other_line() {
        let mut text = text(&lines()[..3]);
        // Half a line, to which the next writer added the end.
        text.push_str(
            "{\"closed\":0,\"by\n\n{\"later\":[1,{\"deep\":2}]}\n\0\0\0\n{\"closed\":1}\n\
             {\"location\":{\"kind\":\"tape\"}}\n",
        );
        text.push_str(&self::text(&lines()[3..]));
        let list = FileList::decode(text.as_bytes()).expect("decodes");
        assert_eq!(list.unread_lines, [4, 7, 8]);
        assert_eq!((list.files[&0].closed_bytes, list.ended), (Some(1 << 40), Some(2)));
    }

    #[test]
    fn of_lines_for_one_location_the_last_counts_and_an_empty_spill_is_none() {
        let other = RunLocation { address: "10.0.0.8:7100".into(), ..location() };
        let spill = RunLocation { kind: LocationKind::Spill, frames: Some(2), ..location() };
        let later = RunLocation { frames: Some(9), ..location() };
        let emptied = RunLocation { frames: Some(0), ..spill.clone() };
        let of = |all: &[&RunLocation]| -> Vec<FileListLine> {
            all.iter().map(|one| FileListLine::Location((*one).clone())).collect()
        };
        let read = |lines: &[FileListLine]| {
            FileList::decode(text(lines).as_bytes()).expect("decodes").locations
        };
        let mut lines = [&lines()[..1], &of(&[&location(), &other, &spill])].concat();
        assert_eq!(read(&lines), [location(), other.clone(), spill]);
        lines.extend(of(&[&later, &other, &emptied]));
        assert_eq!(read(&lines), [later, other]);
    }

    #[test]
    fn a_location_beyond_the_limits_is_an_unread_line() {
        let ranges = |count: u32| (0..count).map(|one| (2 * one, 2 * one)).collect::<Vec<_>>();
        let most = LOCATION_RANGES_MAX as u32;
        let text_max = "x".repeat(LOCATION_TEXT_BYTES_MAX - "store10.0.0.7:7100".len());
        let within = [
            RunLocation { files: ranges(most), ..location() },
            RunLocation { name: text_max.clone(), ..location() },
        ];
        let beyond = [
            RunLocation { files: ranges(most + 1), ..location() },
            RunLocation { name: text_max + "x", ..location() },
            RunLocation { files: vec![(3, 2)], ..location() },
            RunLocation { first_frame: Some(5), last_frame: Some(4), ..location() },
            RunLocation { file_frames: vec![FileFrames::one(1, (5, 4))], ..location() },
            RunLocation { file_frames: vec![FileFrames::one(1, (4, 5)); 65], ..location() },
        ];
        let header = FileListLine::Run(RunId([7; 16])).encode();
        let encoded = |one: &RunLocation| FileListLine::Location(one.clone()).encode();
        let mut text: String = header.clone();
        text.extend(within.iter().chain(&beyond).map(encoded));
        text += &format!("{{\"location\":[{}0]}}\n", "0,".repeat(FILE_LIST_LINE_BYTES_MAX / 2));
        let list = FileList::decode(text.as_bytes()).expect("decodes");
        assert_eq!(list.locations, within);
        assert_eq!(list.unread_lines, [4, 5, 6, 7, 8, 9, 10]);
        let many =
            (0..=LOCATIONS_MAX).map(|one| RunLocation { name: one.to_string(), ..location() });
        let text = header + &many.map(|one| encoded(&one)).collect::<String>();
        let list = FileList::decode(text.as_bytes()).expect("decodes");
        assert_eq!(
            (list.locations.len(), list.unread_lines),
            (LOCATIONS_MAX, vec![LOCATIONS_MAX + 2])
        );
    }

    #[test]
    fn half_a_header_before_the_header_costs_nothing() {
        let whole = FileList::decode(text(&lines()).as_bytes()).expect("decodes");
        let torn = format!("{{\"catchment_fi\n{}", text(&lines()));
        let list = FileList::decode(torn.as_bytes()).expect("decodes");
        assert_eq!(list, FileList { unread_lines: vec![1], ..whole });
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_reason() {
        assert_eq!(FileList::decode(b""), Err(FileListError::Empty));
        for text in ["\n", "{}\n", "[1]\n", "{\"catchment_files\":1,\"run\":\"x\"}\n", "\u{1}\n"] {
            assert_eq!(FileList::decode(text.as_bytes()), Err(FileListError::Header), "{text}");
        }
        let later = FileList::decode(b"{\"catchment_files\":2}\n");
        assert_eq!(later, Err(FileListError::Version { got: 2 }));
    }
}
