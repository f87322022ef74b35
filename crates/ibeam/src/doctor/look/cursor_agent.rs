//! Cursor's CLI: whether it is installed, starts and is signed in.

use ibeam_core::peer::cli::listing;

use super::clients::said;
use crate::doctor::findings::{BackendFailure, CursorAgentFindings};
use ibeam_server::{
    config::{Backend, Config},
    driver::child::{CursorCli, likely},
    tasks::Tasks,
};

pub(super) async fn look(config: &Config, offline: bool, tasks: &Tasks) -> CursorAgentFindings {
    let simulated = matches!(config.backend, Backend::Sim { .. });
    let cli = CursorCli::of(config, simulated, tasks);
    let program = cli.program().await.map(|program| program.path);
    let mut child = CursorAgentFindings {
        backend: config.backend_kind().name(),
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
        let account = cli.account().await;
        child.account = Some(
            account.map_err(|error| BackendFailure { code: error.code, what: error.to_string() }),
        );
    }
    child
}

/// Whether there is any use in asking: it runs, and is signed in.
pub(super) fn is_open(program: &CursorAgentFindings) -> bool {
    program.program.is_ok()
        && !matches!(program.version, Some(Err(_)))
        && !matches!(program.account, Some(Err(_)))
}
