//! What the CLI prints when it is asked about itself: its models, who is signed in, its
//! version. It is made for people, so anything may stand around the lines that count.

use serde_json::Value;

use super::plain::{one_line, plain};
use crate::models::{AUTO_NAME, AUTO_WIRE_ID, Likeness, ModelInfo, ModelList, ModelPick, likeness};

/// The output of `cursor-agent models`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliModels {
    pub list: ModelList,
    /// The one that the CLI is set to.
    pub current: Option<String>,
    /// The one that it would choose.
    pub default: Option<String>,
}

/// The output of `cursor-agent status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInStatus {
    SignedIn {
        /// An e-mail address, as a rule.
        account: Option<String>,
    },
    SignedOut,
    /// It says neither.
    Unclear,
}

/// More lines than any plan has models.
const MAX_MODELS: usize = 1000;
const MAX_ID: usize = 128;

/// Reads `id - Display Name (current)` lines. Builds that print only ids are understood
/// as well. Whether the models can be shown `images` is up to the protocol that is spoken
/// with the CLI: the list does not say.
#[must_use]
pub fn models(output: &str, images: bool) -> CliModels {
    let text = plain(output);
    let lines = || text.lines().map(without_bullet).take(MAX_MODELS);
    let mut entries: Vec<ModelLine<'_>> = lines().filter_map(ModelLine::read).collect();
    if entries.is_empty() {
        entries = lines().filter_map(ModelLine::of_id).collect();
    }
    let marked = |is: fn(&ModelLine<'_>) -> bool| {
        entries.iter().find(|entry| is(entry)).map(|entry| entry.id.to_owned())
    };
    CliModels {
        current: marked(|entry| entry.current),
        default: marked(|entry| entry.default),
        list: ModelList::new(entries.iter().map(|entry| entry.info(images)).collect()),
    }
}

/// The model in the words of the CLI. Some builds take nothing but what they list.
#[must_use]
pub fn spelled(model: &ModelPick, list: Option<&ModelList>) -> String {
    if model.id == AUTO_WIRE_ID {
        return AUTO_NAME.to_owned();
    }
    let written = written_out(model);
    match list {
        Some(list) => listed(list, &written).to_owned(),
        None => written,
    }
}

/// The id of a model, and in brackets what else was chosen.
fn written_out(model: &ModelPick) -> String {
    if model.parameters.is_empty() {
        return model.id.clone();
    }
    let parameters = model.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    format!("{}[{}]", model.id, parameters.collect::<Vec<_>>().join(","))
}

/// The id under which the list has what `wanted` means, be it a slug or one with brackets.
/// What the list does not have stays as it is: the CLI itself may know it.
fn listed<'a>(list: &'a ModelList, wanted: &'a str) -> &'a str {
    list.models()
        .iter()
        .filter_map(|model| Some((likeness(wanted, &model.id)?, model.id.as_str())))
        .filter(|(alike, _)| *alike >= Likeness::Variant)
        .max_by_key(|(alike, _)| *alike)
        .map_or(wanted, |(_, id)| id)
}

struct ModelLine<'a> {
    id: &'a str,
    name: &'a str,
    current: bool,
    default: bool,
}

impl<'a> ModelLine<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (id, name) = line.split_once(" - ")?;
        let id = id.trim();
        let mut entry = Self { id, name: name.trim(), current: false, default: false };
        while let Some((name, mark)) = entry.name.strip_suffix(')').and_then(|n| n.rsplit_once('('))
        {
            let known = |word: &str| matches!(word, "current" | "default");
            if !mark.split(',').map(str::trim).all(known) {
                break;
            }
            entry.current |= mark.contains("current");
            entry.default |= mark.contains("default");
            entry.name = name.trim_end();
        }
        is_id(id).then_some(entry)
    }

    fn of_id(line: &'a str) -> Option<Self> {
        let is_lower = line.chars().all(|c| !c.is_ascii_uppercase());
        let is_model = line == AUTO_NAME || line.contains(|c: char| c.is_ascii_digit());
        (is_id(line) && is_lower && is_model).then_some(Self {
            id: line,
            name: line,
            current: false,
            default: false,
        })
    }

    fn info(&self, images: bool) -> ModelInfo {
        let known = ModelInfo::from_id(self.id);
        let is_auto = self.id == AUTO_NAME;
        ModelInfo {
            name: if self.name.is_empty() { self.id.to_owned() } else { self.name.to_owned() },
            thinking: known.thinking || self.name.contains("Thinking"),
            images,
            // Here it goes by the name that people use.
            aliases: if is_auto { vec![AUTO_WIRE_ID.to_owned()] } else { Vec::new() },
            ..known
        }
    }
}

