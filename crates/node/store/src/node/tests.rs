//! Files of a node's streams that are cut and closed, and their writer generations.

use catchment_fixtures::hadtu_sources;
use catchment_frame::{DealtPart, EntryNames, FileHeader, FileReader, Numbering, Schema};
use catchment_model::Ledger;
use catchment_net::LinkAccess;

use super::*;

fn header(is_dealt: bool) -> FileHeader {
    let part = DealtPart { number: 1, count: 2, first_item: 0 };
    FileHeader {
        run: RunId([7; 16]),
        run_number: 1,
        file_index: 0,
        file_id: 5,
        created_ns: 0,
        writer: String::new(),
        config: String::new(),
        emulated: false,
        schema: Schema::events(hadtu_sources(1, |_| true)).into(),
        ledger_entries: EntryNames::default(),
        locator: false,
        numbering: Numbering::Run,
        variant: 0,
        target: is_dealt.then(|| "node:1".to_owned()),
        part: is_dealt.then_some(part),
        stream: 0,
        epoch: 0,
        superseded: Vec::new(),
        base: None,
    }
}

fn key(is_dealt: bool) -> StreamKey {
    StreamKey { name: "run".to_owned(), run: [7; 16], stream: 0, variant: 0, is_dealt }
}

#[test]
fn files_of_a_part_are_cut_for_no_stream_with_all_frames_and_the_other_way_round() {
    for is_dealt in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let header = header(is_dealt);
        let path = folder.path().join("run-00000.catch");
        std::fs::write(&path, header.encode()).unwrap();
        let folders = [folder.path().to_owned()];
        let refused = stored::close_in(&folders, &key(!is_dealt), None).map(|one| one.sequence);
        assert!(matches!(refused, Err(NotOpened::Never(_))), "{refused:?}");
        assert_eq!(std::fs::read(&path).unwrap(), header.encode(), "it is as it was");
        let is_new = stored::close_in(&folders, &key(is_dealt), None).map(|one| one.is_new);
        assert!(matches!(is_new, Ok(false)), "{is_new:?}");
    }
}

#[test]
fn closing_the_files_of_a_stream_is_no_sign_of_life_of_its_sender() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run-00000.catch");
    std::fs::write(&path, header(false).encode()).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(1_000);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(old).unwrap();
    let question = Question { below: u64::MAX, numbers: None };
    // The second sender asks for what is closed.
    for _ in 0..2 {
        let folders = [folder.path().to_owned()];
        let stored = stored::close_in(&folders, &key(false), Some(&question));
        let age_ns = stored.map(|stored| stored.described.expect("it is described").age_ns);
        assert!(matches!(age_ns, Ok(1_000_000_000_000..)), "{age_ns:?}");
        assert!(FileReader::open(std::fs::read(&path).unwrap()).unwrap().closed());
    }
}

#[test]
fn a_file_that_was_never_begun_says_that_none_is_missing_until_what_is_behind_it_is_cut_off() {
    for is_there in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        let path = |index: u32| folder.path().join(format!("run-{index:05}.catch"));
        // The items before those of the last file are in none, as after a power cut.
        for (file_index, first_item) in [(0, 0), (2, 5)] {
            let part = header(true).part.map(|part| DealtPart { first_item, ..part });
            let file_id = u64::from(file_index);
            let header = FileHeader { file_index, file_id, part, ..header(true) };
            std::fs::write(path(file_index), header.encode()).unwrap();
        }
        if is_there {
            std::fs::write(path(1), vec![0; 8 << 10]).unwrap();
        }
        let before = std::fs::read(path(2)).unwrap();
        let key_of = stored::key_of(&folders, "run");
        let closed = stored::close_in(&folders, &key(true), None);
        let closed = closed.map(|one| (one.sequence, one.next_index));
        if is_there {
            assert_eq!((key_of.unwrap().as_ref(), closed.unwrap()), (Some(&key(true)), (0, 1)));
            assert!(!path(1).exists() && !path(2).exists());
            assert!(std::fs::read(path(2).with_extension("superseded")).unwrap() == before);
        } else {
            assert!(key_of.unwrap_err().starts_with("file 1 of the run is missing"));
            assert!(matches!(closed, Err(NotOpened::Later(_))), "{closed:?}");
            assert!(std::fs::read(path(2)).unwrap() == before);
        }
    }
}

#[test]
fn the_highest_generation_of_a_stream_is_found_in_any_of_its_folders() {
    let folder = tempfile::tempdir().unwrap();
    let folders = ["one", "two"].map(|name| folder.path().join(name));
    assert!(keep_generation(&folders, 1).is_err(), "there is no folder");
    std::fs::create_dir(&folders[1]).unwrap();
    keep_generation(&folders, 7).unwrap();
    std::fs::create_dir(&folders[0]).unwrap();
    assert_eq!(kept_generation(&folders), 7);
    keep_generation(&folders[..1], 8).unwrap();
    assert_eq!((kept_generation(&folders), kept_generation(&folders[1..])), (8, 7));
}

#[test]
fn what_is_cut_beside_a_part_in_a_folder_that_was_left_out_is_closed() {
    // After a fault of a disk, and after a panic.
    for has_panicked in [false, true] {
        cut_beside_a_part(has_panicked);
    }
}

fn cut_beside_a_part(has_panicked: bool) {
    let folder = tempfile::tempdir().unwrap();
    let folders = ["first", "second"].map(|name| folder.path().join(name)).to_vec();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name).join("run"));
    std::fs::create_dir_all(&second).unwrap();
    let path = second.join("run-00001.catch");
    let mut bytes = FileHeader { file_index: 1, ..header(false) }.encode();
    let durable_bytes = bytes.len() as u64;
    bytes.extend_from_slice(&[7; 100]);
    std::fs::write(&path, &bytes).unwrap();
    let state = Arc::new(NodeState::new(1 << 20, &folders));
    let config = StoreConfig {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        access: LinkAccess::default(),
        folders,
        memory_bytes: 1 << 20,
        file_bytes: 1 << 20,
        disk: DiskConfig::default(),
        sync_bytes: u64::MAX,
        close_after_ns: 0,
    };
    let mut manager = Manager::new(config, OnThread::new(Clock::start()).unwrap(), state);
    let (key, state) = (key(false), StreamState::new(key(false), 1));
    let left_out =
        FoldersLeftOut { folders: vec![first.clone()], next_index: 1, has_durable: true };
    manager.left_out.insert(key.name.clone(), left_out);
    let (cuts, reason) = (vec![(path.clone(), durable_bytes)], "it has failed".to_owned());
    let fault = Fault { reason, cuts, folder: (!has_panicked).then_some(second) };
    *state.fault.lock() = Some(fault.clone());
    let (folders, ledger) = (vec![first], Ledger::new(1));
    let before = Durable { folders, sequence: 1, next_index: 2, ledger };
    manager.cut_after(&key, &state, &fault, Some(&before)).unwrap();
    assert!(FileReader::open(std::fs::read(&path).unwrap()).unwrap().closed());
    let fault = state.fault.lock().clone().unwrap();
    assert!(fault.cuts.is_empty(), "it is not cut again");
    let stored = manager.stored_beside(&state, Some(&before), false);
    let stored = stored.map(|stored| stored.expect("it is known").sequence);
    assert!(matches!(stored, Ok(1)), "{stored:?}");
}
