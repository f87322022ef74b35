//! `GET /v1/models` and `GET /v1/models/{id}`, in OpenAI's shape, and in Anthropic's for its
//! clients.

use axum::{
    Json,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse as _, Response},
};
use http::HeaderMap;
use ibeam_core::{
    error::{ErrorCode, TurnError},
    models::ModelInfo,
};
use serde::Serialize;

use super::{
    Ctx, Service,
    anthropic_models::{self, Page, Part},
    error::{self, ANTHROPIC_VERSION},
};

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Card<'a>>,
}

#[derive(Serialize)]
struct Card<'a> {
    id: &'a str,
    name: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    capabilities: Capabilities<'a>,
    aliases: &'a [String],
}

#[derive(Serialize)]
struct Capabilities<'a> {
    tools: bool,
    images: bool,
    reasoning: bool,
    /// What `reasoning_effort` may be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    efforts: Vec<&'a str>,
}

impl<'a> Card<'a> {
    fn new(id: &'a str, info: &'a ModelInfo, created: u64) -> Self {
        Self {
            id,
            name: if info.name.is_empty() { id } else { &info.name },
            object: "model",
            created,
            owned_by: info.owner(),
            context_window: Some(info.context_window).filter(|&tokens| tokens > 0),
            max_output_tokens: Some(info.output_limit).filter(|&tokens| tokens > 0),
            capabilities: Capabilities {
                // Client tools reach every model the same way.
                tools: true,
                images: info.images,
                reasoning: info.thinking,
                efforts: info.efforts().collect(),
            },
            aliases: &info.aliases,
        }
    }
}

pub(super) async fn list<S: Service>(
    State(shared): Ctx<S>,
    part: Result<Query<Part>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    match shared.service.models().await {
        Ok(models) if headers.contains_key(ANTHROPIC_VERSION) => {
            // A query that cannot be read asks for nothing.
            let part = part.map(|Query(part)| part).unwrap_or_default();
            match Page::new(&models, &part) {
                Ok(page) => Json(page).into_response(),
                Err(failure) => error::response(&failure),
            }
        }
        Ok(models) => {
            let data = models
                .list
                .visible()
                .map(|info| Card::new(info.public_id(), info, models.created))
                .collect();
            Json(List { object: "list", data }).into_response()
        }
        Err(failure) => error::response(&failure),
    }
}

/// Any name that a request may use, under the name that was asked for.
pub(super) async fn one<S: Service>(
    State(shared): Ctx<S>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let Ok(Path(id)) = id else {
        let failure = TurnError::new(ErrorCode::InvalidValue, "the id in the path is not UTF-8");
        return error::response(&failure);
    };
    let models = match shared.service.models().await {
        Ok(models) => models,
        Err(failure) => return error::response(&failure),
    };
    match models.list.resolve(&id, None) {
        Ok(resolved) => {
            let info = resolved.info.unwrap_or_else(|| ModelInfo::from_id(&id));
            if headers.contains_key(ANTHROPIC_VERSION) {
                Json(anthropic_models::Card::new(&id, &info, models.created)).into_response()
            } else {
                Json(Card::new(&id, &info, models.created)).into_response()
            }
        }
        // Here the model is the resource, and a missing one is a 404.
        Err(failure) if failure.code == ErrorCode::ModelNotFound => {
            error::with_status(&failure, 404)
        }
        Err(failure) => error::response(&failure),
    }
}
