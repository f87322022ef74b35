//! An archive for a bug report: what was found, the settings, the versions, what the
//! gateway said of itself and logged. No secret, no account, no name of the user.
//!
//! *Invariant:* every byte of it passes through [`Veil`].

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use ibeam_core::redact;
use secrecy::{ExposeSecret as _, SecretString};

use super::{DoctorReport, look};
use crate::doctor::audit;
use ibeam_server::{
    config::{self, Resolution},
    files::private,
};

/// The folder that the archive unpacks to.
const FOLDER: &str = "ibeam-doctor";
/// The end of a log that is packed.
const LOG: u64 = 256 << 10;
/// Logs that are looked at.
const LOGS: usize = 4;

/// Stands where a secret stood.
const MASKED: &str = "***";

/// Stands where the account's name stood.
const SOMEBODY: &str = "(account)";

/// One file of the archive.
#[derive(Debug)]
pub struct BundlePart {
    pub name: String,
    /// For the user, who should know what is handed on.
    pub what: &'static str,
    text: String,
}

/// Hides secrets and personal data.
#[derive(Clone, Debug, Default)]
pub struct Veil {
    home: Option<String>,
    names: Vec<String>,
    /// In every form in which they are written, the longest first.
    secrets: Vec<SecretString>,
}

impl Veil {
    /// `names`: what the account is called.
    #[must_use]
    pub fn new(home: Option<&Path>, names: impl IntoIterator<Item = String>) -> Self {
        let long = |text: &String| text.len() > 3;
        let home = home.map(|home| home.display().to_string()).filter(long);
        Self { home, names: names.into_iter().filter(long).collect(), secrets: Vec::new() }
    }

    /// Also masks these, wherever they are: what is in a log need not look like a secret.
    #[must_use]
    pub fn masking(mut self, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        for secret in secrets {
            let text = secret.expose_secret();
            let json = serde_json::Value::from(text).to_string();
            let json = json.trim_start_matches('"').trim_end_matches('"');
            let forms = [json.to_owned(), percent_encoded(text)];
            self.secrets.extend(forms.into_iter().filter(|form| form != text).map(Into::into));
            self.secrets.push(secret);
        }
        // One may be a part of another.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        self
    }

    #[must_use]
    pub fn over(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            let secret = secret.expose_secret();
            if text.contains(secret) {
                text = text.replace(secret, MASKED);
            }
        }
        let mut text = redact::text(&text).into_owned();
        for name in &self.names {
            text = text.replace(name, SOMEBODY);
        }
        // Those of other accounts, too: logs are older than the sign-in.
        text = without(&text, '@', is_address);
        text = without(&text, '|', |_, id| id.starts_with("user_"));
        match &self.home {
            Some(home) => text.replace(home, "~"),
            None => text,
        }
    }
}

/// As it is written in a URL.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Whether these stand on the two sides of the `@` in an address.
fn is_address(_: &str, host: &str) -> bool {
    let end = host.trim_end_matches('.').rsplit_once('.').map(|(_, end)| end);
    end.is_some_and(|end| end.len() > 1 && end.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// The text without names of accounts: words on both sides of `mark` that are one together.
fn without(text: &str, mark: char, is_name: impl Fn(&str, &str) -> bool) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-');
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split(mark);
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let before = out.trim_end_matches(part).len();
        let after = piece.len() - piece.trim_start_matches(part).len();
        let (name, rest) = piece.split_at_checked(after).unwrap_or((piece, ""));
        let first = out.get(before..).unwrap_or_default();
        if !first.is_empty() && is_name(first, name) {
            out.truncate(before);
            out.push_str(SOMEBODY);
            out.push_str(rest);
        } else {
            out.push(mark);
            out.push_str(piece);
        }
    }
    out
}

/// What goes into an archive.
#[derive(Debug)]
pub struct BundleContents<'a> {
    pub report: &'a DoctorReport,
    /// The same for people.
    pub page: &'a str,
    pub settings: &'a Resolution,
    pub audit: audit::AuditReport,
}

