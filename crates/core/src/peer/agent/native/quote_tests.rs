use std::process::Command;

use super::*;

const HOSTILE: [&str; 9] = [
    "it's",
    "a\nb",
    "$(touch pwned)",
    "`id`",
    "-rf",
    "--",
    "\"; rm -rf /; \"",
    "a\\",
    " ${HOME} *?[a] ",
];

/// What a real shell makes of a command line.
fn printed(line: &str) -> String {
    let output = Command::new("sh").arg("-c").arg(line).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_hostile_name_stays_one_word() {
    for name in HOSTILE {
        assert_eq!(printed(&format!("printf '[%s]' {}", word(name))), format!("[{name}]"));
    }
}

#[test]
fn a_path_is_never_an_option() {
    for name in HOSTILE {
        let got = printed(&format!("printf '[%s]' {}", path(name)));
        let want = if name.starts_with('-') { format!("[./{name}]") } else { format!("[{name}]") };
        assert_eq!(got, want);
    }
    assert_eq!(path(""), "'.'");
}

#[test]
fn nothing_runs_when_the_directory_is_missing() {
    for command in ["echo ran", "echo a; echo b", "false || echo ran", "echo a\necho b", "echo a #"]
    {
        let line = in_directory(command, "/nowhere/at all");
        let output = Command::new("sh").arg("-c").arg(&line).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{line}: {output:?}");
        assert!(!printed(&in_directory(command, "/")).is_empty());
    }
}
