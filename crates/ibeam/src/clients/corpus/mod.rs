//! Every client, set up and undone over files as people have them: nothing may be lost, and
//! nothing may be left.

mod homes;
mod texts;

use std::{
    fs,
    path::{Path, PathBuf},
};

use self::{
    homes::{HomeTree, TestHome},
    texts::{SampleText, TextFormat},
};
use super::{
    CLIENTS, ClientSpec,
    engine::{Fate, SetupError, faults},
    fixtures,
};

/// The files that a client's plan writes for one who has none, relative to the home.
fn files(client: &ClientSpec) -> Vec<PathBuf> {
    let home = TestHome::new();
    let plan = (client.plan)(&home.machine(), &fixtures::open()).unwrap();
    let inside = |path: &Path| path.strip_prefix(home.path()).unwrap().to_path_buf();
    plan.changes.iter().map(|change| inside(&change.path)).collect()
}

/// Every client with every file it writes.
fn pairs() -> Vec<(&'static ClientSpec, PathBuf)> {
    let pairs = |client: &&'static ClientSpec| {
        let client = *client;
        files(client).into_iter().map(move |file| (client, file))
    };
    let pairs: Vec<_> = CLIENTS.iter().flat_map(pairs).collect();
    assert!(pairs.len() >= 8, "{pairs:?}");
    pairs
}

/// A text that must not cause a refusal.
fn fitting(client: &ClientSpec, file: &Path) -> String {
    let fits = |text: &SampleText| {
        let home = TestHome::new();
        home.put(file, text.text.as_bytes(), 0o644);
        home.set_up(client, &fixtures::open()).is_ok()
    };
    texts::good(TextFormat::of(file)).into_iter().find(fits).unwrap().text
}

/// Sets up, twice, and takes it back: the home is as it was.
fn there_and_back(home: &TestHome, client: &ClientSpec, what: &str) -> HomeTree {
    let before = home.tree();
    for wiring in [fixtures::open(), fixtures::locked()] {
        let last = home.tree();
        match home.set_up(client, &wiring) {
            Ok(changed) => {
                let after = home.tree();
                assert_eq!(changed, after != last, "{what}");
                assert!(!home.set_up(client, &wiring).unwrap(), "{what}: twice is once");
                assert_eq!(home.tree(), after, "{what}: twice is once");
            }
            // A plan may have its reasons; then it has changed nothing.
            Err(_) => assert_eq!(home.tree(), before, "{what}: refused"),
        }
    }
    home.undo(client);
    home.assert_is(&before, what);
    before
}

#[test]
fn undo_restores_every_byte() {
    for (client, file) in pairs() {
        let mut done = 0;
        for SampleText { name, text, .. } in texts::good(TextFormat::of(&file)) {
            let home = TestHome::new();
            home.put(&file, text.as_bytes(), 0o640);
            let what = format!("{}: {name} {}", client.name, file.display());
            there_and_back(&home, client, &what);
            done += usize::from(home.set_up(client, &fixtures::open()).is_ok());
        }
        // Most of them are no reason to refuse; one client has a list at the top, some read
        // no comments.
        assert!(done > if client.name == "llm" { 3 } else { 6 }, "{}: {done}", client.name);
    }
}

#[test]
fn undo_removes_new_files() {
    for client in CLIENTS {
        let home = TestHome::new();
        there_and_back(&home, client, client.name);
        // Some of the way may be there.
        for file in files(client) {
            let home = TestHome::new();
            fs::create_dir_all(home.path().join(file.parent().unwrap())).unwrap();
            there_and_back(&home, client, client.name);
        }
    }
}

#[test]
fn malformed_files_are_not_overwritten() {
    for (client, file) in pairs() {
        for (name, bytes) in texts::bad(TextFormat::of(&file)) {
            let home = TestHome::new();
            home.put(&file, &bytes, 0o600);
            let before = home.tree();
            let error = home.set_up(client, &fixtures::open()).unwrap_err();
            assert!(matches!(error, SetupError::Unfit(_)), "{}: {name}: {error}", client.name);
            home.assert_is(&before, &format!("{}: {name}", client.name));
        }
    }
}

