//! Reads which top-level modules of a crate use which, in the code that is not only for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use super::graph::{ModuleGraph, UseSite};
use crate::lexer::{SourceTree, trees};

/// The graph of the crate in a folder. What stands in `lib.rs` or `main.rs` itself is a module
/// of that name, except that a name which it re-exports belongs to the module it comes from.
pub(super) fn read(root: &Path, name: &str) -> anyhow::Result<ModuleGraph> {
    let mut graph = ModuleGraph::default();
    for main in ["lib", "main"] {
        let folder = root.join(name).join("src");
        let file = folder.join(main).with_extension("rs");
        if file.exists() {
            let mut reader = ModuleReader { root, modules: BTreeSet::new(), paths: Vec::new() };
            reader.file(&file, &SourceModule { path: Vec::new(), folder, file: PathBuf::new() })?;
            reader.add_to(&mut graph, main);
        }
    }
    Ok(graph)
}

/// A module whose code is read.
struct SourceModule {
    /// Empty for the root of the crate.
    path: Vec<String>,
    /// Where the files of the modules in it are.
    folder: PathBuf,
    file: PathBuf,
}

impl SourceModule {
    fn inner(&self, name: &str) -> Self {
        let path = self.path.iter().cloned().chain([name.to_owned()]).collect();
        Self { path, folder: self.folder.join(name), file: self.file.clone() }
    }
}

/// A path that some code names.
struct NamedPath {
    /// The top-level module of that code; None in the root of the crate.
    from: Option<String>,
    /// From the root of the crate.
    segments: Vec<String>,
    /// In `pub use`: under which name.
    exported: Option<String>,
    site: UseSite,
}

struct ModuleReader<'a> {
    root: &'a Path,
    /// Those in the root of the crate.
    modules: BTreeSet<String>,
    paths: Vec<NamedPath>,
}

impl ModuleReader<'_> {
    fn file(&mut self, file: &Path, module: &SourceModule) -> anyhow::Result<()> {
        let text = crate::read(file)?;
        let module = SourceModule {
            path: module.path.clone(),
            folder: module.folder.clone(),
            file: file.into(),
        };
        let code = trees(&text).with_context(|| file.display().to_string())?;
        self.code(&code, &module)
    }

    fn code<'a>(
        &mut self,
        mut code: &'a [SourceTree<'a>],
        module: &SourceModule,
    ) -> anyhow::Result<()> {
        use SourceTree::{Group, Sign, Word};
        loop {
            code = match code {
                [] => return Ok(()),
                [Sign("#"), Group('[', attribute), rest @ ..] => {
                    if is_for_tests(attribute) {
                        after_item(rest)
                    } else {
                        rest
                    }
                }
                [Word("mod", _), Word(name, _), Sign(";"), rest @ ..] => {
                    self.declared(name, module)?;
                    rest
                }
                [Word("mod", _), Word(name, _), Group('{', body), rest @ ..] => {
                    self.noted(name, module);
                    self.code(body, &module.inner(name))?;
                    rest
                }
                [Word("pub", _), Word("use", _), rest @ ..]
                | [Word("pub", _), Group('(', _), Word("use", _), rest @ ..] => {
                    self.imported(rest, &[], true, module)
                }
                // Not `impl Trait + use<'a>`.
                [Word("use", _), rest @ ..] if !matches!(rest, [Sign("<"), ..]) => {
                    self.imported(rest, &[], false, module)
                }
                [Word(_, line), Sign("::"), Word(..), ..] => {
                    let (segments, rest) = path(code);
                    self.named(&segments, None, *line, module);
                    rest
                }
                [Group(_, body), rest @ ..] => {
                    self.code(body, module)?;
                    rest
                }
                [_, rest @ ..] => rest,
            }
        }
    }

    fn noted(&mut self, name: &str, module: &SourceModule) {
        if module.path.is_empty() {
            self.modules.insert(name.to_owned());
        }
    }

    /// A module in a file of its own.
    fn declared(&mut self, name: &str, module: &SourceModule) -> anyhow::Result<()> {
        self.noted(name, module);
        let inner = module.inner(name);
        let files = [inner.folder.with_extension("rs"), inner.folder.join("mod.rs")];
        let Some(file) = files.iter().find(|file| file.exists()) else {
            bail!("{}: there is no file for module {name}", module.file.display());
        };
        self.file(file, &inner)
    }

    /// One tree of a `use`, below a path. Returns what follows it.
    fn imported<'a>(
        &mut self,
        tree: &'a [SourceTree<'a>],
        above: &[&'a str],
        exported: bool,
        module: &SourceModule,
    ) -> &'a [SourceTree<'a>] {
        use SourceTree::{Group, Sign, Word};
        let mut segments = above.to_vec();
        let (mut rest, mut at) = (tree, 0);
        loop {
            match rest {
                [Word(segment, line), after @ ..] => {
                    segments.push(segment);
                    (rest, at) = (after, *line);
                }
                [Group('{', group), after @ ..] => {
                    let mut group = group.as_slice();
                    while !group.is_empty() {
                        group = self.imported(group, &segments, exported, module);
                    }
                    return after_separator(after);
                }
                _ => {}
            }
            match rest {
                [Sign("::"), after @ ..] => rest = after,
                _ => break,
            }
        }
        let (name, rest) = match rest {
            [Word("as", _), Word(name, _), rest @ ..] => (Some(*name), rest),
            [Sign("*"), rest @ ..] => (None, rest),
            _ => (segments.last().copied(), rest),
        };
        let name = name.filter(|_| exported).map(str::to_owned);
        if !segments.is_empty() {
            self.named(&segments, name, at, module);
        }
        after_separator(rest)
    }

    fn named(
        &mut self,
        segments: &[&str],
        exported: Option<String>,
        line: usize,
        module: &SourceModule,
    ) {
        let Some(segments) = absolute(segments, &module.path) else { return };
        let file = module.file.strip_prefix(self.root).unwrap_or(&module.file);
        let site = UseSite { file: file.display().to_string(), line };
        self.paths.push(NamedPath { from: module.path.first().cloned(), segments, exported, site });
    }

    fn add_to(self, graph: &mut ModuleGraph, main: &str) {
        let Self { modules, paths, .. } = self;
        modules.iter().for_each(|module| graph.add_module(module));
        let module_of = |path: &NamedPath| modules.get(path.segments.first()?).map(String::as_str);
        let (root, inner): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.from.is_none());
        let exports: BTreeMap<&str, &str> = root
            .iter()
            .filter_map(|path| Some((path.exported.as_deref()?, module_of(path)?)))
            .collect();
        for path in inner {
            let first = path.segments.first().map_or("", String::as_str);
            let used = module_of(path).or_else(|| exports.get(first).copied()).unwrap_or(main);
            if let Some(from) = &path.from {
                graph.add_use(from, used, path.site.clone());
            }
        }
        // The root stands above all modules, unless one uses it.
        if graph.modules().any(|module| module == main) {
            for path in root.into_iter().filter(|path| path.exported.is_none()) {
                if let Some(used) = module_of(path) {
                    graph.add_use(main, used, path.site.clone());
                }
            }
        }
    }
}

