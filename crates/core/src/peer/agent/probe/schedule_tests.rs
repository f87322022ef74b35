use super::*;

fn list() -> ModelList {
    let model = |id: &str| ModelInfo::from_id(id);
    let thinking = ModelInfo {
        thinking: true,
        parameters: vec![crate::models::ParameterInfo {
            id: "thinking".into(),
            values: vec!["false".into(), "true".into()],
        }],
        ..model("claude-opus-5")
    };
    let costly = ModelInfo { max_mode: true, ..model("claude-opus-4-7-mini") };
    ModelList::new(vec![
        model("default"),
        model("composer-2.5"),
        costly,
        thinking,
        model("claude-haiku-4-5"),
        model("gpt-5.5"),
        model("gpt-5.4-mini"),
        model("grok-4.5"),
    ])
}

fn asked(question: ProbeQuestion, named: &[&str]) -> Vec<String> {
    let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
    let items = schedule(&[question], &list(), &named, UnknownName::Refuse).unwrap();
    items.into_iter().filter_map(|item| item.model).map(|model| model.id).collect()
}

#[test]
fn the_smallest_model_of_each_family_is_asked() {
    let families = ["composer-2.5", "default", "claude-haiku-4-5", "gpt-5.4-mini", "grok-4.5"];
    assert_eq!(asked(ProbeQuestion::ResumedPrompt, &[]), families);
    assert_eq!(asked(ProbeQuestion::PartialArguments, &[]), ["default"]);
    assert_eq!(asked(ProbeQuestion::RootLimit, &[]), ["claude-haiku-4-5"]);
    assert_eq!(asked(ProbeQuestion::ReasoningReplay, &[]), ["claude-opus-5"]);
    assert!(asked(ProbeQuestion::UsageCall, &[]).is_empty());
}

#[test]
fn named_models_take_their_place() {
    let named = ["gpt-5.5", "auto"];
    assert_eq!(asked(ProbeQuestion::ResumedPrompt, &named), ["gpt-5.5", "default"]);
    assert_eq!(asked(ProbeQuestion::RootLimit, &named), ["gpt-5.5"]);
    let unknown = ["no-such-model".to_owned()];
    let refused = schedule(&ProbeQuestion::ALL, &list(), &unknown, UnknownName::Refuse);
    assert_eq!(refused.unwrap_err().code, crate::error::ErrorCode::ModelNotFound);
}

#[test]
fn thinking_is_asked_for_where_a_model_has_the_choice() {
    let items =
        schedule(&[ProbeQuestion::ReasoningReplay], &list(), &[], UnknownName::Refuse).unwrap();
    let model = items[0].model.clone().unwrap();
    assert!(model.parameters.contains(&("thinking".into(), "true".into())), "{model:?}");
}

#[test]
fn only_answers_about_models_name_one() {
    let items = schedule(&ProbeQuestion::ALL, &list(), &[], UnknownName::Refuse).unwrap();
    let named = items.iter().filter(|item| item.subject().is_some()).count();
    assert_eq!((named, items.len()), (5, 21));
}
