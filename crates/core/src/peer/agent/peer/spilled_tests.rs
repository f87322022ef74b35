use super::*;

fn write(id: &str, path: &str, text: &str) -> ExecServerMessage {
    let args = WriteArgs {
        path: path.into(),
        file_text: text.into(),
        tool_call_id: id.into(),
        ..WriteArgs::default()
    };
    ExecServerMessage { message: Some(Ask::WriteArgs(args)), ..ExecServerMessage::default() }
}

fn is_written(files: &mut SpilledFiles, path: &str, text: &str) -> bool {
    match files.answer(&write("lookup", path, text)) {
        Some(Reply::WriteResult(WriteResult { result: Some(result) })) => {
            matches!(result, write_result::Result::Success(_))
        }
        other => panic!("{other:?}"),
    }
}

fn read(files: &mut SpilledFiles, path: &str, offset: Option<i32>) -> Option<String> {
    let args = ReadArgs { path: path.into(), offset, ..ReadArgs::default() };
    let exec =
        ExecServerMessage { message: Some(Ask::ReadArgs(args)), ..ExecServerMessage::default() };
    match files.answer(&exec)? {
        Reply::ReadResult(ReadResult { result: Some(read_result::Result::Success(read)) }) => {
            match read.output {
                Some(read_success::Output::Content(text)) => Some(text),
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

fn looked_up() -> SpilledFiles {
    let mut files = SpilledFiles::default();
    files.look_up("lookup");
    files
}

/// It would be answered with success, and the user's file would not be there.
#[test]
fn section_2_2_a_lookup_without_an_id_takes_no_writes() {
    let mut files = SpilledFiles::default();
    files.look_up("");
    assert!(files.answer(&write("", "/work/a.txt", "the user's")).is_none());
    assert!(files.answer(&write("call", "/work/a.txt", "the user's")).is_none());
}

#[test]
fn section_2_2_any_offset_can_be_asked_for() {
    let mut files = looked_up();
    assert!(is_written(&mut files, "/a", "one\ntwo\n"));
    for (offset, text) in [
        (None, "one\ntwo\n"),
        (Some(i32::MIN), "one\ntwo\n"),
        (Some(0), "one\ntwo\n"),
        (Some(2), "two\n"),
        (Some(i32::MAX), ""),
    ] {
        assert_eq!(read(&mut files, "/a", offset).as_deref(), Some(text), "{offset:?}");
    }
    assert_eq!(read(&mut files, "/b", None), None);
}

#[test]
fn section_2_2_spilled_files_are_bounded_in_number_and_in_bytes_with_their_paths() {
    let mut files = looked_up();
    for n in 0..FILES {
        assert!(is_written(&mut files, &format!("/{n}"), "text"));
    }
    assert!(!is_written(&mut files, "/one-more", "text"));
    assert!(is_written(&mut files, "/0", "again"), "in the place of its older text");

    let mut files = looked_up();
    assert!(!is_written(&mut files, &"p".repeat(PATH + 1), "text"));
    let path = "p".repeat(PATH);
    assert!(!is_written(&mut files, &path, &"x".repeat(BYTES - PATH + 1)));
    assert!(is_written(&mut files, &path, &"x".repeat(BYTES - PATH)));
    assert!(files.memory() >= BYTES);
}

#[test]
fn long_ids_are_kept_apart_but_not_whole() {
    let long = |last: char| format!("{}{last}", "i".repeat(1 << 20));
    let mut files = SpilledFiles::default();
    files.look_up(&long('a'));
    assert!(files.memory() < 1_000);
    assert!(files.answer(&write(&long('b'), "/a", "text")).is_none());
    assert!(files.answer(&write(&long('a'), "/a", "text")).is_some());
}
