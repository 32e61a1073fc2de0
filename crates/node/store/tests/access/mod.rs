//! Who may be a recorder of a storage node: TLS and tokens, and what is said where they lack.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_net::{TlsServer, Tokens};
use catchment_recorder::SharedTokens;
use catchment_store::NodeSnapshot;

use super::*;

/// Admits `secret`, until it is revoked.
#[derive(Default)]
struct OneToken {
    is_revoked: AtomicBool,
}

impl Tokens for OneToken {
    fn admits(&self, token: &str, sender: &str) -> bool {
        token == "secret" && sender.starts_with("run-") && !self.is_revoked.load(Relaxed)
    }
}

/// Makes a certificate of this machine and its key, in files of that name.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let paths = ["pem", "key"].map(|kind| folder.join(name).with_extension(kind));
    std::fs::write(&paths[0], made.cert.pem()).unwrap();
    std::fs::write(&paths[1], made.signing_key.serialize_pem()).unwrap();
    paths.into()
}

/// A node that wants a token, and TLS if it is asked for.
fn guarded(folder: &Path, needs_tls: bool) -> (Node, Arc<OneToken>, PathBuf) {
    let (trusted, key) = certificate(folder, "node");
    let token = Arc::new(OneToken::default());
    let mut config = store_config(folder, any());
    config.access = LinkAccess {
        tls: if needs_tls { TlsRule::All } else { TlsRule::None },
        needs_token: true,
        certificate: Some(TlsServer::for_links(&trusted, &key).unwrap()),
        tokens: Some(SharedTokens(Arc::clone(&token) as Arc<dyn Tokens>)),
        ..LinkAccess::default()
    };
    (Node::start(config).unwrap(), token, trusted)
}

/// A target that shows that token, and trusts that certificate if there is one.
fn shows(folder: &Path, node: &Node, token: &str, trusted: Option<PathBuf>) -> TargetConfig {
    let token_file = folder.join("token");
    std::fs::write(&token_file, format!("{token}\n")).unwrap();
    let place = Place::Node(NodeConfig {
        certificate: trusted,
        token_file: Some(token_file),
        ..NodeConfig::at(node.address().to_string())
    });
    TargetConfig { place, ..node_target(node.address()) }
}

/// What a recorder says of a node at which it does not get in, while the folder beside it gets
/// everything.
fn said(
    folder: &Path,
    target: TargetConfig,
    until: impl Fn(&Recorder) -> Option<String>,
) -> String {
    let here = TargetConfig::folder("here", folder.join("runs"));
    let target = TargetConfig { required: false, ..target };
    let (recorder, front_end) = recorder(folder, vec![here, target]);
    send(&front_end, 500);
    let mut said = None;
    wait_while(|| {
        said = until(&recorder);
        said.is_none()
    });
    let summary = end(recorder, front_end, 500);
    check(&summary.folder, 500);
    let of_node = &summary.last.targets[1].ledger;
    assert_eq!(of_node.total()[Entry::FragmentsRecorded], 0);
    assert!(of_node.balance().holds());
    said.unwrap_or_default()
}

fn warning(recorder: &Recorder) -> Option<String> {
    let warnings = recorder.snapshot().warnings;
    warnings.into_iter().find(|text| text.contains("storage node "))
}

fn fault(recorder: &Recorder) -> Option<String> {
    match &recorder.snapshot().targets[1].state {
        State::Fault { reason } => Some(reason.clone()),
        _ => None,
    }
}

#[test]
fn a_run_goes_to_a_node_under_tls_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _, trusted) = guarded(folder.path(), true);
    let target = shows(folder.path(), &node, "secret", Some(trusted));
    let (recorder, front_end) = recorder(folder.path(), vec![target]);
    send(&front_end, 1_000);
    end(recorder, front_end, 1_000);
    check(&only(&folder.path().join("stored")), 1_000);
    let done = node.stop().unwrap();
    assert!(done.refusals.is_empty() && done.last_error.is_none(), "{done:?}");
    let stream = &done.streams[0];
    assert!(!stream.is_attached && !stream.is_broken_off(), "{stream:?}");
    assert!(stream.recorder.as_ref().unwrap().starts_with("catchment "), "{stream:?}");
    let written: u64 = done.folders.iter().map(|folder| folder.bytes).sum();
    assert_eq!((written, stream.taken), (stream.bytes, stream.durable));
}

