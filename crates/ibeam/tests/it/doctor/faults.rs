//! The faults, one by one.

use std::{fs, net::TcpListener, path::Path, process::Command, sync::Arc};

use axum::{Router, http::header};
use ibeam_server::net::tls;
use ibeam_sim::{Sim, SimConfig, SimHttp2};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::{
    first_red, state,
    world::{Patient, World, stranger, token},
};

/// A fault as docs/doctor.md lists it, the code of the first red line, words that it has,
/// and how the fault comes about.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) code: &'static str,
    words: &'static str,
    inject: fn(&World) -> Patient,
}

pub(super) const FAULTS: [Fault; 12] = [
    Fault {
        name: "bad token",
        code: "token_refused",
        words: "refused the access token",
        inject: |world| world.sim("").env("CURSOR_ACCESS_TOKEN", stranger()),
    },
    Fault {
        name: "expired token",
        code: "token_expired",
        words: "expired at 2023-11-14T23:13:20Z",
        inject: |world| {
            let old = json!({ "sub": "auth0|user_1", "iat": 1_700_000_000, "exp": 1_700_003_600 });
            world.sim("").env("CURSOR_ACCESS_TOKEN", token(&old))
        },
    },
    Fault {
        name: "no HTTP/2",
        code: "no_http2",
        words: "no HTTP/2",
        inject: |world| {
            world.at(&simulator(SimConfig { http2: SimHttp2::NotOffered, ..tidy() }, None), "")
        },
    },
    Fault {
        name: "port taken",
        code: "port_taken",
        words: "is taken by",
        inject: |world| {
            let other = Box::leak(Box::new(TcpListener::bind("127.0.0.1:0").unwrap()));
            world.sim(&format!("--port {}", other.local_addr().unwrap().port()))
        },
    },
    Fault {
        name: "wrong CA",
        code: "wrong_ca",
        words: "wrong CA",
        inject: |world| {
            let (cert, key) = world.certificate();
            world.at(&simulator(tidy(), Some((&cert, &key))), "")
        },
    },
    Fault {
        name: "unknown model",
        code: "model_unknown",
        words: "no-such-model",
        inject: |world| world.sim("--model no-such-model"),
    },
    Fault {
        name: "full disk",
        code: "disk_full",
        words: "no space is left",
        // No file may grow beyond a few blocks, and that is an error, not the end.
        inject: |world| world.sim("").under("trap '' XFSZ; ulimit -f 40"),
    },
    Fault {
        name: "world-readable store",
        code: "file_exposed",
        words: "other users can read",
        inject: |world| {
            world.put(".local/state/ibeam/store.db", "", 0o644);
            world.sim("")
        },
    },
    Fault {
        name: "dead child",
        code: "agent_dead",
        words: "ended with",
        inject: |world| {
            let dead = world.put("bin/cursor-agent", "#!/bin/sh\nexit 3\n", 0o755);
            Patient::new(world, "--backend cli --port 0").env("CURSOR_AGENT_BIN", dead)
        },
    },
    Fault {
        name: "clock skew",
        code: "clock_skew",
        words: "3 hours ahead of",
        inject: |world| world.at(&late(), ""),
    },
    Fault {
        name: "no DNS",
        code: "no_dns",
        words: "no DNS",
        inject: |world| world.at("https://backend.invalid", ""),
    },
    Fault {
        name: "old client version",
        code: "client_outdated",
        words: "cli-2024.01.01-abcdef0",
        inject: |world| world.sim("--set client_version=cli-2024.01.01-abcdef0"),
    },
];

/// The clock of the simulator is that of the machine.
fn tidy() -> SimConfig {
    SimConfig::default()
}

/// A simulator in this process; it lives as long as the runtime of its thread.
fn simulator(config: SimConfig, tls: Option<(&Path, &Path)>) -> String {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let tls = tls.map(|(cert, key)| tls::server_config(cert, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("{scheme}://{}", listener.local_addr().unwrap());
    background(async move {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        Sim::new(config).serve(listener, tls, CancellationToken::new()).await;
    });
    url
}

/// Runs beside the test, until the process ends.
fn background(work: impl Future<Output = ()> + Send + 'static) {
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    });
}

/// The time three hours ago, as headers have it.
fn three_hours_ago() -> String {
    let then = ibeam_server::clock::unix_seconds() - 3 * 3600 - 60;
    httpdate(then)
}

fn httpdate(seconds: u64) -> String {
    let moment = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    httpdate::fmt_http_date(moment)
}

/// Answers everything with 404, over HTTP/1.1 and HTTP/2, by a clock of its own.
fn late() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    background(async move {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let answer = || async {
            (axum::http::StatusCode::NOT_FOUND, [(header::DATE, three_hours_ago())], "nobody")
        };
        axum::serve(listener, Router::new().fallback(answer)).await.unwrap();
    });
    url
}

