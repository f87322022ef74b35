//! Variables in settings, in the syntax of each program.

use super::SearchPaths;

/// The program that defines this way of writing variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariableSyntax {
    /// `${NAME}`, `${NAME:-default}`: Claude Code and ibeam.
    Shell,
    /// `${env:NAME}`, `${workspaceFolder}`, `${userHome}`: Cursor.
    Cursor,
    /// `{env:NAME}`: OpenCode.
    OpenCode,
}

pub(super) struct Expander<'a> {
    dialect: VariableSyntax,
    places: &'a SearchPaths,
}

impl<'a> Expander<'a> {
    pub(super) fn new(dialect: VariableSyntax, places: &'a SearchPaths) -> Self {
        Self { dialect, places }
    }

    /// The text with its variables replaced. Their values are not expanded again.
    ///
    /// # Errors
    /// A variable is not set, and there is nothing to use in its place.
    pub(super) fn text(&self, text: &str) -> Result<String, String> {
        let open = if self.dialect == VariableSyntax::OpenCode { "{env:" } else { "${" };
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(open) {
            let Some((inside, behind)) = after.split_once('}') else { break };
            out.push_str(before);
            match self.value(inside)? {
                Some(value) => out.push_str(&value),
                None => out.push_str(&format!("{open}{inside}}}")),
            }
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The value of a variable. None: it is unknown and stays as it is.
    fn value(&self, inside: &str) -> Result<Option<String>, String> {
        let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
        match self.dialect {
            VariableSyntax::OpenCode => self.variable(inside).map(Some),
            VariableSyntax::Shell => match inside.split_once(":-") {
                Some((name, default)) => {
                    Ok(Some(self.variable(name).unwrap_or_else(|_| default.to_owned())))
                }
                None => self.variable(inside).map(Some),
            },
            VariableSyntax::Cursor => match inside {
                "workspaceFolder" => Ok(Some(path(&self.places.folder))),
                "workspaceFolderBasename" => {
                    let name = self.places.folder.file_name().unwrap_or_default();
                    Ok(Some(name.to_string_lossy().into_owned()))
                }
                "userHome" => {
                    let home = self.places.home.as_deref().map(path);
                    home.map(Some)
                        .ok_or_else(|| "needs a home folder, and none is known".to_owned())
                }
                "pathSeparator" | "/" => Ok(Some(std::path::MAIN_SEPARATOR_STR.to_owned())),
                _ => match inside.strip_prefix("env:") {
                    Some(name) => self.variable(name).map(Some),
                    None => Ok(None),
                },
            },
        }
    }

    /// An empty variable is one that is not set.
    fn variable(&self, name: &str) -> Result<String, String> {
        let value = self.places.env.get(name.trim()).filter(|value| !value.is_empty());
        value.cloned().ok_or_else(|| format!("needs the variable `{name}`, which is not set"))
    }
}
