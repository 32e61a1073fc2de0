//! Several targets: each has the run's frames, and one that the run does not need costs the others
//! nothing.

use catchment_frame::{Codings, ColumnCoding, FileReader};
use catchment_model::{Entry, SourceLedger};
use catchment_ports::StoreFaults;
use catchment_recorder::{
    ChannelConfig, LinkConfig, Place, Recorder, RecorderConfig, RunSummary, Snapshot, State,
    TargetConfig,
};
use catchment_storage::{ReframeOptions, Run, Verdict, audit, reframe};
use catchment_wire::hadtu::ByteOrder;

use std::path::PathBuf;

use super::support;
use super::support::links;
use super::support::stepped::{SECOND, Stepped};

const FIRST: &str = "run";
/// All writes fail, and no file can be made.
fn broken() -> StoreFaults {
    StoreFaults { write_errors: 1_000_000, open_errors: 1_000_000, ..StoreFaults::default() }
}

/// All operations hang.
fn frozen() -> StoreFaults {
    StoreFaults { hangs: 1_000_000, ..StoreFaults::default() }
}

fn config(second: TargetConfig) -> RecorderConfig {
    let mut config = support::config("".as_ref(), 2);
    config.frame.bytes = 64 << 10;
    config.targets = vec![TargetConfig::folder("first", "".into()), second];
    config
}

fn best_effort() -> TargetConfig {
    let second = TargetConfig::folder("second", "".into());
    TargetConfig { required: false, queue_bytes: Some(300_000), ..second }
}

#[test]
fn two_required_folders_have_the_same_frames_and_each_balances() {
    let mut recorder = Stepped::begin(&config(TargetConfig::folder("second", "".into())));
    recorder.send(300);
    let last = recorder.end();
    let total = last.ledger.total();
    assert_eq!((total[Entry::FragmentsRecorded], total[Entry::FragmentsDurable]), (600, 600));
    for (target, folder) in last.targets.iter().zip([FIRST, SECOND]) {
        assert_eq!(target.ledger.total()[Entry::FragmentsRecorded], 600, "{}", target.name);
        let (is_intact, report) = recorder.read_in(folder);
        assert!(is_intact && report.verdict == Verdict::Balanced, "{report:?}");
        assert_eq!((report.events, report.frames_missing), (300, 0));
    }
}

#[test]
fn frames_of_one_number_are_one_frame_in_whatever_folder_they_stand() {
    let mut recorder = Stepped::begin(&config(TargetConfig::folder("second", "".into())));
    recorder.send(300);
    recorder.end();
    let mut places = Vec::new();
    for (_, bytes) in recorder.frame_files() {
        let reader = FileReader::open(bytes).expect("opens");
        let frames = reader.frames().iter().map(|frame| &frame.info);
        let known = frames.map(|info| (info.sequence, info.key_first, info.key_last, info.rows));
        places.push(known.collect::<Vec<_>>());
    }
    let [first, second] = &places[..] else { panic!("a file in each folder") };
    assert!(first.len() > 10 && first == second);
}

#[test]
fn a_best_effort_folder_that_hangs_costs_the_other_nothing_and_says_what_it_lacks() {
    let mut recorder = Stepped::begin(&config(best_effort()));
    recorder.send_until(|recorder| recorder.snapshot().targets[1].counts.frames_recorded > 9);
    recorder.disks[1].set_faults(frozen());
    recorder.send(1_000);
    let lacks = |recorder: &Stepped| {
        recorder.snapshot().targets[1].ledger.total()[Entry::FragmentsNotTaken]
    };
    assert!(lacks(&recorder) > 1_000);
    assert_eq!(recorder.count(Entry::FragmentsDiscardedMemory), 0);
    recorder.disks[1].set_faults(StoreFaults::default());
    // What hangs does so for two minutes at most.
    recorder.pass(121_000);
    recorder.send(100);
    let last = recorder.end();
    let (first, second) = (last.targets[0].ledger.total(), last.targets[1].ledger.total());
    assert_eq!(first[Entry::FragmentsRecorded], first[Entry::FragmentsReceived]);
    assert_eq!(last.ledger.total()[Entry::FragmentsRecorded], first[Entry::FragmentsRecorded]);
    let (recorded, lacks) = (second[Entry::FragmentsRecorded], second[Entry::FragmentsNotTaken]);
    assert!(recorded > 0 && lacks > 1_000, "{second:?}");
    assert_eq!(recorded + lacks, second[Entry::FragmentsReceived]);
    assert!(!last.targets[1].ledger.balance().lost_data());
    let (is_intact, report) = recorder.read_in(FIRST);
    assert!(is_intact && report.verdict == Verdict::Balanced, "{report:?}");
    // Skipped frames stand for those that it did not get.
    let (is_intact, report) = recorder.read_in(SECOND);
    assert!(is_intact && report.verdict == Verdict::Balanced, "{report:?}");
    assert_eq!(report.frames_missing, 0);
    assert_eq!(report.recomputed.total()[Entry::FragmentsNotTaken], lacks);
}

