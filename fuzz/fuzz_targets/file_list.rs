//! Arbitrary bytes as a run's list of files: what is understood is the same when written again.
#![no_main]

use catchment_frame::{FileList, FileListLine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(list) = FileList::decode(data) else { return };
    let mut text = FileListLine::Run(list.run).encode();
    for (&index, file) in &list.files {
        let begun = file.file_id.map(|file_id| FileListLine::Begun { index, file_id });
        // The last line for a file counts, and the greatest of those before it.
        let closed = [file.longest_bytes, file.closed_bytes].into_iter().flatten();
        let closed = closed.map(|bytes| FileListLine::Closed { index, bytes });
        begun.into_iter().chain(closed).for_each(|line| text.push_str(&line.encode()));
    }
    let ended = list.ended.map(|files| FileListLine::Ended { files });
    ended.into_iter().for_each(|line| text.push_str(&line.encode()));
    let locations = list.locations.iter().cloned().map(FileListLine::Location);
    locations.for_each(|line| text.push_str(&line.encode()));
    let again = FileList::decode(text.as_bytes()).expect("it was just encoded");
    assert_eq!(again, FileList { unread_lines: Vec::new(), ..list });
});
