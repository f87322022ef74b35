//! What a child gets to see of our environment: what it needs to run, to reach Cursor and
//! to find its own sign-in. Everything else stays here, above all what is secret.

use std::ffi::{OsStr, OsString};

use super::find::Program;

/// Marks a child and all that it starts. They inherit it, even where they leave its group.
pub(super) const MARK: &str = "IBEAM_RUN";

/// How the stand-in is told what to do.
const SIMULATION: &str = "IBEAM_FAKE_AGENT";

/// Where it keeps its things.
pub(super) const SIMULATED_HOME: &str = "IBEAM_FAKE_AGENT_HOME";

const PLAIN: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    // Windows starts no program without some of these.
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "USERPROFILE",
    "USERNAME",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "TEMP",
    "TMP",
];

const PROXIES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

const FAMILIES: &[&str] = &["LC_", "XDG_", "CURSOR_"];

/// What a program may see of the user's things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// It is Cursor's: its settings and its sign-in.
    Full,
    /// It may be any program: nothing of Cursor's.
    Bare,
}

/// Settings of ibeam that only look like the CLI's own.
const OURS: &[&str] =
    &["CURSOR_ACCESS_TOKEN", "CURSOR_API_URL", "CURSOR_AGENT_BIN", "CURSOR_AGENT_EXECUTABLE"];

/// The environment of a child, from ours. A stand-in is told what to do in it.
pub(super) fn cleaned(
    ours: impl Iterator<Item = (OsString, OsString)>,
    program: &Program,
    sight: Sight,
) -> Vec<(OsString, OsString)> {
    let mut words = program.words.clone();
    let mut kept = Vec::new();
    let hidden = |name: &OsStr| {
        sight == Sight::Bare && name.to_string_lossy().to_ascii_uppercase().starts_with("CURSOR_")
    };
    for (name, value) in ours.filter(|(name, _)| !hidden(name)) {
        if program.is_simulated() && name == SIMULATION {
            words.push(value);
        } else if is_needed(&name) || (program.is_simulated() && name == SIMULATED_HOME) {
            kept.push((name, value));
        }
    }
    if !words.is_empty() {
        kept.push((SIMULATION.into(), words.join(OsStr::new(","))));
    }
    // What it prints is read by a program.
    kept.push(("NO_COLOR".into(), "1".into()));
    kept
}

fn is_needed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    // Windows does not care how they are spelled; proxies are spelled both ways elsewhere.
    let upper = name.to_ascii_uppercase();
    let is = |known: &&str| **known == *if cfg!(windows) { upper.as_str() } else { name };
    if PROXIES.contains(&upper.as_str()) {
        return true;
    }
    let family = FAMILIES.iter().any(|prefix| name.starts_with(prefix));
    PLAIN.iter().any(is) || (family && !OURS.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Simulator;

    fn names(of: &[&str], program: &Program) -> Vec<String> {
        let ours = of.iter().map(|name| (OsString::from(name), OsString::from("x")));
        let kept = cleaned(ours, program, Sight::Full);
        kept.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect()
    }

    fn real() -> Program {
        Program::at("cursor-agent")
    }

    #[test]
    fn a_stand_in_is_told_its_scenario_before_all_else() {
        let switches = vec!["cli.worker_stdout=off".to_owned()];
        let simulator = Simulator { native_tools: true, switches, ..Simulator::default() };
        let program = Program::simulated(Some(Path::new("/a/b.toml")), &simulator);
        let ours = [(OsString::from(SIMULATION), OsString::from("exit-1:a, b"))];
        let kept = cleaned(ours.into_iter(), &program, Sight::Full);
        assert_eq!(kept[0].1, "scenario=/a/b.toml,own-tools,set:cli.worker_stdout=off,exit-1:a, b");
        let program = Program::simulated(None, &Simulator::default());
        assert_eq!(names(&[], &program), ["NO_COLOR"]);
    }

    #[test]
    fn it_gets_what_it_needs() {
        let needed = ["PATH", "HOME", "LC_ALL", "XDG_CONFIG_HOME", "https_proxy", "CURSOR_API_KEY"];
        let mut want: Vec<String> = needed.map(str::to_owned).to_vec();
        want.push("NO_COLOR".to_owned());
        assert_eq!(names(&needed, &real()), want);
    }

    #[test]
    fn an_unidentified_program_gets_no_variables_of_cursor() {
        let ours = ["PATH", "CURSOR_API_KEY", "CURSOR_AUTH_TOKEN", "CURSOR_CONFIG_DIR", "HOME"];
        let ours = ours.iter().map(|name| (OsString::from(name), OsString::from("x")));
        let kept = cleaned(ours, &real(), Sight::Bare);
        let kept: Vec<_> = kept.iter().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(kept, ["PATH", "HOME", "NO_COLOR"]);
    }

    #[test]
    fn it_gets_nothing_that_is_ours() {
        let ours = [
            "IBEAM_API_KEY",
            "IBEAM_ACCESS_TOKEN",
            "CURSOR_ACCESS_TOKEN",
            "CURSOR_API_URL",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "TERM",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "IBEAM_FAKE_AGENT",
            "IBEAM_FAKE_AGENT_HOME",
        ];
        assert_eq!(names(&ours, &real()), ["NO_COLOR"]);
        let simulated = Program::simulated(None, &Simulator::default());
        let told = ["IBEAM_FAKE_AGENT_HOME", "IBEAM_FAKE_AGENT", "NO_COLOR"];
        assert_eq!(names(&ours, &simulated), told);
    }
}
