//! The workflows of the code host cannot run here, so they are checked as text: that they parse,
//! do what the documents say, and hold no more rights than they need.

use std::{collections::BTreeSet, fs};

use saphyr_parser::{Event, Parser};

/// A YAML document without anchors and tags.
#[derive(Debug, PartialEq)]
enum Yaml {
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    fn parse(text: &str) -> Self {
        let events = Parser::new_from_str(text).map(|event| event.expect("well-formed YAML").0);
        let mut events = events.filter(|event| {
            !matches!(event, Event::StreamStart | Event::DocumentStart(_) | Event::Nothing)
        });
        let first = events.next().expect("a document");
        Self::build(first, &mut events)
    }

    fn build<'a>(event: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Self {
        match event {
            Event::Scalar(text, ..) => Self::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                loop {
                    match events.next().expect("the end of a list") {
                        Event::SequenceEnd => return Self::List(list),
                        event => list.push(Self::build(event, events)),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut map: Vec<(String, Self)> = Vec::new();
                loop {
                    match events.next().expect("the end of a map") {
                        Event::MappingEnd => return Self::Map(map),
                        Event::Scalar(key, ..) => {
                            let next = events.next().expect("a value");
                            assert!(map.iter().all(|(other, _)| *other != key), "{key} twice");
                            map.push((key.into_owned(), Self::build(next, events)));
                        }
                        other => panic!("a key that is not text: {other:?}"),
                    }
                }
            }
            other => panic!("not used here: {other:?}"),
        }
    }

    fn get(&self, key: &str) -> Option<&Self> {
        self.map().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    fn map(&self) -> &[(String, Self)] {
        if let Self::Map(map) = self { map } else { &[] }
    }

    fn list(&self) -> &[Self] {
        if let Self::List(list) = self { list } else { &[] }
    }

    fn text(&self) -> &str {
        if let Self::Text(text) = self { text } else { "" }
    }

    fn words(&self, key: &str) -> &str {
        self.get(key).map_or("", Self::text)
    }

    /// The names and values of a map of texts.
    fn pairs(&self) -> Vec<(&str, &str)> {
        self.map().iter().map(|(name, value)| (name.as_str(), value.text())).collect()
    }

    fn steps(&self) -> &[Self] {
        self.get("steps").map_or(&[], Self::list)
    }
}

fn workflow(name: &str) -> Yaml {
    let path = crate::root().join(".github/workflows").join(name);
    Yaml::parse(&fs::read_to_string(path).unwrap())
}

/// Every workflow, by its name.
fn workflows() -> Vec<(String, Yaml)> {
    let files = fs::read_dir(crate::root().join(".github/workflows")).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["ci.yml", "release.yml"]);
    names.into_iter().map(|name| (name.clone(), workflow(&name))).collect()
}

/// Every job with the name of its workflow and its own.
fn jobs(workflows: &[(String, Yaml)]) -> impl Iterator<Item = (&str, &str, &Yaml)> {
    workflows.iter().flat_map(|(file, workflow)| {
        let jobs = workflow.get("jobs").expect("jobs").map();
        jobs.iter().map(move |(name, job)| (file.as_str(), name.as_str(), job))
    })
}

/// The commands of a job, in their order.
fn commands(job: &Yaml) -> Vec<&str> {
    job.steps().iter().map(|step| step.words("run")).filter(|run| !run.is_empty()).collect()
}

#[test]
fn every_change_is_built_and_tested_on_three_systems() {
    let ci = workflow("ci.yml");
    let on: BTreeSet<&str> = ci.get("on").unwrap().map().iter().map(|(on, _)| &**on).collect();
    assert_eq!(on, BTreeSet::from(["pull_request", "push", "schedule", "workflow_dispatch"]));
    let jobs = ci.get("jobs").unwrap();
    for (system, tests) in
        [("linux", "cargo xtask test "), ("macos", "cargo test "), ("windows", "cargo test ")]
    {
        let job = jobs.get(system).unwrap();
        let runner = if system == "linux" { "ubuntu" } else { system };
        assert!(job.words("runs-on").starts_with(runner), "{system}");
        assert!(commands(job).iter().any(|run| run.starts_with(tests)), "{system}");
        let builds = |run: &&str| run.starts_with("cargo build ") || run.contains("xtask test");
        assert!(commands(job).iter().any(builds), "{system}");
        assert_eq!(job.get("continue-on-error"), None, "a failure counts");
    }
}

