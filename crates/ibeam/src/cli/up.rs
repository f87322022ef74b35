//! `ibeam up`: the gateway for people. The same server as `ibeam serve`, with a
//! welcome that says how to use it.

use std::{io::IsTerminal as _, net::SocketAddr, path::Path, process::ExitCode};

use clap::Args;
use ibeam_core::{
    backend::BackendKind,
    error::{ErrorCode, TurnError},
};

use super::{
    Global, Listening, Loaded, Refusal, UpstreamOptions, advice, block_on, found,
    login::{LoginWay, sign_in, signed_in, tell_of_others},
    require_account, say,
    serve::serve,
};
use ibeam_server::{
    api::GatewayService as _,
    auth::LocalUser,
    config::{Backend, Config, Listen, SettingOrigin},
    driver::login_command,
    keys::{self, KeyPolicy},
    server::PassedSockets,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam up --sim                        no account needed
  ibeam up                              answer with the models of your plan
  ibeam up --sim --port 8080
  ibeam up --backend cli                let Cursor's own `cursor-agent` answer
  ibeam up --listen 18741 --listen 32124 --backend cli
                                        replaces a proxy for `cursor-agent`

Signs you in first if needed, when run in a terminal.")]
pub(super) struct Up {
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    upstream: UpstreamOptions,
}

impl Up {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let mut loaded = global.load(self.listening.raw(), &self.upstream)?;
        if let Err(nobody) = require_account(&mut loaded.config) {
            login_first(&loaded.config, nobody)?;
        }
        let facts = UpFacts::of(&loaded);
        block_on(serve(loaded.config, PassedSockets::none(), |ready| {
            say(&welcome(ready.url, ready.place, ready.also, &facts));
            let (app, draining) = (ready.app.clone(), ready.shutdown.draining());
            // Where other programs find this gateway by themselves.
            let clients = match ready.url.starts_with("http://") {
                true => found::lines(facts.sim),
                false => Vec::new(),
            };
            // Not awaited here: the list may take a moment, and clients may call already.
            ready.tasks.spawn("welcome", async move {
                tokio::select! {
                    biased;
                    // It is shutting down, so the answer does not matter.
                    () = draining => {}
                    models = app.model_list() => {
                        let models = match models {
                            // A list from disk, and a token that no longer works.
                            Ok(_) if !facts.sim && !app.health().authenticated => {
                                let text = "Cursor does not know this account. Run";
                                let text = format!("{text} `{}`.", facts.login);
                                Err(TurnError::new(ErrorCode::NotAuthenticated, text))
                            }
                            models => models.map(|models| models.list.visible().count()),
                        };
                        say(&models_line(facts.sim, models.as_ref()));
                        clients.iter().for_each(|line| say(line));
                    }
                }
            });
            Ok(())
        }))
    }
}

/// Signs the user in, if there is one to ask.
pub(super) fn login_first(config: &Config, nobody: anyhow::Error) -> anyhow::Result<()> {
    let asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !asked || config.uses_cursor_agent() || nobody.downcast_ref::<Refusal>().is_none() {
        return Err(nobody);
    }
    let here = LocalUser::of(config)?;
    say("Not signed in to Cursor yet.");
    tell_of_others(&here)?;
    let credential = block_on(sign_in(config, &here.file(), LoginWay::Browser))?;
    say(&signed_in(&credential));
    Ok(())
}

/// What the welcome depends on.
#[derive(Debug)]
struct UpFacts {
    sim: bool,
    backend: BackendKind,
    /// The command that signs in.
    login: String,
    key: ClientKey,
}

/// What clients have to send as their key.
#[derive(Debug)]
enum ClientKey {
    /// Whatever they like.
    Any,
    /// There is a key file, and no key in it.
    NoneYet,
    From(SettingOrigin),
}

impl UpFacts {
    fn of(loaded: &Loaded) -> Self {
        Self {
            sim: matches!(loaded.config.backend, Backend::Sim { .. }),
            backend: loaded.config.backend_kind(),
            login: login_command(&loaded.config),
            key: match &loaded.config.access.api_key {
                Some(_) => ClientKey::From(loaded.key_from.clone()),
                // If the file cannot be used, the server reports it.
                None => match keys::policy(loaded.config.access.keys_file.as_deref()) {
                    Ok(KeyPolicy::Open) => ClientKey::Any,
                    Ok(KeyPolicy::Shut) => ClientKey::NoneYet,
                    Ok(KeyPolicy::Keys) | Err(_) => {
                        ClientKey::From(SettingOrigin::Detected("ibeam keys"))
                    }
                },
            },
        }
    }
}

fn welcome(url: &str, place: &Listen, also: &[String], facts: &UpFacts) -> String {
    let also: String = also.iter().map(|url| format!("  Also at    {url}\n")).collect();
    let how = match place {
        Listen::Tcp(address) => at_port(url, *address, &also, &facts.key),
        Listen::Unix(path) => at_socket(path, &also, &facts.key),
    };
    format!("\n{}\n\n{how}{}", headline(facts), trial(url, place, &facts.key))
}

