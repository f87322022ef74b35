//! What a failure changes about the next run, and what else sections 5 to 8 say about a request.

use ibeam_proto::agent::AgentRunRequest;
use ibeam_proto::aiserver::ErrorKind;

use super::*;
use crate::{
    codec::connect::CursorError,
    model::{AgentMode, RunModes},
    peer::{StoredState, agent::ModelMemory},
};

/// A turn of this model with a history, in the form that `auto` chooses.
pub(super) fn with_history(model: &str, parameters: &[(&str, &str)]) -> Bench {
    let mut request = request(&["read"]);
    request.items = vec![user("q"), said("a"), user("next")];
    of(request, |plan| {
        plan.history = HistorySetting::Auto;
        plan.model.id = model.into();
        let owned = |(id, value): &(&str, &str)| ((*id).to_owned(), (*value).to_owned());
        plan.model.parameters = parameters.iter().map(owned).collect();
    })
}

pub(super) fn of(request: TurnRequest, change: impl FnOnce(&mut Plan)) -> Bench {
    let mut plan = plan_for(&request);
    change(&mut plan);
    let mut bench = Bench::planned(request, plan, Settings::default());
    bench.opened();
    bench
}

fn detailed(code: Code, kind: ErrorKind, title: &str) -> ConnectError {
    let detail = CursorError {
        kind,
        title: title.to_owned(),
        retryable: Some(false),
        ..CursorError::default()
    };
    ConnectError { code, message: "Error".to_owned(), detail: Some(Box::new(detail)) }
}

fn needs_max() -> ConnectError {
    detailed(Code::FailedPrecondition, ErrorKind::ErrorMaxModeRequired, "Max Mode Required")
}

pub(super) fn refused_prompt() -> ConnectError {
    let mut error =
        detailed(Code::ResourceExhausted, ErrorKind::ErrorProviderError, "Provider Error");
    let info = &mut error.detail.as_mut().unwrap().additional_info;
    info.insert("providerStatusCode".to_owned(), "400".to_owned());
    error
}

fn region() -> ConnectError {
    let error =
        detailed(Code::Unauthenticated, ErrorKind::ErrorUnauthorized, "Unauthorized request.");
    let mut error = error;
    "This region is not available for your team."
        .clone_into(&mut error.detail.as_mut().unwrap().detail);
    error
}

impl Bench {
    /// The requests so far.
    pub(super) fn runs(&self) -> Vec<AgentRunRequest> {
        let sent = self.sent().into_iter();
        sent.filter_map(|message| match message {
            ToServer::RunRequest(run) => Some(run),
            _ => None,
        })
        .collect()
    }

    /// What the links so far were opened with.
    fn links(&self) -> Vec<AgentOpen> {
        let opened = self.commands.iter().filter_map(|command| match command {
            Command::Open(open) => Some(open.peer.clone()),
            _ => None,
        });
        opened.collect()
    }

    /// The run fails, and the next one is opened if there is one.
    pub(super) fn fails(&mut self, error: &ConnectError) {
        let opens = self.opens();
        self.end(Some(error));
        if self.opens() > opens {
            self.opened();
        }
    }

    /// The service fetches something of the history.
    pub(super) fn fetches(&mut self) {
        self.say(FromServer::KvServerMessage(KvServerMessage {
            id: 9,
            message: Some(kv_server_message::Message::GetBlobArgs(GetBlobArgs {
                blob_id: Bytes::from_static(b"any"),
            })),
            ..KvServerMessage::default()
        }));
    }
}

fn max_modes(run: &AgentRunRequest) -> (Option<bool>, bool) {
    let details = run.model_details.as_ref().and_then(|details| details.max_mode);
    (details, run.requested_model.as_ref().unwrap().max_mode)
}

#[test]
fn section_5_a_region_error_asks_for_another_host_once_and_never_for_a_token() {
    let mut bench = Bench::open(&[]);
    bench.fails(&region());
    bench.fails(&region());
    let other: Vec<_> = bench.links().into_iter().map(|link| link.other_host).collect();
    assert_eq!(other, [None, Some(0)]);
    assert_eq!(bench.failure(), ErrorCode::RegionUnsupported);
    let fresh = |command: &TurnCommand<AgentPeer>| matches!(command, Command::Open(open) if open.fresh_token);
    assert!(!bench.commands.iter().any(fresh));
    let runs = bench.runs();
    assert_eq!(runs[0].conversation_id, runs[1].conversation_id, "it is the same conversation");

    // The user's own host is all there is.
    let mut bench = of(request(&[]), |plan| plan.host_changes = None);
    bench.fails(&region());
    assert_eq!((bench.opens(), bench.failure()), (1, ErrorCode::RegionUnsupported));
}

