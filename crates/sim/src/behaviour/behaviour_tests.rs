use super::*;

#[test]
fn switches_are_set_by_their_dotted_names() {
    let mut behaviour = Behaviour::preset(Preset::Summer);
    behaviour.set("tools.mode", "meta").unwrap();
    behaviour.set("roots.max", "10").unwrap();
    behaviour.set("history.inline7", "2m").unwrap();
    assert_eq!(behaviour.tools_mode, ToolsMode::Meta);
    assert_eq!(behaviour.roots_max, Some(10));
    assert_eq!(behaviour.history_inline7, Some(std::time::Duration::from_secs(120)));
    assert_eq!(
        behaviour.set("tools.mode", "other").unwrap_err().to_string(),
        "`tools.mode` cannot be `other`; its values: direct, meta, meta-old-names"
    );
    let unknown = behaviour.set("tools.modes", "meta").unwrap_err();
    assert!(unknown.to_string().starts_with("unknown switch `tools.modes`"), "{unknown}");
}

#[test]
fn every_value_of_the_table_can_be_set() {
    for row in Behaviour::table() {
        let mut behaviour = Behaviour::preset(Preset::Summer);
        for value in [&row.autumn, &row.summer] {
            behaviour.set(row.name, value).unwrap();
        }
        for value in row.values.split(", ").filter(|value| !value.starts_with("or ")) {
            behaviour.set(row.name, value).unwrap();
        }
    }
    let mut from_rows = Behaviour::preset(Preset::Summer);
    for row in Behaviour::table() {
        from_rows.set(row.name, &row.autumn).unwrap();
    }
    assert_eq!(from_rows, Behaviour::preset(Preset::Autumn));
}

#[test]
fn later_changes_win_and_presets_come_first() {
    let file = BehaviourChanges::from(Preset::Autumn).with("tools.mode", "direct").unwrap();
    let flag: BehaviourChanges = "roots.max=7".parse().unwrap();
    let both = Behaviour::with([&file, &flag]);
    assert_eq!((both.tools_mode, both.roots_max), (ToolsMode::Direct, Some(7)));
    assert!(both.roots_resume_verbatim);
    // A preset on the command line keeps the switches of the file.
    let summer: BehaviourChanges = "preset=summer".parse().unwrap();
    let both = Behaviour::with([&file, &summer]);
    assert!(!both.roots_resume_verbatim);
    assert_eq!(both.tools_mode, ToolsMode::Direct);
    assert!("preset=winter".parse::<BehaviourChanges>().is_err());
    assert!("roots.max".parse::<BehaviourChanges>().is_err());
}

#[test]
fn tables_may_nest_names_or_dot_them() {
    let nested = "preset = \"autumn\"\nroots.max = 5\n[tools]\nmode = \"direct\"\nneed34 = true\n";
    let dotted = "preset = \"autumn\"\n\"roots.max\" = 5\n\"tools.mode\" = \"direct\"\n\"tools.need34\" = \"on\"\n";
    let nested: BehaviourChanges = toml::from_str(nested).unwrap();
    let dotted: BehaviourChanges = toml::from_str(dotted).unwrap();
    let (nested, dotted) = (Behaviour::with([&nested]), Behaviour::with([&dotted]));
    assert_eq!(nested, dotted);
    assert!(nested.tools_need34);
    let again: Vec<_> =
        BehaviourChanges::from(Preset::Autumn).with("roots.max", "5").unwrap().words().collect();
    assert_eq!(again, ["preset=autumn", "roots.max=5"]);
}
