//! Stored responses: `GET` and `DELETE /v1/responses/{id}`, and its input items.

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::PathRejection},
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, header};
use ibeam_core::error::{ErrorCode, TurnError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{not_found, unreadable};
use crate::{
    api::{Ctx, GatewayService, Shared, error::HandlerError},
    keys::Caller,
    store::{Scope, StoredResponse},
};

/// Items in one page of a list.
const PAGE: usize = 20;
const LARGEST_PAGE: usize = 100;

pub(super) type PathId = Result<Path<String>, PathRejection>;
type QueryPairs = Query<Vec<(String, String)>>;

pub(in crate::api) async fn get<S: GatewayService>(
    State(shared): Ctx<S>,
    Extension(caller): Extension<Caller>,
    id: PathId,
    Query(words): QueryPairs,
) -> Result<Response, HandlerError> {
    if words.iter().any(|(name, value)| name == "stream" && value == "true") {
        let text = "a stored response cannot be streamed; poll it until its `status` is \
                    neither `queued` nor `in_progress`";
        return Err(TurnError::new(ErrorCode::UnsupportedParameter, text).param("stream").into());
    }
    let id = named(id)?;
    let scope = shared.service.scope(&caller).await?;
    if let Some(current) = shared.background.current(scope, &id) {
        return Ok(json(current));
    }
    Ok(json(find(&shared, scope, &id).await?.body))
}

pub(in crate::api) async fn delete<S: GatewayService>(
    State(shared): Ctx<S>,
    Extension(caller): Extension<Caller>,
    id: PathId,
) -> Result<Response, HandlerError> {
    #[derive(Serialize)]
    struct DeletedResponse {
        id: String,
        object: &'static str,
        deleted: bool,
    }
    let id = named(id)?;
    let scope = shared.service.scope(&caller).await?;
    // It is kept when it has ended, and only then can be deleted.
    shared.background.cancel(scope, &id).await;
    let deleted = shared.service.store().forget_response(scope, &id).await;
    if !deleted.map_err(|error| unreadable(&error))? {
        return Err(not_found(&id).into());
    }
    Ok(Json(DeletedResponse { id, object: "response", deleted: true }).into_response())
}

pub(in crate::api) async fn input_items<S: GatewayService>(
    State(shared): Ctx<S>,
    Extension(caller): Extension<Caller>,
    id: PathId,
    Query(words): QueryPairs,
) -> Result<Response, HandlerError> {
    let id = named(id)?;
    let page = ItemPage::of(&words)?;
    let scope = shared.service.scope(&caller).await?;
    let input = match shared.background.input(scope, &id) {
        Some(input) => input,
        None => find(&shared, scope, &id).await?.input,
    };
    let items: Vec<Box<RawValue>> = serde_json::from_str(&input).unwrap_or_default();
    Ok(Json(page.cut(items)?).into_response())
}

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
struct ItemPage {
    limit: usize,
    ascending: bool,
    after: Option<String>,
}

#[derive(Debug, Serialize)]
struct ItemList {
    object: &'static str,
    data: Vec<Box<RawValue>>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

impl ItemPage {
    fn of(words: &[(String, String)]) -> Result<Self, TurnError> {
        let mut page = Self { limit: PAGE, ascending: false, after: None };
        for (name, value) in words {
            match name.as_str() {
                "limit" => {
                    let limit =
                        value.parse().ok().filter(|limit| (1..=LARGEST_PAGE).contains(limit));
                    page.limit = limit
                        .ok_or_else(|| invalid("limit", "must be a whole number from 1 to 100"))?;
                }
                "order" => {
                    page.ascending = match value.as_str() {
                        "asc" => true,
                        "desc" => false,
                        _ => return Err(invalid("order", "must be `asc` or `desc`")),
                    };
                }
                "after" => page.after = Some(value.clone()),
                _ => {}
            }
        }
        Ok(page)
    }

    fn cut(self, mut items: Vec<Box<RawValue>>) -> Result<ItemList, TurnError> {
        if !self.ascending {
            items.reverse();
        }
        if let Some(after) = &self.after {
            let at = items.iter().position(|item| id_of(item).as_ref() == Some(after));
            let unknown = || invalid("after", "is not the id of an item of this response");
            let at = at.ok_or_else(unknown)?;
            items.drain(..=at);
        }
        let has_more = items.len() > self.limit;
        items.truncate(self.limit);
        Ok(ItemList {
            object: "list",
            first_id: items.first().and_then(|item| id_of(item)),
            last_id: items.last().and_then(|item| id_of(item)),
            has_more,
            data: items,
        })
    }
}

fn invalid(param: &'static str, what: &str) -> TurnError {
    TurnError::new(ErrorCode::InvalidValue, format!("`{param}` {what}")).param(param)
}

fn id_of(item: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct ItemId {
        id: String,
    }
    serde_json::from_str::<ItemId>(item.get()).ok().map(|item| item.id)
}

// === what the routes share ===

pub(super) async fn find<S: GatewayService>(
    shared: &Shared<S>,
    scope: Scope,
    id: &str,
) -> Result<StoredResponse, TurnError> {
    let service = &shared.service;
    let found = service.store().response(scope, id, service.unix_now()).await;
    found.map_err(|error| unreadable(&error))?.ok_or_else(|| not_found(id))
}

pub(super) fn named(id: PathId) -> Result<String, TurnError> {
    match id {
        Ok(Path(id)) => Ok(id),
        Err(_) => Err(TurnError::new(ErrorCode::InvalidValue, "the id in the path is not UTF-8")),
    }
}

pub(super) fn json(body: impl Into<axum::body::Body>) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    ([kind], body.into()).into_response()
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
