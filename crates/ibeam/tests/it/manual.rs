//! Completions and the manual, by those who read them: shells and `man`.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::cli::Home;

fn ibeam(home: &Home, line: &str) -> Output {
    let output = home.ibeam(line).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn completion_scripts_omit_hidden_commands() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = text(&ibeam(&home, &format!("completions {shell}")));
        assert!(script.contains("whoami") && script.contains("unattended"), "{shell}");
        assert!(!script.contains("fake"), "{shell}");
    }
    let output = home.ibeam("completions csh").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn bash_completes_commands_and_options() {
    let home = Home::new();
    let script = home.0.path().join("ibeam.bash");
    fs::write(&script, text(&ibeam(&home, "completions bash"))).unwrap();
    // As `complete -F` calls it.
    let complete = |words: &str| {
        let line = format!(
            ". {}\nCOMP_WORDS=({words})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}\n\
             _ibeam ibeam \"$cur\" \"$prev\"\necho \"${{COMPREPLY[@]}}\"\n",
            script.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &line]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        text(&output).trim().to_owned()
    };
    let found = complete("ibeam se");
    let mut found: Vec<&str> = found.split(' ').collect();
    found.sort_unstable();
    assert_eq!(found, ["serve", "service", "setup"]);
    assert_eq!(complete("ibeam service ins"), "install");
    assert_eq!(complete("ibeam serve --unat"), "--unattended");
    assert_eq!(complete("ibeam completions f"), "fish");
    assert_eq!(complete("ibeam setup claude"), "claude-code");
    assert_eq!(complete("ibeam undo zed"), "zed");
    assert_eq!(complete("ibeam fak"), "");
}

#[test]
fn every_command_has_a_manual_page() {
    let home = Home::new();
    let dir = home.0.path().join("man1");
    let output = home.ibeam("man --dir").arg(&dir).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let mut names: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in ["ibeam.1", "ibeam-serve.1", "ibeam-keys-add.1", "ibeam-service-install.1"] {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("fake") || name.contains("help")), "{names:?}");
    let page = text(&ibeam(&home, "man"));
    assert_eq!(page.trim_end(), fs::read_to_string(dir.join("ibeam.1")).unwrap().trim_end());
    assert!(!page.contains("fake"));
    // Examples are shown as they would be typed, a line each.
    let serve = fs::read_to_string(dir.join("ibeam-serve.1")).unwrap();
    assert!(serve.contains(".SH NOTES\n.nf\nExamples:\n  ibeam serve\n"), "{serve}");
    for name in names {
        if !renders(&dir.join(name)) {
            eprintln!("not run: groff is not installed");
            break;
        }
    }
}

/// With every warning that there is. False: the formatter is not installed.
fn renders(page: &Path) -> bool {
    let mut groff = Command::new("groff");
    groff.args(["-man", "-Tutf8", "-ww", "-Kutf8", "-P-cbou"]).arg(page);
    let Ok(output) = groff.output() else { return false };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}: {said}", page.display());
    let page = text(&output);
    assert!(page.contains("\nSYNOPSIS\n"), "{page}");
    true
}
