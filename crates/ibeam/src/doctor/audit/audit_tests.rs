use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::{
    files::ModeRule,
    modes::{exposed, ways},
    *,
};
use ibeam_server::{auth::Profile, config::Env};

fn make(path: &Path, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if path.extension().is_some() {
        fs::write(path, "{}").unwrap();
    } else {
        fs::create_dir_all(path).unwrap();
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn each_mode_rule_is_enforced() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let check = |name: &str, rule: ModeRule, mode: u32| {
        let path = folder.path().join(name);
        make(&path, mode);
        let fault = exposed(&path, rule, &fs::metadata(&path).unwrap())?;
        let fix = fault.fix.unwrap();
        let (command, named) = fix.rsplit_once(' ').unwrap();
        assert_eq!(Path::new(named), path);
        Some((command.to_owned(), fault.what))
    };
    let fixed = |name, rule, mode| check(name, rule, mode).map(|(command, _)| command);
    let foreign = |consent| ModeRule::Foreign { consent };
    for (name, rule, mode, expect) in [
        ("a.json", ModeRule::Own, 0o600, None),
        ("a.json", ModeRule::Own, 0o400, None),
        ("a.json", ModeRule::Own, 0o640, Some("chmod 600")),
        ("a.json", ModeRule::Secret, 0o644, Some("chmod 600")),
        ("a.json", ModeRule::Secret, 0o602, Some("chmod 600")),
        ("a.json", ModeRule::Safe, 0o644, None),
        ("a.json", ModeRule::Safe, 0o646, Some("chmod go-w")),
        ("a.json", ModeRule::Shared, 0o640, None),
        ("a.json", ModeRule::Shared, 0o644, Some("chmod g-w,o-rwx")),
        ("a.json", ModeRule::Any, 0o666, None),
        ("folder", ModeRule::Secret, 0o700, None),
        ("folder", ModeRule::Secret, 0o755, Some("chmod 700")),
        ("folder", ModeRule::Secret, 0o711, Some("chmod 700")),
        ("folder", ModeRule::Safe, 0o755, None),
        ("folder", ModeRule::Safe, 0o757, Some("chmod go-w")),
        ("folder", ModeRule::Safe, 0o1777, None),
        // The folder around it is closed to others.
        ("a.json", foreign(true), 0o644, None),
    ] {
        let expect = expect.map(str::to_owned);
        assert_eq!(fixed(name, rule, mode), expect, "{name} {rule:?} {mode:o}");
    }
    for (mode, words) in [(0o644, "read"), (0o622, "change"), (0o666, "read and change")] {
        let (_, what) = check("a.json", ModeRule::Own, mode).unwrap();
        assert!(what.starts_with(&format!("other users can {words} /")), "{what}");
        assert!(what.ends_with(&format!("(mode {mode:04o})")), "{what}");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(fixed("a.json", foreign(true), 0o644).as_deref(), Some("chmod 600"));
}

#[test]
fn writable_parent_folder_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (above, own) = (folder.path().join("above"), folder.path().join("above/ibeam"));
    make(&own, 0o700);
    let look = |mode: u32| {
        make(&above, mode);
        let mut found = AuditFindings::default();
        let folders = BTreeSet::from([own.clone()]);
        let lines = ways(&folders, &folders, &mut found);
        assert_eq!(lines.len(), found.problems.len());
        found.problems
    };
    assert_eq!(look(0o755), []);
    assert_eq!(look(0o1777), [], "only owners can replace files there");
    let problems = look(0o777);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].fix, Some(format!("chmod go-w {}", above.display())));
}

#[test]
fn every_searched_path_is_listed() {
    let home = tempfile::tempdir().unwrap();
    let here = LocalUser::with(Env::new(), home.path(), Profile::default());
    make(&home.path().join(".cursor/credentials/cursor.json"), 0o600);
    for (_, path) in here.foreign_files() {
        make(&path, 0o600);
    }
    let listed: BTreeSet<String> =
        here.foreign_files().iter().map(|(_, path)| path.display().to_string()).collect();
    // Without consent each of them is refused, and by that named.
    let searched: BTreeSet<String> =
        here.discover().unwrap().refused.into_iter().map(|refused| refused.place).collect();
    assert!(searched.len() >= 5, "{searched:?}");
    assert_eq!(searched, listed);
}

#[test]
fn open_access_is_a_problem_and_missing_keys_a_note() {
    let look = |change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        let mut found = AuditFindings::default();
        let keys = found.keys(&config, &SettingOrigin::Env("IBEAM_API_KEY".to_owned()));
        let listener = found.listener(&config, false);
        (listener, keys, found)
    };
    let (listener, _, found) = look(|_| {});
    assert!(listener.local && !listener.tls && !listener.key_needed && !listener.any_address);
    assert_eq!((found.problems.len(), found.notes.len()), (0, 1));

    let (listener, _, found) =
        look(|config| config.server.listen = Listen::Tcp(([0, 0, 0, 0], 1).into()));
    assert!(!listener.local && listener.key_needed && listener.any_address);
    assert_eq!(found.problems[0].fix.as_deref(), Some("ibeam keys add NAME"));
    assert!(found.notes[0].contains("unencrypted"), "{found:?}");

    let (listener, keys, found) = look(|config| {
        config.access.api_key = Some("very-secret".into());
        config.access.cors_origins = vec!["*".to_owned()];
        config.access.hosts = vec!["box.lan".to_owned()];
    });
    assert_eq!(keys.setting.as_deref(), Some("env IBEAM_API_KEY"));
    assert!(listener.key_needed && listener.hosts.contains(&"box.lan".to_owned()));
    assert!(found.problems.is_empty() && found.notes[0].contains("every web page"), "{found:?}");

    let (_, _, found) = look(|config| config.access.cors_origins = vec!["*".to_owned()]);
    assert!(found.problems[0].what.contains("no key is needed"), "{found:?}");

    let (listener, _, found) =
        look(|config| config.server.listen = Listen::Unix(PathBuf::from("/x/y")));
    assert!(listener.unix && listener.local && found.notes.is_empty(), "{found:?}");
}

#[test]
fn contacted_hosts_match_the_table() {
    let config = Config::default();
    let shown: Vec<String> = contacts(&config).into_iter().map(|line| line.origin).collect();
    let table: Vec<String> = hosts::contacts(&config.upstream.api, true)
        .into_iter()
        .map(|contact| contact.host.to_string())
        .collect();
    assert_eq!(shown, table);
    assert_eq!(shown, [hosts::API.origin, "https://*.cursor.sh", hosts::SITE.origin]);
    // The user's own choice of a host is for everything.
    let mut fixed = Config::default();
    fixed.upstream.named = true;
    assert!(contacts(&fixed).iter().all(|line| !line.origin.contains('*')));
    let sim = Config { backend: Backend::Sim { scenario: None }, ..config };
    assert!(contacts(&sim).is_empty());
}
