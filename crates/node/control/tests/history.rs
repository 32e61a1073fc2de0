//! A node's knowledge of runs before the program began: plots, and an interrupted run.

use crate::support::{Fixed, Test, settings, start};
use serde_json::Value;

const PATH: &str = "/api/v1/history?seconds=600&points=600";

/// The sum of a rate over all seconds for which it is known.
fn known(history: &Value, series: &str) -> f64 {
    history["series"][series].as_array().unwrap().iter().filter_map(Value::as_f64).sum()
}

#[test]
fn plots_know_of_runs_before_the_program_began() {
    let mut test = Test::with(settings(), |fixed| fixed.trends = true);
    let client = test.client();
    client.command("1", "start");
    let recorded = |state: &Value| state["run"]["events"].as_u64().unwrap_or(0);
    client.until(|state| recorded(state) > 400);
    assert_eq!(client.command("2", "stop").json()["status"], "done");
    let run = client.get("/api/v1/runs/1").json();
    let events = run["events"].as_f64().unwrap();
    // The next program recalls nothing of the second in which it begins: everything may be in that
    // one.
    let second = |time: &Value| time.as_str().unwrap()[..19].to_owned();
    client.until(|state| second(&state["time"]) > second(&run["ended"]));
    drop(test.node.take());

    let again = start(settings(), Fixed::new(test.folder.path())).unwrap();
    test.node = Some(again);
    let client = test.client();
    let history = client.until_of(PATH, |history| known(history, "events_per_second") > 0.0);
    // A rate is a mean over several seconds, and at most all of the run in one.
    let rates = history["series"]["events_per_second"].as_array().unwrap().iter();
    let highest = rates.filter_map(Value::as_f64).fold(0.0, f64::max);
    assert!(highest > 0.0 && highest <= events, "{highest} of {events}");
    assert!(known(&history, "bytes_per_second") > 0.0);
    assert_eq!(known(&history, "loss_per_second"), 0.0);
}

#[test]
fn a_run_that_was_interrupted_is_told_by_an_alarm_and_the_log_after_the_next_start() {
    let mut test = Test::start();
    let client = test.client();
    client.command("1", "start");
    client.until(|state| state["run"]["events"].as_u64() > Some(0));
    assert_eq!(client.command("2", "stop").json()["status"], "done");
    drop(test.node.take());
    // As found by the next program that opens the catalogue after a kill.
    let path = test.folder.path().join(".catchment/catalog.sqlite");
    let catalog = rusqlite::Connection::open(path).unwrap();
    assert_eq!(catalog.execute("UPDATE runs SET state = 'interrupted'", []).unwrap(), 1);
    drop(catalog);

    test.node = Some(start(settings(), Fixed::new(test.folder.path())).unwrap());
    let client = test.client();
    let is_reported = |list: &Value| {
        let alarms = list["alarms"].as_array().unwrap();
        let found = alarms.iter().find(|alarm| alarm["name"] == "run_interrupted");
        found.is_some_and(|alarm| alarm["text"].as_str().unwrap().contains("Run 1 was interrupted"))
    };
    client.until_of("/api/v1/alarms", is_reported);
    let lines = client.get("/api/v1/logs?search=interrupted").json();
    assert_eq!(lines["lines"][0]["fields"]["run"], "1", "{lines}");
}
