use super::{document::NamedCheck, sources::tests, *};

fn text(package: &str, target: Option<&str>, filter: &str) -> NamedCheck {
    let target = target.map(str::to_owned);
    NamedCheck::Tests { package: package.to_owned(), target, filter: filter.to_owned() }
}

#[test]
fn commands_and_paths_in_documents_are_understood() {
    let document = PromiseDocument::read(
        "It is safe (`core::limits::tests::one`, `net::`, `Host`).\n\
         ```sh\n\
         cargo test -p ibeam --test it refusals::   # what each refusal costs\n\
         ibeam audit\n\
         ```\n\
         Also `cargo nextest run -p ibeam-core guard` and `cargo xtask test --only strace`.\n",
    );
    let wanted = [
        (1, NamedCheck::Path("core::limits::tests::one".to_owned())),
        (3, text("ibeam", Some("it"), "refusals::")),
        (6, text("ibeam-core", None, "guard")),
        (6, NamedCheck::Step("strace".to_owned())),
    ];
    assert_eq!(document.checks, wanted);
}

#[test]
fn row_with_a_promise_names_a_test() {
    let document = PromiseDocument::read(
        "| who | what protects | check |\n|---|---|---|\n\
         | a | modes | `cargo test -p ibeam a` |\n\
         | b | limits | `ibeam audit` |\n\
         | c | nothing | |\n\
         | d | words | |\n\n\
         | other | table |\n|---|---|\n| e | no tests here |\n",
    );
    assert_eq!(document.bare, [(4, "b".to_owned()), (6, "d".to_owned())]);
}

#[test]
fn column_of_tests_can_have_names_without_paths() {
    let document = PromiseDocument::read(
        "| promise | test |\n|---|---|\n| `client_stall` holds | `one_test`, `another_test` |\n",
    );
    let named = ["one_test", "another_test"].map(|name| (3, NamedCheck::Path(name.to_owned())));
    assert_eq!((document.checks, document.bare), (named.to_vec(), Vec::new()));
}

#[test]
fn tests_are_found_in_sources_with_their_modules() {
    let source = "\
fn helper() {}

#[test]
fn plain() {}

#[tokio::test(start_paused = true)]
async fn paused() {}

mod inner {
    #[test]
    #[cfg(unix)]
    fn nested() {}
}

#[test]
#[expect(
    clippy::indexing_slicing,
    reason = \"short\"
)]
fn after_a_long_attribute() {}

proptest! {
    #[test]
    fn generated(x in 0..9) {}
}

fn not_a_test() {}
";
    let wanted = ["plain", "paused", "inner::nested", "after_a_long_attribute", "generated"];
    assert_eq!(tests(source), wanted);
}

#[test]
fn missing_test_is_a_fault() {
    let packages = packages(&crate::root()).unwrap();
    let fault = |check: &NamedCheck| missing(check, &packages).is_some();
    let own = "test::promises::tests::missing_test_is_a_fault";
    assert!(!fault(&text("xtask", None, own)));
    assert!(!fault(&NamedCheck::Path(own.to_owned())));
    assert!(fault(&NamedCheck::Path("test::promises::tests::no_such_test".to_owned())));
    assert!(fault(&text("xtask", Some("it"), own)), "not in that target");
    assert!(fault(&text("ibeam-core", None, own)), "not in that package");
    assert!(fault(&text("no-such-package", None, "")));
    assert!(!fault(&NamedCheck::Step("strace".to_owned())));
    assert!(fault(&NamedCheck::Step("no-such-step".to_owned())));
    // Modules of tests in files and folders of their own.
    assert!(!fault(&text("ibeam-server", None, "api::guard::tests::")));
    assert!(!fault(&text("ibeam-core", None, "limits::tests::")));
    assert!(!fault(&text("ibeam", Some("it"), "key_limits::one_key_cannot_take_all_turns")));
    assert!(fault(&text("ibeam", None, "limits::places::")));
}
