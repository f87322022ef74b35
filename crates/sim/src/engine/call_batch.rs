//! Calls and other execs that are started together: what announces them, the execs, and what
//! happens when all are answered.

use ibeam_core::codec::connect::Code;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    ExecServerAbort, ExecServerControlMessage, McpArgs, SmartModeApproval,
    ToolRequestsListedUpdate, agent_server_message::Message as ToClient,
    exec_client_message::Message as Reply, exec_server_control_message,
    interaction_update::Message as Update, mcp_result,
};

use super::{
    exec::{ExecAnswer, ExecOutcome},
    run::SimRun,
    run_io::{ClientAnswer, QuestionKey, RunResult, fail},
};
use crate::{
    behaviour::{ListedAt, RefusedCalls, ToolsMode},
    scenario::{EncodedArm, ExecStep, Quirk, ScenarioStep, StepError},
};

/// Characters by which the assistant's arguments grow.
const PIECE: usize = 12;
/// The arm of client tools.
pub(super) const MCP: u32 = 11;
/// The namespace of the service's own tools.
const RESERVED: &str = "cursor";

/// An exec that is not sent yet.
#[derive(Debug)]
struct PreparedExec {
    arm: EncodedArm,
    mcp: Option<McpArgs>,
    /// With updates around it.
    announced: bool,
    /// The service refuses it with this text.
    refused: Option<String>,
    partial: Option<usize>,
    id: Option<u32>,
    exec_id: Option<String>,
    forget: bool,
}

/// An exec that was started.
#[derive(Debug)]
pub(crate) enum RunningExec {
    /// It is running at the client.
    Open { key: QuestionKey, call: Option<Box<RunningCall>> },
    /// The service refused it.
    Refused { args: Box<McpArgs>, text: String },
}

/// A call of a client's tool.
#[derive(Debug)]
pub(crate) struct RunningCall {
    args: McpArgs,
    announced: bool,
}

/// A call that has its outcome.
#[derive(Debug)]
pub(crate) struct EndedCall {
    pub(crate) args: McpArgs,
    pub(crate) answer: ExecAnswer,
    /// Its end is still to be announced.
    pub(crate) announce: bool,
}

impl SimRun {
    /// Starts all, then waits for all. The results are joined.
    pub(crate) async fn execs(&mut self, execs: &[ExecStep]) -> RunResult {
        let mut prepared = Vec::with_capacity(execs.len());
        for exec in execs {
            prepared.push(self.prepare_exec(exec)?);
        }
        let started = Box::pin(self.start_all(prepared)).await?;
        if let Some(batch) = &mut self.batch {
            batch.extend(started);
            return self.io.flush().await;
        }
        self.settle(started, 1).await.map(drop)
    }

    /// Plays steps, then waits for all their execs.
    pub(crate) async fn in_batch(&mut self, steps: Vec<ScenarioStep>) -> RunResult {
        let calls = |step: &ScenarioStep| match step {
            ScenarioStep::Exec(exec) => u32::from(exec.arm == "mcp"),
            _ => 0,
        };
        self.listed_ahead = steps.iter().map(calls).sum();
        self.batch = Some(Vec::new());
        for step in steps {
            Box::pin(self.step(step)).await?;
        }
        let started = self.batch.take().unwrap_or_default();
        self.settle(started, 1).await.map(drop)
    }

    /// Calls client tools in parallel and waits for all.
    pub(crate) async fn call_all(&mut self, calls: Vec<McpArgs>) -> RunResult<Vec<ExecAnswer>> {
        let prepared = calls.into_iter().map(|args| PreparedExec {
            arm: EncodedArm { field: MCP, payload: args.to_wire() },
            announced: true,
            refused: self.refusal_of(&args, None),
            mcp: Some(args),
            partial: Some(PIECE),
            id: None,
            exec_id: None,
            forget: false,
        });
        let prepared = prepared.collect();
        let started = Box::pin(self.start_all(prepared)).await?;
        self.settle(started, 0).await
    }

    /// Starts one exec that a script aborts.
    pub(crate) async fn start_exec(&mut self, exec: &ExecStep) -> RunResult<QuestionKey> {
        let prepared = vec![self.prepare_exec(exec)?];
        let started = Box::pin(self.start_all(prepared)).await?;
        match started.into_iter().next() {
            Some(RunningExec::Open { key, .. }) => Ok(key),
            _ => Err(fail(Code::Internal, "the exec to abort was not started")),
        }
    }

    pub(crate) async fn abort(&mut self, key: QuestionKey) -> RunResult {
        let QuestionKey::Exec(id) = key else { return Ok(()) };
        self.io.forget(key);
        let abort = exec_server_control_message::Message::Abort(ExecServerAbort { id });
        let message = ExecServerControlMessage { message: Some(abort) };
        self.io.emit(ToClient::ExecServerControlMessage(message)).await
    }

