//! How a file of ours is recognised: by a line that says so, with a sum over the rest. A file that
//! was changed since is the user's.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use sha2::{Digest as _, Sha256};

use super::{CommentStyle, FileEncoding, ServiceFile};

/// What begins the line.
const MARK: &str = "ibeam-service";

/// No such file is longer.
const LONGEST: u64 = 256 << 10;

/// What the line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceStamp {
    /// How many folders were made for the file, from its own upwards.
    pub(crate) folders: usize,
    /// Where clients call.
    pub(crate) urls: Vec<String>,
}

/// Whose a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// There is no file.
    Missing,
    /// As it was written.
    Ours(ServiceStamp),
    /// Ours, and changed since.
    Changed,
    Foreign,
}

impl ServiceFile {
    /// The file's text, with its stamp.
    pub(crate) fn text(&self, stamp: &ServiceStamp) -> String {
        let (open, close) = match self.comment {
            CommentStyle::Hash => ("# ", ""),
            CommentStyle::Xml => ("<!-- ", " -->"),
        };
        let sum = sum(&format!("{}{}", self.head, self.body));
        let urls: Vec<String> = stamp.urls.iter().map(|url| escaped(url)).collect();
        let (urls, folders) = (urls.join(","), stamp.folders);
        format!(
            "{}{open}{MARK} sum={sum} folders={folders} listen={urls}{close}\n{}",
            self.head, self.body
        )
    }

    pub(crate) fn bytes(&self, stamp: &ServiceStamp) -> Vec<u8> {
        let text = self.text(stamp);
        match self.encoding {
            FileEncoding::Utf8 => text.into_bytes(),
            FileEncoding::Utf16 => {
                let units = text.replace('\n', "\r\n");
                let units = std::iter::once(0xfeff).chain(units.encode_utf16());
                units.flat_map(u16::to_le_bytes).collect()
            }
        }
    }
}

/// Whose the file at this path is.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<FileOwner> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(LONGEST).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileOwner::Missing),
        Err(error) => return Err(error),
    };
    Ok(owner(&decoded(&bytes)))
}

fn owner(text: &str) -> FileOwner {
    let Some(line) = text.lines().find(|line| line.contains(&format!(" {MARK} sum="))) else {
        return FileOwner::Foreign;
    };
    let rest = text.replacen(&format!("{line}\n"), "", 1);
    let word = |name: &str| {
        let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default()
    };
    if word("sum") != sum(&rest) {
        return FileOwner::Changed;
    }
    let urls = word("listen").split(',').filter(|url| !url.is_empty()).map(unescaped);
    FileOwner::Ours(ServiceStamp {
        folders: word("folders").parse().unwrap_or(0),
        urls: urls.collect(),
    })
}

fn decoded(bytes: &[u8]) -> String {
    match bytes.strip_prefix(&[0xff, 0xfe]) {
        Some(wide) => {
            let (pairs, _) = wide.as_chunks::<2>();
            let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
            let text: String = char::decode_utf16(units)
                .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect();
            text.replace("\r\n", "\n")
        }
        None => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Enough to notice a change. It does not prevent one.
fn sum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// One word in a remark of any kind: a remark in XML must not have two dashes in a row.
fn escaped(url: &str) -> String {
    let mut out = String::new();
    for byte in url.bytes() {
        match byte {
            b'%' | b',' | b'-' => out.push_str(&format!("%{byte:02X}")),
            0x21..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        match part.split_at_checked(2).map(|(hex, rest)| (u8::from_str_radix(hex, 16), rest)) {
            Some((Ok(byte), rest)) => {
                bytes.push(byte);
                bytes.extend_from_slice(rest.as_bytes());
            }
            _ => bytes.extend_from_slice(part.as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
