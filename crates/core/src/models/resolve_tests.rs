use ibeam_proto::{
    agent::ModelDetails,
    aiserver::{AvailableModel, ParameterDefinition, Variant},
};

use super::*;
use crate::models::tests::{check, parameter, show, slugs, variant};

const ON_OFF: [&str; 2] = ["true", "false"];

fn available(
    name: &str,
    definitions: Vec<ParameterDefinition>,
    variants: Vec<Variant>,
) -> AvailableModel {
    AvailableModel {
        name: name.to_owned(),
        parameter_definitions: definitions,
        variants,
        ..AvailableModel::default()
    }
}

fn usable(ids: &[&str]) -> ModelList {
    let details = |id: &&str| ModelDetails { model_id: (*id).to_owned(), ..Default::default() };
    ModelList::merge(&ids.iter().map(details).collect::<Vec<_>>(), &[])
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const OPUS_SLUGS: [&str; 4] = [
    "claude-opus-5-high",
    "claude-opus-5-thinking-low",
    "claude-opus-5-thinking-xhigh",
    "claude-5-opus-max-thinking-fast",
];
const GPT_SLUGS: [&str; 2] = ["gpt-5.4-high-fast", "gpt-5.4-preview"];

/// The rich answer alone, and no variant that names the slugs.
fn legacy(with_parameters: bool) -> ModelList {
    let mut medium = variant("", "", &[("thinking", "false"), ("effort", "medium")]);
    medium.is_default_non_max_config = Some(true);
    let efforts = ["low", "medium", "high", "xhigh", "max"];
    let mut opus = available(
        "claude-opus-5",
        vec![
            parameter("thinking", &ON_OFF),
            parameter("effort", &efforts),
            parameter("fast", &ON_OFF),
        ],
        vec![medium],
    );
    opus.legacy_slugs = strings(&OPUS_SLUGS);
    let mut normal = variant("", "", &[("reasoning", "medium"), ("fast", "false")]);
    normal.is_default_non_max_config = Some(true);
    let mut gpt = available(
        "gpt-5.4",
        vec![parameter("reasoning", &["low", "medium", "high"]), parameter("fast", &ON_OFF)],
        vec![normal],
    );
    gpt.legacy_slugs = strings(&GPT_SLUGS);
    let mut composer = available("composer-2.5", vec![parameter("fast", &ON_OFF)], Vec::new());
    composer.legacy_slugs = strings(&["composer-2.5-fast", "composer-next"]);
    let mut models = [opus, gpt, composer];
    if !with_parameters {
        for model in &mut models {
            model.parameter_definitions.clear();
            model.variants.clear();
        }
    }
    ModelList::merge(&[], &models)
}

#[test]
fn legacy_slug_keeps_its_parameters() {
    let low = Some(Effort::Low);
    check(
        &legacy(true),
        &[
            ("gpt-5.4-high-fast", None, "gpt-5.4 [reasoning=high,fast=true]"),
            ("GPT-5.4-High-Fast", None, "gpt-5.4 [reasoning=high,fast=true]"),
            ("gpt-5.4-preview", None, "gpt-5.4 [reasoning=medium,fast=false]"),
            ("claude-opus-5-thinking-xhigh", None, "claude-opus-5 [thinking=true,effort=xhigh]"),
            (
                "claude-5-opus-max-thinking-fast",
                None,
                "claude-opus-5 [thinking=true,effort=max,fast=true]",
            ),
            ("composer-2.5-fast", None, "composer-2.5 [fast=true]"),
            ("composer-next", None, "composer-2.5 [fast=false]"),
            // what the request says in so many words counts more
            ("gpt-5.4-high-fast", low, "gpt-5.4 [reasoning=low,fast=true]"),
            ("gpt-5.4-high-fast:low", None, "gpt-5.4 [reasoning=low,fast=true]"),
            ("gpt-5.4-high-fast[fast=false]", None, "gpt-5.4 [reasoning=high,fast=false]"),
            ("claude-opus-5-thinking-xhigh", low, "claude-opus-5 [thinking=true,effort=low]"),
            (
                "claude-opus-5-thinking-xhigh",
                Some(Effort::None),
                "claude-opus-5 [thinking=false,effort=medium]",
            ),
        ],
    );
    let resolved = legacy(true).resolve("claude-opus-5-thinking-xhigh", None).unwrap();
    assert_eq!(resolved.effort, Some(Effort::Xhigh));
}

#[test]
fn legacy_slug_resolves_in_a_list_without_parameters() {
    let low = Some(Effort::Low);
    check(
        &legacy(false),
        &[
            ("gpt-5.4-high-fast", None, "gpt-5.4 [reasoning=high,fast=true]"),
            ("gpt-5.4-high-fast", low, "gpt-5.4 [reasoning=low,fast=true]"),
            ("gpt-5.4-preview", None, "gpt-5.4 []"),
            ("claude-opus-5", None, "claude-opus-5 []"),
            ("claude-opus-5-high", None, "claude-opus-5-high []"),
            ("claude-opus-5-thinking-xhigh", None, "claude-opus-5-thinking-xhigh []"),
            ("claude-opus-5-thinking-xhigh", low, "claude-opus-5-thinking-low []"),
            ("composer-2.5-fast", None, "composer-2.5-fast []"),
            ("composer-next", None, "composer-2.5 [fast=false]"),
        ],
    );
}

#[test]
fn a_bare_composer_is_not_the_fast_one_without_parameters() {
    check(
        &slugs(),
        &[
            ("composer-2.5", None, "composer-2.5 [fast=false]"),
            ("composer-2.5", Some(Effort::High), "composer-2.5 [fast=false]"),
            ("composer", None, "composer-2.5 [fast=false]"),
            ("composer-2.5[fast=false]", None, "composer-2.5 [fast=false]"),
            ("composer-2.5-fast", None, "composer-2.5-fast []"),
            ("composer-2.5[fast=true]", None, "composer-2.5-fast []"),
            ("composer-2.5:fast", None, "composer-2.5-fast []"),
        ],
    );
    check(
        &usable(&["composer-2", "composer-1-fast"]),
        &[
            ("composer-2", None, "composer-2 [fast=false]"),
            ("composer-2-fast", None, "composer-2 [fast=true]"),
            // the plan has no other
            ("composer-1", None, "composer-1-fast []"),
        ],
    );
}

fn pass(name: &str) -> String {
    match ModelList::default().resolve_with(name, None, UnknownName::PassThrough) {
        Ok(resolved) => show(&resolved),
        Err(error) => format!("{:?}", error.code),
    }
}

#[test]
fn a_bare_composer_is_not_the_fast_one_when_passed_through() {
    assert_eq!(pass("composer-9"), "composer-9 [fast=false]");
    assert_eq!(pass("composer-9-fast"), "composer-9-fast []");
    assert_eq!(pass("composer-9[fast=true]"), "composer-9 [fast=true]");
    assert_eq!(pass("composer-9[fast=false]"), "composer-9 [fast=false]");
    assert_eq!(pass("composer-9[fast=turbo]"), "composer-9 [fast=turbo]");
    assert_eq!(pass("composer-9:fast"), "composer-9 [fast=true]");
    assert_eq!(pass("composer-9[size=big]"), "composer-9 [size=big,fast=false]");
}

#[test]
fn model_ids_never_contain_brackets() {
    // as written by the client
    assert_eq!(pass("llama-4:8b"), "llama-4:8b []");
    assert_eq!(pass("llama-4:8b[size=big]"), "llama-4:8b [size=big]");
    assert_eq!(pass("llama-4[1m]"), "llama-4 []");
    for name in ["llama-4[loud]", "llama-4[a=b]c", "llama-4[", "llama-4]", "[a=b]", "a[b=c][d=e]"] {
        assert_eq!(pass(name), "ModelNotFound", "{name}");
    }
    // as listed by the backend
    let list = usable(&[
        "default[]",
        "composer-2[fast=true]",
        "composer-2[fast=false]",
        "gpt-5.4[reasoning=high,fast=true]",
        "claude-opus-5[thinking=true,context=1m,effort=high]",
    ]);
    check(
        &list,
        &[
            ("auto", None, "default []"),
            ("default[]", None, "default []"),
            ("composer-2[fast=true]", None, "composer-2 [fast=true]"),
            ("composer-2-fast", None, "composer-2 [fast=true]"),
            ("composer-2[fast=false]", None, "composer-2 [fast=false]"),
            ("composer-2", None, "composer-2 [fast=false]"),
            ("gpt-5.4[reasoning=high,fast=true]", None, "gpt-5.4 [reasoning=high,fast=true]"),
            ("gpt-5.4", None, "gpt-5.4 []"),
            (
                "claude-opus-5[thinking=true,context=1m,effort=high]",
                None,
                "claude-opus-5 [thinking=true,context=1m,effort=high] max",
            ),
        ],
    );
}

/// A model with a default for either mode.
fn two_modes() -> AvailableModel {
    let mut normal = variant("", "", &[("effort", "medium"), ("context", "300k")]);
    normal.is_default_non_max_config = Some(true);
    let mut max = variant("", "", &[("effort", "high"), ("context", "1m")]);
    max.is_max_mode = true;
    max.is_default_max_config = Some(true);
    available(
        "claude-opus-5",
        vec![
            parameter("effort", &["low", "medium", "high"]),
            parameter("context", &["300k", "1m"]),
        ],
        vec![normal, max],
    )
}

#[test]
fn a_long_context_takes_the_default_of_max_mode() {
    let low = Some(Effort::Low);
    let list = ModelList::merge(&[], &[two_modes()]);
    let flags: Vec<(bool, bool)> =
        list.models()[0].variants.iter().map(|v| (v.is_default, v.is_default_max)).collect();
    assert_eq!(flags, [(true, false), (false, true)]);
    check(
        &list,
        &[
            ("claude-opus-5", None, "claude-opus-5 [effort=medium,context=300k]"),
            ("claude-opus-5[300k]", None, "claude-opus-5 [effort=medium,context=300k]"),
            ("claude-opus-5[1m]", None, "claude-opus-5 [effort=high,context=1m] max"),
            ("claude-opus-5[1M]", None, "claude-opus-5 [effort=high,context=1m] max"),
            ("claude-opus-5[context=1m]", None, "claude-opus-5 [effort=high,context=1m] max"),
            ("claude-opus-5[1m]", low, "claude-opus-5 [effort=low,context=1m] max"),
            ("claude-opus-5-low[1m]", None, "claude-opus-5 [effort=low,context=1m] max"),
            ("opus[1m]", None, "claude-opus-5 [effort=high,context=1m] max"),
        ],
    );
}

#[test]
fn a_model_of_max_mode_only_takes_its_default() {
    let expect = "claude-opus-5 [effort=high,context=1m] max";
    let mut by_flags = two_modes();
    by_flags.supports_max_mode = Some(true);
    by_flags.supports_non_max_mode = Some(false);
    check(&ModelList::merge(&[], &[by_flags]), &[("claude-opus-5", None, expect)]);
    let details = ModelDetails {
        model_id: "claude-opus-5".to_owned(),
        max_mode: Some(true),
        ..ModelDetails::default()
    };
    check(&ModelList::merge(&[details], &[two_modes()]), &[("claude-opus-5", None, expect)]);
    let mut by_variants = two_modes();
    by_variants.variants.remove(0);
    check(&ModelList::merge(&[], &[by_variants]), &[("claude-opus-5", None, expect)]);
}

#[test]
fn a_long_context_without_a_default_of_max_mode() {
    let mut model = two_modes();
    model.variants.pop();
    check(
        &ModelList::merge(&[], &[model.clone()]),
        &[("claude-opus-5[1m]", None, "claude-opus-5 [effort=medium,context=1m] max")],
    );
    // A size the model cannot be set to is a note of the client's own.
    model.parameter_definitions.pop();
    check(
        &ModelList::merge(&[], &[model]),
        &[("claude-opus-5[1m]", None, "claude-opus-5 [effort=medium,context=300k]")],
    );
    check(
        &slugs(),
        &[
            ("claude-opus-4-8[1m]", None, "claude-opus-4-8 []"),
            ("claude-opus-4-8[context=1m]", None, "claude-opus-4-8 [context=1m] max"),
        ],
    );
}

#[test]
fn controls_that_a_model_does_not_have_are_refused_by_name() {
    let list = legacy(true);
    for (name, want) in [
        ("gpt-5.4[fast=maybe]", "`fast` of `gpt-5.4` must be one of: true, false"),
        ("gpt-5.4[bogus=1]", "`gpt-5.4` has no control `bogus`"),
    ] {
        let error = list.resolve(name, None).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidValue, "{name}");
        assert!(error.message.contains(want), "{}", error.message);
    }
    assert!(list.resolve("gpt-5.4[fast=true]", None).is_ok());
}