    // === before ===

    fn prepare_exec(&mut self, exec: &ExecStep) -> RunResult<PreparedExec> {
        let mut arm = exec.arm().map_err(|e| broken(&e))?;
        let mut mcp = None;
        if arm.field == MCP {
            let mut args = McpArgs::from_wire(arm.payload.clone()).unwrap_or_default();
            self.complete(&mut args);
            arm.payload = args.to_wire();
            mcp = Some(args);
        }
        let refused = mcp.as_ref().and_then(|args| self.refusal_of(args, exec.refused.as_deref()));
        Ok(PreparedExec {
            arm,
            mcp,
            announced: exec.announce.unwrap_or(true),
            refused,
            partial: exec.partial,
            id: exec.id,
            exec_id: exec.exec_id.clone(),
            forget: exec.forget,
        })
    }

    /// Why the service refuses a call by itself; `scripted`: the script wants that.
    fn refusal_of(&self, args: &McpArgs, scripted: Option<&str>) -> Option<String> {
        if let Some(text) = scripted {
            return Some(text.to_owned());
        }
        let policy = self.behaviour().tools_refuse_server_side;
        let declared = || {
            self.prompt.tools.iter().any(|tool| {
                tool.tool_name == args.tool_name && tool.provider == args.provider_identifier
            })
        };
        match policy {
            RefusedCalls::Off => None,
            RefusedCalls::First if self.responses == 0 && !self.calls_started => {
                Some("The call could not be resolved".to_owned())
            }
            _ if args.provider_identifier == RESERVED => {
                Some(format!("{RESERVED} is a reserved namespace"))
            }
            _ if !declared() => Some(format!("Tool {} was not found", args.tool_name)),
            RefusedCalls::PerCall | RefusedCalls::First => None,
        }
    }

    async fn start_all(&mut self, mut prepared: Vec<PreparedExec>) -> RunResult<Vec<RunningExec>> {
        let behaviour = self.io.behaviour.clone();
        if prepared.iter().any(|exec| exec.mcp.is_some()) {
            self.calls_started = true;
            if behaviour.tools_mode != ToolsMode::Direct {
                Box::pin(self.show_catalogue()).await?;
            }
        }
        if behaviour.tools_exec_without_partial {
            for exec in &mut prepared {
                exec.announced = false;
                exec.exec_id = Some(String::new());
            }
        }
        let count = self.listed_count(&prepared);
        if behaviour.tools_listed27 == ListedAt::BeforeStarted {
            self.list_calls(count).await?;
        }
        let together = behaviour.tools_listed27 == ListedAt::Between;
        if together {
            for exec in &prepared {
                self.announce(exec).await?;
            }
            self.list_calls(count).await?;
        }
        let mut started = Vec::with_capacity(prepared.len());
        for exec in prepared {
            if !together {
                self.announce(&exec).await?;
            }
            let forget = exec.forget;
            let running = Box::pin(self.send_exec(exec)).await?;
            if forget {
                self.io.flush().await?;
                continue;
            }
            if let (RunningExec::Open { key, .. }, true) =
                (&running, behaviour.tools_serial_second_call)
            {
                self.io.answered(&[*key]).await?;
            }
            started.push(running);
        }
        if behaviour.tools_listed27 == ListedAt::AfterExecs {
            self.list_calls(count).await?;
        }
        Ok(started)
    }

    /// How many calls are announced now. Those of a scripted batch are announced with its first.
    fn listed_count(&mut self, prepared: &[PreparedExec]) -> u32 {
        if self.batch.is_some() {
            return std::mem::take(&mut self.listed_ahead);
        }
        let counts_refused = self.behaviour().tools_listed_counts_refused;
        let calls = prepared.iter().filter(|exec| {
            is_call(exec.arm.field) && !exec.forget && (counts_refused || exec.refused.is_none())
        });
        u32::try_from(calls.count()).unwrap_or(u32::MAX)
    }

    async fn list_calls(&mut self, call_count: u32) -> RunResult {
        if call_count == 0 {
            return Ok(());
        }
        let listed = ToolRequestsListedUpdate { call_count };
        self.io.update(Update::ToolRequestsListed(listed)).await
    }

    /// Announces one call of the service's own.
    pub(super) async fn list_native_call(&mut self) -> RunResult {
        match self.behaviour().tools_listed27 {
            ListedAt::Off => Ok(()),
            ListedAt::BeforeStarted | ListedAt::Between | ListedAt::AfterExecs => {
                self.list_calls(1).await
            }
        }
    }

    async fn announce(&mut self, exec: &PreparedExec) -> RunResult {
        match &exec.mcp {
            Some(args) if exec.announced => Box::pin(self.announce_begin(args, exec.partial)).await,
            _ => Ok(()),
        }
    }

