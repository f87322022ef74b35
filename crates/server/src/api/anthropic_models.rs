//! The list of models in Anthropic's shape, page by page.

use ibeam_core::{
    error::{ErrorCode, TurnError},
    models::ModelInfo,
};
use serde::{Deserialize, Serialize};

use super::DatedModelList;
use crate::clock;

/// The default size of a page, and the largest.
const LIMIT: usize = 20;
const MOST: usize = 1000;

/// Which part of the list is wanted. Texts, so that a wrong one gets an error of ours.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    limit: Option<String>,
    after_id: Option<String>,
    before_id: Option<String>,
}

#[derive(Serialize)]
pub(super) struct ModelPage<'a> {
    data: Vec<AnthropicModel<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct AnthropicModel<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    created_at: String,
    /// What is listed can be used.
    lifecycle: &'static str,
    max_input_tokens: Option<u32>,
    max_tokens: Option<u32>,
}

impl<'a> AnthropicModel<'a> {
    pub(super) fn new(id: &'a str, info: &'a ModelInfo, created: u64) -> Self {
        Self {
            kind: "model",
            id,
            display_name: if info.name.is_empty() { id } else { &info.name },
            created_at: clock::rfc3339(created),
            lifecycle: "active",
            max_input_tokens: Some(info.context_window).filter(|&tokens| tokens > 0),
            max_tokens: Some(info.output_limit).filter(|&tokens| tokens > 0),
        }
    }
}

impl<'a> ModelPage<'a> {
    /// # Errors
    /// `part` asks for something that cannot be.
    pub(super) fn new(models: &'a DatedModelList, part: &PageQuery) -> Result<Self, TurnError> {
        let limit = part.limit()?;
        let all: Vec<_> = models.list.visible().map(|info| (info.public_id(), info)).collect();
        let place = |name, id: &Option<String>| match id {
            None => Ok(None),
            Some(id) => match all.iter().position(|(own, _)| own == id) {
                Some(place) => Ok(Some(place)),
                None => Err(wrong(name, format!("`{name}` is not the id of a listed model"))),
            },
        };
        let first = place("after_id", &part.after_id)?.map_or(0, |last| last + 1);
        let end = place("before_id", &part.before_id)?.unwrap_or(all.len());
        let between = all.get(first..end).unwrap_or_default();
        // With only `before_id`, the page ends right before that model.
        let backwards = part.before_id.is_some() && part.after_id.is_none();
        let skipped = between.len().saturating_sub(limit);
        let shown = if backwards { between.get(skipped..) } else { between.get(..limit) };
        let shown = shown.unwrap_or(between);
        Ok(Self {
            data: shown
                .iter()
                .map(|(id, info)| AnthropicModel::new(id, info, models.created))
                .collect(),
            has_more: skipped > 0,
            first_id: shown.first().map(|(id, _)| *id),
            last_id: shown.last().map(|(id, _)| *id),
        })
    }
}

impl PageQuery {
    fn limit(&self) -> Result<usize, TurnError> {
        let Some(text) = &self.limit else { return Ok(LIMIT) };
        let limit = text.parse().ok().filter(|limit| (1..=MOST).contains(limit));
        limit.ok_or_else(|| wrong("limit", format!("`limit` must be a number from 1 to {MOST}")))
    }
}

fn wrong(param: &'static str, text: String) -> TurnError {
    TurnError::new(ErrorCode::InvalidValue, text).param(param)
}
