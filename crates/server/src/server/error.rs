//! Why a server does not start, and what helps.

use std::{borrow::Cow, io, net::SocketAddr};

use crate::{
    config::{SimulatorError, UnprotectedListen},
    keys::KeyFileError,
    net::tls::TlsError,
    store::StoreError,
};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Other machines could use the account without a key.
    #[error(transparent)]
    Unprotected(#[from] UnprotectedListen),
    /// The file with the clients' keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// The certificate or its key cannot be used.
    #[error("cannot serve TLS: {0}")]
    Tls(TlsError),
    /// An address, a path or a socket that a service manager passed cannot be used.
    #[error("{what}")]
    Socket { what: String, hint: Cow<'static, str>, source: Option<io::Error> },
    /// Another program has the address.
    #[error("cannot listen on {address}")]
    Taken {
        address: SocketAddr,
        /// The version, if it calls itself ibeam. Any program can do that.
        claims: Option<String>,
        source: io::Error,
    },
    #[error(transparent)]
    Simulator(#[from] SimulatorError),
    /// The store cannot be opened, not even in memory.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StartError {
    /// For a place where the server cannot listen.
    pub(super) fn new(what: impl Into<String>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self::Socket { what: what.into(), hint: hint.into(), source: None }
    }

    pub(super) fn because(mut self, error: io::Error) -> Self {
        if let Self::Socket { source, .. } = &mut self {
            *source = Some(error);
        }
        self
    }

    /// What helps, in words for users of the command line.
    #[must_use]
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Unprotected(_) => Some(
                "create a key for each client with `ibeam keys add NAME`, or set IBEAM_API_KEY; \
                 or listen on 127.0.0.1"
                    .into(),
            ),
            Self::Keys(error) => Some(error.hint().into()),
            Self::Tls(_) => Some(
                "`tls_cert` is a PEM file with the certificate and those that signed it, \
                 `tls_key` one with its private key"
                    .into(),
            ),
            Self::Socket { hint, .. } => Some(hint.clone()),
            Self::Taken { claims, .. } => Some(match claims {
                Some(version) => format!(
                    "a program that calls itself ibeam {version} has that port; `ibeam status` \
                     lists your gateways. Choose another port (`--port`), or 0 for a free one"
                )
                .into(),
                None => "another program has that port; choose another one (`--port`), or 0 for \
                         a free one"
                    .into(),
            }),
            #[cfg(feature = "sim")]
            Self::Simulator(SimulatorError::Scenario(_)) => {
                Some("without `--scenario`, the built-in assistant answers".into())
            }
            Self::Simulator(_) | Self::Store(_) => None,
        }
    }
}
