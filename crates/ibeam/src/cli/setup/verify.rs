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

/// What the test was done with: an answer and a tool call.
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
                "Tested: {} answered and used one of its tools through the gateway.",
                client.title
            ),
            Self::Gateway => {
                "Tested: the gateway streams an answer and a tool call in this client's format."
                    .to_owned()
            }
        }
    }
}

/// # Errors
/// What failed, and why.
pub(super) fn verify(
    client: &ClientSpec,
    machine: &UserMachine,
    wiring: &Wiring,
    config: &Config,
) -> anyhow::Result<Verification> {
    let model = &wiring.model;
    let probe = client.probe(machine);
    if !matches!(config.backend, Backend::Sim { .. }) {
        let through = if probe.is_some() { "with that client" } else { "itself" };
        say(&format!(
            "Testing it with one or two short requests, {through}; they count towards your plan."
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
        Err(error) => format!("The gateway itself fails, too: {error}"),
    };
    let text = format!("{} is set up, but its test failed: {error}\n{gateway}", client.title);
    Err(refused(text, client).hint(format!("{} lists what to check", client.page)).into())
}

fn refused(text: String, client: &ClientSpec) -> Refusal {
    Refusal::new(text)
        .hint("`ibeam doctor` shows why")
        .hint(format!("`ibeam undo {}` undoes the setup", client.name))
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
