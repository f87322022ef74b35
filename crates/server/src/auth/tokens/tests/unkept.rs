//! Renewals that cannot be written down, locked, or answered.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    sync::atomic::AtomicBool,
};

use tokio::io::DuplexStream;

use super::*;

/// The directory of the credentials, and where it is when it is away.
fn dirs(bench: &Bench) -> (PathBuf, PathBuf) {
    let dir = bench.file().path().parent().unwrap().to_path_buf();
    (dir.clone(), dir.with_extension("away"))
}

/// Tokens with a directory that disappears during the first renewal, and a file is in its place:
/// what was read can no longer be written.
fn losing_its_directory(bench: &Bench) -> AccessTokens {
    let (sim, (dir, away)) = (bench.sim.clone(), dirs(bench));
    let gone = AtomicBool::new(false);
    let connector = Connector::Memory(Arc::new(move || {
        if !gone.swap(true, Ordering::Relaxed) {
            fs::rename(&dir, &away).unwrap();
            fs::write(&dir, "in the way").unwrap();
        }
        sim.connect()
    }));
    let http = AuthHttp::new(&connector, &host(), &bench.tasks);
    AccessTokens::own_at(bench.file(), http, bench.wall(), &bench.tasks)
}

fn bring_back(bench: &Bench) {
    let (dir, away) = dirs(bench);
    fs::remove_file(&dir).unwrap();
    fs::rename(away, dir).unwrap();
}

/// What is logged while a test runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || log.clone()).finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn unsaved_renewal_is_used_and_saved_later() {
    let log = Log::default();
    let _guard = log.start();
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    bench.save(&old).await;
    let tokens = losing_its_directory(&bench);
    let new = text(tokens.current().await);
    assert_ne!(new, old);
    assert!(tokens.signed_in());
    let told = log.text();
    assert_eq!(told.matches("cannot save the renewed sign-in").count(), 1, "{told}");
    assert!(told.contains("Only this process can use it") && !told.contains(&new), "{told}");
    assert_eq!(text(tokens.current().await), new);
    // Not tried again at every turn.
    bench.tasks.join_within(Duration::from_secs(1)).await;
    bring_back(&bench);
    assert_eq!(text(tokens.current().await), new);
    bench.tasks.join_within(Duration::from_secs(1)).await;
    assert_eq!(bench.on_disk(), old);
    // After a while it is, without another renewal.
    tokio::time::sleep(PAUSE).await;
    assert_eq!(text(tokens.current().await), new);
    bench.tasks.join_within(Duration::from_secs(1)).await;
    assert_eq!(bench.on_disk(), new);
    assert_eq!(bench.refreshes(), 1);
    assert!(tokens.inner.state.lock().unkept.is_none());
}

#[tokio::test(start_paused = true)]
async fn credential_of_another_process_replaces_an_unsaved_one() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let theirs = token(EPOCH, EPOCH + 9_000);
    let bench = Bench::new(&[&old, &theirs]);
    bench.save(&old).await;
    let tokens = losing_its_directory(&bench);
    assert_ne!(text(tokens.current().await), old);
    bring_back(&bench);
    bench.save(&theirs).await;
    tokio::time::sleep(PAUSE).await;
    tokens.current().await.unwrap();
    bench.tasks.join_within(Duration::from_secs(1)).await;
    assert_eq!(bench.on_disk(), theirs);
    assert_eq!(text(tokens.current().await), theirs);
    assert_eq!(bench.refreshes(), 1);
}

#[tokio::test(start_paused = true)]
async fn old_token_on_disk_does_not_replace_an_unsaved_one() {
    let revoked = token(EPOCH, EPOCH + 9_000);
    let bench = Bench::new(&[&revoked]);
    bench.save(&revoked).await;
    let tokens = losing_its_directory(&bench);
    let new = tokens.renew(&SecretString::from(revoked.clone())).await.unwrap();
    bring_back(&bench);
    tokio::time::sleep(BRAND_NEW).await;
    // By its own word the one on the disk is still good.
    let newer = text(tokens.renew(&new).await);
    assert!(newer != revoked && newer != new.expose_secret());
    assert_eq!((bench.refreshes(), bench.on_disk()), (2, newer));
}

#[tokio::test(start_paused = true)]
async fn unlockable_file_does_not_prevent_a_renewal() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    bench.save(&old).await;
    let lock = bench.file().path().with_extension("lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let tokens = bench.tokens();
    let new = text(tokens.current().await);
    assert_ne!(new, old);
    assert_eq!(bench.on_disk(), old, "others could be at it");
    fs::remove_dir(&lock).unwrap();
    tokio::time::sleep(PAUSE).await;
    assert_eq!(text(tokens.current().await), new);
    bench.tasks.join_within(Duration::from_secs(1)).await;
    assert_eq!((bench.on_disk(), bench.refreshes()), (new, 1));
}

