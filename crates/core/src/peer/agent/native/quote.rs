//! Command lines for a POSIX shell. Every name that goes into one passes here.

/// One word, whatever it holds.
pub(super) fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A path as one word that no program takes for an option or for standard input.
pub(super) fn path(path: &str) -> String {
    match path {
        "" => word("."),
        _ if path.starts_with('-') => word(&format!("./{path}")),
        _ => word(path),
    }
}

/// A command in a directory, for tools that have no parameter for one.
pub(super) fn in_directory(command: &str, directory: &str) -> String {
    let directory = path(directory);
    // With several commands, only a group keeps a failed `cd` from running the rest.
    if command.contains(['\n', ';', '|', '&', '#']) {
        format!("cd {directory} && {{\n{command}\n}}")
    } else {
        format!("cd {directory} && {command}")
    }
}

#[cfg(test)]
#[cfg(unix)]
#[path = "quote_tests.rs"]
mod tests;
