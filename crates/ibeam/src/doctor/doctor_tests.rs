//! Judgements, without any of the faults.

use std::{collections::BTreeMap, path::PathBuf};

use ibeam_core::{error::ErrorCode, peer::agent::probe::ProbeFindings};

use super::{
    findings::*,
    judge::judge,
    report::{Check, CheckLine, CheckState, Code},
};
use crate::doctor::audit::AuditProblem;
use ibeam_server::net::tls::TlsFault;

const NOW: u64 = 1_800_000_000;

fn agent() -> ApiFindings {
    let clock = ClockPair { theirs: NOW, ours: NOW };
    ApiFindings {
        credential: Ok(CredentialFindings {
            source: "profile `default`".to_owned(),
            account: Some("me@example.com".to_owned()),
            expires: Some(NOW + 100_000),
            renewable: true,
            ..CredentialFindings::default()
        }),
        network: Some(Network {
            host: "https://api2.cursor.sh".to_owned(),
            name: "api2.cursor.sh".to_owned(),
            dns: Some(Ok(2)),
            dial: Some(Ok(())),
            http2: Some(Http2Findings::Works),
            answer: Some(Ok(Some(clock))),
            ..Network::default()
        }),
    }
}

fn asked() -> BackendFindings {
    let answer = AnswerTimes { first: 10, whole: 20 };
    BackendFindings {
        token: Some(Ok(())),
        models: Some(Ok(19)),
        model: Some(Ok("auto".to_owned())),
        answer: Some(Ok(answer)),
        tools: Some(Ok(answer)),
        requests: 2,
        ..BackendFindings::default()
    }
}

/// Everything is well.
pub(crate) fn healthy() -> Findings {
    Findings {
        warnings: Vec::new(),
        unapproved: Vec::new(),
        config_file: None,
        folders: vec![FolderFindings {
            path: PathBuf::from("/home/me/.config/ibeam"),
            free: Some(9 << 30),
            written: Ok(()),
        }],
        files: FileFindings { looked_at: 4, faults: Vec::new() },
        access: AccessFindings { key_needed: Ok(false), weak: Vec::new() },
        ports: vec![Port { address: "127.0.0.1:18741".parse().unwrap(), state: PortState::Free }],
        running: Vec::new(),
        clients: Vec::new(),
        probes: Some(Ok(ProbeFindings::default())),
        api: Some(agent()),
        cursor_agent: None,
        client_version: "cli-2026.08.11-e8db854".to_owned(),
        login: "ibeam login".to_owned(),
        asked: Some(asked()),
        model: "auto".to_owned(),
    }
}

fn child() -> CursorAgentFindings {
    CursorAgentFindings {
        backend: "cli",
        simulated: false,
        program: Ok(PathBuf::from("/usr/bin/cursor-agent")),
        version: Some(Ok("2026.01.09-231024f".to_owned())),
        account: Some(Ok("me@example.com".to_owned())),
    }
}

fn failure(code: ErrorCode) -> BackendFailure {
    BackendFailure { code, what: format!("words about {code:?}") }
}

fn reds(found: &Findings) -> Vec<CheckLine> {
    judge(found, NOW).into_iter().filter(|line| line.state == CheckState::Fail).collect()
}

/// A network that comes no further than `change` lets it; nothing was asked then.
fn way(change: impl FnOnce(&mut Network)) -> Findings {
    let mut agent = agent();
    change(agent.network.as_mut().unwrap());
    Findings { api: Some(agent), asked: Some(BackendFindings::default()), ..healthy() }
}

#[track_caller]
fn one_red(found: &Findings, check: Check, code: Code) -> CheckLine {
    let reds = reds(found);
    assert_eq!(reds.len(), 1, "{reds:#?}");
    assert_eq!((reds[0].check, reds[0].code), (check, Some(code)), "{reds:#?}");
    assert!(reds[0].fix.is_some(), "{reds:#?}");
    reds[0].clone()
}

