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
    let run = client.get("/api/v1/runs/1").json();
    let events = run["events"].as_f64().unwrap();
    // Of the second in which the next program begins, it recalls nothing: all may be in that one.
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
