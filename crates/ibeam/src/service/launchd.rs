//! launchd's agents of the user: started when the user logs in, and again when they fail.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use super::{
    CommandLine, CommandRunner, CommentStyle, FileEncoding, ServiceFile, ServiceLogs,
    ServiceManager, ServiceSpec, ServiceState, ServiceStep, xml::escaped,
};

/// launchd names services by domain.
const LABEL: &str = "io.github.ibeam-gateway.ibeam";

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

#[derive(Clone, Debug)]
pub(crate) struct Launchd {
    plist: PathBuf,
    log: PathBuf,
    /// `gui/501`: where agents of the user live.
    domain: String,
}

impl Launchd {
    pub(crate) fn new(home: &Path, user: u32) -> Self {
        let library = home.join("Library");
        Self {
            plist: library.join("LaunchAgents").join(format!("{LABEL}.plist")),
            log: library.join("ServiceLogs").join("ibeam").join("service.log"),
            domain: format!("gui/{user}"),
        }
    }

    fn target(&self) -> String {
        format!("{}/{LABEL}", self.domain)
    }
}

impl ServiceManager for Launchd {
    fn name(&self) -> &'static str {
        "launchd"
    }

    fn missing(&self, runner: &dyn CommandRunner) -> Option<(String, Vec<String>)> {
        let why = match runner.run(&CommandLine::new("launchctl", ["print", &self.domain])) {
            Ok(ran) if ran.ok => return None,
            Ok(ran) => ran.stderr,
            Err(error) => error.to_string(),
        };
        let ways = vec![
            "log in once on the machine itself: over ssh alone, launchd cannot run agents"
                .to_owned(),
            "or start it yourself, when you need it: `ibeam serve`".to_owned(),
        ];
        Some((format!("launchd does not accept your agents here ({why})"), ways))
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.plist.clone()]
    }

    fn drafts(&self, service: &ServiceSpec) -> Vec<ServiceFile> {
        let (path, body) = (self.plist.clone(), plist(service));
        vec![ServiceFile {
            path,
            head: HEAD,
            body,
            comment: CommentStyle::Xml,
            encoding: FileEncoding::Utf8,
        }]
    }

    fn install(&self, again: bool) -> Vec<ServiceStep> {
        let (target, plist) = (self.target(), self.plist.to_string_lossy());
        let mut steps = Vec::new();
        if again {
            steps.push(ServiceStep::may(CommandLine::new("launchctl", ["bootout", &target])));
        }
        // It remembers a `disable` of an earlier time.
        steps.push(ServiceStep::may(CommandLine::new("launchctl", ["enable", &target])));
        steps.push(ServiceStep::must(CommandLine::new(
            "launchctl",
            ["bootstrap", &self.domain, &plist],
        )));
        steps
    }

    fn uninstall(&self) -> (Vec<ServiceStep>, Vec<ServiceStep>) {
        (
            vec![ServiceStep::may(CommandLine::new("launchctl", ["bootout", &self.target()]))],
            Vec::new(),
        )
    }

    fn state(&self, runner: &dyn CommandRunner) -> ServiceState {
        match runner.run(&CommandLine::new("launchctl", ["print", &self.target()])) {
            Ok(ran) if ran.ok => state(&ran.stdout),
            _ => ServiceState { running: Some(false), ..ServiceState::default() },
        }
    }

    fn logs(&self, _: bool, _: u32) -> ServiceLogs {
        ServiceLogs::In(self.log.clone())
    }

    fn log_file(&self) -> Option<&Path> {
        Some(&self.log)
    }

    fn notes(&self) -> Vec<String> {
        vec!["It is running now, and starts when you log in.".to_owned()]
    }
}

fn plist(service: &ServiceSpec) -> String {
    let mut out = format!(
        "<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
  <key>Label</key>
  <string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
"
    );
    for word in std::iter::once(&service.program).chain(&service.args) {
        let _ = writeln!(out, "    <string>{}</string>", escaped(word));
    }
    out.push_str("  </array>\n");
    if !service.env.is_empty() {
        out.push_str("  <key>EnvironmentVariables</key>\n  <dict>\n");
        for (name, value) in &service.env {
            let (name, value) = (escaped(name), escaped(value));
            let _ = writeln!(out, "    <key>{name}</key>\n    <string>{value}</string>");
        }
        out.push_str("  </dict>\n");
    }
    let patience = service.patience();
    let _ = write!(
        out,
        "  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>10</integer>
  <key>ExitTimeOut</key>
  <integer>{patience}</integer>
  <key>Umask</key>
  <integer>63</integer>
</dict>
</plist>
"
    );
    out
}

/// Of `launchctl print`, which is made for people and has kept these lines for years.
fn state(printed: &str) -> ServiceState {
    // The first of each: what follows in deeper blocks is about other things.
    let value = |name: &str| {
        printed.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" = "))
    };
    let code = value("last exit code").filter(|code| !matches!(*code, "0" | "(never exited)"));
    ServiceState {
        enabled: true,
        running: Some(value("state") == Some("running")),
        waiting: false,
        pid: value("pid").and_then(|pid| pid.parse().ok()),
        trouble: code
            .map(|code| format!("it last exited with {code}; `ibeam service logs` shows why")),
    }
}

#[cfg(test)]
#[path = "launchd_tests.rs"]
mod tests;