#[test]
fn passed_checks_are_in_order() {
    let lines = judge(&healthy(), NOW);
    let odd: Vec<_> = lines.iter().filter(|line| line.state != CheckState::Ok).collect();
    let odd: Vec<Check> = odd.iter().map(|line| line.check).collect();
    assert_eq!(odd, [Check::Clients, Check::Probes], "no client is installed, and none probed");
    let order: Vec<Check> = lines.iter().map(|line| line.check).collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn each_network_step_has_its_own_cause() {
    let stop = |network: &mut Network| {
        network.http2 = None;
        network.answer = None;
    };
    let no_dns = way(|network| {
        stop(network);
        network.dial = None;
        network.dns = Some(Err("unknown".to_owned()));
    });
    one_red(&no_dns, Check::Network, Code::NoDns);
    for (error, code) in [
        (Undialled::Proxy("proxy x: refused".to_owned()), Code::ProxyFailed),
        (Undialled::Tls(TlsFault::Untrusted, "bad".to_owned()), Code::WrongCa),
        (Undialled::Tls(TlsFault::Time, "bad".to_owned()), Code::ClockSkew),
        (Undialled::Tls(TlsFault::Name, "bad".to_owned()), Code::TlsFailed),
        (Undialled::Other("refused".to_owned()), Code::Unreachable),
    ] {
        let found = way(|network| {
            stop(network);
            network.dial = Some(Err(error));
        });
        one_red(&found, Check::Network, code);
        let lines = judge(&found, NOW);
        let last = lines.iter().filter(|line| line.check > Check::Network);
        assert!(last.clone().all(|line| line.state == CheckState::Skipped), "{lines:#?}");
    }
    let mute = way(|network| network.answer = Some(Err("no answer in time".to_owned())));
    one_red(&mute, Check::Network, Code::Unreachable);
}

#[test]
fn wrong_clock_is_reported_before_an_expired_token() {
    let clock = |ours: u64, theirs: u64| {
        let mut agent = agent();
        agent.network.as_mut().unwrap().answer = Some(Ok(Some(ClockPair { theirs, ours })));
        let credential = agent.credential.as_mut().unwrap();
        // By our clock it is over, by theirs it is not.
        (credential.renewable, credential.expires) = (false, Some(NOW - 600));
        Findings { api: Some(agent), ..healthy() }
    };
    let line = one_red(&clock(NOW, NOW - 7_300), Check::Clock, Code::ClockSkew);
    assert!(line.what.contains("2 hours ahead of"), "{}", line.what);
    let line = one_red(&clock(NOW, NOW), Check::Token, Code::TokenExpired);
    assert!(line.what.contains("expired at"), "{}", line.what);
    // A minute or two are no reason to be red.
    let mut near = healthy();
    let mut agent = agent();
    agent.network.as_mut().unwrap().answer =
        Some(Ok(Some(ClockPair { theirs: NOW + 100, ours: NOW })));
    near.api = Some(agent);
    assert_eq!(reds(&near), Vec::new());
    assert!(judge(&near, NOW).iter().any(|line| line.code == Some(Code::ClockSkew)));
}

#[test]
fn token_issued_in_the_future_reveals_a_late_clock() {
    let mut agent = agent();
    agent.network.as_mut().unwrap().answer = Some(Ok(None));
    agent.credential.as_mut().unwrap().issued = Some(NOW + 4_000);
    let found = Findings { api: Some(agent), ..healthy() };
    let line = one_red(&found, Check::Clock, Code::ClockSkew);
    assert!(line.what.contains("behind"), "{}", line.what);
}

#[test]
fn failures_are_attributed_to_their_check() {
    let models =
        |code| BackendFindings { models: Some(Err(failure(code))), ..BackendFindings::default() };
    let answer =
        |code| BackendFindings { answer: Some(Err(failure(code))), tools: None, ..asked() };
    let tools = |code| BackendFindings { tools: Some(Err(failure(code))), ..asked() };
    for (asked, check, code) in [
        (models(ErrorCode::NotAuthenticated), Check::Token, Code::TokenRefused),
        (models(ErrorCode::Unavailable), Check::Models, Code::ModelsFailed),
        (answer(ErrorCode::NotAuthenticated), Check::Token, Code::TokenRefused),
        (answer(ErrorCode::ClientOutdated), Check::ClientVersion, Code::ClientOutdated),
        (answer(ErrorCode::ModelNotFound), Check::Model, Code::ModelUnknown),
        (answer(ErrorCode::InsufficientQuota), Check::Answer, Code::PlanLimit),
        (answer(ErrorCode::Timeout), Check::Answer, Code::AnswerFailed),
        (tools(ErrorCode::ToolChoiceUnmet), Check::Tools, Code::ToolsFailed),
        (tools(ErrorCode::UpstreamClosed), Check::Tools, Code::ToolsFailed),
    ] {
        one_red(&Findings { asked: Some(asked), ..healthy() }, check, code);
    }
    let token = BackendFindings {
        token: Some(Err(failure(ErrorCode::Unavailable))),
        ..BackendFindings::default()
    };
    one_red(&Findings { asked: Some(token), ..healthy() }, Check::Token, Code::TokenUnknown);
}

#[test]
fn missing_sign_in_is_not_a_network_failure() {
    for (none, code) in [
        (NoCredential::Nobody(Vec::new()), Code::NotSignedIn),
        (NoCredential::Unusable("malformed".to_owned()), Code::CredentialUnusable),
    ] {
        let api = Some(ApiFindings { credential: Err(none), ..agent() });
        let found = Findings { api, asked: Some(BackendFindings::default()), ..healthy() };
        let line = one_red(&found, Check::Credential, code);
        assert_eq!(line.fix.as_deref(), Some("ibeam login"));
    }
    let api = Some(ApiFindings { credential: Err(NoCredential::Exposed), ..agent() });
    let fault = AuditProblem { what: "other users can read it".to_owned(), fix: None };
    let files = FileFindings { looked_at: 1, faults: vec![fault] };
    let found = Findings { api, files, asked: Some(BackendFindings::default()), ..healthy() };
    one_red(&found, Check::Files, Code::FileExposed);
}

#[test]
fn given_token_must_be_unset_first() {
    let mut agent = agent();
    let credential = agent.credential.as_mut().unwrap();
    credential.renewable = false;
    credential.given = TokenOrigin::Variable("CURSOR_ACCESS_TOKEN".to_owned());
    let models = Some(Err(failure(ErrorCode::NotAuthenticated)));
    let asked = Some(BackendFindings { models, ..BackendFindings::default() });
    let found = Findings { api: Some(agent), asked, ..healthy() };
    let line = one_red(&found, Check::Token, Code::TokenRefused);
    assert_eq!(line.fix.as_deref(), Some("unset CURSOR_ACCESS_TOKEN; ibeam login"));
}

#[test]
fn cursor_cli_is_missing_dead_or_signed_out() {
    let with = |child: CursorAgentFindings, asked: BackendFindings| Findings {
        api: None,
        cursor_agent: Some(child),
        asked: Some(asked),
        ..healthy()
    };
    let missing =
        CursorAgentFindings { program: Err("not found".to_owned()), version: None, ..child() };
    one_red(&with(missing.clone(), BackendFindings::default()), Check::Agent, Code::AgentMissing);
    let died = Some(Err("it ended with signal 9".to_owned()));
    let dead = CursorAgentFindings { version: died.clone(), ..missing };
    one_red(&with(dead, BackendFindings::default()), Check::Agent, Code::AgentDead);
    let dead = CursorAgentFindings { version: died, account: None, ..child() };
    one_red(&with(dead, BackendFindings::default()), Check::Agent, Code::AgentDead);
    let nobody = failure(ErrorCode::NotAuthenticated);
    let out = CursorAgentFindings { account: Some(Err(nobody)), ..child() };
    one_red(&with(out, BackendFindings::default()), Check::Agent, Code::AgentSignedOut);
    let dies = BackendFindings {
        answer: Some(Err(failure(ErrorCode::UpstreamClosed))),
        tools: None,
        ..asked()
    };
    one_red(&with(child(), dies), Check::Agent, Code::AgentDead);
    assert_eq!(reds(&with(child(), asked())), Vec::new());
}

#[test]
fn missing_http2_fails_unless_disabled() {
    let refused = |http2| {
        let mut found = way(|network| network.http2 = Some(http2));
        found.asked = Some(asked());
        found
    };
    let found = refused(Http2Findings::Refused("TLS chose HTTP/1.1".to_owned()));
    one_red(&found, Check::Http2, Code::NoHttp2);
    assert_eq!(reds(&refused(Http2Findings::NotWanted)), Vec::new());
    let fell = BackendFindings { fell_back: true, ..asked() };
    one_red(&Findings { asked: Some(fell.clone()), ..healthy() }, Check::Http2, Code::NoHttp2);
    let wanted = BackendFindings { http2_forbidden: true, ..fell };
    assert_eq!(reds(&Findings { asked: Some(wanted), ..healthy() }), Vec::new());
}

#[test]
fn machine_findings_are_judged() {
    let folder = |free, written| {
        let path = PathBuf::from("/home/me/it's");
        vec![FolderFindings { path, free: Some(free), written }]
    };
    let full = Unwritten::Full("No space left on device".to_owned());
    let found = Findings { folders: folder(0, Err(full)), ..healthy() };
    let line = one_red(&found, Check::Disk, Code::DiskFull);
    assert_eq!(line.fix.as_deref(), Some(r"df -h '/home/me/it'\''s'"));
    one_red(&Findings { folders: folder(1000, Ok(())), ..healthy() }, Check::Disk, Code::DiskFull);
    let low = Findings { folders: folder(50 << 20, Ok(())), ..healthy() };
    assert_eq!(reds(&low), Vec::new());
    assert!(judge(&low, NOW).iter().any(|line| line.code == Some(Code::DiskLow)));
    let refused = Unwritten::Refused("denied".to_owned());
    let found = Findings { folders: folder(9 << 30, Err(refused)), ..healthy() };
    one_red(&found, Check::Disk, Code::FolderNotWritable);

    let port = |state| vec![Port { address: "127.0.0.1:18741".parse().unwrap(), state }];
    let taken = port(PortState::Taken(Some("nginx (process 7)".to_owned())));
    let line = one_red(&Findings { ports: taken, ..healthy() }, Check::Port, Code::PortTaken);
    assert!(line.what.contains("nginx (process 7)"), "{}", line.what);
    let at = |version: &str| {
        let url = "http://127.0.0.1:18741".to_owned();
        let (version, drift) = (version.to_owned(), Default::default());
        vec![RunningGateway { url, version, drift, history: Default::default() }]
    };
    let ours = |version: &str| port(PortState::CallsItselfIbeam(version.to_owned()));
    let found = |ports, running| Findings { ports, running, ..healthy() };
    let code = |found: &Findings| {
        assert_eq!(reds(found), Vec::new());
        judge(found, NOW).iter().find(|line| line.check == Check::Port).unwrap().code
    };
    let now = env!("CARGO_PKG_VERSION");
    assert_eq!(code(&found(ours("0.0.1"), at("0.0.1"))), Some(Code::OtherVersion));
    assert_eq!(code(&found(ours(now), at(now))), None);
    // Of another user, who would read what these clients say.
    let unproven = found(ours(now), Vec::new());
    assert_eq!(code(&unproven), Some(Code::PortForeign));
    let lines = judge(&unproven, NOW);
    let line = lines.iter().find(|line| line.check == Check::Port).unwrap();
    assert!(line.what.contains("calls itself ibeam"), "{}", line.what);
    let denied = port(PortState::Unusable("denied".to_owned()));
    one_red(&Findings { ports: denied, ..healthy() }, Check::Port, Code::PortUnusable);

    let access = AccessFindings { key_needed: Ok(false), weak: vec!["open to all".to_owned()] };
    one_red(&Findings { access, ..healthy() }, Check::Access, Code::AccessOpen);
    let fault = AuditProblem { what: "malformed".to_owned(), fix: None };
    let access = AccessFindings { key_needed: Err(fault), weak: Vec::new() };
    one_red(&Findings { access, ..healthy() }, Check::Access, Code::KeysUnusable);

    let client = |version: &str| {
        let version = Some(version.to_owned());
        vec![Installed { title: "OpenCode", version, oldest: "1.18.18", update: "npm i" }]
    };
    let old = Findings { clients: client("1.2.0"), ..healthy() };
    one_red(&old, Check::Clients, Code::ClientOld);
    assert_eq!(reds(&Findings { clients: client("1.19.0"), ..healthy() }), Vec::new());
}

#[test]
fn drift_is_only_a_warning() {
    let drift = BTreeMap::from([("unknown_arms".to_owned(), 3)]);
    let found = Findings { asked: Some(BackendFindings { drift, ..asked() }), ..healthy() };
    assert_eq!(reds(&found), Vec::new());
    let lines = judge(&found, NOW);
    let last = lines.last().unwrap();
    assert_eq!((last.state, last.code), (CheckState::Warn, Some(Code::Drift)));
    assert!(last.what.contains("unknown_arms (3)"), "{}", last.what);
}

#[test]
fn unknown_fields_are_not_even_a_warning() {
    let drift = BTreeMap::from([("agent.v1.InteractionUpdate#99".to_owned(), 3)]);
    let found = Findings { asked: Some(BackendFindings { drift, ..asked() }), ..healthy() };
    let lines = judge(&found, NOW);
    let last = lines.last().unwrap();
    assert_eq!((last.check, last.state, last.code), (Check::Drift, CheckState::Ok, None));
    assert!(last.what.contains("agent.v1.InteractionUpdate field 99 (3)"), "{}", last.what);
}

#[test]
fn check_names_are_unique() {
    let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn answers_of_probes_are_shown_with_their_age_and_what_they_change() {
    let version = env!("CARGO_PKG_VERSION");
    let answers = |at: u64, version: &str| {
        let row = |question: &str, seen: &str| {
            format!(
                r#"{{"question":"{question}","observation":"{seen}","at":{at},
                    "client_version":"cli-x","ibeam_version":"{version}"}}"#
            )
        };
        let rows = [row("k", "empty-honoured"), row("g", "status-ready")].join(",");
        let file = format!(r#"{{"version":1,"findings":[{rows}]}}"#);
        Findings { probes: Some(Ok(ProbeFindings::from_json(&file).unwrap())), ..healthy() }
    };
    let line = |found: &Findings| {
        let lines = judge(found, NOW);
        assert_eq!(reds(found), Vec::new());
        lines.into_iter().find(|line| line.check == Check::Probes).unwrap()
    };
    let fresh = line(&answers(NOW - 86_400, version));
    assert_eq!(fresh.code, None);
    assert!(fresh.what.starts_with("2 answers, the oldest"), "{}", fresh.what);
    assert!(fresh.what.contains("reported as `ready`"), "{}", fresh.what);
    for old in [answers(NOW - 91 * 86_400, version), answers(NOW - 60, "0.0.1")] {
        assert_eq!(line(&old).code, Some(Code::ProbesOld));
        assert_eq!(line(&old).fix.as_deref(), Some("ibeam probe"));
    }
    let unusable = Findings { probes: Some(Err("garbled".to_owned())), ..healthy() };
    assert_eq!(line(&unusable).code, Some(Code::ProbesUnusable));
    assert_eq!(line(&healthy()).state, CheckState::Skipped, "none were made");
    let learned = RunningGateway {
        url: "http://127.0.0.1:18741".to_owned(),
        version: version.to_owned(),
        drift: BTreeMap::new(),
        history: [("gpt-5.5".to_owned(), "user-roots".to_owned())].into(),
    };
    let found = Findings { running: vec![learned], ..healthy() };
    let shown = judge(&found, NOW).into_iter().any(|line| line.what.contains("gpt-5.5 user-roots"));
    assert!(shown, "what a running gateway has learned");
}
