use ibeam_proto::{
    agent::{ModelDetails, ThinkingDetails},
    aiserver::{
        AvailableModel, ParameterDefinition, ParameterType, ParameterValue, ParameterValues,
        Variant, VariantParameter, parameter_type,
    },
};

use super::*;
use crate::{error::ErrorCode, model::Effort};

/// A list as `GetUsableModels` gives it: slugs, no parameters.
pub(super) fn slugs() -> ModelList {
    let details = |id: &str| ModelDetails { model_id: id.to_owned(), ..ModelDetails::default() };
    let mut usable: Vec<ModelDetails> = [
        "default",
        "composer-2.5",
        "composer-2.5-fast",
        "claude-opus-4-8",
        "claude-opus-4-8-high",
        "claude-opus-4-8-thinking-high",
        "claude-opus-4-7-thinking-max",
        "claude-4.6-opus-high-thinking-fast",
        "claude-sonnet-5",
        "claude-sonnet-5-high",
        "claude-sonnet-5-thinking-medium",
        "claude-sonnet-4-6",
        "claude-4.5-sonnet-thinking",
        "claude-haiku-4-5",
        "gpt-5.6-sol",
        "gpt-5.6-luna",
        "gpt-5.4",
        "gpt-5.4-high-fast",
        "gpt-5.4-mini",
        "gpt-5.5-extra-high",
        "gpt-5.3-codex",
        "gpt-5.1-codex-max-medium-fast",
        "gpt-4.1",
        "gemini-3.1-pro",
        "gemini-3.6-flash",
        "gemini-3.6-flash-high",
        "cursor-grok-4.6-high",
        "cursor-grok-4.6-xhigh-fast",
        "kimi-k3-high",
        "glm-5.2",
    ]
    .into_iter()
    .map(details)
    .collect();
    usable.push(ModelDetails {
        model_id: "claude-fable-5".to_owned(),
        display_model_id: "fable-5".to_owned(),
        display_name: "Fable 5".to_owned(),
        aliases: vec!["fable".to_owned()],
        thinking_details: Some(ThinkingDetails {}),
        ..ModelDetails::default()
    });
    ModelList::merge(&usable, &[])
}

pub(super) fn parameter(id: &str, values: &[&str]) -> ParameterDefinition {
    let values = values
        .iter()
        .map(|value| ParameterValue { value: (*value).to_owned(), ..ParameterValue::default() })
        .collect();
    ParameterDefinition {
        id: id.to_owned(),
        r#type: Some(ParameterType {
            r#type: Some(parameter_type::Type::Enumeration(ParameterValues { values })),
        }),
        ..ParameterDefinition::default()
    }
}

pub(super) fn variant(name: &str, slug: &str, values: &[(&str, &str)]) -> Variant {
    Variant {
        variant_string_representation: name.to_owned(),
        legacy_slug: slug.to_owned(),
        parameter_values: values
            .iter()
            .map(|(id, value)| VariantParameter {
                id: (*id).to_owned(),
                value: (*value).to_owned(),
            })
            .collect(),
        ..Variant::default()
    }
}

/// A list as `AvailableModels` gives it: base ids with parameters and variants.
fn parameters() -> ModelList {
    let model = |name: &str, definitions: Vec<ParameterDefinition>, variants: Vec<Variant>| {
        AvailableModel {
            name: name.to_owned(),
            parameter_definitions: definitions,
            variants,
            ..AvailableModel::default()
        }
    };
    let on_off = ["true", "false"];
    let mut default = variant("", "", &[("thinking", "true"), ("effort", "high")]);
    default.is_default_non_max_config = Some(true);
    let mut long =
        variant("claude-opus-5[context=1m]", "claude-opus-5-max-mode", &[("context", "1m")]);
    long.is_max_mode = true;
    let mut gpt = model(
        "gpt-5.4",
        vec![
            parameter("reasoning", &["none", "low", "medium", "high", "xhigh"]),
            parameter("fast", &on_off),
        ],
        vec![variant(
            "gpt-5.4[reasoning=high,fast=true]",
            "gpt-5.4-high-fast",
            &[("reasoning", "high"), ("fast", "true")],
        )],
    );
    gpt.legacy_slugs = vec!["gpt-5.4-preview".to_owned()];
    gpt.context_token_limit = Some(272_000);
    gpt.context_token_limit_for_max_mode = Some(1_000_000);
    let mut served = model("sonnet-next", Vec::new(), Vec::new());
    served.server_model_name = Some("claude-sonnet-9".to_owned());
    let mut chat_only = model("chat-only", Vec::new(), Vec::new());
    chat_only.supports_agent = Some(false);
    let available = [
        model("default", Vec::new(), Vec::new()),
        model(
            "claude-opus-5",
            vec![
                parameter("thinking", &on_off),
                parameter("effort", &["low", "medium", "high", "max"]),
                parameter("context", &["300k", "1m"]),
            ],
            vec![default, long],
        ),
        gpt,
        model("composer-2.5", vec![parameter("fast", &on_off)], Vec::new()),
        served,
        chat_only,
    ];
    ModelList::merge(&[], &available)
}

