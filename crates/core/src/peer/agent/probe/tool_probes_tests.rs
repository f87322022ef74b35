use super::super::{
    ProbeQuestion::{
        BuiltinNames, EmptyToolList, HeldCall, ListedCalls, PartialArguments, ServerStatus,
        ToolsDeclared,
    },
    testing::{called, ended, judge, next, out_of_quota, refused, request, said},
};
use super::*;

#[test]
fn question_e_reads_the_last_text_of_the_partials() {
    let run = next(PartialArguments, &[]).unwrap();
    assert_eq!(request(&run).mcp_tools.unwrap().mcp_tools[0].name, "ibeam_probe_note");
    assert!(next(PartialArguments, &[called()]).is_none());

    let with = |partials: &[&str]| ProbeTrace {
        notices: partials
            .iter()
            .map(|text| CallNotice::Partial(!text.is_empty()))
            .chain([CallNotice::Started, CallNotice::Exec])
            .collect(),
        longest_partial: partials.iter().max_by_key(|text| text.len()).map_or("", |t| t).into(),
        joined_partials: partials.concat(),
        ..said("amber")
    };
    for (run, want) in [
        (with(&[]), "partials-absent"),
        (with(&[""]), "partials-empty"),
        (with(&["", "{\"te", "{\"text\":\"x\"}"]), "partials-inner"),
        (with(&["", "{\"te", "xt\":\"x\"}"]), "partials-inner"),
        (
            with(&["{\"namespace\":\"ibeam\",\"toolName\":\"n\",\"arguments\":{\"text\":\"x\"}}"]),
            "partials-wrapper",
        ),
        (with(&["<text>"]), "unclear"),
        (said("There is no such tool."), "unclear"),
    ] {
        assert_eq!(judge(PartialArguments, std::slice::from_ref(&run)).0, want, "{run:?}");
    }
}

#[test]
fn question_f_declares_tools_with_and_without_the_meta_options() {
    let declared = |run: &ProbeRun| {
        let context = &run.context;
        let meta = context.mcp_meta_tool_options.is_some();
        (request(run).mcp_tools.is_some(), !context.tools.is_empty(), meta)
    };
    let silent = || ended(ProbeEnd::Silent);
    assert_eq!(declared(&next(ToolsDeclared, &[]).unwrap()), (true, true, false));
    assert_eq!(declared(&next(ToolsDeclared, &[called()]).unwrap()), (true, true, true));
    assert!(next(ToolsDeclared, &[called(), called()]).is_none());
    let third = next(ToolsDeclared, &[silent(), silent()]).unwrap();
    assert_eq!(declared(&third), (false, false, true));

    let without = || said("There is no such tool.");
    for (runs, want) in [
        (vec![called(), called()], "meta-optional"),
        (vec![without(), called()], "meta-needed"),
        (vec![called(), without()], "meta-harmful"),
        (vec![silent(), silent(), called()], "double-stalls"),
        (vec![silent(), silent(), silent()], "unclear"),
        // A model may think for minutes, so silence alone settles nothing.
        (vec![silent(), called()], "unclear"),
        (vec![called(), silent()], "unclear"),
        (vec![without(), without(), called()], "unclear"),
        (vec![out_of_quota()], "unclear"),
    ] {
        assert_eq!(judge(ToolsDeclared, &runs).0, want, "{runs:?}");
    }
}

#[test]
fn question_g_reports_the_server_in_three_ways() {
    let asked = |trace: ProbeTrace| ProbeTrace { asked_status: true, ..trace };
    let (works, fails) = (|| asked(called()), || asked(said("No tool.")));
    let mut seen = Vec::new();
    for status in [Some("connected"), Some("ready"), None] {
        let run = next(ServerStatus, &seen).unwrap();
        assert_eq!(run.toolbox.status().text(), status);
        seen.push(works());
    }
    assert!(next(ServerStatus, &seen).is_none());
    assert!(next(ServerStatus, &[called()]).is_none(), "the state was not asked for");

    for (runs, want) in [
        (vec![works(), works(), works()], "status-any"),
        (vec![works(), fails(), works()], "status-connected"),
        (vec![works(), fails(), fails()], "status-connected"),
        (vec![fails(), works(), fails()], "status-ready"),
        (vec![fails(), fails(), works()], "status-absent"),
        (vec![fails(), fails(), fails()], "unclear"),
        (vec![called()], "status-not-asked"),
        (vec![works()], "unclear"),
        (vec![works(), asked(out_of_quota())], "unclear"),
    ] {
        assert_eq!(judge(ServerStatus, &runs).0, want, "{runs:?}");
    }
}

