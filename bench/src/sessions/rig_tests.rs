use ibeam_sim::Scenario;
use serde_json::json;

use super::{SimulatorCounters, scenario};

#[test]
fn scenario_is_valid() {
    assert_eq!(Scenario::from_toml(&scenario()).unwrap().rules.len(), 2);
}

#[test]
fn missing_counter_is_named() {
    let error = SimulatorCounters::of(&json!({ "runs_started": 1 })).unwrap_err();
    assert!(error.to_string().contains("bootstraps"), "{error}");
}
