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
    Ctx, GatewayService,
    anthropic_models::{self, ModelPage, PageQuery},
    error::{self, ApiDialect, HandlerError},
};

#[derive(Serialize)]
struct OpenAiModelList<'a> {
    object: &'static str,
    data: Vec<OpenAiModel<'a>>,
}

#[derive(Serialize)]
struct OpenAiModel<'a> {
    id: &'a str,
    name: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    capabilities: ModelFeatures<'a>,
    aliases: &'a [String],
}

#[derive(Serialize)]
struct ModelFeatures<'a> {
    tools: bool,
    images: bool,
    reasoning: bool,
    /// What `reasoning_effort` may be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    efforts: Vec<&'a str>,
}

impl<'a> OpenAiModel<'a> {
    fn new(id: &'a str, info: &'a ModelInfo, created: u64) -> Self {
        Self {
            id,
            name: if info.name.is_empty() { id } else { &info.name },
            object: "model",
            created,
            owned_by: info.owner(),
            context_window: Some(info.context_window).filter(|&tokens| tokens > 0),
            max_output_tokens: Some(info.output_limit).filter(|&tokens| tokens > 0),
            capabilities: ModelFeatures {
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

pub(super) async fn list<S: GatewayService>(
    State(shared): Ctx<S>,
    Extension(dialect): Extension<ApiDialect>,
    part: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Response, HandlerError> {
    let models = shared.service.models().await?;
    Ok(match dialect {
        ApiDialect::Anthropic => {
            // A query that cannot be read asks for nothing.
            let part = part.map(|Query(part)| part).unwrap_or_default();
            Json(ModelPage::new(&models, &part)?).into_response()
        }
        ApiDialect::OpenAi => {
            let visible = models.list.visible();
            let data = visible.map(|info| OpenAiModel::new(info.public_id(), info, models.created));
            Json(OpenAiModelList { object: "list", data: data.collect() }).into_response()
        }
    })
}

/// Any name that a request may use, under the name that was asked for.
pub(super) async fn one<S: GatewayService>(
    State(shared): Ctx<S>,
    Extension(dialect): Extension<ApiDialect>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, HandlerError> {
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
        ApiDialect::Anthropic => {
            Json(anthropic_models::AnthropicModel::new(&id, &info, models.created)).into_response()
        }
        ApiDialect::OpenAi => Json(OpenAiModel::new(&id, &info, models.created)).into_response(),
    })
}
