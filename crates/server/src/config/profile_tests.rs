use super::*;

#[test]
fn profile_name_must_be_a_file_name_on_every_system() {
    for good in ["default", "work", "a", "0", "my-team_2", &"x".repeat(32)] {
        assert_eq!(good.parse::<Profile>().unwrap().as_str(), good);
    }
    let long = "x".repeat(33);
    let bad = [
        ("", InvalidProfile::Empty),
        (long.as_str(), InvalidProfile::Long),
        ("Work", InvalidProfile::Characters),
        ("..", InvalidProfile::Characters),
        ("a/b", InvalidProfile::Characters),
        ("a\\b", InvalidProfile::Characters),
        ("a.b", InvalidProfile::Characters),
        ("-a", InvalidProfile::Characters),
        ("a b", InvalidProfile::Characters),
        ("ä", InvalidProfile::Characters),
        ("a\0", InvalidProfile::Characters),
        ("nul", InvalidProfile::Reserved),
        ("com1", InvalidProfile::Reserved),
    ];
    for (name, why) in bad {
        assert_eq!(name.parse::<Profile>(), Err(why), "{name:?}");
    }
    assert!("com".parse::<Profile>().is_ok() && "com0".parse::<Profile>().is_ok());
    assert_eq!(Profile::default().to_string(), "default");
    assert!(Profile::default().is_default());
}
