//! The simulator as a process of its own, so that its work is not the client's.

use std::net::Ipv4Addr;

use anyhow::Context as _;
use ibeam_sim::{Scenario, Sim, SimConfig};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::rules::{Size, scenario};

pub(crate) async fn run(port: u16, size: Size) -> anyhow::Result<()> {
    let scenario = Scenario::from_toml(&scenario(size)).context("the bench's scenario")?;
    let mut config = SimConfig { max_concurrent_streams: 200, ..SimConfig::scenario(scenario) };
    config.sign_in.any_token = true;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    Sim::new(config).serve(listener, None, CancellationToken::new()).await;
    Ok(())
}
