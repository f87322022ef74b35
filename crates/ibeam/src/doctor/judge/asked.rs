//! What the backend said, and whose fault it is when it said no.

use std::collections::BTreeMap;

use ibeam_core::error::ErrorCode;

use super::{after, network::their_time, red};
use crate::doctor::{
    findings::{
        AnswerTimes, ApiFindings, BackendFailure, BackendFindings, CursorAgentFindings, Findings,
        TokenOrigin,
    },
    report::{Check, CheckLine, Code},
    version,
};
use ibeam_server::config::DEFAULT_CLIENT_VERSION;

const INSTALL: &str = "curl https://cursor.com/install -fsS | bash";

/// A failure, and the check that it belongs to: not always the one in which it showed.
struct Blame<'a> {
    check: Check,
    code: Code,
    failure: &'a BackendFailure,
}

pub(super) fn asked(found: &Findings, now: u64, lines: &mut Vec<CheckLine>) {
    let blame = found.asked.as_ref().and_then(|asked| blame(asked, found));
    let mut checks = vec![Check::Models, Check::Model, Check::Answer, Check::Tools];
    if let Some(api) = &found.api {
        checks.insert(0, Check::ClientVersion);
        token(api, found, now, blame.as_ref(), lines);
    }
    if let Some(program) = &found.cursor_agent {
        agent_program(program, found, blame.as_ref(), lines);
    }
    let before = [Check::Credential, Check::Files, Check::Network, Check::Token, Check::Agent];
    let mut stopped = match &found.asked {
        // Nothing could be asked.
        Some(asked) if asked.models.is_none() => red(lines, &before),
        _ => blame.as_ref().map(|blame| blame.check).filter(|check| *check <= Check::Token),
    };
    for check in checks {
        lines.push(match (&blame, stopped, &found.asked) {
            (Some(blame), _, _) if blame.check == check => {
                stopped = Some(check);
                blamed(blame, found)
            }
            (_, _, None) => CheckLine::skipped(check, "skipped (`--offline`)"),
            (_, stopped, Some(asked)) => match (good(check, asked, found), stopped) {
                (Some(what), _) => CheckLine::ok(check, what),
                (None, Some(stopped)) => after(check, stopped),
                (None, None) => CheckLine::skipped(check, "skipped"),
            },
        });
    }
    drift(found, lines);
}

fn blame<'a>(asked: &'a BackendFindings, found: &Findings) -> Option<Blame<'a>> {
    let failures = [
        (Check::Token, error(asked.token.as_ref())),
        (Check::Models, error(asked.models.as_ref())),
        (Check::Model, error(asked.model.as_ref())),
        (Check::Answer, error(asked.answer.as_ref())),
        (Check::Tools, error(asked.tools.as_ref())),
    ];
    let (check, failure) =
        failures.into_iter().find_map(|(check, failure)| Some((check, failure?)))?;
    let child = found.cursor_agent.is_some();
    let (check, code) = match failure.code {
        ErrorCode::NotAuthenticated if child => (Check::Agent, Code::AgentSignedOut),
        ErrorCode::NotAuthenticated => (Check::Token, Code::TokenRefused),
        ErrorCode::ClientOutdated if child => (Check::Agent, Code::ClientOutdated),
        ErrorCode::ClientOutdated => (Check::ClientVersion, Code::ClientOutdated),
        ErrorCode::ModelNotFound => (Check::Model, Code::ModelUnknown),
        ErrorCode::InsufficientQuota
        | ErrorCode::RateLimited
        | ErrorCode::PlanRequired
        | ErrorCode::RegionUnsupported
        | ErrorCode::PolicyDenied => (check, Code::PlanLimit),
        ErrorCode::ToolChoiceUnmet => (check, Code::ToolsFailed),
        // What the program said or did, and not what it was asked for.
        _ if child && check <= Check::Answer => (Check::Agent, Code::AgentDead),
        _ => (
            check,
            match check {
                Check::Token => Code::TokenUnknown,
                Check::Models => Code::ModelsFailed,
                Check::Tools => Code::ToolsFailed,
                _ => Code::AnswerFailed,
            },
        ),
    };
    Some(Blame { check, code, failure })
}

