//! TLS settings: the one place that names the crypto provider, loads roots and
//! sets ALPN.
//!
//! *Invariant:* the provider is passed in explicitly and never installed for the
//! whole process, so that a library which brings another one cannot break us.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

const ALPN_H2: &[u8] = b"h2";
const ALPN_H1: &[u8] = b"http/1.1";

/// Which protocol a connection is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alpn {
    /// HTTP/2 is offered first and HTTP/1.1 after it: a peer that has only the
    /// second then says so, where a peer offered HTTP/2 alone would just hang up.
    Http2,
    /// HTTP/1.1 and nothing else.
    Http1,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read `{path}`: {reason}")]
    File { path: String, reason: String },
    #[error("`{0}` holds no certificate")]
    NoCertificate(String),
    #[error("this machine has no root certificates")]
    NoRoots,
    #[error("TLS set-up failed: {0}")]
    Setup(String),
}

/// Why a TLS handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// Our own settings cannot be used.
    Setup,
    /// The certificate is not signed by a trusted CA.
    Untrusted,
    /// The certificate has expired or is not valid yet.
    Time,
    /// The certificate is another host's.
    Name,
    Other,
}

impl TlsFault {
    /// What a handshake failed for.
    #[must_use]
    pub fn of(error: &std::io::Error) -> Self {
        use rustls::{CertificateError as Bad, Error};
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(Error::InvalidCertificate(bad)) => match bad {
                Bad::UnknownIssuer | Bad::BadSignature => Self::Untrusted,
                Bad::Expired
                | Bad::ExpiredContext { .. }
                | Bad::NotValidYet
                | Bad::NotValidYetContext { .. } => Self::Time,
                Bad::NotValidForName | Bad::NotValidForNameContext { .. } => Self::Name,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// Client settings, made on first use: a run that never dials TLS does not pay for
/// reading the system's roots.
#[derive(Debug)]
pub struct Tls {
    ca_file: Option<PathBuf>,
    built: OnceLock<Result<ClientConfigs, TlsError>>,
}

#[derive(Clone, Debug)]
struct ClientConfigs {
    http2: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

impl Tls {
    /// The system's roots (ours when it has none), and those in `ca_file`.
    #[must_use]
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, built: OnceLock::new() }
    }

    /// Trusts exactly `roots`.
    #[must_use]
    pub fn with_roots(roots: RootCertStore) -> Self {
        Self { ca_file: None, built: OnceLock::from(ClientConfigs::new(roots)) }
    }

    /// The settings for one protocol.
    ///
    /// # Errors
    /// The CA file cannot be used, or no root certificate is available.
    pub fn client(&self, alpn: Alpn) -> Result<Arc<ClientConfig>, TlsError> {
        let built = self
            .built
            .get_or_init(|| ClientConfigs::new(load_roots(self.ca_file.as_deref())?))
            .as_ref()
            .map_err(Clone::clone)?;
        Ok(match alpn {
            Alpn::Http2 => Arc::clone(&built.http2),
            Alpn::Http1 => Arc::clone(&built.http1),
        })
    }
}

impl ClientConfigs {
    fn new(roots: RootCertStore) -> Result<Self, TlsError> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN_H1.to_vec()];
        let http1 = Arc::new(config.clone());
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_H1.to_vec()];
        Ok(Self { http2: Arc::new(config), http1 })
    }
}

/// Settings for a listener: a certificate chain and its key, both PEM. HTTP/2 is
/// offered before HTTP/1.1.
///
/// # Errors
/// A file cannot be read, or key and certificate do not belong together.
pub fn server_config(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates = read_certificates(chain)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| file_error(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Setup(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| TlsError::Setup(error.to_string()))?;
    config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_H1.to_vec()];
    Ok(Arc::new(config))
}

/// Whether the peer chose HTTP/2.
#[must_use]
pub fn chose_h2(alpn: Option<&[u8]>) -> bool {
    alpn == Some(ALPN_H2)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn load_roots(ca_file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::debug!(%error, "a root certificate source was skipped");
    }
    let (added, _) = roots.add_parsable_certificates(native.certs);
    if added == 0 {
        tracing::debug!("the system has no usable root certificates, using the built-in ones");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(path) = ca_file {
        for certificate in read_certificates(path)? {
            roots.add(certificate).map_err(|error| file_error(path, &error))?;
        }
    }
    if roots.is_empty() { Err(TlsError::NoRoots) } else { Ok(roots) }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| file_error(path, &error))?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(path.display().to_string()));
    }
    Ok(certificates)
}

fn file_error(path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
