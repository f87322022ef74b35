use std::collections::BTreeSet;

use super::*;
use crate::api::{tests::Fake, unversioned, versioned};

fn parts() -> Vec<Value> {
    PARTS.iter().map(|part| serde_json::from_str(part).unwrap()).collect()
}

/// Every value that is not an object, with the place it has.
fn leaves(value: &Value, place: String, all: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                leaves(field, format!("{place}/{}", name.replace('/', "~1")), all);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, format!("{place}/{index}"), all);
            }
        }
        leaf => all.push((place, leaf.clone())),
    }
}

#[test]
fn document_contains_every_part() {
    for part in parts() {
        let mut all = Vec::new();
        leaves(&part, String::new(), &mut all);
        assert!(all.len() > 10);
        for (place, value) in all {
            if place != "/info/version" && value != Value::Object(serde_json::Map::new()) {
                assert_eq!(DOCUMENT.pointer(&place), Some(&value), "{place}");
            }
        }
    }
    assert_eq!(text(&DOCUMENT["info"], "version"), env!("CARGO_PKG_VERSION"));
}

/// An undocumented route, or a documented path without a route, fails here.
#[test]
fn document_describes_every_route() {
    let mut routes = BTreeSet::new();
    let versioned =
        versioned::<Fake>(true).into_iter().map(|(path, allow, ..)| (format!("/v1{path}"), allow));
    let unversioned =
        unversioned::<Fake>().into_iter().map(|(path, allow, ..)| (path.to_owned(), allow));
    for (path, allow) in versioned.chain(unversioned) {
        // The same under another name, for probes.
        if path == "/healthz" {
            continue;
        }
        for method in allow.split(", ").filter(|method| !["HEAD", "OPTIONS"].contains(method)) {
            routes.insert(format!("{method} {}", path.replace("{*", "{")));
        }
    }
    let described: BTreeSet<String> = endpoints(true).iter().cloned().collect();
    assert_eq!(described, routes);
    assert_eq!(described.len(), endpoints(true).len(), "each once");
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let methods = paths.values().map(|item| item.as_object().unwrap().len()).sum::<usize>();
    assert_eq!(methods, endpoints(true).len(), "each under a tag that there is");
}

#[test]
fn references_resolve_and_schemas_are_used() {
    let mut all = Vec::new();
    leaves(&DOCUMENT, String::new(), &mut all);
    let mut used = BTreeSet::new();
    for (place, value) in all {
        if place.ends_with("/$ref") {
            let target = value.as_str().unwrap();
            assert!(DOCUMENT.pointer(target.strip_prefix('#').unwrap()).is_some(), "{target}");
            used.insert(target.to_owned());
        }
    }
    for kind in ["schemas", "responses", "headers", "parameters"] {
        for name in DOCUMENT["components"][kind].as_object().unwrap().keys() {
            let target = format!("#/components/{kind}/{name}");
            assert!(used.contains(&target), "{target} is used nowhere");
        }
    }
}

#[test]
fn operations_have_names_responses_and_examples() {
    let mut names = BTreeSet::new();
    for operation in operations(&DOCUMENT) {
        let details = operation.details;
        assert!(names.insert(text(details, "operationId")), "{operation}");
        assert!(!text(details, "summary").is_empty(), "{operation}");
        let responses = details["responses"].as_object().unwrap();
        assert!(responses.contains_key("200") || responses.contains_key("101"), "{operation}");
        assert!(responses.contains_key("403") && responses.contains_key("500"), "{operation}");
        if let Some(body) = details.pointer("/requestBody/content/application~1json") {
            assert!(body["example"].is_object(), "{operation}");
        }
        let open = crate::api::OPEN_PATHS.contains(&operation.path);
        assert_eq!(details.get("security").is_some(), open, "{operation}");
    }
}

#[test]
fn path_matches_its_template() {
    for (template, path, fit) in [
        ("/v1/models", "/v1/models", true),
        ("/v1/models", "/v1/models/x", false),
        ("/v1/models/{id}", "/v1/models/anthropic/sonnet", true),
        ("/v1/models/{id}", "/v1/models/", false),
        ("/v1/responses/{id}/cancel", "/v1/responses/resp_1/cancel", true),
        ("/v1/responses/{id}/cancel", "/v1/responses/a/b/cancel", false),
        ("/v1/responses/{id}/cancel", "/v1/responses//cancel", false),
    ] {
        assert_eq!(fits(template, path), fit, "{template} {path}");
    }
}

