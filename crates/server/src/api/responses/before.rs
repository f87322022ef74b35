//! What a request goes on from: the items of the responses before it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use bytes::Bytes;
use ibeam_core::{
    error::{ErrorCode, TurnError},
    wire::responses::{self, Request},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Recent, short, unreadable};
use crate::{
    api::{Service, Shared, decode},
    keys::Caller,
    store::{Link, NoChain, StoredResponse},
};

/// What a request that brings nothing but results has from the response that asked for
/// them, unless it says otherwise.
const HANDED_ON: [&str; 5] = ["tools", "instructions", "reasoning", "text", "parallel_tool_calls"];

/// Responses that the input of one request may name items of.
const REFERENCES: usize = 256;

/// A request with everything it goes on from.
#[derive(Debug)]
pub(in crate::api) struct Prepared {
    pub(in crate::api) request: Request,
    /// The items of the responses before it.
    pub(in crate::api) before: Vec<Box<RawValue>>,
}

/// Reads a request, and looks up what it goes on from. `recent`: what its connection remembers.
///
/// # Errors
/// It cannot be understood, or there is no such response.
pub(in crate::api) async fn prepare<S: Service>(
    shared: &Shared<S>,
    caller: &Caller,
    body: Bytes,
    recent: Option<&Recent>,
) -> Result<Prepared, TurnError> {
    let mut request = decode::body(shared, caller, body.clone(), responses::decode).await?;
    let mut before = Vec::new();
    if request.is_whole() {
        return Ok(Prepared { request, before });
    }
    let past = Past { shared, caller, recent };
    if let Some(previous) = request.previous.clone() {
        let bytes = body.len();
        let look = move || (only_results(&request.input), request);
        let (bare, looked_at) = decode::run(shared, caller, bytes, look).await?;
        request = looked_at;
        if bare && let Some(last) = past.response(&previous).await? {
            let (body, bytes) = (body.clone(), bytes + last.body.len());
            let whole = move || {
                let whole = handed_on(&body, &last.body)?;
                Some(responses::decode(&whole))
            };
            if let Some(whole) = decode::run(shared, caller, bytes, whole).await? {
                request = whole?;
            }
        }
        before = past.items(previous).await?;
    }
    let named: BTreeSet<String> =
        request.references().filter_map(responses::response_of).take(REFERENCES).collect();
    let most = shared.service.settings().body_limit;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for id in named {
        if let Some(response) = past.response(&id).await? {
            bytes += response.output.len();
            if bytes > most {
                return Err(refusal(&NoChain::TooLong));
            }
            found.extend(list(&response.output)?);
        }
    }
    drop(body);
    let bytes = before.iter().fold(bytes, |sum, item| sum + item.get().len());
    let complete = move || {
        request.resolve(&found, most)?;
        request.after(&before)?;
        Ok(Prepared { request, before })
    };
    decode::run(shared, caller, bytes, complete).await?
}

struct Past<'a, S> {
    shared: &'a Shared<S>,
    caller: &'a Caller,
    recent: Option<&'a Recent>,
}

impl<S: Service> Past<'_, S> {
    async fn response(&self, id: &str) -> Result<Option<StoredResponse>, TurnError> {
        if let Some(found) = self.recent.and_then(|recent| recent.last(id)) {
            return Ok(Some(found.clone()));
        }
        let service = &self.shared.service;
        let scope = service.scope(self.caller).await?;
        let found = service.store().response(scope, id, service.unix_now()).await;
        found.map_err(|error| unreadable(&error))
    }

    /// Everything said up to and in the response of that id.
    async fn items(&self, id: String) -> Result<Vec<Box<RawValue>>, TurnError> {
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
            return Err(refusal(&NoChain::TooLong));
        }
        let read = move || {
            let mut items = Vec::new();
            for part in links.iter().flat_map(|link| [&link.input, &link.output]) {
                items.extend(list(part)?);
            }
            Ok::<_, TurnError>(items)
        };
        decode::run(self.shared, self.caller, bytes, read).await?
    }

    async fn kept(&self, id: &str, most: usize) -> Result<Vec<Link>, TurnError> {
        let service = &self.shared.service;
        let scope = service.scope(self.caller).await?;
        let chain = service.store().chain(scope, id, most, service.unix_now()).await;
        chain.map_err(|error| unreadable(&error))?.map_err(|why| match why {
            NoChain::Missing(id) if self.shared.background.has(scope, &id) => still_runs(&id),
            why => refusal(&why),
        })
    }
}

fn list(items: &str) -> Result<Vec<Box<RawValue>>, TurnError> {
    serde_json::from_str(items).map_err(|error| {
        let text = "an earlier response of this conversation is kept in a broken form";
        TurnError::new(ErrorCode::Internal, text).cause(error.to_string())
    })
}

/// It is kept when it has ended.
fn still_runs(id: &str) -> TurnError {
    let text = format!(
        "the previous response `{}` is in_progress; it can be continued once it is completed",
        short(id)
    );
    TurnError::new(ErrorCode::InvalidValue, text).param("previous_response_id")
}

fn refusal(why: &NoChain) -> TurnError {
    let (code, text) = match why {
        NoChain::Missing(id) => (
            ErrorCode::PreviousResponseNotFound,
            format!(
                "there is no previous response `{}`, or it is not kept any more; \
                 send the whole conversation as `input`",
                short(id)
            ),
        ),
        NoChain::Unfinished { id, status } => (
            ErrorCode::InvalidValue,
            format!("the previous response `{}` is {status}: it cannot be continued", short(id)),
        ),
        NoChain::TooLong => (
            ErrorCode::ContextTooLong,
            "the conversation before this request is longer than a request may be".to_owned(),
        ),
    };
    TurnError::new(code, text).param("previous_response_id")
}

/// Whether all that a request says itself are results of calls.
fn only_results(input: &[Box<RawValue>]) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
    }
    let is_result = |item: &RawValue| {
        serde_json::from_str::<Kind<'_>>(item.get())
            .is_ok_and(|item| item.r#type.ends_with("_output"))
    };
    !input.is_empty() && input.iter().all(|item| is_result(item))
}

/// A turn that waits for results has its tools and its instructions already. A request that
/// brings the results and names neither goes on with that turn as it is: otherwise it would
/// be another one, and be asked for anew. None: it names some.
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