#[test]
fn question_j_compares_the_place_of_the_count_and_what_it_counts() {
    use CallNotice::{Exec, Listed, Partial, Refused, Started};
    let run = next(ListedCalls, &[]).unwrap();
    assert_eq!(request(&run).mcp_tools.unwrap().mcp_tools.len(), 2);
    let with = |notices: &[CallNotice]| ProbeTrace { notices: notices.into(), ..said("amber") };
    let p = Partial(false);
    for (notices, want) in [
        (vec![Listed(3), p, Started, Exec, Exec, Refused], ("listed-before-started", Some(1))),
        (vec![p, Started, Listed(3), Exec, Exec, Refused], ("listed-between", Some(1))),
        (vec![p, Started, Listed(2), Exec, Exec, Refused], ("listed-between", Some(0))),
        (vec![p, Started, Exec, Exec, Refused, Listed(3)], ("listed-after-execs", Some(1))),
        // Without a refused call the count says nothing about them.
        (vec![p, Started, Exec, Exec, Listed(2)], ("listed-after-execs", None)),
        (vec![Listed(3), Exec, Exec, Refused], ("listed-before-started", Some(1))),
        (vec![p, Started, Exec, Exec, Refused], ("listed-never", None)),
        (vec![p, Started, Exec, Refused], ("unclear", None)),
        (vec![], ("unclear", None)),
    ] {
        assert_eq!(judge(ListedCalls, &[with(&notices)]), want, "{notices:?}");
    }
}

#[test]
fn question_k_asks_for_a_command_with_an_empty_list() {
    let run = next(EmptyToolList, &[]).unwrap();
    assert_eq!(run.headers.allowed_tools, "");
    assert!(request(&run).mcp_tools.is_none());
    let native = ProbeTrace { natives: 1, ..said("It was refused.") };
    for (run, want) in [
        (native, "empty-ignored"),
        (said("I have no tools."), "empty-honoured"),
        (ended(ProbeEnd::Lost), "unclear"),
    ] {
        assert_eq!(judge(EmptyToolList, std::slice::from_ref(&run)).0, want, "{run:?}");
    }
}

#[test]
fn question_p_offers_a_tool_with_the_name_of_a_built_in_one() {
    let run = next(BuiltinNames, &[]).unwrap();
    assert_eq!(request(&run).mcp_tools.unwrap().mcp_tools[0].tool_name, "read");
    for (run, want) in [
        (called(), "names-free"),
        (ProbeTrace { natives: 1, ..said("refused") }, "native-instead"),
        (refused(), "names-collide"),
        (said("no such tool"), "unclear"),
        (out_of_quota(), "unclear"),
    ] {
        assert_eq!(judge(BuiltinNames, std::slice::from_ref(&run)).0, want, "{run:?}");
    }
}

#[test]
fn question_q_holds_a_call_and_notes_when_the_stream_was_lost() {
    let run = next(HeldCall, &[]).unwrap();
    assert_eq!(run.hold, Some(std::time::Duration::from_secs(120)));
    let held = |end, held| ProbeTrace { end, held, ..called() };
    for (run, want) in [
        (held(ProbeEnd::Answered, Some(120_000)), ("call-held", Some(120))),
        (held(ProbeEnd::Lost, Some(60_500)), ("call-lost", Some(60))),
        (held(ProbeEnd::Answered, None), ("unclear", None)),
        (held(ProbeEnd::Silent, None), ("unclear", None)),
    ] {
        assert_eq!(judge(HeldCall, std::slice::from_ref(&run)), want, "{run:?}");
    }
}