#[test]
fn first_failed_check_names_each_fault() {
    for fault in &FAULTS {
        let world = World::new();
        let report = (fault.inject)(&world).json();
        let name = fault.name;
        let red = first_red(&report).unwrap_or_else(|| panic!("{name}: {report:#}"));
        assert_eq!(red["code"], fault.code, "{name}: {report:#}");
        assert_eq!(report["cause"], fault.code, "{name}");
        assert!(red["what"].as_str().unwrap().contains(fault.words), "{name}: {red:#}");
        assert!(!red["fix"].as_str().unwrap().is_empty(), "{name}: {red:#}");
    }
}

/// What only follows from a fault is not blamed: there is one red line.
#[test]
fn no_other_check_fails() {
    for fault in FAULTS.iter().filter(|fault| fault.name != "clock skew") {
        let world = World::new();
        let report = (fault.inject)(&world).json();
        let lines = report["checks"].as_array().unwrap();
        let red: Vec<_> = lines.iter().filter(|line| line["state"] == "fail").collect();
        let kinds: std::collections::BTreeSet<_> =
            red.iter().map(|line| line["code"].as_str().unwrap()).collect();
        assert_eq!(kinds.len(), 1, "{}: {red:#?}", fault.name);
    }
}

/// A backend that is well but for its clock: everything works, and the clock is the one red
/// line.
#[test]
fn wrong_clock_does_not_affect_other_checks() {
    let world = World::new();
    let sim = simulator(tidy(), None);
    let report = world.at(&other_dates(&sim), "--transport h1").json();
    let lines = report["checks"].as_array().unwrap();
    let red: Vec<_> = lines.iter().filter(|line| line["state"] == "fail").collect();
    assert_eq!(red.len(), 1, "{report:#}");
    assert_eq!(red[0]["code"], "clock_skew");
    assert_eq!(state(&report, "tools"), "ok", "{report:#}");
}

/// Passes HTTP/1.1 on and changes its dates.
fn other_dates(url: &str) -> String {
    let target = url.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    background(async move {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let mut all = tokio::task::JoinSet::new();
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let far = tokio::net::TcpStream::connect(&target).await.unwrap();
            all.spawn(async move {
                let (mut near_in, mut near_out) = near.into_split();
                let (mut far_in, mut far_out) = far.into_split();
                let there = async {
                    let _ = tokio::io::copy(&mut near_in, &mut far_out).await;
                    let _ = far_out.shutdown().await;
                };
                let back = async {
                    let mut buffer = vec![0; 64 * 1024];
                    while let Ok(read @ 1..) = far_in.read(&mut buffer).await {
                        let piece = redated(&buffer[..read]);
                        if near_out.write_all(&piece).await.is_err() {
                            break;
                        }
                    }
                    let _ = near_out.shutdown().await;
                };
                tokio::join!(there, back);
            });
        }
    });
    url
}

fn redated(piece: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b"\r\ndate: ";
    let mut piece = piece.to_vec();
    let at = piece.windows(NAME.len()).position(|window| window == NAME);
    if let Some(at) = at {
        let date = three_hours_ago();
        piece[at + NAME.len()..at + NAME.len() + date.len()].copy_from_slice(date.as_bytes());
    }
    piece
}

// === the same faults in other clothes ===

#[test]
fn http2_that_breaks_after_tls_is_found() {
    for http2 in [SimHttp2::Status(464), SimHttp2::Http11Required] {
        let world = World::new();
        let report = world.at(&simulator(SimConfig { http2, ..tidy() }, None), "").json();
        assert_eq!(report["cause"], "no_http2", "{http2:?}: {report:#}");
        assert_eq!(state(&report, "answer"), "ok", "{http2:?}: HTTP/1.1 does it");
    }
    // The user knows, or the server wants it so.
    let world = World::new();
    let url = simulator(SimConfig { http2: SimHttp2::NotOffered, ..tidy() }, None);
    assert_eq!(world.at(&url, "--transport h1").json()["ok"], true);
    let url = simulator(SimConfig { http2_config: 1, ..tidy() }, None);
    let report = world.at(&url, "").json();
    assert_eq!(report["ok"], true, "{report:#}");
}

#[test]
fn tls_proxy_without_http2_is_not_a_wrong_ca() {
    let world = World::new();
    let (cert, key) = world.certificate();
    let tls = Some((cert.as_path(), key.as_path()));
    let trusted = format!("--ca-file {}", cert.display());
    let url = simulator(tidy(), tls);
    let report = world.at(&url, &trusted).json();
    assert_eq!(report["ok"], true, "{report:#}");
    let url = simulator(SimConfig { http2: SimHttp2::NotOffered, ..tidy() }, tls);
    let report = world.at(&url, &trusted).json();
    assert_eq!(report["cause"], "no_http2", "{report:#}");
    assert!(first_red(&report).unwrap()["what"].as_str().unwrap().contains("TLS chose HTTP/1.1"));
}

