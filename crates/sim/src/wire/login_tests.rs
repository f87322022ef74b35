use http::{HeaderMap, Method};

use super::*;
use crate::{config::SimSignIn, wire::auth};

#[test]
fn challenge_is_the_hash_of_the_verifier() {
    let verifier = "A".repeat(43);
    assert_eq!(challenge_of(&verifier), "DwBzhbb51LfusnSGBa_hqYSgo7-j8BTQnip4TOnlzRo");
}

#[test]
fn parameters_are_decoded() {
    assert_eq!(param("a=1&uuid=x%2Dy+z", "uuid"), "x-y z");
    assert_eq!(param("a=1", "uuid"), "");
}

async fn ask(sim: &Sim, method: Method, path: &str, text: &str) -> (u16, String) {
    let (query, body) = if method == Method::GET { (text, "") } else { ("", text) };
    let reply = auth::answer(sim, &method, path, query, &HeaderMap::new(), body.as_bytes());
    let reply = reply.unwrap();
    let status = reply.status().as_u16();
    let body = responses::read_body(reply.into_body(), 65_536).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn poll_status(sim: &Sim, query: &str) -> u16 {
    ask(sim, Method::GET, "/auth/poll", query).await.0
}

const PAGE: &str = "/loginDeepControl";
const POLL: &str = "uuid=u&verifier=v";

#[tokio::test]
async fn poll_succeeds_by_itself_after_some_tries() {
    let sim = Sim::default();
    for want in [404, 404, 200] {
        assert_eq!(poll_status(&sim, POLL).await, want);
    }
    assert_eq!(poll_status(&sim, "uuid=&verifier=v").await, 404);
}

#[tokio::test]
async fn only_the_button_completes_a_login_by_page() {
    let sim = Sim::new(SimSignIn { poll_pending: None, ..SimSignIn::default() }.into());
    let link = format!("challenge={}&uuid=u&mode=login", challenge_of("v"));
    let (status, page) = ask(&sim, Method::GET, PAGE, &link).await;
    assert_eq!(status, 200);
    for part in ["name=\"uuid\" value=\"u\"", "value=\"allow\"", "value=\"deny\"", "<form method"] {
        assert!(page.contains(part), "{page}");
    }
    assert_eq!(poll_status(&sim, POLL).await, 404, "looking is not signing in");
    let (status, page) = ask(&sim, Method::POST, PAGE, &format!("{link}&decision=allow")).await;
    assert!(status == 200 && page.contains("Signed in to the simulator"), "{page}");
    assert_eq!(poll_status(&sim, "uuid=u&verifier=wrong").await, 404);
    assert_eq!(sim.stats().violations.len(), 1);
    assert_eq!(poll_status(&sim, POLL).await, 200);
    assert_eq!(poll_status(&sim, POLL).await, 404, "once");
}

#[tokio::test]
async fn deny_button_refuses_like_a_policy() {
    let sim = Sim::new(SimSignIn { poll_pending: None, ..SimSignIn::default() }.into());
    let (status, page) = ask(&sim, Method::POST, PAGE, "challenge=c&uuid=u&decision=deny").await;
    assert!(status == 200 && page.contains("Refused"), "{page}");
    let (status, body) = ask(&sim, Method::GET, "/auth/poll", POLL).await;
    assert!(status == 403 && body.contains(POLICY), "{status} {body}");
}

#[tokio::test]
async fn page_shows_only_valid_challenges() {
    let sim = Sim::default();
    for link in ["challenge=c", "uuid=u", "challenge=c&uuid=%3Cb%3E", "challenge=%22&uuid=u"] {
        assert_eq!(ask(&sim, Method::GET, PAGE, link).await.0, 400, "{link}");
        let form = format!("{link}&decision=allow");
        assert_eq!(ask(&sim, Method::POST, PAGE, &form).await.0, 400, "{form}");
    }
    assert_eq!(ask(&sim, Method::POST, PAGE, "challenge=c&uuid=u&decision=x").await.0, 400);
}

#[tokio::test]
async fn too_many_logins_are_not_remembered() {
    let sim = Sim::new(SimSignIn { poll_pending: None, ..SimSignIn::default() }.into());
    for n in 0..LOGINS_CAP {
        poll_status(&sim, &format!("uuid=u{n}&verifier=v")).await;
    }
    let form = |uuid: &str| format!("challenge={}&uuid={uuid}&decision=allow", challenge_of("v"));
    assert_eq!(ask(&sim, Method::POST, PAGE, &form("more")).await.0, 503);
    assert_eq!(poll_status(&sim, "uuid=more&verifier=v").await, 404);
    assert_eq!(ask(&sim, Method::POST, PAGE, &form("u7")).await.0, 200);
    assert_eq!(poll_status(&sim, "uuid=u7&verifier=v").await, 200);
}
