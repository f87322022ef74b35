use super::remembers;

#[test]
fn number_of_earlier_questions_is_read_from_the_answer() {
    assert!(remembers("I understand.", 0));
    assert!(!remembers("We have spoken once before.", 0));
    assert!(remembers("Yes. We have spoken once before. Bye.", 1));
    assert!(remembers("We have spoken 12 times before.", 12));
    assert!(!remembers("We have spoken 12 times before.", 2));
}