pub(super) fn show(resolved: &Resolved) -> String {
    let parameters: Vec<String> =
        resolved.parameters.iter().map(|(id, value)| format!("{id}={value}")).collect();
    let max = if resolved.max_mode { " max" } else { "" };
    format!("{} [{}]{max}", resolved.wire_id, parameters.join(","))
}

#[track_caller]
pub(super) fn check(list: &ModelList, rows: &[(&str, Option<Effort>, &str)]) {
    for (name, effort, expect) in rows {
        let got = match list.resolve(name, *effort) {
            Ok(resolved) => show(&resolved),
            Err(error) => format!("{:?}", error.code),
        };
        assert_eq!(got, *expect, "for `{name}` with {effort:?}");
    }
}

#[test]
fn names_resolve_in_a_list_of_slugs() {
    let (low, high) = (Some(Effort::Low), Some(Effort::High));
    check(
        &slugs(),
        &[
            // what the list says
            ("claude-sonnet-5", None, "claude-sonnet-5 []"),
            ("claude-sonnet-5-high", None, "claude-sonnet-5-high []"),
            ("fable-5", None, "claude-fable-5 []"),
            ("fable", None, "claude-fable-5 []"),
            ("Claude-Sonnet-5", None, "claude-sonnet-5 []"),
            ("composer-2.5-fast", None, "composer-2.5-fast []"),
            ("gpt-4.1", high, "gpt-4.1 []"),
            // the backend's own choice
            ("auto", None, "default []"),
            ("default", high, "default []"),
            ("default[]", None, "default []"),
            ("cursor/auto", None, "default []"),
            ("auto:high", None, "default []"),
            // prefixes and notes of clients
            ("cursor/gpt-5.4", None, "gpt-5.4 []"),
            ("cursor:gpt-5.4", None, "gpt-5.4 []"),
            ("models/gemini-3.1-pro", None, "gemini-3.1-pro []"),
            (" models/cursor/glm-5.2 ", None, "glm-5.2 []"),
            ("anthropic/claude-sonnet-5", None, "claude-sonnet-5 []"),
            ("claude-opus-4-8[1m]", None, "claude-opus-4-8 []"),
            ("claude-opus-4-8:latest", None, "claude-opus-4-8 []"),
            // efforts of the OpenAI family are parameters, never slugs
            ("gpt-5.4-high-fast", None, "gpt-5.4 [reasoning=high,fast=true]"),
            ("gpt-5.4-low", None, "gpt-5.4 [reasoning=low]"),
            ("gpt-5.4:xhigh", None, "gpt-5.4 [reasoning=xhigh]"),
            ("gpt-5.4", low, "gpt-5.4 [reasoning=low]"),
            ("gpt-5.4-high", low, "gpt-5.4 [reasoning=high]"),
            ("gpt-5.4:high", low, "gpt-5.4 [reasoning=high]"),
            ("gpt-5.4", Some(Effort::Minimal), "gpt-5.4 [reasoning=low]"),
            ("gpt-5.4", Some(Effort::Max), "gpt-5.4 [reasoning=xhigh]"),
            ("gpt-5.4[fast=true]", None, "gpt-5.4 [fast=true]"),
            ("gpt-5.4[reasoning=none, fast=false]", None, "gpt-5.4 [reasoning=none,fast=false]"),
            ("gpt-5.4[context=1m]", None, "gpt-5.4 [context=1m] max"),
            ("gpt-5.4-mini-xhigh", None, "gpt-5.4-mini [reasoning=xhigh]"),
            ("gpt-5.5-extra-high", None, "gpt-5.5 [reasoning=xhigh]"),
            ("gpt-5.5", None, "gpt-5.5 []"),
            ("gpt-5.1-codex-max", None, "gpt-5.1-codex-max []"),
            ("gpt-5.1-codex-max-high", None, "gpt-5.1-codex-max [reasoning=high]"),
            // other families keep their slugs
            ("claude-opus-4-8", high, "claude-opus-4-8-thinking-high []"),
            ("claude-opus-4-8:high", None, "claude-opus-4-8-thinking-high []"),
            ("claude-opus-4-8-high", low, "claude-opus-4-8-high []"),
            ("claude-opus-4-8-thinking", None, "claude-opus-4-8-thinking-high []"),
            ("claude-opus-4-8", Some(Effort::None), "claude-opus-4-8 []"),
            ("claude-opus-4-7", None, "claude-opus-4-7-thinking-max []"),
            ("claude-4.8-opus-high", None, "claude-opus-4-8-high []"),
            ("claude-haiku-4-5", high, "claude-haiku-4-5 []"),
            ("gemini-3.6-flash", high, "gemini-3.6-flash-high []"),
            ("gemini-3.6-flash-high", None, "gemini-3.6-flash-high []"),
            ("kimi-k3", None, "kimi-k3-high []"),
            ("cursor-grok-4.6", None, "cursor-grok-4.6-high []"),
            ("cursor-grok-4.6-fast", None, "cursor-grok-4.6-xhigh-fast []"),
            // the right version by its other spelling or date
            ("claude-sonnet-4-6-20260217", None, "claude-sonnet-4-6 []"),
            ("claude-4.6-sonnet", None, "claude-sonnet-4-6 []"),
            ("sonnet-4.5-thinking", None, "claude-4.5-sonnet-thinking []"),
            ("opus-4.6", None, "claude-4.6-opus-high-thinking-fast []"),
            // unknown
            ("gpt-5.9", None, "ModelNotFound"),
            ("llama-4", None, "ModelNotFound"),
            ("gpt-5.4:loud", None, "ModelNotFound"),
            ("gpt-5.4[loud]", None, "ModelNotFound"),
            ("gemini-9-pro", None, "ModelNotFound"),
            ("", None, "ModelNotFound"),
            ("cursor/", None, "ModelNotFound"),
            ("-high", None, "ModelNotFound"),
        ],
    );
}

