use serde_json::{Value, json};

use super::*;

fn offer(opened: &Value) -> ModelOffer {
    let raw = RawValue::from_string(opened.to_string()).unwrap();
    ModelOffer::read(Some(&raw))
}

fn set(model: &str) -> Result<ModelChoice, TurnError> {
    Ok(ModelChoice::Set(model.to_owned()))
}

fn option(values: &Value) -> Value {
    json!({"configOptions": [
        {"id": "mode", "category": "mode", "type": "select", "currentValue": "agent", "options": [{"value": "ask"}]},
        {"id": "llm", "category": "model", "type": "select", "currentValue": "a[fast=true]", "options": values},
    ]})
}

#[test]
fn models_are_read_from_both_formats() {
    let values = json!([{"value": "a[fast=true]", "name": "A"}, {"value": "b"}, 7, {"value": 8}]);
    let expected = ModelOffer {
        option: "llm".to_owned(),
        ids: vec!["a[fast=true]".to_owned(), "b".to_owned()],
        current: Some("a[fast=true]".to_owned()),
    };
    assert_eq!(offer(&option(&values)), expected);
    let groups = json!([{"group": "g", "name": "G", "options": values}]);
    assert_eq!(offer(&option(&groups)), expected);

    let models = json!({"models": {"currentModelId": "b", "availableModels": [{"modelId": "b", "name": "B"}]}});
    let plain = ModelOffer {
        option: "model".to_owned(),
        ids: vec!["b".to_owned()],
        current: Some("b".to_owned()),
    };
    assert_eq!(offer(&models), plain);
    // An option without values does not count.
    let mut both = option(&json!([]));
    both["models"] = models["models"].clone();
    assert_eq!(offer(&both), plain);
    for nothing in [json!({}), json!(null), json!({"models": 7, "configOptions": {}})] {
        assert_eq!(
            offer(&nothing),
            ModelOffer { option: "model".to_owned(), ..ModelOffer::default() }
        );
    }
}

#[test]
fn the_closest_model_is_chosen() {
    let values =
        ["a[fast=true]", "a[fast=false]", "gpt-5.4[reasoning=high]", "gpt-5.4", "default[]"];
    let values: Vec<Value> = values.iter().map(|value| json!({"value": value})).collect();
    let offer = offer(&option(&json!(values)));
    assert_eq!(offer.choose("a"), set("a[fast=false]"));
    assert_eq!(offer.choose("a-fast"), Ok(ModelChoice::Stay), "it is the current one");
    assert_eq!(offer.choose("a[fast=true]"), Ok(ModelChoice::Stay));
    assert_eq!(offer.choose("a-thinking"), Ok(ModelChoice::Stay), "nothing fits better");
    assert_eq!(offer.choose("gpt-5.4-high"), set("gpt-5.4[reasoning=high]"));
    assert_eq!(offer.choose("gpt-5.4"), set("gpt-5.4"));
    assert_eq!(offer.choose("auto"), set("default[]"));
    assert_eq!(offer.choose(""), Ok(ModelChoice::Stay));
    let error = offer.choose("c").unwrap_err();
    assert_eq!(error.code, ErrorCode::ModelNotFound);
    assert_eq!(error.param.as_deref(), Some("model"));
    assert!(error.message.contains("`c`") && error.message.contains("gpt-5.4,"), "{error}");
}

#[test]
fn no_model_is_set_without_a_list() {
    assert_eq!(offer(&json!({})).choose("anything"), Ok(ModelChoice::Stay));
    let one = offer(&json!({"models": {"availableModels": [{"modelId": "a"}]}}));
    assert_eq!(one.choose("auto"), Ok(ModelChoice::Stay), "left to the agent");
}

#[test]
fn error_names_at_most_forty_models() {
    let values: Vec<Value> = (0..100).map(|n| json!({"value": format!("m{n}")})).collect();
    let error = offer(&option(&json!(values))).choose("x").unwrap_err();
    assert!(error.message.contains("m39") && !error.message.contains("m40"), "{error}");
    assert!(error.message.ends_with("…."), "{error}");
}
