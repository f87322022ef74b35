//! The yardstick: takes the client's HTTP/1.1 request, opens a `Run`, and copies
//! the response's bytes without looking at them. No gateway can do less.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    rules::{ALL, Rule},
    upstream::Upstream,
};

pub(crate) async fn run(port: u16, simulator: SocketAddr) -> anyhow::Result<()> {
    let upstream = Arc::new(Upstream::new(simulator));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let mut tasks = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let upstream = Arc::clone(&upstream);
        tasks.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&upstream), request));
            http1::Builder::new().serve_connection(TokioIo::new(socket), service).await.ok();
        });
        while tasks.try_join_next().is_some() {}
    }
}

async fn answer(
    upstream: Arc<Upstream>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>, Infallible> {
    let Some(rule) = rule(request.uri().query()) else {
        return Ok(plain(StatusCode::OK, "ready"));
    };
    // The same request body as ibeam gets; it is read and thrown away.
    if request.into_body().collect().await.is_err() {
        return Ok(plain(StatusCode::BAD_REQUEST, "no body"));
    }
    match upstream.run(rule).await {
        Ok(run) => {
            let (parts, body) = run.response.into_parts();
            // The body keeps the upstream's request open.
            let open = run.open;
            let body = body.map_frame(move |frame| {
                let _open = &open;
                frame
            });
            let mut response = Response::new(body.boxed());
            *response.status_mut() = parts.status;
            Ok(response)
        }
        Err(error) => Ok(plain(StatusCode::BAD_GATEWAY, &error.to_string())),
    }
}

fn rule(query: Option<&str>) -> Option<Rule> {
    let name = query?.strip_prefix("bench=")?.replace('+', " ");
    ALL.into_iter().find(|rule| rule.prompt() == name)
}

fn plain(status: StatusCode, words: &str) -> Response<BoxBody<Bytes, hyper::Error>> {
    let body = Full::new(Bytes::copy_from_slice(words.as_bytes())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    response
}
