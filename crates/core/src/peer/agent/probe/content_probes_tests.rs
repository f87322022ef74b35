use super::super::{
    ProbeEnd,
    ProbeQuestion::{ReasoningReplay, RootImages},
    ProbeTrace,
    testing::{called, ended, entries, judge, next, out_of_quota, refused, request, said},
};
use super::*;

#[test]
fn question_h_sends_an_image_in_both_shapes() {
    let hex = entries(&next(RootImages, &[]).unwrap())[1]["content"][1].clone();
    assert_eq!(hex["image"]["__type"], "Uint8Array");
    let url = entries(&next(RootImages, &[said("red")]).unwrap())[1]["content"][1].clone();
    assert!(url["image"].as_str().unwrap().starts_with("data:image/png;base64,iVBOR"), "{url}");
    assert_eq!(url["mediaType"], "image/png");
    assert!(next(RootImages, &[said("red"), said("blue")]).is_none());
    for colour in [RED, BLUE] {
        let png = bytes_of(colour);
        let size = imagesize::blob_size(&png).unwrap();
        assert_eq!((size.width, size.height), (64, 64));
    }
    let run = next(RootImages, &[]).unwrap();
    assert_eq!(request(&run).client_supports_inline_images, Some(true));

    let none = || said("I see no image.");
    for (runs, want) in [
        (vec![said("Red."), said("Blue.")], "images-both"),
        (vec![said("Red."), none()], "images-hex"),
        (vec![said("Red."), refused()], "images-hex"),
        (vec![none(), said("It is blue.")], "images-data-url"),
        (vec![none(), none()], "images-unseen"),
        // A guess is not an image that was seen.
        (vec![said("Red."), said("Red.")], "images-hex"),
        (vec![said("Red."), out_of_quota()], "unclear"),
        (vec![said("Red.")], "unclear"),
    ] {
        assert_eq!(judge(RootImages, &runs).0, want, "{runs:?}");
    }
}

#[test]
fn question_o_replays_the_entries_byte_for_byte() {
    let entry =
        r#"{ "role":"assistant", "content":[{"type":"reasoning","text":"hm","signature":"s"}]}"#;
    let signed = || ProbeTrace { entries: vec![entry.into()], signed: true, ..called() };
    assert!(next(ReasoningReplay, &[]).is_some());
    let run = next(ReasoningReplay, &[signed()]).unwrap();
    let state = request(&run).conversation_state.unwrap();
    let replayed = run.blobs.get(&state.root_prompt_messages_json[0]).unwrap();
    assert_eq!(replayed, entry, "not even a space differs");
    assert!(next(ReasoningReplay, &[called()]).is_none(), "there is nothing to replay");

    for (runs, want) in [
        (vec![called()], "reasoning-unsigned"),
        (vec![signed(), said("amber")], "reasoning-accepted"),
        (vec![signed(), refused()], "reasoning-refused"),
        (vec![signed(), ended(ProbeEnd::Silent)], "unclear"),
        (vec![signed()], "unclear"),
        (vec![out_of_quota()], "unclear"),
    ] {
        assert_eq!(judge(ReasoningReplay, &runs).0, want, "{runs:?}");
    }
}
