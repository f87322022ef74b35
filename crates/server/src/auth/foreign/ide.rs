//! The IDE's `state.vscdb`. It is opened as a file that does not change: SQLite then
//! takes no lock, makes no companion file and writes nothing, even while the IDE runs.
//! What the IDE has not put into the main file yet is not seen.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::Value;

use super::{ForeignOutcome, some};
use crate::auth::{Account, Credential, file::named_token};

const ACCESS: &str = "cursorAuth/accessToken";
const REFRESH: &str = "cursorAuth/refreshToken";
const EMAIL: &str = "cursorAuth/cachedEmail";

/// No token is longer.
const LONGEST: i64 = 64 << 10;

pub(in crate::auth) fn read(path: &Path) -> ForeignOutcome {
    // The driver's errors name the file and the statement, and no value.
    let values = query(path).map_err(|error| format!("cannot be read: {error}"))?;
    let [access, refresh, email] = values;
    let secret =
        |value: Option<String>, name: &str| value.map(|text| named_token(name, &text)).transpose();
    some(Credential {
        access_token: secret(access, ACCESS)?,
        refresh_token: secret(refresh, REFRESH)?,
        api_key: None,
        account: email.map(|email| Account { email: Some(email), sub: None }),
        expires: None,
    })
}

fn query(path: &Path) -> rusqlite::Result<[Option<String>; 3]> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path), flags)?;
    let mut statement = connection
        .prepare("SELECT value FROM ItemTable WHERE key = ?1 AND length(value) <= ?2 LIMIT 1")?;
    let mut value = |key: &str| -> rusqlite::Result<Option<String>> {
        let mut rows = statement.query((key, LONGEST))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        // Text in a column for bytes: which of the two it is depends on the IDE's version.
        Ok(match row.get_ref(0)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => plain(bytes),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
        })
    };
    Ok([value(ACCESS)?, value(REFRESH)?, value(EMAIL)?])
}

/// Some values are quoted as JSON has it.
fn plain(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let text = match serde_json::from_str(text) {
        Ok(Value::String(inner)) => inner.trim().to_owned(),
        Ok(Value::Null) => return None,
        _ => text.to_owned(),
    };
    (!text.is_empty()).then_some(text)
}

/// Every byte that could mean something in a URI is escaped.
fn uri(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut uri = String::from("file:");
    if cfg!(windows) {
        // `C:\…` is `file:///C:/…`.
        uri.push_str("///");
    }
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            b'\\' if cfg!(windows) => uri.push('/'),
            b':' if cfg!(windows) => uri.push(':'),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?mode=ro&immutable=1"
}
