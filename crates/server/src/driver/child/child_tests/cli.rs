use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::atomic::Ordering};

use ibeam_core::error::ErrorCode;
use tokio::time::Instant;

use super::*;
use crate::driver::child::{acp, cli::protocol};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn run_carries_data_both_ways() {
    let bench = bench(protocol, "cat; echo oh >&2; exit 3", |_| {});
    let (mut link, ready) = bench.begin(start()).await;
    assert!(!ready.greeted && ready.session.is_none() && ready.host.is_none());
    let folder = PathBuf::from(&ready.workspace);
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join(".cursor/mcp.json")), 0o600);
    let rules = std::fs::read_to_string(folder.join(".cursor/cli.json")).unwrap();
    for denied in ["Shell(*)", "Write(**)", "Read(**)", "Read(/**)", "WebFetch(*)"] {
        assert!(rules.contains(denied), "{rules}");
    }
    tell(&link, input("hello ")).await;
    tell(&link, input("there\n")).await;
    tell(&link, ToChild::CloseInput).await;
    let (said, exit) = rest(&mut link).await;
    assert_eq!(said, b"hello there\n");
    assert_eq!(exit, Exit { code: Some(3), stderr: "oh\n".to_owned() });
    assert!(!folder.exists());
    assert!(next(&mut link).await.is_none());
    bench.over().await;
}

#[tokio::test]
async fn child_gets_the_hosted_tools() {
    let bench = bench(protocol, "cat .cursor/mcp.json; echo; echo \"$@\"", |_| {});
    let (mut link, ready) = bench.begin(ChildStart { tools: tool(), ..start() }).await;
    let host = ready.host.unwrap();
    let (said, _) = rest(&mut link).await;
    let said = String::from_utf8(said).unwrap();
    let (servers, args) = said.split_once('\n').unwrap();
    let servers: serde_json::Value = serde_json::from_str(servers).unwrap();
    let server = &servers["mcpServers"]["ibeam"];
    assert_eq!(server["url"], host.url.as_str());
    let bearer = server["headers"]["Authorization"].as_str().unwrap();
    let secret = secrecy::ExposeSecret::expose_secret(&host.bearer);
    assert_eq!(bearer.strip_prefix("Bearer "), Some(secret));
    assert!(args.contains("--approve-mcps") && !args.contains("--force"), "{args}");
    assert!(!args.contains(secret), "everybody can read a command line");
    bench.tasks.stop();
    bench.over().await;
}

/// It would begin an empty one under that id, and say nothing.
#[tokio::test]
async fn section_9_a_conversation_that_the_program_does_not_have_is_not_resumed() {
    let chats = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(chats.path().join("0123/another")).unwrap();
    let stored = StoredChats::at(chats.path().to_owned());
    let bench = bench(protocol, "cat >/dev/null; echo resumed", |config| config.chats = stored);
    let resume = |id: &str| ChildStart { resume: Some(id.to_owned()), ..start() };
    let (mut link, _) = bench.begin(resume("lost")).await;
    let (said, exit) = rest(&mut link).await;
    assert!(said.is_empty() && exit.stderr.contains("not found"), "{exit:?}");
    std::fs::create_dir_all(chats.path().join("0123/kept")).unwrap();
    std::fs::write(chats.path().join("0123/kept/store.db"), "").unwrap();
    let (mut link, _) = bench.begin(resume("kept")).await;
    tell(&link, ToChild::CloseInput).await;
    assert_eq!(rest(&mut link).await.0, b"resumed\n");
    bench.over().await;
}

#[tokio::test]
async fn child_that_ignores_its_tools_causes_a_warning() {
    for (tools, code, want) in [(Arc::default(), 0, false), (tool(), 1, false), (tool(), 0, true)] {
        let bench = bench(protocol, &format!("exit {code}"), |_| {});
        let (mut link, _) = bench.begin(ChildStart { tools, ..start() }).await;
        rest(&mut link).await;
        assert_eq!(bench.driver.cli.kit.warned.load(Ordering::Relaxed), want);
    }
}

/// One process ignores the request to end, one is in the group, one has left it.
#[tokio::test]
async fn dropped_link_ends_the_whole_process_tree() {
    let text = "trap '' TERM; sleep 1000 & echo $!; setsid sh -c 'trap \"\" TERM; echo $$; \
                while :; do sleep 1; done' & echo $$; while :; do sleep 1; done";
    let bench = bench(protocol, text, |_| {});
    let (mut link, _) = bench.begin(start()).await;
    let pids = lines(&mut link, 3).await;
    assert!(pids.lines().all(|pid| !is_dead(pid)), "{pids}");
    let left = Instant::now();
    drop(link);
    bench.over().await;
    assert!(left.elapsed() < Duration::from_secs(3), "{:?}", left.elapsed());
    assert!(pids.lines().all(is_dead), "{pids}");
}

