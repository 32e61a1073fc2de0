//! Front-ends and a recorder: what they send is in the run's files, once, whatever breaks.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use catchment_fixtures::{Random, wait_while};
use catchment_frontend::{Closed, Frontend, Release};
use catchment_model::{Entry, Ledger, SourceId};
use catchment_net::TlsServer;
use catchment_recorder::{
    LinkAccess, Recorder, RecorderConfig, SharedTokens, SourceConfig, TlsRule, Tokens,
};
use catchment_storage::{Run, Verdict, audit};

pub(crate) const LONG: Duration = Duration::from_secs(600);
pub(crate) const SOURCES: [&str; 3] = ["left", "middle", "right"];

fn config(folder: &Path) -> RecorderConfig {
    let source = |name: &&str| {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        SourceConfig::over_session(format!("detector/{name}"), address)
    };
    let mut config = RecorderConfig::new(folder.to_owned(), SOURCES.iter().map(source).collect());
    config.memory_bytes = 256 << 20;
    config.frame.time_ns = 50_000_000;
    config.write.sync_interval_ns = 20_000_000;
    // Nothing is given up while a busy machine looks elsewhere.
    config.build.timeout_ns = 3_600_000_000_000;
    config
}

/// The bytes of a fragment that a test can tell from all others.
pub(crate) fn content(source: usize, key: u64) -> Vec<u8> {
    let mut random = Random::new(key << 8 | source as u64);
    // Now and then one that comes in parts.
    let most = if key.is_multiple_of(500) { 400_000 } else { 3_000 };
    let bytes = random.index(most);
    random.bytes(bytes)
}

fn front_end(address: SocketAddr) -> Frontend {
    let builder = Frontend::builder(&format!("catchment+tcp://{address}"), "detector");
    let builder = SOURCES.iter().fold(builder.buffer(12 << 20), |it, name| it.source(name));
    builder.fragment_bytes_max(1 << 20).wait(LONG).connect().expect("the recorder is there")
}

/// Sends the fragments of these keys from a thread for each source.
fn send(front_end: &Frontend, keys: std::ops::Range<u64>) {
    std::thread::scope(|scope| {
        for (index, source) in front_end.sources().iter().enumerate() {
            let mut keys = keys.clone();
            scope.spawn(move || {
                keys.try_for_each(|key| source.send(key, &content(index, key))).unwrap();
            });
        }
    });
}

/// By key, the fragment of each source.
pub(crate) fn fragments(run: &Run) -> BTreeMap<u64, [Option<Vec<u8>>; 3]> {
    let mut events: BTreeMap<u64, [Option<Vec<u8>>; 3]> = BTreeMap::new();
    for frame in 0..run.frames().len() {
        for &key in run.events(frame).unwrap().keys() {
            assert!(events.insert(key, [None, None, None]).is_none(), "event {key} stands twice");
        }
        for source in 0..3 {
            let column = run.fragments(frame, SourceId(source)).unwrap();
            for (row, key) in column.events().keys().iter().enumerate() {
                let fragment = column.fragment(row).map(|bytes| bytes.to_vec());
                events.get_mut(key).unwrap()[source as usize] = fragment;
            }
        }
    }
    events
}

/// Ends the run: it has the fragments of these keys, and its books balance.
fn end(recorder: Recorder, keys: std::ops::Range<u64>) -> Ledger {
    let summary = recorder.stop().unwrap();
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let events = fragments(&run);
    assert!(events.keys().copied().eq(keys), "{} events", events.len());
    for (key, of_sources) in events {
        for (source, bytes) in of_sources.iter().enumerate() {
            assert!(bytes.as_ref() == Some(&content(source, key)), "event {key}, source {source}");
        }
    }
    summary.last.ledger
}

#[test]
fn fragments_of_three_sources_are_recorded_and_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let front_end = front_end(recorder.addresses()[0]);
    send(&front_end, 0..10_000);
    // Their memory is a third of what they sent: durable was told on the way.
    assert_eq!(front_end.close(LONG), Closed::default());
    let ledger = end(recorder, 0..10_000);
    assert_eq!(ledger.sources[0][Entry::FragmentsDurable], 10_000);
}

/// Passes bytes between a front-end and a recorder, and cuts what is connected when it is told to.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    cuts: Arc<AtomicU64>,
    is_dead: Arc<AtomicBool>,
}