    // === sending ===

    async fn send_exec(&mut self, exec: PreparedExec) -> RunResult<RunningExec> {
        let PreparedExec { mut arm, mcp, announced, refused, id, exec_id, .. } = exec;
        let mut refused = refused;
        if let (Some(args), None) = (&mcp, &refused) {
            refused = Box::pin(self.ask_permission(args)).await?;
        }
        if let (Some(args), Some(text)) = (&mcp, refused) {
            if announced {
                Box::pin(self.announce_refusal(args, &text)).await?;
            }
            return Ok(RunningExec::Refused { args: Box::new(args.clone()), text });
        }
        if let (Some(args), true) = (&mcp, self.behaviour().tools_literal_meta) {
            arm.payload = self.literal_call(args).to_wire();
        }
        let id = id.unwrap_or(self.io.next_exec);
        self.io.next_exec = self.io.next_exec.max(id) + 1;
        let exec_id = exec_id.unwrap_or_else(|| self.exec_id(id));
        let key = self.io.ask_exec(id, &exec_id, &arm).await?;
        let keep = announced || self.behaviour().tools_exec_without_partial;
        let call = mcp.filter(|_| keep).map(|args| Box::new(RunningCall { args, announced }));
        Ok(RunningExec::Open { key, call })
    }

    /// Asks whether a call may be made, where the switch wants that. Returns the refusal.
    async fn ask_permission(&mut self, args: &McpArgs) -> RunResult<Option<String>> {
        if !self.behaviour().tools_approval_only {
            return Ok(None);
        }
        let probe = McpArgs {
            smart_mode_approval: Some(SmartModeApproval {
                request_id: args.tool_call_id.clone(),
                reason: "The call needs an approval".to_owned(),
            }),
            smart_mode_approval_only: true,
            ..args.clone()
        };
        let arm = EncodedArm { field: MCP, payload: probe.to_wire() };
        let key = self.ask_exec(&arm).await?;
        let answer = self.io.exec_answer(key).await?;
        let result = match answer.reply {
            Some(Reply::McpResult(result)) => result.result,
            _ => None,
        };
        Ok(match result {
            Some(mcp_result::Result::Approved(_)) => None,
            Some(mcp_result::Result::Rejected(rejected)) => Some(rejected.reason),
            _ => {
                self.io.violation("a question for permission was not approved or rejected");
                Some("The call was not approved".to_owned())
            }
        })
    }

    // === after ===

    /// Waits until all of these are answered, and records the answers. One that was aborted
    /// meanwhile has none. `steps` is how many steps of the script are done with that.
    async fn settle(
        &mut self,
        started: Vec<RunningExec>,
        steps: usize,
    ) -> RunResult<Vec<ExecAnswer>> {
        let keys: Vec<_> = started
            .iter()
            .filter_map(|running| match running {
                RunningExec::Open { key, .. } => Some(*key),
                RunningExec::Refused { .. } => None,
            })
            .collect();
        self.io.answered_in_time(&keys).await?;
        self.count_step();
        let mut answers = Vec::with_capacity(started.len());
        let mut calls = Vec::with_capacity(started.len());
        for running in started {
            match running {
                RunningExec::Open { key, call } => {
                    let Some(ClientAnswer::Exec(answer)) = self.io.take_answer(key) else {
                        continue;
                    };
                    calls.extend(call.map(|call| EndedCall {
                        args: call.args,
                        answer: ExecAnswer::clone(&answer),
                        announce: call.announced,
                    }));
                    answers.push(*answer);
                }
                RunningExec::Refused { args, text } => {
                    let outcome = ExecOutcome::Error;
                    let answer = ExecAnswer { text, outcome, reply: None };
                    calls.push(EndedCall { args: *args, answer: answer.clone(), announce: false });
                    answers.push(answer);
                }
            }
        }
        let texts: Vec<_> = answers.iter().map(|answer| answer.text.as_str()).collect();
        self.last_result = texts.join("\n");
        // From here on, a turn that is interrupted does not call these again.
        self.at_step += steps;
        Box::pin(self.announce_ends(calls)).await?;
        if self.has(Quirk::ReaskContext) {
            Box::pin(self.ask_context()).await?;
        }
        Box::pin(self.ask_mcp_state(false)).await?;
        Ok(answers)
    }
}

/// Whether an exec arm is a call of a tool.
fn is_call(field: u32) -> bool {
    matches!(field, 2..=5 | 7 | 8 | MCP | 14 | 16 | 20 | 45..=52)
}

/// The error for a step that does not encode, although the scenario was checked.
pub(super) fn broken(error: &StepError) -> super::run_io::RunStop {
    fail(Code::Internal, &error.to_string())
}
