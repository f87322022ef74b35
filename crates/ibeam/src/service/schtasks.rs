//! A task of Windows' scheduler: started when the user logs on, and again when it fails.

use std::path::{Path, PathBuf};

use super::{
    ABOUT, CommandLine, CommandRunner, CommentStyle, FileEncoding, NAME, PAGE, ServiceFile,
    ServiceLogs, ServiceManager, ServiceSpec, ServiceState, ServiceStep, xml::escaped,
};

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-16\"?>\n";

#[derive(Clone, Debug)]
pub(crate) struct Schtasks {
    /// What the task was made of. The scheduler has its own copy.
    file: PathBuf,
    log: PathBuf,
    /// `DOMAIN\name`, which a task for one user must name.
    user: String,
}

impl Schtasks {
    /// `local`: `%LOCALAPPDATA%`.
    pub(crate) fn new(local: &Path, user: &str) -> Self {
        let folder = local.join("ibeam").join("service");
        let (file, log) = (folder.join("task.xml"), folder.join("service.log"));
        Self { file, log, user: user.to_owned() }
    }
}

impl ServiceManager for Schtasks {
    fn name(&self) -> &'static str {
        "Task Scheduler"
    }

    fn missing(&self, runner: &dyn CommandRunner) -> Option<(String, Vec<String>)> {
        let why = match runner.run(&CommandLine::new("schtasks", ["/?"])) {
            Ok(_) => return None,
            Err(error) => error.to_string(),
        };
        let ways = vec!["start it yourself, when you need it: `ibeam serve`".to_owned()];
        Some((format!("the Task Scheduler does not answer ({why})"), ways))
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }

    fn drafts(&self, service: &ServiceSpec) -> Vec<ServiceFile> {
        let (path, body) = (self.file.clone(), task(service, &self.user));
        vec![ServiceFile {
            path,
            head: HEAD,
            body,
            comment: CommentStyle::Xml,
            encoding: FileEncoding::Utf16,
        }]
    }

    fn install(&self, again: bool) -> Vec<ServiceStep> {
        let file = self.file.to_string_lossy();
        let mut steps = Vec::new();
        if again {
            steps.push(ServiceStep::may(CommandLine::new("schtasks", ["/End", "/TN", NAME])));
        }
        // Without `/F` a task of that name that is not ours is left alone.
        let mut create = CommandLine::new("schtasks", ["/Create", "/TN", NAME, "/XML", &file]);
        create.args.extend(again.then(|| "/F".to_owned()));
        steps.push(ServiceStep::must(create));
        steps.push(ServiceStep::must(CommandLine::new("schtasks", ["/Run", "/TN", NAME])));
        steps
    }

    fn uninstall(&self) -> (Vec<ServiceStep>, Vec<ServiceStep>) {
        let first = vec![
            ServiceStep::may(CommandLine::new("schtasks", ["/End", "/TN", NAME])),
            ServiceStep::may(CommandLine::new("schtasks", ["/Delete", "/TN", NAME, "/F"])),
        ];
        (first, Vec::new())
    }

    fn state(&self, runner: &dyn CommandRunner) -> ServiceState {
        // Its other forms of output are in the language of the user.
        match runner.run(&CommandLine::new("schtasks", ["/Query", "/TN", NAME, "/XML"])) {
            Ok(ran) if ran.ok => {
                ServiceState { enabled: is_enabled(&ran.stdout), ..ServiceState::default() }
            }
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
        vec!["It is running now, and starts when you log on.".to_owned()]
    }
}

/// The triggers have such a switch, too; that of the task is among its settings.
fn is_enabled(xml: &str) -> bool {
    let settings =
        xml.split_once("<Settings>").and_then(|(_, rest)| rest.split_once("</Settings>"));
    settings.is_some_and(|(settings, _)| !settings.contains("<Enabled>false</Enabled>"))
}

fn task(service: &ServiceSpec, user: &str) -> String {
    let words = std::iter::once(&service.program).chain(&service.args);
    let words: Vec<String> = words.map(|word| quoted(word)).collect();
    // A program for the console would have a window of its own.
    let arguments = escaped(&format!("--headless {}", words.join(" ")));
    let user = escaped(user);
    format!(
        "<Task version=\"1.2\" xmlns=\"http://schemas.microsoft.com/windows/2004/02/mit/task\">
  <RegistrationInfo>
    <Description>{about}</Description>
    <Documentation>{PAGE}</Documentation>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Enabled>true</Enabled>
      <UserId>{user}</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id=\"Author\">
      <UserId>{user}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <AllowHardTerminate>true</AllowHardTerminate>
    <StartWhenAvailable>true</StartWhenAvailable>
    <RunOnlyIfNetworkAvailable>false</RunOnlyIfNetworkAvailable>
    <AllowStartOnDemand>true</AllowStartOnDemand>
    <Enabled>true</Enabled>
    <Hidden>false</Hidden>
    <RunOnlyIfIdle>false</RunOnlyIfIdle>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>5</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context=\"Author\">
    <Exec>
      <Command>conhost.exe</Command>
      <Arguments>{arguments}</Arguments>
    </Exec>
  </Actions>
</Task>
",
        about = escaped(ABOUT)
    )
}

/// As programs of Windows take their command line apart: backslashes count only before a
/// quotation mark.
fn quoted(word: &str) -> String {
    if !word.is_empty() && !word.contains([' ', '\t', '"']) {
        return word.to_owned();
    }
    let (mut out, mut slashes) = (String::from("\""), 0);
    for c in word.chars() {
        match c {
            '\\' => slashes += 1,
            '"' => {
                out.push_str(&"\\".repeat(slashes * 2 + 1));
                slashes = 0;
            }
            _ => {
                out.push_str(&"\\".repeat(slashes));
                slashes = 0;
            }
        }
        if c != '\\' {
            out.push(c);
        }
    }
    out.push_str(&"\\".repeat(slashes * 2));
    out.push('"');
    out
}

#[cfg(test)]
#[path = "schtasks_tests.rs"]
mod tests;
