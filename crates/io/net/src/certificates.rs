//! What TLS takes from files: a certificate and its key, or what is trusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

/// The protocol of links in ALPN.
pub const LINK_PROTOCOL: &[u8] = b"catchment/1";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read, or has other contents.
    #[error("{}: expected {expected} in PEM: {message}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The expected contents.
        expected: &'static str,
        /// The error.
        message: String,
    },
    /// Certificate and key cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Use(#[from] rustls::Error),
    /// A host that no certificate can name.
    #[error("expected a host's name or address, got {0:?}")]
    Host(String),
}

/// The certificate of those who are connected to.
#[derive(Clone)]
pub struct TlsServer(pub(crate) Arc<ServerConfig>);

impl TlsServer {
    /// Reads a certificate, with those that vouch for it behind it, and its key, for links: TLS 1.3
    /// alone, and no connection without [`LINK_PROTOCOL`].
    ///
    /// # Errors
    /// Files that are not that, or do not fit each other.
    pub fn for_links(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        Self::read(certificate, key, &[&TLS13], &[LINK_PROTOCOL])
    }

    /// The same for other protocols, from TLS 1.2 on. `protocols` are those of ALPN.
    ///
    /// # Errors
    /// As [`TlsServer::for_links`].
    pub fn for_pages(
        certificate: &Path,
        key: &Path,
        protocols: &[&[u8]],
    ) -> Result<Self, TlsError> {
        Self::read(certificate, key, rustls::DEFAULT_VERSIONS, protocols)
    }

    fn read(
        certificate: &Path,
        key: &Path,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(pem(key, "a private key"))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Self(Arc::new(config)))
    }

    /// What rustls calls it.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

/// What those who connect to links trust.
#[derive(Clone)]
pub struct TlsClient(pub(crate) Arc<ClientConfig>);

impl TlsClient {
    /// Trusts the certificates of a file, which are authorities' or a server's own.
    ///
    /// # Errors
    /// A file without certificates.
    pub fn trusting(certificate: &Path) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for one in certificates(certificate)? {
            roots.add(one)?;
        }
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![LINK_PROTOCOL.to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

impl std::fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsServer")
    }
}

impl std::fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsClient")
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain: Vec<_> = read.map_err(pem(path, "certificates"))?;
    if chain.is_empty() {
        return Err(pem(path, "certificates")(pem::Error::NoItemsFound));
    }
    Ok(chain)
}

fn pem(path: &Path, expected: &'static str) -> impl FnOnce(pem::Error) -> TlsError {
    let path = path.to_owned();
    move |error| TlsError::Pem { path, expected, message: error.to_string() }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