#[test]
fn a_required_folder_that_fails_is_named_and_the_run_goes_on_in_the_other() {
    let mut recorder = Stepped::begin(&config(TargetConfig::folder("second", "".into())));
    recorder.send(100);
    recorder.disks[1].set_faults(broken());
    recorder
        .send_until(|recorder| matches!(recorder.snapshot().targets[1].state, State::Fault { .. }));
    recorder.send(100);
    assert_eq!(recorder.snapshot().state, State::Recording);
    assert!(recorder.snapshot().warnings.iter().any(|one| one.starts_with("target second: ")));
    let last = recorder.end();
    assert!(!last.ledger.balance().lost_data());
    let total = last.ledger.total();
    assert_eq!(total[Entry::FragmentsRecorded], total[Entry::FragmentsReceived]);
    // It is in both folders that a run is durable.
    let second = last.targets[1].ledger.total();
    assert!(total[Entry::FragmentsDurable] <= second[Entry::FragmentsDurable]);
    assert!(second[Entry::FragmentsDiscardedDisk] > 0 && last.targets[1].ledger.balance().holds());
    let (is_intact, report) = recorder.read_in(FIRST);
    assert!(is_intact && report.verdict == Verdict::Balanced, "{report:?}");
}

#[test]
fn a_target_that_gets_one_source_has_a_run_of_that_source_which_balances() {
    let config = config(of_first_source());
    let mut recorder = Stepped::begin(&config);
    recorder.send(300);
    let last = recorder.end();
    let (first, second) = (&last.targets[0].ledger, &last.targets[1].ledger);
    assert_eq!((first.total(), last.ledger.total()), (last.ledger.total(), first.total()));
    assert_eq!(second.sources[0], first.sources[0]);
    assert_eq!(second.sources[1], SourceLedger::default());
    let (is_intact, report) = recorder.read_in(FIRST);
    assert!(is_intact && report.verdict == Verdict::Balanced, "{report:?}");
    let (is_intact, report) = recorder.read_in(SECOND);
    assert!(is_intact && report.verdict == Verdict::Balanced, "{report:?}");
    assert_eq!((report.events, report.frames_missing), (300, 0));
    assert_eq!(report.recomputed.sources[0][Entry::FragmentsRecorded], 300);
    let of_second = |(path, _): &(PathBuf, _)| path.starts_with(SECOND);
    let (_, bytes) = recorder.frame_files().into_iter().find(of_second).expect("a file");
    let reader = FileReader::open(bytes).expect("opens");
    let header = reader.header();
    let stored: Vec<bool> = header.schema.sources.iter().map(|source| source.stored).collect();
    assert_eq!((header.variant, &stored[..]), (1, &[true, false][..]));
    assert!(header.schema.columns.iter().all(|column| column.source != Some(1)));
}

#[test]
fn a_source_that_is_recorded_nowhere_is_a_fault_though_another_target_records() {
    let second = Some(vec!["s1".to_owned()]);
    let mut config = config(TargetConfig { sources: second, ..of_first_source() });
    let first = Some(vec!["s0".to_owned()]);
    config.targets[0].sources = first;
    let mut recorder = Stepped::begin(&config);
    recorder.send(100);
    recorder.disks[1].set_faults(broken());
    recorder.send_until(|recorder| recorder.snapshot().state != State::Recording);
    recorder.send(100);
    recorder.disks[1].set_faults(StoreFaults::default());
    recorder.send_until(|recorder| recorder.snapshot().state == State::Recording);
    let last = recorder.end();
    let [first, second] = &last.ledger.sources[..] else { panic!("two sources") };
    assert_eq!(first[Entry::FragmentsRecorded], first[Entry::FragmentsReceived]);
    assert!(second[Entry::FragmentsDiscardedDisk] > 0 && last.ledger.balance().holds());
    assert_eq!(last.counts.events_recorded, first[Entry::FragmentsRecorded]);
}

