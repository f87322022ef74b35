//! `ibeam up`: the gateway for people. The same server as `ibeam serve`, with a
//! welcome that says how to use it.

use std::fmt::Write as _;

use anstream::eprint;
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
        block_on(serve(config, |url, app, tasks| {
            let (url, app) = (url.to_owned(), app.clone());
            // Not awaited here: the list may take a moment, and clients may call already.
            tasks.spawn("welcome", async move {
                let models = app.model_list().await.map(|models| models.list.visible().count());
                eprint!("{}", welcome(&url, facts, models.as_ref()));
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

fn welcome(url: &str, facts: Facts, models: Result<&usize, &TurnError>) -> String {
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
    let models = match models {
        Ok(count) => {
            let flag = if facts.sim { " --sim" } else { "" };
            format!("{count}; `ibeam models{flag}` lists them")
        }
        Err(error) => format!("none yet: {}", error.message),
    };
    let _ = write!(
        out,
        "
ibeam {version} is up: {backend}.

  Base URL   {url}/v1
  API key    {key_shown}
  Models     {models}

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

#[cfg(test)]
mod tests {
    use ibeam_core::error::ErrorCode;

    use super::*;

    #[test]
    fn the_welcome_says_how_to_begin() {
        let text = welcome("http://127.0.0.1:1", Facts { sim: true, api_key: false }, Ok(&7));
        assert!(text.contains("simulator"), "{text}");
        assert!(text.contains("OPENAI_BASE_URL=http://127.0.0.1:1/v1"), "{text}");
        assert!(text.contains("Models     7;"), "{text}");
        assert!(text.contains(r#"-d '{"model":"auto","stream":true"#), "{text}");
    }

    #[test]
    fn a_key_is_named_and_a_missing_list_explained() {
        let error = TurnError::new(ErrorCode::Unavailable, "Cursor is down.");
        let text = welcome("http://x", Facts { sim: false, api_key: true }, Err(&error));
        assert!(text.contains("Bearer $IBEAM_API_KEY"), "{text}");
        assert!(text.contains("none yet: Cursor is down."), "{text}");
    }
}
