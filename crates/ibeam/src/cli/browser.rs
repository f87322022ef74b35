//! Opens a link in the user's browser, which needs nothing else from us: no terminal, and
//! none of the secrets that may be in our environment.

use std::{
    ffi::OsString,
    process::{Command, Stdio},
};

use ibeam_server::{auth::KEY_VARIABLE, config::Key};

/// Opens the link where the user is. Whether a program took it.
pub(super) fn open(url: &str) -> bool {
    // A browser that is named is used over ssh, too: editors open links on the user's machine that way.
    let named = std::env::var_os("BROWSER").unwrap_or_default();
    let named = std::env::split_paths(&named).any(|program| {
        let program = program.to_string_lossy();
        let program = program.trim().trim_end_matches("%s").trim_end();
        !program.is_empty() && launch(open::with_command(url, program))
    });
    let set = |name: &str| std::env::var_os(name).is_some();
    // A desktop's opener also runs where there is no desktop, and opens nothing.
    let desktop = !cfg!(target_os = "linux")
        || ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"].into_iter().any(set);
    let far = set("SSH_CONNECTION") || set("SSH_TTY") || !desktop;
    named || (!far && open::commands(url).into_iter().any(launch))
}

fn launch(mut command: Command) -> bool {
    for name in secrets() {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C in our terminal is meant for us.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let Ok(mut browser) = command.spawn() else { return false };
    // It may stay open for days. Its end has to be awaited, but not here.
    let end = std::thread::Builder::new().name("browser".to_owned());
    let _ = end.spawn(move || browser.wait());
    true
}

/// Every variable that may hold one.
fn secrets() -> impl Iterator<Item = OsString> {
    let settings = Key::ALL.iter().filter(|key| key.row().secret).flat_map(|key| {
        let older = key.row().env.iter().map(|(name, _)| OsString::from(name));
        older.chain([OsString::from(key.env_name())])
    });
    settings.chain([OsString::from(KEY_VARIABLE)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_secrets_are_known() {
        let names: Vec<OsString> = secrets().collect();
        for name in [
            "CURSOR_ACCESS_TOKEN",
            "CURSOR_AUTH_TOKEN",
            "CURSOR_API_KEY",
            "IBEAM_ACCESS_TOKEN",
            "IBEAM_API_KEY",
        ] {
            assert!(names.contains(&OsString::from(name)), "{name} in {names:?}");
        }
    }
}
