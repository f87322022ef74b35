//! Sign-ins of other programs, next to one of our own.

use super::*;

#[tokio::test(start_paused = true)]
async fn own_sign_in_next_to_a_borrowed_one_is_renewed_in_its_file() {
    let (theirs, ours) = (token(EPOCH, EPOCH + 9_000), token(EPOCH - 9_000, EPOCH - 1));
    let bench = Bench::new(&[&theirs, &ours]);
    let reread: Reread = {
        let (file, theirs) = (bench.file(), theirs.clone());
        Arc::new(move || {
            let own = |credential| FoundCredential {
                credential,
                source: CredentialSource::Own(file.profile().clone()),
            };
            Ok(Some(file.load()?.map_or_else(|| lent(&theirs), own)))
        })
    };
    let tokens = bench.borrowing(lent(&theirs), reread);
    assert_eq!(text(tokens.current().await), theirs);
    bench.save(&ours).await;
    let new = text(tokens.current().await);
    assert!(new != ours && new != theirs);
    assert_eq!((bench.on_disk(), bench.refreshes()), (new, 1));
}

#[tokio::test(start_paused = true)]
async fn unreadable_source_keeps_the_token_in_use() {
    let theirs = token(EPOCH, EPOCH + 9_000);
    let bench = Bench::new(&[&theirs]);
    let reread: Reread = Arc::new(|| Err(NotRead::NotNow("too many open files".to_owned())));
    let tokens = bench.borrowing(lent(&theirs), reread);
    bench.save(&theirs).await;
    assert_eq!(text(tokens.current().await), theirs, "the file has changed, and is not read");
    assert!(tokens.signed_in());
    let error = tokens.renew(&SecretString::from(theirs)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.message.contains("too many open files"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn borrowed_sign_in_is_reread_and_never_written() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    let stored = Arc::new(Mutex::new(old.clone()));
    let reread: Reread = {
        let stored = Arc::clone(&stored);
        Arc::new(move || Ok(Some(lent(&stored.lock()))))
    };
    let holder =
        Holder::Borrowed(CredentialSource::CliFile("auth.json".into()), Arc::clone(&reread));
    let found = |_: &Holder| reread().unwrap().map(|found| found.credential);
    let (http, wall) = (Some(bench.http()), bench.wall());
    let tokens = AccessTokens::with(holder, None, found, http, wall, &bench.tasks);
    let new = text(tokens.current().await);
    assert_ne!(new, old);
    assert_eq!(bench.refreshes(), 1);
    assert!(!bench.file().path().exists());
    // Its owner signs in again.
    let newer = token(EPOCH, EPOCH + 9_000);
    stored.lock().clone_from(&newer);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(text(tokens.renew(&SecretString::from(new)).await), newer);
    assert_eq!(bench.refreshes(), 1);
}

/// A sign-in of another program ends with the consent to read it, and with a sign-in of
/// our own. What was renewed of it in memory is not thrown away for less.
#[tokio::test(start_paused = true)]
async fn borrowed_sign_in_ends_with_its_consent() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    let folder = bench.dir.path().to_path_buf();
    let mut consents = crate::auth::Consents::load(&folder).unwrap();
    consents.grant(crate::auth::ConsentKind::Cli, 1).unwrap();
    let reread: Reread = {
        let (folder, old) = (folder.clone(), old.clone());
        Arc::new(move || {
            let consents = crate::auth::Consents::load(&folder).unwrap();
            let there = consents.has(crate::auth::ConsentKind::Cli);
            Ok(there.then(|| lent(&old)))
        })
    };
    let found = |_: &Holder| reread().unwrap().map(|found| found.credential);
    let holder =
        Holder::Borrowed(CredentialSource::CliFile("auth.json".into()), Arc::clone(&reread));
    let (http, wall, own) = (Some(bench.http()), bench.wall(), bench.file());
    let tokens = AccessTokens::with(holder, Some(&own), found, http, wall, &bench.tasks);
    let renewed = text(tokens.current().await);
    assert_ne!(renewed, old);
    consents.grant(crate::auth::ConsentKind::Ide, 1).unwrap();
    assert_eq!(text(tokens.current().await), renewed, "that concerns another one");
    consents.revoke(crate::auth::ConsentKind::Cli).unwrap();
    assert_eq!(tokens.current().await.unwrap_err().code, ErrorCode::NotAuthenticated);
    assert_eq!(bench.refreshes(), 1);
}
