//! What a request continues: the items of the responses before it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use bytes::Bytes;
use ibeam_core::{
    error::{ErrorCode, TurnError},
    wire::responses::{self, ResponsesRequest},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{RecentResponses, short, unreadable};
use crate::{
    api::{GatewayService, Shared, bodies::BodyShare, decode},
    keys::Caller,
    store::{ChainError, ChainLink, Scope, StoredResponse},
};

/// What a request that brings nothing but results has from the response that asked for
/// them, unless it says otherwise.
const HANDED_ON: [&str; 5] = ["tools", "instructions", "reasoning", "text", "parallel_tool_calls"];

/// Responses that the input of one request may name items of.
const REFERENCES: usize = 256;

/// A request with everything it continues.
#[derive(Debug)]
pub(in crate::api) struct PreparedRequest {
    pub(in crate::api) request: ResponsesRequest,
    /// The items of the responses before it.
    pub(in crate::api) before: Vec<Box<RawValue>>,
}

impl PreparedRequest {
    /// About how many bytes it has in memory.
    pub(in crate::api) fn bytes(&self) -> usize {
        self.request.bytes() + responses::bytes_of(&self.before)
    }

    /// The turn has what came before. The stored form is rarely needed.
    pub(in crate::api) fn without_before(mut self) -> Self {
        self.before = Vec::new();
        self
    }
}

/// Reads a request, and looks up what it continues. `recent`: what its connection remembers.
/// What is looked up counts in `share`.
///
/// # Errors
/// The request is invalid, the response does not exist, or memory for bodies is used up.
pub(in crate::api) async fn prepare<S: GatewayService>(
    shared: &Shared<S>,
    caller: &Caller,
    body: Bytes,
    recent: Option<&RecentResponses>,
    share: &mut BodyShare,
) -> Result<PreparedRequest, TurnError> {
    let request = decode::body(shared, caller, body.clone(), responses::decode).await?;
    if request.is_whole() {
        return Ok(PreparedRequest { request, before: Vec::new() });
    }
    let look = move || {
        let bare = request.previous.is_some() && only_results(&request.input);
        let named = request.references().filter_map(responses::response_of).take(REFERENCES);
        let (named, bytes) = (named.collect::<BTreeSet<String>>(), request.bytes());
        (request, bare, named, bytes)
    };
    // `bare`: it continues a response and brings only tool results. `named`: the responses that its
    // input names items of.
    let (mut request, bare, named, bytes) = decode::run(shared, caller, body.len(), look).await?;
    let body_bytes = body.len();
    let mut own = body_bytes + bytes;
    share.wait(own)?;
    // Looking up the account may take a while, so it holds no permit.
    let scope = shared.service.scope(caller).await;
    let _permit = shared.service.large_work().load(&caller.id).await;
    let past = EarlierResponses { shared, recent, scope };
    let (mut before, mut before_bytes) = (Vec::new(), 0);
    if let Some(previous) = request.previous.clone() {
        if bare && let Some(last) = past.response(&previous).await? {
            share.wait(own + last.size())?;
            let (body, bytes) = (body.clone(), body_bytes + last.body.len());
            let whole = move || {
                let whole = handed_on(&body, &last.body)?;
                Some(responses::decode(&whole))
            };
            if let Some(whole) = decode::run(shared, caller, bytes, whole).await? {
                request = whole?;
                own = body_bytes + request.bytes();
            }
        }
        let links = past.links(previous).await?;
        before_bytes = links.iter().map(|link| link.input.len() + link.output.len()).sum();
        share.wait(own + before_bytes)?;
        let room = responses::MOST_ITEMS.saturating_sub(request.input.len());
        let read = move || items(links.iter().flat_map(|link| [&link.input, &link.output]), room);
        before = decode::run(shared, caller, before_bytes, read).await??;
    }
    let most = shared.service.settings().body_limit;
    let (mut outputs, mut found_bytes) = (Vec::new(), 0);
    for id in named {
        if let Some(response) = past.response(&id).await? {
            share.wait(own + before_bytes + found_bytes + response.size())?;
            found_bytes += response.output.len();
            if found_bytes > most {
                return Err(refusal(&ChainError::TooLong));
            }
            outputs.push(response.output);
        }
    }
    drop(body);
    let (mut request, found, resolved) = if outputs.is_empty() {
        (request, Vec::new(), 0)
    } else {
        let find = move || {
            let found = items(&outputs, responses::MOST_ITEMS)?;
            let bytes = request.resolved_bytes(&found, most)?;
            Ok::<_, TurnError>((request, found, bytes))
        };
        decode::run(shared, caller, own + found_bytes, find).await??
    };
    // An item is in the turn, and once more as it came.
    share.wait(own + found_bytes + 2 * (before_bytes + resolved))?;
    let complete = move || {
        request.resolve(&found, most)?;
        request.after(&before)?;
        Ok(PreparedRequest { request, before })
    };
    decode::run(shared, caller, own + found_bytes + before_bytes + resolved, complete).await?
}

struct EarlierResponses<'a, S> {
    shared: &'a Shared<S>,
    recent: Option<&'a RecentResponses>,
    /// The account and key that the stored responses belong to.
    scope: Result<Scope, TurnError>,
}

