//! `ibeam setup` and the port that it writes down.

use std::{fs, net::TcpListener, process::Output};

use crate::{
    cli::{Home, Server},
    instance::User,
};

fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn codex(user: &User) -> Option<String> {
    fs::read_to_string(user.0.0.path().join(".codex/config.toml")).ok()
}

/// What a client's settings say has to be true tomorrow.
#[test]
fn setup_refuses_a_temporary_port() {
    let user = User::new();
    let refused = user.run("setup codex --sim --yes");
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused).contains("a fixed port"), "{}", words(&refused));

    // Another program.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    std::thread::spawn(move || taken.incoming().for_each(drop));
    for more in ["", "--no-verify", "--dry-run"] {
        let refused = user.run(&format!("setup codex --sim --yes --set port={port} {more}"));
        assert_eq!(refused.status.code(), Some(1), "{more}");
        let words = words(&refused);
        assert!(words.contains(&format!("another program uses port {port}")), "{words}");
        assert!(words.contains("ibeam service install"), "{words}");
    }
    // Another user.
    let other = Home::new();
    let theirs = Server::start(other.ibeam("serve --sim --port 0"));
    let port = theirs.url.rsplit_once(':').unwrap().1;
    let refused = user.run(&format!("setup codex --sim --yes --set port={port}"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused).contains("not one of your gateways"), "{}", words(&refused));
    assert!(words(&refused).contains(&format!("`--url {}`", theirs.url)), "{}", words(&refused));
    // The user's own, of another account.
    let own = Server::start(user.ibeam("serve --sim --profile work"));
    let port = own.url.rsplit_once(':').unwrap().1;
    let refused = user.run(&format!("setup codex --sim --yes --set port={port}"));
    assert!(words(&refused).contains("profile work, the simulator"), "{}", words(&refused));
    assert_eq!(codex(&user), None);
    assert_eq!(user.json("status --json").as_array().unwrap().len(), 1);
    // One that stays has to be nowhere else, and there is nothing to say of it.
    let done = user.run(&format!("setup codex --sim --yes --profile work --set port={port}"));
    assert!(done.status.success(), "{}", words(&done));
    assert!(!words(&done).contains("ibeam start"), "{}", words(&done));
    assert!(codex(&user).unwrap().contains(&own.url));
}

/// One runs, but on a port that it got from the system.
#[test]
fn setup_starts_a_gateway_on_the_default_port() {
    let user = User::new();
    let elsewhere = Server::start(user.ibeam("serve --sim"));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let done = user.run(&format!("setup codex --sim --yes --set port={free}"));
    let said = words(&done);
    assert!(done.status.success(), "{said}");
    assert!(codex(&user).unwrap().contains(&format!("http://127.0.0.1:{free}/v1")));
    assert!(said.contains("`ibeam start --sim`") && said.contains("ibeam service install"));
    assert_eq!(user.json("status --json").as_array().unwrap().len(), 2);
    // OpenCode starts one itself, wherever that then is.
    let done = user.run("setup opencode --sim --yes");
    assert!(done.status.success(), "{}", words(&done));
    assert!(!words(&done).contains("ibeam start"), "{}", words(&done));
    drop(elsewhere);
}
