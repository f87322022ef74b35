use super::*;

fn args(line: &str) -> TaskArgs {
    TaskArgs::new(line.split_whitespace().map(str::to_owned))
}

#[test]
fn options_are_read_in_any_order() {
    let mut args = args("test --lanes 2 --only deny --fast --only=fmt -- --quiet");
    assert_eq!(args.word().as_deref(), Some("test"));
    assert!(args.flag("--fast"));
    assert!(!args.flag("--fast"));
    assert_eq!(args.values("--only").unwrap(), ["deny", "fmt"]);
    assert_eq!(args.value::<usize>("--lanes").unwrap(), Some(2));
    assert_eq!(args.rest(), ["--quiet"]);
    args.finish().unwrap();
}

#[test]
fn missing_and_invalid_values_are_refused() {
    assert!(args("--lanes").value::<usize>("--lanes").is_err());
    assert!(args("--lanes --fast").value::<usize>("--lanes").is_err());
    assert!(args("--lanes two").value::<usize>("--lanes").is_err());
}

#[test]
fn unknown_arguments_are_refused() {
    let error = args("--fats").finish().unwrap_err().to_string();
    assert!(error.contains("--fats"), "{error}");
    assert!(args("-- --quiet").finish().is_err(), "nothing took the rest");
}
