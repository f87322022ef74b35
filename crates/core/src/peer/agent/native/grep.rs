//! Searches: by the client's tools or its shell. A search without a pattern is a
//! search for names.

use std::fmt::Write as _;

use ibeam_proto::agent::{
    GrepArgs, GrepError, GrepResult, GrepSuccess, exec_client_message::Message as Reply,
    grep_result,
};

use super::{
    ClientCall, Equipment, Order, Outcome, Through,
    grep_command::{braces, command},
    matches,
    outcome::bare,
    quote,
    schema::{may, must},
    shell,
    table::{Capability, Slot},
};
use crate::model::ToolResult;

/// What the result repeats, and how the answer is to be read.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pattern: String,
    path: String,
    mode: Mode,
    /// The tool knows the mode; otherwise it returns lines in any case.
    knows_mode: bool,
    context: bool,
    head: Option<i32>,
}

/// What a search gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Content,
    Files,
    Count,
}

impl Mode {
    fn of(name: Option<&str>) -> Self {
        match name {
            Some("files_with_matches") => Self::Files,
            Some("count") => Self::Count,
            _ => Self::Content,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Files => "files_with_matches",
            Self::Count => "count",
        }
    }
}

/// A search in a client's words.
#[derive(Clone, Debug, Default)]
pub(super) struct Query<'a> {
    pub(super) pattern: &'a str,
    pub(super) path: &'a str,
    pub(super) glob: &'a str,
    pub(super) mode: Option<&'a str>,
    pub(super) before: Option<i32>,
    pub(super) after: Option<i32>,
    pub(super) around: Option<i32>,
    pub(super) ignore_case: bool,
    /// The pattern is a text, no expression.
    pub(super) literal: bool,
    pub(super) kind: &'a str,
    pub(super) head: Option<i32>,
    pub(super) multiline: bool,
}

pub(super) fn call(args: &GrepArgs, kit: &Equipment) -> Option<ClientCall> {
    let glob = args.glob.as_deref().unwrap_or_default();
    let path = args.path.as_deref().unwrap_or_default();
    let head = args.head_limit.filter(|limit| *limit > 0);
    let mut form = Form {
        pattern: args.pattern.clone(),
        path: path.to_owned(),
        mode: Mode::of(args.output_mode.as_deref()),
        knows_mode: true,
        context: [args.context, args.context_before, args.context_after]
            .iter()
            .any(|lines| lines.is_some_and(|lines| lines > 0)),
        head,
    };
    if args.pattern.is_empty() {
        form.mode = Mode::Files;
        let (order, through) = find(glob, path, head, kit)?;
        return Some(order.with(super::Form::Grep(form), through));
    }
    let (order, knows_mode, through) = search(
        &Query {
            pattern: &args.pattern,
            path,
            glob,
            mode: args.output_mode.as_deref(),
            before: args.context_before,
            after: args.context_after,
            around: args.context,
            ignore_case: args.case_insensitive.unwrap_or_default(),
            literal: false,
            kind: args.r#type.as_deref().unwrap_or_default(),
            head,
            multiline: args.multiline.unwrap_or_default(),
        },
        kit,
    )?;
    form.knows_mode = knows_mode;
    Some(order.with(super::Form::Grep(form), through))
}

/// A search for content: the call, whether the tool knows the mode, and which tool it is.
pub(super) fn search(query: &Query<'_>, kit: &Equipment) -> Option<(Order, bool, Through)> {
    let mode = Mode::of(query.mode);
    let by_tool = kit.pick(Capability::Grep, |tool| {
        let mut pattern = query.pattern.to_owned();
        if query.literal {
            pattern = escaped(&pattern);
        }
        let flag = tool.has(Slot::IgnoreCase);
        if query.ignore_case && !flag {
            pattern.insert_str(0, "(?i)");
        }
        let mut given = vec![must(Slot::Pattern, pattern), may(Slot::About, "Searches files")];
        given.push(may(Slot::Mode, mode.name()));
        for (slot, text) in
            [(Slot::Path, query.path), (Slot::Include, query.glob), (Slot::FileType, query.kind)]
        {
            if !text.is_empty() {
                given.push(must(slot, text));
            }
        }
        if query.ignore_case && flag {
            given.push(must(Slot::IgnoreCase, true));
        }
        if query.multiline {
            given.push(must(Slot::Multiline, true));
        }
        if mode == Mode::Content {
            given.push(may(Slot::LineNumbers, true));
            for (slot, lines) in [
                (Slot::Before, query.before),
                (Slot::After, query.after),
                (Slot::Around, query.around),
            ] {
                given.extend(lines.filter(|lines| *lines > 0).map(|lines| may(slot, lines)));
            }
        }
        given.extend(query.head.map(|limit| may(Slot::Head, limit)));
        Some((tool.fill(&given)?, tool.has(Slot::Mode)))
    });
    if let Some((order, knows_mode)) = by_tool {
        return Some((order, knows_mode, Through::Tool));
    }
    let order = shell::run(kit, &command(query, mode), "", None, "Searches files")?;
    Some((order, true, Through::Shell))
}

