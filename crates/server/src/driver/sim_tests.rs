//! The driver against the simulator. Whole turns are in `tests/it`.

use std::sync::Arc;

use ibeam_sim::{Sim, SimConfig, SimHttp2};
use secrecy::SecretString;

use super::*;
use crate::{
    net::{connect::Connector, testing::host},
    tasks::Tasks,
};

fn driver(sim: &Sim) -> AgentDriver {
    let sim = sim.clone();
    let connector = Connector::Memory(Arc::new(move || sim.connect()));
    AgentDriver::new(AgentConfig::new(host()), &connector, &Tasks::new())
}

#[tokio::test(start_paused = true)]
async fn model_list_is_served() {
    let sim = Sim::new(SimConfig::default());
    let driver = driver(&sim);
    let models = driver.models(SecretString::from(Sim::TOKEN)).await.unwrap();
    assert!(models.iter().any(|model| model.id == "default"), "{models:?}");
    assert!(models.iter().any(|model| !model.parameters.is_empty()), "{models:?}");
    let refused = driver.models(SecretString::from("wrong")).await.unwrap_err();
    assert_eq!(refused.code, ibeam_core::error::ErrorCode::NotAuthenticated);
    assert_eq!(sim.stats().violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn server_without_http2_gets_http1() {
    let sim = Sim::new(SimConfig { http2: SimHttp2::NotOffered, ..SimConfig::default() });
    let driver = driver(&sim);
    let open = Open {
        token: SecretString::from(Sim::TOKEN),
        tokens: None,
        request_id: crate::random::uuid(),
        original_request_id: crate::random::uuid(),
        peer: ibeam_core::peer::agent::AgentOpen::default(),
    };
    let link = driver.open(open).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert_eq!(driver.stats().http1_streams, 1);
    assert!(driver.stats().fallen_back);
    assert_eq!(sim.stats().requests.get("/agent.v1.AgentService/RunSSE"), Some(&1));
    drop(link);
}
