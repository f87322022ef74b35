//! The words of a command line. By hand, because xtask is compiled before anything else can
//! start, and clap with its derive macros takes longer to compile than all the rest of it.

use std::{collections::VecDeque, fmt::Display, str::FromStr};

use anyhow::{Context as _, bail};

pub(crate) struct TaskArgs {
    words: VecDeque<String>,
    /// What follows `--`.
    rest: Vec<String>,
}

impl TaskArgs {
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        let mut words: VecDeque<String> = words.into_iter().collect();
        let mut rest = Vec::new();
        if let Some(at) = words.iter().position(|word| word == "--") {
            rest = words.split_off(at).into_iter().skip(1).collect();
        }
        Self { words, rest }
    }

    /// The next word, unless it is an option.
    pub(crate) fn word(&mut self) -> Option<String> {
        self.words.pop_front_if(|word| !word.starts_with('-'))
    }

    /// Whether an option without a value is there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let found = self.words.iter().position(|word| word == name);
        found.map(|at| self.words.remove(at)).is_some()
    }

    /// The value of an option: the next word, or what follows `=`.
    pub(crate) fn value<T: FromStr<Err: Display>>(
        &mut self,
        name: &str,
    ) -> anyhow::Result<Option<T>> {
        let inline = format!("{name}=");
        let found = self.words.iter().position(|word| word == name || word.starts_with(&inline));
        let Some(word) = found.and_then(|at| self.words.remove(at)) else { return Ok(None) };
        let text = match word.strip_prefix(&inline) {
            Some(text) => Some(text.to_owned()),
            None => {
                found.and_then(|at| self.words.remove(at)).filter(|text| !text.starts_with("--"))
            }
        };
        let text = text.with_context(|| format!("{name} needs a value"))?;
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(error) => bail!("{name}: invalid value {text:?}: {error}"),
        }
    }

    /// The values of an option that may be given more than once.
    pub(crate) fn values(&mut self, name: &str) -> anyhow::Result<Vec<String>> {
        let mut all = Vec::new();
        while let Some(value) = self.value(name)? {
            all.push(value);
        }
        Ok(all)
    }

    /// What follows `--`, for another program.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::mem::take(&mut self.rest)
    }

    /// Fails if something was not understood.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.words.extend(self.rest);
        match self.words.front() {
            Some(word) => {
                bail!("unexpected argument {word:?}; `cargo xtask --help` lists the options")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
