use super::super::{
    ProbeEnd,
    ProbeQuestion::{ResumeNeeds, ResumedPrompt, RootLimit, RulesShown},
    testing::{ended, entries, is_resume, judge, next, out_of_quota, refused, request, said},
};

#[test]
fn question_a_resumes_a_prompt_first_and_tries_rules_only_where_that_fails() {
    let run = next(ResumedPrompt, &[]).unwrap();
    assert!(is_resume(&run));
    let (entries_of, state) = (entries(&run), request(&run).conversation_state.unwrap());
    assert_eq!(entries_of[0]["role"], "system");
    assert!(entries_of[0]["content"].as_str().unwrap().contains("QUARTZ-1"));
    assert_eq!(entries_of.last().unwrap()["role"], "user");
    assert_eq!((state.turns.len(), state.mode), (1, Some(1)));
    assert_eq!(state.agent_type.as_deref(), Some("cli"));

    for obeyed in ["QUARTZ-1", "I say QUARTZ-1."] {
        assert!(next(ResumedPrompt, &[said(obeyed)]).is_none(), "{obeyed}");
    }
    for failed in [said("I am Cursor."), ended(ProbeEnd::Empty), refused()] {
        let run = next(ResumedPrompt, &[failed]).unwrap();
        assert!(!is_resume(&run));
        assert!(entries(&run)[1].to_string().contains("<rules>"), "{:?}", entries(&run));
    }
    for doubtful in [ended(ProbeEnd::Silent), ended(ProbeEnd::Lost), out_of_quota()] {
        assert!(next(ResumedPrompt, std::slice::from_ref(&doubtful)).is_none());
        assert_eq!(judge(ResumedPrompt, &[doubtful]).0, "unclear");
    }
}

#[test]
fn question_a_is_judged_by_the_word_and_what_is_beside_it() {
    let own = || said("I am Cursor.");
    for (runs, want) in [
        (vec![said("QUARTZ-1")], "prompt-alone"),
        (vec![said("**quartz-1**.")], "prompt-alone"),
        (vec![said("QUARTZ-1, and I can call Shell.")], "prompt-among-others"),
        (vec![own(), said("QUARTZ-1")], "rules-entry-only"),
        (vec![ended(ProbeEnd::Empty), said("QUARTZ-1")], "rules-entry-only"),
        (vec![refused(), own()], "neither-form"),
        (vec![own(), refused()], "neither-form"),
        (vec![own(), out_of_quota()], "unclear"),
        (vec![], "unclear"),
    ] {
        assert_eq!(judge(ResumedPrompt, &runs), (want, None), "{runs:?}");
    }
}

#[test]
fn question_b_puts_a_rule_beside_nothing_a_system_entry_and_a_history() {
    let mut seen = Vec::new();
    for count in [0, 1, 3] {
        let run = next(RulesShown, &seen).unwrap();
        assert_eq!(entries(&run).len(), count);
        assert!(run.context.rules[0].content.contains("BASALT-1"));
        seen.push(said("Red."));
    }
    assert!(next(RulesShown, &seen).is_none());
}

#[test]
fn question_b_is_judged_by_the_word_or_the_tokens() {
    let (yes, no) = (|| said("Red. BASALT-1"), || said("Red."));
    let counted = || super::super::ProbeTrace { rule_tokens: Some(12), ..said("Red.") };
    for (runs, want) in [
        (vec![yes(), yes(), yes()], "rules-always"),
        (vec![yes(), yes(), no()], "rules-without-history"),
        (vec![counted(), yes(), no()], "rules-without-history"),
        (vec![yes(), no(), no()], "rules-without-roots"),
        (vec![no(), no(), no()], "rules-never"),
        (vec![no(), yes(), no()], "unclear"),
        (vec![yes(), yes(), out_of_quota()], "unclear"),
        (vec![yes()], "unclear"),
    ] {
        assert_eq!(judge(RulesShown, &runs).0, want, "{runs:?}");
    }
}

#[test]
fn question_c_leaves_out_one_thing_more_each_time() {
    let mut seen = Vec::new();
    for (agent_type, mode, turns) in [(false, true, 1), (false, false, 1), (false, false, 0)] {
        let run = next(ResumeNeeds, &seen).unwrap();
        let state = request(&run).conversation_state.unwrap();
        let has = (state.agent_type.is_some(), state.mode.is_some(), state.turns.len());
        assert_eq!(has, (agent_type, mode, turns));
        seen.push(said("Red."));
    }
    assert!(next(ResumeNeeds, &seen).is_none());
    assert!(next(ResumeNeeds, &[ended(ProbeEnd::Empty)]).is_none(), "it is settled");

    let (full, empty) = (|| said("Red."), || ended(ProbeEnd::Empty));
    for (runs, want) in [
        (vec![empty()], "agent-type-needed"),
        (vec![full(), empty()], "mode-needed"),
        (vec![full(), full(), empty()], "turn-needed"),
        (vec![full(), full(), refused()], "turn-needed"),
        (vec![full(), full(), full()], "nothing-needed"),
        (vec![full(), ended(ProbeEnd::Silent)], "unclear"),
        (vec![out_of_quota()], "unclear"),
    ] {
        assert_eq!(judge(ResumeNeeds, &runs).0, want, "{runs:?}");
    }
}

#[test]
fn question_d_sends_more_and_more_entries_until_they_are_refused() {
    let mut seen = Vec::new();
    for count in [150, 200, 250] {
        let run = next(RootLimit, &seen).unwrap();
        assert_eq!(entries(&run).len(), count);
        seen.push(said("OK"));
    }
    assert!(next(RootLimit, &seen).is_none());
    assert!(next(RootLimit, &[said("OK"), refused()]).is_none());

    for (runs, want) in [
        (vec![refused()], ("roots-accepted", Some(0))),
        (vec![said("OK"), refused()], ("roots-accepted", Some(150))),
        (vec![said("OK"), said("OK"), refused()], ("roots-accepted", Some(200))),
        (vec![said("OK"), said("OK"), said("OK")], ("roots-accepted", Some(250))),
        (vec![said("OK"), ended(ProbeEnd::Lost)], ("unclear", None)),
        (vec![], ("unclear", None)),
    ] {
        assert_eq!(judge(RootLimit, &runs), want, "{runs:?}");
    }
}
