//! Both sides of a connection, over loopback.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use catchment_net::{LINK_PROTOCOL, Stream, TlsClient, TlsServer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A certificate for these names and its key, in files.
fn certificate(folder: &Path, names: &[&str]) -> (PathBuf, PathBuf) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// The two sides of a new connection, the first of which was connected to.
fn pair(server: &TlsServer, client: &TlsClient, host: &str) -> (Stream, io::Result<Stream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let connected = scope.spawn(move || {
            let socket = TcpStream::connect(address)?;
            socket.set_read_timeout(Some(Duration::from_secs(60)))?;
            Stream::connected(socket, client, host)
        });
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut accepted = Stream::accepted(socket, server).unwrap();
        // The handshake goes on as it is read.
        while !connected.is_finished() {
            match accepted.read(&mut [0; 1]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
                Ok(bytes) => assert_eq!(bytes, 0, "nobody has sent anything"),
            }
        }
        (accepted, connected.join().unwrap())
    })
}

/// Sends all of `bytes` in pieces, and returns what arrives, read in pieces.
fn pass(
    from: &mut Stream,
    to: &mut Stream,
    bytes: &[u8],
    (piece, room): (usize, usize),
) -> Vec<u8> {
    let (mut sent, mut arrived, mut buffer) = (0, Vec::new(), vec![0; room]);
    while arrived.len() < bytes.len() {
        if sent < bytes.len() {
            let end = bytes.len().min(sent + piece);
            let (first, second) = bytes[sent..end].split_at((end - sent) / 2);
            match from.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
                Ok(count) => sent += count,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        } else {
            from.flush().unwrap();
        }
        match to.read(&mut buffer) {
            Ok(count) => arrived.extend_from_slice(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    arrived
}

#[test]
fn bytes_pass_both_ways_however_they_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path(), &["localhost", "127.0.0.1"]);
    let server = TlsServer::for_links(&certificate, &key).unwrap();
    let client = TlsClient::trusting(&certificate).unwrap();
    for host in ["localhost", "127.0.0.1"] {
        let (mut accepted, connected) = pair(&server, &client, host);
        let mut connected = connected.unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
        for cut in [(1 << 20, 1 << 20), (70_000, 100), (100, 70_000), (3, 5)] {
            let bytes = if cut.0 < 10 { &bytes[..10_000] } else { &bytes };
            assert!(pass(&mut connected, &mut accepted, bytes, cut) == bytes, "{cut:?}");
            assert!(pass(&mut accepted, &mut connected, bytes, cut) == bytes, "{cut:?}");
        }
        assert!(!accepted.has_more());
        let _left = connected.into_closing().unwrap();
        let end = loop {
            match accepted.read(&mut [0; 10]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => break other.unwrap(),
            }
        };
        assert_eq!(end, 0);
    }
}

#[test]
fn what_was_read_ahead_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path(), &["localhost"]);
    let server = TlsServer::for_links(&certificate, &key).unwrap();
    let client = TlsClient::trusting(&certificate).unwrap();
    let (mut accepted, connected) = pair(&server, &client, "localhost");
    let mut connected = connected.unwrap();
    assert_eq!(connected.write_vectored(&[IoSlice::new(&[7; 100])]).unwrap(), 100);
    let mut room = [0; 40];
    loop {
        match accepted.read(&mut room) {
            Ok(bytes) => break assert_eq!(bytes, 40),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    // The socket has nothing more: only the stream knows of these.
    assert!(accepted.has_more());
    assert_eq!(accepted.read(&mut [0; 100]).unwrap(), 60);
    assert!(!accepted.has_more());
}

#[test]
fn a_certificate_that_is_not_trusted_or_not_of_that_host_ends_it() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (certificate_file, key) = certificate(folder.path(), &["localhost"]);
    let (other_certificate, _) = certificate(other.path(), &["localhost"]);
    let server = TlsServer::for_links(&certificate_file, &key).unwrap();
    let stranger = TlsClient::trusting(&other_certificate).unwrap();
    let (_, connected) = pair(&server, &stranger, "localhost");
    assert!(connected.unwrap_err().to_string().contains("certificate"));
    let client = TlsClient::trusting(&certificate_file).unwrap();
    let (_, connected) = pair(&server, &client, "127.0.0.1");
    assert!(connected.unwrap_err().to_string().contains("certificate"));
}

#[test]
fn files_that_are_no_certificate_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path(), &["localhost"]);
    let error = TlsServer::for_links(&key, &key).unwrap_err().to_string();
    assert!(error.contains("key.pem: expected certificates in PEM"), "{error}");
    let error = TlsServer::for_links(&certificate, &certificate).unwrap_err().to_string();
    assert!(error.contains("certificate.pem: expected a private key in PEM"), "{error}");
    let error = TlsClient::trusting(&folder.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("none: expected certificates in PEM"), "{error}");
}

#[test]
fn nothing_is_written_in_the_clear_before_the_first_byte_tells_what_a_connection_is() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path(), &["localhost"]);
    let server = TlsServer::for_links(&certificate, &key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut accepted = Stream::either(socket, &server);
    let mut write = |bytes: &[u8]| accepted.write_vectored(&[IoSlice::new(bytes)]);
    assert_eq!(write(b"early").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    client.write_all(b"x").unwrap();
    // The byte is on its way.
    let written = loop {
        match write(b"clear") {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => break other.unwrap(),
        }
    };
    assert_eq!(written, 5);
    let mut read = [0; 5];
    client.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"clear");
}

#[test]
fn a_link_takes_nothing_of_an_older_tls_or_without_its_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path(), &["localhost"]);
    let server = TlsServer::for_links(&certificate, &key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
    let cases: [(_, &[&[u8]], _); 4] = [
        (&TLS13, &[LINK_PROTOCOL], None),
        (&TLS12, &[LINK_PROTOCOL], Some("peer is incompatible")),
        (&TLS13, &[], Some("TLS without ALPN catchment/1")),
        (&TLS13, &[b"http/1.1"], Some("peer doesn't support any known protocol")),
    ];
    for (version, protocols, expected) in cases {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(config.into(), name).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let mut accepted = Stream::accepted(accepted, &server).unwrap();
        let read = std::thread::scope(|scope| {
            scope.spawn(move || {
                // How far it gets is the other side's to say.
                let _is_sent = client.writer().write_all(b"x").is_ok()
                    && client.complete_io(&mut socket).is_ok()
                    && client.complete_io(&mut socket).is_ok();
            });
            let read = loop {
                match accepted.read(&mut [0; 1]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => break other,
                }
            };
            drop(accepted);
            read
        });
        match (read, expected) {
            (Ok(1), None) => {}
            (Err(error), Some(text)) => assert!(error.to_string().contains(text), "{error}"),
            other => panic!("{protocols:?}: {other:?}"),
        }
    }
}