/// Processes that a child leaves behind end with it, also after a normal exit, and do not delay the
/// end of its output.
#[tokio::test]
async fn child_that_ends_leaves_no_process_behind() {
    let text = "echo $$; setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000 & echo $!; sleep 0.3";
    let bench = bench(protocol, text, |_| {});
    let (mut link, _) = bench.begin(start()).await;
    let (pids, exit) = rest(&mut link).await;
    assert_eq!(exit.code, Some(0));
    let pids = String::from_utf8(pids).unwrap();
    assert_eq!(pids.lines().count(), 3);
    assert!(pids.lines().all(is_dead), "{pids}");
    // Its own child was reaped by this program.
    let own = pids.lines().next().unwrap();
    assert!(!Path::new(&format!("/proc/{own}")).exists());
}

#[tokio::test]
async fn cancel_ends_a_responsive_child() {
    let bench = bench(protocol, "echo $$; cat", |_| {});
    let (mut link, _) = bench.begin(start()).await;
    let pid = lines(&mut link, 1).await;
    link.tx.cancel();
    assert!(next(&mut link).await.is_none());
    bench.over().await;
    assert!(is_dead(pid.trim()));
}

/// Only turns that wait for their clients make room for a new one.
#[tokio::test]
async fn waiting_child_makes_room() {
    for protocol in [protocol, acp::protocol] {
        let bench = bench(protocol, "cat", |config| config.agent.children = 1);
        let (parked, _) = bench.begin(start()).await;
        let parked = Arc::new(parking_lot::Mutex::new(Some(parked)));
        let asked = Arc::clone(&parked);
        bench.driver.on_crowded(MakeRoom::new(move |_| asked.lock().take().is_some()));
        let (link, _) = bench.begin(start()).await;
        assert!(parked.lock().is_none());
        drop(link);
        bench.tasks.stop();
        bench.over().await;
    }
}

/// It leaves places for other keys, and its turns only end parked turns of its own meanwhile.
#[tokio::test]
async fn one_key_cannot_take_all_child_processes() {
    for protocol in [protocol, acp::protocol] {
        let bench = bench(protocol, "cat", |config| {
            config.agent.children = 8;
            config.queue = Duration::from_millis(300);
        });
        let of =
            |key: u8| ChildStart { owner: ChildOwner { scope: [key; 32], assured: 0 }, ..start() };
        let evicted = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let asked = Arc::clone(&evicted);
        bench.driver.on_crowded(MakeRoom::new(move |scope| {
            asked.lock().push(scope);
            false
        }));
        let mut links = Vec::new();
        let refused = loop {
            match bench.open(of(1)).await {
                Ok(link) => links.push(link),
                Err(refused) => break refused,
            }
        };
        assert_eq!(links.len(), 6);
        assert!(format!("{refused:?}").contains("its share"), "{refused:?}");
        assert!(evicted.lock().iter().all(|scope| *scope == Some([1; 32])), "{evicted:?}");
        links.push(bench.begin(of(2)).await.0);
        drop(links);
        bench.tasks.stop();
        bench.over().await;
    }
}

/// Nor those that are kept between turns.
#[tokio::test]
async fn idle_processes_are_shared_like_new_ones() {
    let bench = bench(acp::protocol, "cat", |config| {
        config.agent.children = 4;
        config.queue = Duration::from_millis(300);
    });
    let of = |key: u8| ChildStart { owner: ChildOwner { scope: [key; 32], assured: 0 }, ..start() };
    let mut links = Vec::new();
    for key in 1..=4 {
        links.push(bench.begin(of(key)).await.0);
    }
    for mut link in links.drain(..) {
        tell(&link, ToChild::Release { session: None }).await;
        assert!(next(&mut link).await.is_none());
    }
    while bench.driver.protocol.idle() < 4 {
        tokio::task::yield_now().await;
    }
    while let Ok(link) = bench.open(of(1)).await {
        links.push(link);
    }
    assert_eq!(links.len(), 3);
    links.push(bench.begin(of(2)).await.0);
    drop(links);
    bench.tasks.stop();
    bench.over().await;
}

