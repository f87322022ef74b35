use super::{super::fixtures::*, *};
use crate::clients::System;

#[test]
fn plan_without_settings() {
    insta::assert_snapshot!(plan_text(&plan(&home(&[]), &open()).expect("a plan")));
}

#[test]
fn single_run() {
    insta::assert_snapshot!(started(&launch(&home(&[]), &locked()).expect("a launch")));
}

#[test]
fn settings_path_depends_on_the_system() {
    let linux = [("XDG_CONFIG_HOME", "/x")];
    assert_eq!(places(&CLIENT, System::Linux, &linux), ["/x/ibeam/open-webui.env"]);
    assert_eq!(places(&CLIENT, System::MacOs, &[]), ["/home/me/.config/ibeam/open-webui.env"]);
    assert_eq!(places(&CLIENT, System::Windows, &[("APPDATA", "/r")]), ["/r/ibeam/open-webui.env"]);
}
