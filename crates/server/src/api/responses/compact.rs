//! `POST /v1/responses/compact`: a conversation made short. The model sums it up, and the
//! client continues from the summary and what its user said.

use axum::{extract::State, response::Response};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::{
        AnswerFormat, FinishReason, Item, Message, Part, Role, ToolChoice, TurnEvent, TurnRequest,
        Usage,
    },
    wire::{cut_off, responses},
};

use super::{before::Prepared, stored::json};
use crate::api::{Ctx, Service, answer::Answer, decode, error::Failed, turn::Incoming};

const SUM_UP: &str = "Sum up this conversation for someone who has to continue it and can \
see nothing of it but what you write now, and the user's own messages. Say what the task is and \
what was asked for on the way, what was found out and decided and why, which files, names, \
commands and values matter, what is done, and what comes next. Keep exact what has to be exact. \
Write only the summary, and call no tool.";

pub(in crate::api) async fn compact<S: Service>(
    State(shared): Ctx<S>,
    incoming: Incoming,
) -> Result<Response, Failed> {
    let (mut asked, prepared) = incoming.prepare_and(&shared, None, |whole| whole).await?;
    let bytes = prepared.bytes();
    let Prepared { request, before } = prepared;
    let look = move || {
        let mut kept = responses::user_messages(&before);
        kept.extend(responses::user_messages(&request.input));
        (kept, request.turn)
    };
    let (kept, turn) = decode::run(&shared, &asked.caller, bytes, look).await?;
    let turn = to_be_summed_up(turn);
    let (summary, usage) = read(asked.start(&shared, turn)).await?;
    let service = &shared.service;
    let id = responses::response_id(service.random());
    Ok(json(responses::compaction(&id, service.unix_now(), &summary, &kept, usage)))
}

/// The same conversation, with one more thing to do.
fn to_be_summed_up(mut turn: TurnRequest) -> TurnRequest {
    turn.items.push(Item::Message(Message {
        role: Role::User,
        parts: vec![Part::Text(SUM_UP.to_owned())],
    }));
    turn.tools.clear();
    turn.tool_choice = ToolChoice::None;
    turn.sampling.stop.clear();
    turn.sampling.format = AnswerFormat::Text;
    turn.hints.stream = false;
    turn
}

async fn read<T: crate::api::EventSource>(
    mut answer: Answer<T>,
) -> Result<(String, Usage), TurnError> {
    let (mut summary, mut usage) = (String::new(), Usage::default());
    while let Some(event) = answer.next().await {
        match event {
            TurnEvent::Text(text) => summary.push_str(&text),
            TurnEvent::Usage(counted) => usage = counted,
            TurnEvent::Finished(FinishReason::Length) => {
                let text = "the summary did not fit into `max_output_tokens`; raise it";
                return Err(
                    TurnError::new(ErrorCode::InvalidValue, text).param("max_output_tokens")
                );
            }
            TurnEvent::Finished(_) if summary.trim().is_empty() => {
                let text = "the model did not return a summary; try again";
                return Err(TurnError::new(ErrorCode::UpstreamError, text));
            }
            TurnEvent::Finished(_) => return Ok((summary, usage)),
            TurnEvent::Failed(failure) => return Err(failure),
            TurnEvent::Started
            | TurnEvent::Reasoning(_)
            | TurnEvent::ToolCallBegin { .. }
            | TurnEvent::ToolCallArgs { .. }
            | TurnEvent::ToolCallEnd { .. } => {}
        }
    }
    Err(cut_off())
}
