//! What the kernel is asked for when a credential is written, and what is left when the
//! process dies, or the disk is full, at each of these steps.
//!
//! `cargo xtask test --only strace` runs this; it needs the program of that name.

use std::process::Child;

use super::{
    processes::{entries, long_and_short, said, start},
    *,
};

/// Saves the long credential, under the watch and with the fault.
fn save(home: &Home, fault: &str) -> Child {
    let trace = home.at("trace").display().to_string().replace('\'', r"'\''");
    let watch = format!("exec strace -f -qq -y -e 'trace=fsync,/^rename' -o '{trace}' {fault}");
    start(&format!("{watch} \"$0\" \"$@\""), "save", home)
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask test --only strace"]
async fn new_file_is_synced_before_it_is_renamed() {
    let home = Home::new();
    home.save("default", &credential("old")).await;
    assert!(said(save(&home, "")).contains("saved"));
    let trace = fs::read_to_string(home.at("trace")).unwrap();
    let steps: Vec<&str> =
        trace.lines().filter_map(|line| line.split_once(' ')).map(|l| l.1).collect();
    let [file, rename, dir] = &steps[..] else { panic!("{trace}") };
    assert!(file.trim().starts_with("fsync(") && file.contains(".tmp>"), "{trace}");
    let from = rename.find(".tmp\"").expect("the half-written file is renamed");
    assert!(rename.trim().starts_with("rename") && from < rename.rfind("default.json\"").unwrap());
    assert!(dir.trim().starts_with("fsync(") && dir.contains("credentials>"), "{trace}");
    println!("{trace}");
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask test --only strace"]
async fn kill_at_any_step_leaves_the_old_or_the_new_file() {
    use std::os::unix::process::ExitStatusExt as _;
    let [new, _] = long_and_short();
    for (step, is_new) in
        [("fsync:when=1", false), ("/^rename:when=1", false), ("fsync:when=2", true)]
    {
        let home = Home::new();
        home.save("default", &credential("old")).await;
        let (call, when) = step.split_once(':').unwrap();
        let fault = format!("-e 'inject={call}:signal=KILL:{when}'");
        let status = save(&home, &fault).wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{step}");
        let file = home.file("default");
        let want = if is_new { &new } else { &credential("old") };
        assert_eq!(plain(&file.load().unwrap().unwrap()), plain(want), "{step}");
        let left = entries(&file).len();
        println!("killed at {step}: {} file, {left} entries", if is_new { "new" } else { "old" });
        assert_eq!(left, if is_new { 2 } else { 3 }, "it was in the middle of it: {step}");
        home.save("default", &credential("next")).await;
        assert_eq!(entries(&file), ["default.json", "default.lock"], "{step}");
    }
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask test --only strace"]
async fn full_disk_at_any_step_loses_nothing() {
    for step in ["fsync", "/^rename"] {
        let home = Home::new();
        home.save("default", &credential("old")).await;
        let output = said(save(&home, &format!("-e 'inject={step}:error=ENOSPC:when=1'")));
        let told = output.lines().find(|line| line.contains("no space is left"));
        println!("{step}: {}", told.unwrap_or_else(|| panic!("{output}")));
        let file = home.file("default");
        assert_eq!(plain(&file.load().unwrap().unwrap()), plain(&credential("old")), "{step}");
        assert_eq!(entries(&file), ["default.json", "default.lock"], "{step}");
    }
}
