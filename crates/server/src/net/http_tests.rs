use std::{convert::Infallible, io::Write as _, sync::Arc};

use hyper::service::service_fn;

use super::*;

const BOUNDS: Bounds = Bounds { timeout: Duration::from_secs(5), max_body: 1024 };

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// `/echo`, `/gzip`, `/bomb`, `/big`, and `/never`.
fn client() -> (HttpClient, Tasks) {
    let tasks = Tasks::new();
    let spawner = tasks.clone();
    let connector = Connector::Memory(Arc::new(move || {
        let (near, far) = tokio::io::duplex(4096);
        let service = service_fn(|request: Request<Incoming>| async move {
            let path = request.uri().path().to_owned();
            let length = request.headers().get("content-length").cloned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body = match path.as_str() {
                "/echo" => Bytes::from([&body[..], length.unwrap().as_bytes()].concat()),
                "/gzip" => gzip(b"inflated").into(),
                "/bomb" => gzip(&vec![0; 100_000]).into(),
                "/big" => vec![0; 2000].into(),
                _ => std::future::pending().await,
            };
            Ok::<_, Infallible>(Response::new(Full::new(body)))
        });
        spawner.spawn("test", async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(far), service)
                .await;
        });
        near
    }));
    (HttpClient::new(connector, Alpn::Http2, &tasks), tasks)
}

async fn call(client: &HttpClient, path: &str) -> Result<Bytes, HttpError> {
    let request = Request::post(format!("http://127.0.0.1:1{path}"))
        .body(Bytes::from_static(b"body "))
        .unwrap();
    Ok(client.call(request, BOUNDS).await?.into_body())
}

#[tokio::test(start_paused = true)]
async fn request_is_bounded_in_time_and_size() {
    let (client, tasks) = client();
    assert_eq!(call(&client, "/echo").await.unwrap(), "body 5");
    assert_eq!(call(&client, "/gzip").await.unwrap(), "inflated");
    assert_eq!(call(&client, "/bomb").await.unwrap_err(), HttpError::TooLarge(1024));
    assert_eq!(call(&client, "/big").await.unwrap_err(), HttpError::TooLarge(1024));
    let began = tokio::time::Instant::now();
    assert_eq!(call(&client, "/never").await.unwrap_err(), HttpError::Timeout);
    assert_eq!(began.elapsed(), BOUNDS.timeout);
    drop(client);
    assert_eq!(tasks.join_within(Duration::from_secs(1)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn failed_dial_is_reported_as_such() {
    let connector = Connector::Tcp {
        tls: Arc::new(crate::net::tls::Tls::new(None)),
        proxy: crate::net::proxy::Proxy::none(),
        connect_timeout: Duration::from_secs(1),
        reach: crate::net::hosts::Reach::anywhere(),
    };
    let client = HttpClient::new(connector, Alpn::Http1, &Tasks::new());
    let error = call(&client, "/echo").await.unwrap_err();
    assert!(matches!(error, HttpError::Dial(_)), "{error:?}");
}

#[test]
fn false_gzip_header_is_an_error() {
    let mut headers = http::HeaderMap::new();
    headers.insert(header::CONTENT_ENCODING, http::HeaderValue::from_static("gzip"));
    assert_eq!(inflate(&headers, Bytes::from_static(b"plain"), 10), Err(HttpError::Gzip));
    assert_eq!(inflate(&headers, Bytes::new(), 10), Ok(Bytes::new()));
    let cut = Bytes::from(gzip(b"some text")).slice(..12);
    assert_eq!(inflate(&headers, cut, 100), Err(HttpError::Gzip));
}