impl Wire {
    pub(crate) fn to(recorder: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = Arc::new(AtomicU64::new(0));
        let all_cuts = Arc::clone(&cuts);
        let is_dead = Arc::new(AtomicBool::new(false));
        let refuses = Arc::clone(&is_dead);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if refuses.load(Ordering::Relaxed) {
                    continue;
                }
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(recorder)) else { return };
                for (mut from, mut to) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far.try_clone().unwrap(), near.try_clone().unwrap()),
                ] {
                    let cuts = Arc::clone(&all_cuts);
                    let before = cuts.load(Ordering::Relaxed);
                    std::thread::spawn(move || {
                        let mut bytes = vec![0; 1 << 14];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            // What is under way is lost, in the middle of a message.
                            let is_cut = cuts.load(Ordering::Relaxed) > before;
                            let end = if is_cut { count / 2 } else { count };
                            if to.write_all(&bytes[..end]).is_err() || end < count {
                                break;
                            }
                        }
                        let _closed = from.shutdown(std::net::Shutdown::Both);
                        let _closed = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        Self { address, cuts, is_dead }
    }

    /// Cuts what is connected, for good: to the recorder it is as if the front-end were killed.
    pub(crate) fn kill(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_there_twice_when_the_network_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let wire = Wire::to(recorder.addresses()[0]);
    let front_end = front_end(wire.address);
    for part in 0..5 {
        std::thread::scope(|scope| {
            scope.spawn(|| send(&front_end, part * 1_000..part * 1_000 + 1_000));
            let count = || recorder.snapshot().ledger.sources[0].clone();
            wait_while(|| count()[Entry::FragmentsReceived] < part * 1_000 + 200);
            let before = count()[Entry::LinkResumes];
            wire.cuts.fetch_add(1, Ordering::Relaxed);
            wait_while(|| count()[Entry::LinkResumes] == before);
        });
    }
    assert_eq!(front_end.close(LONG), Closed::default());
    let ledger = end(recorder, 0..5_000);
    assert!(ledger.sources[0][Entry::LinkResumes] >= 5);
}

#[test]
fn what_is_released_when_it_is_taken_is_recorded_too() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let address = recorder.addresses()[0];
    let builder = Frontend::builder(&format!("catchment+tcp://{address}"), "detector");
    let builder = SOURCES.iter().fold(builder.release(Release::Taken), |it, name| it.source(name));
    let front_end = builder.wait(LONG).connect().unwrap();
    send(&front_end, 1..400);
    assert_eq!(front_end.close(LONG), Closed::default());
    end(recorder, 1..400);
}

/// A token that admits one sender until it is revoked.
struct OneToken(AtomicBool);

impl Tokens for OneToken {
    fn admits(&self, token: &str, sender: &str) -> bool {
        token == "secret" && sender == "detector" && !self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn under_tls_a_front_end_shows_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("certificate"), folder.path().join("key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let token = Arc::new(OneToken(AtomicBool::new(false)));
    let mut config = config(folder.path());
    config.access = LinkAccess { tls: TlsRule::All, needs_token: true, ..LinkAccess::default() };
    // What the file asks for and the program has not got keeps it from recording in the open.
    assert!(Recorder::start(config.clone()).is_err());
    config.access.certificate = Some(TlsServer::for_links(&certificate, &key).unwrap());
    config.access.tokens = Some(SharedTokens(Arc::clone(&token) as Arc<dyn Tokens>));
    let recorder = Recorder::start(config).unwrap();
    let address = recorder.addresses()[0];
    let url = format!("catchment://{address}");
    let builder = |url: &str, token: &str| {
        let builder = Frontend::builder(url, "detector").token(token).certificate(&certificate);
        let builder = builder.buffer(12 << 20).wait(LONG);
        SOURCES.iter().fold(builder, |it, name| it.source(name)).fragment_bytes_max(1 << 20)
    };
    let refused = builder(&url, "another").connect().unwrap_err().to_string();
    assert!(refused.contains("no token of the role source"), "{refused}");
    let untrusted = Frontend::builder(&url, "detector").connect().unwrap_err().to_string();
    assert!(untrusted.contains("give the recorder's certificate"), "{untrusted}");
    let clear = builder(&format!("catchment+tcp://{address}"), "secret").connect();
    let refused = clear.unwrap_err().to_string();
    assert!(refused.contains("connect under TLS"), "{refused}");
    // A token and a connection in the clear: counted when they are answered, shown a cycle later.
    wait_while(|| recorder.snapshot().ledger.sources[0][Entry::PacketsRefused] != 2);

    let front_end = builder(&url, "secret").connect().unwrap();
    send(&front_end, 0..5_000);
    assert_eq!(front_end.close(LONG), Closed::default());
    let front_end = builder(&url, "secret").connect().unwrap();
    token.0.store(true, Ordering::Relaxed);
    wait_while(|| !front_end.status().contains("no token of the role source"));
    drop(front_end);
    end(recorder, 0..5_000);
}
