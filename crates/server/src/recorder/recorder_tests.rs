use std::fs;

use ibeam_core::{
    model::{Dialect, Hints, Sampling, ToolChoice, TurnEvent, TurnRequest, ids::SessionId},
    peer::{ChildPlanRecord, PlanRecord, cli::CliSpeaker},
    recording::Recording,
    turn::Settings,
};

use super::*;

fn start() -> TurnStart {
    TurnStart {
        request: TurnRequest {
            model: "auto".into(),
            system: Vec::new(),
            items: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            sampling: Sampling::default(),
            dialect: Dialect::Chat,
            hints: Hints::default(),
        },
        plan: PlanRecord::Child(ChildPlanRecord {
            model: "auto".into(),
            conversation_id: "conv".into(),
            images: false,
            result_bytes: 1,
            kept: None,
            speaker: || Box::<CliSpeaker>::default(),
        }),
        session: SessionId::from_random([1; 16]),
        settings: Settings::default(),
        seed: [2; 16].into(),
    }
}

/// As a user would make it.
fn folder() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().unwrap()
}

fn recorder(dir: &Path, bytes: usize, tasks: &Tasks) -> Recorder {
    let config = RecordConfig { dir: Some(dir.to_owned()), texts: false, bytes };
    Recorder::open(&config, BackendKind::Cli, false, tasks).unwrap()
}

fn files(dir: &Path) -> Vec<String> {
    let mut files: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    files.sort();
    files
}

async fn stop(tasks: &Tasks) {
    tasks.stop();
    tasks.join().await;
}

#[tokio::test]
async fn each_turn_has_a_file_and_its_end() {
    let (dir, tasks) = (folder(), Tasks::new());
    let recorder = recorder(dir.path(), 1 << 20, &tasks);
    let mut one = recorder.tape(start()).unwrap();
    let other = recorder.tape(start()).unwrap();
    one.note(Millis(5), TapeEntry::Event(TurnEvent::Text("secret".into())));
    drop((one, other));
    stop(&tasks).await;
    let files = files(dir.path());
    assert_eq!(files.len(), 2);
    for file in &files {
        let recording = Recording::read(file).unwrap();
        assert!(recording.is_complete() && file.contains(r#""what":"end""#), "{file}");
        assert!(!file.contains("secret"), "{file}");
    }
    assert!(files.iter().any(|file| file.contains(r#""event":"text","bytes":6"#)), "{files:?}");
}

#[tokio::test]
async fn what_there_is_no_room_for_is_counted_in_the_recording() {
    let (dir, tasks) = (folder(), Tasks::new());
    let recorder = recorder(dir.path(), 64 << 20, &tasks);
    let mut tape = recorder.tape(start()).unwrap();
    // Nothing is written before this task waits.
    for _ in 0..QUEUED + 100 {
        tape.note(Millis(1), TapeEntry::Timeout);
    }
    tokio::task::yield_now().await;
    while recorder.0.queue.capacity() < QUEUED / 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    tape.note(Millis(2), TapeEntry::Opened);
    drop(tape);
    stop(&tasks).await;
    let text = files(dir.path()).remove(0);
    let recording = Recording::read(&text).unwrap();
    // The beginning takes a place, too.
    assert!(text.contains(r#""what":"lost","lines":101"#), "{}", &text[text.len() - 300..]);
    assert!(!recording.is_complete());
}

#[tokio::test]
async fn the_oldest_recordings_make_room_for_new_ones() {
    let (dir, tasks) = (folder(), Tasks::new());
    let old = dir.path().join("turn-20200101T000000Z-00000000.jsonl");
    let other = dir.path().join("notes.txt");
    fs::write(&old, format!("{{\"ibeam_recording\":1{}", "x".repeat(40_000))).unwrap();
    fs::write(&other, "x".repeat(100_000)).unwrap();
    let recorder = recorder(dir.path(), 50_000, &tasks);
    let mut tape = recorder.tape(start()).unwrap();
    for _ in 0..600 {
        tape.note(Millis(1), TapeEntry::Timeout);
    }
    drop(tape);
    stop(&tasks).await;
    assert!(!old.exists(), "the oldest one is removed");
    assert!(other.exists(), "files of others stay");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// Whatever it is called, it was not recorded here.
#[cfg(unix)]
#[tokio::test]
async fn only_recordings_are_removed() {
    let (dir, elsewhere, tasks) = (folder(), folder(), Tasks::new());
    let stranger = dir.path().join("turn-of-the-screw.jsonl");
    fs::write(&stranger, "x".repeat(100_000)).unwrap();
    let recording = elsewhere.path().join("turn-20200101T000000Z-00000000.jsonl");
    fs::write(&recording, format!("{{\"ibeam_recording\":1{}", "x".repeat(100_000))).unwrap();
    let link = dir.path().join("turn-20200101T000000Z-00000001.jsonl");
    std::os::unix::fs::symlink(&recording, &link).unwrap();
    fs::create_dir(dir.path().join("turn-20200101T000000Z-00000002.jsonl")).unwrap();
    let kept = dir.path().join("turn-20990101T000000Z-00000003.jsonl");
    fs::write(&kept, "{\"ibeam_recording\":1}").unwrap();
    let recorder = recorder(dir.path(), 50_000, &tasks);
    let mut tape = recorder.tape(start()).unwrap();
    for _ in 0..600 {
        tape.note(Millis(1), TapeEntry::Timeout);
    }
    drop(tape);
    stop(&tasks).await;
    assert!(stranger.exists() && recording.exists() && link.is_symlink());
    assert!(kept.exists(), "what is not ours takes none of the room");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
}

#[cfg(unix)]
#[test]
fn folder_that_ibeam_did_not_make_is_left_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let home = folder();
    let new = home.path().join("a/recordings");
    prepare(&new).unwrap();
    assert_eq!(mode(&new), 0o700);
    prepare(&new).unwrap();

    for open in [0o755, 0o750, 0o701] {
        fs::set_permissions(&new, fs::Permissions::from_mode(open)).unwrap();
        let refused = prepare(&new).unwrap_err().to_string();
        assert!(refused.contains(&format!("chmod 700 {}", new.display())), "{refused}");
        assert_eq!(mode(&new), open);
    }

    let (target, link) = (home.path().join("target"), home.path().join("link"));
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for path in [link.clone(), link.join(""), link.join(".")] {
        assert!(matches!(prepare(&path), Err(FileError::Link { .. })), "{}", path.display());
    }
    // Of root, unless the tests run as root: then nothing here belongs to another user.
    if fs::metadata("/").is_ok_and(|root| {
        use std::os::unix::fs::MetadataExt as _;
        root.uid() != fs::metadata(&target).unwrap().uid()
    }) {
        assert!(matches!(prepare(Path::new("/")), Err(FileError::Foreign { .. })));
    }
}
