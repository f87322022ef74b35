//! Judges what `strace` wrote down about the gateway: which processes it started, which
//! files it touched, whom it called.

use std::path::Path;

/// What a trace must hold: whole paths, the folder a descriptor stands for, and every
/// call that starts something, names a file or opens a connection.
pub(crate) const OPTIONS: [&str; 8] =
    ["-f", "-qq", "-y", "-s", "4096", "-e", "trace=%process,%file,connect,listen,accept4", "-o"];

/// Read, never written, while the program starts: libraries, limits, certificates.
const AT_START: [&str; 14] = [
    "/etc/ld.so.",
    "/lib/",
    "/lib64/",
    "/usr/lib/",
    "/usr/lib64/",
    "/proc/",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/etc/ssl/",
    "/usr/share/ca-certificates/",
    "/usr/share/zoneinfo/",
    "/etc/localtime",
    "/etc/timezone",
    "/dev/null",
];
/// Read at any time: by the C library's allocator, by the standard library when it counts
/// processors, by the store for its random numbers.
const ALWAYS: [&str; 5] = [
    "/proc/sys/vm/overcommit_memory",
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/sys/fs/cgroup/",
    "/dev/urandom",
];

/// Calls that name a file and change nothing, whatever their flags.
const LOOKS: [&str; 11] = [
    "access",
    "faccessat",
    "faccessat2",
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "readlink",
    "readlinkat",
    "statfs",
    "getcwd",
];

/// What the program may do.
pub(crate) struct Rules<'a> {
    /// Its own folder, in which it may do anything.
    pub(crate) own: &'a Path,
    /// Further files that it may read while it starts.
    pub(crate) given: &'a [&'a Path],
    /// Part of every name that must not be met anywhere.
    pub(crate) marker: &'a str,
}

/// Every line that breaks a rule, with the rule.
pub(crate) fn problems(trace: &str, rules: &Rules<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let (mut started, mut listens, mut serves) = (false, false, false);
    for line in trace.lines() {
        let mut bad = |why: &str| found.push(format!("{why}: {line}"));
        if line.contains(rules.marker) {
            bad("a name from the backend");
        }
        serves |= line.contains("accept4") && succeeded(line);
        let Some((name, arguments)) = call(line) else { continue };
        match name {
            "execve" if !started => started = true,
            "execve" | "execveat" | "fork" | "vfork" => bad("a new program"),
            "clone" | "clone3" if !arguments.contains("CLONE_THREAD") => bad("a new process"),
            "connect" => bad("a connection"),
            "listen" => listens = true,
            _ if PROCESS.contains(&name) => {}
            _ => {
                for path in paths(arguments) {
                    if let Some(why) = judge(name, arguments, &path, serves, rules) {
                        bad(why);
                    }
                }
            }
        }
    }
    for (seen, what) in [(started, "start"), (listens, "listen"), (serves, "serve")] {
        if !seen {
            found.push(format!("the program did not {what}, so the trace proves nothing"));
        }
    }
    found
}

/// Other calls of the `%process` class and of sockets: they name no file.
const PROCESS: [&str; 11] = [
    "accept4",
    "clone",
    "clone3",
    "exit",
    "exit_group",
    "wait4",
    "waitid",
    "kill",
    "tgkill",
    "tkill",
    "rt_sigqueueinfo",
];

fn judge(
    name: &str,
    arguments: &str,
    path: &str,
    serves: bool,
    rules: &Rules<'_>,
) -> Option<&'static str> {
    if path.split('/').any(|part| part == "..") {
        return Some("a way out of a folder");
    }
    if Path::new(path).starts_with(rules.own) {
        return None;
    }
    let opens_to_read = matches!(name, "open" | "openat" | "openat2")
        && arguments.contains("O_RDONLY")
        && !["O_CREAT", "O_TRUNC", "O_WRONLY", "O_RDWR", "O_TMPFILE"]
            .iter()
            .any(|flag| arguments.contains(flag));
    let looks = LOOKS.contains(&name);
    if !looks && !opens_to_read {
        return Some("a change outside of its own folder");
    }
    // Whether there is a link on the way to its own folder.
    if looks && rules.own.starts_with(path) {
        return None;
    }
    let given = || rules.given.iter().any(|given| Path::new(path).starts_with(given));
    let known = |list: &[&str]| list.iter().any(|known| path.starts_with(known));
    if known(&ALWAYS) || (!serves && (known(&AT_START) || given())) {
        None
    } else {
        Some("a look outside of its own folder")
    }
}

/// The result is a number. It stands in the second half of a call that was cut in two.
fn succeeded(line: &str) -> bool {
    line.rsplit_once(" = ")
        .is_some_and(|(_, result)| result.starts_with(|c: char| c.is_ascii_digit()))
}

/// `123 openat(AT_FDCWD</x>, "y", O_RDONLY) = 3` is `openat` and the rest. A call that
/// another thread cut in two has its names in the first half.
fn call(line: &str) -> Option<(&str, &str)> {
    let (_, call) = line.split_once(' ')?;
    let (name, arguments) = call.trim_start().split_once('(')?;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some((name, arguments))
}

/// The file names among the arguments, relative ones put behind the folder of the
/// descriptor before them. `""` means the descriptor itself, which was judged when opened.
fn paths(arguments: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut folder = "";
    let mut rest = arguments;
    while let Some(at) = rest.find(['<', '"']) {
        let quoted = rest[at..].starts_with('"');
        let inner = &rest[at + 1..];
        let end = inner.find(if quoted { '"' } else { '>' }).unwrap_or(inner.len());
        let text = &inner[..end];
        rest = inner.get(end + 1..).unwrap_or_default();
        if !quoted {
            folder = text;
        } else if text.starts_with('/') {
            out.push(text.to_owned());
        } else if !text.is_empty() {
            out.push(format!("{folder}/{text}"));
        }
        // Whatever is behind the parenthesis is the result.
        if rest.starts_with(") = ") {
            break;
        }
    }
    out
}

#[path = "trace_tests.rs"]
mod tests;
