use std::{path::PathBuf, time::Duration};

use super::{FakeSwitch, FakeSwitches};

#[test]
fn switches_are_separated_by_commas() {
    let switches =
        FakeSwitches::parse("crlf, slow:100ms,mcp-timeout:5s,scenario=/x/y.toml,crash-after:3")
            .unwrap();
    assert!(switches.has(&FakeSwitch::Crlf));
    assert!(!switches.has(&FakeSwitch::Noise));
    assert_eq!(switches.slow(), Some(Duration::from_millis(100)));
    assert_eq!(switches.mcp_timeout(), Some(Duration::from_secs(5)));
    assert_eq!(switches.crash_after(), Some(3));
    assert_eq!(switches.scenario, Some(PathBuf::from("/x/y.toml")));
}

#[test]
fn exit_text_takes_the_rest() {
    let switches = FakeSwitches::parse("noise,exit-1:fetch failed, twice").unwrap();
    assert_eq!(switches.exit(), Some("fetch failed, twice"));
    assert!(switches.has(&FakeSwitch::Noise));
}

#[test]
fn unknown_switch_is_refused() {
    for bad in ["frob", "slow", "slow:fast", "crlf:1", "crash-after:x"] {
        let said = FakeSwitches::parse(bad).unwrap_err();
        assert!(said.contains(bad), "{said}");
    }
    assert_eq!(FakeSwitches::parse(" ").unwrap(), FakeSwitches::default());
}
