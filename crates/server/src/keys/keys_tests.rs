#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::config::Listen;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ibeam/keys.json")
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        config.access.keys_file = Some(self.path());
        config
    }

    fn add(&self, name: &str, limit: Option<usize>) -> SecretString {
        KeyFile::at(&self.path()).add(name, limit, 7).unwrap()
    }
}

fn bearer(keys: &Keys, key: &SecretString) -> Result<Caller, KeyRefusal> {
    keys.check(Some(key.expose_secret()), None)
}

fn name(caller: &Caller) -> &str {
    caller.name.as_deref().unwrap()
}

#[cfg(unix)]
#[test]
fn key_is_shown_once_and_stored_as_a_hash() {
    let place = Place::new();
    let key = place.add("laptop", Some(4));
    assert_eq!(key.expose_secret().len(), PREFIX.len() + 64);
    assert!(key.expose_secret().starts_with(PREFIX));
    assert_ne!(key.expose_secret(), place.add("other", None).expose_secret());
    let text = std::fs::read_to_string(place.path()).unwrap();
    assert!(!text.contains(key.expose_secret()) && !text.contains(PREFIX), "{text}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.path()), 0o600);
    assert_eq!(mode(place.path().parent().unwrap()), 0o700);
    let listed = KeyFile::at(&place.path()).list().unwrap();
    let laptop = KeyInfo { name: "laptop".to_owned(), created: 7, limit: Some(4) };
    assert_eq!((listed.len(), &listed[0]), (2, &laptop));
}

#[test]
fn key_names_are_valid_and_unique() {
    let place = Place::new();
    place.add("a", None);
    let path = place.path();
    let file = KeyFile::at(&path);
    assert!(matches!(file.add("a", None, 0), Err(KeyFileError::Taken(_))));
    for bad in ["", " ", "a b", "-a", "../x", "é", &"a".repeat(65)] {
        assert!(matches!(file.add(bad, None, 0), Err(KeyFileError::Name(_))), "{bad}");
    }
    for good in ["A.b-c_9", "0", &"a".repeat(64)] {
        file.add(good, None, 0).unwrap();
    }
    assert_eq!(file.revoke("nobody").unwrap(), None);
    assert_eq!(file.revoke("a").unwrap(), Some(3));
}

#[tokio::test(start_paused = true)]
async fn added_and_revoked_keys_are_noticed() {
    let place = Place::new();
    let keys = Keys::new(&place.config());
    // None was created yet.
    let anyone = keys.check(None, Some("whatever")).unwrap();
    assert_eq!(anyone.name, None);
    assert_eq!(anyone.id, <KeyHash>::from(Sha256::digest("whatever")));

    let (laptop, phone) = (place.add("laptop", Some(2)), place.add("phone", None));
    tokio::time::advance(LOOK).await;
    assert_eq!(keys.check(None, None), Err(KeyRefusal::Missing));
    assert_eq!(keys.check(Some("whatever"), None), Err(KeyRefusal::Wrong));
    let caller = bearer(&keys, &laptop).unwrap();
    assert_eq!((name(&caller), caller.limit), ("laptop", Some(2)));
    assert_eq!(caller.id, <KeyHash>::from(Sha256::digest(laptop.expose_secret())));
    // Either header, and the good one counts.
    assert_eq!(name(&keys.check(Some("x"), Some(phone.expose_secret())).unwrap()), "phone");

    // A new one works at once, an old one goes within the second.
    let late = place.add("late", None);
    assert_eq!(name(&bearer(&keys, &late).unwrap()), "late");
    assert_eq!(KeyFile::at(&place.path()).revoke("laptop").unwrap(), Some(2));
    tokio::time::advance(LOOK).await;
    assert_eq!(bearer(&keys, &laptop), Err(KeyRefusal::Wrong));
    assert!(bearer(&keys, &phone).is_ok());
}

#[tokio::test(start_paused = true)]
async fn required_keys_stay_required() {
    let place = Place::new();
    let key = place.add("only", None);
    let keys = Keys::new(&place.config());
    assert!(bearer(&keys, &key).is_ok());
    // A file that cannot be used changes nothing.
    let text = std::fs::read(place.path()).unwrap();
    std::fs::write(place.path(), "{").unwrap();
    tokio::time::advance(LOOK).await;
    assert!(bearer(&keys, &key).is_ok());
    assert_eq!(keys.check(None, None), Err(KeyRefusal::Missing));
    std::fs::write(place.path(), text).unwrap();
    // The last key is gone, then the file.
    KeyFile::at(&place.path()).revoke("only").unwrap();
    tokio::time::advance(LOOK).await;
    assert_eq!(bearer(&keys, &key), Err(KeyRefusal::Wrong));
    assert_eq!(Keys::new(&place.config()).check(None, None), Err(KeyRefusal::Missing));
    std::fs::remove_file(place.path()).unwrap();
    tokio::time::advance(LOOK).await;
    assert_eq!(keys.check(None, None), Err(KeyRefusal::Missing));
}

#[cfg(unix)]
#[test]
fn unusable_key_file_admits_no_caller() {
    let place = Place::new();
    let key = place.add("only", None);
    let path = place.path();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = policy(Some(&path)).unwrap_err();
    assert!(error.hint().starts_with("chmod 600 /"), "{}", error.hint());
    assert_eq!(bearer(&Keys::new(&place.config()), &key), Err(KeyRefusal::Wrong));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(policy(Some(&path)).unwrap(), KeyPolicy::Keys);
    for bad in ["", "{}", "[]", r#"{"version":0,"keys":[]}"#, r#"{"version":2,"keys":[]}"#] {
        std::fs::write(&path, bad).unwrap();
        assert!(policy(Some(&path)).is_err(), "{bad}");
        assert!(KeyFile::at(&path).add("x", None, 0).is_err(), "{bad}");
    }
    let short = r#"{"version":1,"keys":[{"name":"a","sha256":"00","created":0}]}"#;
    std::fs::write(&path, short).unwrap();
    assert!(matches!(KeyFile::at(&path).read(), Err(KeyFileError::Broken { .. })));
}

/// A look that failed for want of something is taken again, so that a key that was revoked
/// meanwhile does not live on.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn unreadable_key_file_is_read_again() {
    let place = Place::new();
    let (gone, kept) = (place.add("gone", None), place.add("kept", None));
    let keys = Keys::new(&place.config());
    assert!(bearer(&keys, &gone).is_ok());
    let text = {
        KeyFile::at(&place.path()).revoke("gone").unwrap();
        std::fs::read(place.path()).unwrap()
    };
    // A folder in its place is an I/O error, also for root.
    std::fs::remove_file(place.path()).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    tokio::time::advance(LOOK).await;
    assert!(bearer(&keys, &gone).is_ok(), "the keys stay as they were");
    assert!(keys.state.lock().unread);
    // The same file by its stamp.
    std::fs::remove_dir(place.path()).unwrap();
    std::fs::write(place.path(), text).unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    keys.state.lock().stamp = FileStamp::of(&place.path());
    assert!(bearer(&keys, &gone).is_ok(), "not on every request");
    tokio::time::advance(LOOK).await;
    assert_eq!(bearer(&keys, &gone), Err(KeyRefusal::Wrong));
    assert!(bearer(&keys, &kept).is_ok());
}

