//! Twenty consecutive runs lose nothing and leave nothing behind. Alone in its process, since it
//! counts the process's threads and descriptors.

mod support;

use support::Test;

/// Threads and descriptors of this process.
fn count(what: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
}

/// Bytes of this process's memory that are in use.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

#[test]
fn twenty_runs_without_a_pause_lose_nothing_and_leak_nothing() {
    let test = Test::start();
    let client = test.client();
    let cycle = |number: u64| {
        let begun = client.command(&format!("start-{number}"), "start").json();
        assert_eq!(begun["run"], number, "{begun}");
        client.until(|state| state["run"]["events"].as_u64() > Some(0));
        let ended = client.command(&format!("stop-{number}"), "stop").json();
        assert_eq!(ended["status"], "done", "{ended}");
    };
    // The first ones fill pools and caches.
    (1..4).for_each(cycle);
    let before = (count("task"), count("fd"), resident_bytes());
    (4..21).for_each(cycle);
    let after = (count("task"), count("fd"), resident_bytes());
    // The server's threads for files and the client's connections come and go; 17 runs that each
    // left one behind would leave 17.
    assert!(after.0 < before.0 + 8 && after.1 < before.1 + 8, "{before:?} {after:?}");
    let grown = after.2.saturating_sub(before.2);
    assert!(grown < 64 << 20, "{grown} bytes more after 17 runs");
    let runs = client.get("/api/v1/runs?limit=100").json();
    let runs = runs["runs"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 20);
    for run in runs {
        assert_eq!((&run["state"], &run["loss_count"]), (&"complete".into(), &0.into()), "{run}");
        let path = format!("/api/v1/runs/{}/ledger", run["number"]);
        let ledger = client.get(&path).json();
        let ledger = &ledger["totals"];
        assert_eq!(ledger["fragments_received"], ledger["fragments_recorded"], "{ledger}");
        assert!(ledger.get("fragments_missing").is_none(), "{ledger}");
    }
}
