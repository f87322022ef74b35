//! The arguments of the program.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::AgentMode,
    peer::child::ChildStart,
};

/// What determines the arguments, besides the request.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Its own folder.
    pub(super) workspace: PathBuf,
    /// A folder of the user's.
    pub(super) beside: Option<PathBuf>,
    pub(super) own_tools: bool,
}

/// The arguments of a run that serves one turn.
///
/// # Errors
/// A name that would be read as a flag.
pub(super) fn run(start: &ChildStart, terms: &Terms) -> Result<Vec<OsString>, TurnError> {
    let mut args = Args::default();
    args.add(["--print", "--output-format", "stream-json", "--stream-partial-output", "--trust"]);
    let hosted = !start.tools.is_empty();
    if hosted {
        args.add(["--approve-mcps"]);
    }
    if !start.model.is_empty() {
        args.add(["--model", named("model", &start.model)?]);
    }
    if let Some(session) = &start.resume {
        args.add(["--resume", named("conversation", session)?]);
    }
    args.path("--workspace", &terms.workspace);
    args.beside(terms);
    if terms.own_tools {
        args.add(["--force", "--sandbox", "enabled"]);
    }
    match start.mode {
        // Without tools it only answers.
        AgentMode::Agent if !terms.own_tools && !hosted => args.add(["--mode", "ask"]),
        AgentMode::Agent => {}
        mode @ (AgentMode::Ask | AgentMode::Plan) => args.add(["--mode", mode.name()]),
    }
    Ok(args.0)
}

/// The arguments of a process for many turns. It gets models, conversations and servers later.
pub(super) fn acp(terms: &Terms) -> Vec<OsString> {
    let mut args = Args::default();
    args.add(["--trust", "--approve-mcps"]);
    args.path("--workspace", &terms.workspace);
    args.beside(terms);
    if terms.own_tools {
        args.add(["--force", "--sandbox", "enabled"]);
    }
    args.add(["acp"]);
    args.0
}

#[derive(Default)]
struct Args(Vec<OsString>);

impl Args {
    fn add<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        self.0.extend(words.into_iter().map(OsString::from));
    }

    fn path(&mut self, flag: &str, path: &Path) {
        self.0.extend([OsString::from(flag), path.into()]);
    }

    fn beside(&mut self, terms: &Terms) {
        if let Some(folder) = &terms.beside {
            self.path("--add-dir", folder);
        }
    }
}

/// These are chosen by clients. None of them can be a flag.
fn named<'a>(what: &str, name: &'a str) -> Result<&'a str, TurnError> {
    if name.starts_with('-') {
        let text = format!("There is no {what} with the name `{name}`.");
        return Err(TurnError::new(ErrorCode::InvalidValue, text).param("model"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use ibeam_core::{model::Tool, peer::child::ChildOwner};

    use super::*;

    fn start(tools: usize) -> ChildStart {
        let tool = Tool { name: "t".to_owned(), description: String::new(), schema: None };
        ChildStart {
            model: "gpt-5".to_owned(),
            conversation: String::new(),
            resume: None,
            workspace: None,
            mode: AgentMode::Agent,
            tools: vec![tool; tools].into(),
            owner: ChildOwner { scope: [0; 32], assured: usize::MAX },
        }
    }

    fn terms(own_tools: bool) -> Terms {
        Terms { workspace: PathBuf::from("/w"), beside: None, own_tools }
    }

    fn line(args: &[OsString]) -> String {
        args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    const ALWAYS: &str = "--print --output-format stream-json --stream-partial-output --trust";

    #[test]
    fn plain_question_runs_in_ask_mode() {
        let args = run(&start(0), &terms(false)).unwrap();
        assert_eq!(line(&args), format!("{ALWAYS} --model gpt-5 --workspace /w --mode ask"));
    }

    #[test]
    fn hosted_tools_are_approved_and_nothing_is_forced() {
        let start = ChildStart { resume: Some("chat-1".to_owned()), ..start(1) };
        let args = run(&start, &terms(false)).unwrap();
        let want = "--approve-mcps --model gpt-5 --resume chat-1 --workspace /w";
        assert_eq!(line(&args), format!("{ALWAYS} {want}"));
    }

    #[test]
    fn own_tools_are_forced_in_a_sandbox() {
        let terms = Terms { beside: Some(PathBuf::from("/home/me/p")), ..terms(true) };
        let args = line(&run(&start(0), &terms).unwrap());
        assert!(args.ends_with("--add-dir /home/me/p --force --sandbox enabled"), "{args}");
        let args = line(&acp(&terms));
        assert_eq!(
            args,
            "--trust --approve-mcps --workspace /w --add-dir /home/me/p --force --sandbox \
             enabled acp"
        );
    }

    #[test]
    fn section_9_a_mode_that_the_request_names_is_a_flag() {
        for (tools, mode, want) in [
            (0, AgentMode::Ask, "--mode ask"),
            (1, AgentMode::Ask, "--mode ask"),
            (1, AgentMode::Plan, "--mode plan"),
        ] {
            let start = ChildStart { mode, ..start(tools) };
            for own_tools in [true, false] {
                let args = line(&run(&start, &terms(own_tools)).unwrap());
                assert!(args.ends_with(want) && args.matches("--mode ").count() == 1, "{args}");
            }
        }
    }

    #[test]
    fn no_name_becomes_a_flag() {
        for start in [
            ChildStart { model: "--force".to_owned(), ..start(0) },
            ChildStart { resume: Some("-f".to_owned()), ..start(0) },
        ] {
            let error = run(&start, &terms(false)).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidValue);
        }
    }
}
