//! The table of steps: what each needs, what may run beside it, and about how long it takes.

use super::{
    StepKind, TestOptions, clients, docs,
    external::{self, ACP, OPENAI, SCHEMA, oracle},
    packages, promises, rust, secrets, sizes, words,
};
use crate::{budget, codegen, deny, modules, translations};

/// One line of the table.
pub(super) struct TestStep {
    pub(super) name: &'static str,
    pub(super) kind: StepKind,
    pub(super) weight: StepWeight,
    /// A step whose product it uses: without that it cannot run.
    pub(super) needs: Option<&'static str>,
    /// A step that it waits for, whatever comes of it.
    pub(super) after: Option<&'static str>,
    /// Measured on two cores with everything installed. It only decides what starts first.
    pub(super) seconds: u32,
    pub(super) run: fn(&TestOptions) -> anyhow::Result<()>,
}

/// What may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepWeight {
    /// Reads files: beside anything.
    Light,
    /// Mostly waits: several of them at a time.
    Beside,
    /// Keeps all cores busy, and no measurement of its own suffers: one of them at a time, with
    /// low priority, so that those beside it are served first. Cargo would lock out a second one.
    Busy,
    /// Measures time or memory: nothing but light steps beside it.
    Alone,
}

use StepKind::{External, Named, Rust, Thorough};
use StepWeight::{Alone, Beside, Busy, Light};

pub(super) const BUILD: &str = "build";
const ORACLE: &str = "oracle-build";
const RELEASE: &str = "release-build";

pub(super) const STEPS: &[TestStep] = &[
    TestStep::new("fmt", Rust, Light, 3, |_| rust::fmt()),
    TestStep::new("codegen", Rust, Light, 1, |_| codegen::verify()),
    TestStep::new("sizes", Rust, Light, 1, |_| sizes::check()),
    TestStep::new("modules", Rust, Light, 1, |_| modules::check()),
    TestStep::new("translations", Rust, Light, 1, |_| translations::compare_all(false)),
    TestStep::new("promises", Rust, Light, 1, |_| promises::check()),
    TestStep::new("words", Rust, Light, 1, |_| words::check()),
    TestStep::new("lockfiles", Rust, Light, 1, |_| rust::lockfiles()),
    TestStep::new("deny", Rust, Light, 2, |_| deny::check()),
    TestStep::new("build", Rust, Busy, 370, rust::build),
    TestStep::new("clippy", Rust, Busy, 300, rust::clippy),
    TestStep::new("tests", Rust, Alone, 220, rust::tests).needs(BUILD),
    TestStep::new("secrets", Thorough, Beside, 45, |_| secrets::check())
        .needs(BUILD)
        .after("tests"),
    TestStep::new("doc-tests", Thorough, Busy, 20, |_| rust::doc_tests()).needs(BUILD),
    TestStep::new("without-sim", Thorough, Busy, 20, |_| rust::without_sim()),
    TestStep::new("codegen-full", Named, Busy, 40, |_| codegen::generate(true)),
    TestStep::new("random-requests", External, Busy, 60, |_| {
        rust::ignored_tests("random::many_random_requests")
    })
    .needs(BUILD),
    TestStep::new("cuts", Named, Busy, 120, |_| rust::ignored_tests("every_frame::")).needs(BUILD),
    TestStep::new("strace", External, Beside, 90, |_| external::strace()).needs(BUILD),
    TestStep::new("children-500", External, Beside, 100, |_| external::children_500()).needs(BUILD),
    TestStep::new("login", External, Beside, 30, |_| external::login()).needs(BUILD),
    TestStep::new("keychain", Named, Busy, 200, |_| external::keychain()),
    TestStep::new("client-matrix", Named, Busy, 600, |_| clients::client_matrix()).needs(BUILD),
    TestStep::new("claude-code", External, Beside, 15, |_| clients::npm_client("claude-code"))
        .needs(BUILD),
    TestStep::new("codex", External, Beside, 15, |_| clients::npm_client("codex")).needs(BUILD),
    TestStep::new("opencode", External, Beside, 45, |_| clients::npm_client("opencode"))
        .needs(BUILD),
    TestStep::new("opencode-plugin", External, Beside, 45, |_| clients::opencode_plugin())
        .needs(BUILD),
    TestStep::new("pi", External, Beside, 15, |_| clients::npm_client("pi")).needs(BUILD),
    TestStep::new("continue", External, Beside, 15, |_| clients::npm_client("continue"))
        .needs(BUILD),
    TestStep::new("aider", External, Beside, 15, |_| clients::python_client("aider")).needs(BUILD),
    TestStep::new("llm", External, Beside, 10, |_| clients::python_client("llm")).needs(BUILD),
    TestStep::new("release-build", External, Busy, 240, |_| packages::release_build()),
    TestStep::new("budget", External, Beside, 4, |_| budget::check()).needs(RELEASE),
    TestStep::new("packages", External, Beside, 45, |_| packages::packages()).needs(RELEASE),
    // It installs what `packages` made.
    TestStep::new("first-token", External, Alone, 45, |_| packages::first_token())
        .needs(RELEASE)
        .after("packages"),
    TestStep::new("setup-clients", External, Beside, 30, |_| clients::npm_client("setup"))
        .needs(BUILD),
    TestStep::new("docs-clients", External, Beside, 30, |_| docs::clients()).needs(BUILD),
    TestStep::new("python-openai", External, Beside, 15, |_| {
        external::python_test("test_openai*.py")
    })
    .needs(BUILD),
    TestStep::new("python-anthropic", External, Beside, 15, |_| {
        external::python_test("test_anthropic*.py")
    })
    .needs(BUILD),
    TestStep::new("python-langchain", External, Beside, 10, |_| {
        external::python_test("test_langchain*.py")
    })
    .needs(BUILD),
    TestStep::new("schemathesis", External, Beside, 45, |_| {
        external::python_test("test_schema*.py")
    })
    .needs(BUILD),
    TestStep::new("node-openai", External, Beside, 10, |_| external::node_test("openai-sdk"))
        .needs(BUILD),
    TestStep::new("node-anthropic", External, Beside, 10, |_| external::node_test("anthropic-sdk"))
        .needs(BUILD),
    TestStep::new("node-ai", External, Beside, 10, |_| external::node_test("ai-sdk")).needs(BUILD),
    TestStep::new("opencode-cursor-oauth", External, Beside, 10, |_| {
        external::node_test("opencode-cursor-oauth")
    })
    .needs(BUILD),
    TestStep::new("connect-node", External, Beside, 20, |_| external::node_test("connect-server"))
        .needs(BUILD),
    TestStep::new("oracle-build", External, Busy, 100, |_| external::oracle_build()),
    TestStep::new("connectrpc", External, Beside, 10, |_| {
        oracle("connectrpc", &["--skip", OPENAI, "--skip", ACP, "--skip", SCHEMA], None)
    })
    .needs(ORACLE),
    TestStep::new("async-openai", External, Beside, 5, |_| oracle("async-openai", &[OPENAI], None))
        .needs(ORACLE),
    TestStep::new("acp-schema", External, Beside, 5, |_| oracle("acp-schema", &[ACP], None))
        .needs(ORACLE),
    TestStep::new("json-schema", External, Beside, 15, |_| external::json_schema()).needs(ORACLE),
    TestStep::new("mcp-host", External, Beside, 35, |_| external::mcp_host()).needs(ORACLE),
    TestStep::new("mcp-servers", External, Beside, 20, |_| external::mcp_servers()).needs(BUILD),
    TestStep::new("attack-short", External, Alone, 120, |_| external::attack_short()).needs(BUILD),
    TestStep::new("bench-smoke", External, Alone, 60, |_| external::bench_smoke()).needs(BUILD),
];

