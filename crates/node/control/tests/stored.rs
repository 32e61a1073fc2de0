//! The files that a node serves: those of a storage node, and by the same code those of a recorder.

use catchment_control::{Role, TokenFile, own_folder};
use serde_json::{Value, json};

use crate::stores::{at, config, feed, put, start};
use crate::support::{Client, Test};

/// The only run that a node has, and its first file.
fn first_file(client: &Client) -> (String, String) {
    let list = client.get("/api/v1/stored").json();
    assert_eq!(list["total"], 1, "{list}");
    let run = list["runs"][0]["name"].as_str().unwrap().to_owned();
    let files = client.get(&format!("/api/v1/stored/{run}")).json();
    let file = &files["files"][0];
    assert_eq!((&file["folder"], &file["being_written"]), (&0.into(), &false.into()), "{files}");
    assert_eq!(list["runs"][0]["files"], files["files"].as_array().unwrap().len());
    (run, file["name"].as_str().unwrap().to_owned())
}

#[test]
fn a_storage_node_serves_its_files_their_frames_and_columns_to_who_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let stored = config.folders[0].clone();
    let tokens = TokenFile::in_folder(&own_folder(&stored));
    let [viewer, recorder] = [("reader", Role::Viewer), ("recorder", Role::Node)]
        .map(|(name, role)| tokens.add(name, role).unwrap());
    let (node, anybody) = start(config);
    let client = anybody.token(&viewer);
    let empty = client.get("/api/v1/stored").json();
    assert_eq!((&empty["total"], &empty["runs"]), (&0.into(), &Value::Array(Vec::new())));
    let mut feed = feed(at(node.store_address().unwrap()));
    for _ in 0..5 {
        put(&mut feed);
    }
    let name = feed.name().to_owned();
    feed.finish().unwrap();
    client.until(|state| state["store"]["streams"][0]["state"] == "ended");
    client.until_of(&format!("/api/v1/stored/{name}"), |files| {
        files["files"][0]["being_written"] == false
    });
    let (run, file) = first_file(&client);
    assert_eq!(run, name);
    let path = format!("/api/v1/stored/{run}/{file}");
    let on_disk = std::fs::read(stored.join(&run).join(&file)).unwrap();

    // The file, whole and a range.
    let (status, headers, bytes) = client.bytes(&path);
    assert_eq!((status, &headers["accept-ranges"]), (200, &"bytes".parse().unwrap()));
    assert!(bytes == on_disk);
    let compressed = client.with("Accept-Encoding", "gzip, br").bytes(&path);
    assert!(compressed.2 == on_disk && !compressed.1.contains_key("content-encoding"));
    let (status, headers, bytes) = client.with("Range", "bytes=4096-9999").bytes(&path);
    assert_eq!((status, &*bytes), (206, &on_disk[4096..10_000]));
    let said = format!("bytes 4096-9999/{}", on_disk.len());
    assert_eq!(headers["content-range"], &*said);
    let beyond = format!("bytes={}-", on_disk.len());
    assert_eq!(client.with("Range", &beyond).get(&path).status, 416);

    // Its frames, a page of them, and the columns of one.
    let frames = client.get(&format!("{path}/frames")).json();
    assert_eq!((&frames["total"], &frames["closed"]), (&5.into(), &true.into()), "{frames}");
    let page = client.get(&format!("{path}/frames?first=3&limit=1")).json();
    assert_eq!(page["frames"].as_array().unwrap()[..], frames["frames"].as_array().unwrap()[3..4]);
    let frame = client.get(&format!("{path}/frames/2")).json();
    assert_eq!((&frame["frame"], &frame["frame"]["sequence"]), (&frames["frames"][2], &2.into()));
    let columns = frame["columns"].as_array().unwrap();
    let payload = columns.iter().find(|column| column["kind"] == "fragment_payload").unwrap();
    let (status, _, bytes) = client.bytes(&format!("{path}/frames/2/columns/{}", payload["id"]));
    assert_eq!((status, payload["raw_bytes"].as_u64()), (200, Some(bytes.len() as u64)));
    assert!(bytes.len() >= 100_000 && bytes.iter().filter(|byte| **byte == 7).count() >= 100_000);
    let at = payload["offset"].as_u64().unwrap() as usize;
    let whole = &on_disk[at..at + payload["stored_bytes"].as_u64().unwrap() as usize];
    assert_eq!(payload["crc32c"].as_u64(), Some(u64::from(catchment_frame::crc32c(whole))));

    // A damaged column is not sent.
    let mut damaged = on_disk.clone();
    damaged[at + 10] ^= 1;
    std::fs::write(stored.join(&run).join(&file), &damaged).unwrap();
    let refused = client.get(&format!("{path}/frames/2/columns/{}", payload["id"]));
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("checksum"), "{}", refused.text);

    check_what_is_not_there(&client, &run, &file);

    // Who may not read.
    for path in ["/api/v1/stored", &path] {
        assert_eq!(anybody.get(path).status, 401);
        assert_eq!(anybody.token(&recorder).get(path).status, 401, "it sends, and no more");
    }
    drop(client);
    node.shutdown();
    assert!(node.wait().failed.is_none());
}