#[test]
fn key_policy_follows_the_key_file() {
    let place = Place::new();
    assert_eq!(policy(None).unwrap(), KeyPolicy::Open);
    assert_eq!(policy(Some(&place.path())).unwrap(), KeyPolicy::Open);
    place.add("only", None);
    assert_eq!(policy(Some(&place.path())).unwrap(), KeyPolicy::Keys);
    KeyFile::at(&place.path()).revoke("only").unwrap();
    assert_eq!(policy(Some(&place.path())).unwrap(), KeyPolicy::Shut);
}

#[test]
fn exposed_listener_always_requires_a_key() {
    let open = "0.0.0.0:1".parse().unwrap();
    let mut config = Place::new().config();
    config.server.listen = Listen::Tcp(open);
    assert_eq!(Keys::new(&config).check(None, None), Err(KeyRefusal::Missing));
    config.access.api_key = Some(SecretString::from("sesame"));
    let keys = Keys::new(&config);
    assert_eq!(keys.check(Some("sesame"), None).unwrap().name, None);
    assert_eq!(keys.check(None, Some("sesam")), Err(KeyRefusal::Wrong));
}

#[test]
fn one_exposed_listener_requires_a_key_on_all() {
    let place = |text: &str| Listen::Tcp(text.parse().unwrap());
    let (here, open) = (place("127.0.0.1:1"), place("0.0.0.0:2"));
    let socket = Listen::Unix("/run/user/1/ibeam.sock".into());
    for (listen, also, needed) in [
        (&here, vec![open.clone()], true),
        (&open, vec![here.clone()], true),
        (&socket, vec![here.clone(), open.clone()], true),
        (&here, vec![socket.clone(), place("[::1]:3")], false),
    ] {
        let mut config = Place::new().config();
        config.server.listen = listen.clone();
        config.server.also = also;
        assert_eq!(Keys::new(&config).are_required(), needed, "{listen} {:?}", config.server.also);
    }
}