#[test]
fn a_token_that_is_not_known_is_refused_and_named_at_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _, _) = guarded(folder.path(), false);
    let target = shows(folder.path(), &node, "another", None);
    let said = said(folder.path(), target, fault);
    assert!(said.ends_with("token: no token of the role node that admits this stream"), "{said}");
    let done = node.stop().unwrap();
    assert_eq!((done.refusals["token"], done.sessions_refused), (1, 1));
    assert_eq!((done.sessions_opened, done.streams.len()), (0, 0));
}

#[test]
fn a_session_whose_token_is_revoked_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (node, token, _) = guarded(folder.path(), false);
    let here = TargetConfig::folder("here", folder.path().join("runs"));
    let target = shows(folder.path(), &node, "secret", None);
    let targets = vec![here, TargetConfig { required: false, ..target }];
    let (recorder, front_end) = recorder(folder.path(), targets);
    send_to(&front_end, 1_000, |allowed| {
        allowed.store(500, Relaxed);
        wait_while(|| node.snapshot().frames_taken == 0);
        token.is_revoked.store(true, Relaxed);
        wait_while(|| fault(&recorder).is_none());
    });
    let summary = end(recorder, front_end, 1_000);
    check(&summary.folder, 1_000);
    let of_node = &summary.last.targets[1].ledger;
    assert!(of_node.balance().holds());
    let done = node.stop().unwrap();
    assert_eq!(done.refusals["token"], 1);
    assert!(done.streams[0].is_broken_off(), "{done:?}");
}

#[test]
fn a_recorder_without_tls_is_told_that_the_node_may_want_it() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _, _) = guarded(folder.path(), true);
    let target = shows(folder.path(), &node, "secret", None);
    let said = said(folder.path(), target, warning);
    assert!(said.contains(": is it under TLS?"), "{said}");
    let done = node.stop().unwrap();
    assert!(done.connections_unopened > 0 && done.sessions_opened == 0, "{done:?}");
    assert!(done.last_error.unwrap().starts_with("connection from 127.0.0.1: "));
}

#[test]
fn a_certificate_that_is_not_trusted_is_named_at_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _, _) = guarded(folder.path(), true);
    let (other, _) = certificate(folder.path(), "other");
    let target = shows(folder.path(), &node, "secret", Some(other));
    let said = said(folder.path(), target, warning);
    assert!(said.contains("TLS: invalid peer certificate"), "{said}");
    // The node hears of it from the recorder, which may have ended by then.
    let has_heard =
        |seen: &NodeSnapshot| seen.connections_unopened > 0 && seen.last_error.is_some();
    wait_while(|| !has_heard(&node.snapshot()));
    let done = node.stop().unwrap();
    assert!(done.connections_unopened > 0 && done.sessions_opened == 0, "{done:?}");
    assert!(done.last_error.unwrap().starts_with("connection from 127.0.0.1: "));
}

#[test]
fn a_recorder_that_wants_tls_is_told_that_the_node_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _, trusted) = guarded(folder.path(), false);
    let target = shows(folder.path(), &node, "secret", Some(trusted));
    let said = said(folder.path(), target, warning);
    assert!(said.contains("TLS: the peer has closed the connection: is it under TLS?"), "{said}");
    let done = node.stop().unwrap();
    assert!(done.faults > 0 && done.sessions_opened == 0, "{done:?}");
}

#[test]
fn a_token_file_that_cannot_be_used_keeps_the_run_from_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let token =
        || NodeConfig { token_file: Some(path.clone()), ..NodeConfig::at("node:1") }.token();
    let fault = || token().unwrap_err().to_string();
    assert!(fault().contains("token: No such file"), "{}", fault());
    std::fs::write(&path, " \n").unwrap();
    assert!(fault().ends_with("token: expected a token of 1 to 256 bytes"), "{}", fault());
    std::fs::write(&path, "t".repeat(257)).unwrap();
    assert!(fault().ends_with("token: expected a token of 1 to 256 bytes"), "{}", fault());
    std::fs::write(&path, "secret\n").unwrap();
    assert_eq!(token().unwrap(), "secret");
}
