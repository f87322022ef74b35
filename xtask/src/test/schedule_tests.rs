use super::{
    super::steps::{STEPS, named},
    *,
};

/// Everything that starts before something ends.
fn starts(plan: &mut StepPlan) -> Vec<&'static str> {
    let mut names = Vec::new();
    while let NextStep::Start(step) | NextStep::Skip(step, _) = plan.next() {
        names.push(step.name);
    }
    names
}

fn plan(names: &[&str], lanes: usize) -> StepPlan {
    let steps: Vec<_> = names.iter().map(|name| named(name).unwrap()).collect();
    StepPlan::new(&steps, lanes)
}

fn done(plan: &mut StepPlan, name: &str, passed: bool) {
    plan.done(named(name).unwrap(), passed);
}

#[test]
fn light_steps_run_beside_the_first_build() {
    let mut plan = plan(&["fmt", "sizes", "clippy", "build", "tests", "login"], 3);
    assert_eq!(starts(&mut plan), ["build", "fmt", "sizes"], "clippy has to wait for the build");
    done(&mut plan, "fmt", true);
    done(&mut plan, "sizes", false);
    assert_eq!(starts(&mut plan), [""; 0]);
    done(&mut plan, "build", true);
    assert_eq!(starts(&mut plan), ["tests"], "alone");
    done(&mut plan, "tests", true);
    assert_eq!(starts(&mut plan), ["clippy", "login"]);
    done(&mut plan, "login", true);
    assert!(!plan.is_finished());
    done(&mut plan, "clippy", true);
    assert!(plan.is_finished());
}

#[test]
fn lanes_are_limited_and_the_longest_step_is_first() {
    let mut plan = plan(&["llm", "login", "opencode", "clippy", "codex"], 3);
    assert_eq!(starts(&mut plan), ["clippy", "opencode", "login"]);
    done(&mut plan, "login", true);
    assert_eq!(starts(&mut plan), ["codex"]);
}

#[test]
fn measuring_steps_wait_until_nothing_else_runs() {
    let mut plan = plan(&["packages", "login", "first-token"], 3);
    assert_eq!(starts(&mut plan), ["packages", "login"]);
    done(&mut plan, "packages", false);
    assert_eq!(starts(&mut plan), [""; 0], "login still runs");
    done(&mut plan, "login", true);
    assert_eq!(starts(&mut plan), ["first-token"], "it only waits for packages");
}

#[test]
fn failed_build_skips_what_needs_it() {
    let mut plan = plan(&["build", "tests", "login", "clippy"], 3);
    assert_eq!(starts(&mut plan), ["build"]);
    done(&mut plan, "build", false);
    let mut skipped = Vec::new();
    while let NextStep::Skip(step, why) = plan.next() {
        skipped.push((step.name, why));
    }
    skipped.sort_unstable();
    assert_eq!(skipped, [("login", "build"), ("tests", "build")]);
    done(&mut plan, "clippy", true);
    assert!(plan.is_finished());
}

#[test]
fn one_lane_keeps_the_order() {
    let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
    let mut plan = plan(&names, 1);
    let mut seen = Vec::new();
    while !plan.is_finished() {
        let [name] = starts(&mut plan)[..] else { panic!("after {seen:?}") };
        seen.push(name);
        done(&mut plan, name, true);
    }
    assert_eq!(seen, names);
}

#[test]
fn every_plan_finishes() {
    for lanes in 1..6 {
        let steps: Vec<_> = STEPS.iter().collect();
        let mut plan = StepPlan::new(&steps, lanes);
        let mut running = Vec::new();
        while !plan.is_finished() {
            running.extend(starts(&mut plan));
            let name = running.remove(0);
            done(&mut plan, name, true);
        }
    }
}

#[test]
fn needs_are_earlier_steps() {
    for (at, step) in STEPS.iter().enumerate() {
        for name in step.needs.iter().chain(&step.after) {
            assert!(STEPS[..at].iter().any(|one| one.name == *name), "{}: {name}", step.name);
        }
    }
}
