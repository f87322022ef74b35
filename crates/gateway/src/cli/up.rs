//! `ibeam up`: the gateway for people. The same server as `ibeam serve`, with a
//! welcome that says how to use it.

use std::fmt::Write as _;

use anstream::{eprint, eprintln};
use clap::Args;
use ibeam_core::error::TurnError;

use super::{Global, Listening, Upstream, block_on, require_account, serve::serve};
use crate::config::{Backend, Config};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam up --sim                        no account needed
  CURSOR_ACCESS_TOKEN=… ibeam up        answer with the models of your plan
  ibeam up --sim --port 8080")]
pub(super) struct Up {
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    upstream: Upstream,
}

impl Up {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<()> {
        let config = global.load(self.listening.raw(), &self.upstream)?;
        require_account(&config)?;
        let facts = Facts::of(&config);
        block_on(serve(config, |ready| {
            eprint!("{}", welcome(ready.url, facts));
            let (app, draining) = (ready.app.clone(), ready.shutdown.draining());
            // Not awaited here: the list may take a moment, and clients may call already.
            ready.tasks.spawn("welcome", async move {
                tokio::select! {
                    biased;
                    // Who is leaving does not want to know.
                    () = draining => {}
                    models = app.model_list() => {
                        let models = models.map(|models| models.list.visible().count());
                        eprintln!("{}", models_line(facts, models.as_ref()));
                    }
                }
            });
        }))
    }
}

/// What the welcome depends on.
#[derive(Clone, Copy, Debug)]
struct Facts {
    sim: bool,
    api_key: bool,
}

impl Facts {
    fn of(config: &Config) -> Self {
        Self {
            sim: matches!(config.backend, Backend::Sim { .. }),
            api_key: config.api_key.is_some(),
        }
    }
}

fn welcome(url: &str, facts: Facts) -> String {
    let mut out = String::new();
    let backend = if facts.sim {
        "the simulator answers (no account, no model)"
    } else {
        "the models of your Cursor plan answer"
    };
    // Never the key itself: terminals are shared and logged.
    let (key, key_shown, header) = if facts.api_key {
        let header = " \\\n    -H \"authorization: Bearer $IBEAM_API_KEY\"";
        ("$IBEAM_API_KEY", "the one in IBEAM_API_KEY", header)
    } else {
        ("ibeam", "any; none is checked on this machine", "")
    };
    let _ = write!(
        out,
        "
ibeam {version} is up: {backend}.

  Base URL   {url}/v1
  API key    {key_shown}

Try it:

  curl -N {url}/v1/chat/completions{header} \\
    -H 'content-type: application/json' \\
    -d '{{\"model\":\"auto\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'

For OpenAI clients:

  export OPENAI_BASE_URL={url}/v1
  export OPENAI_API_KEY={key}

Ctrl-C stops it.

",
        version = env!("CARGO_PKG_VERSION"),
    );
    out
}

/// Comes after the welcome, as soon as the list is there.
fn models_line(facts: Facts, models: Result<&usize, &TurnError>) -> String {
    match models {
        Ok(count) => {
            let flag = if facts.sim { " --sim" } else { "" };
            format!("{count} models are ready; `ibeam models{flag}` lists them.")
        }
        Err(error) => format!("No models yet: {}", error.message),
    }
}

#[cfg(test)]
mod tests {
    use ibeam_core::error::ErrorCode;

    use super::*;

    #[test]
    fn the_welcome_says_how_to_begin() {
        let text = welcome("http://127.0.0.1:1", Facts { sim: true, api_key: false });
        assert!(text.contains("simulator"), "{text}");
        assert!(text.contains("OPENAI_BASE_URL=http://127.0.0.1:1/v1"), "{text}");
        assert!(text.contains(r#"-d '{"model":"auto","stream":true"#), "{text}");
    }

    #[test]
    fn a_key_is_named_and_a_missing_list_explained() {
        let facts = Facts { sim: false, api_key: true };
        let text = welcome("http://x", facts);
        assert!(text.contains("Bearer $IBEAM_API_KEY"), "{text}");
        let error = TurnError::new(ErrorCode::Unavailable, "Cursor is down.");
        assert_eq!(models_line(facts, Err(&error)), "No models yet: Cursor is down.");
        let sim = Facts { sim: true, ..facts };
        assert_eq!(
            models_line(sim, Ok(&7)),
            "7 models are ready; `ibeam models --sim` lists them."
        );
    }
}
