//! A gateway inside a program: started, used and stopped.
//!
//! ```sh
//! cargo run --package ibeam-server --example embed
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use ibeam_server::Gateway;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without `simulator()` it answers with the models of the account that is signed in.
    let gateway = Gateway::builder().simulator().api_key("my-own-key").start().await?;
    println!("serving at {}", gateway.base_url());

    let question = r#"{"model":"auto","messages":[{"role":"user","content":"Hello"}]}"#;
    println!("{}", ask(gateway.url(), question).await?);

    gateway.stop().await;
    println!("stopped");
    Ok(())
}

/// As any client would. Yours has a library for that.
async fn ask(url: &str, question: &str) -> std::io::Result<String> {
    let host = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.0\r\nhost: {host}\r\nauthorization: Bearer my-own-key\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        question.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(question.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
