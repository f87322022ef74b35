//! Directories: listed by the client, and its listing as a tree.

use std::collections::HashMap;

use ibeam_proto::agent::{
    LsDirectoryTreeNode, LsDirectoryTreeNodeFile, LsError, LsRejected, LsResult, LsSuccess,
    exec_client_message::Message as Reply, ls_result,
};

use super::{
    ClientCall, Equipment, Order, Outcome, Through,
    outcome::bare,
    quote,
    schema::{may, must},
    shell,
    table::{Capability, Slot},
};

pub(super) fn call(path: &str, ignore: &[String], kit: &Equipment) -> Option<ClientCall> {
    let (order, through) = order(path, ignore, kit)?;
    Some(order.with(super::Form::List { path: path.to_owned() }, through))
}

/// A listing tool, else a reading tool that says it takes directories, else `ls`.
pub(super) fn order(path: &str, ignore: &[String], kit: &Equipment) -> Option<(Order, Through)> {
    let about = "Lists a directory";
    let place = if path.is_empty() { "." } else { path };
    let by_list = kit.call(Capability::List, |tool| {
        let mut given = vec![must(Slot::Path, place), may(Slot::About, about)];
        if !ignore.is_empty() {
            given.push(may(Slot::Ignore, ignore.to_vec()));
        }
        tool.fill(&given)
    });
    let by_read = || {
        kit.call(Capability::Read, |tool| {
            if !tool.says(Slot::Path, &["directory"]) {
                return None;
            }
            tool.fill(&[must(Slot::Path, place), may(Slot::About, about)])
        })
    };
    if let Some(order) = by_list.or_else(by_read) {
        return Some((order, Through::Tool));
    }
    let command = format!("ls -1Ap {}", quote::path(path));
    Some((shell::run(kit, &command, "", None, about)?, Through::Shell))
}

pub(super) fn reply(path: &str, outcome: &Outcome) -> Reply {
    let owned = path.to_owned();
    let result = match outcome {
        Outcome::Done(text) => {
            ls_result::Result::Success(LsSuccess { directory_tree_root: Some(tree(path, text)) })
        }
        Outcome::Refused(text) => {
            ls_result::Result::Rejected(LsRejected { path: owned, reason: text.clone() })
        }
        Outcome::Failed(text) => {
            ls_result::Result::Error(LsError { path: owned, error: bare(text).to_owned() })
        }
    };
    Reply::LsResult(LsResult { result: Some(result) })
}

/// One line of a listing.
struct Item<'a> {
    indent: usize,
    name: &'a str,
    is_directory: bool,
}

/// How deep a tree may grow from one line.
const DEPTH: usize = 64;

/// The tree that a listing shows. A line that is not understood is a file of that
/// name, so that nothing is lost.
fn tree(path: &str, text: &str) -> LsDirectoryTreeNode {
    let path = if path.is_empty() { "." } else { path };
    let mut root = Folder::default();
    // The directories that the current line may be in, with their indents.
    let mut open: Vec<(usize, Vec<&str>)> = Vec::new();
    for (at, line) in body(text).lines().enumerate() {
        if line.trim().is_empty() || is_note(line) {
            continue;
        }
        let Some(item) = item(line) else { continue };
        // Whole paths below the directory are taken as they are meant.
        let below = item.name.strip_prefix(path.trim_end_matches('/'));
        let below = below.filter(|rest| rest.is_empty() || rest.starts_with('/'));
        // The directory itself, named on top of its content.
        let itself = below.is_some_and(|rest| rest.trim_end_matches('/').is_empty());
        let renamed = below.is_none() && item.name.starts_with('/') && item.is_directory;
        if itself || (at == 0 && renamed) {
            continue;
        }
        while open.last().is_some_and(|(indent, _)| *indent >= item.indent) {
            open.pop();
        }
        let mut parts = open.last().map(|(_, parts)| parts.clone()).unwrap_or_default();
        let name = below.unwrap_or(item.name);
        parts.extend(name.split('/').filter(|part| !part.is_empty() && *part != "."));
        parts.truncate(DEPTH);
        root.insert(&parts, item.is_directory);
        if item.is_directory {
            open.push((item.indent, parts));
        }
    }
    let top = if path == "/" { path } else { path.trim_end_matches('/') };
    let mut root = root.into_node(top.to_owned());
    root.children_were_processed = true;
    count(&mut root);
    root
}

/// What is between the tags, if there are any.
fn body(text: &str) -> &str {
    let Some((_, rest)) = text.split_once("<entries>\n") else { return text };
    rest.rsplit_once("</entries>").map_or(rest, |(entries, _)| entries)
}

