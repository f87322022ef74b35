//! Clients that ask and do not read: their connections are closed, really, and keep the
//! gateway neither busy nor running.

use std::{io::Write as _, time::Duration};

use bytes::Bytes;
use ibeam_server::tasks::Tasks;
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{Gateway, status};
use crate::lab::chat;

/// The setting is a second; the rest is for a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(20);

/// More than all buffers between the two take.
const FLOOD: usize = 64 << 20;

fn flood() -> String {
    let text = "flood ".repeat(4096);
    let times = FLOOD / text.len();
    format!("[[rule]]\nsteps = [{{ text = {{ text = \"{text}\", repeat = {times} }} }}]")
}

#[tokio::test]
async fn connections_whose_clients_do_not_read_are_closed() {
    let settings = "--set clocks.client_stall=1s --set idle_exit=4s";
    let mut gateway = Gateway::start_with(settings, &flood());
    let began = Instant::now();

    // A stream over HTTP/1.1: of it, only the status is read.
    let mut stream = gateway.connect();
    let body = chat("go", true).to_string();
    let head = gateway.post(&format!("content-length: {}", body.len()));
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    assert_eq!(status(&mut stream), 200);
    stream.set_nonblocking(true).unwrap();
    let stalled = TcpStream::from_std(stream).unwrap();

    // A page over HTTP/2, without a key and without a window. Pings are answered.
    let stream = TcpStream::connect(&gateway.address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(0).handshake::<_, Bytes>(stream);
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = Tasks::new().spawn("test", connection);
    let page = http::Request::get(format!("http://{}/docs", gateway.address)).body(()).unwrap();
    let mut answers = Vec::new();
    for _ in 0..20 {
        let (answer, _) = sender.send_request(page.clone(), true).unwrap();
        answers.push(Tasks::new().spawn("test", async move {
            // Letting go of it would end the stream.
            let answer = answer.await;
            std::future::pending::<()>().await;
            drop(answer);
        }));
    }

    timeout(LIMIT, stalled.ready(Interest::ERROR)).await.expect("it is connected").unwrap();
    let _ = timeout(LIMIT, connection).await.expect("it is connected").unwrap();
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1), "{took:?}");

    // Nothing is asked any more, so it ends by itself.
    let exited = Tasks::new().spawn_blocking(move || gateway.child.wait().unwrap().code());
    assert_eq!(timeout(LIMIT, exited).await.expect("it still runs").unwrap(), Some(0));
}