#[test]
fn targets_that_get_one_link_each_have_its_samples_and_its_losses_alone() {
    let root = tempfile::tempdir().expect("a folder");
    let mut config = support::config(root.path(), 1);
    config.frame.duration_ns = 4_000_000_000;
    let named = |prefix: &str| {
        let renamed = |channel: ChannelConfig| {
            let name = format!("{prefix}{}", channel.name);
            ChannelConfig { name, ..channel }
        };
        links::channels().into_iter().map(renamed).collect::<Vec<_>>()
    };
    let address = config.sources[0].address;
    config.links = ["a", "b"].map(|name| LinkConfig::new(name, address, named(name))).into();
    let target = |name: &str, sources: Option<Vec<String>>| {
        let target = TargetConfig::folder(name, root.path().join(name));
        TargetConfig { sources, ..target }
    };
    let one = |name: &str| target(name, Some(vec![name.to_owned()]));
    config.folder = root.path().join("all");
    config.targets = vec![target("all", None), one("a"), one("b")];
    let recorder = Recorder::start(config).expect("starts");
    let mut senders = [0, 1].map(|link| links::Sender::new(&recorder, 1 + link, named("")));
    let events = support::senders(&recorder);
    let lost = |slice: u64| (slice - links::FIRST) % 10 == 5;
    let slices = links::FIRST..links::FIRST + 100;
    for slice in slices.clone() {
        senders[0].send(slice);
        let packet = senders[1].packet(slice, &[0, 1, 2, 3]);
        if !lost(slice) {
            senders[1].socket.send(&packet).expect("sends");
        }
        let number = (slice - links::FIRST) as u32;
        let packet = support::packet(0, ByteOrder::Big, &[(number, &[7; 100])]);
        events[0].send(&packet).expect("sends");
    }
    let summary = recorder.stop().expect("stops");
    for (index, name, verdict) in [(1, "a", Verdict::Balanced), (2, "b", Verdict::DataLost)] {
        let folder = root.path().join(name).join(summary.folder.file_name().expect("a name"));
        let files = std::fs::read_dir(&folder).expect("lists").map(|entry| entry.expect("a file"));
        let files = files.map(|entry| entry.path());
        let mut of_target = summary.clone();
        of_target.last.files =
            files.filter(|path| path.extension().is_some_and(|it| it == "catch")).collect();
        of_target.folder = folder;
        links::assert_books(&of_target, verdict);
        let samples = links::read(&of_target, &named(name));
        let there = slices.clone().filter(|&slice| name == "a" || !lost(slice));
        links::assert_samples(&samples, &named(name), there);
        // In other frames it is the same variant, and its ledger holds.
        let anew = root.path().join(format!("{name}, anew"));
        let run = Run::open(&of_target.folder).expect("opens");
        let go_on = |_| std::ops::ControlFlow::Continue(());
        reframe(&run, &anew, "anew", &ReframeOptions::default(), go_on).expect("writes");
        let anew = Run::open(&anew).expect("opens");
        assert_eq!(anew.header().variant, index as u32);
        assert_eq!(audit(&anew).expect("an audit").verdict, verdict);
        let ledger = &summary.last.targets[index].ledger;
        assert_eq!(ledger.sources[index], summary.last.ledger.sources[index]);
        assert_eq!(ledger.total(), ledger.sources[index]);
    }
    links::assert_books(&summary, Verdict::DataLost);
}

