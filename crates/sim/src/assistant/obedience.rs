//! Instructions about the words of an answer, which the model follows to the letter. They show
//! whether an instruction reached it.

/// The only word that the model is to say.
pub(crate) fn only_word(instructions: &[String]) -> Option<&str> {
    after(instructions, "answer with the single word ")
}

/// The word with which each answer is to end.
pub(crate) fn last_word(instructions: &[String]) -> Option<&str> {
    after(instructions, "End every answer with the word ")
}

fn after<'a>(instructions: &'a [String], phrase: &str) -> Option<&'a str> {
    let (_, rest) = instructions.iter().find_map(|text| text.split_once(phrase))?;
    let word = rest.split_whitespace().next()?.trim_end_matches(['.', ',']);
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_instructions() {
        let rules = [
            "Be brief.",
            "Whatever comes, answer with the single word ONYX and no other.",
            "End every answer with the word OPAL.",
        ];
        let rules: Vec<String> = rules.map(str::to_owned).into();
        assert_eq!((only_word(&rules), last_word(&rules)), (Some("ONYX"), Some("OPAL")));
        assert_eq!((only_word(&rules[..1]), last_word(&rules[..1])), (None, None));
    }
}
