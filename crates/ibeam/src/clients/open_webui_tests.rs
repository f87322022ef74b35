use super::{super::fixtures::*, *};
use crate::clients::System;

#[test]
fn for_someone_new() {
    insta::assert_snapshot!(told(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn for_one_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn each_system_has_its_place() {
    let linux = [("XDG_CONFIG_HOME", "/x")];
    assert_eq!(places(&CLIENT, System::Linux, &linux), ["/x/ibeam/open-webui.env"]);
    assert_eq!(places(&CLIENT, System::MacOs, &[]), ["/home/me/.config/ibeam/open-webui.env"]);
    assert_eq!(places(&CLIENT, System::Windows, &[("APPDATA", "/r")]), ["/r/ibeam/open-webui.env"]);
}
