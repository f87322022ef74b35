use super::*;

#[test]
fn section_1_6_the_first_form_depends_on_the_model() {
    let memory = ModelMemory::default();
    let first = |model: &str| FormChoice::new(HistorySetting::Auto, model, &memory);
    for (model, form, other) in [
        ("claude-sonnet-5", HistoryForm::ResumeRoots, HistoryForm::UserRoots),
        ("gpt-5.5", HistoryForm::ResumeRoots, HistoryForm::UserRoots),
        ("composer-2.5", HistoryForm::UserRoots, HistoryForm::Transcript),
        ("default", HistoryForm::UserRoots, HistoryForm::Transcript),
    ] {
        let mut choice = first(model);
        assert_eq!((choice.form(), choice.learned()), (form, None), "{model}");
        assert!(choice.step());
        assert_eq!((choice.form(), choice.step()), (other, false), "once for each turn");
        assert_eq!(choice.learned(), Some(other));
    }
}

#[test]
fn section_1_6_a_form_that_worked_is_remembered_for_its_model() {
    let memory = ModelMemory::default();
    memory.update("gpt-5.5", |facts| facts.history = Some(HistoryForm::Transcript));
    let choice = |model: &str| FormChoice::new(HistorySetting::Auto, model, &memory);
    assert_eq!(choice("gpt-5.5").form(), HistoryForm::Transcript);
    assert!(!choice("gpt-5.5").step(), "nothing is left");
    assert_eq!(choice("grok-4.7").form(), HistoryForm::ResumeRoots);
}

#[test]
fn configured_form_overrides_learned_ones_and_is_kept() {
    let memory = ModelMemory::default();
    memory.update("gpt-5.5", |facts| facts.history = Some(HistoryForm::Transcript));
    let setting = HistorySetting::from_name("user-roots").unwrap();
    let mut choice = FormChoice::new(setting, "gpt-5.5", &memory);
    assert_eq!((choice.form(), choice.step()), (HistoryForm::UserRoots, false));
    assert_eq!(HistorySetting::from_name("auto"), Some(HistorySetting::Auto));
    assert_eq!(HistorySetting::from_name("other"), None);
}

#[test]
fn section_2_4_a_tool_is_added_to_the_allowed_ones_only_once() {
    let mut facts = ModelFacts::default();
    for _ in 0..2 {
        facts.allow_tool("x_tool_call".to_owned());
    }
    assert_eq!(facts.allowed_tools, ["x_tool_call"]);
    for n in 0..100 {
        facts.allow_tool(n.to_string());
    }
    assert_eq!(facts.allowed_tools.len(), TOOLS);
}

#[test]
fn what_two_turns_learn_at_once_is_all_remembered() {
    let memory = ModelMemory::default();
    std::thread::scope(|scope| {
        for n in 0..TOOLS {
            let memory = &memory;
            scope.spawn(move || memory.update("m", |facts| facts.allow_tool(n.to_string())));
        }
    });
    assert_eq!(memory.of("m").allowed_tools.len(), TOOLS);
}