fn headline(facts: &UpFacts) -> String {
    let (version, row) = (env!("CARGO_PKG_VERSION"), facts.backend.row());
    match facts.sim {
        true => format!("ibeam {version} is up: {} answers (no account, no model).", row.simulator),
        false => format!("ibeam {version} is up. Backend `{}`: {}.", row.name, row.description),
    }
}

/// How to use the gateway at a port.
fn at_port(url: &str, address: SocketAddr, also: &str, client_key: &ClientKey) -> String {
    let (shown, value) = key(client_key);
    let exposed = match address.ip().is_unspecified() {
        true => format!(
            "  Listening  {address} (all interfaces)
             add the names that other machines use for it to `allowed_hosts`
"
        ),
        false => String::new(),
    };
    format!(
        "  Base URL   {url}/v1
  API key    {shown}
{also}{exposed}
For OpenAI clients:

  export OPENAI_BASE_URL={url}/v1
  export OPENAI_API_KEY={value}

For Anthropic clients:

  export ANTHROPIC_BASE_URL={url}
  export ANTHROPIC_API_KEY={value}

All endpoints, with examples: {url}/docs
"
    )
}

/// How to use the gateway at a socket.
fn at_socket(path: &Path, also: &str, client_key: &ClientKey) -> String {
    let (shown, _) = key(client_key);
    format!(
        "  Socket     {path}
  API key    {shown}
{also}
A base URL cannot name a socket, so only clients with a setting for one can use
it, and give `http://localhost/v1` as their URL. In Python:

  import httpx, openai, os
  socket = httpx.HTTPTransport(uds='{path}')
  client = openai.OpenAI(base_url='http://localhost/v1',
                         api_key={python},
                         http_client=httpx.Client(transport=socket))

All others need a port: `ibeam up` without `--listen`.
",
        path = path.display(),
        python = python(client_key),
    )
}

/// A first request.
fn trial(url: &str, place: &Listen, client_key: &ClientKey) -> String {
    let (_, value) = key(client_key);
    let (url, socket) = match place {
        Listen::Tcp(_) => (url, String::new()),
        // The name in the URL is a formality.
        Listen::Unix(path) => {
            ("http://localhost", format!("--unix-socket '{}' \\\n    ", path.display()))
        }
    };
    let header = match (client_key, place) {
        (ClientKey::Any, _) => String::new(),
        (_, Listen::Tcp(_)) => "-H \"authorization: Bearer $OPENAI_API_KEY\" \\\n    ".to_owned(),
        (_, Listen::Unix(_)) => {
            let value = value.trim_matches(['\'', '"']);
            format!("-H \"authorization: Bearer {value}\" \\\n    ")
        }
    };
    format!(
        "
Try it:

  curl -N {socket}{url}/v1/chat/completions \\
    {header}-H 'content-type: application/json' \\
    -d '{{\"model\":\"auto\",\"stream\":true,
         \"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'

Ctrl-C stops it.
",
    )
}

/// The key for clients: how it is described, and what stands for it in a command. Never
/// the key itself: terminals are shared and logged.
fn key(key: &ClientKey) -> (String, String) {
    let origin = match key {
        ClientKey::Any => {
            return (
                "any text; keys are not checked on this \
                     machine"
                    .to_owned(),
                "ibeam".to_owned(),
            );
        }
        ClientKey::NoneYet => {
            let shown = "none yet, so no client can call; `ibeam keys add NAME` creates one";
            return (shown.to_owned(), "'<your key>'".to_owned());
        }
        ClientKey::From(origin) => origin,
    };
    match origin {
        SettingOrigin::Env(name) => (format!("the one in {name}"), format!("\"${name}\"")),
        SettingOrigin::File(path) => {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            (format!("`api_key` in {}", path.display()), format!("'<the key from {name}>'"))
        }
        SettingOrigin::Flag(flag) => {
            (format!("the one given with {flag}"), format!("'<the key given with {flag}>'"))
        }
        SettingOrigin::Detected(what) => (format!("one of `{what}`"), "'<your key>'".to_owned()),
        SettingOrigin::Default => ("the one you set".to_owned(), "'<your key>'".to_owned()),
    }
}

/// The same as a Python expression.
fn python(key: &ClientKey) -> String {
    match key {
        ClientKey::Any => "'ibeam'".to_owned(),
        ClientKey::From(SettingOrigin::Env(name)) => format!("os.environ['{name}']"),
        ClientKey::NoneYet | ClientKey::From(_) => "'<your key>'".to_owned(),
    }
}

