//! Answers to the backend's approval questions. An unanswered one hangs the turn
//! for ever, so every arm has an answer, unknown ones included.

use bytes::Bytes;
use ibeam_proto::agent::{
    AskQuestionInteractionResponse, AskQuestionRejected, AskQuestionResult, CreatePlanError,
    CreatePlanRequestResponse, CreatePlanResult, Empty, ExaFetchRequestResponse,
    ExaSearchRequestResponse, GenerateImageRequestResponse, InteractionQuery, InteractionResponse,
    ReasonText, SetupVmEnvironmentResult, SwitchModeRequestResponse, WebFetchRequestResponse,
    WebSearchRequestResponse, ask_question_result, create_plan_result, exa_fetch_request_response,
    exa_search_request_response, generate_image_request_response, interaction_query::Query,
    interaction_response::Result as Answer, setup_vm_environment_result,
    switch_mode_request_response, web_fetch_request_response, web_search_request_response,
};

use super::request::Permissions;
use crate::codec::{connect, pbwalk};

const NO_WEB_SEARCH: &str = "Web search is switched off in this gateway's configuration \
                             (`allow.web_search`). Answer without it.";
const NO_WEB_FETCH: &str = "Fetching web pages is switched off in this gateway's configuration \
                            (`allow.web_fetch`). Answer without it, or use the tools on offer.";
const NO_QUESTIONS: &str =
    "Questions cannot be answered here. Decide yourself and say what you assumed.";
const NO_MODES: &str = "The mode cannot be changed through this gateway.";
const NO_IMAGES: &str = "Images cannot be made through this gateway.";
const NO_PLANS: &str = "Plans cannot be stored through this gateway. Write the plan as text.";

macro_rules! decide {
    ($module:ident, $response:ident, $allowed:expr, $reason:expr) => {
        $response {
            result: Some(if $allowed {
                $module::Result::Approved(Empty {})
            } else {
                $module::Result::Rejected(ReasonText { reason: $reason.to_owned() })
            }),
        }
    };
}

/// The answer to a query, or `None` when its arm is not in our schema; the caller
/// then answers by number.
pub(super) fn answer(query: &InteractionQuery, allow: Permissions) -> Option<InteractionResponse> {
    let result = match query.query.as_ref()? {
        Query::WebSearchRequestQuery(_) => Answer::WebSearchRequestResponse(decide!(
            web_search_request_response,
            WebSearchRequestResponse,
            allow.web_search,
            NO_WEB_SEARCH
        )),
        Query::ExaSearchRequestQuery(_) => Answer::ExaSearchRequestResponse(decide!(
            exa_search_request_response,
            ExaSearchRequestResponse,
            allow.web_search,
            NO_WEB_SEARCH
        )),
        Query::ExaFetchRequestQuery(_) => Answer::ExaFetchRequestResponse(decide!(
            exa_fetch_request_response,
            ExaFetchRequestResponse,
            allow.web_fetch,
            NO_WEB_FETCH
        )),
        Query::WebFetchRequestQuery(_) => Answer::WebFetchRequestResponse(decide!(
            web_fetch_request_response,
            WebFetchRequestResponse,
            allow.web_fetch,
            NO_WEB_FETCH
        )),
        Query::SwitchModeRequestQuery(_) => Answer::SwitchModeRequestResponse(decide!(
            switch_mode_request_response,
            SwitchModeRequestResponse,
            false,
            NO_MODES
        )),
        Query::AskQuestionInteractionQuery(_) => {
            Answer::AskQuestionInteractionResponse(AskQuestionInteractionResponse {
                result: Some(AskQuestionResult {
                    result: Some(ask_question_result::Result::Rejected(AskQuestionRejected {
                        reason: NO_QUESTIONS.to_owned(),
                    })),
                }),
            })
        }
        Query::CreatePlanRequestQuery(_) => {
            Answer::CreatePlanRequestResponse(CreatePlanRequestResponse {
                result: Some(CreatePlanResult {
                    plan_uri: String::new(),
                    result: Some(create_plan_result::Result::Error(CreatePlanError {
                        error: NO_PLANS.to_owned(),
                    })),
                }),
            })
        }
        // The protocol knows no refusal here; success means nothing was asked of us.
        Query::SetupVmEnvironmentArgs(_) => {
            Answer::SetupVmEnvironmentResult(SetupVmEnvironmentResult {
                result: Some(setup_vm_environment_result::Result::Success(
                    ibeam_proto::agent::SetupVmEnvironmentSuccess {},
                )),
            })
        }
        Query::GenerateImageRequestQuery(_) => {
            Answer::GenerateImageRequestResponse(GenerateImageRequestResponse {
                result: Some(generate_image_request_response::Result::Rejected(ReasonText {
                    reason: NO_IMAGES.to_owned(),
                })),
            })
        }
        // Their layouts are not published: refused by number like an unknown arm.
        Query::McpAuthRequestQuery(_)
        | Query::PrManagementRequestQuery(_)
        | Query::ReplaceEnvRequestQuery(_)
        | Query::ConnectScmRequestQuery(_) => return None,
    };
    Some(InteractionResponse { id: query.id, result: Some(result) })
}

