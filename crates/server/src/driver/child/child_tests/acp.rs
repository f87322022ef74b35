use super::*;
use crate::driver::child::acp::protocol;

/// Prints its process id or its arguments on request, and crashes on request.
const SERVER: &str = r#"
    while read line; do
        case "$line" in
            crash) exit 9 ;;
            who) echo $$ ;;
            args) echo "$@" ;;
        esac
    done"#;

async fn ask(link: &mut ChildLink, word: &str) -> String {
    tell(link, input(&format!("{word}\n"))).await;
    lines(link, 1).await.trim().to_owned()
}

/// Ends a turn that left this conversation open.
async fn release(mut link: ChildLink, session: Option<&str>) {
    tell(&link, ToChild::Release { session: session.map(str::to_owned) }).await;
    assert!(next(&mut link).await.is_none());
}

fn resume(session: &str) -> ChildStart {
    ChildStart { resume: Some(session.to_owned()), ..start() }
}

#[tokio::test]
async fn a_process_serves_one_turn_after_another() {
    let bench = bench(protocol, SERVER, |_| {});
    let (mut link, ready) = bench.begin(start()).await;
    assert!(!ready.greeted);
    let args = ask(&mut link, "args").await;
    assert!(args.ends_with(" acp"), "{args}");
    let pid = ask(&mut link, "who").await;
    release(link, Some("one")).await;
    let (mut link, again) = bench.begin(resume("one")).await;
    assert!(again.greeted);
    assert_eq!(again.session.as_deref(), Some("one"));
    assert_eq!(again.workspace, ready.workspace);
    assert_eq!(ask(&mut link, "who").await, pid);
    // The process is in use, so this turn gets another one.
    let (mut other, ready) = bench.begin(resume("one")).await;
    assert!(!ready.greeted && ready.session.is_none());
    assert_ne!(ask(&mut other, "who").await, pid);
    drop((link, other));
    bench.tasks.stop();
    bench.over().await;
    assert!(is_dead(&pid));
}

#[tokio::test]
async fn changed_tools_reopen_the_conversation() {
    let bench = bench(protocol, SERVER, |_| {});
    let (link, _) = bench.begin(ChildStart { tools: tool(), ..start() }).await;
    release(link, Some("one")).await;
    let (link, same) = bench.begin(ChildStart { tools: tool(), ..resume("one") }).await;
    assert_eq!(same.session.as_deref(), Some("one"));
    let host = same.host.unwrap();
    release(link, Some("one")).await;
    let (link, without) = bench.begin(resume("one")).await;
    assert!(without.greeted && without.session.is_none() && without.host.is_none());
    release(link, Some("one")).await;
    let (_link, anew) = bench.begin(ChildStart { tools: tool(), ..resume("one") }).await;
    assert!(anew.session.is_none());
    assert_ne!(anew.host.unwrap().url, host.url);
}

/// Only an explicit release makes a process reusable. After a dropped turn it may be in any state.
#[tokio::test]
async fn abandoned_process_is_not_used_again() {
    let bench = bench(protocol, SERVER, |_| {});
    let (mut link, _) = bench.begin(start()).await;
    let pid = ask(&mut link, "who").await;
    drop(link);
    let (mut link, ready) = bench.begin(start()).await;
    assert!(!ready.greeted);
    assert_ne!(ask(&mut link, "who").await, pid);
    tell(&link, input("crash\n")).await;
    let (_, exit) = rest(&mut link).await;
    assert_eq!(exit.code, Some(9));
    bench.over().await;
}

/// The release is all that is sent before the link is dropped, and it still arrives.
#[tokio::test]
async fn message_sent_before_the_link_is_dropped_arrives() {
    let bench = bench(protocol, SERVER, |_| {});
    let (mut link, _) = bench.begin(start()).await;
    let pid = ask(&mut link, "who").await;
    assert!(link.tx.hand_over(ToChild::Release { session: None }));
    drop(link);
    while bench.driver.protocol.idle() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (mut link, ready) = bench.begin(start()).await;
    assert!(ready.greeted);
    assert_eq!(ask(&mut link, "who").await, pid);
}

#[tokio::test]
async fn idle_process_ends() {
    let bench = bench(protocol, SERVER, |config| config.agent.idle = Duration::from_millis(50));
    let (link, _) = bench.begin(start()).await;
    release(link, None).await;
    bench.over().await;
}

#[tokio::test]
async fn processes_are_started_in_advance() {
    let bench = bench(protocol, SERVER, |config| config.agent.warm = 1);
    bench.driver.warm_up();
    // The first one is already starting.
    bench.driver.protocol.warm_up();
    while bench.driver.protocol.idle() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bench.driver.stats().children, 1);
    let (link, ready) = bench.begin(start()).await;
    assert!(!ready.greeted && ready.session.is_none());
    // Another one is started in its place.
    while bench.driver.protocol.idle() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bench.driver.stats().children, 2);
    drop(link);
    bench.tasks.stop();
    bench.over().await;
}

/// With a limit of one process, a turn with another folder ends the idle process.
#[tokio::test]
async fn idle_process_in_another_folder_makes_room() {
    let bench = bench(protocol, SERVER, |config| config.agent.children = 1);
    let (mut link, _) = bench.begin(start()).await;
    let pid = ask(&mut link, "who").await;
    release(link, None).await;
    let user = tempfile::tempdir().unwrap();
    let workspace = Some(user.path().to_str().unwrap().to_owned());
    let (mut link, ready) = bench.begin(ChildStart { workspace, ..start() }).await;
    assert!(!ready.greeted);
    assert_ne!(ask(&mut link, "who").await, pid);
}

/// A crash between two turns affects no turn.
#[tokio::test]
async fn process_that_crashed_while_idle_is_replaced() {
    let text = "read line; echo \"$line\"; read line; exit 1";
    let bench = bench(protocol, text, |_| {});
    let (mut link, _) = bench.begin(start()).await;
    ask(&mut link, "x").await;
    tell(&link, input("now\n")).await;
    release(link, Some("one")).await;
    while bench.driver.stats().children > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (_link, ready) = bench.begin(resume("one")).await;
    assert!(!ready.greeted && ready.session.is_none());
}