#[test]
fn well_known_names_resolve() {
    check(
        &slugs(),
        &[
            ("sonnet", None, "claude-sonnet-5 []"),
            ("sonnet:high", None, "claude-sonnet-5-thinking-medium []"),
            ("opus", None, "claude-opus-4-8 []"),
            ("opus-thinking", None, "claude-opus-4-8-thinking-high []"),
            ("haiku", None, "claude-haiku-4-5 []"),
            ("claude", None, "claude-sonnet-5 []"),
            ("claude-2.1", None, "claude-sonnet-5 []"),
            ("claude-3-5-sonnet-20241022", None, "claude-sonnet-5 []"),
            ("claude-3-7-sonnet-latest", None, "claude-sonnet-5 []"),
            ("claude-3-5-haiku-20241022", None, "claude-haiku-4-5 []"),
            ("claude-3-5-haiku-latest", None, "claude-haiku-4-5 []"),
            ("claude-3-haiku-20240307", None, "claude-haiku-4-5 []"),
            // Claude Code's small model thinks of nothing, or of a budget; both find it.
            ("claude-haiku-4-5-20251001", None, "claude-haiku-4-5 []"),
            ("claude-haiku-4-5-20251001", Some(Effort::None), "claude-haiku-4-5 []"),
            ("claude-haiku-4-5-20251001", Some(Effort::High), "claude-haiku-4-5 []"),
            ("claude-sonnet-4-5-20250929", None, "claude-4.5-sonnet-thinking []"),
            ("claude-sonnet-4-20250514", None, "claude-sonnet-5 []"),
            ("claude-mythos-9-20301231", None, "claude-sonnet-5 []"),
            ("claude-instant-1.2", None, "claude-sonnet-5 []"),
            ("claude-opus-4-20250514", None, "claude-opus-4-8 []"),
            ("claude-opus-4-1[1m]", None, "claude-opus-4-8 []"),
            ("anthropic/claude-3-opus", None, "claude-opus-4-8 []"),
            ("gpt-4", None, "gpt-5.6-sol []"),
            ("gpt-4o", None, "gpt-5.6-sol []"),
            ("gpt-4-turbo", Some(Effort::High), "gpt-5.6-sol [reasoning=high]"),
            ("gpt-4o-mini", None, "gpt-5.4-mini []"),
            ("gpt-3.5-turbo", None, "gpt-5.4-mini []"),
            ("openai/gpt-4o", None, "gpt-5.6-sol []"),
            ("gpt-5", None, "gpt-5.6-sol []"),
            ("gpt-5-codex", None, "gpt-5.3-codex []"),
            ("gpt-6-sol", None, "gpt-5.6-sol []"),
            ("o3", None, "gpt-5.6-sol []"),
            ("o4-mini-high", None, "gpt-5.4-mini [reasoning=high]"),
            ("gemini-2.5-pro", None, "gemini-3.1-pro []"),
            ("gemini-2.5-flash", None, "gemini-3.6-flash []"),
            ("grok", None, "cursor-grok-4.6-high []"),
            ("kimi", None, "kimi-k3-high []"),
        ],
    );
}