/// Comes after the welcome, as soon as the list is there.
fn models_line(sim: bool, models: Result<&usize, &TurnError>) -> String {
    match models {
        Ok(count) => {
            let flag = if sim { " --sim" } else { "" };
            format!("{count} models are ready; `ibeam models{flag}` lists them.")
        }
        Err(error) => match advice(error) {
            Some(advice) => format!("error: {}\nhint: {advice}", error.message),
            None => format!("error: {}", error.message),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const HERE: Listen =
        Listen::Tcp(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1));

    fn facts(sim: bool, key: ClientKey) -> UpFacts {
        UpFacts { sim, backend: BackendKind::Agent, login: String::new(), key }
    }

    fn shown(key: ClientKey) -> String {
        let text = welcome("http://127.0.0.1:18741", &HERE, &[], &facts(false, key));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text
    }

    #[test]
    fn welcome_shows_the_first_steps() {
        let text = welcome("http://127.0.0.1:1", &HERE, &[], &facts(true, ClientKey::Any));
        assert!(text.contains("simulator"), "{text}");
        assert!(text.contains("OPENAI_BASE_URL=http://127.0.0.1:1/v1"), "{text}");
        // Its clients add the version themselves.
        assert!(text.contains("ANTHROPIC_BASE_URL=http://127.0.0.1:1\n"), "{text}");
        assert!(text.contains("http://127.0.0.1:1/docs"), "{text}");
        let body = text.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["messages"][0]["content"], "Hello");
        // The state of the account is not known yet.
        assert!(!shown(ClientKey::Any).contains("models of your"));
    }

    #[test]
    fn the_key_is_named_by_its_true_origin() {
        let text = shown(ClientKey::From(SettingOrigin::Env("IBEAM_API_KEY".to_owned())));
        assert!(text.contains("OPENAI_API_KEY=\"$IBEAM_API_KEY\""), "{text}");
        assert!(text.contains("Bearer $OPENAI_API_KEY"), "{text}");
        let text =
            shown(ClientKey::From(SettingOrigin::File(PathBuf::from("/home/me/config.toml"))));
        assert!(text.contains("OPENAI_API_KEY='<the key from config.toml>'"), "{text}");
        assert!(text.contains("in /home/me/config.toml"), "{text}");
        assert!(!text.contains("IBEAM_API_KEY"), "{text}");
        let text = shown(ClientKey::From(SettingOrigin::Flag("--set".to_owned())));
        assert!(text.contains("'<the key given with --set>'"), "{text}");
    }

    #[test]
    fn exposed_listener_is_announced() {
        let all = Listen::Tcp(SocketAddr::from(([0, 0, 0, 0], 18741)));
        let facts = facts(true, ClientKey::From(SettingOrigin::Flag("--set".to_owned())));
        let text = welcome("http://127.0.0.1:18741", &all, &[], &facts);
        assert!(text.contains("0.0.0.0:18741 (all interfaces)"), "{text}");
        assert!(text.contains("`allowed_hosts`"), "{text}");
        assert!(!shown(ClientKey::Any).contains("`allowed_hosts`"));
    }

    /// No client gets in, and the welcome does not say that any would.
    #[test]
    fn key_file_without_keys_is_announced() {
        let text = shown(ClientKey::NoneYet);
        assert!(text.contains("API key    none yet") && text.contains("keys add"), "{text}");
        assert!(!text.contains("keys are not checked"), "{text}");
        assert!(text.contains("Bearer $OPENAI_API_KEY"), "{text}");
    }

    /// What is printed works for a socket, and nothing is that does not.
    #[test]
    fn socket_is_shown_with_its_usage() {
        let place = Listen::Unix(PathBuf::from("/run/me/ibeam.sock"));
        let welcome = |key| welcome("unix:/run/me/ibeam.sock", &place, &[], &facts(true, key));
        let text = welcome(ClientKey::Any);
        assert!(text.contains("Socket     /run/me/ibeam.sock"), "{text}");
        let curl = "curl -N --unix-socket '/run/me/ibeam.sock' \\\n    http://localhost/v1/chat";
        assert!(text.contains(curl) && text.contains("uds='/run/me/ibeam.sock'"), "{text}");
        for wrong in ["unix:", "export", "_BASE_URL", "Base URL", "/docs"] {
            assert!(!text.contains(wrong), "{wrong} in {text}");
        }
        let text = welcome(ClientKey::From(SettingOrigin::Env("IBEAM_API_KEY".to_owned())));
        assert!(text.contains("Bearer $IBEAM_API_KEY\""), "{text}");
        assert!(text.contains("os.environ['IBEAM_API_KEY']"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn missing_model_list_is_explained() {
        let error = TurnError::new(ErrorCode::Internal, "Cursor is down.");
        assert_eq!(models_line(false, Err(&error)), "error: Cursor is down.");
        let error = TurnError::new(ErrorCode::Unavailable, "No.");
        assert!(models_line(false, Err(&error)).contains("\nhint: try again"));
        // What helps against this one is in its message.
        let error = TurnError::new(ErrorCode::NotAuthenticated, "Run `ibeam login`.");
        assert_eq!(models_line(false, Err(&error)), "error: Run `ibeam login`.");
        assert_eq!(
            models_line(true, Ok(&7)),
            "7 models are ready; `ibeam models --sim` lists them."
        );
    }
}
