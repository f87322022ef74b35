//! The list of models, as it is merged, shown and stored.

use super::*;

#[test]
fn both_lists_of_the_backend_are_merged() {
    let usable = [
        ModelDetails {
            model_id: "gpt-5.4".to_owned(),
            display_name: "GPT-5.4".to_owned(),
            aliases: vec!["gpt-latest".to_owned()],
            ..ModelDetails::default()
        },
        ModelDetails { model_id: "glm-5.2".to_owned(), ..ModelDetails::default() },
    ];
    let available = [AvailableModel {
        name: "gpt-5.4".to_owned(),
        supports_images: Some(false),
        context_token_limit: Some(111_000),
        id_aliases: vec!["gpt-now".to_owned()],
        ..AvailableModel::default()
    }];
    let list = ModelList::merge(&usable, &available);
    assert_eq!(list.len(), 2);
    let gpt = &list.models()[0];
    assert_eq!((gpt.name.as_str(), gpt.images, gpt.context_window), ("GPT-5.4", false, 111_000));
    assert_eq!(gpt.aliases, ["gpt-now", "gpt-latest"]);
    check(&list, &[("gpt-now", None, "gpt-5.4 []"), ("gpt-latest", None, "gpt-5.4 []")]);
}

#[test]
fn slugs_of_a_parameterised_model_resolve_but_are_not_listed() {
    let details = |id: &str| ModelDetails { model_id: id.to_owned(), ..ModelDetails::default() };
    let usable = ["gpt-5.4", "gpt-5.4-high", "gpt-5.4-thinking", "gpt-5.4-fast", "glm-5.2-high"];
    let available = [AvailableModel {
        name: "gpt-5.4".to_owned(),
        parameter_definitions: vec![parameter("reasoning", &["low", "high"])],
        ..AvailableModel::default()
    }];
    let list = ModelList::merge(&usable.map(details), &available);
    let shown: Vec<&str> = list.visible().map(|model| model.id.as_str()).collect();
    // There is no `fast` to ask the base for, and no base of the last one.
    assert_eq!(shown, ["gpt-5.4", "gpt-5.4-fast", "glm-5.2-high"]);
    assert_eq!(list.models()[0].efforts().collect::<Vec<_>>(), ["low", "high"]);
    check(&list, &[("gpt-5.4-high", None, "gpt-5.4 [reasoning=high]")]);
}

#[test]
fn longest_prefix_decides_limits_and_owner() {
    let rows = [
        ("claude-opus-4-8-high", 300_000, 64_000, "anthropic"),
        ("claude-sonnet-5", 200_000, 32_000, "anthropic"),
        ("claude-fable-5", 300_000, 64_000, "anthropic"),
        ("composer-2.5", 200_000, 32_000, "cursor"),
        ("default", 200_000, 32_000, "cursor"),
        ("gpt-5-mini", 272_000, 32_000, "openai"),
        ("gpt-5.5", 272_000, 64_000, "openai"),
        ("gpt-5.6-sol", 272_000, 64_000, "openai"),
        ("gpt-5.6-luna", 272_000, 32_000, "openai"),
        ("o3", 200_000, 32_000, "openai"),
        ("opaque", 200_000, 32_000, "cursor"),
        ("grok-4.5", 256_000, 32_000, "xai"),
        ("cursor-grok-4.6-high", 200_000, 32_000, "xai"),
        ("gemini-3.1-pro", 200_000, 32_000, "google"),
        ("kimi-k3-high", 200_000, 32_000, "moonshotai"),
        ("glm-5.2", 200_000, 32_000, "zai"),
    ];
    for (id, context, output, owner) in rows {
        let model = ModelInfo::from_id(id);
        assert_eq!(
            (model.context_window, model.output_limit, model.owner()),
            (context, output, owner),
            "{id}"
        );
    }
}

#[test]
fn model_list_round_trips_as_json() {
    let list = parameters();
    let text = serde_json::to_string(&list).unwrap();
    assert_eq!(serde_json::from_str::<ModelList>(&text).unwrap(), list);
}

#[test]
fn date_after_an_available_version_is_ignored() {
    let ids = ["claude-opus-5", "claude-opus-4-5", "claude-4.6-sonnet", "claude-sonnet-5"];
    let list = ModelList::new(ids.map(ModelInfo::from_id).to_vec());
    for (name, id) in [
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-opus-4-5-latest", "claude-opus-4-5"),
        ("anthropic/claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-opus-4-1-20250805", "claude-opus-5"),
        ("claude-sonnet-4-6-20260101", "claude-4.6-sonnet"),
        ("claude-3-5-haiku-20241022", "claude-sonnet-5"),
        ("claude-2.1", "claude-sonnet-5"),
        ("opus", "claude-opus-5"),
    ] {
        assert_eq!(list.resolve(name, None).unwrap().wire_id, id, "{name}");
    }
}

#[test]
fn anthropics_names_are_shown_with_what_they_mean() {
    let ids = ["claude-opus-5", "claude-haiku-4-5", "claude-sonnet-5"];
    let rows = ModelList::new(ids.map(ModelInfo::from_id).to_vec()).aliases();
    for (name, id) in [
        ("claude-haiku-4-5", "claude-haiku-4-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-3-5-haiku-20241022", "claude-haiku-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-5"),
        ("claude-*", "claude-sonnet-5"),
    ] {
        assert!(rows.contains(&(name.to_owned(), id.to_owned())), "{name}: {rows:?}");
    }
    // Without any, they leave the choice to the backend.
    let rows = ModelList::new(vec![ModelInfo::from_id("default")]).aliases();
    assert!(rows.contains(&("claude-3-5-haiku-20241022".to_owned(), "auto".to_owned())));
}

#[test]
fn shown_aliases_lead_to_listed_models() {
    let list = slugs();
    let rows = list.aliases();
    assert!(rows.contains(&("sonnet".to_owned(), "claude-sonnet-5".to_owned())));
    assert!(rows.contains(&("fable".to_owned(), "fable-5".to_owned())));
    for (alias, target) in rows {
        let direct = list.resolve(&target, None).unwrap();
        assert_eq!(list.resolve(&alias, None).unwrap().wire_id, direct.wire_id, "{alias}");
    }
}
