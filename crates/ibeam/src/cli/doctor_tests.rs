use super::*;
use crate::doctor::Code;

fn line(
    check: Check,
    state: CheckState,
    code: Option<Code>,
    what: &str,
    fix: Option<&str>,
) -> CheckLine {
    CheckLine { check, state, code, what: what.to_owned(), fix: fix.map(str::to_owned) }
}

fn report(checks: Vec<CheckLine>) -> DoctorReport {
    let mut report = DoctorReport {
        version: "0.1.0",
        ok: true,
        cause: None,
        backend: "agent",
        model: "auto".to_owned(),
        offline: false,
        requests: 2,
        milliseconds: 1234,
        checks,
    };
    report.cause = report.first_red().and_then(|line| line.code);
    report.ok = report.cause.is_none();
    report
}

fn sick() -> DoctorReport {
    report(vec![
        line(Check::Settings, CheckState::Ok, None, "no file", None),
        line(
            Check::Disk,
            CheckState::Warn,
            Some(Code::DiskLow),
            "only 50 MiB are left",
            Some("df -h /"),
        ),
        line(
            Check::Network,
            CheckState::Fail,
            Some(Code::NoDns),
            "no DNS: the name x.invalid cannot be resolved",
            Some("getent hosts x.invalid"),
        ),
        line(Check::Models, CheckState::Skipped, None, "not looked at, because of network", None),
    ])
}

#[test]
fn page_has_a_line_and_a_fix_for_each_check() {
    let text = anstream::adapter::strip_str(&page(&sick())).to_string();
    insta::assert_snapshot!(text, @r"
    ok   settings  no file
    warn disk      only 50 MiB are left
                   fix: df -h /
    FAIL network   no DNS: the name x.invalid cannot be resolved
                   fix: getent hosts x.invalid
    -    models    not looked at, because of network

    The cause: network.
    ");
}

#[test]
fn lines_are_coloured_by_their_state() {
    let text = page(&sick());
    assert!(text.contains("\u{1b}[1m\u{1b}[31mFAIL network"), "{text:?}");
    assert!(text.contains("\u{1b}[1m\u{1b}[32mok  \u{1b}[0m settings"), "{text:?}");
    assert!(text.contains("\u{1b}[1m\u{1b}[33mwarn disk"), "{text:?}");
}

#[test]
fn last_line_is_the_verdict() {
    let last = |report: &DoctorReport| page(report).lines().last().unwrap().to_owned();
    let well = line(Check::Settings, CheckState::Ok, None, "x", None);
    assert_eq!(last(&report(vec![well.clone()])), "No problems found. Sent 2 requests to auto.");
    let offline = DoctorReport { offline: true, requests: 0, ..report(vec![well]) };
    assert_eq!(last(&offline), "No problems found offline.");
    let warned = line(Check::Drift, CheckState::Warn, Some(Code::Drift), "x", None);
    assert!(last(&report(vec![warned])).starts_with("It works, with warnings."));
    let red = |check| line(check, CheckState::Fail, Some(Code::DiskFull), "x", Some("y"));
    let two = report(vec![red(Check::Disk), red(Check::Port)]);
    assert_eq!(last(&two), "2 checks failed. Start with the first: disk.");
}

#[test]
fn json_fields_are_stable() {
    let text = serde_json::to_string_pretty(&report(vec![sick().checks[2].clone()])).unwrap();
    insta::assert_snapshot!(text, @r#"
    {
      "version": "0.1.0",
      "ok": false,
      "cause": "no_dns",
      "backend": "agent",
      "model": "auto",
      "offline": false,
      "requests": 2,
      "milliseconds": 1234,
      "checks": [
        {
          "check": "network",
          "state": "fail",
          "code": "no_dns",
          "what": "no DNS: the name x.invalid cannot be resolved",
          "fix": "getent hosts x.invalid"
        }
      ]
    }
    "#);
}