/// The field number of a query's arm, read from its bytes: the only field besides
/// the id (1).
fn arm_number(query: &[u8]) -> Option<u32> {
    pbwalk::fields(query).find(|field| field.number > 1).map(|field| field.number)
}

/// The framed refusal of a query whose arm our schema does not have. `message` is the whole of
/// what the server sent.
pub(super) fn refuse_unknown(id: u32, message: &[u8]) -> Option<Bytes> {
    /// `interaction_query` in `AgentServerMessage`.
    const QUERY: u32 = 7;
    const RESPONSE_TAG: u8 = 0x32; // AgentClientMessage field 6, length-delimited
    let raw = pbwalk::fields(message).find(|field| field.number == QUERY)?;
    let body = refuse_by_number(id, arm_number(raw.payload?)?);
    let mut out = vec![RESPONSE_TAG];
    prost::encoding::encode_varint(body.len() as u64, &mut out);
    out.extend_from_slice(&body);
    Some(connect::frame(0, &out))
}

/// Refuses an arm by its number: field N holding `rejected { reason }`, the form
/// that nearly all published approval answers share. Other clients approve what
/// they do not know; we cannot know what that would allow.
fn refuse_by_number(id: u32, arm: u32) -> Vec<u8> {
    use ibeam_proto::Wire as _;
    use prost::encoding;
    let rejected = ReasonText { reason: "This gateway does not know that request.".to_owned() };
    let mut inner = Vec::new();
    encoding::message::encode(2, &rejected, &mut inner);
    let mut out = InteractionResponse { id, result: None }.to_wire().to_vec();
    encoding::encode_key(arm, encoding::WireType::LengthDelimited, &mut out);
    encoding::encode_varint(inner.len() as u64, &mut out);
    out.extend_from_slice(&inner);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    #[test]
    fn web_search_is_approved_with_the_documented_bytes() {
        let query = InteractionQuery {
            id: 4,
            query: Some(Query::WebSearchRequestQuery(Default::default())),
        };
        let allow = Permissions { web_search: true, web_fetch: false };
        let bytes = answer(&query, allow).unwrap().encode_to_vec();
        assert_eq!(bytes, [0x08, 0x04, 0x12, 0x02, 0x0a, 0x00]);
    }

    #[test]
    fn nothing_is_approved_by_default() {
        for query in [
            Query::WebSearchRequestQuery(Default::default()),
            Query::ExaSearchRequestQuery(Default::default()),
            Query::ExaFetchRequestQuery(Default::default()),
            Query::WebFetchRequestQuery(Default::default()),
            Query::SwitchModeRequestQuery(Default::default()),
        ] {
            let answer = answer(
                &InteractionQuery { id: 1, query: Some(query.clone()) },
                Permissions::default(),
            );
            let bytes = answer.unwrap().encode_to_vec();
            let arm = pbwalk::fields(&bytes).nth(1).unwrap().payload.unwrap();
            assert_eq!(arm.first(), Some(&0x12), "rejected, not approved: {query:?}");
        }
    }

    #[test]
    fn refusals_name_the_setting_that_allows_it() {
        for (query, setting) in [
            (Query::WebSearchRequestQuery(Default::default()), "`allow.web_search`"),
            (Query::WebFetchRequestQuery(Default::default()), "`allow.web_fetch`"),
        ] {
            let query = InteractionQuery { id: 1, query: Some(query) };
            let answer = answer(&query, Permissions::default()).unwrap();
            let said = format!("{answer:?}");
            assert!(said.contains(setting), "{said}");
        }
    }

    #[test]
    fn unknown_arm_is_refused_under_its_own_number() {
        assert_eq!(arm_number(&[0x08, 0x07, 0xa2, 0x01, 0x00]), Some(20));
        let bytes = refuse_by_number(7, 20);
        assert_eq!(&bytes[..4], [0x08, 0x07, 0xa2, 0x01]);
        assert_eq!(arm_number(&bytes), Some(20));
    }
}
