//! Contradictory files in one folder, and files with wrong contents but right checksums: no reader
//! panics, and a repair comes to an end.

use catchment_fixtures::{Random, corpus};
use catchment_frame::Codec;
use catchment_storage::{Outcome, Run, audit, repair};

use crate::common;
use crate::folders::Folder;
use common::Recipe;

#[test]
fn the_fuzzers_folders_are_read_and_repaired() {
    for bytes in corpus("run_folder") {
        Folder::unpack(&bytes).examine();
    }
}

#[test]
fn a_packed_folder_is_unpacked_as_it_was() {
    let files = vec![vec![1; 5_000], Vec::new(), b"{}".to_vec()];
    let folder = Folder { is_sealed: true, files };
    let again = Folder::unpack(&folder.pack());
    assert!(again.is_sealed && again.files == folder.files);
    assert_eq!(Folder::unpack(&folder.pack()[..5_005]).files.len(), 3);
}

/// Killed runs, and others with other sources, all with the same identity.
fn made() -> Vec<Vec<Vec<u8>>> {
    let recipe = |sources, codec, unclosed| {
        let files = vec![vec![2, 1], vec![1, 2], vec![1]];
        Recipe { sources, codec, unclosed, files, ..Recipe::default() }
    };
    let recipes = [
        recipe(3, Codec::None, true),
        recipe(2, Codec::Lz4, false),
        Recipe { repeats: true, ..recipe(4, Codec::None, true) },
    ];
    let read = |recipe: &Recipe| {
        let made = recipe.make();
        let read = |path| std::fs::read(path).expect("reads");
        let mut files: Vec<_> = made.files.iter().map(read).collect();
        // Fewer zeros after the last frame serve the same purpose.
        files.iter_mut().for_each(|file| file.truncate(64 << 10));
        files
    };
    let left = corpus("run_folder").into_iter().map(|bytes| Folder::unpack(&bytes).files);
    recipes.iter().map(read).chain(left).collect()
}

/// Changes a file of the folder, or takes one from elsewhere.
fn change(files: &mut Vec<Vec<u8>>, others: &[Vec<Vec<u8>>], random: &mut Random) {
    let other = &others[random.index(others.len())];
    let other = &other[random.index(other.len())];
    let at = random.index(files.len());
    let length = files[at].len();
    let blocks = |bytes: &[u8]| (bytes.len() / 4_096).max(1);
    match random.index(9) {
        0 | 1 if length > 0 => {
            let bytes = random.index(length.min(20_000));
            files[at][bytes] ^= 1 << random.below(8);
        }
        2 if length > 0 => {
            // A number somewhere in a structure.
            let start = random.index(blocks(&files[at])) * 4_096 + 8 * random.index(32);
            let number = [0, 1, 255, u64::from(u32::MAX), u64::MAX][random.index(5)];
            if let Some(place) = files[at].get_mut(start..start + 8) {
                place.copy_from_slice(&number.to_le_bytes());
            }
        }
        3 => files[at].truncate(random.index(length + 1)),
        // Another file's header before these frames.
        4 => {
            let bytes = 12_288.min(length).min(other.len());
            files[at][..bytes].copy_from_slice(&other[..bytes]);
        }
        5 => {
            let (from, to) = (random.index(blocks(other)), random.index(blocks(&files[at])));
            let block = other.chunks(4_096).nth(from).unwrap_or_default().to_vec();
            if let Some(place) = files[at].get_mut(to * 4_096..to * 4_096 + block.len()) {
                place.copy_from_slice(&block);
            }
        }
        6 if files.len() > 1 => drop(files.remove(at)),
        7 if files.len() < 5 => files.push(other.clone()),
        _ => files[at].extend(std::iter::repeat_n(random.below(2) as u8, 4_096)),
    }
}

#[test]
fn files_that_disagree_with_right_checksums_are_read_and_repaired() {
    let made = made();
    for seed in 0..CASES {
        let mut random = Random::new(seed);
        let mut files = made[random.index(made.len())].clone();
        for _ in 0..1 + random.index(4) {
            change(&mut files, &made, &mut random);
        }
        let folder = Folder { is_sealed: random.chance(800), files };
        let done = std::panic::catch_unwind(|| folder.examine());
        assert!(done.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_lost_trailer_is_written_again_where_the_files_before_are_not_there() {
    for (sources, missing) in [(3, 0), (4, 1)] {
        let files = vec![vec![2], vec![3], vec![1]];
        let made = Recipe { sources, files, ..Recipe::default() }.make();
        std::fs::remove_file(&made.files[missing]).expect("deletes");
        for path in made.files.iter().skip(missing + 1) {
            let bytes = std::fs::read(path).expect("reads");
            std::fs::write(path, &bytes[..bytes.len() - 4_096]).expect("writes");
        }
        let report = repair(made.path()).expect("repairs");
        let is_closed = |file: &&catchment_storage::FileRepair| file.outcome == Outcome::Closed;
        assert_eq!(report.files.iter().filter(is_closed).count(), 2 - missing);
        let run = Run::open(made.path()).expect("opens");
        assert!(run.closed());
        audit(&run).expect("audits");
    }
}

/// Mutated folders in each test run.
const CASES: u64 = 400;