#[tokio::test]
async fn number_of_children_is_limited() {
    let bench = bench(protocol, "cat", |config| {
        config.agent.children = 1;
        config.queue = Duration::from_millis(50);
    });
    let (link, _) = bench.begin(start()).await;
    match bench.open(start()).await {
        Err(LinkError::Fault(error)) => {
            assert_eq!(error.code, ErrorCode::Overloaded);
            assert!(error.message.contains("cursor_agent.max_processes"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.driver.stats().children, 1);
    tell(&link, ToChild::CloseInput).await;
    let mut link = link;
    rest(&mut link).await;
    let (link, _) = bench.begin(start()).await;
    drop(link);
    bench.over().await;
}

/// The memory of this process in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test]
async fn unread_child_stops_writing() {
    const ALL: usize = 100 << 20;
    let bench = bench(protocol, "head -c 104857600 /dev/zero; echo done >&2", |_| {});
    let before = memory();
    let (mut link, _) = bench.begin(start()).await;
    // Long enough to write everything, if it were read.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let grown = memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    let mut read = 0;
    let exit = loop {
        match next(&mut link).await {
            Some(FromChild::Output(bytes)) => {
                assert!(bytes.len() <= 16 * 1024);
                read += bytes.len();
            }
            Some(FromChild::Exited(exit)) => break exit,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((read, exit.stderr.as_str()), (ALL, "done\n"));
}

#[tokio::test]
async fn child_gets_little_of_our_environment() {
    let bench = bench(protocol, "env", |_| {});
    let (mut link, _) = bench.begin(start()).await;
    let (said, _) = rest(&mut link).await;
    let said = String::from_utf8(said).unwrap();
    let names: Vec<&str> = said.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"PATH") && said.contains("NO_COLOR=1"), "{said}");
    assert!(names.contains(&"IBEAM_RUN"), "{said}");
    // The runner of these tests has set those.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    for name in names {
        let ours = ["CARGO", "NEXTEST", "RUST", "TERM", "AWS", "SSH"];
        assert!(!ours.iter().any(|prefix| name.starts_with(prefix)), "{name}");
        assert!(!name.starts_with("IBEAM_") || name == "IBEAM_RUN", "{name}");
    }
}

/// The CLI finds a conversation by the folder in which it was started.
#[tokio::test]
async fn conversation_continues_in_its_own_folder() {
    let bench = bench(protocol, "cat >/dev/null", |_| {});
    let about = start();
    let (mut link, first) = bench.begin(about.clone()).await;
    tell(&link, ToChild::CloseInput).await;
    rest(&mut link).await;
    // At once: the child of the turn before may still be ending.
    let (link, again) = bench.begin(about).await;
    assert_eq!(again.workspace, first.workspace);
    let (other, new) = bench.begin(start()).await;
    assert_ne!(new.workspace, first.workspace);
    drop((link, other));
}

#[tokio::test]
async fn user_folder_is_only_an_additional_one() {
    let user = tempfile::tempdir().unwrap();
    let path = user.path().to_str().unwrap().to_owned();
    let bench = bench(protocol, "pwd; echo \"$@\"", |_| {});
    let (mut link, ready) =
        bench.begin(ChildStart { workspace: Some(path.clone()), tools: tool(), ..start() }).await;
    let (said, _) = rest(&mut link).await;
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with(&ready.workspace), "{said}");
    assert!(said.contains(&format!("--workspace {}", ready.workspace)), "{said}");
    assert!(said.contains(&format!("--add-dir {path}")), "{said}");
    assert_eq!(std::fs::read_dir(user.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn missing_program_is_reported() {
    let program = Program::at("/nowhere/cursor-agent");
    let bench = bench(protocol, "", |config| config.program = Some(program));
    match bench.open(start()).await {
        Err(LinkError::Fault(error)) => {
            assert_eq!(error.code, ErrorCode::Unavailable);
            assert!(error.message.contains("cursor_agent.bin"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.driver.stats().children, 0);
}

#[tokio::test]
async fn the_models_are_listed() {
    let text = "test \"$1\" = models && printf 'Available models\\n\\nauto - Auto\\ngpt-5 - GPT-5 (current)\\n'";
    let bench = bench(protocol, text, |_| {});
    let models = bench.driver.models(SecretString::default()).await.unwrap();
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["auto", "gpt-5"]);
    let broken = super::bench(protocol, "echo no >&2; exit 1", |_| {});
    let error = broken.driver.models(SecretString::default()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamError);
}
