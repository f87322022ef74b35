use ibeam_sim::Scenario;
use serde_json::json;

use super::{Counters, scenario};

#[test]
fn the_scenario_is_one() {
    assert_eq!(Scenario::from_toml(&scenario()).unwrap().rules.len(), 2);
}

#[test]
fn a_counter_that_is_missing_is_named() {
    let error = Counters::of(&json!({ "runs_started": 1 })).unwrap_err();
    assert!(error.to_string().contains("bootstraps"), "{error}");
}
