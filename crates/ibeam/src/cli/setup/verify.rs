//! What `ibeam setup` tries once the files are written: the client itself, where it is
//! installed and can be used without a person, else the gateway in its stead.

use super::gateway;
use crate::{
    cli::{Refusal, block_on, say},
    clients::{ClientSpec, UserMachine, Wiring, verify::VerifyError},
};
use ibeam_server::{
    config::{Backend, Config},
    net::connect::Host,
    tasks::Tasks,
};

/// Who got an answer, and did what a tool is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verification {
    Client,
    Gateway,
}

impl Verification {
    pub(super) fn words(self, client: &ClientSpec) -> String {
        match self {
            Self::Client => format!(
                "Tried: {} answered and used a tool of its own, through the gateway.",
                client.title
            ),
            Self::Gateway => {
                "Tried: the gateway streams an answer and a tool call, as this client asks for them."
                    .to_owned()
            }
        }
    }
}

/// # Errors
/// Who did not do it, and why.
pub(super) fn verify(
    client: &ClientSpec,
    machine: &UserMachine,
    wiring: &Wiring,
    config: &Config,
) -> anyhow::Result<Verification> {
    let model = &wiring.model;
    let probe = client.probe(machine);
    if !matches!(config.backend, Backend::Sim { .. }) {
        let through = if probe.is_some() { "by that client" } else { "itself" };
        say(&format!(
            "Tries it with a short question or two, {through}, at the cost of your plan."
        ));
    }
    let Some(probe) = probe else {
        return match ask_gateway(client, wiring, config)? {
            Ok(()) => Ok(Verification::Gateway),
            Err(error) => {
                let text =
                    format!("{} is set up, but the gateway did not answer: {error}", client.title);
                Err(refused(text, client).into())
            }
        };
    };
    say(&format!("Waiting for {} to answer.", client.title));
    let Err(error) = block_on(async { Ok(probe.run(model).await) })? else {
        return Ok(Verification::Client);
    };
    // Which of the two is to blame decides where to look.
    let gateway = match ask_gateway(client, wiring, config)? {
        Ok(()) => "The gateway itself answers.".to_owned(),
        Err(error) => format!("Neither does the gateway: {error}"),
    };
    let text = format!("{} is set up, but tried out, {error}\n{gateway}", client.title);
    Err(refused(text, client).hint(format!("{} says what to check", client.page)).into())
}

fn refused(text: String, client: &ClientSpec) -> Refusal {
    Refusal::new(text)
        .hint("`ibeam doctor` finds out why")
        .hint(format!("`ibeam undo {}` takes the setup back", client.name))
}

fn ask_gateway(
    client: &ClientSpec,
    wiring: &Wiring,
    config: &Config,
) -> anyhow::Result<Result<(), VerifyError>> {
    let host = Host::parse(&wiring.url)?;
    block_on(async {
        let tasks = Tasks::new();
        let gateway = gateway(config, &host, wiring.key.clone(), &tasks);
        Ok(gateway.verify(client.speaks, &wiring.model).await)
    })
}
