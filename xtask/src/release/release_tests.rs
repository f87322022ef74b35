use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{targets::TARGETS, *};

/// A small release: a program of the system in the place of ours.
fn small(epoch: u64) -> Release {
    let bytes = fs::read("/bin/true").unwrap_or_else(|_| b"a program".to_vec());
    let man = vec![("ibeam.1".to_owned(), b".TH ibeam 1\n".to_vec())];
    let completions = ["bash", "zsh", "fish", "powershell"];
    let completions = completions.map(|shell| (shell.to_owned(), b"# words\n".to_vec())).to_vec();
    Release {
        target: ReleaseTarget::named("x86_64-unknown-linux-gnu").unwrap(),
        bytes,
        pages: ProgramPages { man, completions },
        notices: "a crate: MIT\n".to_owned(),
        plugin: None,
        epoch,
        quick: true,
    }
}

fn made(release: &Release) -> (tempfile::TempDir, BTreeMap<String, Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    release.make(folder.path()).unwrap();
    let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    let files = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    (folder, files)
}

#[test]
fn the_same_release_has_the_same_bytes() {
    let ((folder, first), (_, second)) = (made(&small(1_700_000_000)), made(&small(1_700_000_000)));
    let names: Vec<&String> = first.keys().collect();
    assert_eq!(names, second.keys().collect::<Vec<_>>());
    for (name, bytes) in &first {
        assert!(bytes == &second[name], "{name} came out in two ways");
    }
    let (_, later) = made(&small(1_700_000_001));
    let sums = |files: &BTreeMap<String, Vec<u8>>| files[sums::FILE].clone();
    assert_ne!(sums(&first), sums(&later), "the time has no part in it");

    let sums = String::from_utf8(sums(&first)).unwrap();
    let summed: Vec<&str> = sums.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    let others: Vec<&String> = first.keys().filter(|name| *name != sums::FILE).collect();
    assert_eq!(summed, others);
    if crate::command::works("sha256sum", &["--version"]) {
        run(command("sha256sum").args(["-c", sums::FILE]).current_dir(folder.path())).unwrap();
    }
}

#[test]
fn an_archive_has_modes_times_and_order() {
    let (_folder, files) = made(&small(1_700_000_000));
    let name = format!("ibeam-{VERSION}-x86_64-unknown-linux-gnu");
    let zip = flate2::read::GzDecoder::new(files[&format!("{name}.tar.gz")].as_slice());
    let mut tar = tar::Archive::new(zip);
    let mut seen = Vec::new();
    for entry in tar.entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        assert_eq!(header.mtime().unwrap(), 1_700_000_000);
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        let path = entry.path().unwrap().display().to_string();
        let mode = if path.ends_with("/ibeam") { 0o755 } else { 0o644 };
        assert_eq!(header.mode().unwrap(), mode, "{path}");
        seen.push(path.strip_prefix(&format!("{name}/")).unwrap().to_owned());
    }
    let wanted = [
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "THIRD-PARTY.txt",
        "completions/_ibeam",
        "completions/_ibeam.ps1",
        "completions/ibeam.bash",
        "completions/ibeam.fish",
        "ibeam",
        "man/man1/ibeam.1",
    ];
    assert_eq!(seen, wanted);
}

fn manifest(package: &NpmPackage) -> Value {
    serde_json::from_slice(package.files.get("package/package.json").unwrap()).unwrap()
}

#[test]
fn the_launcher_knows_every_platform_package() {
    let launcher = manifest(&npm::launcher("1.2.3").unwrap());
    assert_eq!(launcher["version"], "1.2.3");
    let wanted = launcher["optionalDependencies"].as_object().unwrap();
    let names: Vec<&String> = wanted.keys().collect();
    let mut known = [
        "ibeam-linux-x64",
        "ibeam-linux-arm64",
        "ibeam-linux-x64-musl",
        "ibeam-linux-arm64-musl",
        "ibeam-darwin-x64",
        "ibeam-darwin-arm64",
        "ibeam-win32-x64",
    ];
    known.sort_unstable();
    assert_eq!(names, known);
    assert!(wanted.values().all(|version| version == "1.2.3"));
    assert!(launcher.get("dependencies").is_none(), "the launcher needs nothing");
}