/// Headings and notes that clients print with a listing.
fn is_note(line: &str) -> bool {
    let line = line.trim();
    let bracketed = line.starts_with('(') && line.ends_with(')') && line.contains("entries");
    let headed = ["Directory listing for ", "Absolute path: ", "NOTE: ", "More than "]
        .iter()
        .any(|heading| line.starts_with(heading));
    let total = line.strip_prefix("total ");
    bracketed || headed || total.is_some_and(|size| size.chars().all(|c| c.is_ascii_digit()))
}

fn item(line: &str) -> Option<Item<'_>> {
    let drawn = |c: char| matches!(c, ' ' | '\t' | '│' | '├' | '└' | '─' | '\u{a0}' | '|');
    let start = line.find(|c: char| !drawn(c))?;
    let (lead, rest) = line.split_at_checked(start)?;
    let indent = lead.chars().count();
    if let Some((name, is_directory)) = long_format(rest) {
        return (name != "." && name != "..").then_some(Item { indent, name, is_directory });
    }
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    if let Some(name) = rest.strip_prefix("[DIR] ") {
        return Some(Item { indent, name: name.trim_end(), is_directory: true });
    }
    let name = rest.strip_prefix("[FILE] ").unwrap_or(rest).trim_end();
    Some(Item { indent, name, is_directory: name.ends_with('/') })
}

/// A line of `ls -l`.
fn long_format(line: &str) -> Option<(&str, bool)> {
    let mode = line.get(..10)?;
    let (kind, rights) = mode.split_at_checked(1)?;
    let is_mode = "-dlbcps".contains(kind)
        && rights.chars().all(|c| matches!(c, 'r' | 'w' | 'x' | 's' | 'S' | 't' | 'T' | '-'));
    if !is_mode {
        return None;
    }
    let mut rest = line;
    for _ in 0..8 {
        let end = rest.find(' ')?;
        rest = rest.get(end..)?.trim_start_matches(' ');
    }
    let name = if kind == "l" { rest.split(" -> ").next().unwrap_or(rest) } else { rest };
    Some((name, kind == "d"))
}

/// A directory while its listing is read. Its children are found by name, however
/// many there are.
#[derive(Default)]
struct Folder {
    folders: Vec<(String, Folder)>,
    places: HashMap<String, usize>,
    files: Vec<String>,
}

impl Folder {
    fn insert(&mut self, parts: &[&str], is_directory: bool) {
        let Some((last, folders)) = parts.split_last() else { return };
        let mut here = self;
        for name in folders {
            let Some(next) = here.child(name) else { return };
            here = next;
        }
        if is_directory {
            here.child(last);
        } else {
            here.files.push((*last).to_owned());
        }
    }

    fn child(&mut self, name: &str) -> Option<&mut Self> {
        let next = self.folders.len();
        let at = *self.places.entry(name.to_owned()).or_insert(next);
        if at == next {
            self.folders.push((name.to_owned(), Self::default()));
        }
        self.folders.get_mut(at).map(|(_, folder)| folder)
    }

    fn into_node(self, path: String) -> LsDirectoryTreeNode {
        let base = path.trim_end_matches('/').to_owned();
        LsDirectoryTreeNode {
            // A directory of which only the name was printed was not searched.
            children_were_processed: !self.files.is_empty() || !self.folders.is_empty(),
            children_files: self
                .files
                .into_iter()
                .map(|name| LsDirectoryTreeNodeFile { name, terminal_metadata: None })
                .collect(),
            children_dirs: self
                .folders
                .into_iter()
                .map(|(name, folder)| folder.into_node(format!("{base}/{name}")))
                .collect(),
            abs_path: path,
            ..LsDirectoryTreeNode::default()
        }
    }
}

/// Fills in how many files of each kind are below.
fn count(node: &mut LsDirectoryTreeNode) {
    let mut files = i32::try_from(node.children_files.len()).unwrap_or(i32::MAX);
    let mut kinds = std::mem::take(&mut node.full_subtree_extension_counts);
    for file in &node.children_files {
        if let Some((stem, kind)) = file.name.rsplit_once('.')
            && !stem.is_empty()
        {
            *kinds.entry(format!(".{kind}")).or_default() += 1;
        }
    }
    for dir in &mut node.children_dirs {
        count(dir);
        files = files.saturating_add(dir.num_files);
        for (kind, number) in &dir.full_subtree_extension_counts {
            *kinds.entry(kind.clone()).or_default() += number;
        }
    }
    node.num_files = files;
    node.full_subtree_extension_counts = kinds;
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
