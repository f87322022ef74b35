use super::*;

fn row(name: &'static str, verdict: StepVerdict, took: u64) -> StepRow {
    let took = Duration::from_secs(took);
    StepRow { name, verdict, took, cpu: Some(1.25), offset: Duration::from_secs(3) }
}

#[test]
fn table_has_times_and_totals() {
    let rows =
        [row("tests", StepVerdict::Passed, 12), row("fmt", StepVerdict::Failed("x".into()), 1)];
    let text = table(&rows, Duration::from_secs(15));
    let lines: Vec<Vec<&str>> =
        text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["tests", "ok", "12.0", "s", "1.2", "s", "+3", "s"]);
    assert_eq!(lines[1][..2], ["fmt", "FAILED"]);
    assert_eq!(lines[2], ["total", "15.0", "s", "2.5", "s"]);
}

#[test]
fn failures_and_missing_steps_fail_the_run() {
    let run = |verdict, ci| print(vec![row("fmt", verdict, 1)], Duration::ZERO, ci);
    run(StepVerdict::Passed, true).unwrap();
    run(StepVerdict::NotRun("no node".into()), false).unwrap();
    run(StepVerdict::NotRun("no node".into()), true).unwrap_err();
    run(StepVerdict::Failed("broken".into()), false).unwrap_err();
}

#[test]
fn verdicts_survive_being_written() {
    for verdict in
        [StepVerdict::Passed, StepVerdict::Failed("a\nb".into()), StepVerdict::NotRun("c".into())]
    {
        let read = StepVerdict::parse(verdict.word(), verdict.why()).unwrap();
        assert_eq!((read.word(), read.why()), (verdict.word(), verdict.why()));
    }
    assert!(StepVerdict::parse("", "").is_none());
}
