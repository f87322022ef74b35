//! Pages, by the client's own fetching tool. A shell cannot stand in for it: what it may reach is
//! the user's decision, and a fetching tool is where clients ask for it.

use ibeam_proto::agent::{
    FetchError, FetchResult, FetchSuccess, exec_client_message::Message as Reply, fetch_result,
};

use super::{
    ClientCall, Equipment, Outcome, Through,
    outcome::bare,
    schema::{may, must},
    table::{Capability, Slot},
};

/// For tools that have a model read the page.
const QUESTION: &str = "Give back the content of this page in full, without changing it.";

pub(super) fn call(url: &str, kit: &Equipment) -> Option<ClientCall> {
    if url.is_empty() {
        return None;
    }
    let order = kit.call(Capability::Fetch, |tool| {
        tool.fill(&[
            must(Slot::Url, url),
            may(Slot::Format, "markdown"),
            may(Slot::Question, QUESTION),
            may(Slot::About, "Fetches a page"),
        ])
    })?;
    Some(order.with(super::Form::Fetch { url: url.to_owned() }, Through::Tool))
}

pub(super) fn reply(url: &str, outcome: &Outcome) -> Reply {
    let url = url.to_owned();
    let result = match outcome {
        Outcome::Done(text) => fetch_result::Result::Success(FetchSuccess {
            url,
            content: text.clone(),
            // Clients give every other status as an error.
            status_code: 200,
            // What it was before the client made text of it is not known.
            content_type: "text/plain".to_owned(),
        }),
        // This arm has no refusal of its own.
        Outcome::Refused(text) | Outcome::Failed(text) => {
            fetch_result::Result::Error(FetchError { url, error: bare(text).to_owned() })
        }
    };
    Reply::FetchResult(FetchResult { result: Some(result) })
}