#[test]
fn alias_without_a_match_resolves_to_auto() {
    let list = ModelList::new(vec![ModelInfo::from_id("default"), ModelInfo::from_id("glm-5.2")]);
    check(
        &list,
        &[
            ("sonnet", None, "default []"),
            ("gpt-4o", None, "default []"),
            ("glm", None, "glm-5.2 []"),
        ],
    );
    assert_eq!(list.resolve("sonnet", None).unwrap().via, Via::Alias);
}

#[test]
fn without_a_list_only_auto_is_known() {
    check(
        &ModelList::default(),
        &[
            ("auto", None, "default []"),
            ("gpt-4o", None, "ModelNotFound"),
            ("sonnet", None, "ModelNotFound"),
        ],
    );
}

#[test]
fn names_resolve_in_a_list_with_parameters() {
    let (low, high) = (Some(Effort::Low), Some(Effort::High));
    check(
        &parameters(),
        &[
            ("auto", None, "default []"),
            // the default variant's values, changed by what was asked
            ("claude-opus-5", None, "claude-opus-5 [thinking=true,effort=high]"),
            ("claude-opus-5", low, "claude-opus-5 [thinking=true,effort=low]"),
            ("claude-opus-5:max", low, "claude-opus-5 [thinking=true,effort=max]"),
            ("claude-opus-5", Some(Effort::Xhigh), "claude-opus-5 [thinking=true,effort=max]"),
            ("claude-opus-5", Some(Effort::None), "claude-opus-5 [thinking=false,effort=high]"),
            ("claude-opus-5-thinking-low", None, "claude-opus-5 [thinking=true,effort=low]"),
            ("claude-opus-5[thinking=false]", None, "claude-opus-5 [thinking=false,effort=high]"),
            // variants by their bracketed name and by their slug
            ("claude-opus-5[context=1m]", None, "claude-opus-5 [context=1m] max"),
            ("claude-opus-5-max-mode", None, "claude-opus-5 [context=1m] max"),
            (
                "claude-opus-5[context=1m,effort=low]",
                None,
                "claude-opus-5 [thinking=true,effort=low,context=1m] max",
            ),
            ("gpt-5.4-high-fast", None, "gpt-5.4 [reasoning=high,fast=true]"),
            ("gpt-5.4-high-fast", low, "gpt-5.4 [reasoning=high,fast=true]"),
            ("gpt-5.4-low-fast", None, "gpt-5.4 [reasoning=low,fast=true]"),
            ("gpt-5.4", high, "gpt-5.4 [reasoning=high]"),
            ("gpt-5.4", Some(Effort::None), "gpt-5.4 [reasoning=none]"),
            ("gpt-5.4", Some(Effort::Max), "gpt-5.4 [reasoning=xhigh]"),
            ("gpt-5.4-preview", None, "gpt-5.4 []"),
            // a bare Composer is not the fast one
            ("composer-2.5", None, "composer-2.5 [fast=false]"),
            ("composer-2.5-fast", None, "composer-2.5 [fast=true]"),
            ("composer-2.5[fast=true]", high, "composer-2.5 [fast=true]"),
            ("composer", None, "composer-2.5 [fast=false]"),
            // the wire name of the server
            ("sonnet-next", None, "claude-sonnet-9 []"),
            ("sonnet", None, "claude-sonnet-9 []"),
            ("chat-only", None, "ModelNotFound"),
        ],
    );
}

#[test]
fn a_refusal_names_close_matches_and_the_command() {
    let error = slugs().resolve("claud-sonet-5", None).unwrap_err();
    assert_eq!(error.code, ErrorCode::ModelNotFound);
    assert_eq!(error.param.as_deref(), Some("model"));
    assert!(error.message.contains("`claude-sonnet-5`"), "{}", error.message);
    assert!(error.message.contains("`ibeam models`"), "{}", error.message);
    let long = slugs().resolve(&"ä".repeat(5000), None).unwrap_err();
    assert!(long.message.len() < 300, "{}", long.message);
}

#[test]
fn unknown_names_pass_through_when_allowed() {
    let list = slugs();
    let pass = |name: &str, effort| {
        let resolved = list.resolve_with(name, effort, UnknownName::PassThrough).unwrap();
        assert_eq!(resolved.via, Via::PassedThrough);
        show(&resolved)
    };
    assert_eq!(pass("llama-4-high", Some(Effort::Low)), "llama-4-high []");
    assert_eq!(pass("llama-4[size=big]", None), "llama-4 [size=big]");
    assert_eq!(pass("gpt-5.9-high", None), "gpt-5.9 [reasoning=high]");
    assert_eq!(pass("cursor/gpt-5.9", Some(Effort::Low)), "gpt-5.9 [reasoning=low]");
    assert!(list.resolve_with("", None, UnknownName::PassThrough).is_err());
    let known = list.resolve_with("gpt-5.4", None, UnknownName::PassThrough).unwrap();
    assert_eq!(known.via, Via::Listed);
}

#[path = "list_tests.rs"]
mod list;