/// A search for names.
pub(super) fn find(
    glob: &str,
    path: &str,
    head: Option<i32>,
    kit: &Equipment,
) -> Option<(Order, Through)> {
    if glob.is_empty() {
        return None;
    }
    let about = "Finds files by name";
    let by_tool = kit.call(Capability::Glob, |tool| {
        let mut given = vec![may(Slot::About, about)];
        if path.is_empty() || tool.has(Slot::Path) {
            given.push(must(Slot::Pattern, glob));
            given.extend((!path.is_empty()).then(|| may(Slot::Path, path)));
        } else {
            given.push(must(Slot::Pattern, format!("{}/{glob}", path.trim_end_matches('/'))));
        }
        given.extend(head.map(|limit| may(Slot::Head, limit)));
        tool.fill(&given)
    });
    if let Some(order) = by_tool {
        return Some((order, Through::Tool));
    }
    let mut command = format!("find {} -type f", quote::path(path));
    command.push_str(" -not -path '*/.git/*' \\(");
    for (at, pattern) in braces(glob).iter().enumerate() {
        let or = if at == 0 { "" } else { " -o" };
        let test = match pattern.strip_prefix("**/").unwrap_or(pattern) {
            name if !name.contains('/') => format!("-name {}", quote::word(name)),
            deep => {
                let deep = deep.trim_start_matches('/');
                let deep = deep.replace("**/*", "*").replace("**/", "*");
                format!("-path {}", quote::word(&format!("*/{deep}")))
            }
        };
        // Writing into a string does not fail.
        let _ = write!(command, "{or} {test}");
    }
    command.push_str(" \\)");
    if let Some(limit) = head {
        let _ = write!(command, " | head -n {limit}");
    }
    Some((shell::run(kit, &command, "", None, about)?, Through::Shell))
}

/// A text as an expression that matches only itself.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

/// Finding nothing is not an error, though `grep` exits with 1 then.
pub(super) fn outcome(result: &ToolResult, through_shell: bool) -> Outcome {
    let outcome = Outcome::of(result, through_shell);
    match &outcome {
        Outcome::Failed(_) if through_shell => {
            let output = shell::parse(&result.text(), result.is_error);
            let silent = output.stdout.trim().is_empty() && output.stderr.is_empty();
            // Some files could not be read, the others could: what was found counts.
            let partly = output.code == 2 && matches::any(&output.stdout);
            if (output.code == 1 && silent) || partly {
                return Outcome::Done(output.stdout);
            }
            outcome
        }
        _ => outcome,
    }
}

impl Form {
    pub(super) fn reply(&self, outcome: &Outcome) -> Reply {
        let result = match outcome {
            Outcome::Done(text) => {
                let found =
                    matches::read(text, self.mode, self.knows_mode, self.context, &self.path);
                let place = if self.path.is_empty() { "." } else { &self.path };
                grep_result::Result::Success(GrepSuccess {
                    pattern: self.pattern.clone(),
                    path: self.path.clone(),
                    output_mode: self.mode.name().to_owned(),
                    workspace_results: [(place.to_owned(), found.union(self.mode, self.head))]
                        .into(),
                    active_editor_result: None,
                })
            }
            // This arm has no refusal of its own.
            Outcome::Refused(text) | Outcome::Failed(text) => {
                grep_result::Result::Error(GrepError { error: bare(text).to_owned() })
            }
        };
        Reply::GrepResult(GrepResult { result: Some(result) })
    }
}

#[cfg(test)]
#[path = "grep_tests.rs"]
mod tests;