#[test]
fn concurrent_adds_lose_no_key() {
    let place = Place::new();
    let path = place.path();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let path = &path;
            scope.spawn(move || KeyFile::at(path).add(&format!("k{n}"), None, 0).unwrap());
        }
    });
    assert_eq!(KeyFile::at(&path).list().unwrap().len(), 8);
}

/// The key of the process is good besides all others, and its bringer the same one whatever
/// the key.
#[tokio::test(start_paused = true)]
async fn instance_key_identifies_the_owner() {
    let folder = Place::new();
    let (first, second): (SecretString, SecretString) = ("ibi_1".into(), "ibi_2".into());
    let keys = Keys::new(&folder.config());
    keys.admit(&first, "127.0.0.1:1");
    let owner = bearer(&keys, &first).unwrap();
    assert_ne!(owner, bearer(&keys, &second).unwrap());
    assert!(!keys.are_required());
    let laptop = folder.add("laptop", None);
    let keys = Keys::new(&folder.config());
    keys.admit(&second, "127.0.0.1:1");
    assert!(keys.are_required());
    assert_eq!(bearer(&keys, &second).unwrap().id, owner.id);
    assert_eq!(keys.check(None, Some("ibi_2")).unwrap().id, owner.id);
    assert_eq!(bearer(&keys, &first), Err(KeyRefusal::Wrong));
    assert_eq!(name(&bearer(&keys, &laptop).unwrap()), "laptop");
}

#[tokio::test(start_paused = true)]
async fn keys_share_slots_from_the_second_key_on() {
    let place = Place::new();
    let keys = Keys::new(&place.config());
    keys.admit(&generate(), "127.0.0.1:1");
    assert!(!keys.check(None, Some("whatever")).unwrap().shares, "keys are not needed");

    let keys = Keys::new(&place.config());
    let laptop = place.add("laptop", None);
    tokio::time::advance(LOOK).await;
    assert!(!bearer(&keys, &laptop).unwrap().shares, "the only one");
    let phone = place.add("phone", None);
    assert!(bearer(&keys, &phone).unwrap().shares);
    assert!(bearer(&keys, &laptop).unwrap().shares);
    KeyFile::at(&place.path()).revoke("phone").unwrap();
    tokio::time::advance(LOOK).await;
    assert!(!bearer(&keys, &laptop).unwrap().shares);

    // The user's own programs are another caller, and so is `api_key`.
    let instance = generate();
    keys.admit(&instance, "127.0.0.1:1");
    assert!(bearer(&keys, &laptop).unwrap().shares);
    assert!(bearer(&keys, &instance).unwrap().shares);
    let own = SecretString::from("own");
    let mut config = place.config();
    config.access.api_key = Some(own.clone());
    let keys = Keys::new(&config);
    assert!(bearer(&keys, &own).unwrap().shares);
    assert!(!Keys::single(Some(&own)).check(Some("own"), None).unwrap().shares);
}
