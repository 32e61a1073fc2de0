//! What is reported of a run that was interrupted.

mod support;

use serde_json::Value;
use support::{Fixed, Test, settings, start};

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