/// Without the comma or semicolon that ends a tree of a `use`.
fn after_separator<'a>(code: &'a [SourceTree<'a>]) -> &'a [SourceTree<'a>] {
    code.split_first().map_or(code, |(_, rest)| rest)
}

/// The words of a path, and what follows it.
fn path<'a>(mut code: &'a [SourceTree<'a>]) -> (Vec<&'a str>, &'a [SourceTree<'a>]) {
    let mut segments = Vec::new();
    while let [SourceTree::Word(segment, _), rest @ ..] = code {
        segments.push(*segment);
        code = match rest {
            [SourceTree::Sign("::"), after @ ..] => after,
            _ => return (segments, rest),
        };
    }
    (segments, code)
}

/// From the root of the crate. None: the path leads to another crate or into the same module.
fn absolute(segments: &[&str], module: &[String]) -> Option<Vec<String>> {
    let (base, rest) = match segments {
        ["crate", rest @ ..] => (&[][..], rest),
        ["self" | "super", ..] => {
            let mut base = module;
            let mut rest = segments;
            while let [first @ ("self" | "super"), after @ ..] = rest {
                if *first == "super" {
                    base = base.split_last().map_or(base, |(_, outer)| outer);
                }
                rest = after;
            }
            (base, rest)
        }
        // Here a path begins with a module or with a crate.
        _ if module.is_empty() => (module, segments),
        _ => return None,
    };
    Some(base.iter().cloned().chain(rest.iter().map(|it| (*it).to_owned())).collect())
}

/// `cfg(test)`, also as one of several conditions that must all hold.
fn is_for_tests(attribute: &[SourceTree<'_>]) -> bool {
    match attribute {
        [SourceTree::Word("cfg" | "all", _), SourceTree::Group('(', conditions), ..] => {
            conditions.split(|tree| matches!(tree, SourceTree::Sign(","))).any(|condition| {
                matches!(condition, [SourceTree::Word("test", _)]) || is_for_tests(condition)
            })
        }
        _ => false,
    }
}

/// What follows an item, a field, a variant, an arm or a statement.
fn after_item<'a>(mut code: &'a [SourceTree<'a>]) -> &'a [SourceTree<'a>] {
    use SourceTree::{Group, Sign, Word};
    while let [Sign("#"), Group('[', _), rest @ ..] | [Word("pub", _), rest @ ..] = code {
        code = rest;
    }
    if let [Group('(', _), rest @ ..] = code {
        code = rest;
    }
    let (semicolon, comma) = match code {
        [Word("const", _), Word("fn" | "unsafe" | "async", _), ..] => (false, false),
        [Word("use" | "const" | "static" | "type" | "let", _), ..] => (true, false),
        [
            Word(
                "fn" | "impl" | "struct" | "enum" | "trait" | "mod" | "union" | "unsafe" | "async"
                | "extern" | "macro_rules",
                _,
            ),
            ..,
        ] => (false, false),
        _ => (false, true),
    };
    let mut is_first = true;
    loop {
        code = match code {
            [] => return code,
            [Sign(";"), rest @ ..] => return rest,
            [Sign(","), rest @ ..] if comma => return rest,
            [Sign("=>"), Group('{', _), rest @ ..] => {
                return match rest {
                    [Sign(","), rest @ ..] => rest,
                    _ => rest,
                };
            }
            [Group('{', _), rest @ ..] if !semicolon && (!comma || is_first) => return rest,
            [_, rest @ ..] => rest,
        };
        is_first = false;
    }
}
