//! Every question against every value of its switches, over both transports.

use ibeam_server::config::Transport;

use super::find;

type Switches = &'static [(&'static str, &'static str)];
/// A question, the switches of the service, what must be observed, and its number.
type Row = (char, Switches, &'static str, Option<u32>);

const ROWS: &[Row] = &[
    ('a', &[("roots.resume_verbatim", "on")], "prompt-alone", None),
    ('a', &[("roots.resume_verbatim", "off")], "rules-entry-only", None),
    ('a', &[("roots.resume_verbatim", "off"), ("roots.uma_slot0", "off")], "neither-form", None),
    ('b', &[("roots.uma_context", "always")], "rules-always", None),
    ('b', &[("roots.uma_context", "no-history")], "rules-without-history", None),
    ('b', &[("roots.uma_context", "never")], "rules-never", None),
    ('c', &[("roots.resume_needs_turn", "on")], "turn-needed", None),
    ('c', &[("roots.resume_needs_turn", "off")], "nothing-needed", None),
    ('c', &[("roots.resume_needs", "mode")], "mode-needed", None),
    ('c', &[("roots.resume_needs", "agent-type")], "agent-type-needed", None),
    ('d', &[("roots.max", "off")], "roots-accepted", Some(250)),
    ('d', &[("roots.max", "208")], "roots-accepted", Some(200)),
    ('d', &[("roots.max", "160")], "roots-accepted", Some(150)),
    ('d', &[("roots.max", "120")], "roots-accepted", Some(0)),
    ('e', &[("tools.partial", "one")], "partials-empty", None),
    ('e', &[("tools.partial", "cumulative")], "partials-inner", None),
    ('e', &[("tools.partial", "wrapper")], "partials-wrapper", None),
    ('e', &[("tools.partial", "off")], "partials-absent", None),
    ('f', &[], "meta-optional", None),
    ('f', &[("tools.need34", "on")], "meta-needed", None),
    ('f', &[("tools.spoil34", "on")], "meta-harmful", None),
    ('f', &[("tools.double_declare_stall", "on")], "double-stalls", None),
    ('g', &[("tools.mcp_status", "any")], "status-any", None),
    ('g', &[("tools.mcp_status", "connected")], "status-connected", None),
    ('g', &[("tools.mcp_status", "ready")], "status-ready", None),
    ('g', &[("tools.mcp_status", "absent")], "status-absent", None),
    ('g', &[("tools.mcp_state", "off")], "status-not-asked", None),
    ('h', &[("roots.images", "both")], "images-both", None),
    ('h', &[("roots.images", "hex")], "images-hex", None),
    ('h', &[("roots.images", "data-url")], "images-data-url", None),
    ('h', &[("roots.images", "unseen")], "images-unseen", None),
    ('i', &[("version.floor", "off")], "old-version-accepted", None),
    ('i', &[("version.floor", "2026.06.01")], "old-version-refused", None),
    ('j', &[("tools.listed27", "off")], "listed-never", None),
    ('j', &[("tools.listed27", "before-started")], "listed-before-started", Some(1)),
    ('j', &[("tools.listed27", "between")], "listed-between", Some(1)),
    ('j', &[("tools.listed27", "after-execs")], "listed-after-execs", Some(1)),
    ('j', &[("tools.listed_counts_refused", "off")], "listed-between", Some(0)),
    ('k', &[("tools.allow_header", "strict")], "empty-honoured", None),
    ('k', &[("tools.allow_header", "lenient")], "empty-ignored", None),
    ('l', &[("usage.rpc", "on")], "usage-available", None),
    ('l', &[("usage.rpc", "off")], "usage-unavailable", None),
    ('m', &[("host.config", "both")], "both-answer", None),
    ('m', &[("host.region_error", "agent")], "agentn-answers", None),
    ('m', &[("host.region_error", "agentn")], "agent-answers", None),
    ('m', &[("host.config", "agent")], "agent-answers", None),
    ('m', &[("host.config", "agentn")], "agentn-answers", None),
    ('m', &[("host.config", "agent"), ("host.region_error", "agent")], "neither-answers", None),
    ('m', &[("host.config", "none")], "addresses-absent", None),
    ('n', &[("headers.blob_key", "ignored")], "key-ignored", None),
    ('n', &[("headers.blob_key", "refused")], "key-refused", None),
    ('o', &[("reasoning.signed", "off")], "reasoning-unsigned", None),
    ('o', &[("reasoning.signed", "accepted")], "reasoning-accepted", None),
    ('o', &[("reasoning.signed", "refused")], "reasoning-refused", None),
    ('p', &[("tools.collide_builtin_error", "off")], "names-free", None),
    ('p', &[("tools.collide_builtin_error", "on")], "names-collide", None),
    ('q', &[("hold.max", "off")], "call-held", Some(120)),
    ('q', &[("hold.max", "60s")], "call-lost", Some(60)),
    ('n', &[("headers.blob_key", "required")], "key-needed", None),
];

async fn settle(transport: Transport) {
    for (letter, switches, observation, amount) in ROWS {
        let found = find(*letter, switches, transport).await;
        let seen = (found.verdict.observation.name(), found.verdict.amount);
        assert_eq!(seen, (*observation, *amount), "{letter} {switches:?}: {:?}", found.runs);
        assert!(found.runs.len() <= found.verdict.question.most_runs().max(1) as usize + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn every_question_is_settled_every_way_over_http2() {
    settle(Transport::H2).await;
}

#[tokio::test(start_paused = true)]
async fn every_question_is_settled_every_way_over_http1() {
    settle(Transport::H1).await;
}

/// Every question has rows of at least two different observations.
#[test]
fn no_question_is_left_out() {
    for letter in 'a'..='q' {
        let rows = ROWS.iter().filter(|(row, ..)| *row == letter);
        let seen: std::collections::BTreeSet<_> = rows.map(|(.., seen, n)| (seen, n)).collect();
        assert!(seen.len() >= 2, "{letter}: {seen:?}");
    }
}

/// The service of summer is another one, and the probes say so.
#[tokio::test(start_paused = true)]
async fn the_older_service_is_told_from_the_newer_one() {
    let summer = |letter| async move {
        let sim = ibeam_sim::SimConfig {
            behaviour: ibeam_sim::Preset::Summer.into(),
            ..ibeam_sim::SimConfig::default()
        };
        let lab = super::ProbeLab::new(sim, Transport::Auto);
        let found = lab.ask(letter, Some("claude-haiku-4-5")).await.finding;
        lab.assert_gone().await;
        found.verdict.observation.name()
    };
    for (letter, want) in [
        ('a', "neither-form"),
        ('b', "rules-always"),
        ('d', "roots-accepted"),
        ('e', "partials-inner"),
        ('f', "meta-optional"),
        ('g', "status-not-asked"),
        ('i', "old-version-accepted"),
        ('j', "listed-never"),
        ('l', "usage-unavailable"),
        ('m', "addresses-absent"),
    ] {
        assert_eq!(summer(letter).await, want, "{letter}");
    }
}
