use super::*;

fn finding(letter: &str, observation: Seen, amount: Option<u32>) -> ProbeFinding {
    let question = ProbeQuestion::from_letter(letter).unwrap();
    ProbeFinding {
        verdict: ProbeVerdict { question, observation, amount },
        model: (letter == "a").then(|| "composer-2.5".to_owned()),
        at: 1_795_000_000,
        client_version: "cli-2026.08.11-e8db854".into(),
        ibeam_version: "0.1.0".into(),
        runs: vec![RunFigures { end: "answered".into(), frames: 12, ..RunFigures::default() }],
    }
}

fn facts(letter: &str, observation: Seen, amount: Option<u32>) -> ServiceFacts {
    let finding = finding(letter, observation, amount);
    let changes = finding.effect().is_some();
    let facts = ProbeFindings::from_iter([finding.clone()]).facts();
    assert_eq!(facts != ServiceFacts::default(), changes, "{:?}", finding.effect());
    facts
}

#[test]
fn each_finding_sets_its_fact_and_says_so() {
    let form = |seen| facts("a", seen, None).history.remove("composer-2.5");
    assert_eq!(form(Seen::PromptAlone), Some(HistoryForm::ResumeRoots));
    assert_eq!(form(Seen::PromptAmongOthers), Some(HistoryForm::ResumeRoots));
    assert_eq!(form(Seen::RulesEntryOnly), Some(HistoryForm::UserRoots));
    assert_eq!(form(Seen::NeitherForm), Some(HistoryForm::Transcript));
    assert!(facts("b", Seen::RulesNever, None).rules_lost);
    assert_eq!(facts("d", Seen::RootsAccepted, Some(250)).max_roots, 250);
    assert_eq!(facts("d", Seen::RootsAccepted, Some(150)).max_roots, 150);
    assert_eq!(facts("d", Seen::RootsAccepted, Some(0)).max_roots, FEWEST_ROOTS);
    let declaration = |seen| facts("f", seen, None).declaration;
    assert_eq!(declaration(Seen::MetaHarmful), ToolDeclaration::NotForMeta);
    assert_eq!(declaration(Seen::DoubleStalls), ToolDeclaration::OnlyForMeta);
    assert_eq!(facts("g", Seen::StatusReady, None).mcp_status, McpStatus::Ready);
    assert_eq!(facts("g", Seen::StatusAbsent, None).mcp_status, McpStatus::Absent);
    assert_eq!(facts("h", Seen::ImagesDataUrl, None).image_shape, ImageShape::DataUrl);
    let refused = facts("i", Seen::OldVersionRefused, None).refused_version;
    assert_eq!(refused.as_deref(), Some("2026.01.09"));
    assert!(facts("j", Seen::ListedBetween, Some(0)).listed_without_refused);
    assert!(facts("k", Seen::EmptyIgnored, None).empty_list_ignored);
    assert_eq!(facts("m", Seen::AgentAnswers, None).agent_host, Some(AgentHostChoice::Agent));
    assert_eq!(facts("m", Seen::AgentnAnswers, None).agent_host, Some(AgentHostChoice::Agentn));
    assert!(facts("n", Seen::KeyNeeded, None).needs_blob_key);
    assert!(!facts("p", Seen::NamesFree, None).aliases_builtins);
    let hold = facts("q", Seen::CallLost, Some(60)).longest_hold;
    assert_eq!(hold, Some(Duration::from_secs(54)), "less than what lost the stream");
}

