use super::*;

fn report(run: u64, text: &str) -> PromptReport {
    let entry = PromptEntry { text: text.to_owned(), ..PromptEntry::default() };
    PromptReport { run, entries: vec![entry], ..PromptReport::default() }
}

#[test]
fn oldest_prompts_are_forgotten_first() {
    let ledger = PromptLedger::default();
    ledger.add(report(1, "old"));
    ledger.extend(1, PromptEntry { text: "more".to_owned(), ..PromptEntry::default() });
    assert_eq!(ledger.list()[0].entries.len(), 2);
    ledger.add(report(2, &"x".repeat(BYTES_CAP)));
    let runs: Vec<_> = ledger.list().iter().map(|prompt| prompt.run).collect();
    assert_eq!(runs, [2]);
    // A forgotten prompt cannot grow.
    ledger.extend(1, PromptEntry::default());
    assert_eq!(ledger.list().len(), 1);
}
