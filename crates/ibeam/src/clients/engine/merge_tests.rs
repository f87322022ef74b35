use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn entry(name: &str, before: Option<&str>, after: &str) -> SetupEntry {
    SetupEntry {
        path: PathBuf::from(name),
        before: before.map(str::to_owned),
        after: Some(after.to_owned()),
        replaced: None,
        mode: None,
        private: false,
        backup: None,
        folders: Vec::new(),
    }
}

/// The text alone.
fn undone(entry: &SetupEntry, now: Option<&str>) -> Option<Option<String>> {
    super::undone(entry, now).map(|back| back.text)
}

fn fate(entry: &SetupEntry, now: Option<&str>) -> Fate {
    super::undone(entry, now).unwrap().fate
}

#[test]
fn fate_of_each_setting_is_reported() {
    let before = "model = \"o3\"\nx = 1\n";
    let after = "model = \"gpt\"\nx = 1\nmodel_provider = \"ibeam\"\n\n[model_providers.ibeam]\nname = \"ibeam\"\nbase_url = \"u\"\n";
    let ours = entry("config.toml", Some(before), after);
    let now = after.replace("\"gpt\"", "\"mine\"").replace("\"u\"", "\"v\"");
    let Fate::Changed(later) = fate(&ours, Some(&now)) else { panic!() };
    assert_eq!(
        later,
        [
            Later::Stays("model".to_owned(), Some(json!("o3"))),
            Later::TakenOut("model_provider".to_owned()),
            Later::TakenOutChanged("model_providers".to_owned()),
        ]
    );
    assert_eq!(fate(&ours, Some(after)), Fate::Same);
    assert_eq!(fate(&ours, None), Fate::Deleted);
    assert_eq!(fate(&entry("x.toml", None, after), None), Fate::Same);
    // A change elsewhere is one, too: not every byte comes back.
    let now = after.replace("x = 1", "x = 2");
    assert!(matches!(fate(&ours, Some(&now)), Fate::Changed(_)));
}

#[test]
fn separate_lines_keep_every_byte() {
    let before = "{\n  \"a\": 1, // one\n  \"b\": 2,\n  \"c\": 3\n}\n";
    let after = "{\n  \"a\": 1, // one\n  \"b\": 2,\n  \"c\": 3,\n  \"ours\": 4\n}\n";
    let now = after.replace("\"a\": 1, // one", "\"a\": 10, // ten");
    let wanted = before.replace("\"a\": 1, // one", "\"a\": 10, // ten");
    assert_eq!(undone(&entry("x.json", Some(before), after), Some(&now)), Some(Some(wanted)));
}

/// As Codex does when the user trusts a folder.
#[test]
fn following_table_is_kept() {
    let before = "model = \"m\"\n";
    let after =
        "model = \"m\"\nmodel_provider = \"ibeam\"\n\n[model_providers.ibeam]\nname = \"ibeam\"\n";
    let now = format!("{after}\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n");
    let left = undone(&entry("config.toml", Some(before), after), Some(&now)).unwrap().unwrap();
    assert_eq!(left, "model = \"m\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n");
}

#[test]
fn edited_settings_belong_to_the_user() {
    let after = r#"{"env": {"URL": "ours", "KEY": "k"}, "list": ["a", "ours"]}"#;
    let before = r#"{"list": ["a"]}"#;
    let now = r#"{"env": {"URL": "mine", "KEY": "k", "X": "1"}, "list": ["ours", "b", "a"]}"#;
    let left = undone(&entry("x.json", Some(before), after), Some(now)).unwrap().unwrap();
    let left = json::JsonDocument::parse(&left).unwrap().get(&[]).unwrap();
    assert_eq!(left, json!({ "env": { "URL": "mine", "X": "1" }, "list": ["b", "a"] }));
}

/// As Cline does at every start.
#[test]
fn own_entry_is_removed_as_a_whole() {
    let before = r#"{"providers": {"mine": {"updatedAt": 1}}}"#;
    let after =
        r#"{"providers": {"mine": {"updatedAt": 1}, "ours": {"url": "x", "updatedAt": 1}}}"#;
    let now = after.replace("\"updatedAt\": 1", "\"updatedAt\": 2");
    let left = undone(&entry("x.json", Some(before), after), Some(&now)).unwrap().unwrap();
    let left = json::JsonDocument::parse(&left).unwrap().get(&[]).unwrap();
    assert_eq!(left, json!({ "providers": { "mine": { "updatedAt": 2 } } }));
}

#[test]
fn own_file_is_removed_unless_it_was_extended() {
    let after = "{\n  \"env\": {\n    \"A\": \"1\"\n  }\n}\n";
    let made = entry("x.json", None, after);
    assert_eq!(undone(&made, Some(after)), Some(None));
    // It was deleted.
    assert_eq!(undone(&made, None), Some(None));
    // The client wrote it again, in its own layout.
    assert_eq!(undone(&made, Some("{\"env\":{\"A\":\"1\"}}")), Some(None));
    let now = "{\"env\":{\"A\":\"1\"},\"theme\":\"dark\"}";
    let left = undone(&made, Some(now)).unwrap().unwrap();
    assert_eq!(left, "{\"theme\":\"dark\"}");
}

