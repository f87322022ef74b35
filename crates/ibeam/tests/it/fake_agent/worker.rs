//! The process that newer builds leave behind.

use std::{io::Read as _, os::unix::process::CommandExt as _, sync::mpsc, time::Duration};

use super::*;

#[test]
fn a_worker_keeps_the_output_open_after_the_answer() {
    for (words, is_open) in
        [("set:cli.worker_stdout=on", true), ("set:cli.worker_stdout=off", false)]
    {
        let fake = Fake::new();
        let mut child = fake.command(words, STREAM).process_group(0).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"hello").unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (tx, over) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut said = String::new();
            stdout.read_to_string(&mut said).unwrap();
            let _ = tx.send(());
            said
        });
        assert!(child.wait().unwrap().success());
        // An output that closes may do so late on a busy machine.
        let patience = Duration::from_secs(if is_open { 2 } else { 20 });
        let still_open = over.recv_timeout(patience).is_err();
        assert_eq!(still_open, is_open, "{words}");
        if is_open {
            let group = format!("-{}", child.id());
            let killed = Command::new("kill").args(["-KILL", "--", &group]).output().unwrap();
            assert!(killed.status.success(), "the worker is in the group of the program");
        }
        assert_eq!(last(&reader.join().unwrap())["type"], "result");
    }
}
