use ibeam_core::peer::agent::{ImageShape, probe::ProbeFindings};

use super::*;

const FILE: &str = r#"{ "version": 1, "findings": [
    { "question": "h", "observation": "images-data-url", "at": 1795000000,
      "client_version": "cli-2026.08.11-e8db854", "ibeam_version": "0.1.0" },
    { "question": "z", "observation": "unheard-of", "at": 1, "client_version": "", "ibeam_version": "" }
] }"#;

#[test]
fn findings_are_private_and_survive_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deeper/findings.json");
    assert_eq!(read(&path).unwrap(), ProbeFindings::default());
    assert!(!forget(&path).unwrap());
    let findings = ProbeFindings::from_json(FILE).unwrap();
    assert_eq!(findings.iter().count(), 1, "a question of a later version is left out");
    write(&path, &findings).unwrap();
    assert_eq!(read(&path).unwrap(), findings);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(facts(Some(&path)).image_shape, ImageShape::DataUrl);
    assert!(forget(&path).unwrap());
    assert_eq!(facts(Some(&path)), ServiceFacts::default());
}

#[test]
fn a_file_that_cannot_be_used_counts_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("findings.json");
    for (text, why) in [
        ("{ broken", "it is not a file of findings"),
        (
            r#"{ "version": 2, "findings": [] }"#,
            "it is of version 2, and this ibeam reads version 1",
        ),
    ] {
        private::replace(&path, text).unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), why);
        assert_eq!(facts(Some(&path)), ServiceFacts::default());
    }
}
