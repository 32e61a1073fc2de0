use catchment_frame::{Position, close_behind};

use super::*;
use crate::config::SourceConfig;

fn config(targets: Vec<TargetConfig>) -> RecorderConfig {
    let source = SourceConfig::over_session("camera", "127.0.0.1:7300".parse().unwrap());
    let run_id = Some(RunId([7; 16]));
    RecorderConfig { targets, run_id, ..RecorderConfig::new("".into(), vec![source]) }
}

fn node() -> TargetConfig {
    let place = Place::Node(NodeConfig::at("127.0.0.1:7100"));
    TargetConfig { place, ..TargetConfig::folder("node", "".into()) }
}

fn asked(config: &RecorderConfig) -> Result<Vec<(usize, String)>, String> {
    let targets = config.targets();
    let all =
        AskedNode::all_of(config, &targets, "run-1", None).map_err(|error| error.to_string())?;
    Ok(all.into_iter().map(|one| (one.target, one.name)).collect())
}

#[test]
fn each_required_node_that_has_all_frames_is_asked() {
    let folder = || TargetConfig::folder("here", "runs".into());
    let unneeded = || TargetConfig { required: false, ..node() };
    let name = || "run-1".to_owned();
    let several = ["a:1", "b:1"].map(str::to_owned).to_vec();
    let several = Place::Node(NodeConfig { addresses: several, ..NodeConfig::at("") });
    for (targets, expected) in [
        (vec![node()], vec![(0, name())]),
        (vec![folder()], vec![]),
        (vec![folder(), node()], vec![(1, name())]),
        (vec![unneeded(), folder()], vec![]),
        (vec![node(), node()], vec![(0, name()), (1, name())]),
        (vec![node(), folder(), node()], vec![(0, name()), (2, name())]),
        (vec![TargetConfig { place: several, ..node() }, folder()], vec![(0, name())]),
    ] {
        assert_eq!(asked(&config(targets)), Ok(expected));
    }
    let spilled = tempfile::tempdir().unwrap();
    let spill = Some(SpillConfig { folder: spilled.path().to_owned(), bytes_max: 1 << 30 });
    let spilling = || TargetConfig { spill: spill.clone(), ..node() };
    assert_eq!(asked(&config(vec![spilling()])), Ok(vec![(0, name())]));
    std::fs::create_dir(spilled.path().join("run-1")).unwrap();
    for targets in [vec![spilling()], vec![node(), spilling()]] {
        let refused = asked(&config(targets)).expect_err("a part of it is elsewhere");
        let why = "is in the spill";
        assert!(refused.starts_with("cannot continue run-1: ") && refused.contains(why));
    }
    let unknown = RecorderConfig { run_id: None, ..config(vec![node()]) };
    assert!(asked(&unknown).is_err_and(|why| why.contains("identity")));
}

/// What a node says of a run with one source and frames below number 12, in epoch 4.
fn said() -> LeftOfStream {
    let config = config(vec![node()]);
    let schema = crate::schema::schema(&config).unwrap().into();
    let header = OfRun::of(&config).header(RunId([7; 16]), &schema, 0);
    let header = FileHeader { epoch: 4, locator: false, ..header };
    let mut ledger = Ledger::new(1);
    ledger.sources[0][Entry::FragmentsReceived] = 30;
    ledger.sources[0][Entry::FragmentsRecorded] = 30;
    let mut positions = Positions::default();
    let what = Position::LINK;
    positions.add(&[Position { source: 0, what, session: 5, position: 30 }]);
    let mut file = header.encode();
    let reader = FileReader::open(&file).unwrap();
    let closing = close_behind(&reader, 0, (&ledger, &ledger), &positions).unwrap();
    drop(reader);
    file.resize(closing.offset as usize, 0);
    file.extend_from_slice(&closing.bytes);
    let (has_ended, age_ns) = (false, 1);
    LeftOfStream { file, has_ended, age_ns, frames: 11, events: 9, file_bytes: 4_096 }
}

#[test]
fn the_run_goes_on_where_the_node_says_above_its_epoch_and_generation() {
    for (generation, epoch) in [(2, 5), (9, 9)] {
        let here = TargetConfig::folder("here", "runs".into());
        let here = TargetConfig { required: false, ..here };
        let config = config(vec![node(), here]);
        let targets = config.targets();
        let [asked] = &AskedNode::all_of(&config, &targets, "run-1", None).unwrap()[..] else {
            panic!("one node")
        };
        let left = NodeLeft::read(said(), 12, generation).unwrap();
        let elsewhere = asked.elsewhere(&left);
        assert_eq!((elsewhere.end, elsewhere.header.epoch), (12, epoch - 1));
        let from = asked.resumable(left, &targets);
        assert_eq!((from.run, from.sequence, from.epoch), (RunId([7; 16]), 12, epoch));
        assert_eq!(from.superseded, [Superseded { stream: 0, epoch, sequence: 12 }]);
        assert_eq!(from.positions.of(0, Position::LINK, 5), Some(30));
        let [place, other] = &from.places[..] else { panic!("two places") };
        assert!(other.left_out.is_some() && place.left_out.is_none());
        assert_eq!((place.end, place.frames, place.events), (12, 11, 9));
        let counts = &place.ledger.sources[0];
        assert_eq!(counts[Entry::FragmentsRecorded], 30);
        assert_eq!(counts[Entry::FragmentsDurable], 30);
    }
}

#[test]
fn a_run_at_two_nodes_goes_on_above_the_epochs_of_both() {
    let config = config(vec![node(), TargetConfig { name: "other".into(), ..node() }]);
    let targets = config.targets();
    let [one, other] = &AskedNode::all_of(&config, &targets, "run-1", None).unwrap()[..] else {
        panic!("two nodes")
    };
    for generations in [[2, 9], [9, 2]] {
        let [of_one, of_other] =
            generations.map(|generation| NodeLeft::read(said(), 12, generation).unwrap());
        let mut from = one.resumable(of_one, &targets);
        other.join(&mut from, of_other);
        assert_eq!((from.sequence, from.epoch), (12, 9));
        assert_eq!(from.superseded, [Superseded { stream: 0, epoch: 9, sequence: 12 }]);
        assert_eq!(from.positions.of(0, Position::LINK, 5), Some(30));
        let has_all = |place: &ResumedPlace| place.left_out.is_none() && place.frames == 11;
        assert!(from.places.len() == 2 && from.places.iter().all(has_all));
    }
}

#[test]
fn whatever_a_node_says_is_a_description_or_refused() {
    let why = |left: LeftOfStream| NodeLeft::read(left, 12, 1).map(drop).unwrap_err();
    assert!(why(LeftOfStream::default()).contains("frames below 12"));
    let nothing = NodeLeft::read(LeftOfStream::default(), 0, 3).unwrap();
    assert_eq!((nothing.header.is_none(), nothing.epoch()), (true, 3));
    let ended = LeftOfStream { has_ended: true, ..said() };
    assert_eq!(why(ended), "the run has ended there");
    let file = said().file;
    // Without its table nothing is known of what was counted.
    for bytes in 0..file.len() {
        let cut = LeftOfStream { file: file[..bytes].to_vec(), ..said() };
        assert!(NodeLeft::read(cut, 12, 1).is_err(), "{bytes} bytes");
    }
    let mut random = catchment_fixtures::Random::new(1);
    for _ in 0..2_000 {
        let mut file = file.clone();
        let at = random.index(file.len());
        file[at] ^= 1 << random.index(8);
        // It may be in bytes that say nothing.
        let _left = NodeLeft::read(LeftOfStream { file, ..said() }, 12, 1);
    }
}
