//! Probes that cannot go on spend nothing more.

use std::time::Duration;

use ibeam_core::error::ErrorCode;
use ibeam_server::config::Transport;

use super::{ProbeLab, service};

#[tokio::test(start_paused = true)]
async fn a_used_up_plan_or_a_refused_sign_in_stops_after_one_run() {
    for (switch, code) in [
        ("error.plan_limit", ErrorCode::RateLimited),
        ("error.trial_limit", ErrorCode::InsufficientQuota),
        ("error.not_logged_in", ErrorCode::NotAuthenticated),
    ] {
        for letter in ['a', 'f'] {
            let lab = ProbeLab::new(service(&[(switch, "always")]), Transport::Auto);
            let probed = lab.ask(letter, None).await;
            assert_eq!(probed.finding.verdict.observation.name(), "unclear", "{switch}");
            assert_eq!(probed.stop.map(|error| error.code), Some(code), "{switch}");
            assert_eq!(lab.sim.runs().len(), 1, "{switch}: not one run more");
            lab.assert_gone().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_of_another_plan_stops_its_own_question_only() {
    let lab = ProbeLab::new(service(&[("error.free_plan", "always")]), Transport::Auto);
    let probed = lab.ask('a', None).await;
    assert_eq!(probed.finding.verdict.observation.name(), "unclear");
    assert!(probed.stop.is_none(), "{:?}", probed.stop);
    let error = probed.finding.runs[0].error.clone();
    assert!(error.is_some_and(|error| error.starts_with("resource_exhausted/")), "a code, no text");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_says_nothing_costs_three_minutes_and_one_run() {
    let slow = service(&[("latency.first_output", "10m")]);
    let lab = ProbeLab::new(slow, Transport::Auto);
    let begun = tokio::time::Instant::now();
    let probed = lab.ask('i', None).await;
    assert_eq!(probed.finding.verdict.observation.name(), "unclear");
    assert_eq!(probed.finding.runs[0].end, "silent");
    assert!(begun.elapsed() < Duration::from_secs(200), "{:?}", begun.elapsed());
    assert_eq!(lab.sim.runs().len(), 1);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_probe_leaves_no_run_behind() {
    let slow = service(&[("latency.first_output", "10m")]);
    let lab = ProbeLab::new(slow, Transport::Auto);
    let asked = tokio::time::timeout(Duration::from_secs(20), lab.ask('i', None)).await;
    assert!(asked.is_err(), "Ctrl-C drops the future in the same way");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_ne!(lab.sim.runs()[0].ended, "open");
    lab.assert_gone().await;
}
