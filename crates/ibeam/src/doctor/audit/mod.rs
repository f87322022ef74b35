//! What ibeam may do on this machine with the present settings: who can call it, whom it
//! calls, what it reads and writes, and what is not as it should be.
//!
//! *Invariant:* an audit opens no connection and changes nothing.

mod child;
mod files;
#[cfg(unix)]
mod modes;

use std::path::Path;

use ibeam_core::auth::jwt;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;

pub use child::ChildReport;
pub use files::{FileLine, FilePurpose};

use ibeam_server::{
    api::OPEN_PATHS,
    auth::{Account, AuthFileError, Credential, DiscoverError, LocalUser},
    config::{Backend, Config, Listen, SettingOrigin},
    files::FileError,
    keys::{KeyFile, KeyFileError, KeyInfo, Keys},
    mcp::config::{SearchPaths, ServerSpec, gather},
    net::{
        self,
        hosts::{self, ContactedBy},
        proxy::Proxy,
    },
};

/// Names and fields are an interface: scripts read them.
#[derive(Debug, Serialize)]
pub struct AuditReport {
    pub version: &'static str,
    /// There is no problem.
    pub ok: bool,
    pub problems: Vec<AuditProblem>,
    /// Not wrong, and good to know.
    pub notes: Vec<String>,
    pub listener: ListenerReport,
    pub keys: KeyReport,
    pub credential: CredentialReport,
    pub backend: &'static str,
    pub hosts: Vec<HostLine>,
    pub allowed: AllowedReport,
    /// Cursor's CLI, where it answers or would.
    pub cursor_agent: Option<ChildReport>,
    pub files: Vec<FileLine>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditProblem {
    pub what: String,
    /// The command that fixes it.
    pub fix: Option<String>,
}

/// Where clients come in.
#[derive(Debug, Serialize)]
pub struct ListenerReport {
    /// `127.0.0.1:18741`, or `unix:/path`.
    pub address: String,
    /// Further ones.
    pub also: Vec<String>,
    /// Nothing but sockets in the file system.
    pub unix: bool,
    /// Only this machine can call.
    pub local: bool,
    pub tls: bool,
    pub key_needed: bool,
    /// What is served without a key even so.
    pub open_paths: &'static [&'static str],
    /// Names that a `Host` may have, besides those and the addresses of this machine.
    pub hosts: Vec<String>,
    /// Whether a `Host` may be any address: one cannot be rebound.
    pub any_address: bool,
    /// Web pages that may call.
    pub origins: Vec<String>,
}

/// Keys for clients; never a key or its hash.
#[derive(Debug, Serialize)]
pub struct KeyReport {
    /// Where the setting `api_key` comes from, if there is one.
    pub setting: Option<String>,
    pub count: usize,
    pub list: Vec<KeyInfo>,
}

/// The sign-in at Cursor; never the token.
#[derive(Debug, Default, Serialize)]
pub struct CredentialReport {
    pub source: Option<String>,
    pub profile: String,
    pub email: Option<String>,
    pub sub: Option<String>,
    /// In seconds since 1970, if it is known.
    pub expires: Option<u64>,
    /// It can be renewed without the user.
    pub renewable: bool,
    /// What was found and is not used, with the reason.
    pub unused: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct HostLine {
    pub origin: String,
    /// `ibeam` or `browser`.
    pub by: &'static str,
    pub purpose: &'static str,
    pub proxy: Option<String>,
}

/// What a model can do.
#[derive(Debug, Serialize)]
pub struct AllowedReport {
    /// On Cursor's side.
    pub web_search: bool,
    pub web_fetch: bool,
    /// Cursor's own tools are handed to the client's equivalents.
    pub native_tools: bool,
    /// MCP servers that ibeam starts or calls.
    pub mcp: Vec<McpLine>,
}

/// A server that the user configured; no argument, no variable, no header.
#[derive(Debug, Serialize)]
pub struct McpLine {
    pub name: String,
    /// The program that is run, or the host that is called.
    pub reached: String,
    pub source: String,
    /// It is started with the gateway.
    pub starts: bool,
    /// The tools that models may call, as patterns.
    pub offered: Vec<String>,
}

/// What is looked at.
#[derive(Debug)]
pub struct AuditSubject<'a> {
    pub config: &'a Config,
    /// Where the setting `api_key` comes from.
    pub key_from: &'a SettingOrigin,
    /// None: there is no home directory.
    pub here: Option<&'a LocalUser>,
    /// The file of the settings, there or not.
    pub config_file: Option<&'a Path>,
}

