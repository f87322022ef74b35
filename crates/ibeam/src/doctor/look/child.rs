//! Cursor's CLI: whether it is installed, starts and is signed in.

use ibeam_core::{backend::BackendKind, peer::cli::listing};

use super::clients::said;
use crate::doctor::findings::{BackendFailure, ChildFindings};
use ibeam_server::{
    app::child_config,
    config::{Backend, Config},
    driver::child::{ChildDriver, ChildKind, likely},
    tasks::Tasks,
};

pub(super) async fn look(config: &Config, offline: bool, tasks: &Tasks) -> ChildFindings {
    let simulated = matches!(config.backend, Backend::Sim { .. });
    let (kind, backend) = match config.backend_kind() {
        BackendKind::Acp => (ChildKind::Acp, BackendKind::Acp),
        BackendKind::Agent | BackendKind::Cli => (ChildKind::Cli, BackendKind::Cli),
    };
    let driver = ChildDriver::new(child_config(config, kind, simulated), tasks);
    let program = driver.program().await.map(|program| program.path);
    let mut child = ChildFindings {
        kind: backend.name(),
        simulated,
        version: None,
        account: None,
        program: program.map_err(|error| error.to_string()),
    };
    // If none is Cursor's, the version of the likeliest may explain why.
    let named = match (&child.program, simulated) {
        (_, true) => None,
        (Ok(path), false) => Some(path.clone()),
        (Err(_), false) => likely(config.cursor_agent.bin.as_deref()),
    };
    if let Some(path) = named {
        child.version = Some(match said(&path, &["--version"]).await {
            Ok(text) => match listing::version(&text) {
                Some(version) => Ok(version),
                // Another program of that name: it is not dead, it is not Cursor's.
                None => Ok(String::new()),
            },
            Err(died) => Err(died),
        });
    }
    if child.program.is_ok() && !offline {
        let account = driver.gate().account().await;
        child.account = Some(
            account.map_err(|error| BackendFailure { code: error.code, what: error.to_string() }),
        );
    }
    child
}
