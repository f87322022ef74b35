//! Why a gateway in the background cannot be started or ended.

use std::io;

use super::LivingInstance;
use ibeam_server::files::FileError;

/// Why a gateway in the background cannot be started or ended.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    #[error("this machine has no place for ibeam's files; set HOME")]
    NoHome,
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    PortTaken(#[from] PortTaken),
    /// With the end of what it printed.
    #[error("the gateway did not start: {0}")]
    NotStarted(String),
    #[error("cannot {what}")]
    Io { what: &'static str, source: io::Error },
}

impl InstanceError {
    /// For `map_err`: what was being done.
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

/// Another program has the port, and no other port will do.
#[derive(Debug, thiserror::Error)]
#[error("port {port} is taken")]
pub struct PortTaken {
    pub port: u16,
    pub by: PortOwner,
}

/// What has a port.
#[derive(Clone, Debug)]
pub enum PortOwner {
    /// A gateway of this user that does not fit, or does not answer.
    Own(Box<LivingInstance>),
    /// A gateway of that version that is not registered as this user's.
    Gateway(String),
    /// Another program answers where a gateway of this user should.
    Stranger,
    /// Another program.
    Other,
}
