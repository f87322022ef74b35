use ibeam_core::models::{ModelInfo, ModelList, UnknownName};

use super::*;

#[test]
fn costs_name_every_model_and_the_most_runs() {
    let list = ["default", "composer-2.5", "claude-haiku-4-5"].map(ModelInfo::from_id);
    let list = ModelList::new(list.to_vec());
    let items = schedule(&ProbeQuestion::ALL, &list, &[], UnknownName::Refuse).unwrap();
    let text = costs(&items);
    assert!(text.starts_with("17 questions to Cursor, in at most 35 short runs:"), "{text}");
    for line in ["auto                     24 runs", "composer-2.5             2 runs"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("count towards your plan"), "{text}");
    let one = schedule(&[ProbeQuestion::VersionFloor], &list, &[], UnknownName::Refuse).unwrap();
    assert!(costs(&one).starts_with("1 question to Cursor, in at most 1 short run:"));
}

#[test]
fn questions_are_read_by_their_letters() {
    assert_eq!(question("A"), Ok(ProbeQuestion::ResumedPrompt));
    assert_eq!(question(" q "), Ok(ProbeQuestion::HeldCall));
    for wrong in ["", "r", "ab", "7"] {
        assert!(question(wrong).unwrap_err().contains("a to q"), "{wrong}");
    }
}