#[test]
fn every_other_observation_changes_nothing() {
    for (letter, seen, amount) in [
        ("b", Seen::RulesAlways, None),
        ("b", Seen::RulesWithoutHistory, None),
        ("b", Seen::RulesWithoutRoots, None),
        ("c", Seen::AgentTypeNeeded, None),
        ("c", Seen::NothingNeeded, None),
        ("e", Seen::PartialsWrapper, None),
        ("f", Seen::MetaOptional, None),
        ("f", Seen::MetaNeeded, None),
        ("g", Seen::StatusAny, None),
        ("g", Seen::StatusConnected, None),
        ("h", Seen::ImagesBoth, None),
        ("h", Seen::ImagesUnseen, None),
        ("i", Seen::OldVersionAccepted, None),
        ("j", Seen::ListedBetween, Some(1)),
        ("j", Seen::ListedNever, None),
        ("k", Seen::EmptyHonoured, None),
        ("l", Seen::UsageAvailable, None),
        ("m", Seen::BothAnswer, None),
        ("n", Seen::KeyIgnored, None),
        ("n", Seen::KeyRefused, None),
        ("o", Seen::ReasoningAccepted, None),
        ("p", Seen::NamesCollide, None),
        ("p", Seen::NativeInstead, None),
        ("q", Seen::CallHeld, Some(120)),
        ("a", Seen::Unclear, None),
    ] {
        assert_eq!(facts(letter, seen, amount), ServiceFacts::default(), "{letter} {seen:?}");
    }
}

#[test]
fn the_file_is_read_as_it_was_written() {
    let findings = ProbeFindings::from_iter([
        finding("q", Seen::CallLost, Some(60)),
        finding("a", Seen::RulesEntryOnly, None),
    ]);
    assert_eq!(ProbeFindings::from_json(&findings.to_json()), Ok(findings.clone()));
    let letters: Vec<_> = findings.iter().map(|f| f.verdict.question.letter()).collect();
    assert_eq!(letters, ['a', 'q']);
    for observation in Seen::ALL {
        assert_eq!(Seen::from_name(observation.name()), Some(observation));
    }
}

#[test]
fn files_of_other_versions_are_refused_and_unknown_findings_left_out() {
    let parse = ProbeFindings::from_json;
    assert_eq!(parse(r#"{"version":7,"findings":[]}"#), Err(FindingsError::Version(7)));
    for garbled in ["", "[]", "{}", r#"{"version":1}"#, r#"{"version":1,"findings":3}"#] {
        assert_eq!(parse(garbled), Err(FindingsError::Garbled), "{garbled}");
    }
    let row = |question: &str, seen: &str| {
        format!(
            r#"{{"question":"{question}","observation":"{seen}","at":1,"client_version":"",
                "ibeam_version":"","later":true}}"#
        )
    };
    let rows = [row("k", "empty-ignored"), row("z", "empty-ignored"), row("k", "new"), "7".into()];
    let file = format!(r#"{{"version":1,"findings":[{}]}}"#, rows.join(","));
    assert_eq!(parse(&file).unwrap().iter().count(), 1);
    let many = vec![row("k", "empty-ignored"); 10_000].join(",");
    let file = format!(r#"{{"version":1,"findings":[{many}]}}"#);
    assert!(parse(&file).unwrap().iter().count() <= MOST);
}

#[test]
fn a_newer_finding_replaces_an_older_one_unless_it_settles_nothing() {
    let mut findings = ProbeFindings::from_iter([finding("k", Seen::EmptyIgnored, None)]);
    findings.add(finding("k", Seen::Unclear, None));
    assert!(findings.facts().empty_list_ignored);
    findings.add(finding("k", Seen::EmptyHonoured, None));
    assert_eq!((findings.facts(), findings.iter().count()), (ServiceFacts::default(), 1));
    let other =
        ProbeFinding { model: Some("gpt-5.5".into()), ..finding("a", Seen::RulesEntryOnly, None) };
    findings.add(finding("a", Seen::PromptAlone, None));
    findings.add(other);
    assert_eq!(forms_by_model(&findings).len(), 2);
}

#[test]
fn nothing_that_a_user_made_up_is_published() {
    let secret = "S3cret Words";
    let finding = ProbeFinding {
        model: Some(secret.into()),
        client_version: format!("cli-{secret}"),
        ..finding("a", Seen::PromptAlone, None)
    };
    let published = finding.published();
    assert!(!published.to_string().contains("S3cret"), "{published}");
    assert_eq!(published["model"], "other");
    assert_eq!(published["client_version"], "other");
    let plain = self::finding("a", Seen::PromptAlone, None).published();
    assert_eq!(plain["model"], "composer-2.5");
    assert_eq!(plain["client_version"], "cli-2026.08.11-e8db854");
}