/// Checks that what is not there, or is not a run's, is not found.
fn check_what_is_not_there(client: &Client, run: &str, file: &str) {
    let path = format!("/api/v1/stored/{run}/{file}");
    for none in [
        "/api/v1/stored/none",
        "/api/v1/stored/.catchment",
        "/api/v1/stored/.catchment/tokens.json",
        "/api/v1/stored/..%2Fstored",
        "/api/v1/stored/%2e%2e/first",
        &format!("/api/v1/stored/{run}/files.jsonl"),
        &format!("/api/v1/stored/{run}/..%2F{run}%2F{file}"),
        &format!("{path}?folder=1"),
        &format!("{path}/frames/5"),
        &format!("{path}/frames/0/columns/999"),
    ] {
        assert_eq!(client.get(none).status, 404, "{none}");
    }
}

#[test]
fn the_newest_runs_stand_first_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let stored = config.folders[0].clone();
    // Their names are in another order than they were begun.
    let hour = std::time::Duration::from_secs(3_600);
    for (age, run) in [(3, "run-2"), (2, "run-9"), (1, "run-1")] {
        let (path, begun) = (stored.join(run), std::time::SystemTime::now() - age * hour);
        std::fs::create_dir_all(&path).unwrap();
        for file in ["-00000", "-s4-00000", "-s4-00001"] {
            std::fs::write(path.join(format!("{run}{file}.catch")), [0; 100]).unwrap();
        }
        std::fs::File::open(&path).unwrap().set_modified(begun).unwrap();
    }
    let held = std::fs::File::open(stored.join("run-9/run-9-00000.catch")).unwrap();
    held.try_lock().unwrap();
    let (node, client) = start(config);
    let list = client.get("/api/v1/stored?newest=true&limit=2").json();
    let run = |name: &str, being_written: u64| {
        json!({
            "name": name, "files": 3, "bytes": 300, "streams": [0, 4],
            "being_written": being_written,
        })
    };
    assert_eq!(list, json!({ "runs": [run("run-1", 0), run("run-9", 1)], "total": 3 }));
    let by_name = client.get("/api/v1/stored?limit=1&after=run-1").json();
    assert_eq!((&by_name["runs"][0]["name"], &by_name["total"]), (&"run-2".into(), &3.into()));
    let files = client.get("/api/v1/stored/run-9").json();
    let of = |file: &Value| (file["stream"].as_u64(), file["being_written"].as_bool());
    let files: Vec<_> = files["files"].as_array().unwrap().iter().map(of).collect();
    let closed = (Some(4), Some(false));
    assert_eq!(files, [(Some(0), Some(true)), closed, closed]);
    assert_eq!(client.get("/api/v1/stored?newest=true&after=run-1").status, 422);
    drop(client);
    node.shutdown();
    assert!(node.wait().failed.is_none());
}

#[test]
fn a_recorder_serves_the_files_of_its_runs() {
    let test = Test::start();
    let client = test.client();
    client.command("1", "start");
    client.until(|state| state["run"]["frames"].as_u64() > Some(0));
    client.command("2", "stop");
    let (run, file) = first_file(&client);
    let path = format!("/api/v1/stored/{run}/{file}");
    let (status, _, bytes) = client.bytes(&path);
    assert_eq!(status, 200);
    assert!(bytes == std::fs::read(test.folder.path().join(&run).join(&file)).unwrap());
    let frames = client.get(&format!("{path}/frames")).json();
    assert_eq!(frames["frames"][0]["kind"], "events", "{frames}");
    assert!(frames["total"].as_u64() > Some(0));
}
