//! The judge is judged: a good trace passes, and every kind of bad line is found.

use super::*;

/// As it should be.
const GOOD: &str = r#"7 execve("/x/ibeam", ["/x/ibeam", "serve"], 0x7ffc /* 1 var */) = 0
7 access("/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory)
7 openat(AT_FDCWD</home/me>, "/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY|O_CLOEXEC) = 3</usr/lib/x86_64-linux-gnu/libc.so.6>
7 newfstatat(3</usr/lib/x86_64-linux-gnu/libc.so.6>, "", {st_mode=S_IFREG|0755, st_size=1, ...}, AT_EMPTY_PATH) = 0
7 clone3({flags=CLONE_VM|CLONE_FS|CLONE_THREAD, exit_signal=0, stack=0x7f} => {parent_tid=[8]}, 88) = 8
7 openat(AT_FDCWD</home/me>, "/given/scenario.json", O_RDONLY|O_CLOEXEC) = 4</given/scenario.json>
7 openat(AT_FDCWD</room/own>, "ibeam/config.toml", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
7 listen(9<socket:[1]>, 128)   = 0
7 accept4(9<socket:[1]>, 0x7ffd, [128], SOCK_CLOEXEC|SOCK_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)
7 openat(AT_FDCWD</home/me>, "/proc/sys/kernel/osrelease", O_RDONLY|O_CLOEXEC) = 11</proc/sys/kernel/osrelease>
7 accept4(9<socket:[1]>, {sa_family=AF_INET, sin_port=htons(5), sin_addr=inet_addr("127.0.0.1")}, [128 => 16], SOCK_CLOEXEC|SOCK_NONBLOCK) = 12<socket:[2]>
8 openat(AT_FDCWD</home/me>, "/proc/sys/vm/overcommit_memory", O_RDONLY|O_CLOEXEC) = 9</proc/sys/vm/overcommit_memory>
8 lstat("/room", {st_mode=S_IFDIR|0755, st_size=0, ...}) = 0
8 openat(AT_FDCWD</home/me>, "/room/own/ibeam/store.db", O_RDWR|O_CREAT|O_CLOEXEC, 0600 <unfinished ...>
7 rename("/room/own/ibeam/a", "/room/own/ibeam/b") = 0
8 <... openat resumed>)             = 13</room/own/ibeam/store.db>
7 unlink("/room/own/ibeam/store.db-journal") = 0
7 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=1, si_uid=0} ---
7 exit_group(0)                     = ?
"#;

fn judged(trace: &str) -> Vec<String> {
    let given = [Path::new("/given/scenario.json")];
    problems(trace, &Rules { own: Path::new("/room/own"), given: &given, marker: "evil-1" })
}

#[test]
fn allowed_trace_has_no_problem() {
    assert_eq!(judged(GOOD), Vec::<String>::new());
}

/// Each of these, put where the program serves already, must be found.
#[test]
fn every_forbidden_call_is_found() {
    let cases = [
        (r#"execve("/bin/sh", ["sh", "-c", "ls"], 0x7f /* 1 var */) = 0"#, "a new program"),
        ("vfork() = 9", "a new program"),
        ("fork( <unfinished ...>", "a new program"),
        ("clone(child_stack=NULL, flags=SIGCHLD, child_tidptr=0x7f) = 9", "a new process"),
        ("clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88) = 9", "a new process"),
        (
            r#"connect(5<socket:[3]>, {sa_family=AF_INET, sin_port=htons(80)}, 16) = 0"#,
            "a connection",
        ),
        (
            r#"connect(5<socket:[3]>, {sa_family=AF_UNIX, sun_path="/run/x"}, 9) = 0"#,
            "a connection",
        ),
        (r#"openat(AT_FDCWD</room/own>, "/etc/passwd", O_RDONLY) = 5</etc/passwd>"#, "a look"),
        (r#"openat(AT_FDCWD</home/me>, "notes.txt", O_RDONLY) = 5</home/me/notes.txt>"#, "a look"),
        (r#"openat(AT_FDCWD</room/own>, "../etc/passwd", O_RDONLY) = 5</etc/passwd>"#, "a way out"),
        (r#"openat(AT_FDCWD</room/own>, "/given/scenario.json", O_RDONLY) = 5"#, "a look"),
        (r#"openat(AT_FDCWD</room/own>, "/lib/x.so", O_RDONLY) = 5</lib/x.so>"#, "a look"),
        (r#"openat(AT_FDCWD</room/own>, "/room/owner/x", O_RDONLY) = 5</room/owner/x>"#, "a look"),
        (
            r#"openat(AT_FDCWD</room/own>, "/tmp/x", O_WRONLY|O_CREAT, 0666 <unfinished ...>"#,
            "a change",
        ),
        (r#"open("/tmp/x", O_RDWR) = 5</tmp/x>"#, "a change"),
        (r#"creat("/tmp/x", 0644) = 5</tmp/x>"#, "a change"),
        (r#"unlink("/tmp/x") = 0"#, "a change"),
        (r#"unlinkat(AT_FDCWD</room/own>, "/tmp/x", 0) = 0"#, "a change"),
        (r#"rename("/room/own/x", "/tmp/x") = 0"#, "a change"),
        (r#"renameat2(AT_FDCWD</room/own>, "x", AT_FDCWD</tmp>, "x", 0) = 0"#, "a change"),
        (r#"mkdir("/tmp/x", 0777) = 0"#, "a change"),
        (r#"rmdir("/tmp/x") = 0"#, "a change"),
        (r#"chmod("/tmp/x", 0777) = 0"#, "a change"),
        (r#"symlink("/room/own/x", "/tmp/x") = 0"#, "a change"),
        (r#"truncate("/tmp/x", 0) = 0"#, "a change"),
        (r#"chdir("/tmp") = 0"#, "a change"),
        (r#"stat("/home/me/.ssh/id_rsa", {st_mode=S_IFREG|0600, ...}) = 0"#, "a look"),
        (r#"readlink("/proc/self/exe", "/x/ibeam", 4096) = 8"#, "a look"),
        (r#"openat(AT_FDCWD</room/own>, "/room", O_RDONLY|O_DIRECTORY) = 5</room>"#, "a look"),
        (r#"unlink("/room/own/evil-1") = 0"#, "a name from the backend"),
    ];
    for (bad, why) in cases {
        let found = judged(&format!("{GOOD}8 {bad}\n"));
        assert!(found.iter().any(|problem| problem.starts_with(why)), "{bad}: {found:?}");
    }
}

#[test]
fn readable_files_must_not_be_written() {
    let first = GOOD.lines().next().unwrap();
    for bad in [
        r#"openat(AT_FDCWD</room/own>, "/etc/ld.so.cache", O_RDWR) = 3</etc/ld.so.cache>"#,
        r#"unlink("/given/scenario.json") = 0"#,
        r#"openat(AT_FDCWD</room/own>, "/etc/passwd", O_RDONLY) = 3</etc/passwd>"#,
    ] {
        let trace = GOOD.replace(first, &format!("{first}\n7 {bad}"));
        assert_eq!(judged(&trace).len(), 1, "{bad}");
    }
}

#[test]
fn empty_trace_is_a_problem() {
    assert_eq!(judged("").len(), 3);
    let idle: String = GOOD.lines().filter(|l| !l.contains("= 12<")).collect::<Vec<_>>().join("\n");
    assert!(judged(&idle).iter().any(|problem| problem.contains("did not serve")));
}
