//! Where things are on each system.

use super::*;
use crate::auth::paths::System;

/// Every path that is searched, in order, below the home `/h`.
fn looked_at(system: System, pairs: &[(&str, &str)]) -> Vec<String> {
    let places = CredentialPaths::on(system, &env(pairs), Path::new("/h"));
    let mut paths = vec![places.config().to_path_buf()];
    paths.extend(places.cli_files());
    paths.extend([places.ide_database(), places.legacy_dir(), places.open_code_file()]);
    paths.iter().map(|path| path.to_str().unwrap().to_owned()).collect()
}

#[test]
fn credential_paths_of_every_platform() {
    let linux = [
        "/h/.config/ibeam",
        "/h/.config/cursor/auth.json",
        "/h/.cursor/auth.json",
        "/h/.config/Cursor/User/globalStorage/state.vscdb",
        "/h/.cursor/credentials",
        "/h/.local/share/opencode/auth.json",
    ];
    assert_eq!(looked_at(System::Linux, &[]), linux);
    // The standard has relative paths ignored; an empty one is relative.
    let relative = [("XDG_CONFIG_HOME", "x"), ("XDG_DATA_HOME", "")];
    assert_eq!(looked_at(System::Linux, &relative), linux);

    let moved = [
        "/x/ibeam",
        "/x/cursor/auth.json",
        "/h/.config/cursor/auth.json",
        "/h/.cursor/auth.json",
        "/x/Cursor/User/globalStorage/state.vscdb",
        "/h/.cursor/credentials",
        "/d/opencode/auth.json",
    ];
    let named = [("XDG_CONFIG_HOME", "/x"), ("XDG_DATA_HOME", "/d"), ("APPDATA", "/no")];
    assert_eq!(looked_at(System::Linux, &named), moved);

    let mac = [
        "/h/.config/ibeam",
        "/h/.cursor/auth.json",
        "/h/.config/cursor/auth.json",
        "/h/Library/Application Support/Cursor/User/globalStorage/state.vscdb",
        "/h/.cursor/credentials",
        "/h/.local/share/opencode/auth.json",
    ];
    assert_eq!(looked_at(System::MacOs, &[]), mac);

    let windows = [
        "/r/ibeam",
        "/r/Cursor/auth.json",
        "/h/.cursor/auth.json",
        "/r/Cursor/User/globalStorage/state.vscdb",
        "/h/.cursor/credentials",
        "/h/.local/share/opencode/auth.json",
    ];
    assert_eq!(
        looked_at(System::Windows, &[("APPDATA", "/r"), ("XDG_CONFIG_HOME", "/no")]),
        windows
    );
    let default = looked_at(System::Windows, &[]);
    assert_eq!(default.first().unwrap(), "/h/AppData/Roaming/ibeam");

    let keychain =
        |system| CredentialPaths::on(system, &Env::new(), Path::new("/h")).has_keychain();
    assert!(keychain(System::MacOs) && !keychain(System::Linux) && !keychain(System::Windows));
}

#[test]
fn credentials_are_in_the_settings_directory() {
    let home = etcetera::home_dir().unwrap();
    let places = CredentialPaths::of(&crate::config::environment(), &home);
    let settings = crate::config::default_path().unwrap();
    assert_eq!(Some(places.config()), settings.parent());
}
