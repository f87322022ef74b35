//! The archive for a bug report: what is in it, and what never is.

use std::{
    collections::BTreeMap, fs, io::Read as _, os::unix::fs::PermissionsExt as _, path::Path,
};

use flate2::read::GzDecoder;
use ibeam_sim::Sim;
use serde_json::{Value, json};

use super::world::{Patient, World, token};

fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(path).unwrap()));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        assert_eq!(entry.header().mode().unwrap(), 0o600, "{name}");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        files.insert(name, String::from_utf8(bytes).unwrap());
    }
    files
}

#[test]
fn bundle_has_no_secrets() {
    let world = World::new();
    let claims = json!({ "sub": "auth0|user_planted", "email": "planted@example.com",
        "exp": 4_102_444_800_u64, "aud": "planted" });
    // Not one of the tokens that may stand in no file at all: here one does, in a log.
    let access = token(&claims).replace(Sim::SIGNATURE, "cGxhbnRlZC1zaWduYXR1cmU");
    let secrets = [
        access.as_str(),
        "crsr_0123456789planted0123456789abcdef",
        "ibk_plantedClientKey0123456789abcdefghij",
        "ibi_plantedInstanceKey0123456789abcdefg",
        "planted-api-key-of-the-settings",
        "hunter2planted",
        "planted@example.com",
        "auth0|user_planted",
    ];
    let [access, cursor_key, client_key, instance_key, api_key, password, ..] = secrets;
    world.put(".config/ibeam/config.toml", &format!("api_key = \"{api_key}\"\n"), 0o600);
    let sign_in = json!({ "type": "oauth", "access": token(&claims), "refresh": access,
        "account": { "email": "planted@example.com" } });
    world.put(".config/ibeam/credentials/default.json", &sign_in.to_string(), 0o600);
    let log = format!(
        "INFO started by planted@example.com\n\
         DEBUG authorization: Bearer {access}\n\
         DEBUG {{\"access_token\":\"{access}\",\"key\":\"{cursor_key}\"}}\n\
         WARN key {client_key} and {instance_key}, proxy http://me:{password}@proxy.test\n\
         INFO the last line\n"
    );
    world.put(".local/state/ibeam/gateway.log", &log, 0o600);
    let record = json!({ "v": 1, "url": "http://127.0.0.1:1", "key": instance_key });
    world.put(".local/state/ibeam/instances/0123456789abcdef.json", &record.to_string(), 0o600);
    let folders = [
        ".config/ibeam",
        ".config/ibeam/credentials",
        ".local/state/ibeam",
        ".local/state/ibeam/instances",
    ];
    for folder in folders {
        let path = world.path().join(folder);
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }

    let path = world.path().join("bundle.tar.gz");
    let line = format!("--offline --port 0 --bundle {}", path.display());
    let patient = || {
        Patient::new(&world, &line)
            .env("CURSOR_API_KEY", cursor_key)
            .env("HTTPS_PROXY", format!("http://me:{password}@proxy.test:3128"))
    };
    let output = patient().page();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.contains("Check its content before you share it"), "{words}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let files = unpacked(&path);
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "ibeam-doctor/audit.json",
            "ibeam-doctor/gateway.log",
            "ibeam-doctor/report.json",
            "ibeam-doctor/report.txt",
            "ibeam-doctor/settings.txt",
            "ibeam-doctor/versions.txt",
        ]
    );
    let home = world.path().display().to_string();
    for (name, text) in &files {
        assert!(words.contains(name.rsplit('/').next().unwrap()), "{words}");
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {name}:\n{text}");
        }
        assert!(!text.contains(&home), "{name}:\n{text}");
        assert!(!text.contains("planted"), "{name}:\n{text}");
    }
    assert!(files["ibeam-doctor/gateway.log"].contains("the last line"));
    assert!(files["ibeam-doctor/versions.txt"].contains("CURSOR_API_KEY is set"));
    for name in ["report", "audit"] {
        let text = &files[&format!("ibeam-doctor/{name}.json")];
        serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    }

    // What is there is not written over.
    let again = patient().page();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8(again.stderr).unwrap().contains("ibeam doctor --bundle FILE"));
    // Where the whole suite is searched for leaks, this would be one.
    fs::remove_file(world.path().join(".local/state/ibeam/gateway.log")).unwrap();
}

/// They look like nothing, so no pattern knows them.
#[test]
fn configured_secrets_are_masked_by_their_value() {
    let world = World::new();
    let secrets = [
        "correct horse battery",
        "tickets pass phrase",
        "variable of a server",
        "expanded-by-ibeam",
        "word/of/another/service",
        "proxy-word",
        "refresh-me-please",
        "argument after its flag",
        "argument-with-its-flag",
    ];
    let [api_key, header, variable, expanded, other, proxy, refresh, apart, joined] = secrets;
    let settings = format!(
        "api_key = \"{api_key}\"\n[mcp.servers.a]\ncommand = \"true\"\n\
         args = [\"--token\", \"{apart}\", \"--api-key={joined}\"]\n\
         env = {{ A = \"{variable}\", B = \"${{SOME_VALUE}}\" }}\n\
         [mcp.servers.b]\nurl = \"https://b.example/mcp\"\n\
         headers = {{ Authorization = \"Token {header}\" }}\n"
    );
    world.put(".config/ibeam/config.toml", &settings, 0o600);
    let sign_in = json!({ "type": "oauth", "access": "a.b.c", "refresh": refresh });
    world.put(".config/ibeam/credentials/default.json", &sign_in.to_string(), 0o600);
    for folder in [".config/ibeam", ".config/ibeam/credentials"] {
        let path = world.path().join(folder);
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let mut log: String =
        secrets.iter().map(|secret| format!("WARN upstream said {secret}\n")).collect();
    log.push_str("INFO the last line\n");
    world.put(".local/state/ibeam/gateway.log", &log, 0o600);
    let path = world.path().join("bundle.tar.gz");
    let line = format!("--offline --port 0 --bundle {}", path.display());
    let output = Patient::new(&world, &line)
        .env("SOME_VALUE", expanded)
        // Overrides the one of the file, which is a secret all the same.
        .env("IBEAM_API_KEY", "another key of the gateway")
        .env("OTHER_SERVICE_TOKEN", other)
        .env("HTTPS_PROXY", format!("http://me:{proxy}@proxy.test:3128"))
        .page();
    assert!(path.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = unpacked(&path);
    for (name, text) in &files {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {name}:\n{text}");
        }
    }
    let log = &files["ibeam-doctor/gateway.log"];
    assert_eq!(log.matches("upstream said ***").count(), secrets.len(), "{log}");
    assert!(log.contains("the last line"));
    fs::remove_file(world.path().join(".local/state/ibeam/gateway.log")).unwrap();
}

/// A report of settings that cannot be used can be packed, too.
#[test]
fn bundle_can_be_written_when_everything_fails() {
    let world = World::new();
    let path = world.path().join("b.tar.gz");
    let line = format!("--sim --set limits.turns=0 --bundle {}", path.display());
    let output = Patient::new(&world, &line).page();
    assert_eq!(output.status.code(), Some(1));
    assert!(unpacked(&path)["ibeam-doctor/report.txt"].contains("limits.turns"));
}
