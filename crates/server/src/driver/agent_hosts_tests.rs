use super::*;

const AGENT: &str = "https://agent.global.api5.cursor.sh";
const AGENTN: &str = "https://agentn.global.api5.cursor.sh";

fn host(origin: &str) -> Host {
    Host::parse(origin).unwrap()
}

fn hosts_of(privacy: bool, agent: &str, agentn: &str) -> RunHosts {
    let hosts = RunHosts::new(hosts::API.host(), true, privacy);
    note(&hosts, agent, agentn);
    hosts
}

fn note(hosts: &RunHosts, agent: &str, agentn: &str) {
    let urls = AgentUrlConfig { agent_url: agent.to_owned(), agentn_url: agentn.to_owned() };
    hosts.note(Some(&urls));
}

#[tokio::test(start_paused = true)]
async fn section_5_the_mode_of_the_account_decides_between_the_hosts() {
    for (privacy, agent, agentn, want) in [
        (true, AGENT, AGENTN, AGENT),
        (false, AGENT, AGENTN, AGENTN),
        (true, "", AGENTN, AGENTN),
        (false, AGENT, "https://agent.evil.test", AGENT),
        (true, "http://agent.api5.cursor.sh", "", hosts::API.origin),
        (true, "", "", hosts::API.origin),
    ] {
        assert_eq!(hosts_of(privacy, agent, agentn).current(), host(want), "{agent} {agentn}");
    }
    assert_eq!(RunHosts::new(hosts::API.host(), true, true).current(), hosts::API.host());
}

#[tokio::test(start_paused = true)]
async fn section_5_a_host_that_the_user_named_is_never_left() {
    let own = RunHosts::new(host("http://127.0.0.1:9100"), false, true);
    note(&own, AGENT, AGENTN);
    assert_eq!(own.current(), host("http://127.0.0.1:9100"));
    assert_eq!(own.changes(), None);
}

#[tokio::test(start_paused = true)]
async fn section_5_after_a_region_error_the_other_host_is_kept() {
    let hosts = hosts_of(true, AGENT, AGENTN);
    hosts.change(0, &host(AGENT));
    assert_eq!((hosts.current(), hosts.changes()), (host(AGENTN), Some(1)));
    // A run that began before that change does not undo it.
    hosts.change(0, &host(AGENTN));
    assert_eq!(hosts.current(), host(AGENTN));
    // The next answer of the service still names both.
    note(&hosts, AGENT, AGENTN);
    assert_eq!(hosts.current(), host(AGENTN));
    hosts.change(1, &host(AGENTN));
    assert_eq!(hosts.current(), host(AGENT));
    // With one host, the API's own is the other one.
    let hosts = hosts_of(true, AGENT, "");
    hosts.change(0, &host(AGENT));
    assert_eq!(hosts.current(), hosts::API.host());
    // A host that is named no more is not kept.
    let hosts = hosts_of(true, AGENT, AGENTN);
    hosts.change(0, &host(AGENT));
    note(&hosts, AGENT, "");
    assert_eq!(hosts.current(), host(AGENT));
}

#[tokio::test(start_paused = true)]
async fn hosts_that_cannot_be_reached_are_avoided_for_a_while() {
    let hosts = hosts_of(true, AGENT, AGENTN);
    hosts.avoid();
    assert_eq!(hosts.current(), hosts::API.host());
    tokio::time::sleep(AVOIDED).await;
    assert_eq!(hosts.current(), host(AGENT));
}
