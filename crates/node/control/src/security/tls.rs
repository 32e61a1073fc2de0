//! TLS: configured certificates, or a self-made one.

use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use catchment_telemetry::utc_now;

use catchment_net::TlsServer;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};

use crate::machine;
use crate::settings::Tls;

/// The age at which a self-made certificate is replaced.
const OWN_AGE_MAX: Duration = Duration::from_secs(365 * 86_400);

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// Certificate and key cannot be used.
    #[error(transparent)]
    Use(#[from] catchment_net::TlsError),
}

/// The acceptor of connections; none without TLS.
///
/// # Errors
/// [`TlsError`]
pub(crate) fn acceptor(
    tls: &Tls,
    folder: &Path,
    names: &[String],
    listen: IpAddr,
) -> Result<Option<tokio_rustls::TlsAcceptor>, TlsError> {
    match tls {
        Tls::Off => Ok(None),
        tls => {
            let (certificate, key) = files(tls, folder, names, &[listen])?;
            let server = TlsServer::for_pages(&certificate, &key, &[b"http/1.1"])?;
            Ok(Some(server.config().into()))
        }
    }
}

/// The certificate for senders, who connect at these: that of the page, or the node's own.
///
/// # Errors
/// [`TlsError`]
pub(crate) fn for_senders(
    tls: &Tls,
    folder: &Path,
    names: &[String],
    listen: &[IpAddr],
) -> Result<TlsServer, TlsError> {
    let (certificate, key) = files(tls, folder, names, listen)?;
    Ok(TlsServer::for_links(&certificate, &key)?)
}

/// Checks that configured files are a certificate and its key.
///
/// # Errors
/// [`TlsError`]
pub(crate) fn check(tls: &Tls) -> Result<(), TlsError> {
    let Tls::Files { certificate, key } = tls else { return Ok(()) };
    TlsServer::for_links(certificate, key)?;
    Ok(())
}

/// A certificate and its key.
fn files(
    tls: &Tls,
    folder: &Path,
    names: &[String],
    listen: &[IpAddr],
) -> Result<(PathBuf, PathBuf), TlsError> {
    match tls {
        Tls::Files { certificate, key } => Ok((certificate.clone(), key.clone())),
        Tls::Off | Tls::SelfMade => own(&folder.join("tls"), &wanted(names, listen)),
    }
}

/// The names that clients may use for the node, for which our own certificate must be valid.
fn wanted(names: &[String], listen: &[IpAddr]) -> Vec<String> {
    let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    all.extend(names.iter().cloned());
    all.extend(machine::host_name());
    for &listen in listen {
        match listen.is_unspecified() {
            true => all.extend(machine::addresses(listen).iter().map(ToString::to_string)),
            false => all.push(listen.to_string()),
        }
    }
    // A name that no certificate can contain is one that no client can request.
    all.retain(|name| ServerName::try_from(name.as_str()).is_ok());
    all.sort();
    all.dedup();
    all
}

/// The names that a certificate is not valid for.
fn lacking(certificate: &Path, names: &[String]) -> Vec<String> {
    let Ok(certificate) = CertificateDer::from_pem_file(certificate) else { return names.into() };
    let Ok(parsed) = rustls::server::ParsedCertificate::try_from(&certificate) else {
        return names.into();
    };
    let valid = |name: &&String| {
        ServerName::try_from(name.as_str())
            .is_ok_and(|name| rustls::client::verify_server_name(&parsed, &name).is_ok())
    };
    names.iter().filter(|name| !valid(name)).cloned().collect()
}

/// The node's own certificate, made if there is none that is young enough and valid for all names.
/// One that is valid for more stays, and for other names the key stays: clients that trust a
/// certificate with that key need no change.
fn own(folder: &Path, names: &[String]) -> Result<(PathBuf, PathBuf), TlsError> {
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let mut kept = None;
    if young(&certificate) && young(&key) {
        let lacking = lacking(&certificate, names);
        if lacking.is_empty() {
            return Ok((certificate, key));
        }
        let names = lacking.join(", ");
        tracing::warn!(names, "the certificate is made anew: it is not valid for these names");
        let pem = std::fs::read_to_string(&key).ok();
        kept = pem.and_then(|pem| rcgen::KeyPair::from_pem(&pem).ok());
    }
    let pair = match kept {
        Some(pair) => pair,
        None => {
            let pair = rcgen::KeyPair::generate()?;
            write(&key, pair.serialize_pem().as_bytes(), 0o600)?;
            pair
        }
    };
    let mut params = rcgen::CertificateParams::new(names)?;
    params.distinguished_name.push(rcgen::DnType::CommonName, "catchment");
    let year: i32 = utc_now().to_string()[..4].parse().unwrap_or(2026);
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + 2, 12, 31);
    let made = params.self_signed(&pair)?;
    write(&certificate, made.pem().as_bytes(), 0o644)?;
    let names = names.join(", ");
    tracing::info!(certificate = %certificate.display(), names, "made a certificate");
    Ok((certificate, key))
}

fn young(path: &Path) -> bool {
    let made = std::fs::metadata(path).and_then(|data| data.modified()).ok();
    let age = made.and_then(|made| SystemTime::now().duration_since(made).ok());
    age.is_some_and(|age| age < OWN_AGE_MAX)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), TlsError> {
    let write = || {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        // A new file, so that its mode is right from the beginning.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(mode).open(path)?.write_all(bytes)
    };
    write().map_err(|source| TlsError::File { path: path.to_owned(), source })
}
