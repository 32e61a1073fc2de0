//! Files of channels cut at any byte: every whole frame survives.

use crate::signal;
use catchment_disk::ReadFile;
use catchment_fixtures::Random;
use catchment_frame::ReadAt;
use catchment_storage::{Outcome, Run, Select, audit, repair, verify};
use signal::Signal;

#[test]
fn every_whole_frame_survives_a_cut_at_any_byte_and_repair_closes_the_file() {
    let made = Signal { frames: 24, file_time_s: 1 << 20, gap: true, ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let path = run.files().next().expect("a file").path.to_owned();
    let frames: Vec<_> = run.channel_frames().iter().map(|frame| frame.summary).collect();
    let index = run.channels().iter().position(|info| info.name == "slow").expect("is there");
    let whole = run.read_many(&[index], &Select::All).expect("reads");
    let bytes = std::fs::read(&path).expect("reads");
    let header_bytes = frames[0].offset;
    drop(run);
    let mut random = Random::new(1);
    for round in 0..60 {
        let room = bytes.len() as u64 - header_bytes;
        let cut = header_bytes + random.below(room);
        let mut left = bytes[..cut as usize].to_vec();
        if round % 2 == 1 {
            // As left by a recorder: preallocated zeros at the end, and the frame in progress has
            // no header yet.
            let under_way = frames.iter().find(|f| f.offset + f.frame_bytes > cut);
            let at = under_way.map_or(cut, |frame| frame.offset.min(cut)) as usize;
            let end = left.len().min(at + 4_096);
            left[at..end].fill(0);
            left.resize(left.len() + 40_960, 0);
        }
        std::fs::write(&path, &left).expect("writes");
        let survivors = frames.iter().filter(|f| f.offset + f.frame_bytes <= cut).count();
        let check = |what: &str| {
            let run = Run::open(made.path()).expect("opens");
            assert_eq!(run.channel_frames().len(), survivors, "{what}, cut at {cut}");
            let read = run.read_many(&[index], &Select::All).expect("reads");
            let samples: u64 = read[0].iter().map(|segment| segment.samples).sum();
            assert_eq!(samples, survivors as u64 * 64, "{what}, cut at {cut}");
            for segment in &read[0] {
                let at = (segment.first_sample - whole[0][0].first_sample) as usize * 2;
                assert_eq!(segment.bytes, whole[0][0].bytes[at..at + segment.bytes.len()]);
            }
            run
        };
        check("as it is");
        let report = repair(made.path()).expect("repairs");
        assert_eq!(report.files[0].frames as usize, survivors);
        let intact = report.files[0].outcome == Outcome::Intact;
        assert!(intact == (cut == bytes.len() as u64), "cut at {cut}: {report:?}");
        let run = check("repaired");
        // The run's list has the length with which it was closed.
        let all = survivors == frames.len();
        assert!(run.closed() && verify(&run, |_| {}).is_intact() == all, "cut at {cut}");
        assert_eq!(audit(&run).expect("reads").is_balanced(), all, "cut at {cut}");
    }
}

#[test]
fn a_file_that_ends_within_its_header_is_named_with_what_lacks_and_stays_as_it_is() {
    let made = Signal { frames: 1, ..Signal::default() }.write();
    let path =
        Run::open(made.path()).expect("opens").files().next().expect("a file").path.to_owned();
    let bytes = std::fs::read(&path).expect("reads");
    let text_bytes = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes")) as usize;
    for cut in 0..64 + text_bytes {
        std::fs::write(&path, &bytes[..cut]).expect("writes");
        let report = repair(made.path()).expect("reads");
        let needed = if cut < 64 { 64 } else { 64 + text_bytes };
        let expected = match cut {
            // The run's list has the length.
            0 => format!("it was closed with {} bytes, and is empty now", bytes.len()),
            _ => format!(
                "the file ends within the file header: expected {needed} bytes at 0, got {cut}"
            ),
        };
        assert_eq!(report.files[0].outcome, Outcome::Unreadable(expected));
        assert_eq!((report.files.len(), report.found_damage()), (1, true));
        assert_eq!(std::fs::read(&path).expect("reads"), bytes[..cut]);
    }
}

#[test]
fn a_flipped_bit_costs_no_more_than_the_column_that_it_is_in() {
    let made = Signal { frames: 12, file_time_s: 1 << 20, ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let path = run.files().next().expect("a file").path.to_owned();
    let frames: Vec<_> = run.channel_frames().iter().map(|frame| frame.summary).collect();
    let bytes = std::fs::read(&path).expect("reads");
    drop(run);
    let mut random = Random::new(2);
    for _ in 0..60 {
        let frame = &frames[random.index(frames.len())];
        let at = frame.offset + random.below(frame.frame_bytes);
        let mut broken = bytes.clone();
        broken[at as usize] ^= 1 << random.below(8);
        std::fs::write(&path, &broken).expect("writes");
        let run = Run::open(made.path()).expect("opens");
        assert_eq!(run.channel_frames().len(), frames.len(), "the TOC says where they are");
        let report = verify(&run, |_| {});
        // Padding is not covered by a checksum.
        assert!(report.problem_count <= 1, "bit at {at}: {report:?}");
        let mut unreadable = 0;
        for index in 0..run.channels().len() {
            let channel = run.channel_at(index).expect("is there");
            unreadable += usize::from(channel.read(&Select::All).is_err());
        }
        let named = report.problems.iter().filter(|problem| problem.channel.is_some()).count();
        assert_eq!(unreadable, named, "bit at {at}: {report:?}");
    }
}

#[test]
fn a_file_whose_recorder_was_killed_is_opened_without_reading_what_it_had_allocated() {
    let made = Signal { frames: 3, file_time_s: 1 << 20, ..Signal::default() }.write();
    let run = Run::open(made.path()).expect("opens");
    let path = run.files().next().expect("a file").path.to_owned();
    let last = run.channel_frames().last().expect("a frame").summary;
    let closed_bytes_read = run.bytes_read();
    let end = last.offset + last.frame_bytes;
    let file = std::fs::File::options().write(true).open(&path).expect("opens");
    file.set_len(end).expect("cuts");
    file.set_len(end + (1 << 30)).expect("grows");
    let run = Run::open(made.path()).expect("opens");
    assert_eq!((run.channel_frames().len(), run.closed()), (3, false));
    if ReadFile::open(&path).expect("opens").next_data(end).is_some() {
        eprintln!("nothing more to test: this file system knows no holes");
        return;
    }
    let read = run.bytes_read();
    assert!(read < closed_bytes_read + 1_000_000, "{read} bytes, {closed_bytes_read} if closed");
    // All of it is searched for frames before the file is repaired.
    let report = repair(made.path()).expect("repairs");
    assert!(!report.found_damage());
    assert_eq!(Run::open(made.path()).expect("opens").channel_frames().len(), 3);
}