#[test]
fn section_6_max_mode_is_tried_once_in_both_fields_and_remembered() {
    let memory = Arc::default();
    let remember = |plan: &mut Plan| plan.memory = Arc::clone(&memory);
    let mut bench = of(request(&[]), remember);
    bench.fails(&needs_max());
    let runs = bench.runs();
    assert_eq!(max_modes(&runs[0]), (None, false));
    assert_eq!(max_modes(&runs[1]), (Some(true), true));
    assert_eq!(runs[0].conversation_id, runs[1].conversation_id);
    bench.fails(&needs_max());
    assert_eq!((bench.opens(), bench.failure()), (2, ErrorCode::PlanRequired));
    // A failure alone changes nothing for others.
    let mut bench = of(request(&[]), remember);
    assert_eq!(max_modes(&bench.runs()[0]), (None, false));
    // But the next turn knows what has worked.
    bench.fails(&needs_max());
    finish(&mut bench, "done");
    let bench = of(request(&[]), remember);
    assert_eq!(max_modes(&bench.runs()[0]), (Some(true), true));
}

#[test]
fn section_6_a_changed_run_goes_on_from_the_kept_state() {
    let kept = StoredState {
        checkpoint: Bytes::from_static(b"\x50\x01\x9a\x06\x03new"),
        blobs: Vec::new(),
        covers: 2,
        calls: Vec::new(),
        new_setup: false,
    };
    let mut request = request(&[]);
    request.items = vec![user("q"), said("a"), user("next")];
    let mut bench = of(request, |plan| plan.kept = Some(kept));
    bench.fails(&needs_max());
    let frames: Vec<Bytes> = bench
        .commands
        .iter()
        .filter_map(|command| match command {
            Command::Send(frame) => Some(frame.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(frames.len(), 2);
    for frame in frames {
        let unknown = b"\x9a\x06\x03new";
        assert!(frame.windows(unknown.len()).any(|window| window == unknown), "byte for byte");
    }
}

#[test]
fn section_6_a_model_in_both_fields_at_odds_is_named_in_one() {
    let early = ConnectError::new(Code::InvalidArgument, "Error");
    let mut bench = with_history("gpt-5.5", &[("reasoning", "high")]);
    bench.fails(&early);
    let runs = bench.runs();
    assert!(runs[0].model_details.is_some() && runs[1].model_details.is_none());
    let requested = runs[1].requested_model.as_ref().unwrap();
    assert_eq!((requested.model_id.as_str(), requested.parameters.len()), ("gpt-5.5", 1));
    // Not the reason, as it turns out: then it is the form of the history.
    bench.fetches();
    bench.fails(&early);
    assert_eq!(bench.opens(), 3);
    assert_ne!(bench.runs()[2].conversation_id, runs[0].conversation_id);

    // After the history was fetched, its form is the first to be changed.
    let mut bench = with_history("gpt-5.5", &[("reasoning", "high")]);
    bench.fetches();
    bench.fails(&early);
    assert!(bench.runs()[1].model_details.is_some());
    // Without parameters there is nothing at odds.
    let mut bench = of(request(&[]), |plan| plan.model.id = "gpt-5.5".into());
    bench.fails(&early);
    assert_eq!((bench.opens(), bench.failure()), (1, ErrorCode::InvalidValue));
}

#[test]
fn section_7_schemas_that_cannot_be_read_are_sent_as_text_once() {
    let unread = ConnectError::new(Code::Internal, "parse binary: premature EOF");
    let mut bench = Bench::open(&["read"]);
    bench.fails(&unread);
    let tools = |run: &AgentRunRequest| run.mcp_tools.clone().unwrap().mcp_tools;
    let runs = bench.runs();
    let (before, after) = (&tools(&runs[0])[0], &tools(&runs[1])[0]);
    assert!(before.input_schema_json.is_none() && !before.input_schema.is_empty());
    assert!(after.input_schema.is_empty());
    let text: serde_json::Value =
        serde_json::from_str(after.input_schema_json.as_deref().unwrap()).unwrap();
    assert_eq!(text["type"], "object");
    bench.fails(&unread);
    assert_eq!((bench.opens(), bench.failure()), (2, ErrorCode::UpstreamError));
}

#[test]
fn section_7_a_stream_that_closes_at_once_is_an_error_and_never_an_empty_answer() {
    let mut bench = Bench::open(&[]);
    for _ in 0..3 {
        bench.eof();
        bench.wait(Duration::from_secs(10));
        bench.opened();
    }
    bench.eof();
    assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
    let TurnEvent::Failed(error) = bench.ending() else { panic!() };
    assert!(error.message.contains("the plan's limit"), "{}", error.message);
}

#[test]
fn section_7_a_lost_conversation_goes_on_under_another_id_once() {
    let lost = ConnectError::new(Code::Internal, "Conversation data missing");
    let mut bench = Bench::open(&[]);
    bench.fails(&lost);
    let runs = bench.runs();
    assert_ne!(runs[0].conversation_id, runs[1].conversation_id);
    assert_eq!(runs[0].conversation_group_id, runs[1].conversation_group_id);
    bench.fails(&lost);
    assert_eq!((bench.opens(), bench.failure()), (2, ErrorCode::UpstreamError));
}

#[test]
fn section_2_4_a_missing_tool_is_remembered_once_it_helped_and_only_if_it_exists() {
    let memory: Arc<ModelMemory> = Arc::default();
    let mut bench = of(request(&["read"]), |plan| plan.memory = Arc::clone(&memory));
    for tool in ["WRITE_CANVAS", "MADE_UP"] {
        let text = format!("Required tool {tool} not found in allTools");
        bench.fails(&ConnectError::new(Code::Internal, text));
        assert!(memory.all().is_empty());
    }
    let allowed = &bench.links()[2].allowed_tools;
    assert!(allowed.ends_with(",write_canvas_tool_call,made_up_tool_call"), "{allowed}");
    finish(&mut bench, "done");
    assert_eq!(memory.of("default").allowed_tools, ["write_canvas_tool_call"]);
}

#[test]
fn section_6_one_field_for_the_model_is_remembered_only_if_that_was_the_reason() {
    let early = ConnectError::new(Code::InvalidArgument, "Error");
    for was_reason in [true, false] {
        let mut bench = with_history("gpt-5.5", &[("reasoning", "high")]);
        bench.fails(&early);
        if !was_reason {
            bench.fails(&refused_prompt());
        }
        finish(&mut bench, "done");
        let facts = bench.turn.peer().spec.memory.of("gpt-5.5");
        assert_eq!((facts.one_model_field, facts.history.is_some()), (was_reason, !was_reason));
    }
}

/// Each remedy is used at most once, and all of them together are at most five runs.
#[test]
fn section_7_all_remedies_of_a_leg_are_at_most_five_runs() {
    let mut bench = with_history("gpt-5.5", &[("reasoning", "high")]);
    let missing = |tool: &str| {
        let text = format!("Required tool {tool} not found in allTools");
        ConnectError::new(Code::Internal, text)
    };
    bench.fails(&needs_max());
    bench.fails(&missing("TODO_WRITE"));
    bench.fails(&region());
    bench.fails(&refused_prompt());
    assert_eq!(bench.opens(), 5);
    bench.fails(&missing("WRITE_CANVAS"));
    assert_eq!(bench.opens(), 5, "that would be the sixth");
    assert!(matches!(bench.ending(), TurnEvent::Failed(_)));
    assert_eq!(bench.events.len(), 1);

    // Retries count, too.
    let mut bench = with_history("gpt-5.5", &[]);
    for _ in 0..3 {
        bench.fails(&ConnectError::new(Code::Unavailable, "later"));
        bench.wait(Duration::from_secs(10));
        bench.opened();
    }
    bench.fails(&needs_max());
    assert_eq!(bench.opens(), 5);
    bench.fails(&region());
    assert_eq!(bench.opens(), 5);
    assert_eq!(bench.failure(), ErrorCode::RegionUnsupported);
}

#[test]
fn section_8_a_conversation_has_a_group_and_each_run_its_own_id() {
    let is_uuid = |id: &Option<String>| id.as_ref().is_some_and(|id| id.len() == 36);
    let first = Bench::open(&[]).runs().remove(0);
    assert!(is_uuid(&first.conversation_group_id) && is_uuid(&first.run_id));
    // Another turn of the same conversation.
    let second = of(request(&[]), |plan| plan.run_seed = "another turn".into()).runs().remove(0);
    assert_eq!(first.conversation_group_id, second.conversation_group_id);
    assert_ne!(first.run_id, second.run_id);
    let other = of(request(&[]), |plan| plan.conversation_id = "other".into()).runs().remove(0);
    assert_ne!(first.conversation_group_id, other.conversation_group_id);
}

#[test]
fn section_8_a_mode_is_in_the_message_the_state_and_the_instructions() {
    for (mode, number) in [(AgentMode::Agent, 1), (AgentMode::Ask, 2), (AgentMode::Plan, 3)] {
        let mut asked = request(&[]);
        asked.hints.modes = RunModes { mode: Some(mode), max: None };
        let run = of(asked, |plan| plan.inline_context = true).runs().remove(0);
        assert_eq!(run.conversation_state.unwrap().mode, Some(number));
        let Some(conversation_action::Action::UserMessageAction(action)) =
            run.action.unwrap().action
        else {
            panic!()
        };
        assert_eq!(action.user_message.unwrap().mode, number);
        let rule = &action.request_context.unwrap().rules[0].content;
        assert_eq!(rule.contains("mode:"), mode != AgentMode::Agent, "{rule}");
    }
}

#[test]
fn section_8_a_conversation_can_leave_its_mode() {
    let mode_of_run = |state: &'static [u8], mode: Option<AgentMode>| {
        let kept = StoredState {
            checkpoint: Bytes::from_static(state),
            blobs: Vec::new(),
            covers: 2,
            calls: Vec::new(),
            new_setup: false,
        };
        let mut asked = request(&[]);
        asked.items = vec![user("q"), said("a"), user("next")];
        asked.hints.modes = RunModes { mode, max: None };
        let run = of(asked, |plan| plan.kept = Some(kept)).runs().remove(0);
        run.conversation_state.unwrap().mode
    };
    assert_eq!(mode_of_run(b"\x50\x03", None), Some(1), "back to work");
    assert_eq!(mode_of_run(b"\x50\x03", Some(AgentMode::Plan)), Some(3));
    assert_eq!(mode_of_run(b"\x50\x01", Some(AgentMode::Plan)), Some(3));
    assert_eq!(mode_of_run(b"\x50\x04", None), Some(4), "a mode of the service's own stays");
}

#[test]
fn section_8_the_workspace_and_the_time_zone_are_told_to_the_model() {
    let mut asked = request(&[]);
    asked.hints.workspace = Some("/home/me/app".into());
    let environment = Environment { time_zone: "Europe/Paris".into(), ..Environment::default() };
    let around = Surroundings::new(&asked, &environment, Permissions::default(), true);
    let env = around.context.env.unwrap();
    assert_eq!(env.workspace_paths, ["/home/me/app"]);
    assert_eq!(
        (env.project_folder.as_str(), env.time_zone.as_str()),
        ("/home/me/app", "Europe/Paris")
    );
}

#[test]
fn section_4_results_without_a_checkpoint_are_continued_as_the_model_takes_them() {
    let action = |run: &AgentRunRequest| run.action.clone().unwrap().action.unwrap();
    let is_resumed = |run| matches!(action(run), conversation_action::Action::ResumeAction(_));
    let with_results = |model: &str| {
        let mut request = request(&["read"]);
        request.items = vec![user("q"), made(1, "read"), result(1, "hello")];
        of(request, |plan| {
            plan.history = HistorySetting::Auto;
            plan.model.id = model.into();
        })
    };
    // Resumed, and asked as the user where that gives nothing.
    let mut bench = with_results("claude-sonnet-5");
    bench.update(ended());
    bench.end(None);
    bench.opened();
    let runs = bench.runs();
    assert_eq!([is_resumed(&runs[0]), is_resumed(&runs[1])], [true, false]);
    // Some models of Cursor's own ignore what they are asked to resume.
    for model in ["composer-2.5", "default"] {
        let runs = with_results(model).runs();
        let conversation_action::Action::UserMessageAction(asked) = action(&runs[0]) else {
            panic!("{model}")
        };
        assert!(asked.user_message.unwrap().text.contains("results"), "{model}");
    }
}
