//! The command lines that stand in for missing tools, run by a real shell on files
//! with hostile names, and their output read back.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use ibeam_proto::agent::{
    DeleteArgs, GrepArgs, LsArgs, LsDirectoryTreeNode, ReadArgs, WriteArgs, ls_result, read_result,
    read_success,
};

use super::*;

const NAMES: [&str; 8] = [
    "plain.txt",
    "it's",
    "two\nlines",
    "$(touch pwned)",
    "`touch pwned`",
    "-rf",
    "\"; touch pwned; \"",
    "a b*?[c]",
];

/// A directory that goes away again.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ibeam-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Runs a call as a client with nothing but a shell would.
    fn run(&self, ask: &Ask) -> Vec<Reply> {
        let schema = r#"{"type":"object","properties":{"command":{"type":"string"}},
            "required":["command"]}"#;
        let call = translate(ask, &Equipment::of(&[tool("bash", schema)])).unwrap();
        let arguments = arguments(&call);
        let line = arguments["command"].as_str().unwrap();
        let output = Command::new("sh").arg("-c").arg(line).current_dir(&self.0).output().unwrap();
        let text = format!(
            "Exit code: {}\nWall time: 0 seconds\nOutput:\n{}{}",
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap()
        );
        call.back.replies(&answer(&text, false))
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn content(replies: &[Reply]) -> String {
    let [Reply::ReadResult(reply)] = replies else { panic!("{replies:?}") };
    let Some(read_result::Result::Success(success)) = &reply.result else { panic!("{reply:?}") };
    let Some(read_success::Output::Content(text)) = &success.output else { panic!("{success:?}") };
    text.clone()
}

#[test]
fn hostile_file_name_is_written_read_and_deleted() {
    let scratch = Scratch::new("names");
    for name in NAMES {
        let text = format!("first of {name}\n%s \\n $HOME\n\nno newline at the end");
        let write = Ask::WriteArgs(WriteArgs {
            path: name.into(),
            file_text: text.clone(),
            ..WriteArgs::default()
        });
        assert_eq!(variants(&scratch.run(&write)), "Success", "{name}");
        assert_eq!(scratch.names(), [name]);
        assert_eq!(fs::read_to_string(scratch.0.join(Path::new(name))).unwrap(), text);

        let read = |offset, limit| {
            let path = name.into();
            Ask::ReadArgs(ReadArgs { path, offset, limit, ..ReadArgs::default() })
        };
        assert_eq!(content(&scratch.run(&read(None, None))), text);
        let from = 2 + i32::try_from(name.matches('\n').count()).unwrap();
        let ranged = content(&scratch.run(&read(Some(from), Some(1))));
        assert_eq!(ranged, "%s \\n $HOME\n");

        let delete = Ask::DeleteArgs(DeleteArgs { path: name.into(), ..DeleteArgs::default() });
        assert_eq!(variants(&scratch.run(&delete)), "Success", "{name}");
        assert!(scratch.names().is_empty());
        assert_eq!(variants(&scratch.run(&delete)), "FileNotFound", "{name}");
        assert_eq!(variants(&scratch.run(&read(None, None))), "FileNotFound", "{name}");
    }
}

#[test]
fn directories_and_searches_find_what_is_there() {
    let scratch = Scratch::new("search");
    for (path, text) in [
        ("src/deep/a.rs", "one\ntwo\n"),
        ("src/b.md", "two $(x)\n"),
        (".hidden", "two\n"),
        ("src/c.ts", "l17\n"),
        ("node_modules/d.ts", "l17\ntwo\n"),
    ] {
        let write = Ask::WriteArgs(WriteArgs {
            path: path.into(),
            file_text: text.into(),
            ..WriteArgs::default()
        });
        assert_eq!(variants(&scratch.run(&write)), "Success", "{path}");
    }
    let list = Ask::LsArgs(LsArgs { path: ".".into(), ..LsArgs::default() });
    let [Reply::LsResult(reply)] = &scratch.run(&list)[..] else { panic!() };
    let Some(ls_result::Result::Success(success)) = &reply.result else { panic!("{reply:?}") };
    let root: &LsDirectoryTreeNode = success.directory_tree_root.as_ref().unwrap();
    assert_eq!(root.children_files[0].name, ".hidden");
    assert_eq!(root.children_dirs[1].abs_path, "./src");

    let search = |pattern: &str, glob: Option<&str>, mode: &str| {
        format!(
            "{:?}",
            scratch.run(&Ask::GrepArgs(GrepArgs {
                pattern: pattern.into(),
                glob: glob.map(Into::into),
                output_mode: Some(mode.into()),
                ..GrepArgs::default()
            }))
        )
    };
    let found = search("tw+o", Some("*.rs"), "content");
    assert!(found.contains("src/deep/a.rs") && found.contains("line_number: 2"), "{found}");
    assert!(!found.contains("b.md"), "{found}");
    let found = search(r"two \$\(x\)", None, "files_with_matches");
    assert!(found.contains("src/b.md") && found.contains("total_files: 1"), "{found}");
    let found = search("two", None, "count");
    assert!(found.contains("total_matches: 3"), "{found}");
    let found = search("nowhere", None, "content");
    assert!(found.contains("Success") && found.contains("total_lines: 0"), "{found}");
    let found = search("", Some("src/**/*.{rs,md}"), "content");
    assert!(found.contains("total_files: 2"), "{found}");
    // What the model writes for `rg` means the same, or is refused aloud.
    for (pattern, glob, place) in [
        (r"l\d+", None, "src/c.ts"),
        ("l.*?7", None, "src/c.ts"),
        ("(?i)L1", None, "src/c.ts"),
        (r"[\w]\d", None, "src/c.ts"),
        ("two", Some("**/*.rs"), "src/deep/a.rs"),
        ("two", Some("*.{md,txt}"), "src/b.md"),
        ("two", Some("!*.md"), "src/deep/a.rs"),
    ] {
        let found = search(pattern, glob, "files_with_matches");
        assert!(found.contains("Success") && found.contains(place), "{pattern} {glob:?}: {found}");
        assert!(!found.contains("node_modules"), "{found}");
    }
    let found = search("l1", Some("src/**/*.ts"), "content");
    let has_rg = Command::new("rg").arg("--version").output().is_ok();
    let says = if has_rg { "src/c.ts" } else { "needs ripgrep" };
    assert!(found.contains(says) && found.contains("Success") == has_rg, "{found}");
    let missing = Ask::LsArgs(LsArgs { path: "nowhere".into(), ..LsArgs::default() });
    assert_eq!(variants(&scratch.run(&missing)), "Error");
}
