//! Credentials as other programs keep them. Read, never written.

pub(super) mod ide;
#[cfg(any(target_os = "macos", test))]
pub(super) mod keychain;

use std::{fs::File, io::Read as _, path::Path};

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::{
    Credential,
    file::{expires, named_token, secret, text, token},
};

/// The credential in a file, or none if that program is signed out. The error says what is wrong
/// and quotes nothing of the file.
pub(super) type ForeignOutcome = Result<Option<Credential>, String>;

/// A file of OpenCode holds the credentials of all providers.
const LONGEST: u64 = 4 << 20;

/// The provider under which OpenCode's plugins for Cursor sign in.
const OPEN_CODE_ENTRY: &str = "cursor";

/// How the user keys of Cursor begin.
const KEY_PREFIXES: [&str; 3] = ["crsr_", "key_", "cursor_key_"];

/// The Cursor CLI's file: `accessToken`, `refreshToken`, `apiKey`, all optional.
pub(super) fn cli(path: &Path) -> ForeignOutcome {
    let fields = object(path)?;
    some(Credential {
        access_token: secret(&fields, "accessToken")?,
        refresh_token: secret(&fields, "refreshToken")?,
        api_key: secret(&fields, "apiKey")?,
        ..Credential::default()
    })
}

/// `{type: "oauth", access, refresh, expires}`, a file of its own.
pub(super) fn legacy(path: &Path) -> ForeignOutcome {
    entry(&object(path)?)
}

/// The same as an entry of OpenCode's file.
pub(super) fn open_code(path: &Path) -> ForeignOutcome {
    match object(path)?.get(OPEN_CODE_ENTRY) {
        None => Ok(None),
        Some(Value::Object(fields)) => entry(fields),
        Some(_) => Err(format!("the entry `{OPEN_CODE_ENTRY}` is not an object")),
    }
}

fn entry(fields: &Map<String, Value>) -> ForeignOutcome {
    let what = text(fields, "type")?;
    match what.as_deref() {
        None | Some("oauth") => {}
        Some("api") => {
            // Plugins that have no key put a word in its place.
            let key = text(fields, "key")?;
            let key = key.filter(|key| KEY_PREFIXES.iter().any(|start| key.starts_with(start)));
            return Ok(key.as_deref().and_then(token).map(Credential::of_api_key));
        }
        Some(_) => return Err("a `type` that ibeam does not know".to_owned()),
    }
    let (refresh_token, packed_key) = match text(fields, "refresh")? {
        Some(refresh) => unpack(&refresh)?,
        None => (None, None),
    };
    some(Credential {
        access_token: secret(fields, "access")?,
        refresh_token,
        api_key: secret(fields, "apiKey")?.or(packed_key),
        account: None,
        expires: expires(fields)?,
    })
}

/// `refresh|apiKey`, where either may be missing. Neither ever has a bar in it.
fn unpack(packed: &str) -> Result<(Option<SecretString>, Option<SecretString>), String> {
    let (refresh, key) = packed.split_once('|').unwrap_or((packed, ""));
    let part = |text: &str| match text.trim() {
        "" => Ok(None),
        text => named_token("refresh", text).map(Some),
    };
    Ok((part(refresh)?, part(key)?))
}

fn some(credential: Credential) -> ForeignOutcome {
    Ok((!credential.is_empty()).then_some(credential))
}

fn object(path: &Path) -> Result<Map<String, Value>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LONGEST {
        return Err("too long".to_owned());
    }
    match serde_json::from_str(&text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("not a JSON object".to_owned()),
        Err(error) => Err(format!("not valid JSON at line {}", error.line())),
    }
}
