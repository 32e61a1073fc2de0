//! What the plots are made of.

mod support;

use serde_json::Value;
use support::{Fixed, Test, settings, start};

const PATH: &str = "/api/v1/history?seconds=600&points=600";

/// The sum of a rate over all seconds of which it is known.
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
    let events = client.get("/api/v1/runs/1").json()["events"].as_f64().unwrap();
    drop(test.node.take());

    let again = start(settings(), Fixed::new(test.folder.path())).unwrap();
    test.node = Some(again);
    let client = test.client();
    let history = client.until_of(PATH, |history| known(history, "events_per_second") > 0.0);
    // All but what came in the second in which the program began.
    let sum = known(&history, "events_per_second");
    assert!(sum <= events + 0.5, "{sum} of {events}");
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
    // As the next one that opens the catalogue finds it when a program was killed.
    let path = test.folder.path().join(".catchment/catalog.sqlite");
    let catalog = rusqlite::Connection::open(path).unwrap();
    assert_eq!(catalog.execute("UPDATE runs SET state = 'interrupted'", []).unwrap(), 1);
    drop(catalog);

    test.node = Some(start(settings(), Fixed::new(test.folder.path())).unwrap());
    let client = test.client();
    let told = |list: &Value| {
        let alarms = list["alarms"].as_array().unwrap();
        let found = alarms.iter().find(|alarm| alarm["name"] == "run_interrupted");
        found.is_some_and(|alarm| alarm["text"].as_str().unwrap().contains("Run 1 was interrupted"))
    };
    client.until_of("/api/v1/alarms", told);
    let lines = client.get("/api/v1/logs?search=interrupted").json();
    assert_eq!(lines["lines"][0]["fields"]["run"], "1", "{lines}");
}
