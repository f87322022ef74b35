//! HTTP/1.1 over one connection: how every gateway is asked, and the simulator's counters.

use std::net::SocketAddr;

use anyhow::bail;
use bytes::Bytes;
use http::{Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet};

/// A connection that stays open from one request to the next.
pub(crate) struct Http {
    address: SocketAddr,
    sender: http1::SendRequest<Full<Bytes>>,
    /// Ends with the handle.
    _connection: JoinSet<hyper::Result<()>>,
}

impl Http {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
        let mut background = JoinSet::new();
        background.spawn(connection);
        Ok(Self { address, sender, _connection: background })
    }

    /// Sends a chat request. Anything but 200 is an error.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        headers: &[(&str, String)],
        body: String,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::post(path).header("content-type", "application/json");
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            request = request.header("authorization", "Bearer unused");
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.send(request, body.into()).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let response = self.send(Request::get(path), Bytes::new()).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    }

    async fn send(
        &mut self,
        request: request::Builder,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let request = request.header("host", self.address.to_string()).body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        if status != StatusCode::OK {
            let body = response.into_body().collect().await?.to_bytes();
            bail!("status {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(response)
    }
}