#[test]
fn overlapping_changes_are_left_alone() {
    let ours = entry("x.yaml", Some("a: 1\n"), "a: 1\nb: 2\n");
    assert_eq!(undone(&ours, Some("a: 1\nb: 3\n")), None);
    // Malformed since: no text is right.
    let ours = entry("x.json", Some("{}\n"), "{\n  \"a\": 1\n}\n");
    assert_eq!(undone(&ours, Some("{\n  \"a\": 1,,\n}\n")), None);
}

/// What an interrupted second setup was to replace counts as ours.
#[test]
fn text_of_an_earlier_setup_is_removed() {
    let mut ours = entry("x.json", Some("{}"), "{\"a\": 2}");
    ours.replaced = Some("{\"a\": 1}".to_owned());
    assert_eq!(undone(&ours, Some("{\"a\": 1}")), Some(Some("{}".to_owned())));
}

/// A value, and how its text is laid out.
fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(true)),
        (0_i64..1000).prop_map(Value::from),
        "[a-z /é\"\\\\]{0,8}".prop_map(Value::from),
    ]
}

fn object() -> impl Strategy<Value = Value> {
    let inner = leaf().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-f]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-f]{1,2}", inner, 0..6)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    indent: &'static str,
    end: &'static str,
    comment: bool,
    comma: bool,
}

fn layout() -> impl Strategy<Value = Layout> {
    let indents = prop_oneof![Just("  "), Just("\t"), Just("    "), Just("")];
    let ends = prop_oneof![Just("\n"), Just("\r\n")];
    (indents, ends, any::<bool>(), any::<bool>()).prop_map(|(indent, end, comment, comma)| Layout {
        indent,
        end,
        comment,
        comma,
    })
}

fn json_text(value: &Value, layout: Layout, depth: usize) -> String {
    let Layout { indent, end, comment, comma } = layout;
    let (open, close, items): (_, _, Vec<String>) = match value {
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{}: {}", Value::from(key.as_str()), json_text(value, layout, depth + 1))
            };
            ('{', '}', map.iter().map(pair).collect())
        }
        Value::Array(items) => {
            ('[', ']', items.iter().map(|item| json_text(item, layout, depth + 1)).collect())
        }
        leaf => return leaf.to_string(),
    };
    let mut text = format!("{open}{end}");
    let last = items.len().saturating_sub(1);
    for (index, item) in items.iter().enumerate() {
        let comma = if index < last || comma { "," } else { "" };
        let note = if comment && index % 2 == 0 { " // why" } else { "" };
        text += &format!("{}{item}{comma}{note}{end}", indent.repeat(depth + 1));
    }
    text + &format!("{}{close}", indent.repeat(depth))
}

fn toml_text(value: &Value, end: &str) -> String {
    let (mut top, mut tables) = (format!("# mine{end}"), String::new());
    for (key, value) in value.as_object().unwrap() {
        match value {
            Value::Object(map) if !map.is_empty() => {
                tables += &format!("{end}[{key}] # here{end}");
                for (name, value) in map {
                    tables += &format!("{name} = {}{end}", toml::literal(value));
                }
            }
            value => top += &format!("{key} = {} # why{end}", toml::literal(value)),
        }
    }
    top + &tables
}

/// What a setup writes: some of it where the user may have something.
fn ours() -> impl Strategy<Value = Vec<(Vec<String>, Value)>> {
    let path = prop::collection::vec("[a-f]{1,2}|ours|more", 1..4);
    prop::collection::vec((path, leaf()), 1..4)
}

fn write<D: KeyRemoval>(text: &str, changes: &[(Vec<String>, Value)]) -> Option<String> {
    let mut document = D::parse(text).unwrap();
    for (path, value) in changes {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        // Something of the user's in the way is refused, by a plan as well.
        document.set(&path, value).ok()?;
    }
    Some(document.to_string())
}

fn value<D: KeyRemoval>(text: &str) -> Value {
    D::parse(text).unwrap().get(&[]).unwrap_or(json!({}))
}

fn holds<D: KeyRemoval>(name: &str, before: &str, changes: &[(Vec<String>, Value)]) {
    let Some(after) = write::<D>(before, changes) else { return };
    let ours = entry(name, Some(before), &after);
    // It was not changed: every byte.
    assert_eq!(undone(&ours, Some(&after)), Some(Some(before.to_owned())));
    // By meaning alone: every value, but for objects that were there and empty.
    let left = by_meaning::<D>(before, &after, &after).unwrap();
    assert_eq!(value::<D>(&left), value::<D>(before), "{before}\n{after}\n{left}");
    // A key was added: that stays, and ours goes.
    let later = [(vec!["later".to_owned(), "x".to_owned()], json!("mine"))];
    let now = write::<D>(&after, &later).unwrap();
    let left = undone(&ours, Some(&now)).unwrap().unwrap();
    let wanted = write::<D>(before, &later).unwrap();
    assert_eq!(value::<D>(&left), value::<D>(&wanted), "{before}\n{after}\n{now}\n{left}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_restored(object in object(), layout in layout(), changes in ours()) {
        holds::<json::JsonDocument>("x.json", &json_text(&object, layout, 0), &changes);
    }

    #[test]
    fn any_toml_is_restored(object in object(), windows: bool, changes in ours()) {
        let end = if windows { "\r\n" } else { "\n" };
        holds::<toml::TomlDocument>("x.toml", &toml_text(&object, end), &changes);
    }
}
