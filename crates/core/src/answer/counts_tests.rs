use super::*;

fn ended(input: u64, output: u64) -> RunTokens {
    RunTokens { input: Some(input), output: Some(output), ..RunTokens::default() }
}

/// Ends the leg with the usage that its client gets.
fn end_leg(counts: &mut TokenCounts) -> Usage {
    end_leg_with(counts, 0, 0)
}

fn end_leg_with(counts: &mut TokenCounts, thoughts: usize, bytes: usize) -> Usage {
    let usage = counts.usage(thoughts, bytes).expect("nothing was counted");
    counts.note_reported(usage.output, usage.reasoning);
    *counts = counts.next_leg();
    usage
}

#[test]
fn output_of_the_legs_adds_up_to_the_output_of_the_run() {
    let mut counts = TokenCounts::default();
    counts.output_tokens(30);
    counts.context_tokens(130);
    let first = end_leg(&mut counts);
    assert_eq!((first.input, first.output), (100, 30));
    assert_eq!(first.source, UsageSource::BackendPartial);

    counts.output_tokens(12);
    counts.context_tokens(200);
    let second = end_leg(&mut counts);
    assert_eq!((second.input, second.output), (188, 12));

    counts.output_tokens(8);
    counts.run_ended(ended(210, 50));
    let last = end_leg(&mut counts);
    assert_eq!((last.input, last.output), (210, 8));
    assert_eq!(last.source, UsageSource::Backend);
    assert_eq!(first.output + second.output + last.output, 50);
}

#[test]
fn estimated_output_is_not_reported_twice() {
    let mut counts = TokenCounts::default();
    assert_eq!(counts.usage(0, 0), None, "nothing was counted");
    counts.note_reported(20, 0);
    counts = counts.next_leg();
    counts.run_ended(ended(500, 90));
    assert_eq!(end_leg(&mut counts).output, 70);
}

#[test]
fn backend_counts_since_the_last_results_are_used() {
    let mut counts = TokenCounts::default();
    counts.note_reported(300, 0);
    counts = counts.next_leg();
    counts.output_tokens(40);
    counts.run_ended(ended(500, 41));
    assert_eq!(end_leg(&mut counts).output, 41);
}

#[test]
fn input_includes_the_cached_tokens() {
    let mut counts = TokenCounts::default();
    let cached =
        |input| RunTokens { cache_read: Some(60), cache_write: Some(5), ..ended(input, 1) };
    counts.run_ended(cached(100));
    assert_eq!(counts.usage(0, 0).unwrap().input, 100);
    counts.run_ended(cached(10));
    let usage = counts.usage(0, 0).unwrap();
    assert_eq!(usage.input, 75, "it was left out");
    assert!(usage.cache_read + usage.cache_write <= usage.input);
}

#[test]
fn missing_totals_come_from_the_running_counters() {
    let mut counts = TokenCounts::default();
    counts.output_tokens(7);
    counts.context_tokens(50);
    counts.output_tokens(3);
    counts.run_ended(RunTokens::default());
    let usage = counts.usage(0, 0).unwrap();
    assert_eq!(
        (usage.input, usage.output),
        (43, 10),
        "the context was reported before the last three"
    );
    assert_eq!(usage.source, UsageSource::BackendPartial);
    counts.run_ended(RunTokens { output: Some(11), ..RunTokens::default() });
    let usage = counts.usage(0, 0).unwrap();
    assert_eq!((usage.input, usage.output), (43, 11));
}

#[test]
fn reasoning_is_part_of_the_output() {
    let mut counts = TokenCounts::default();
    counts.run_ended(RunTokens { reasoning: Some(90), ..ended(10, 50) });
    assert_eq!(counts.usage(0, 0).unwrap().reasoning, 50);
}

#[test]
fn context_size_of_an_earlier_leg_is_ignored() {
    let mut counts = TokenCounts::default();
    counts.output_tokens(10);
    counts.context_tokens(100);
    end_leg(&mut counts);
    counts.output_tokens(5);
    assert_eq!(counts.usage(0, 0), None);
    assert_eq!(counts.output(), Some(5));
}

#[test]
fn reasoning_tokens_belong_to_the_leg_that_showed_them() {
    let run = RunTokens { reasoning: Some(20), ..ended(300, 50) };
    let first = |counts: &mut TokenCounts| {
        counts.output_tokens(30);
        counts.context_tokens(130);
        end_leg_with(counts, 100, 200)
    };
    let mut counts = TokenCounts::default();
    assert_eq!(first(&mut counts).reasoning, 15, "half of what was said");
    counts.run_ended(run);
    let last = counts.usage(0, 80).unwrap();
    assert_eq!((last.output, last.reasoning), (20, 0), "it has none");
    let last = counts.usage(10, 80).unwrap();
    assert_eq!((last.output, last.reasoning), (20, 5), "the rest of the run's");
    // What a backend counts and does not show belongs to the only leg there is.
    let mut counts = TokenCounts::default();
    counts.run_ended(run);
    assert_eq!(counts.usage(0, 80).unwrap().reasoning, 20);
}

#[test]
fn section_8_3_the_input_has_the_cached_part_and_uncached_is_the_rest() {
    let mut counts = TokenCounts::default();
    let ended = RunTokens { cache_read: Some(700), cache_write: Some(200), ..ended(1000, 5) };
    counts.run_ended(ended);
    let usage = counts.usage(0, 0).unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.cache_write), (1000, 700, 200));
    assert_eq!(usage.input - usage.cache_read - usage.cache_write, 100);
}

#[test]
fn section_8_3_an_input_that_is_summed_over_steps_becomes_the_size_of_the_context() {
    let mut counts = TokenCounts::default();
    counts.output_tokens(30);
    counts.context_tokens(452_030);
    let ended =
        RunTokens { cache_read: Some(900_000), cache_write: Some(4), ..ended(1_356_000, 30) };
    counts.run_ended(ended);
    let usage = counts.usage(0, 0).unwrap();
    assert_eq!(
        (usage.input, usage.output, usage.source),
        (452_000, 30, UsageSource::BackendPartial)
    );
    assert_eq!((usage.cache_read, usage.cache_write), (300_000, 1));
    // One step: its prompt is not larger than the context after it, but for how it is counted.
    counts.run_ended(RunTokens { input: Some(460_010), cache_read: Some(9), ..ended });
    assert_eq!(counts.usage(0, 0).unwrap().input, 460_010);
}