#[test]
fn child_that_dies_in_its_turn_is_reported_as_dead() {
    for (words, backend) in [("crash-after:1", "cli"), ("exit-1:it broke", "cli")] {
        let world = World::new();
        let line = format!("--sim --backend {backend} --port 0");
        let report = Patient::new(&world, &line).env("IBEAM_FAKE_AGENT", words).json();
        assert_eq!(report["cause"], "agent_dead", "{words} {backend}: {report:#}");
    }
    let world = World::new();
    let report = Patient::new(&world, "--sim --backend cli --port 0")
        .env("IBEAM_FAKE_AGENT", "not-logged-in")
        .json();
    assert_eq!(report["cause"], "agent_signed_out", "{report:#}");
    let nobody = Patient::new(&world, "--backend cli --port 0").json();
    assert_eq!(nobody["cause"], "agent_missing", "{nobody:#}");
}

#[test]
fn an_installed_client_that_is_too_old_is_named() {
    let world = World::new();
    world.put("bin/opencode", "#!/bin/sh\necho 0.3.1\n", 0o755);
    world.put("bin/claude", "#!/bin/sh\necho '99.0.0 (Claude Code)'\n", 0o755);
    let path = world.path().join("bin");
    let report = world.sim("").env("PATH", &path).json();
    assert_eq!(report["cause"], "client_old", "{report:#}");
    let red = first_red(&report).unwrap();
    assert!(red["what"].as_str().unwrap().starts_with("OpenCode 0.3.1 is older"), "{red}");
    assert!(red["fix"].as_str().unwrap().contains("opencode-ai"), "{red}");
}

#[test]
fn exposed_sign_in_is_reported_under_files() {
    let world = World::new();
    let text = format!(r#"{{"type":"oauth","access":"{0}","refresh":"{0}"}}"#, Sim::TOKEN);
    let path = world.put(".config/ibeam/credentials/default.json", &text, 0o644);
    let report = world.sim("").without("CURSOR_ACCESS_TOKEN").json();
    assert_eq!(report["cause"], "file_exposed", "{report:#}");
    for check in ["credential", "token", "models"] {
        assert_eq!(state(&report, check), "skipped", "{report:#}");
    }
    // Each command that it gives fixes something, until nothing is left.
    for _ in 0..3 {
        let report = world.sim("").without("CURSOR_ACCESS_TOKEN").json();
        let Some(red) = first_red(&report) else { break };
        let fix = red["fix"].as_str().unwrap();
        assert!(fix.starts_with("chmod "), "{red}");
        assert!(Command::new("/bin/sh").args(["-c", fix]).status().unwrap().success());
    }
    let report = world.sim("").without("CURSOR_ACCESS_TOKEN").json();
    assert_eq!(report["ok"], true, "{report:#}");
    assert!(fs::metadata(path).is_ok());
}

#[test]
fn unreachable_backend_is_not_a_token_failure() {
    let world = World::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = world.at(&format!("http://{closed}"), "").json();
    assert_eq!(report["cause"], "unreachable", "{report:#}");
    assert_eq!(state(&report, "token"), "skipped");
    let report = world
        .at("https://backend.invalid", "")
        .env("HTTPS_PROXY", format!("http://me:hunter2@{closed}"))
        .json();
    assert_eq!(report["cause"], "proxy_failed", "{report:#}");
    assert!(!report.to_string().contains("hunter2"), "{report:#}");
    let report = world.sim("").without("CURSOR_ACCESS_TOKEN").json();
    assert_eq!(report["cause"], "not_signed_in", "{report:#}");
    assert_eq!(state(&report, "http2"), "ok", "the way is looked at all the same");
}

#[test]
fn invalid_settings_come_first() {
    let world = World::new();
    let report = world.sim("--set limits.turns=0").json();
    assert_eq!(report["cause"], "settings_invalid", "{report:#}");
    assert_eq!(state(&report, "network"), "skipped");
}

/// A disk that is really full, where this user may make one.
#[test]
fn full_file_system_is_reported() {
    let world = World::new();
    let folder = world.path().join(".local/state/ibeam");
    fs::create_dir_all(&folder).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,mode=700", "ibeam-test"])
        .arg(&folder)
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("not run: this user cannot mount a file system");
        return;
    }
    let unmount = Arc::new(Unmount(folder.clone()));
    fs::write(folder.join("filler"), vec![0; 60 * 1024]).unwrap();
    let report = world.sim("").json();
    drop(unmount);
    assert_eq!(report["cause"], "disk_full", "{report:#}");
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
