use roxmltree::Document;

use super::{super::tests::service, *};
use crate::service::{FileOwner, ServiceStamp, read};

fn draft() -> ServiceFile {
    let task = Schtasks::new(Path::new("/local"), "HERE\\m&m");
    task.drafts(&service()).remove(0)
}

#[test]
fn task_matches_its_snapshot() {
    insta::assert_snapshot!(
        "task",
        draft().text(&ServiceStamp { folders: 1, urls: service().urls() })
    );
}

#[test]
fn task_is_well_formed_and_complete() {
    let text = draft().text(&ServiceStamp::default());
    let document = Document::parse(&text).unwrap();
    let named = |name: &str| {
        let found = document.descendants().filter(|node| node.tag_name().name() == name);
        found.filter_map(|node| node.text()).collect::<Vec<_>>()
    };
    assert_eq!(named("UserId"), ["HERE\\m&m", "HERE\\m&m"]);
    assert_eq!(named("Command"), ["conhost.exe"]);
    assert_eq!(
        named("Arguments"),
        [
            r#"--headless "/opt/my tools/ibeam" serve --unattended "--set=models.x=50% & \"more\"" --profile=$HOME"#
        ]
    );
    assert!(is_enabled(&text));
    assert!(!is_enabled(&text.replace("<Enabled>true", "<Enabled>false")));
    // That of the trigger is another switch.
    assert!(is_enabled(&text.replacen("<Enabled>true", "<Enabled>false", 1)));
    assert!(!is_enabled("ERROR: The system cannot find the file specified."));
}

/// The scheduler takes no other encoding for granted.
#[test]
fn task_is_written_in_utf16_and_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task.xml");
    let stamp = ServiceStamp { folders: 3, urls: service().urls() };
    let bytes = draft().bytes(&stamp);
    assert_eq!(bytes[..4], [0xff, 0xfe, b'<', 0]);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(read(&path).unwrap(), FileOwner::Ours(stamp));
}

#[test]
fn words_are_quoted() {
    for (word, want) in [
        ("serve", "serve"),
        (r"C:\ibeam.exe", r"C:\ibeam.exe"),
        (r"C:\my tools\ibeam.exe", r#""C:\my tools\ibeam.exe""#),
        (r"C:\my tools\", r#""C:\my tools\\""#),
        (r#"a"b"#, r#""a\"b""#),
        (r#"a\"b c"#, r#""a\\\"b c""#),
        ("", r#""""#),
    ] {
        assert_eq!(quoted(word), want);
    }
}
