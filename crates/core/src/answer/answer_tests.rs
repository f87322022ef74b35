use super::*;

#[test]
fn endless_answer_is_passed_on_but_not_stored() {
    let mut answer = TurnAnswer::default();
    let piece = "ä".repeat(KEPT / 8 + 1);
    for _ in 0..16 {
        answer.text(piece.clone());
        answer.reasoning(piece.clone());
        let told = std::iter::from_fn(|| answer.pop());
        let told: usize = told.map(|event| event_bytes(&event) - size_of::<TurnEvent>()).sum();
        assert_eq!(told, 2 * piece.len());
    }
    assert!(answer.memory() <= 2 * KEPT, "{}", answer.memory());
    assert!(answer.words().chars().all(|c| c == 'ä'));
    // The count is of all of it, and the text is not.
    let usage = Usage { output: 1, source: UsageSource::Backend, ..Usage::default() };
    assert!(answer.sample(&usage).is_none());
}

#[test]
fn long_text_is_split_into_several_events() {
    let long = "\u{1}ä".repeat(EVENT_TEXT);
    let mut answer = TurnAnswer::default();
    answer.started();
    answer.text(long.clone());
    let id = CallId::sanitised("call_1");
    answer.call_begin(id.clone(), "tool".to_owned());
    answer.call_args(&id, long.clone());
    let (mut text, mut arguments) = (String::new(), String::new());
    while let Some(event) = answer.pop() {
        assert!(event_bytes(&event) <= EVENT_TEXT + size_of::<TurnEvent>());
        match event {
            TurnEvent::Text(piece) => text.push_str(&piece),
            TurnEvent::ToolCallArgs { delta, .. } => arguments.push_str(&delta),
            _ => {}
        }
    }
    assert!(text == long && arguments == long);
}