#[test]
fn the_plugin_is_of_the_same_version() {
    let plugin = npm::plugin(VERSION).unwrap();
    assert_eq!(manifest(&plugin)["name"], "ibeam-opencode");
    assert!(plugin.files.get("package/dist/index.js").is_some_and(|text| !text.is_empty()));
    assert!(npm::plugin("999.0.0").is_err(), "another version passed");
}

#[test]
fn packages_declare_their_platform() {
    for target in TARGETS.iter().filter(|target| target.npm.is_some()) {
        let npm = target.npm.as_ref().unwrap();
        let package = npm::platform(npm, "1.2.3", target.file(), b"p".to_vec(), "").unwrap();
        let manifest = manifest(&package);
        assert_eq!(manifest["name"], npm.package());
        assert_eq!(manifest["os"], serde_json::json!([npm.os]));
        assert_eq!(manifest["cpu"], serde_json::json!([npm.cpu]));
        assert_eq!(manifest.get("libc").is_some(), npm.os == "linux");
        let program = format!("package/bin/{}", target.file());
        assert_eq!(package.files.get(&program), Some(&b"p"[..]));
        // npm's words for what Rust calls a target.
        let cpu = if npm.cpu == "x64" { "x86_64-" } else { "aarch64-" };
        let os = match npm.os {
            "win32" => "windows",
            other => other,
        };
        assert!(target.triple.starts_with(cpu) && target.triple.contains(os), "{}", target.triple);
    }
}

#[test]
fn complete_release_folder_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let missing = sums::missing(folder.path(), "1.2.3").unwrap();
    assert_eq!(missing.len(), 2 + TARGETS.len() + 7 + 2, "{missing:?}");
    for name in &missing {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    assert!(sums::missing(folder.path(), "1.2.3").unwrap().is_empty());
    fs::write(folder.path().join("ibeam-gateway-1.2.2.tgz"), "x").unwrap();
    assert!(sums::missing(folder.path(), "1.2.3").is_err(), "a file of another version");
}

/// The arguments of each `cargo xtask release` in a text, as they are understood.
fn commands(text: &str) -> Vec<ReleaseOptions> {
    let lines = text.lines().filter_map(|line| line.split_once("cargo xtask release"));
    let lines = lines.filter(|(_, rest)| rest.is_empty() || rest.starts_with(' '));
    lines
        .map(|(_, rest)| {
            // What stands behind the command in prose and in comments.
            let rest = rest.split(['`', '#']).next().unwrap();
            let words = rest.split_whitespace().map(str::to_owned);
            ReleaseOptions::parse(TaskArgs::new(words))
                .unwrap_or_else(|error| panic!("{rest}: {error}"))
        })
        .collect()
}

fn text(path: &str) -> String {
    String::from_utf8(read(&crate::root().join(path)).unwrap()).unwrap()
}

/// Every scalar below the key of this name, anywhere in a YAML file.
fn values(yaml: &str, key: &str) -> BTreeSet<String> {
    use saphyr_parser::{Event, Parser};
    let mut found = BTreeSet::new();
    let mut after = false;
    for event in Parser::new_from_str(yaml) {
        let (event, _) = event.unwrap();
        if let Event::Scalar(word, ..) = event {
            if after {
                found.insert(word.to_string());
            }
            after = word == key;
        } else {
            after = false;
        }
    }
    found
}