fn error<T>(result: Option<&Result<T, BackendFailure>>) -> Option<&BackendFailure> {
    result?.as_ref().err()
}

/// The red line of a failure.
fn blamed(blame: &Blame<'_>, found: &Findings) -> CheckLine {
    let BackendFailure { what, .. } = blame.failure;
    let line = CheckLine::fail(blame.check, blame.code, what);
    match blame.code {
        Code::ClientOutdated => {
            let what = format!(
                "Cursor refuses the client version {} as too old: {what}",
                found.client_version
            );
            let fix = match version::older(&found.client_version, DEFAULT_CLIENT_VERSION) {
                true => format!("ibeam up --set client_version={DEFAULT_CLIENT_VERSION}"),
                false => INSTALL.to_owned(),
            };
            CheckLine { what, ..line }.fix(fix)
        }
        Code::ModelUnknown => line.fix("ibeam models"),
        Code::PlanLimit => line.fix("ibeam whoami"),
        Code::ModelsFailed | Code::TokenUnknown => line.fix("ibeam models --log-level debug"),
        _ => line.fix("ibeam doctor --bundle"),
    }
}

fn good(check: Check, asked: &BackendFindings, found: &Findings) -> Option<String> {
    let timed = |answer: &AnswerTimes| {
        format!("{} ms to the first token, {} ms in total", answer.first, answer.whole)
    };
    let ok = |result: &Option<Result<AnswerTimes, BackendFailure>>| {
        result.as_ref()?.as_ref().ok().map(timed)
    };
    match check {
        Check::ClientVersion => {
            asked.answer.as_ref()?.as_ref().ok()?;
            Some(format!("{}, accepted by Cursor", found.client_version))
        }
        Check::Models => {
            let count = asked.models.as_ref()?.as_ref().ok()?;
            Some(format!("{count} in the list"))
        }
        Check::Model => {
            let name = asked.model.as_ref()?.as_ref().ok()?;
            Some(match *name == found.model {
                true => format!("`{name}` is available"),
                false => format!("`{}` means {name}", found.model),
            })
        }
        Check::Answer => Some(format!("streamed: {}", ok(&asked.answer)?)),
        Check::Tools => {
            Some(format!("called, and answered with its result: {}", ok(&asked.tools)?))
        }
        _ => None,
    }
}

/// Whether Cursor takes the sign-in.
fn token(
    agent: &ApiFindings,
    found: &Findings,
    now: u64,
    blame: Option<&Blame<'_>>,
    lines: &mut Vec<CheckLine>,
) {
    let check = Check::Token;
    let given = agent.credential.as_ref().map_or(&TokenOrigin::No, |credential| &credential.given);
    let fix = |line: CheckLine| match given {
        TokenOrigin::No => line.fix(&found.login),
        // It would go before a new sign-in.
        TokenOrigin::Variable(name) => line.fix(format!("unset {name}; {}", found.login)),
        TokenOrigin::Setting => line.fix("ibeam config show"),
    };
    let their_now = their_time(agent.network.as_ref(), now);
    if let Ok(credential) = &agent.credential
        && !credential.renewable
        && let Some(end) = credential.expires.filter(|end| *end <= their_now)
    {
        let ended = ibeam_server::clock::rfc3339(end);
        let what = format!("the access token from {} expired at {ended}", credential.source);
        lines.push(fix(CheckLine::fail(check, Code::TokenExpired, what)));
        return;
    }
    let before = [Check::Files, Check::Credential, Check::Network];
    let because = match agent.credential {
        Ok(_) => red(lines, &[Check::Network]),
        Err(_) => red(lines, &before),
    };
    lines.push(match (blame, &found.asked, because) {
        (Some(blame), _, _) if blame.check == check && blame.code == Code::TokenRefused => {
            fix(CheckLine::fail(check, blame.code, &blame.failure.what))
        }
        (Some(blame), _, _) if blame.check == check => blamed(blame, found),
        (_, _, Some(red)) => after(check, red),
        (_, None, _) => CheckLine::skipped(check, "not checked with Cursor (`--offline`)"),
        (_, Some(_), None) => CheckLine::ok(check, "accepted by Cursor"),
    });
}