impl<S: GatewayService> EarlierResponses<'_, S> {
    async fn response(&self, id: &str) -> Result<Option<StoredResponse>, TurnError> {
        if let Some(found) = self.recent.and_then(|recent| recent.last(id)) {
            return Ok(Some(found.clone()));
        }
        let service = &self.shared.service;
        let scope = self.scope.clone()?;
        let found = service.store().response(scope, id, service.unix_now()).await;
        found.map_err(|error| unreadable(&error))
    }

    /// Everything said up to and in the response of that id.
    async fn links(&self, id: String) -> Result<Vec<ChainLink>, TurnError> {
        let most = self.shared.service.settings().body_limit;
        let (newest, next) = match self.recent {
            Some(recent) => recent.chain(id),
            None => (Vec::new(), Some(id)),
        };
        for response in &newest {
            response.check().map_err(|why| refusal(&why))?;
        }
        let mut links = match next {
            Some(id) => self.kept(&id, most).await?,
            None => Vec::new(),
        };
        links.extend(newest.into_iter().rev().map(StoredResponse::link));
        let bytes: usize = links.iter().map(|link| link.input.len() + link.output.len()).sum();
        if bytes > most {
            return Err(refusal(&ChainError::TooLong));
        }
        Ok(links)
    }

    async fn kept(&self, id: &str, most: usize) -> Result<Vec<ChainLink>, TurnError> {
        let service = &self.shared.service;
        let scope = self.scope.clone()?;
        let chain = service.store().chain(scope, id, most, service.unix_now()).await;
        chain.map_err(|error| unreadable(&error))?.map_err(|why| match why {
            ChainError::Missing(id) if self.shared.background.has(scope, &id) => still_runs(&id),
            why => refusal(&why),
        })
    }
}

/// The items of lists, at most this many: each list was within the limit of its own request.
fn items<'a>(
    lists: impl IntoIterator<Item = &'a String>,
    room: usize,
) -> Result<Vec<Box<RawValue>>, TurnError> {
    let mut items = Vec::new();
    for list in lists {
        let list: Vec<_> = serde_json::from_str(list).map_err(|error| {
            let text = "an earlier response of this conversation is damaged in the store";
            TurnError::new(ErrorCode::Internal, text).cause(error.to_string())
        })?;
        if items.len() + list.len() > room {
            return Err(refusal(&ChainError::TooManyItems));
        }
        items.extend(list);
    }
    Ok(items)
}

/// It is kept when it has ended.
fn still_runs(id: &str) -> TurnError {
    let text = format!(
        "the previous response `{}` is in_progress; it can be continued once it is completed",
        short(id)
    );
    TurnError::new(ErrorCode::InvalidValue, text).param("previous_response_id")
}

fn refusal(why: &ChainError) -> TurnError {
    let (code, text) = match why {
        ChainError::Missing(id) => (
            ErrorCode::PreviousResponseNotFound,
            format!(
                "the previous response `{}` was not found or has expired; send the whole \
                 conversation as `input`",
                short(id)
            ),
        ),
        ChainError::Unfinished { id, status } => (
            ErrorCode::InvalidValue,
            format!("the previous response `{}` is {status}: it cannot be continued", short(id)),
        ),
        ChainError::TooLong => (
            ErrorCode::ContextTooLong,
            "the conversation before this request exceeds the size limit of a request".to_owned(),
        ),
        ChainError::TooManyItems => (
            ErrorCode::ContextTooLong,
            format!(
                "this request and the responses that it continues have more than {} items; begin a \
                 new conversation, or compact this one",
                responses::MOST_ITEMS
            ),
        ),
    };
    TurnError::new(code, text).param("previous_response_id")
}

/// Whether all that a request says itself are results of calls.
fn only_results(input: &[Box<RawValue>]) -> bool {
    #[derive(Deserialize)]
    struct ItemType<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
    }
    let is_result = |item: &RawValue| {
        serde_json::from_str::<ItemType<'_>>(item.get())
            .is_ok_and(|item| item.r#type.ends_with("_output"))
    };
    !input.is_empty() && input.iter().all(|item| is_result(item))
}

/// A turn that waits for results has its tools and its instructions already. A request that
/// brings the results and names neither continues that turn as it is: otherwise it would
/// be another one, and be asked for again. None: it names some.
fn handed_on(body: &[u8], before: &str) -> Option<Vec<u8>> {
    let mut request: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let before: BTreeMap<String, &RawValue> = serde_json::from_str(before).ok()?;
    if says(&request, "tools") || says(&request, "instructions") {
        return None;
    }
    for name in HANDED_ON {
        if let (false, Some(value)) = (says(&request, name), before.get(name)) {
            request.insert(name.to_owned(), value);
        }
    }
    serde_json::to_vec(&request).ok()
}

fn says(request: &BTreeMap<String, &RawValue>, name: &str) -> bool {
    request.get(name).is_some_and(|value| value.get() != "null")
}

#[cfg(test)]
#[path = "continuation_tests.rs"]
mod tests;