#[test]
fn section_6_composer_is_never_billed_as_fast_unless_asked() {
    let list = ModelList::merge(
        &[],
        &[available("composer-2.5", vec![parameter("fast", &ON_OFF)], Vec::new())],
    );
    for list in [list, usable(&["composer-2.5"])] {
        for (name, want) in [
            ("composer-2.5", "false"),
            ("composer-2.5[mode=plan,max=true]", "false"),
            ("composer-2.5[fast=true]", "true"),
        ] {
            let resolved = list.resolve(name, None).unwrap();
            assert_eq!(resolved.wire_id, "composer-2.5");
            assert_eq!(resolved.parameters, [("fast".to_owned(), want.to_owned())], "{name}");
        }
    }
}

#[test]
fn section_6_the_router_takes_a_goal() {
    for list in [ModelList::default(), usable(&["default"])] {
        for goal in ["cost", "balance", "intelligence"] {
            let resolved = list.resolve(&format!("auto[optimization={goal}]"), None).unwrap();
            assert_eq!(resolved.wire_id, "default");
            assert_eq!(resolved.parameters, [("optimization".to_owned(), goal.to_owned())]);
        }
        let error = list.resolve("auto[optimization=luck]", None).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidValue);
        assert!(list.resolve("auto[mode=plan]", None).unwrap().parameters.is_empty());
    }
}

#[test]
fn max_mode_takes_the_context_that_the_list_has_for_it() {
    let mut max = variant("", "", &[("context", "1m"), ("effort", "high")]);
    (max.is_max_mode, max.is_default_max_config) = (true, Some(true));
    let context = parameter("context", &["300k", "1m"]);
    let effort = parameter("effort", &["low", "high"]);
    let list = ModelList::merge(&[], &[available("claude-x", vec![context, effort], vec![max])]);
    let resolved = list.resolve("claude-x:low", None).unwrap().in_max_mode();
    assert!(resolved.max_mode);
    let value = |id: &str| {
        let parameters = resolved.parameters.iter();
        parameters.clone().find(|(own, _)| own == id).map(|(_, value)| value.as_str())
    };
    assert_eq!((value("context"), value("effort")), (Some("1m"), Some("low")));
    let plain = usable(&["gpt-5.5"]).resolve("gpt-5.5", None).unwrap().in_max_mode();
    assert!(plain.max_mode && plain.parameters.is_empty());
}
