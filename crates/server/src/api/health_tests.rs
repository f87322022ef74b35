use serde_json::{Value, json};

use super::{Health, HealthProblem, HealthStatus, status};
use crate::api::tests::{Fake, call, get, whole};

fn well() -> Health {
    Health { authenticated: true, ..Health::default() }
}

async fn asked(health: &Health, path: &str) -> (u16, Value) {
    let fake = Fake { health: health.clone(), ..Fake::default() };
    let response = call(fake, get(path)).await;
    let code = response.status().as_u16();
    (code, serde_json::from_str(&whole(response).await).unwrap())
}

#[tokio::test]
async fn health_reports_the_state_and_its_reasons() {
    let shutting_down = Health { shutting_down: true, ..well() };
    let signed_out = Health::default();
    let unreachable = Health { backend_unreachable: true, ..well() };
    let disk_full = Health { store_failing: true, ..well() };
    let no_file = Health { store_unusable: true, ..well() };
    for (health, expected, ready, codes) in [
        (well(), "ok", 200, json!([])),
        (shutting_down, "error", 503, json!(["shutting_down"])),
        (signed_out.clone(), "error", 503, json!(["not_signed_in"])),
        (unreachable, "degraded", 503, json!(["backend_unreachable"])),
        (no_file, "degraded", 200, json!(["store_unusable"])),
        (disk_full, "degraded", 200, json!(["store_failing"])),
        (
            Health { store_unusable: true, ..signed_out },
            "error",
            503,
            json!(["not_signed_in", "store_unusable"]),
        ),
    ] {
        let listed = |body: &Value| {
            let reasons = body["reasons"].as_array().unwrap().iter();
            reasons.map(|reason| reason["code"].clone()).collect::<Value>()
        };
        for path in ["/health", "/healthz"] {
            let (code, body) = asked(&health, path).await;
            assert_eq!((code, &body["status"]), (200, &json!(expected)), "{body}");
            assert_eq!(body["ok"], expected != "error", "{body}");
            assert_eq!(listed(&body), codes, "{body}");
        }
        let (code, body) = asked(&health, "/health/ready").await;
        assert_eq!(code, ready, "{body}");
        assert_eq!(body["ready"], ready == 200, "{body}");
        assert_eq!((listed(&body), &body["status"]), (codes, &json!(expected)), "{body}");
        let (code, body) = asked(&health, "/health/live").await;
        assert_eq!((code, &body["status"]), (200, &json!("ok")), "{body}");
    }
}

#[test]
fn worst_problem_decides_the_status() {
    assert_eq!(status(&[]), HealthStatus::Ok);
    assert_eq!(
        status(&[HealthProblem::NotSignedIn, HealthProblem::StoreUnusable]),
        HealthStatus::Error
    );
    assert_eq!(status(&[HealthProblem::StoreUnusable]), HealthStatus::Degraded);
}
