//! Well-known names that a plan may not list, and what they mean in it.
//!
//! Clients come with names built in: a chat program asks for `gpt-4o`, a coding
//! tool for `claude-3-5-haiku-20241022`. Each such name stands for a kind of model,
//! and means the newest of that kind the user has. When the user has none, it means
//! the backend's own choice.

use super::{ModelInfo, ModelList, family::version, slug};

/// A kind of model: the words that its ids have, and those that they do not have.
#[derive(Debug)]
struct ModelKind {
    has: &'static [&'static str],
    not: &'static [&'static str],
}

const fn kind(has: &'static [&'static str], not: &'static [&'static str]) -> ModelKind {
    ModelKind { has, not }
}

const SONNET: ModelKind = kind(&["sonnet"], &[]);
const OPUS: ModelKind = kind(&["opus"], &[]);
const HAIKU: ModelKind = kind(&["haiku"], &[]);
const FABLE: ModelKind = kind(&["fable"], &[]);
const SMALL: [&str; 6] = ["mini", "nano", "luna", "spark", "codex", "terra"];
const GPT: ModelKind = kind(&["gpt"], &SMALL);
const GPT_ANY: ModelKind = kind(&["gpt"], &[]);
const GPT_MINI: ModelKind = kind(&["gpt", "mini"], &["codex"]);
const GPT_LUNA: ModelKind = kind(&["gpt", "luna"], &[]);
const GPT_NANO: ModelKind = kind(&["gpt", "nano"], &[]);
const CODEX: ModelKind = kind(&["codex"], &["mini", "spark"]);
const GEMINI_PRO: ModelKind = kind(&["gemini", "pro"], &[]);
const GEMINI_FLASH: ModelKind = kind(&["gemini", "flash"], &[]);
const GROK: ModelKind = kind(&["grok"], &[]);
const KIMI: ModelKind = kind(&["kimi"], &[]);
const GLM: ModelKind = kind(&["glm"], &[]);
const COMPOSER: ModelKind = kind(&["composer"], &[]);

/// The kinds that a name stands for, best first. A table to extend: the first row with a matching
/// pattern counts; `*` at the end of a pattern matches any rest.
const TABLE: &[(&str, &[ModelKind])] = &[
    ("sonnet*", &[SONNET, OPUS, HAIKU]),
    ("opus*", &[OPUS, FABLE, SONNET]),
    ("haiku*", &[HAIKU, SONNET]),
    ("fable*", &[FABLE, OPUS, SONNET]),
    ("gpt-3.5*", &[GPT_MINI, GPT_LUNA, GPT_NANO, GPT_ANY]),
    ("gpt-4o-mini*", &[GPT_MINI, GPT_LUNA, GPT_NANO, GPT_ANY]),
    ("gpt-4.1-mini*", &[GPT_MINI, GPT_LUNA, GPT_NANO, GPT_ANY]),
    ("gpt-4.1-nano*", &[GPT_NANO, GPT_LUNA, GPT_MINI, GPT_ANY]),
    ("gpt-4*", &[GPT, GPT_ANY]),
    ("chatgpt*", &[GPT, GPT_ANY]),
    ("gpt", &[GPT, GPT_ANY]),
    ("gpt-5", &[GPT, GPT_ANY]),
    ("gpt-5-chat*", &[GPT, GPT_ANY]),
    ("gpt-5-mini*", &[GPT_MINI, GPT_LUNA, GPT_NANO, GPT_ANY]),
    ("gpt-5-nano*", &[GPT_NANO, GPT_LUNA, GPT_MINI, GPT_ANY]),
    ("gpt-5-codex*", &[CODEX, GPT, GPT_ANY]),
    // Codex offers to switch to these, and writes that into its settings.
    ("gpt-6-luna*", &[GPT_LUNA, GPT_MINI, GPT_NANO, GPT_ANY]),
    ("gpt-6*", &[GPT, GPT_ANY]),
    ("codex*", &[CODEX, GPT, GPT_ANY]),
    ("o1-mini*", &[GPT_MINI, GPT_LUNA, GPT_ANY]),
    ("o3-mini*", &[GPT_MINI, GPT_LUNA, GPT_ANY]),
    ("o4-mini*", &[GPT_MINI, GPT_LUNA, GPT_ANY]),
    ("o1*", &[GPT, GPT_ANY]),
    ("o3*", &[GPT, GPT_ANY]),
    ("gemini-1.5-flash*", &[GEMINI_FLASH, GEMINI_PRO]),
    ("gemini-2.0-flash*", &[GEMINI_FLASH, GEMINI_PRO]),
    ("gemini-2.5-flash*", &[GEMINI_FLASH, GEMINI_PRO]),
    ("gemini-flash*", &[GEMINI_FLASH, GEMINI_PRO]),
    ("gemini-1.5*", &[GEMINI_PRO, GEMINI_FLASH]),
    ("gemini-2.5*", &[GEMINI_PRO, GEMINI_FLASH]),
    ("gemini-pro*", &[GEMINI_PRO, GEMINI_FLASH]),
    ("gemini", &[GEMINI_PRO, GEMINI_FLASH]),
    ("grok", &[GROK]),
    ("kimi", &[KIMI]),
    ("glm", &[GLM]),
    ("composer", &[COMPOSER]),
];