fn without_bullet(line: &str) -> &str {
    let line = line.trim();
    let bullet =
        ["* ", "- ", "• ", "> ", "❯ ", "→ "].iter().find_map(|mark| line.strip_prefix(mark));
    bullet.unwrap_or(line).trim()
}

fn is_id(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._[]=,/+".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && text.len() <= MAX_ID && text.chars().all(is_part)
}

impl SignInStatus {
    /// Reads what is printed for people, and what `--format json` prints.
    #[must_use]
    pub fn read(output: &str) -> Self {
        let text = plain(output);
        let object = text.find('{').and_then(|from| {
            let values = serde_json::Deserializer::from_str(text.get(from..)?).into_iter::<Value>();
            values.flatten().next()
        });
        object.and_then(|object| Self::of_json(&object)).unwrap_or_else(|| Self::of_text(&text))
    }

    fn of_json(object: &Value) -> Option<Self> {
        let flag = |key: &str| object.get(key).and_then(Value::as_bool);
        let word = object.get("status").and_then(Value::as_str).unwrap_or_default();
        let by_word = match word.to_ascii_lowercase().replace(['_', '-', ' '], "").as_str() {
            "authenticated" | "loggedin" => Some(true),
            "unauthenticated" | "notauthenticated" | "loggedout" | "notloggedin" => Some(false),
            _ => None,
        };
        let flags = ["isAuthenticated", "authenticated", "isLoggedIn", "loggedIn"];
        let signed_in = flags.iter().find_map(|key| flag(key)).or(by_word)?;
        let account = ["/userInfo/email", "/user/email", "/userEmail", "/email"]
            .iter()
            .find_map(|path| object.pointer(path).and_then(Value::as_str))
            .and_then(account);
        Some(if signed_in { Self::SignedIn { account } } else { Self::SignedOut })
    }

    fn of_text(text: &str) -> Self {
        let lower = text.to_lowercase();
        let out = ["not logged in", "not authenticated", "logged out", "unauthenticated"];
        if out.iter().any(|phrase| lower.contains(phrase)) {
            return Self::SignedOut;
        }
        let Some(line) = text.lines().find(|line| line.to_lowercase().contains("logged in")) else {
            return Self::Unclear;
        };
        let named = line.split_once(" as ").map(|(_, name)| name);
        // Some builds print the address on a line of its own.
        let anywhere = || text.split_whitespace().find(|word| word.contains('@'));
        Self::SignedIn { account: named.or_else(anywhere).and_then(account) }
    }
}

fn account(text: &str) -> Option<String> {
    let name = text.trim().trim_matches(['(', ')', '<', '>', ',']).trim_end_matches('.');
    let name = one_line(name, MAX_ID);
    (!name.is_empty()).then_some(name)
}

/// The version of Cursor's CLI, such as `2026.01.28-fd13201`. `None`: this is another
/// program, and the name `agent` is not rare.
#[must_use]
pub fn version(output: &str) -> Option<String> {
    let text = plain(output);
    text.split_whitespace().take(64).find(|word| is_version(word)).map(str::to_owned)
}

/// Year, month and day, then the commit, or the time of day as `01-15-52`.
fn is_version(word: &str) -> bool {
    let Some((date, commit)) = word.split_once('-') else { return false };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let sizes: Vec<usize> = date.split('.').map(str::len).collect();
    let is_date = matches!(sizes[..], [4, 1 | 2, 1 | 2]) && date.split('.').all(digits);
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let is_build = |part: &str| !part.is_empty() && part.chars().all(is_hex);
    is_date && commit.len() <= 64 && commit.split('-').all(is_build)
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
