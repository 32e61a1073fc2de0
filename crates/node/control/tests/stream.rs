//! The stream of updates, and the node's end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::support;
use crate::support::Test;

#[test]
fn a_stream_tells_of_the_state_the_sources_and_the_log() {
    let test = Test::start();
    let mut stream = TcpStream::connect(test.node().address().unwrap()).unwrap();
    stream.write_all(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("200"));
    let mut wanted = vec!["event: state", "event: sources", "event: alarm", "event: log"];
    test.client().command("1", "start");
    for line in lines.by_ref() {
        wanted.retain(|one| *one != line);
        if let Some(data) = line.strip_prefix("data: ") {
            serde_json::from_str::<serde_json::Value>(data).unwrap();
        }
        if wanted.is_empty() {
            break;
        }
    }
}

#[test]
fn a_text_that_counts_on_is_sent_as_it_does() {
    let test = Test::with(support::settings(), |fixed| fixed.kill = Some((1, 100)));
    let client = test.client();
    client.command("1", "start");
    let mut stream = TcpStream::connect(test.node().address().unwrap()).unwrap();
    stream.write_all(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut texts = std::collections::BTreeSet::new();
    for line in lines {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let seen: serde_json::Value = serde_json::from_str(data).unwrap();
        let alarms = seen["alarms"].as_array().into_iter().flatten();
        let silent = alarms.filter(|alarm| alarm["name"] == "source_silent");
        texts.extend(silent.map(|alarm| alarm["text"].to_string()));
        if texts.len() == 3 {
            break;
        }
    }
    assert!(texts.iter().all(|text| text.contains("s1 is silent: no packet for")), "{texts:?}");
}

#[test]
fn a_node_that_is_shut_down_ends_its_run_and_its_streams() {
    let mut test = Test::start();
    let client = test.client();
    let mut stream = TcpStream::connect(test.node().address().unwrap()).unwrap();
    stream.write_all(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    client.command("1", "start");
    client.until(|state| state["run"]["events"].as_u64() > Some(0));
    let node = test.node.take().unwrap();
    let ended = node.wait();
    assert_eq!((ended.imperfect, ended.failed, ended.catalog_trouble), (false, None, None));
    let (number, summary) = ended.last.unwrap();
    assert_eq!(number, 1);
    assert!(summary.last.ledger.balance().holds());
    // The stream has an end.
    assert!(BufReader::new(stream).lines().count() > 0);
}
