use super::{config::CrateSpec, graph::ResolvedCrate, *};

const RULES: &str = r#"
[graph]
all-features = true
[bans]
multiple-versions = "deny"
wildcards = "deny"
allow-wildcard-paths = true
deny = [{ crate = "openssl", reason = "TLS is rustls" }]
skip = [{ crate = "syn@2", reason = "macros" }]
[licenses]
allow = ["MIT", "Apache-2.0 WITH LLVM-exception"]
exceptions = [{ crate = "roots", allow = ["CDLA-Permissive-2.0"] }]
private = { ignore = false }
[sources]
unknown-registry = "deny"
unknown-git = "deny"
allow-git = ["https://example.com/allowed"]
"#;

fn krate(name: &str, version: &str) -> ResolvedCrate {
    ResolvedCrate {
        name: name.to_owned(),
        version: version.to_owned(),
        license: Some("MIT".to_owned()),
        source: Some("registry+https://github.com/rust-lang/crates.io-index".to_owned()),
        wildcards: Vec::new(),
        dev_only: false,
    }
}

/// Crates that break no rule, and leave no entry of the rules unused.
fn sound() -> Vec<ResolvedCrate> {
    let mut crates = vec![krate("syn", "3.0.9"), krate("syn", "2.0.1"), krate("roots", "1.0.0")];
    crates[2].license = Some("CDLA-Permissive-2.0".to_owned());
    crates[0].license = Some("Apache-2.0 WITH LLVM-exception OR MIT".to_owned());
    crates
}

fn faults(crates: Vec<ResolvedCrate>) -> Vec<String> {
    rules::faults(&DenyConfig::parse(RULES).unwrap(), &CrateGraph { crates })
}

/// One crate more gives exactly this fault.
#[track_caller]
fn check(more: ResolvedCrate, fault: &str) {
    let mut crates = sound();
    crates.push(more);
    assert_eq!(faults(crates), [fault]);
}

#[test]
fn sound_crates_have_no_faults() {
    assert_eq!(faults(sound()), [""; 0]);
}

#[test]
fn denied_crates_are_refused_also_in_tests() {
    let mut openssl = krate("openssl", "0.10.1");
    openssl.dev_only = true;
    check(openssl, "openssl 0.10.1 is denied");
}

#[test]
fn wildcards_are_refused() {
    let mut loose = krate("loose", "1.0.0");
    loose.wildcards.push("serde".to_owned());
    check(loose, "loose 1.0.0 accepts any version of serde");
}

#[test]
fn second_version_is_refused() {
    check(krate("syn", "1.0.0"), "syn is there in 2 versions: 1.0.0, 3.0.9");
    let mut crates = sound();
    crates.push(ResolvedCrate { dev_only: true, ..krate("syn", "1.0.0") });
    assert_eq!(faults(crates), [""; 0], "only tests have it");
}

#[test]
fn unused_entries_are_refused() {
    let without = |name: &str, version: &str| {
        let mut crates = sound();
        crates.retain(|one| one.name != name || one.version != version);
        faults(crates)
    };
    assert_eq!(without("syn", "2.0.1"), ["syn@2 is skipped, but not in the graph"]);
    assert_eq!(without("roots", "1.0.0"), ["the exception for roots is unused"]);
    let with = "Apache-2.0 WITH LLVM-exception is allowed, but no crate has it";
    assert_eq!(without("syn", "3.0.9"), [with]);
}

#[test]
fn licenses_are_checked() {
    let licensed = |license: Option<&str>| ResolvedCrate {
        license: license.map(str::to_owned),
        ..krate("other", "1.0.0")
    };
    check(licensed(None), "other 1.0.0 names no license");
    check(licensed(Some("GPL-3.0")), "other 1.0.0 is under GPL-3.0, which is not allowed");
    // The exception is for another crate.
    let roots = "CDLA-Permissive-2.0";
    check(licensed(Some(roots)), &format!("other 1.0.0 is under {roots}, which is not allowed"));
    let fault = "other 1.0.0: license \"MIT OR\": a license is missing";
    check(licensed(Some("MIT OR")), fault);
}

