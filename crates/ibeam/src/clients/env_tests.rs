use super::{super::fixtures::*, *};

#[test]
fn posix_shell() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn powershell() {
    let machine = UserMachine::made_up(System::Windows, &[("APPDATA", "/r o'b")], &[], &[]);
    let plan = plan(&machine, &open()).expect("a plan");
    assert_eq!(plan.paste.as_deref(), Some(". '/r o''b/ibeam/env.ps1'\n"));
}

#[test]
fn single_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
    let windows = UserMachine::made_up(System::Windows, &[], &[], &[]);
    launch(&windows, &open()).expect_err("there is no `env`");
}
