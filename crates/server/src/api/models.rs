//! `GET /v1/models` and `GET /v1/models/{id}`, in OpenAI's shape, and in Anthropic's for its
//! clients.

use axum::{
    Extension, Json,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse as _, Response},
};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    models::ModelInfo,
};
use serde::Serialize;

use super::{
    Ctx, Service,
    anthropic_models::{self, Page, Part},
    error::{self, Dialect, Failed},
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
    Extension(dialect): Extension<Dialect>,
    part: Result<Query<Part>, QueryRejection>,
) -> Result<Response, Failed> {
    let models = shared.service.models().await?;
    Ok(match dialect {
        Dialect::Anthropic => {
            // A query that cannot be read asks for nothing.
            let part = part.map(|Query(part)| part).unwrap_or_default();
            Json(Page::new(&models, &part)?).into_response()
        }
        Dialect::OpenAi => {
            let visible = models.list.visible();
            let data = visible.map(|info| Card::new(info.public_id(), info, models.created));
            Json(List { object: "list", data: data.collect() }).into_response()
        }
    })
}

/// Any name that a request may use, under the name that was asked for.
pub(super) async fn one<S: Service>(
    State(shared): Ctx<S>,
    Extension(dialect): Extension<Dialect>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Failed> {
    let Ok(Path(id)) = id else {
        let text = "the id in the path is not UTF-8";
        return Err(TurnError::new(ErrorCode::InvalidValue, text).into());
    };
    let models = shared.service.models().await?;
    let resolved = match models.list.resolve(&id, None) {
        Ok(resolved) => resolved,
        // Here the model is the resource, and a missing one is a 404.
        Err(failure) if failure.code == ErrorCode::ModelNotFound => {
            return Ok(error::with_status(&failure, 404));
        }
        Err(failure) => return Err(failure.into()),
    };
    let info = resolved.info.unwrap_or_else(|| ModelInfo::from_id(&id));
    Ok(match dialect {
        Dialect::Anthropic => {
            Json(anthropic_models::Card::new(&id, &info, models.created)).into_response()
        }
        Dialect::OpenAi => Json(Card::new(&id, &info, models.created)).into_response(),
    })
}
