//! The connection to the backend, step by step, so that each failure is distinguished.

use std::{
    net::IpAddr,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use tokio::time::timeout;

use crate::doctor::findings::{ClockPair, Http2Findings, Network, Undialled};
use ibeam_server::{
    clock,
    config::{Config, Transport},
    driver::connector,
    net::{
        chain,
        connect::{Connector, DialError, Host, Io},
        hosts,
        http::HttpClient,
        proxy::Proxy,
        tls::Alpn,
    },
    tasks::Tasks,
};

/// For a name to be resolved.
const DNS: Duration = Duration::from_secs(10);
/// For a short answer.
const ANSWER: Duration = Duration::from_secs(10);

pub(super) async fn look(config: &Config, tasks: &Tasks) -> Network {
    let host = &config.api;
    let mut way = Network {
        host: host.to_string(),
        name: host.name().to_owned(),
        other_host: *host != hosts::API.host(),
        proxy: Proxy::from_env().name(host),
        ..Network::default()
    };
    // Behind a proxy, names are its business.
    if way.proxy.is_none() && host.name().parse::<IpAddr>().is_err() {
        let resolved = resolve(host).await;
        let failed = resolved.is_err();
        way.dns = Some(resolved);
        if failed {
            return way;
        }
    }
    let connector = connector(config);
    let wanted = match config.transport {
        Transport::Auto | Transport::H2 => Alpn::Http2,
        Transport::H1 => Alpn::Http1,
    };
    let io = match connector.connect(host, wanted).await {
        Ok(io) => io,
        Err(error) => {
            way.dial = Some(Err(undialled(error)));
            return way;
        }
    };
    way.dial = Some(Ok(()));
    let mut answer = None;
    way.http2 = Some(match (wanted, io.protocol) {
        (Alpn::Http1, _) => Http2Findings::NotWanted,
        (Alpn::Http2, Alpn::Http1) => Http2Findings::Refused("TLS chose HTTP/1.1".to_owned()),
        (Alpn::Http2, Alpn::Http2) => match within(ANSWER, over_http2(host, io, tasks)).await {
            Ok(clock) => {
                answer = Some(clock);
                Http2Findings::Works
            }
            Err(why) => Http2Findings::Refused(why),
        },
    });
    way.answer = Some(match answer {
        Some(Some(clock)) => Ok(Some(clock)),
        // It answers, and did not say what time it is.
        Some(None) => Ok(within(ANSWER, over_http1(host, connector, tasks)).await.ok().flatten()),
        None => within(ANSWER, over_http1(host, connector, tasks)).await,
    });
    way
}

async fn resolve(host: &Host) -> Result<usize, String> {
    let asking = tokio::net::lookup_host((host.name(), host.port()));
    match timeout(DNS, asking).await {
        Ok(Ok(addresses)) => match addresses.count() {
            0 => Err("it has no address".to_owned()),
            count => Ok(count),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err("no answer in time".to_owned()),
    }
}

fn undialled(error: DialError) -> Undialled {
    match error {
        DialError::Tls { fault, why } => Undialled::Tls(fault, why),
        DialError::Proxy(why) => Undialled::Proxy(why),
        error @ (DialError::Timeout | DialError::Failed(_) | DialError::NotH2(_)) => {
            Undialled::Other(error.to_string())
        }
    }
}

async fn within<T>(
    limit: Duration,
    asking: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    timeout(limit, asking).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

/// Any answer will do: it proves that frames come through.
async fn over_http2(host: &Host, io: Io, tasks: &Tasks) -> Result<Option<ClockPair>, String> {
    let text = |error: h2::Error| chain(&error);
    let (send, connection) = h2::client::handshake(io).await.map_err(text)?;
    tasks.spawn("doctor", async move {
        // How it ends shows in the answer.
        let _ = connection.await;
    });
    let mut send = send.ready().await.map_err(text)?;
    let mut request = Request::new(());
    *request.uri_mut() = host.uri("/");
    let (answer, _) = send.send_request(request, true).map_err(text)?;
    let answer = answer.await.map_err(text)?;
    Ok(clock(answer.headers()))
}

async fn over_http1(
    host: &Host,
    connector: Connector,
    tasks: &Tasks,
) -> Result<Option<ClockPair>, String> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = host.uri("/");
    let client = HttpClient::new(connector, Alpn::Http1, tasks);
    let answer = client.send(request).await.map_err(|error| error.to_string())?;
    Ok(clock(answer.headers()))
}

fn clock(headers: &HeaderMap) -> Option<ClockPair> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(date).ok()?;
    let theirs = date.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(ClockPair { theirs, ours: clock::unix_seconds() })
}
