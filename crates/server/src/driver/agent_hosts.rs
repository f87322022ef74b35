//! Where runs are sent: to the host that the service names for the account, unless the user named
//! one. The hosts that it names speak HTTP/2 only.

use std::time::Duration;

use ibeam_proto::agent::AgentUrlConfig;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    net::{
        connect::{Connector, Host},
        hosts,
        pool::{Pool, PoolConfig, PoolStats},
    },
    tasks::Tasks,
};

/// For so long after one of them could not be reached, runs go to the API's own host.
const AVOIDED: Duration = Duration::from_secs(600);

/// So many hosts have connections: the API's, and the two that the service names.
const POOLS: usize = 3;

/// The choice of a host.
#[derive(Debug)]
pub(super) struct RunHosts {
    api: Host,
    /// The service names the hosts.
    follows: bool,
    /// Accounts in privacy mode have a host of their own.
    privacy: bool,
    state: Mutex<HostState>,
}

#[derive(Debug, Default)]
struct HostState {
    /// What the service named: that of this account's mode first.
    named: Vec<Host>,
    /// Taken instead of the first, which does not serve this region.
    preferred: Option<Host>,
    /// How often that was changed.
    changes: u64,
    /// The named hosts cannot be reached until then.
    avoided: Option<Instant>,
}

impl RunHosts {
    pub(super) fn new(api: Host, follows: bool, privacy: bool) -> Self {
        Self { api, follows, privacy, state: Mutex::default() }
    }

    pub(super) fn follows_service(&self) -> bool {
        self.follows
    }

    /// What the service names now. Hosts that are not its own are left out.
    pub(super) fn note(&self, urls: Option<&AgentUrlConfig>) {
        let Some(urls) = urls.filter(|_| self.follows) else { return };
        let (private, public) = (&urls.agent_url, &urls.agentn_url);
        let order = if self.privacy { [private, public] } else { [public, private] };
        let named = order.into_iter().filter_map(|url| hosts::named_by_service(url)).collect();
        self.state.lock().named = named;
    }

    /// The host for the next run.
    pub(super) fn current(&self) -> Host {
        self.choose(&self.state.lock())
    }

    /// How often the host was changed; `None` if the user named it.
    pub(super) fn changes(&self) -> Option<u64> {
        self.follows.then(|| self.state.lock().changes)
    }

    /// `failed` does not serve this region. Another host is taken, unless that was done already
    /// since the turn began, at `changes`.
    pub(super) fn change(&self, changes: u64, failed: &Host) {
        let mut state = self.state.lock();
        if state.changes != changes {
            return;
        }
        state.changes += 1;
        // The newest answer of the service may have named another one.
        if self.choose(&state) == *failed {
            let others = state.named.iter().chain([&self.api]);
            let other = others.into_iter().find(|host| *host != failed).cloned();
            state.preferred = other;
        }
        tracing::info!(from = %failed, to = %self.choose(&state), "another host, for the region");
    }

    /// The named hosts cannot be reached from here.
    pub(super) fn avoid(&self) {
        self.state.lock().avoided = Some(Instant::now() + AVOIDED);
    }

    fn choose(&self, state: &HostState) -> Host {
        let avoided = state.avoided.is_some_and(|until| Instant::now() < until);
        if avoided || !self.follows {
            return self.api.clone();
        }
        let is_named = |host: &&Host| state.named.contains(host) || **host == self.api;
        let chosen = state.preferred.as_ref().filter(is_named).or(state.named.first());
        chosen.unwrap_or(&self.api).clone()
    }
}

/// The connections to each host.
#[derive(Debug)]
pub(super) struct HostPools {
    connector: Connector,
    config: PoolConfig,
    tasks: Tasks,
    made: Mutex<Vec<(Host, Pool)>>,
}

impl HostPools {
    pub(super) fn new(connector: Connector, config: PoolConfig, tasks: Tasks) -> Self {
        Self { connector, config, tasks, made: Mutex::default() }
    }

    pub(super) fn of(&self, host: &Host) -> Pool {
        let mut made = self.made.lock();
        if let Some((_, pool)) = made.iter().find(|(of, _)| of == host) {
            return pool.clone();
        }
        // The service has named others since: those streams go on without their pool.
        if made.len() >= POOLS {
            made.remove(0);
        }
        let (connector, config) = (self.connector.clone(), self.config.clone());
        let pool = Pool::new(host.clone(), connector, config, self.tasks.clone());
        made.push((host.clone(), pool.clone()));
        pool
    }

    pub(super) fn stats(&self) -> PoolStats {
        self.made.lock().iter().fold(PoolStats::default(), |sum, (_, pool)| {
            let stats = pool.stats();
            PoolStats {
                connections: sum.connections + stats.connections,
                streams: sum.streams + stats.streams,
            }
        })
    }
}

#[cfg(test)]
#[path = "agent_hosts_tests.rs"]
mod tests;
