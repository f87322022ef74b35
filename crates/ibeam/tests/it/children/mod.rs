//! The program with Cursor's CLI behind it, as its stand-in: what is left of turns that end
//! badly, and what becomes of very large ones.

mod leaks;
mod machine;
mod sizes;
mod worker;

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use self::machine::Process;
use crate::{
    cli::{Home, Server},
    client::tool,
    watch,
};

/// How the CLI is spoken to.
const BACKENDS: [&str; 2] = ["cli", "acp"];

/// A gateway of its own, in a home of its own.
struct Gateway {
    home: Home,
    line: String,
    words: String,
    server: Server,
}

impl Gateway {
    /// `words` configure the stand-in; `settings` are those of `--set`.
    fn start(backend: &str, words: &str, settings: &[&str]) -> Self {
        let home = Home::new();
        let mut line = format!("serve --sim --port 0 --backend {backend}");
        for setting in settings {
            line.push_str(" --set ");
            line.push_str(setting);
        }
        let words = format!("home={},{words}", home.0.path().join("agent").display());
        let server = Self::serve(&home, &line, &words);
        Self { home, line, words, server }
    }

    /// With no more in its log than usual: all of it may be looked at, and some of these
    /// turns are so large that a line for each piece would be the longer story.
    fn serve(home: &Home, line: &str, words: &str) -> Server {
        let mut command = home.ibeam(line);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("IBEAM_FAKE_AGENT", words);
        watch::usual_log(&mut command);
        Server::start(command)
    }

    /// Ends it as the kernel does when memory is short, and starts it again.
    fn kill_and_restart(&mut self) {
        self.server.child.kill().unwrap();
        self.server.child.wait().unwrap();
        self.server = Self::serve(&self.home, &self.line, &self.words);
    }

    fn url(&self) -> &str {
        &self.server.url
    }

    fn id(&self) -> u32 {
        self.server.child.id()
    }

    /// Where the children's folders are.
    fn runs(&self) -> PathBuf {
        self.home.0.path().join(".cache/ibeam/runs")
    }

    /// The folders of all children, of this program or of one before it.
    fn folders(&self) -> Vec<PathBuf> {
        let programs = machine::entries(&self.runs());
        let runs = programs.iter().flat_map(|program| machine::entries(program));
        runs.filter(|path| path.is_dir()).collect()
    }

    /// What children were started, and what they started, wherever it went.
    fn marked(&self) -> Vec<Process> {
        machine::marked(self.home.0.path())
    }

    fn sessions(&self) -> Value {
        let answer = self.server.request("GET /health", "");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Value>(body).unwrap()["sessions"].clone()
    }
}

/// A question, and a tool for those that ask for it.
fn body(messages: &[Value]) -> Value {
    let tools = [tool("get_weather", &["city"])];
    json!({ "model": "auto", "stream": true, "messages": messages, "tools": tools })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// Waits for `left` to be empty.
fn nothing_left(what: &str, limit: Duration, mut left: impl FnMut() -> Vec<String>) {
    let until = Instant::now() + limit;
    loop {
        let found = left();
        if found.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{what}: left behind: {found:#?}");
        pause(Duration::from_millis(50));
    }
}

#[expect(clippy::disallowed_methods, reason = "all that waits is another process")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[expect(clippy::print_stdout, reason = "numbers for a person")]
fn tell(line: &str) {
    println!("{line}");
}