impl TestStep {
    const fn new(
        name: &'static str,
        kind: StepKind,
        weight: StepWeight,
        seconds: u32,
        run: fn(&TestOptions) -> anyhow::Result<()>,
    ) -> Self {
        Self { name, kind, weight, needs: None, after: None, seconds, run }
    }

    const fn needs(mut self, step: &'static str) -> Self {
        self.needs = Some(step);
        self
    }

    const fn after(mut self, step: &'static str) -> Self {
        self.after = Some(step);
        self
    }

    /// A whole name means that step alone; a part means all that contain it.
    fn is_called(&self, name: &str) -> bool {
        let whole = STEPS.iter().any(|step| step.name == name);
        if whole { self.name == name } else { self.name.contains(name) }
    }
}

/// The steps that were asked for, and those that they need.
pub(super) fn chosen(options: &TestOptions) -> Vec<&'static TestStep> {
    let asked = |step: &&TestStep| {
        let by_name = options.only.iter().any(|name| step.is_called(name));
        let by_kind = match step.kind {
            StepKind::Rust => true,
            StepKind::Thorough => !options.is_short(),
            StepKind::External => !options.fast,
            StepKind::Named => options.list && !options.fast,
        };
        if options.only.is_empty() { by_kind } else { by_name && (by_kind || !options.fast) }
    };
    let asked: Vec<&TestStep> = STEPS.iter().filter(asked).collect();
    let needed = |step: &&TestStep| {
        asked.iter().any(|one| one.name == step.name || one.needs == Some(step.name))
    };
    STEPS.iter().filter(needed).collect()
}

pub(super) fn named(name: &str) -> Option<&'static TestStep> {
    STEPS.iter().find(|step| step.name == name)
}
