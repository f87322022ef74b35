//! `deny.toml` as values. Only the keys that the project uses are understood.

use anyhow::{Context as _, bail};
use toml::{Table, Value};

pub(super) struct DenyConfig {
    pub(super) denied: Vec<CrateSpec>,
    /// Of which there may be a second version.
    pub(super) skipped: Vec<CrateSpec>,
    pub(super) allowed: Vec<String>,
    /// Licenses that are allowed for one crate only.
    pub(super) exceptions: Vec<(CrateSpec, Vec<String>)>,
    pub(super) allowed_git: Vec<String>,
}

/// A crate, and if they are given its versions: `name` or `name@requirement`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CrateSpec {
    pub(super) text: String,
    name: String,
    /// The numbers that are given, and whether the version has to equal them.
    version: Option<(Vec<u64>, bool)>,
}

impl DenyConfig {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut file = DenySection::new("", text.parse::<Table>()?);
        let mut graph = file.section("graph")?;
        graph.expect("all-features", &Value::Boolean(true))?;
        graph.finish()?;

        let mut bans = file.section("bans")?;
        bans.expect("multiple-versions", &"deny".into())?;
        bans.expect("wildcards", &"deny".into())?;
        bans.expect("allow-wildcard-paths", &Value::Boolean(true))?;
        let denied = specs(bans.list("deny")?)?;
        let skipped = specs(bans.list("skip")?)?;
        bans.finish()?;

        let mut licenses = file.section("licenses")?;
        // How sure cargo-deny has to be of a license that it knows by its text alone. Such crates
        // are refused here.
        licenses.take("confidence-threshold");
        let allowed = strings(licenses.list("allow")?)?;
        let mut exceptions = Vec::new();
        for entry in licenses.list("exceptions")? {
            let mut entry = DenySection::of("exceptions", entry)?;
            exceptions.push((entry.spec()?, strings(entry.list("allow")?)?));
            entry.finish()?;
        }
        let mut private = licenses.section("private")?;
        private.expect("ignore", &Value::Boolean(false))?;
        private.finish()?;
        licenses.finish()?;

        let mut sources = file.section("sources")?;
        sources.expect("unknown-registry", &"deny".into())?;
        sources.expect("unknown-git", &"deny".into())?;
        let allowed_git = strings(sources.list("allow-git")?)?;
        sources.finish()?;
        file.finish()?;
        Ok(Self { denied, skipped, allowed, exceptions, allowed_git })
    }
}

impl CrateSpec {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let Some((name, version)) = text.split_once('@') else {
            return Ok(Self { text: text.to_owned(), name: text.to_owned(), version: None });
        };
        let exact = version.starts_with('=');
        let numbers = version.trim_start_matches(['=', '^']).trim().split('.');
        let numbers: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
        let numbers = numbers.with_context(|| {
            format!("{text:?}: only versions such as 1, 1.2 and =1.2.3 are understood")
        })?;
        Ok(Self { text: text.to_owned(), name: name.to_owned(), version: Some((numbers, exact)) })
    }

    /// As Cargo reads the requirement: equal up to the first number that is not 0, and not older.
    pub(super) fn matches(&self, name: &str, version: &str) -> bool {
        if self.name != name {
            return false;
        }
        let Some((wanted, exact)) = &self.version else { return true };
        let release = version.split(['-', '+']).next().unwrap_or_default();
        let actual: Vec<u64> = release.split('.').filter_map(|part| part.parse().ok()).collect();
        let significant = wanted.iter().position(|number| *number != 0).unwrap_or(wanted.len());
        let fixed = if *exact { wanted.len() } else { wanted.len().min(significant + 1) };
        actual.get(..fixed) == wanted.get(..fixed) && actual >= *wanted
    }
}

/// A table of the file, and what of it has not been read yet.
struct DenySection {
    name: String,
    table: Table,
}

impl DenySection {
    fn new(name: &str, table: Table) -> Self {
        Self { name: name.to_owned(), table }
    }

    fn of(name: &str, value: Value) -> anyhow::Result<Self> {
        match value {
            Value::Table(table) => Ok(Self::new(name, table)),
            _ => bail!("{name} is not a table"),
        }
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    fn section(&mut self, key: &str) -> anyhow::Result<Self> {
        let value = self.take(key).with_context(|| format!("[{key}] is missing"))?;
        Self::of(&format!("{}{key}.", self.name), value)
    }

    /// A setting that this check has no other behaviour for.
    fn expect(&mut self, key: &str, wanted: &Value) -> anyhow::Result<()> {
        if self.take(key).as_ref() != Some(wanted) {
            bail!("{}{key} must be {wanted:?}: nothing else is implemented", self.name);
        }
        Ok(())
    }

    fn list(&mut self, key: &str) -> anyhow::Result<Vec<Value>> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => bail!("{}{key} is not a list", self.name),
        }
    }

    fn spec(&mut self) -> anyhow::Result<CrateSpec> {
        let value = self.take("crate");
        let text = value.as_ref().and_then(Value::as_str);
        CrateSpec::parse(text.with_context(|| format!("an entry of {} has no `crate`", self.name))?)
    }

    fn finish(self) -> anyhow::Result<()> {
        match self.table.keys().next() {
            Some(key) => bail!("{}{key} is not understood here", self.name),
            None => Ok(()),
        }
    }
}

fn specs(list: Vec<Value>) -> anyhow::Result<Vec<CrateSpec>> {
    let each = list.into_iter().map(|value| match value {
        Value::String(text) => CrateSpec::parse(&text),
        value => {
            let mut entry = DenySection::of("bans", value)?;
            let spec = entry.spec()?;
            entry.take("reason");
            entry.finish()?;
            Ok(spec)
        }
    });
    each.collect()
}

fn strings(list: Vec<Value>) -> anyhow::Result<Vec<String>> {
    let each = list.into_iter().map(|value| match value {
        Value::String(text) => Ok(text),
        other => bail!("{other:?} is not a text"),
    });
    each.collect()
}
