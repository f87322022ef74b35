//! Keychains that are missing, slow or broken.

use super::*;

#[tokio::test]
async fn unreachable_keychain_is_reported_before_the_sign_in() {
    let bench = Bench::new();
    bench.keychain.fail("get", refused());
    assert_eq!(the(&bench.file(CredentialStorage::Keychain).reach().unwrap_err()), &refused());
    bench.file(CredentialStorage::File).reach().unwrap();
}

#[tokio::test]
async fn unanswered_keychain_dialog_times_out() {
    let (answer, dialog) = mpsc::channel();
    let bench = Bench::new();
    bench.save(CredentialStorage::Keychain, "old").await.unwrap();
    *bench.keychain.dialog.lock() = Some(dialog);
    bench.keychain.calls();

    let file = bench.patient_for(CredentialStorage::Keychain, Duration::from_millis(20));
    let error = login::keep(&file, &credential("late")).await.unwrap_err();
    assert!(matches!(the(&error), KeychainError::NoAnswer(_)), "{error:?}");
    assert_eq!(bench.keychain.calls(), ["set"]);
    // While it is open no other call is made, and none waits: a later write must not be followed by
    // this one.
    let error = login::keep(&file, &credential("later")).await.unwrap_err();
    assert!(error.to_string().contains("prompt"), "{error}");
    assert_eq!(bench.keychain.calls(), [""; 0]);

    // Once it is answered, all is as before; the late write has landed, whole.
    answer.send(()).unwrap();
    let mut tries = 0;
    while file.load().is_err() {
        tries += 1;
        assert!(tries < 30_000, "the line never moves");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(bench.who(), "late");
}

#[test]
fn keychain_calls_are_queued() {
    let (answer, dialog) = mpsc::channel();
    let keychain = Arc::new(Memory { dialog: Mutex::new(Some(dialog)), ..Memory::default() });
    keychain.put("default", "text");
    let shared: Arc<dyn Keychain> = keychain.clone();
    let patient = PatientKeychain::new(shared, LONG);
    let get = |patient: &PatientKeychain| {
        let patient = patient.clone();
        std::thread::spawn(move || patient.ask(|keychain| keychain.get("default")))
    };
    let both = [get(&patient), get(&patient)];
    answer.send(()).unwrap();
    for caller in both {
        assert!(caller.join().unwrap().unwrap().is_some());
    }
    assert_eq!(keychain.calls(), ["get", "get"]);
}

#[test]
fn panicking_keychain_library_is_an_error_for_one_call() {
    let patient = PatientKeychain::new(Arc::new(Memory::default()), LONG);
    let error = patient.ask::<()>(|_| panic!("on purpose")).unwrap_err();
    assert!(matches!(error, KeychainError::Failed(_)), "{error:?}");
    assert_eq!(patient.ask(|keychain| keychain.delete("default")), Ok(false));
}

#[test]
fn debug_output_contains_no_secret() {
    let keychain = Memory::default();
    keychain.put("default", "MARKED");
    let vault = CredentialVault::of(CredentialStorage::Keychain, Arc::new(keychain), LONG);
    assert!(!format!("{vault:?}").contains("MARKED"));
}

#[cfg(not(feature = "keychain"))]
#[tokio::test]
async fn build_without_keychain_says_how_to_get_it() {
    let refused = "keychain".parse::<CredentialStorage>().unwrap_err();
    assert!(refused.contains("--features keychain"), "{refused}");
    // A file that another build wrote.
    let bench = Bench::new();
    bench.save(CredentialStorage::Keychain, "a").await.unwrap();
    let file = CredentialFile::at(bench.dir.path(), &Profile::default());
    let error = file.load().unwrap_err();
    assert_eq!(the(&error), &KeychainError::NotBuilt);
    assert!(error.to_string().contains("--features keychain"), "{error}");
    // A new sign-in takes its place, and says what is left.
    let saved = login::keep(&file, &credential("b")).await.unwrap();
    assert_eq!(saved.left, Some(KeychainError::NotBuilt));
    assert_eq!(bench.who(), "b");
}