#[test]
fn a_target_that_gets_some_channels_of_a_link_has_these_and_lacks_nothing_of_others() {
    let root = tempfile::tempdir().expect("a folder");
    let mut config = support::config(root.path(), 1);
    config.frame.duration_ns = 4_000_000_000;
    let (all, address) = (links::channels(), config.sources[0].address);
    config.links = vec![LinkConfig::new("link", address, all.clone())];
    config.folder = root.path().join("all");
    let (own, others) = (["X:FAST", "X:XYZ"], ["X:ODD", "X:SLOW"]);
    let target = |name: &str, sources: Option<&[&str]>, channels: Option<&[&str]>| {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let (sources, channels) = (sources.map(list), channels.map(list));
        let folder = TargetConfig::folder(name, root.path().join(name));
        TargetConfig { sources, channels, ..folder }
    };
    config.targets = vec![target("all", None, None), target("some", Some(&["link"]), Some(&own))];
    let recorder = Recorder::start(config).expect("starts");
    let mut sender = links::Sender::new(&recorder, 1, all.clone());
    let slices = links::FIRST..links::FIRST + 100;
    for slice in slices.clone() {
        // Every tenth slice lacks a channel that the second target does not get.
        let which: &[usize] = if slice % 10 == 5 { &[0, 2, 3] } else { &[0, 1, 2, 3] };
        let packet = sender.packet(slice, which);
        sender.socket.send(&packet).expect("sends");
    }
    let summary = recorder.stop().expect("stops");
    links::assert_books(&summary, Verdict::DataLost);
    let folder = root.path().join("some").join(summary.folder.file_name().expect("a name"));
    let files = std::fs::read_dir(&folder).expect("lists").map(|entry| entry.expect("a file"));
    let mut of_target = summary.clone();
    let files = files.map(|entry| entry.path());
    of_target.last.files =
        files.filter(|path| path.extension().is_some_and(|it| it == "catch")).collect();
    of_target.folder = folder;
    links::assert_books(&of_target, Verdict::Balanced);
    let stored: Vec<ChannelConfig> =
        all.iter().filter(|one| own.contains(&&*one.name)).cloned().collect();
    // What a sample is follows from its channel's position in the link.
    let samples = links::read(&of_target, &stored);
    let numbers = |channel: &ChannelConfig| {
        let of = |slice| channel.rate.samples_of_slice(slice, links::SLICE_NS);
        slices.clone().flat_map(of).collect::<Vec<_>>()
    };
    for (found, (position, channel)) in samples.iter().zip([(0, &all[0]), (3, &all[3])]) {
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), numbers(channel));
        let sample = |number: &u64| links::sample(position, *number, channel.sample_bytes());
        assert!(found.iter().all(|(number, bytes)| *bytes == sample(number)));
    }
    let [whole, part] = [0, 1].map(|target| &summary.last.targets[target].ledger.sources[1]);
    // Slices count as they are recorded, bytes and what is missing as they are stored.
    assert_eq!(whole[Entry::FragmentsRecorded], part[Entry::FragmentsRecorded]);
    assert_eq!((whole[Entry::FragmentsMissing], part[Entry::FragmentsMissing]), (10, 0));
    let bytes = samples.iter().flat_map(|channel| channel.values()).map(Vec::len).sum::<usize>();
    assert_eq!(part[Entry::FragmentBytesRecorded], bytes as u64);
    assert_eq!(&summary.last.ledger.sources[1], whole, "the run's line is that of the whole link");
    let run = Run::open(&of_target.folder).expect("opens");
    assert_eq!((run.header().variant, run.channels().len()), (1, 2));
    let names = run.channels_not_stored().iter().map(|channel| channel.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), others);
    let error = run.check_channel_stored("X:ODD").expect_err("is not there").to_string();
    assert!(error.starts_with("channel X:ODD is not stored here"), "{error}");
    assert!(error.contains("variant 1"), "{error}");
}

#[test]
fn a_link_needs_a_required_target_with_all_its_channels() {
    let refused = |of_targets: [Option<&[&str]>; 2]| {
        let mut config = support::config("".as_ref(), 1);
        let address = config.sources[0].address;
        config.links = vec![LinkConfig::new("link", address, links::channels())];
        let target = |(name, channels): (&str, Option<&[&str]>)| {
            let channels =
                channels.map(|names| names.iter().map(|&name| name.to_owned()).collect());
            TargetConfig { channels, ..TargetConfig::folder(name, name.into()) }
        };
        config.targets = ["first", "second"].into_iter().zip(of_targets).map(target).collect();
        Recorder::start(config).expect_err("is refused").to_string()
    };
    let error = refused([Some(&["X:FAST"]), Some(&["X:ODD", "X:SLOW", "X:XYZ"])]);
    assert!(error.ends_with("for each link with all its channels, got none for link"), "{error}");
    let error = refused([None, Some(&["X:NONE"])]);
    assert_eq!(
        error,
        "targets[1].channels: expected the name of a channel of its links, got X:NONE"
    );
    let error = refused([None, Some(&[])]);
    assert!(error.starts_with("targets[1].channels: expected at least one"), "{error}");
}

