//! The tests that there are, by their paths, as the sources have them. Nothing is compiled for it.

use std::{borrow::Cow, collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;

/// A package, and the paths of its tests.
#[derive(Debug, Default)]
pub(super) struct TestedPackage {
    pub(super) name: String,
    /// With the name of the test target that has it; none for unit tests.
    tests: Vec<(Option<String>, String)>,
}

impl TestedPackage {
    /// Whether a test of this target, or of any, has a path that contains the filter.
    pub(super) fn has_test(&self, target: Option<&str>, filter: &str) -> bool {
        self.tests.iter().any(|(of, path)| {
            target.is_none_or(|target| of.as_deref() == Some(target)) && path.contains(filter)
        })
    }

    /// The tests in a folder of modules; or of test targets, each with modules of its own.
    fn add(&mut self, folder: &Path, has_targets: bool) -> anyhow::Result<()> {
        for path in crate::files_below(folder, |_| false)? {
            if path.extension() != Some("rs".as_ref()) {
                continue;
            }
            let names = path.strip_prefix(folder)?.with_extension("");
            let mut names = names.iter().map(|name| name.to_string_lossy());
            let target = if has_targets { names.next().map(Cow::into_owned) } else { None };
            let module = names.fold(Vec::new(), inside);
            for test in tests(&crate::read(&path)?) {
                let names = module.iter().map(String::as_str).chain([test.as_str()]);
                self.tests.push((target.clone(), names.collect::<Vec<_>>().join("::")));
            }
        }
        Ok(())
    }
}

/// All packages of the workspace.
pub(super) fn packages(root: &Path) -> anyhow::Result<BTreeMap<String, TestedPackage>> {
    let mut folders = vec![root.join("xtask"), root.join("bench")];
    for entry in fs::read_dir(root.join("crates"))? {
        folders.push(entry?.path());
    }
    let mut packages = BTreeMap::new();
    for folder in folders {
        let manifest: toml::Table = crate::read(&folder.join("Cargo.toml"))?.parse()?;
        let name = manifest.get("package").and_then(|package| package.get("name"));
        let name = name.and_then(toml::Value::as_str).context("a package without a name")?;
        let mut package = TestedPackage { name: name.to_owned(), ..TestedPackage::default() };
        package.add(&folder.join("src"), false)?;
        if folder.join("tests").is_dir() {
            package.add(&folder.join("tests"), true)?;
        }
        packages.insert(name.to_owned(), package);
    }
    Ok(packages)
}

/// The path of the module in a file or folder of this name. By our convention `foo_tests` has the
/// module `tests` of `foo`, which is the folder itself where that has the name.
fn inside(mut path: Vec<String>, name: Cow<'_, str>) -> Vec<String> {
    match name.as_ref() {
        "mod" | "lib" | "main" => {}
        _ => match name.strip_suffix("_tests") {
            Some(of) => {
                if path.last().is_none_or(|last| last != of) {
                    path.push(of.to_owned());
                }
                path.push("tests".to_owned());
            }
            None => path.push(name.into_owned()),
        },
    }
    path
}

/// The tests in a source file, with the modules inside of it. In formatted code depth is
/// indentation, and attributes stand on lines of their own.
pub(super) fn tests(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut modules: Vec<(usize, &str)> = Vec::new();
    let mut marked = false;
    for line in text.lines() {
        let code = line.trim_start();
        let depth = line.len() - code.len();
        if code.is_empty() || code.starts_with("//") {
            continue;
        }
        if code == "}" {
            modules.retain(|(at, _)| *at < depth);
        } else if let Some(name) =
            code.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {"))
        {
            modules.push((depth, name));
        } else if code.starts_with("#[test]") || code.starts_with("#[tokio::test") {
            marked = true;
        } else if marked && !code.starts_with("#[") {
            let name = code.split_once("fn ").map(|(_, rest)| rest);
            // An attribute may have several lines.
            let Some(name) = name else { continue };
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = name.get(..end.unwrap_or(name.len())).unwrap_or_default();
            let path = modules.iter().map(|(_, module)| *module).chain([name]);
            found.push(path.collect::<Vec<_>>().join("::"));
            marked = false;
        }
    }
    found
}
