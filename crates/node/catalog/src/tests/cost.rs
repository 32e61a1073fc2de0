//! What the catalogue costs, printed: `cargo test --release -p catchment-catalog -- --ignored
//! --nocapture cost`. Nothing is asserted.

use std::time::Instant;

use super::*;
use crate::{Search, rebuild};

fn time<T>(what: &str, count: u32, mut work: impl FnMut() -> T) -> T {
    let start = Instant::now();
    let mut last = work();
    for _ in 1..count {
        last = work();
    }
    println!("{what}: {:.2} ms", start.elapsed().as_secs_f64() * 1e3 / f64::from(count));
    last
}

#[test]
#[ignore = "it measures, and asserts nothing"]
fn cost() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for run in 0..200_u64 {
        let mut id = [1; 16];
        id[..8].copy_from_slice(&run.to_le_bytes());
        let files = Files { id: RunId(id), frames: 64, ..Files::of(&format!("run-{run}"), 0, run) };
        files.write(folder);
    }
    time("rebuild of 200 runs of 64 frames", 3, || rebuild(folder, |_, _| ()).unwrap());
    time("a number, opening included", 100, || {
        let mut catalog = Catalog::open(folder).unwrap();
        let live = take(&mut catalog, "measured");
        fail_run(&mut catalog, &live, "measured");
    });
    let mut catalog = Catalog::open(folder).unwrap();
    let mut request = request("one of many, with a comment that somebody wrote");
    request.configuration = "[run]\n";
    for _ in 0..2_000 {
        let live = catalog.next_run_number(&request).unwrap();
        fail_run(&mut catalog, &live, "measured");
    }
    drop(catalog);
    time("opening, 2,000 runs", 100, || Catalog::open(folder).unwrap());
    let catalog = Catalog::open_read_only(folder).unwrap();
    let search = |text: &str| Search { text: text.into(), limit: Some(50), ..Search::default() };
    time("the newest 50 of 2,000", 20, || catalog.page(&search("")).unwrap());
    time("a word that no run of 2,000 has", 20, || catalog.page(&search("nowhere")).unwrap());
    let bytes = crate::schema::Paths::new(folder).database().metadata().unwrap().len();
    println!("the database: {:.2} MB", bytes as f64 / 1e6);
}
