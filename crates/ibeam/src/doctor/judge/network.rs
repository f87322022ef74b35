//! The way to Cursor's API: the sign-in as it is kept here, names, connections, clocks.

use super::{SKEW, after};
use crate::doctor::{
    findings::{
        ApiFindings, ClockPair, CredentialFindings, Findings, Http2Findings, Network, NoCredential,
        Undialled,
    },
    report::{Check, CheckLine, Code},
};
use ibeam_server::{clock, net::tls::TlsFault};

/// What sets a clock right.
const SET_CLOCK: &str = if cfg!(target_os = "macos") {
    "sudo sntp -sS time.apple.com"
} else if cfg!(windows) {
    "w32tm /resync"
} else {
    "sudo timedatectl set-ntp true"
};

/// A smaller difference does no harm. In seconds.
const NOTICED: u64 = 60;

pub(super) fn credential(
    agent: &ApiFindings,
    found: &Findings,
    now: u64,
    lines: &mut Vec<CheckLine>,
) {
    let check = Check::Credential;
    lines.push(match &agent.credential {
        Ok(credential) => CheckLine::ok(check, described(credential, now)),
        Err(NoCredential::Exposed) => after(check, Check::Files),
        Err(NoCredential::Unusable(why)) => {
            CheckLine::fail(check, Code::CredentialUnusable, why).fix(&found.login)
        }
        Err(NoCredential::Nobody(others)) => {
            let mut what = "not signed in to Cursor".to_owned();
            for other in others {
                what.push_str("; ");
                what.push_str(other);
            }
            CheckLine::fail(check, Code::NotSignedIn, what).fix(&found.login)
        }
    });
}

fn described(credential: &CredentialFindings, now: u64) -> String {
    let who = credential.account.as_deref().unwrap_or("an account without a name");
    let until = match (credential.expires, credential.renewable) {
        (_, true) => ", renewed automatically".to_owned(),
        (Some(end), false) if end > now => format!(", until {}", clock::date(end)),
        (Some(_) | None, false) => String::new(),
    };
    format!("{who}, from {}{until}", credential.source)
}

/// What time it is at the backend, as well as we know.
pub(super) fn their_time(network: Option<&Network>, now: u64) -> u64 {
    clocks(network).map_or(now, |clock| {
        let ahead = i128::from(clock.theirs) - i128::from(clock.ours);
        u64::try_from(i128::from(now) + ahead).unwrap_or(now)
    })
}

fn clocks(network: Option<&Network>) -> Option<ClockPair> {
    network?.answer.as_ref()?.as_ref().ok().copied().flatten()
}

pub(super) fn network(agent: &ApiFindings, found: &Findings, now: u64, lines: &mut Vec<CheckLine>) {
    let Some(network) = &agent.network else {
        let what = "skipped (`--offline`)";
        lines.extend(
            [Check::Network, Check::Clock, Check::Http2].map(|c| CheckLine::skipped(c, what)),
        );
        return;
    };
    let way = way(network, now);
    let red = way.code.is_some();
    lines.push(way);
    if red {
        lines.extend([Check::Clock, Check::Http2].map(|check| after(check, Check::Network)));
        return;
    }
    lines.push(skew(agent, network, now));
    lines.push(http2(network, found));
}

fn way(network: &Network, now: u64) -> CheckLine {
    let (check, host) = (Check::Network, &network.host);
    let via = network.proxy.as_ref().map(|proxy| format!(" through {proxy}"));
    let via = via.unwrap_or_default();
    if let Some(Err(why)) = &network.dns {
        let what = format!("no DNS: the name {} cannot be resolved: {why}", network.name);
        let line = CheckLine::fail(check, Code::NoDns, what);
        return line.fix(match network.other_host {
            true => "ibeam config show".to_owned(),
            false => format!("getent hosts {}", network.name),
        });
    }
    match &network.dial {
        Some(Err(Undialled::Proxy(why))) => {
            let line = CheckLine::fail(check, Code::ProxyFailed, why);
            return line.fix("env | grep -i _proxy");
        }
        Some(Err(Undialled::Tls(fault, why))) => return tls(*fault, why, now),
        Some(Err(Undialled::Other(why))) => {
            let what = format!("{host} cannot be reached{via}: {why}");
            return CheckLine::fail(check, Code::Unreachable, what).fix(format!("curl -v {host}/"));
        }
        Some(Ok(())) | None => {}
    }
    match &network.answer {
        Some(Err(why)) => {
            let what = format!("{host} accepts connections{via} but does not answer: {why}");
            CheckLine::fail(check, Code::Unreachable, what).fix(format!("curl -v {host}/"))
        }
        Some(Ok(_)) | None => CheckLine::ok(check, format!("{host} answers{via}")),
    }
}

