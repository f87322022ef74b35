//! The tests that there are, by their paths, as the sources have them. Nothing is compiled for it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;

/// A package, and the paths of its tests.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) name: String,
    /// With the name of the test target that has it; none for unit tests.
    tests: Vec<(Option<String>, String)>,
}

impl Package {
    /// Whether a test of this target, or of any, has a path that contains the filter.
    pub(super) fn has_test(&self, target: Option<&str>, filter: &str) -> bool {
        self.tests.iter().any(|(of, path)| {
            target.is_none_or(|target| of.as_deref() == Some(target)) && path.contains(filter)
        })
    }
}

/// All packages of the workspace.
pub(super) fn packages(root: &Path) -> anyhow::Result<BTreeMap<String, Package>> {
    let mut folders = vec![root.join("xtask"), root.join("bench")];
    for entry in fs::read_dir(root.join("crates"))? {
        folders.push(entry?.path());
    }
    let mut packages = BTreeMap::new();
    for folder in folders {
        let manifest = folder.join("Cargo.toml");
        let manifest =
            fs::read_to_string(&manifest).with_context(|| folder.display().to_string())?;
        let manifest: toml::Table = manifest.parse()?;
        let name = manifest.get("package").and_then(|package| package.get("name"));
        let name = name.and_then(toml::Value::as_str).context("a package without a name")?;
        let mut package = Package { name: name.to_owned(), ..Package::default() };
        visit(&folder.join("src"), &[], None, &mut package)?;
        let tests = folder.join("tests");
        if tests.is_dir() {
            for entry in fs::read_dir(&tests)? {
                let path = entry?.path();
                let target = stem(&path);
                if path.is_dir() {
                    visit(&path, &[], Some(target), &mut package)?;
                } else {
                    read(&path, &[], Some(target), &mut package)?;
                }
            }
        }
        packages.insert(name.to_owned(), package);
    }
    Ok(packages)
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

/// Reads a folder of modules.
fn visit(
    folder: &Path,
    module: &[String],
    target: Option<&str>,
    package: &mut Package,
) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let inner = inside(module, stem(&path));
        if path.is_dir() {
            visit(&path, &inner, target, package)?;
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            read(&path, &inner, target, package)?;
        }
    }
    Ok(())
}

/// The path of the module in a file or folder of this name. By our convention `foo_tests` has the
/// module `tests` of `foo`, which is the folder itself where that has the name.
fn inside(module: &[String], name: &str) -> Vec<String> {
    let mut path = module.to_vec();
    match name {
        "mod" | "lib" | "main" => {}
        _ => match name.strip_suffix("_tests") {
            Some(of) => {
                if path.last().is_none_or(|last| last != of) {
                    path.push(of.to_owned());
                }
                path.push("tests".to_owned());
            }
            None => path.push(name.to_owned()),
        },
    }
    path
}

fn read(
    path: &Path,
    module: &[String],
    target: Option<&str>,
    package: &mut Package,
) -> anyhow::Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let tests = tests(&text).into_iter().map(|test| {
        let names = module.iter().map(String::as_str).chain([test.as_str()]);
        (target.map(str::to_owned), names.collect::<Vec<_>>().join("::"))
    });
    package.tests.extend(tests);
    Ok(())
}

/// The tests in a source file, with the modules inside of it. The formatter has seen to it that
/// depth is indentation, and attributes stand on lines of their own.
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
            // An attribute may go on over several lines.
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