/// Looks at everything.
#[must_use]
pub fn audit(subject: &AuditSubject<'_>) -> AuditReport {
    let config = subject.config;
    let mut found = AuditFindings::default();
    let keys = found.keys(config, subject.key_from);
    let listener = found.listener(config, keys.count > 0);
    let credential = found.credential(subject);
    let mcp = found.mcp(config);
    let cursor_agent = found.child(config, credential.source.is_some());
    let files = files::look(subject, &mut found);
    AuditReport {
        version: env!("CARGO_PKG_VERSION"),
        ok: found.problems.is_empty(),
        problems: found.problems,
        notes: found.notes,
        listener,
        keys,
        credential,
        backend: match &config.backend {
            Backend::Cursor => config.backend_kind().name(),
            Backend::Sim { .. } => "sim",
        },
        hosts: contacts(config),
        allowed: AllowedReport {
            web_search: config.allow.web_search,
            web_fetch: config.allow.web_fetch,
            native_tools: config.tools.native,
            mcp,
        },
        cursor_agent,
        files,
    }
}

#[derive(Debug, Default)]
struct AuditFindings {
    problems: Vec<AuditProblem>,
    notes: Vec<String>,
}

impl AuditFindings {
    fn problem(&mut self, what: impl Into<String>, fix: Option<String>) {
        let fault = AuditProblem { what: what.into(), fix };
        if !self.problems.contains(&fault) {
            self.problems.push(fault);
        }
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// What is wrong with one of our own files. Modes and links are judged with the list
    /// of files.
    fn file_error(&mut self, error: &AuthFileError) {
        if !matches!(error, AuthFileError::File(FileError::Exposed { .. } | FileError::Link { .. }))
        {
            self.problem(net::chain(error), None);
        }
    }

    fn keys(&mut self, config: &Config, from: &SettingOrigin) -> KeyReport {
        let listed =
            config.access.keys_file.as_deref().map_or(Ok(Vec::new()), |p| KeyFile::at(p).list());
        let list = listed.unwrap_or_else(|error| {
            if !matches!(error, KeyFileError::Open(_)) {
                self.problem(format!("{}: {}", net::chain(&error), error.hint()), None);
            }
            Vec::new()
        });
        KeyReport {
            setting: config.access.api_key.as_ref().map(|_| from.to_string()),
            count: list.len(),
            list,
        }
    }

    fn listener(&mut self, config: &Config, keys: bool) -> ListenerReport {
        let local = config.exposed().is_none();
        let key_needed = Keys::new(config).are_required();
        if let Err(why) = config.check_serving(keys) {
            self.problem(why.to_string(), Some("ibeam keys add NAME".to_owned()));
        } else if !key_needed && config.places().any(|place| matches!(place, Listen::Tcp(_))) {
            self.note(
                "no key is needed, so every user of this machine can use your plan; \
                 `ibeam keys add NAME` changes that",
            );
        }
        if !local && config.server.tls.is_none() {
            self.note("keys and conversations cross the network unencrypted; see `tls_cert`");
        }
        for weak in config.weak_points(key_needed) {
            self.problem(weak, None);
        }
        if key_needed && config.access.cors_origins.iter().any(|origin| origin == "*") {
            self.note("every web page that knows a key may call (`cors_origins` has `*`)");
        }
        if key_needed && config.access.api_key.is_none() && !keys {
            self.note(
                "a key is required, but none exists, so no client can call; `ibeam keys add NAME`",
            );
        }
        let mut hosts = vec!["localhost".to_owned(), "*.localhost".to_owned()];
        hosts.extend(config.access.hosts.iter().cloned());
        ListenerReport {
            address: config.server.listen.to_string(),
            also: config.server.also.iter().map(ToString::to_string).collect(),
            unix: config.places().all(|place| matches!(place, Listen::Unix(_))),
            local,
            tls: config.server.tls.is_some(),
            key_needed,
            open_paths: &OPEN_PATHS,
            hosts,
            any_address: config.exposed().is_some(),
            origins: config.access.cors_origins.clone(),
        }
    }

    fn mcp(&mut self, config: &Config) -> Vec<McpLine> {
        let gathered = gather(&config.mcp, &SearchPaths::here());
        for warning in gathered.warnings {
            self.note(warning);
        }
        let line = |spec: ServerSpec| McpLine {
            starts: config.mcp.enabled && spec.named,
            reached: spec.way.to_string(),
            source: spec.source.display().to_string(),
            offered: if spec.offer { spec.allow } else { Vec::new() },
            name: spec.name,
        };
        gathered.servers.into_iter().map(line).collect()
    }

    fn credential(&mut self, subject: &AuditSubject<'_>) -> CredentialReport {
        let config = subject.config;
        let profile = config.account.profile.to_string();
        let mut report = CredentialReport { profile, ..CredentialReport::default() };
        if matches!(config.backend, Backend::Sim { .. }) {
            return report;
        }
        if config.uses_cursor_agent() {
            report.source = Some("`cursor-agent` itself".to_owned());
            return report;
        }
        if let Some(token) = &config.account.access_token {
            let credential = Credential::of_access_token(token.clone());
            report.describe("the setting `access_token`".to_owned(), &credential);
            return report;
        }
        let Some(here) = subject.here else { return report };
        match here.discover() {
            Ok(discovery) => {
                if let Some(found) = &discovery.found {
                    report.describe(found.source.to_string(), &found.credential);
                }
                report.unused = discovery.refused.iter().map(ToString::to_string).collect();
                if report.source.is_none() {
                    self.note("not signed in to Cursor");
                }
            }
            Err(DiscoverError::File(error)) => self.file_error(&error),
            Err(error @ DiscoverError::Variable(_)) => self.problem(error.to_string(), None),
        }
        report
    }
}

impl CredentialReport {
    fn describe(&mut self, source: String, credential: &Credential) {
        let token = credential.access_token.as_ref().map(SecretString::expose_secret);
        let claims = token.map(jwt::claims).unwrap_or_default();
        let Account { email, sub } = credential.account.clone().unwrap_or_default();
        self.source = Some(source);
        self.email = claims.email.or(email);
        self.sub = claims.subject.or(sub);
        self.expires = claims.expires.or(credential.expires);
        self.renewable = credential.refresh_token.is_some() || credential.api_key.is_some();
    }
}

/// The hosts that are contacted. The simulator is in this process, and the CLI calls by itself.
fn contacts(config: &Config) -> Vec<HostLine> {
    if matches!(config.backend, Backend::Sim { .. }) || config.uses_cursor_agent() {
        return Vec::new();
    }
    let proxy = Proxy::from_env();
    let line = |contact: hosts::Contact| HostLine {
        proxy: match contact.by {
            ContactedBy::Ibeam => proxy.name(&contact.host.example()),
            ContactedBy::Browser => None,
        },
        origin: contact.host.to_string(),
        by: match contact.by {
            ContactedBy::Ibeam => "ibeam",
            ContactedBy::Browser => "browser",
        },
        purpose: contact.purpose,
    };
    let upstream = &config.upstream;
    hosts::contacts(&upstream.api, upstream.follows_service()).into_iter().map(line).collect()
}

#[cfg(test)]
#[cfg(unix)]
#[path = "audit_tests.rs"]
mod tests;
