//! A gateway that is started to be measured, as a user starts it, with a backend that is not there.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};

use crate::scratch::Scratch;

const PAUSE: Duration = Duration::from_millis(50);
/// How long it rests after its first answer before it is looked at.
const REST: Duration = Duration::from_secs(2);

/// Ends with the value, whatever comes of the measurement.
pub(crate) struct MeasuredGateway {
    child: Child,
    _home: Scratch,
}

impl MeasuredGateway {
    /// Starts `program`, which gets `serve` as its last argument, and waits until it is idle.
    pub(crate) fn start(program: &mut Command, patience: Duration) -> anyhow::Result<Self> {
        let name = program.get_program().to_string_lossy().into_owned();
        let home = Scratch::new("gateway")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = program
            .arg("serve")
            .env_clear()
            .env("HOME", home.path())
            .env("PORT", port.to_string())
            .env("CURSOR_API_URL", "http://127.0.0.1:1")
            .env("CURSOR_ACCESS_TOKEN", "x")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| name.clone())?;
        let mut gateway = Self { child, _home: home };
        let end = crate::now() + patience;
        while !is_healthy(port).unwrap_or(false) {
            if let Some(status) = gateway.child.try_wait()? {
                bail!("{name} serve ended: {status}");
            }
            if crate::now() > end {
                bail!("{name} serve did not answer in {patience:?}");
            }
            sleep(PAUSE);
        }
        sleep(REST);
        Ok(gateway)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let id = self.id().to_string();
        crate::command::run(crate::command::command("kill").args(["-INT", &id]))?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for MeasuredGateway {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn is_healthy(port: u16) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let host = format!("127.0.0.1:{port}");
    write!(stream, "GET /health HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

#[expect(clippy::disallowed_methods, reason = "a task runner has nothing else to do meanwhile")]
fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