#[test]
fn workflow_builds_every_target_with_this_task() {
    let yaml = text(".github/workflows/release.yml");
    // Those of the matrix, and those that a job names itself.
    let mut targets = values(&yaml, "target");
    let named = commands(&yaml.replace("${{ matrix.target }}", "MATRIX"));
    targets.extend(named.iter().filter_map(|options| options.target.clone()));
    assert!(targets.remove("MATRIX"), "the matrix is not used");
    let known: BTreeSet<String> = TARGETS.iter().map(|target| target.triple.to_owned()).collect();
    assert_eq!(targets, known);
    assert_eq!(named.iter().filter(|options| options.sums.is_some()).count(), 1);
    for target in &TARGETS {
        let (job, tool) = match target.builder {
            ReleaseBuilder::Zig => ("linux", "cargo-zigbuild"),
            ReleaseBuilder::Lipo => ("macos", "lipo -create"),
            ReleaseBuilder::Cargo if target.triple.contains("apple") => {
                ("macos", "rustup toolchain")
            }
            ReleaseBuilder::Cargo => ("windows", "rustup toolchain"),
        };
        let steps = job_of(&yaml, job);
        for word in [target.triple, tool] {
            assert!(steps.contains(word), "the job {job} has no {word}");
        }
        assert!(job_of(&yaml, "draft").contains(job), "the draft does not wait for {job}");
    }
}

/// The lines of a job.
fn job_of(yaml: &str, name: &str) -> String {
    let head = format!("  {name}:");
    let below = yaml.lines().skip_while(|line| *line != head).skip(1);
    let lines: Vec<&str> =
        below.take_while(|line| line.is_empty() || line.starts_with("    ")).collect();
    lines.join("\n")
}

#[test]
fn the_documentation_names_every_target_and_package() {
    let (install, releasing) = (text("docs/install.md"), text("docs/releasing.md"));
    for target in &TARGETS {
        assert!(releasing.contains(target.triple), "docs/releasing.md: {}", target.triple);
        if let Some(npm) = &target.npm {
            let name = format!("`{}`", npm.package());
            assert!(install.contains(&name), "docs/install.md: {name}");
        }
    }
    let named = commands(&releasing);
    let targets: BTreeSet<&str> =
        named.iter().filter_map(|options| options.target.as_deref()).collect();
    for target in &TARGETS {
        assert!(targets.contains(target.triple), "no recipe for {}", target.triple);
    }
    assert!(commands(&install).is_empty(), "users release nothing");
}

#[test]
fn every_crate_says_what_it_is() {
    let metadata = ["metadata", "--no-deps", "--format-version=1", "--locked"];
    let output = cargo().args(metadata).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut seen = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let path = package["manifest_path"].as_str().unwrap().replace('\\', "/");
        if !path.contains("/crates/") {
            continue;
        }
        seen += 1;
        assert_eq!(package["version"], VERSION, "{path}");
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{path}");
        assert_eq!(package["repository"], env!("CARGO_PKG_REPOSITORY"), "{path}");
        assert!(package["description"].is_string(), "{path}");
        // What crates.io takes.
        let keywords = package["keywords"].as_array().unwrap();
        let short = |word: &Value| word.as_str().is_some_and(|word| word.len() <= 20);
        assert!((1..=5).contains(&keywords.len()) && keywords.iter().all(short), "{path}");
        assert!((1..=5).contains(&package["categories"].as_array().unwrap().len()), "{path}");
    }
    assert_eq!(seen, 5);
}

#[test]
fn the_units_start_what_the_package_installs() {
    let (service, socket) =
        (text("packaging/systemd/ibeam.service"), text("packaging/systemd/ibeam.socket"));
    assert!(service.contains("\nExecStart=/usr/bin/ibeam serve "), "{service}");
    assert!(service.contains("\nRequires=ibeam.socket\n"), "{service}");
    // Only this machine, and where clients look.
    assert_eq!(socket.matches("\nListenStream=127.0.0.1:18741\n").count(), 1, "{socket}");
    assert_eq!(socket.matches("ListenStream=").count(), 1, "{socket}");
}

#[test]
fn notices_name_the_data_of_others() {
    let text = super::notices::notices("x86_64-unknown-linux-gnu").unwrap();
    assert!(text.contains("OpenAI's vocabularies (tiktoken)\n\nMIT License"), "{text}");
}