#[test]
fn each_source_needs_a_required_target() {
    let refused = |targets: Vec<TargetConfig>| {
        let mut config = config(best_effort());
        config.targets = targets;
        let error = Recorder::start(config).expect_err("is refused").to_string();
        assert!(error.starts_with("targets"), "{error}");
        error
    };
    let error = refused(vec![best_effort()]);
    assert!(error.contains("a required target for each source"), "{error}");
    let error = refused(vec![of_first_source(), best_effort()]);
    assert!(error.ends_with("got none for s1"), "{error}");
    let nothing = TargetConfig { place: Place::None, ..TargetConfig::folder("none", "".into()) };
    let error = refused(vec![of_first_source(), nothing]);
    assert!(error.ends_with("got none for s1"), "{error}");
    let unknown = Some(vec!["nobody".to_owned()]);
    let error = refused(vec![TargetConfig { sources: unknown, ..of_first_source() }]);
    assert!(error.starts_with("targets[0].sources: expected the name"), "{error}");
    let none = Some(Vec::new());
    refused(vec![TargetConfig { sources: none, ..of_first_source() }]);
}

fn of_first_source() -> TargetConfig {
    let sources = Some(vec!["s0".to_owned()]);
    TargetConfig { sources, ..TargetConfig::folder("second", "".into()) }
}

#[test]
fn a_file_that_is_not_made_stops_nobody_who_has_one() {
    let mut config = config(TargetConfig::folder("second", "".into()));
    config.memory_bytes = 48 << 20;
    let mut recorder = Stepped::begin(&config);
    recorder.send(100);
    recorder.disks[1].set_faults(broken());
    recorder
        .send_until(|recorder| matches!(recorder.snapshot().targets[1].state, State::Fault { .. }));
    // The next file of the second is on its way for a minute or two.
    recorder.disks[1].set_faults(frozen());
    recorder.send(8_000);
    assert_eq!(recorder.count(Entry::FragmentsDiscardedMemory), 0);
    recorder.disks[1].set_faults(StoreFaults::default());
    let last = recorder.end();
    let first = last.targets[0].ledger.total();
    assert_eq!(first[Entry::FragmentsRecorded], first[Entry::FragmentsReceived]);
    assert!(last.targets[1].ledger.total()[Entry::FragmentsDiscardedDisk] > 5_000);
    for folder in [FIRST, SECOND] {
        let (is_intact, report) = recorder.read_in(folder);
        assert!(is_intact && report.frames_missing == 0, "{report:?}");
    }
}

#[test]
fn what_waits_for_a_best_effort_folder_takes_no_chunks_from_what_arrives() {
    let second = TargetConfig { queue_bytes: Some(8 << 20), ..best_effort() };
    let mut config = config(second);
    config.frame.codings = Codings::new("none".parse::<ColumnCoding>().expect("a coding"));
    config.sizes.cycle_bytes = 256 << 10;
    let mut recorder = Stepped::begin(&config);
    recorder.send(10);
    recorder.disks[1].set_faults(frozen());
    recorder.send(3_000);
    let snapshot = recorder.snapshot();
    assert!(snapshot.targets[1].queue.level > 6 << 20, "{snapshot:?}");
    let chunks = snapshot.fills.iter().find(|fill| fill.name == "segments").expect("a pool");
    assert!(chunks.level < 3 << 20, "{chunks:?}");
    recorder.disks[1].set_faults(StoreFaults::default());
    recorder.pass(121_000);
    recorder.end();
    let (is_intact, report) = recorder.read_in(SECOND);
    assert!(is_intact && report.verdict == Verdict::Balanced, "{report:?}");
}

#[test]
fn a_required_target_that_keeps_nothing_says_nothing_of_the_run() {
    let nothing = TargetConfig { place: Place::None, required: true, ..best_effort() };
    let last = record_100(TargetConfig { queue_bytes: None, ..nothing });
    let total = last.ledger.total();
    assert_eq!((total[Entry::FragmentsRecorded], total[Entry::FragmentsDurable]), (100, 100));
    assert_eq!((total[Entry::FragmentsNotTaken], last.state), (0, State::Stopped));
}

