use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A client that is a line of shell.
fn probe(script: &str) -> (tempfile::TempDir, ClientProbe) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("client");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    (folder, ClientProbe { program, args: &["--model", "{model}", "{prompt}"] })
}

#[tokio::test]
async fn client_that_reads_the_file_passes() {
    let (_folder, client) =
        probe("[ \"$1 $2\" = '--model m' ] && echo \"$3\" | grep -q 'probe.txt' && cat probe.txt");
    client.run("m").await.unwrap();
    // Processes that it leaves behind are not waited for.
    let (_folder, client) = probe("sleep 600 & cat probe.txt");
    client.run("m").await.unwrap();
}

#[tokio::test]
async fn failed_client_is_reported_with_its_last_lines() {
    let (_folder, client) = probe("echo I read it; echo 'Not logged in' >&2; exit 1");
    let error = client.run("m").await.unwrap_err().to_string();
    assert!(error.ends_with("asked to read\n  | Not logged in"), "{error}");
    // Having it in its log is not saying it.
    let (_folder, client) = probe("cat probe.txt >&2");
    assert!(matches!(client.run("m").await, Err(ClientProbeError::Silent(_))));
    let nobody = ClientProbe { program: PathBuf::from("/nowhere/client"), args: &[] };
    assert!(matches!(nobody.run("m").await, Err(ClientProbeError::NotStarted(_))));
}