/// Gathers all parts.
///
/// # Errors
/// One of them cannot be written as JSON.
pub async fn parts(
    contents: BundleContents<'_>,
    veil: &Veil,
) -> serde_json::Result<Vec<BundlePart>> {
    let BundleContents { report, page, settings, mut audit } = contents;
    audit.credential.email = None;
    audit.credential.sub = None;
    let mut parts = vec![
        part("report.txt", "the report", page.to_owned()),
        part("report.json", "the report as JSON", serde_json::to_string_pretty(report)?),
        part("settings.txt", "every setting, without secrets", shown(settings)),
        part("versions.txt", "versions, and which variables are set", versions(report)),
        part(
            "audit.json",
            "the output of `ibeam audit`, without the account",
            serde_json::to_string_pretty(&audit)?,
        ),
    ];
    let health = look::healths().await;
    if !health.is_empty() {
        let text = serde_json::to_string_pretty(&health)?;
        parts.push(part("health.json", "the health of the running gateways", text));
    }
    parts.extend(logs());
    for part in &mut parts {
        part.text = veil.over(&part.text);
    }
    Ok(parts)
}

fn part(name: &str, what: &'static str, text: String) -> BundlePart {
    BundlePart { name: name.to_owned(), what, text }
}

fn shown(settings: &Resolution) -> String {
    let line = |shown: &config::ShownSetting| {
        let value = if shown.value.is_empty() { "-" } else { &shown.value };
        format!("{}\t{value}\t{}\n", shown.name, shown.origin)
    };
    settings.shown.iter().map(line).collect()
}

/// Of variables only the names: what they hold may be secret.
fn versions(report: &DoctorReport) -> String {
    let system = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut text = format!(
        "ibeam {}\n{} {} {}\n\n",
        report.version,
        std::env::consts::OS,
        system.trim(),
        std::env::consts::ARCH
    );
    let ours = |name: &String| {
        let name = name.to_ascii_uppercase();
        name.starts_with("IBEAM_") || name.starts_with("CURSOR_") || name.ends_with("_PROXY")
    };
    for name in config::environment().into_keys().filter(ours) {
        text.push_str(&name);
        text.push_str(" is set\n");
    }
    text
}

/// The ends of the logs of gateways in the background.
fn logs() -> Vec<BundlePart> {
    let Some(state) = config::state_dir() else { return Vec::new() };
    let Ok(entries) = state.read_dir() else { return Vec::new() };
    let is_log = |path: &Path| {
        path.extension().is_some_and(|extension| extension == "log") && path.is_file()
    };
    let mut paths: Vec<_> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|p| is_log(p)).collect();
    paths.sort_unstable();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        let text = tail(path).ok()?;
        Some(BundlePart { name, what: "the last lines of a gateway's log", text })
    };
    paths.iter().take(LOGS).filter_map(read).collect()
}

/// Whole lines: the first may be half of one, and half a secret is not known as one.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG)))?;
    let mut bytes = Vec::new();
    file.take(LOG).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match (length > LOG, text.split_once('\n')) {
        (true, Some((_, rest))) => rest.to_owned(),
        _ => text,
    })
}

/// Writes the archive, for its owner alone. A file that is there stays.
///
/// # Errors
/// It is there already, or cannot be written.
pub fn write(path: &Path, parts: &[BundlePart], now: u64) -> io::Result<()> {
    let file = private::owner_only(OpenOptions::new().write(true).create_new(true)).open(path)?;
    // Half an archive would only be in the way of the next.
    pack(file, parts, now).inspect_err(|_| drop(fs::remove_file(path)))
}

fn pack(file: File, parts: &[BundlePart], now: u64) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for part in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(part.text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now);
        let name = format!("{FOLDER}/{}", part.name);
        archive.append_data(&mut header, name, part.text.as_bytes())?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