fn tls(fault: TlsFault, why: &str, now: u64) -> CheckLine {
    let check = Check::Network;
    match fault {
        TlsFault::Untrusted => {
            let what = format!(
                "wrong CA: the certificate is not signed by a CA that this machine trusts ({why})"
            );
            CheckLine::fail(check, Code::WrongCa, what).fix("ibeam doctor --ca-file YOUR-CA.pem")
        }
        TlsFault::Time => {
            let today = clock::rfc3339(now);
            let what = format!(
                "by the clock of this machine ({today}) the certificate is not valid ({why})"
            );
            CheckLine::fail(check, Code::ClockSkew, what).fix(SET_CLOCK)
        }
        TlsFault::Setup | TlsFault::Name | TlsFault::Other => {
            CheckLine::fail(check, Code::TlsFailed, why).fix("ibeam config show")
        }
    }
}

/// The service's word counts, then that of the token.
fn skew(agent: &ApiFindings, network: &Network, now: u64) -> CheckLine {
    let check = Check::Clock;
    let issued = agent.credential.as_ref().ok().and_then(|credential| credential.issued);
    let clock = clocks(Some(network)).or_else(|| {
        let issued = issued.filter(|issued| *issued > now)?;
        Some(ClockPair { theirs: issued, ours: now })
    });
    let Some(ClockPair { theirs, ours }) = clock else {
        return CheckLine::skipped(check, "the backend did not report its time");
    };
    let off = theirs.abs_diff(ours);
    let side = if ours > theirs { "ahead of" } else { "behind" };
    let what = format!("the clock of this machine is {} {side} the backend's", span(off));
    match off {
        SKEW.. => CheckLine::fail(check, Code::ClockSkew, what).fix(SET_CLOCK),
        NOTICED.. => CheckLine::warn(check, Code::ClockSkew, what).fix(SET_CLOCK),
        _ => CheckLine::ok(check, "the same as the backend's"),
    }
}

fn http2(network: &Network, found: &Findings) -> CheckLine {
    let check = Check::Http2;
    let asked = found.asked.as_ref();
    let (fell, forbidden) =
        asked.map_or((false, false), |asked| (asked.fell_back, asked.http2_forbidden));
    let why = match &network.http2 {
        None => return CheckLine::skipped(check, "skipped"),
        Some(Http2Findings::NotWanted) => {
            return CheckLine::ok(check, "HTTP/1.1, as `transport` says");
        }
        Some(Http2Findings::Works) if forbidden => {
            return CheckLine::ok(check, "it works, but the server requires HTTP/1.1 for turns");
        }
        Some(Http2Findings::Works) if fell => "it was refused when a turn was opened",
        Some(Http2Findings::Works) => return CheckLine::ok(check, "works"),
        Some(Http2Findings::Refused(why)) => why.as_str(),
    };
    let via = match &network.proxy {
        Some(proxy) => format!("; {proxy} may block it"),
        None => String::new(),
    };
    let what = format!(
        "no HTTP/2 to {}: {why}{via}. Turns go over HTTP/1.1, where each message is a request",
        network.host
    );
    CheckLine::fail(check, Code::NoHttp2, what).fix("ibeam up --transport h1")
}

/// The largest unit that fits twice.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        172_800.. => format!("{} days", seconds / 86_400),
        7_200.. => format!("{} hours", seconds / 3_600),
        120.. => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} seconds"),
    }
}