#[tokio::test(start_paused = true)]
async fn lock_held_by_another_process_is_not_a_sign_out() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    bench.save(&old).await;
    let held = bench.file().lock(LOCK_WAIT).await.unwrap();
    let (tokens, began) = (bench.tokens(), Instant::now());
    let error = tokens.current().await.unwrap_err();
    assert_eq!(began.elapsed(), LOCK_WAIT);
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.message.contains("default.lock for 60 s; try again"), "{}", error.message);
    assert!(tokens.signed_in());
    drop(held);
    assert_ne!(text(tokens.current().await), old);
}

/// A service that takes what it is sent, and is silent.
fn silent(bench: &Bench) -> AuthHttp {
    let ends: Mutex<Vec<DuplexStream>> = Mutex::default();
    let connector = Connector::Memory(Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        ends.lock().push(theirs);
        ours
    }));
    AuthHttp::new(&connector, &host(), &bench.tasks)
}

#[tokio::test(start_paused = true)]
async fn hanging_renewal_does_not_block_turns_for_ever() {
    let short = token(EPOCH - 9_000, EPOCH + 100);
    let bench = Bench::new(&[]);
    bench.save(&short).await;
    let tokens = AccessTokens::own_at(bench.file(), silent(&bench), bench.wall(), &bench.tasks);
    let began = Instant::now();
    assert_eq!(text(tokens.current().await), short);
    assert_eq!(began.elapsed(), Duration::ZERO, "no request waits while the token is valid");
    tokio::time::sleep(Duration::from_secs(200)).await;
    let began = Instant::now();
    let (one, two) = tokio::join!(tokens.current(), tokens.current());
    assert!(began.elapsed() < LOCK_WAIT, "others wait for no longer than that");
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert_eq!(error.code, ErrorCode::Unavailable);
        assert!(error.message.contains("no answer in time"), "{}", error.message);
    }
    assert!(tokens.signed_in());
}

#[tokio::test(start_paused = true)]
async fn panicked_renewal_is_started_again() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    bench.save(&old).await;
    let tokens = bench.tokens();
    let (sender, flight) = tokio::sync::watch::channel(None);
    tokens.inner.state.lock().flight = Some(flight);
    drop(sender);
    assert_ne!(text(tokens.current().await), old);
}

#[tokio::test(start_paused = true)]
async fn api_key_is_exchanged_when_the_refresh_token_is_dead() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    for (key, works) in [(Sim::API_KEY, true), ("crsr_unknown", false)] {
        let bench = Bench::new(&[]);
        let credential = Credential {
            access_token: Some(old.clone().into()),
            refresh_token: Some("dead".into()),
            api_key: Some(key.into()),
            ..Credential::default()
        };
        crate::auth::login::keep(&bench.file(), &credential).await.unwrap();
        let tokens = bench.tokens();
        if works {
            let new = text(tokens.current().await);
            assert_eq!((bench.refreshes(), bench.on_disk()), (1, new));
            continue;
        }
        for _ in 0..2 {
            let error = tokens.current().await.unwrap_err();
            assert!(error.message.contains("Run `ibeam login`"), "{}", error.message);
            assert_eq!(tokens.inner.state.lock().dead.len(), 2, "neither is handed in again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_borrowed_token_is_not_used_again() {
    let theirs = token(EPOCH, EPOCH + 9_000);
    let bench = Bench::new(&[&theirs]);
    let reread: Reread = {
        let theirs = theirs.clone();
        Arc::new(move || Ok(Some(lent(&theirs))))
    };
    let holder =
        Holder::Borrowed(CredentialSource::CliFile("auth.json".into()), Arc::clone(&reread));
    let found = reread().unwrap().map(|found| found.credential);
    let tokens =
        AccessTokens::with(holder, None, |_| found, Some(bench.http()), bench.wall(), &bench.tasks);
    let mut used = tokens.current().await.unwrap();
    assert_eq!(used.expose_secret(), theirs);
    for renewals in 1..=3 {
        // It is still there, and by its own word still good.
        used = tokens.renew(&used).await.unwrap();
        assert_ne!(used.expose_secret(), theirs);
        assert_eq!(bench.refreshes(), renewals);
        tokio::time::sleep(BRAND_NEW).await;
    }
}
