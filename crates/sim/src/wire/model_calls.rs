//! The unary calls about models, titles and the server's configuration.

use bytes::Bytes;
use http::HeaderMap;
use ibeam_proto::Wire as _;
use ibeam_proto::{
    agent::{
        AgentUrlConfig, GetDefaultModelForCliResponse, GetServerConfigResponse,
        GetUsableModelsResponse, NameAgentRequest, NameAgentResponse,
    },
    aiserver::{AvailableModelsRequest, AvailableModelsResponse},
};
use serde_json::{Value, json};

use super::{
    Sim,
    responses::{self, SimResponse},
};
use crate::{
    assistant::title_of,
    engine,
    models::{MODELS, proto_json},
    scenario::Quirk,
    stream::BodyFormat,
};

const CONFIG_VERSION: &str = "5c3f0a52-6f0e-4a53-9d0e-2f1f5a1c7b11";

/// Answers the unary calls of this module; `None` for all others.
pub(crate) fn answer(
    sim: &Sim,
    path: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<SimResponse> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let service_known = matches!(
        (service, method),
        (
            "agent.v1.AgentService" | "aiserver.v1.AiService",
            "GetUsableModels" | "GetDefaultModelForCli" | "NameAgent"
        ) | ("aiserver.v1.AiService", "AvailableModels" | "HealthCheck")
            | ("agent.v1.AgentService" | "aiserver.v1.ServerConfigService", "GetServerConfig")
    );
    if !service_known {
        return None;
    }
    let Some(form) = BodyFormat::of(headers) else {
        return Some(responses::unsupported());
    };
    if let Err(error) = sim.service.auth.check(headers) {
        return Some(responses::error_in(form, &error));
    }
    let body = form.payload(body);
    let enveloped = sim.service.state.quirks().has(Quirk::EnvelopedUnary);
    Some(match method {
        "GetUsableModels" => {
            let models: Vec<_> = MODELS
                .iter()
                .flat_map(|m| {
                    m.slugs().into_iter().map(|(slug, thinking)| m.details(&slug, thinking))
                })
                .collect();
            let as_json =
                json!({ "models": models.iter().map(proto_json::details).collect::<Vec<_>>() });
            responses::unary(form, &GetUsableModelsResponse { models }, &as_json, enveloped)
        }
        "GetDefaultModelForCli" => {
            let model = MODELS.first().map(|m| m.details(m.id, false));
            let as_json = json!({ "model": model.as_ref().map(proto_json::details) });
            responses::unary(form, &GetDefaultModelForCliResponse { model }, &as_json, enveloped)
        }
        "NameAgent" => {
            let name = title_of(&first_message(form, body));
            let as_json = json!({ "name": name });
            responses::unary(form, &NameAgentResponse { name }, &as_json, enveloped)
        }
        "AvailableModels" => {
            let with_parameters = wants_parameters(form, body);
            let message = AvailableModelsResponse {
                model_names: MODELS.iter().map(|m| m.id.to_owned()).collect(),
                models: MODELS.iter().map(|m| m.available(with_parameters)).collect(),
                use_model_parameters: with_parameters,
            };
            let as_json = proto_json::available(&message);
            responses::unary(form, &message, &as_json, enveloped)
        }
        "GetServerConfig" => {
            let message = GetServerConfigResponse {
                config_version: CONFIG_VERSION.to_owned(),
                http2_config: sim.config().http2_config,
                agent_url_config: agent_urls(sim),
            };
            let mut as_json = json!({
                "configVersion": CONFIG_VERSION,
                "http2Config": message.http2_config().as_str_name(),
            });
            if let (Some(urls), Some(table)) = (&message.agent_url_config, as_json.as_object_mut())
            {
                let urls = json!({ "agentUrl": urls.agent_url, "agentnUrl": urls.agentn_url });
                table.insert("agentUrlConfig".to_owned(), urls);
            }
            responses::unary(form, &message, &as_json, enveloped)
        }
        _ => responses::unary(form, &NameAgentResponse::default(), &json!({}), enveloped),
    })
}

/// The addresses for runs, where the service gives any.
fn agent_urls(sim: &Sim) -> Option<AgentUrlConfig> {
    let (agent, agentn) = engine::agent_urls(sim.service.state.behaviour.host_config)?;
    Some(AgentUrlConfig { agent_url: agent.to_owned(), agentn_url: agentn.to_owned() })
}

fn first_message(form: BodyFormat, body: &[u8]) -> String {
    match form {
        BodyFormat::Json => json_field(body, "userMessage")
            .and_then(|text| text.as_str().map(str::to_owned))
            .unwrap_or_default(),
        _ => {
            let body = Bytes::copy_from_slice(body);
            NameAgentRequest::from_wire(body).unwrap_or_default().user_message
        }
    }
}

fn wants_parameters(form: BodyFormat, body: &[u8]) -> bool {
    match form {
        BodyFormat::Json => json_field(body, "useModelParameters") == Some(Value::Bool(true)),
        _ => {
            let body = Bytes::copy_from_slice(body);
            AvailableModelsRequest::from_wire(body).unwrap_or_default().use_model_parameters
        }
    }
}

fn json_field(body: &[u8], name: &str) -> Option<Value> {
    serde_json::from_slice::<Value>(body).ok()?.get_mut(name).map(Value::take)
}