#[test]
fn a_best_effort_folder_that_cannot_be_made_is_in_fault_and_costs_the_run_nothing() {
    let folder = Place::Folders(vec!["/proc/no such folder".into()]);
    let last = record_100(TargetConfig { place: folder, ..best_effort() });
    assert_eq!(last.ledger.total()[Entry::FragmentsRecorded], 100);
    assert_eq!(last.state, State::Stopped);
    let second = &last.targets[1];
    assert_eq!(second.ledger.total()[Entry::FragmentsNotTaken], 100);
    let State::Fault { reason } = &second.state else { panic!("{second:?}") };
    assert!(reason.starts_with("it gets no frames of this run: cannot make"), "{reason}");
}

#[test]
fn a_best_effort_folder_that_is_left_out_of_a_run_that_goes_on_is_in_fault_and_stays_as_it_is() {
    let roots = [(), ()].map(|()| tempfile::tempdir().expect("a folder"));
    let [first, second] = [0, 1].map(|root: usize| roots[root].path().to_owned());
    let mut config = support::config(&first, 1);
    let place = Place::Folders(vec![second.clone()]);
    config.targets =
        vec![TargetConfig::folder("first", first.clone()), TargetConfig { place, ..best_effort() }];
    let name = end_100(Recorder::start(config.clone()).expect("starts"), 0).folder;
    let name = name.file_name().expect("a name").to_string_lossy().into_owned();
    let files = || -> Vec<(PathBuf, Vec<u8>)> {
        let all = second.join(&name).read_dir().expect("lists").map(|one| one.unwrap().path());
        all.map(|path| (path.clone(), std::fs::read(path).expect("reads"))).collect()
    };
    let before = files();
    // A process has its file that does not answer.
    let is_frames = |(path, _): &&(PathBuf, _)| path.extension().is_some_and(|it| it == "catch");
    let held = before.iter().find(is_frames).expect("a file");
    let held = std::fs::File::open(&held.0).expect("opens");
    held.lock().expect("locks");
    let from = Recorder::interrupted(&config, &name).expect("it can go on");
    let recorder = Recorder::resume(config, &from).expect("it goes on");
    let last = end_100(recorder, 100).last;
    assert_eq!(
        (last.state.clone(), last.ledger.total()[Entry::FragmentsRecorded]),
        (State::Stopped, 200)
    );
    let second = &last.targets[1];
    assert_eq!(second.ledger.total()[Entry::FragmentsNotTaken], 200);
    assert!(second.ledger.balance().holds());
    let State::Fault { reason } = &second.state else { panic!("{second:?}") };
    assert!(reason.starts_with("it gets no frames of this run: "), "{reason}");
    assert!(last.warnings.iter().any(|one| one.contains("target second: ")));
    assert!(files() == before);
    let report = audit(&Run::open(first.join(name)).expect("opens")).expect("an audit");
    assert_eq!((report.verdict, report.events), (Verdict::Balanced, 200));
}

#[test]
fn a_target_that_keeps_nothing_counts_what_it_gets() {
    let last = record_100(TargetConfig { place: Place::None, ..best_effort() });
    let [first, second] = &last.targets[..] else { panic!("two targets") };
    assert_eq!(first.ledger.total()[Entry::FragmentsRecorded], 100);
    assert_eq!(second.ledger.total()[Entry::FragmentsNotTaken], 100);
    assert_eq!(
        second.ledger.total()[Entry::FragmentBytesNotTaken],
        first.ledger.total()[Entry::FragmentBytesRecorded]
    );
}

/// Records a hundred events to a folder and to another target.
fn record_100(second: TargetConfig) -> Snapshot {
    let root = tempfile::tempdir().expect("a folder");
    let mut config = support::config(root.path(), 1);
    config.targets = vec![TargetConfig::folder("first", root.path().to_owned()), second];
    end_100(Recorder::start(config).expect("starts"), 0).last
}

/// Sends a recorder a hundred events from that number on, and ends the run.
fn end_100(recorder: Recorder, from: u32) -> RunSummary {
    let senders = support::senders(&recorder);
    for number in from..from + 100 {
        let packet = support::packet(0, ByteOrder::Big, &[(number, &[7; 100])]);
        senders[0].send(&packet).expect("sends");
    }
    recorder.stop().expect("stops")
}