const CLAUDE: &str = "claude-";

/// Any other `claude-…` name.
const ANY_CLAUDE: &[ModelKind] = &[SONNET, OPUS, FABLE, HAIKU];

/// The names `ibeam models --aliases` shows: what people write, what Anthropic's tools have
/// built in (small models for their background work included), what OpenAI's have.
const SHOWN: [&str; 25] = [
    "sonnet",
    "opus",
    "haiku",
    "fable",
    "claude-sonnet-4-5",
    "claude-sonnet-4-5-20250929",
    "claude-3-5-sonnet-20241022",
    "claude-opus-4-1-20250805",
    "claude-opus-4-5",
    "claude-haiku-4-5",
    "claude-haiku-4-5-20251001",
    "claude-3-5-haiku-20241022",
    "claude-*",
    "gpt-3.5-turbo",
    "gpt-4",
    "gpt-4o",
    "gpt-4o-mini",
    "gpt-5",
    "codex",
    "o3",
    "gemini",
    "grok",
    "kimi",
    "glm",
    "composer",
];

/// What an alias leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AliasTarget<'a> {
    Model(&'a ModelInfo),
    Auto,
}

impl ModelList {
    /// What a well-known name means here; `None` when it is not well known.
    pub(super) fn alias(&self, name: &str) -> Option<AliasTarget<'_>> {
        let name = name.to_ascii_lowercase();
        let kinds = kinds(&name)?;
        let model = self
            .same_version(kinds, &name)
            .or_else(|| kinds.iter().find_map(|kind| self.newest(kind)));
        Some(model.map_or(AliasTarget::Auto, AliasTarget::Model))
    }

    /// Every alias that is worth showing, with the public id of its target.
    #[must_use]
    pub fn aliases(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = self
            .visible()
            .flat_map(|model| {
                model.aliases.iter().map(|alias| (alias.clone(), model.public_id().to_owned()))
            })
            .filter(|(alias, id)| alias != id)
            .collect();
        for name in SHOWN {
            // Anthropic's names are listed even where they mean themselves, because people ask for
            // them.
            let listed = self.models().iter().any(|model| model.id == name);
            let known = listed && !name.starts_with(CLAUDE);
            if known || rows.iter().any(|(alias, _)| alias == name) {
                continue;
            }
            if let Ok(resolved) = self.resolve(name, None) {
                let target = resolved.info.as_ref().map_or(super::AUTO_NAME, ModelInfo::public_id);
                rows.push((name.to_owned(), target.to_owned()));
            }
        }
        rows
    }

    /// A `claude-…` name may have a date behind the version: then that version is meant, if
    /// the user has it.
    fn same_version(&self, kinds: &[ModelKind], name: &str) -> Option<&ModelInfo> {
        let (kind, version_of) = (kinds.first()?, version(name));
        let same = |model: &&ModelInfo| {
            kind.fits(&model.id) && version(slug::split(&model.id).0) == version_of
        };
        self.visible().find(|model| name.starts_with(CLAUDE) && same(model))
    }

    /// The newest of a kind. Among equals the plainest name wins, then the order of
    /// the list.
    fn newest(&self, kind: &ModelKind) -> Option<&ModelInfo> {
        let rank = |model: &ModelInfo| {
            let (base, wish) = slug::split(&model.id);
            let extra = usize::from(!wish.is_empty());
            (version(base), std::cmp::Reverse((extra, base.len())))
        };
        let fitting = self.visible().filter(|model| kind.fits(&model.id));
        // Not `max_by_key`: that would prefer the last of equals.
        fitting.reduce(|best, next| if rank(next) > rank(best) { next } else { best })
    }
}

impl ModelKind {
    fn fits(&self, id: &str) -> bool {
        let has = |word: &&str| id.split(['-', '.']).any(|part| part == *word);
        self.has.iter().all(has) && !self.not.iter().any(has)
    }
}

fn kinds(name: &str) -> Option<&'static [ModelKind]> {
    let claude = name.strip_prefix(CLAUDE).or((name == "claude").then_some(""));
    if let Some(rest) = claude {
        let tier = rest.split('-').find_map(|word| row(word).filter(|_| is_tier(word)));
        return Some(tier.unwrap_or(ANY_CLAUDE));
    }
    row(name)
}

fn is_tier(word: &str) -> bool {
    matches!(word, "sonnet" | "opus" | "haiku" | "fable")
}

fn row(name: &str) -> Option<&'static [ModelKind]> {
    TABLE
        .iter()
        .find(|(pattern, _)| match pattern.strip_suffix('*') {
            Some(start) => name.strip_prefix(start).is_some_and(ends_a_word),
            None => name == *pattern,
        })
        .map(|(_, kinds)| *kinds)
}

/// So that `gpt-4*` covers `gpt-4o` and `gpt-4-turbo`, and `o1*` not `o10`.
fn ends_a_word(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_ascii_digit())
}
