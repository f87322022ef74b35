//! The table of steps: what each needs, what may run beside it, and about how long it takes.

use super::{
    Kind, Options, Outcome, clients, docs, external, packages, promises, rust, secrets, sizes,
    words,
};

/// One line of the table.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) weight: Weight,
    /// A step whose product it uses: without that it cannot run.
    pub(super) needs: Option<&'static str>,
    /// A step that it waits for, whatever comes of it.
    pub(super) after: Option<&'static str>,
    /// Measured on two cores with everything installed. It only decides what starts first.
    pub(super) seconds: u32,
    pub(super) run: fn(&Options) -> anyhow::Result<Outcome>,
}

/// What may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
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

use Kind::{External, Named, Rust, Thorough};
use Weight::{Alone, Beside, Busy, Light};

pub(super) const BUILD: &str = "build";
const ORACLE: &str = "oracle-build";
const RELEASE: &str = "release-build";

pub(super) const STEPS: &[Step] = &[
    Step::new("fmt", Rust, Light, 3, |_| rust::fmt()),
    Step::new("codegen", Rust, Light, 1, |_| rust::codegen()),
    Step::new("sizes", Rust, Light, 1, |_| sizes::check()),
    Step::new("modules", Rust, Light, 1, |_| rust::modules()),
    Step::new("translations", Rust, Light, 1, |_| docs::translations()),
    Step::new("promises", Rust, Light, 1, |_| promises::check()),
    Step::new("words", Rust, Light, 1, |_| words::check()),
    Step::new("lockfiles", Rust, Light, 1, |_| rust::lockfiles()),
    Step::new("deny", Rust, Light, 2, |_| rust::deny()),
    Step::new("build", Rust, Busy, 370, rust::build),
    Step::new("clippy", Rust, Busy, 300, rust::clippy),
    Step::new("tests", Rust, Alone, 220, rust::tests).needs(BUILD),
    Step::new("secrets", Thorough, Beside, 45, |_| secrets::check()).needs(BUILD).after("tests"),
    Step::new("doc-tests", Thorough, Busy, 20, |_| rust::doc_tests()).needs(BUILD),
    Step::new("without-sim", Thorough, Busy, 20, |_| rust::without_sim()),
    Step::new("codegen-full", Named, Busy, 40, |_| rust::codegen_full()),
    Step::new("random-requests", External, Busy, 60, |_| rust::random_requests()).needs(BUILD),
    Step::new("strace", External, Beside, 90, |_| external::strace()).needs(BUILD),
    Step::new("children-500", External, Beside, 100, |_| external::children_500()).needs(BUILD),
    Step::new("login", External, Beside, 30, |_| external::login()).needs(BUILD),
    Step::new("keychain", Named, Busy, 200, |_| external::keychain()),
    Step::new("claude-code", External, Beside, 15, |_| clients::claude_code()).needs(BUILD),
    Step::new("codex", External, Beside, 15, |_| clients::codex()).needs(BUILD),
    Step::new("opencode", External, Beside, 45, |_| clients::opencode()).needs(BUILD),
    Step::new("opencode-plugin", External, Beside, 45, |_| clients::opencode_plugin()).needs(BUILD),
    Step::new("pi", External, Beside, 15, |_| clients::pi()).needs(BUILD),
    Step::new("continue", External, Beside, 15, |_| clients::continue_dev()).needs(BUILD),
    Step::new("aider", External, Beside, 15, |_| clients::aider()).needs(BUILD),
    Step::new("llm", External, Beside, 10, |_| clients::llm()).needs(BUILD),
    Step::new("release-build", External, Busy, 240, |_| packages::release_build()),
    Step::new("budget", External, Beside, 4, |_| packages::budget()).needs(RELEASE),
    Step::new("packages", External, Beside, 45, |_| packages::packages()).needs(RELEASE),
    // It installs what `packages` made.
    Step::new("first-token", External, Alone, 45, |_| packages::first_token())
        .needs(RELEASE)
        .after("packages"),
    Step::new("setup-clients", External, Beside, 30, |_| clients::set_up()).needs(BUILD),
    Step::new("docs-clients", External, Beside, 30, |_| docs::clients()).needs(BUILD),
    Step::new("python-openai", External, Beside, 15, |_| external::python_openai()).needs(BUILD),
    Step::new("python-anthropic", External, Beside, 15, |_| external::python_anthropic())
        .needs(BUILD),
    Step::new("python-langchain", External, Beside, 10, |_| external::python_langchain())
        .needs(BUILD),
    Step::new("schemathesis", External, Beside, 45, |_| external::schemathesis()).needs(BUILD),
    Step::new("node-openai", External, Beside, 10, |_| external::node_openai()).needs(BUILD),
    Step::new("node-anthropic", External, Beside, 10, |_| external::node_anthropic()).needs(BUILD),
    Step::new("node-ai", External, Beside, 10, |_| external::node_ai()).needs(BUILD),
    Step::new("opencode-cursor-oauth", External, Beside, 10, |_| external::peer()).needs(BUILD),
    Step::new("connect-node", External, Beside, 20, |_| external::connect_node()).needs(BUILD),
    Step::new("oracle-build", External, Busy, 100, |_| external::oracle_build()),
    Step::new("connectrpc", External, Beside, 10, |_| external::connectrpc()).needs(ORACLE),
    Step::new("async-openai", External, Beside, 5, |_| external::async_openai()).needs(ORACLE),
    Step::new("acp-schema", External, Beside, 5, |_| external::acp_schema()).needs(ORACLE),
    Step::new("json-schema", External, Beside, 15, |_| external::json_schema()).needs(ORACLE),
    Step::new("mcp-host", External, Beside, 35, |_| external::mcp_host()).needs(ORACLE),
    Step::new("mcp-servers", External, Beside, 20, |_| external::mcp_servers()).needs(BUILD),
    Step::new("attack-short", External, Alone, 120, |_| external::attack_short()).needs(BUILD),
    Step::new("bench-smoke", External, Alone, 60, |_| external::bench_smoke()).needs(BUILD),
];

impl Step {
    const fn new(
        name: &'static str,
        kind: Kind,
        weight: Weight,
        seconds: u32,
        run: fn(&Options) -> anyhow::Result<Outcome>,
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
pub(super) fn chosen(options: &Options) -> Vec<&'static Step> {
    let asked = |step: &&Step| {
        let by_name = options.only.iter().any(|name| step.is_called(name));
        let by_kind = match step.kind {
            Kind::Rust => true,
            Kind::Thorough => !options.is_short(),
            Kind::External => !options.fast,
            Kind::Named => options.list && !options.fast,
        };
        if options.only.is_empty() { by_kind } else { by_name && (by_kind || !options.fast) }
    };
    let asked: Vec<&Step> = STEPS.iter().filter(asked).collect();
    let needed = |step: &&Step| {
        asked.iter().any(|one| one.name == step.name || one.needs == Some(step.name))
    };
    STEPS.iter().filter(needed).collect()
}

pub(super) fn named(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}
