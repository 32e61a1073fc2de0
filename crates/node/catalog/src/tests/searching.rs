use super::*;
use crate::{Quality, RunState, SEARCH_LIMIT_MAX, Search};

/// Runs 1 to 6 with comments, ten seconds long, twenty apart; 6 goes on.
fn made(folder: &Path) -> (Catalog, LiveRun) {
    let mut catalog = Catalog::open(folder).unwrap();
    let comments = ["Cosmics, HV on", "laser 50%", "laser 50_", "L'été", "pedestal", "beam"];
    let mut last = None;
    for (index, comment) in comments.into_iter().enumerate() {
        let who = if index % 2 == 0 { "anna" } else { "Björn" };
        let live = catalog.next_run_number(&NumberRequest { who, ..request(comment) }).unwrap();
        let name = format!("run-{index}");
        let id = RunId([index as u8; 16]);
        let start = 20 * index as u64;
        begin_run(&mut catalog, &live, id, &folder.join(name), second(start)).unwrap();
        if index < 5 {
            end_run(&mut catalog, &live, &ended(start + 10, 1));
        }
        last = Some(live);
    }
    (catalog, last.unwrap())
}

fn found(catalog: &Catalog, search: Search) -> Vec<u64> {
    catalog.search(&search).unwrap().iter().map(|run| run.number).collect()
}

#[test]
fn runs_are_found_by_their_words() {
    let folder = tempfile::tempdir().unwrap();
    let (mut catalog, _live) = made(folder.path());
    catalog.add_remark(4, &remark(9, "stop", "Strahl weg, GRÜSSE")).unwrap();
    let text = |text: &str| found(&catalog, Search { text: text.into(), ..Search::default() });
    assert_eq!(text(""), [6, 5, 4, 3, 2, 1]);
    assert_eq!(text("cosmics"), [1]);
    assert_eq!(text("LASER"), [3, 2]);
    assert_eq!(text("50%"), [2]);
    assert_eq!(text("50_"), [3]);
    assert_eq!(text("laser björn"), [2]);
    assert_eq!(text("L'ÉTÉ"), [4]);
    assert_eq!(text("run-4"), [5]);
    assert_eq!(text("strahl grüsse"), [4], "a remark");
    assert_eq!(text("strahl l'été"), [4], "each word somewhere");
    assert_eq!(text("0404"), [5], "its identity");
    assert_eq!(text("6"), [6], "its number");
    assert_eq!(text("' OR 1 --"), [0_u64; 0]);
    let long = Search { text: "x".repeat(2_000), ..Search::default() };
    assert!(catalog.search(&long).is_err());
}

#[test]
fn runs_are_found_by_time_quality_state_and_person() {
    let folder = tempfile::tempdir().unwrap();
    let (mut catalog, live) = made(folder.path());
    catalog.set_quality(3, Quality::Good).unwrap();
    let all = Search::default;
    let during = |since, until| Search {
        since: Some(second(since)),
        until: Some(second(until)),
        ..Search::default()
    };
    assert_eq!(found(&catalog, during(15, 41)), [3, 2]);
    assert_eq!(found(&catalog, during(50, 51)), [3], "it had not ended before");
    assert_eq!(found(&catalog, during(1_000, 2_000)), [6], "it goes on");
    assert_eq!(found(&catalog, Search { quality: Some(Quality::Good), ..all() }), [3]);
    assert_eq!(found(&catalog, Search { who: Some("Björn".into()), ..all() }), [6, 4, 2]);
    let in_state = |state| Search { state: Some(state), ..all() };
    assert_eq!(found(&catalog, in_state(RunState::Recording)), [6]);
    drop(live);
    assert_eq!(found(&catalog, in_state(RunState::Interrupted)), [6]);
    assert_eq!(found(&catalog, Search { from: Some(5), ..all() }), [6, 5]);
}

#[test]
fn pages_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (catalog, _live) = made(folder.path());
    let mut search = Search { limit: Some(4), ..Search::default() };
    let (rows, next) = catalog.page(&search).unwrap();
    assert_eq!((rows.len(), next), (4, Some(3)));
    search.before = next;
    let (rows, next) = catalog.page(&search).unwrap();
    assert_eq!((rows.len(), rows[0].number, next), (2, 2, None));
    search.limit = Some(usize::MAX);
    assert!(catalog.page(&search).unwrap().0.len() < SEARCH_LIMIT_MAX);
}