#[test]
fn every_lock_file_is_compared_with_the_advisories() {
    let ci = workflow("ci.yml");
    let job = ci.get("jobs").unwrap().get("advisories").unwrap();
    let commands = commands(job);
    let scans = |manifest: &str| {
        commands.iter().any(|run| {
            let at = run.split_once("--manifest-path ").map_or("", |(_, rest)| rest);
            let at = at.split(' ').next().unwrap_or_default();
            run.starts_with("cargo deny ") && run.contains("check advisories") && at == manifest
        })
    };
    assert!(scans(""), "the workspace");
    // The other workspaces that keep a lock file.
    for folder in ["tools/codegen", "fuzz"] {
        let locked = crate::root().join(folder).join("Cargo.lock").is_file();
        assert_eq!(scans(&format!("{folder}/Cargo.toml")), locked, "{folder}");
    }
    // Those of npm, wherever they are.
    let audited: BTreeSet<&str> = commands
        .iter()
        .filter_map(|run| {
            run.strip_prefix("npm audit --package-lock-only --audit-level=high --prefix ")
        })
        .collect();
    let skip = |name: &str| matches!(name, ".git" | "target" | "node_modules");
    let files = crate::workspace::files_below(&crate::root(), skip).unwrap();
    let locks = files.iter().filter(|path| path.ends_with("package-lock.json"));
    let folders = locks.map(|path| path.parent().unwrap().strip_prefix(crate::root()).unwrap());
    let folders: BTreeSet<&str> = folders.map(|folder| folder.to_str().unwrap()).collect();
    assert_eq!(audited, folders);
    assert!(folders.len() > 3, "{folders:?}");
}

#[test]
fn server_is_tested_on_windows() {
    let ci = workflow("ci.yml");
    let windows = ci.get("jobs").unwrap().get("windows").unwrap();
    let tests = |run: &&str| run.starts_with("cargo test ") && run.contains("-p ibeam-server");
    assert!(commands(windows).iter().any(tests));
}

#[test]
fn a_release_says_where_its_packages_come_from() {
    let release = workflow("release.yml");
    let draft = release.get("jobs").unwrap().get("draft").unwrap();
    let at = |wanted: &str| {
        let found = |step: &Yaml| {
            step.words("uses").starts_with(wanted) || step.words("run").starts_with(wanted)
        };
        draft.steps().iter().position(found).unwrap_or_else(|| panic!("no step {wanted}"))
    };
    let attest = at("actions/attest-build-provenance@");
    // Of what was compared and summed, and before anyone can download it.
    assert!(at("cd packages && sha256sum -c") < attest && attest < at("gh release create"));
    let with = draft.steps()[attest].get("with").unwrap();
    assert_eq!(with.pairs(), [("subject-path", "packages/*")]);
    assert_eq!(draft.steps()[attest].get("continue-on-error"), None);
}

#[test]
fn workflows_have_no_rights_beyond_their_need() {
    let workflows = workflows();
    for (file, workflow) in &workflows {
        assert_eq!(workflow.get("permissions").unwrap().pairs(), [("contents", "read")], "{file}");
        let on = workflow.get("on").unwrap();
        assert_eq!(on.get("pull_request_target"), None, "{file}: foreign code with our rights");
    }
    for (file, name, job) in jobs(&workflows) {
        let rights = job.get("permissions").map(Yaml::pairs).unwrap_or_default();
        let wanted: &[_] = if (file, name) == ("release.yml", "draft") {
            &[("contents", "write"), ("id-token", "write"), ("attestations", "write")]
        } else {
            &[]
        };
        assert_eq!(rights, wanted, "{file}: {name}");
    }
}

#[test]
fn workflows_run_no_action_of_others_and_print_no_secret() {
    let workflows = workflows();
    let mut steps = 0;
    for (file, name, job) in jobs(&workflows) {
        for step in job.steps() {
            steps += 1;
            let place = format!("{file}: {name}: {step:?}");
            let uses = step.words("uses");
            if !uses.is_empty() {
                let (action, version) = uses.split_once('@').expect("a version");
                assert!(action.starts_with("actions/"), "{place}");
                let major = version.strip_prefix('v').unwrap_or_default();
                assert!(major.parse::<u32>().is_ok(), "{place}");
                if action == "actions/checkout" {
                    let with = step.get("with").map(Yaml::pairs).unwrap_or_default();
                    assert_eq!(with, [("persist-credentials", "false")], "{place}");
                }
            }
            let run = step.words("run");
            // What comes from outside is never part of a command, and no secret is.
            for expression in run.split("${{").skip(1) {
                assert!(expression.trim_start().starts_with("matrix."), "{place}");
            }
            for word in ["secrets.", "token", "TOKEN", "set -x", "printenv", "toJSON"] {
                assert!(!run.contains(word), "{place}");
            }
            // The only token is the run's own, for the one command that makes the draft.
            let env = step.get("env").map(Yaml::pairs).unwrap_or_default();
            if run.starts_with("gh release create") {
                assert_eq!(env, [("GH_TOKEN", "${{ github.token }}")], "{place}");
            } else {
                assert!(env.is_empty(), "{place}");
            }
        }
        assert_eq!(job.get("env"), None, "{file}: {name}");
    }
    assert!(steps > 20, "{steps}");
}