#[test]
fn other_sources_are_refused() {
    let from =
        |source: &str| ResolvedCrate { source: Some(source.to_owned()), ..krate("far", "1.0.0") };
    for source in ["git+https://example.com/fork?rev=1#abc", "registry+https://example.com/index"] {
        check(from(source), &format!("far 1.0.0 comes from {source}"));
    }
    let mut crates = sound();
    crates.push(from("git+https://example.com/allowed?branch=main#abc"));
    crates.push(ResolvedCrate { source: None, ..krate("near", "1.0.0") });
    assert_eq!(faults(crates), [""; 0]);
}

#[test]
fn license_expressions_are_evaluated() {
    let allows = |expression: &str| {
        spdx::satisfied(expression, &mut |name| ["A", "B", "C WITH x"].contains(&name)).unwrap()
    };
    for expression in
        ["A", "A AND B", "A OR Z", "Z/A", "Z / B", "(Z OR A) AND B", "C WITH x", "Z OR A AND B"]
    {
        assert!(allows(expression), "{expression}");
    }
    for expression in ["Z", "A AND Z", "C", "A WITH x", "(A OR B) AND Z", "Z AND A OR Z"] {
        assert!(!allows(expression), "{expression}");
    }
    for expression in ["", "A OR", "(A", "A)", "A B", "AND A", "A WITH"] {
        assert!(spdx::satisfied(expression, &mut |_| true).is_err(), "{expression}");
    }
}

#[test]
fn versions_are_matched_as_cargo_does() {
    let matches = |spec: &str, version: &str| CrateSpec::parse(spec).unwrap().matches("a", version);
    for (spec, version) in [
        ("a", "3.1.0"),
        ("a@2", "2.9.1"),
        ("a@0.22", "0.22.7"),
        ("a@^1.2", "1.3.0"),
        ("a@=1.2.3", "1.2.3"),
        ("a@1", "1.1.2+spec-1.1.0"),
    ] {
        assert!(matches(spec, version), "{spec} {version}");
    }
    for (spec, version) in [
        ("b", "1.0.0"),
        ("a@2", "3.0.0"),
        ("a@0.22", "0.23.0"),
        ("a@1.2", "1.1.9"),
        ("a@=1.2", "1.3.0"),
    ] {
        assert!(!matches(spec, version), "{spec} {version}");
    }
    assert!(CrateSpec::parse("a@>=1").is_err());
}

#[test]
fn rules_that_are_not_implemented_are_refused() {
    for (from, to) in [
        ("multiple-versions = \"deny\"", "multiple-versions = \"warn\""),
        ("wildcards = \"deny\"\n", ""),
        ("[sources]", "[sources]\nrequired-git-spec = \"tag\""),
        ("[graph]", "[advisories]\nyanked = \"deny\"\n[graph]"),
        ("reason = \"macros\"", "depth = 2"),
    ] {
        let rules = RULES.replace(from, to);
        assert_ne!(rules, RULES, "{from}");
        assert!(DenyConfig::parse(&rules).is_err(), "{to}");
    }
}

#[test]
fn graph_separates_test_dependencies() {
    let metadata = r#"{
        "packages": [
            { "id": "w", "name": "w", "version": "0.1.0", "license": "MIT", "source": null,
              "dependencies": [
                { "name": "a", "req": "*", "path": null }, { "name": "b", "req": "*", "path": "/b" }] },
            { "id": "a", "name": "a", "version": "1.0.0", "license": null, "source": "registry+x", "dependencies": [] },
            { "id": "b", "name": "b", "version": "1.0.0", "license": "MIT", "source": null, "dependencies": [] },
            { "id": "c", "name": "c", "version": "1.0.0", "license": "MIT", "source": null, "dependencies": [] }],
        "workspace_members": ["w"],
        "resolve": { "nodes": [
            { "id": "w", "deps": [
                { "pkg": "a", "dep_kinds": [{ "kind": "dev" }, { "kind": null }] },
                { "pkg": "b", "dep_kinds": [{ "kind": "dev" }] }] },
            { "id": "a", "deps": [] }, { "id": "b", "deps": [] }, { "id": "c", "deps": [] }] } }"#;
    let graph = CrateGraph::new(&serde_json::from_str(metadata).unwrap()).unwrap();
    let seen: Vec<_> = graph.crates.iter().map(|one| (one.name.as_str(), one.dev_only)).collect();
    assert_eq!(seen, [("w", false), ("a", false), ("b", true)], "c is not reached");
    assert_eq!(graph.crates[0].wildcards, ["a"]);
}
