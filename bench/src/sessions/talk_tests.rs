use super::remembers;

#[test]
fn the_assistant_says_how_often_it_was_spoken_to() {
    assert!(remembers("I understand.", 0));
    assert!(!remembers("We have spoken once before.", 0));
    assert!(remembers("Yes. We have spoken once before. Bye.", 1));
    assert!(remembers("We have spoken 12 times before.", 12));
    assert!(!remembers("We have spoken 12 times before.", 2));
}
