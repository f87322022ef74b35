use std::fs;

use super::{
    PAGES,
    page::{PageComparison, TranslatedPage},
};

const ENGLISH: &str = "\
# Title

Words.

## One

| a | b |
|---|---|
| 1 | 2 |

```sh
ibeam up    # a comment
```

- item with a [link](x.md)
";

fn translated(title: &str, one: &str) -> String {
    format!(
        "# 标题\n{title}\n\n文字。\n\n## 一\n{one}\n\n| 甲 | 乙 |\n|---|---|\n| 1 | 2 |\n\n\
         ```sh\nibeam up    # 注释\n```\n\n- 一项，有[链接](../x.md)\n"
    )
}

fn compare(english: &str, translation: &str) -> PageComparison {
    TranslatedPage::new(english).against(&TranslatedPage::new(translation))
}

/// The translation with the right hashes.
fn current() -> String {
    compare(ENGLISH, &translated("", "")).accepted
}

#[test]
fn a_translation_without_marks_is_stale_and_gets_them() {
    let report = compare(ENGLISH, &translated("", ""));
    assert_eq!(report.shape, Vec::<String>::new());
    assert_eq!(report.stale.len(), 2);
    assert_eq!(report.changes, 2);
    assert!(report.accepted.contains("# 标题\n<!-- en: Title "), "{}", report.accepted);
    let again = compare(ENGLISH, &report.accepted);
    assert_eq!((again.stale.len(), again.changes), (0, 0));
    assert_eq!(again.accepted, report.accepted);
}

#[test]
fn changed_text_makes_only_its_section_stale() {
    let changed = ENGLISH.replace("item with", "another with");
    let report = compare(&changed, &current());
    assert_eq!(report.stale, ["\"One\" is of an older text"]);
    assert_eq!(report.shape, Vec::<String>::new());
    let accepted = compare(&changed, &report.accepted);
    assert_eq!(accepted.stale, Vec::<String>::new());
    assert_eq!(report.accepted.matches("<!-- en: ").count(), 2);
}

#[test]
fn rewrapped_lines_are_not_a_change() {
    let filled = ENGLISH.replace("item with a", "item with\n  a");
    assert_eq!(compare(&filled, &current()).stale, Vec::<String>::new());
}

#[test]
fn another_shape_cannot_be_accepted() {
    for (from, to, what) in [
        ("| 1 | 2 |", "| 1 | 2 |\n| 3 | 4 |", "tables"),
        ("- item", "- more\n- item", "list items"),
        ("item with", "item [with](y.md)", "links"),
        ("ibeam up", "ibeam serve", "blocks of code"),
        ("```sh", "```toml", "blocks of code"),
    ] {
        let report = compare(&ENGLISH.replace(from, to), &current());
        assert_eq!(report.shape.len(), 1, "{what}: {:?}", report.shape);
        assert!(report.shape.iter().all(|fault| fault.contains(what)), "{:?}", report.shape);
        assert_eq!(report.changes, 0, "{what}");
        assert_eq!(report.accepted, current());
    }
}

#[test]
fn a_missing_section_is_named() {
    let report = compare(&format!("{ENGLISH}\n## Two\n"), &current());
    assert!(report.shape.iter().all(|fault| fault.contains("\"Two\"")), "{:?}", report.shape);
    assert_eq!(report.shape.len(), 1);
    let first = ENGLISH.replace("## One", "## Zero\n\n## One");
    let report = compare(&first, &current());
    assert!(report.shape.iter().all(|fault| fault.contains("\"One\"")), "{:?}", report.shape);
}

#[test]
fn heading_in_a_code_block_is_ignored() {
    let page = "# Title\n\n```sh\n# not a heading\n```\n";
    let report = compare(page, "# 标题\n\n```sh\n# 不是标题\n```\n");
    assert_eq!(report.shape, Vec::<String>::new());
    assert_eq!(report.changes, 1);
}

/// A page that is not compared would become stale unnoticed.
#[test]
fn every_translated_page_is_compared() {
    let mut folders = vec![crate::root().join("docs/zh-CN")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(crate::root()).unwrap().to_str().unwrap().to_owned();
                assert!(PAGES.iter().any(|(_, translated)| *translated == name), "{name}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen + 1, PAGES.len(), "the README is elsewhere");
}