/// Cursor's CLI as a program.
fn agent_program(
    child: &CursorAgentFindings,
    found: &Findings,
    blame: Option<&Blame<'_>>,
    lines: &mut Vec<CheckLine>,
) {
    let check = Check::Agent;
    let path = match &child.program {
        Ok(path) => path,
        Err(what) => {
            // One that is there and dies is not missing.
            let code = match &child.version {
                Some(Err(_)) => Code::AgentDead,
                _ => Code::AgentMissing,
            };
            let what = match &child.version {
                Some(Err(died)) => died,
                _ => what,
            };
            lines.push(CheckLine::fail(check, code, what).fix(INSTALL));
            return;
        }
    };
    let name = match child.simulated {
        true => "the simulated cursor-agent".to_owned(),
        false => path.display().to_string(),
    };
    if let Some(Err(died)) = &child.version {
        lines.push(CheckLine::fail(check, Code::AgentDead, died).fix(INSTALL));
        return;
    }
    if let Some(Err(failure)) = &child.account {
        let code = match failure.code {
            ErrorCode::NotAuthenticated => Code::AgentSignedOut,
            _ => Code::AgentDead,
        };
        lines.push(CheckLine::fail(check, code, &failure.what).fix(found.login.clone()));
        return;
    }
    if let Some(blame) = blame.filter(|blame| blame.check == check) {
        let what = match blame.code {
            Code::AgentDead => {
                format!("{name} is installed but does not answer: {}", blame.failure.what)
            }
            _ => blame.failure.what.clone(),
        };
        let line = CheckLine::fail(check, blame.code, what);
        lines.push(match blame.code {
            Code::AgentSignedOut => line.fix(found.login.clone()),
            _ => line.fix(INSTALL),
        });
        return;
    }
    let version = match &child.version {
        Some(Ok(version)) => format!(" {version}"),
        _ => String::new(),
    };
    let account = match &child.account {
        Some(Ok(account)) => format!(", signed in as {account}"),
        _ => String::new(),
    };
    lines.push(CheckLine::ok(check, format!("{name}{version} ({}){account}", child.backend)));
}

fn drift(found: &Findings, lines: &mut Vec<CheckLine>) {
    let check = Check::Drift;
    let line = |place: &str, drift: &BTreeMap<String, u64>| {
        let kinds = drift.iter().map(|(kind, count)| match kind.split_once('#') {
            Some((message, field)) => format!("{message} field {field} ({count})"),
            None => format!("{kind} ({count})"),
        });
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        if drift.keys().all(|kind| kind.contains('#')) {
            // New fields are common, and the rest of their messages is understood.
            let what = format!("no unknown messages; unknown fields {place} are skipped: {kinds}");
            return CheckLine::ok(check, what);
        }
        let what = format!("Cursor sent messages {place} that this version does not know: {kinds}");
        CheckLine::warn(check, Code::Drift, what).fix("ibeam doctor --bundle")
    };
    for running in found.running.iter().filter(|running| !running.drift.is_empty()) {
        lines.push(line(&format!("to the gateway at {}", running.url), &running.drift));
    }
    let Some(asked) = found.asked.as_ref().filter(|asked| asked.requests > 0) else {
        lines.push(CheckLine::skipped(check, "no request was sent"));
        return;
    };
    lines.push(match asked.drift.is_empty() {
        true => CheckLine::ok(check, "no unknown protocol messages"),
        false => line("here", &asked.drift),
    });
}
