use super::*;
use crate::model::{Image, ImageSource};

fn text(part: &Part) -> &str {
    match part {
        Part::Text(text) => text,
        Part::Image(_) => panic!("an image"),
    }
}

#[test]
fn a_short_result_is_not_copied() {
    let content = [Part::Text("short".into())];
    assert!(matches!(cap(&content, 5), Cow::Borrowed(_)));
}

#[test]
fn long_result_is_cut_with_a_note() {
    let content = [Part::Text("x".repeat(20_000_000))];
    let capped = cap(&content, 1 << 20);
    let text = text(&capped[0]);
    assert!(text.len() < (1 << 20) + 200);
    assert!(text.starts_with("xxxx"));
    assert!(text.contains("the first 1048576 of 20000000 bytes"), "{}", &text[1 << 20..]);
}

#[test]
fn longest_text_is_cut_first() {
    let note = "You made this call before.";
    let content = [Part::Text("x".repeat(1000)), Part::Text(note.into())];
    let capped = cap(&content, 100);
    assert_eq!(text(&capped[1]), note);
    assert!(text(&capped[0]).contains("the first 74 of 1000 bytes"));
}

#[test]
fn cut_is_at_a_character_and_images_are_kept() {
    let source = ImageSource::Inline { mime: "image/png".into(), data: vec![0; 100].into() };
    let image = Part::Image(Image { source });
    let content = [Part::Text("ééé".into()), image.clone()];
    let capped = cap(&content, 3);
    assert!(text(&capped[0]).starts_with("é\n[Cut here: the first 2 of 6 bytes"));
    assert_eq!(capped[1], image);
}

#[test]
fn total_size_of_several_texts_is_limited() {
    let content = vec![Part::Text("x".repeat(5000)); 50];
    let whole: usize = cap(&content, 1000).iter().map(Part::bytes).sum();
    assert!(whole < 1000 + 50 * 150, "{whole}");
}