#[test]
fn page_is_complete_and_self_contained() {
    let page = PAGE.as_str();
    for operation in operations(&DOCUMENT) {
        let id = text(operation.details, "operationId");
        assert_eq!(page.matches(&format!("<section id=\"{id}\">")).count(), 1, "{operation}");
        assert!(page.contains(&format!("href=\"#{id}\"")), "{operation}");
    }
    for name in DOCUMENT["components"]["schemas"].as_object().unwrap().keys() {
        assert_eq!(page.matches(&format!("<section id=\"schema-{name}\">")).count(), 1, "{name}");
    }
    for link in page.split("href=\"").skip(1) {
        assert!(link.starts_with('#') || link.starts_with("/openapi.json\""), "{link:.40}");
        if let Some(id) = link.strip_prefix('#').and_then(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!("id=\"{id}\"")), "#{id} leads nowhere");
        }
    }
    for word in ["<script", "src=", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("-d '{&quot;messages&quot;"), "an example with a body");
}

#[test]
fn examples_can_be_run_unchanged() {
    assert!(PAGE.contains("curl $IBEAM/v1/models/auto ") && !PAGE.contains("/ID"));
    let seen_from = |host| String::from_utf8(page::seen_from(&PAGE, host).concat()).unwrap();
    let page = seen_from(Some("box.lan:8080"));
    assert!(page.contains("<pre>export IBEAM=http://box.lan:8080\n"));
    for host in [None, Some(""), Some("a;b.localhost"), Some("$(id).localhost"), Some("<b>")] {
        let page = seen_from(host);
        assert!(page.contains("<pre>export IBEAM=http://127.0.0.1:18741\n"), "{host:?}");
    }
}

/// Forty connections with a hundred streams each once had as many copies of it.
#[test]
fn all_readers_share_the_bytes_of_the_page() {
    let page = PAGE.as_bytes().as_ptr_range();
    for host in [None, Some("box.lan:8080")] {
        let pieces = page::seen_from(&PAGE, host);
        let shared = pieces.iter().filter(|piece| page.contains(&piece.as_ptr()));
        let shared: usize = shared.map(|piece| piece.len()).sum();
        assert!(shared > PAGE.len() - 100, "{shared} of {} bytes", PAGE.len());
    }
    assert_eq!(JSON.clone().as_ptr(), JSON.clone().as_ptr());
}

#[tokio::test]
async fn page_has_a_content_length() {
    use http_body_util::BodyExt as _;
    let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("box.lan"))]);
    let body = docs(Uri::from_static("/docs"), headers).await.into_body();
    let length = http_body::Body::size_hint(&body).exact().unwrap();
    let page = body.collect().await.unwrap().to_bytes();
    assert_eq!(page.len() as u64, length);
    assert!(page.ends_with(b"</html>\n"));
}

#[test]
fn page_documents_our_own_headers() {
    for word in ["x-ibeam-strict", "x-ibeam-controls", "x-ibeam-session", "retry-after"] {
        assert!(PAGE.contains(&format!("<code>{word}</code>")), "{word}");
    }
    assert!(PAGE.contains("<code>max_tool_calls</code>"));
    assert!(PAGE.contains("<code>output_format</code>"));
    for operation in operations(&DOCUMENT).filter(|operation| operation.path.contains("messages")) {
        assert!(operation.details.pointer("/responses/422").is_none(), "{operation}: it is 400");
    }
}

#[test]
fn page_escapes_text() {
    let document = serde_json::json!({
        "info": {"title": "<b>&\"", "version": "1", "description": "a `<i>` b"},
        "tags": [{"name": "x", "description": ""}],
        "paths": {"/a": {"get": {"tags": ["x"], "operationId": "a", "summary": "<u>"}}},
    });
    let page = page::render(&document);
    assert!(page.contains("<h1>&lt;b&gt;&amp;&quot; "), "{page}");
    assert!(page.contains("a <code>&lt;i&gt;</code> b"), "{page}");
    assert!(page.contains("<p>&lt;u&gt;.</p>"), "{page}");
}