#[cfg(unix)]
#[test]
fn read_only_files_are_not_changed() {
    let mut refused = 0;
    for (client, file) in pairs() {
        let text = fitting(client, &file);
        // The file, and then its folder.
        for folder in [false, true] {
            let home = TestHome::new();
            home.put(&file, text.as_bytes(), if folder { 0o644 } else { 0o444 });
            if folder {
                home.set_mode(file.parent().unwrap(), 0o555);
            }
            let before = home.tree();
            // A client with several files is refused for the one, and gets none of the others.
            match home.set_up(client, &fixtures::open()) {
                Err(SetupError::ReadOnly { .. }) => refused += 1,
                // There was nothing to change in it.
                Ok(_) if !folder => {
                    assert_eq!(fs::read_to_string(home.path().join(&file)).unwrap(), text);
                    home.undo(client);
                }
                other => panic!("{}: {other:?}", client.name),
            }
            home.assert_is(&before, client.name);
            home.set_mode(file.parent().unwrap(), 0o755);
        }
    }
    assert!(refused >= 2 * (pairs().len() - 1), "{refused}");
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_followed_and_kept() {
    use std::os::unix::fs::symlink;

    for (client, file) in pairs() {
        let text = fitting(client, &file);
        let place = |home: &TestHome| {
            let place = home.path().join(&file);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            place
        };
        // To a file elsewhere, to one that is not there, and a folder that is a link.
        let home = TestHome::new();
        home.put(Path::new("dotfiles/real"), text.as_bytes(), 0o644);
        symlink(home.path().join("dotfiles/real"), place(&home)).unwrap();
        there_and_back(&home, client, client.name);
        let home = TestHome::new();
        fs::create_dir(home.path().join("dotfiles")).unwrap();
        symlink(home.path().join("dotfiles/none"), place(&home)).unwrap();
        there_and_back(&home, client, client.name);
        if file.parent().unwrap() != Path::new("") {
            let home = TestHome::new();
            home.put(Path::new("dotfiles/inside"), b"mine", 0o644);
            let folder = home.path().join(file.parent().unwrap());
            fs::create_dir_all(folder.parent().unwrap()).unwrap();
            symlink(home.path().join("dotfiles"), folder).unwrap();
            there_and_back(&home, client, client.name);
        }
    }
}

/// A kill at any moment leaves nothing half done for long.
#[test]
fn killed_setup_is_undone() {
    for client in CLIENTS {
        let count = files(client).len();
        for survived in 0..=count {
            let home = TestHome::new();
            let before = home.tree();
            home.die_in_setup(client, &fixtures::locked(), survived);
            assert!(home.tree() != before || survived == 0 || count == 0, "{}", client.name);
            assert_eq!(home.recover(client), count > 0, "{}", client.name);
            home.assert_is(&before, &format!("{}: died after {survived}", client.name));
        }
    }
}

/// A home with a text in each file that the client's setup writes.
fn full_home(client: &ClientSpec) -> TestHome {
    let home = TestHome::new();
    for file in files(client) {
        home.put(&file, fitting(client, &file).as_bytes(), 0o640);
    }
    home
}

/// At every step of a second setup, of its undo, and of the undo of that: the next undo
/// brings every byte back into its own file.
#[test]
fn kill_at_any_step_loses_nothing() {
    for client in CLIENTS {
        let url = "http://127.0.0.1:9".to_owned();
        let second = super::Wiring { url, local: false, ..fixtures::locked() };
        for name in ["setup", "undo"] {
            let act = |home: &TestHome| match name {
                "setup" => drop(home.set_up(client, &second)),
                _ => drop(home.try_undo(client)),
            };
            for full in [false, true] {
                let mut points = 0;
                loop {
                    let what = format!("{}: {name}, {points}, full: {full}", client.name);
                    let home = full_home(client);
                    let before = home.tree();
                    home.set_up(client, &fixtures::open()).unwrap();
                    let hit = if full {
                        faults::full_after(points, || act(&home))
                    } else {
                        faults::killed_after(points, || act(&home))
                    };
                    home.recover(client);
                    home.undo(client);
                    home.assert_is(&before, &what);
                    if !hit {
                        break;
                    }
                    points += 1;
                }
                // A client without files has no steps.
                assert!(points > 2 || files(client).is_empty(), "{}: {points}", client.name);
            }
        }
    }
}

/// A file of which only the first of two setups has need goes back with the second, also
/// when that is killed.
#[test]
fn second_setup_restores_files_it_does_not_need() {
    let client = super::named("opencode").unwrap();
    let elsewhere = super::Wiring { local: false, ..fixtures::open() };
    let plugin = Path::new(".config/opencode/plugin/ibeam.js");
    for points in 0.. {
        let home = TestHome::new();
        let before = home.tree();
        home.set_up(client, &fixtures::open()).unwrap();
        assert!(home.path().join(plugin).exists());
        let hit = faults::killed_after(points, || drop(home.set_up(client, &elsewhere)));
        if !hit {
            assert!(!home.path().join(plugin).parent().unwrap().exists());
        }
        home.recover(client);
        home.undo(client);
        home.assert_is(&before, &format!("{points}"));
        if !hit {
            assert!(points > 4, "{points}");
            break;
        }
    }
}

/// The folder was there at the first setup, and is gone at the second.
#[test]
fn deleted_folders_are_created_again() {
    let client = super::named("claude-code").unwrap();
    let home = TestHome::new();
    fs::create_dir(home.path().join(".claude")).unwrap();
    home.set_up(client, &fixtures::open()).unwrap();
    fs::remove_dir_all(home.path().join(".claude")).unwrap();
    assert!(home.set_up(client, &fixtures::open()).unwrap());
    assert!(home.path().join(".claude/settings.json").exists());
    home.undo(client);
    assert!(home.tree().is_empty());
}

/// A file that the user has changed since is kept.
#[cfg(unix)]
#[test]
fn later_change_of_mode_stays() {
    let client = super::named("claude-code").unwrap();
    let file = Path::new(".claude/settings.json");
    let home = TestHome::new();
    home.put(file, b"{\n  \"theme\": \"dark\"\n}\n", 0o644);
    home.set_up(client, &fixtures::open()).unwrap();
    home.set_mode(file, 0o600);
    home.undo(client);
    assert_eq!(home.mode(file), 0o600);
}

#[test]
fn too_long_file_is_refused() {
    let client = super::named("claude-code").unwrap();
    let home = TestHome::new();
    let text = format!("{{\n  \"a\": \"{}\"\n}}\n", "x".repeat((4 << 20) - 40));
    home.put(Path::new(".claude/settings.json"), text.as_bytes(), 0o644);
    let before = home.tree();
    let error = home.set_up(client, &fixtures::open()).unwrap_err();
    assert!(matches!(error, SetupError::Long { .. }), "{error}");
    assert!(!home.is_set_up(client));
    home.assert_is(&before, "too long");
}

/// What does not come back byte for byte is kept.
#[test]
fn later_deletions_and_changes_are_kept() {
    let client = super::named("pi").unwrap();
    let file = Path::new(".pi/agent/models.json");
    let text = "{\n  \"providers\": {}\n}\n";
    for deleted in [true, false] {
        let home = TestHome::new();
        home.put(file, text.as_bytes(), 0o644);
        home.set_up(client, &fixtures::open()).unwrap();
        let place = home.path().join(file);
        if deleted {
            fs::remove_file(&place).unwrap();
        } else {
            let now = fs::read_to_string(&place).unwrap();
            fs::write(&place, now.replacen("{\n", "{\n  \"mine\": 1,\n", 1)).unwrap();
        }
        let undone = home.undone(client);
        let [edit] = &undone.edits[..] else { panic!("{undone:?}") };
        assert_eq!(edit.fate == Fate::Deleted, deleted);
        assert_ne!(edit.fate, Fate::Same);
        assert_eq!(fs::read_to_string(edit.kept.as_ref().unwrap()).unwrap(), text);
        assert_eq!(place.exists(), !deleted);
    }
}

/// What the user or the client writes after the setup is theirs.
#[test]
fn later_edits_are_kept() {
    let mut kept = 0;
    for (client, file) in pairs() {
        let kind = TextFormat::of(&file);
        for SampleText { name, text, .. } in texts::good(kind) {
            let what = format!("{}: {name} {}", client.name, file.display());
            let home = TestHome::new();
            home.put(&file, text.as_bytes(), 0o644);
            if !home.set_up(client, &fixtures::open()).unwrap_or(false) {
                continue;
            }
            let place = home.path().join(&file);
            let now = fs::read_to_string(&place).unwrap();
            let Some(edited) = texts::edited(kind, &now) else { continue };
            if now == text || edited == now {
                continue;
            }
            fs::write(&place, &edited).unwrap();
            let before = home.tree();
            match home.try_undo(client) {
                Ok(()) => {
                    let after = fs::read_to_string(&place).unwrap();
                    let wanted = texts::edited(kind, &text).unwrap();
                    texts::assert_same(kind, &after, &wanted, &what);
                    kept += 1;
                }
                // Lines that overlap: everything stays, and the backup is named.
                Err(SetupError::Overlap { backup, .. }) => {
                    assert_eq!(fs::read_to_string(backup.unwrap()).unwrap(), text, "{what}");
                    home.assert_is(&before, &what);
                    assert!(!matches!(kind, TextFormat::Json | TextFormat::Toml), "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(kept > 50, "{kept}");
}

/// A second setup for another gateway takes the place of the first.
#[test]
fn second_address_replaces_the_first() {
    for client in CLIENTS {
        let home = TestHome::new();
        let before = home.tree();
        let second = super::Wiring { url: "http://127.0.0.1:9".to_owned(), ..fixtures::open() };
        home.set_up(client, &fixtures::open()).unwrap();
        home.set_up(client, &second).unwrap();
        let only = TestHome::new();
        only.set_up(client, &second).unwrap();
        assert_eq!(home.tree(), only.tree(), "{}", client.name);
        home.undo(client);
        home.assert_is(&before, client.name);
    }
}

/// A file in the folder's place, or a folder in the file's.
#[test]
fn conflicting_values_are_refused() {
    for (client, file) in pairs() {
        let home = TestHome::new();
        fs::create_dir_all(home.path().join(&file)).unwrap();
        let before = home.tree();
        assert!(home.set_up(client, &fixtures::open()).is_err(), "{}", client.name);
        home.assert_is(&before, client.name);
        let Some(folder) = file.parent().filter(|folder| *folder != Path::new("")) else {
            continue;
        };
        let home = TestHome::new();
        home.put(folder, b"no folder", 0o644);
        let before = home.tree();
        assert!(home.set_up(client, &fixtures::open()).is_err(), "{}", client.name);
        home.assert_is(&before, client.name);
    }
}

/// New files that hold a key are for their owner alone, and old ones become so.
#[cfg(unix)]
#[test]
fn files_with_keys_are_private() {
    for (client, file) in pairs() {
        for there in [false, true] {
            let home = TestHome::new();
            if there {
                let text = fitting(client, &file);
                home.put(&file, text.as_bytes(), 0o664);
            }
            home.set_up(client, &fixtures::locked()).unwrap();
            let place = home.path().join(&file);
            if fs::read_to_string(&place).unwrap().contains(fixtures::LOCKED) {
                assert_eq!(home.mode(&file) & 0o077, 0, "{}", client.name);
            }
        }
    }
}
