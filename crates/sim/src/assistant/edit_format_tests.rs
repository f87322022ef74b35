use super::*;

const SHOWN: &str = "These are the files:\n\nb.txt\n```\nother\n```\n\na/f.txt\n```\nfirst\nthe \
                     alpha here\nlast\n```\n";

fn intents() -> Vec<Intent> {
    let edit = |old: &str, new: &str| Intent::Edit {
        path: "a/f.txt".into(),
        old: old.into(),
        new: new.into(),
    };
    let write = Intent::Write { path: "n.txt".into(), text: "new".into() };
    vec![Intent::Read("a/f.txt".into()), edit("alpha", "beta"), write, edit("last", "end")]
}

#[test]
fn edit_format_is_recognised_in_the_instructions() {
    let blocks = "Like this:\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n";
    let listings = "You MUST use this *file listing* format:\n";
    assert_eq!(EditFormat::of(["Be kind.", blocks]), Some(EditFormat::Blocks));
    assert_eq!(EditFormat::of([listings]), Some(EditFormat::Listings));
    assert_eq!(EditFormat::of(["Search and replace whatever you like."]), None);
}

#[test]
fn edit_blocks_have_the_lines_before_and_after() {
    let answer = EditFormat::Blocks.answer(&intents(), &[SHOWN.to_owned()]);
    assert_eq!(
        answer,
        "a/f.txt holds:\n> first\n> the alpha here\n> last\n\n\
         a/f.txt\n```\n<<<<<<< SEARCH\nthe alpha here\n=======\nthe beta here\n>>>>>>> \
         REPLACE\n```\n\n\
         n.txt\n```\n<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE\n```\n\n\
         a/f.txt\n```\n<<<<<<< SEARCH\nlast\n=======\nend\n>>>>>>> REPLACE\n```"
    );
}

#[test]
fn listings_have_each_file_once_with_all_changes() {
    // The newest message that shows a file counts.
    let said = ["a/f.txt\n```\nold\n```".to_owned(), SHOWN.to_owned()];
    assert_eq!(
        EditFormat::Listings.answer(&intents(), &said),
        "a/f.txt holds:\n> first\n> the alpha here\n> last\n\n\
         a/f.txt\n```\nfirst\nthe beta here\nend\n```\n\n\
         n.txt\n```\nnew\n```"
    );
}

#[test]
fn files_that_were_not_shown_are_not_invented() {
    for format in [EditFormat::Blocks, EditFormat::Listings] {
        let intents = &intents()[..2];
        assert_eq!(
            format.answer(intents, &["a/f.txt is a file".to_owned()]),
            "I was not shown a/f.txt.\n\nI was not shown a/f.txt."
        );
        let shell = [Intent::Shell("ls".into())];
        assert_eq!(format.answer(&shell, &[]), "I was not offered a tool for that (shell).");
    }
}
