use super::*;

fn ids(output: &str) -> Vec<String> {
    models(output, true).list.models().iter().map(|model| model.id.clone()).collect()
}

#[test]
fn models_are_found_between_colours_headers_and_tips() {
    let output = "\x1b[2K\x1b[1GLoading models…\r\x1b[1mAvailable models\x1b[0m\n\n\
                  auto - Auto\n\
                  \x1b[32mcomposer-2 - Composer 2  (current, default)\x1b[0m\n\
                  gpt-5.4-high-fast - GPT-5.4 High Fast\r\n\
                  sonnet-4.6-thinking - Claude 4.6 Sonnet (Thinking) (default)\n\
                  composer-2[fast=true] - Composer 2 - Fast (current)\n\n\
                  Tip: use --model <id> (or /model <id> in interactive mode) - to switch.\n";
    let listing = models(output, false);
    let shown: Vec<(&str, &str)> = listing
        .list
        .models()
        .iter()
        .map(|model| (model.id.as_str(), model.name.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            ("auto", "Auto"),
            ("composer-2", "Composer 2"),
            ("gpt-5.4-high-fast", "GPT-5.4 High Fast"),
            ("sonnet-4.6-thinking", "Claude 4.6 Sonnet (Thinking)"),
            ("composer-2[fast=true]", "Composer 2 - Fast"),
        ]
    );
    assert_eq!(listing.current.as_deref(), Some("composer-2"));
    assert_eq!(listing.default.as_deref(), Some("composer-2"));
    assert!(listing.list.models().iter().all(|model| !model.images && model.context_window > 0));
    assert!(listing.list.models()[3].thinking && !listing.list.models()[0].thinking);
}

#[test]
fn bare_ids_are_the_last_resort() {
    assert_eq!(ids("Available models:\n  * auto\n  • gpt-5\n\nDone\n"), ["auto", "gpt-5"]);
    assert_eq!(ids("gpt-5 - GPT-5\nsonnet-4\n"), ["gpt-5"]);
    for none in ["", "No models available for this account.", "Error: not logged in", "\x1b["] {
        assert_eq!(ids(none), Vec::<String>::new(), "{none}");
    }
}

#[test]
fn common_names_resolve_in_the_list() {
    let list = models("auto - Auto\ngpt-5.4 - GPT-5.4\ngpt-5.4-high - GPT-5.4 High\n", true).list;
    for (name, want) in [("auto", "auto"), ("default", "auto"), ("cursor/gpt-5.4", "gpt-5.4")] {
        assert_eq!(list.resolve(name, None).unwrap().wire_id, want, "{name}");
    }
}

#[test]
fn choice_uses_the_spelling_of_the_list() {
    let output = "auto - Auto\ngpt-5.4 - GPT-5.4\ngpt-5.4-high - High\ngpt-5.4-high-fast - Fast\n\
                  composer-2[fast=true] - Composer 2\n";
    let list = models(output, true).list;
    for (wanted, want) in [
        ("auto", "auto"),
        ("gpt-5.4", "gpt-5.4"),
        ("gpt-5.4-high", "gpt-5.4-high"),
        ("gpt-5.4[reasoning=high]", "gpt-5.4-high"),
        ("gpt-5.4[reasoning=high,fast=true]", "gpt-5.4-high-fast"),
        ("gpt-5.4[fast=false]", "gpt-5.4"),
        ("composer-2-fast", "composer-2[fast=true]"),
        // These are not in it.
        ("gpt-5.4[reasoning=low]", "gpt-5.4[reasoning=low]"),
        ("composer-2", "composer-2"),
        ("gpt-9", "gpt-9"),
    ] {
        assert_eq!(listed(&list, wanted), want, "{wanted}");
    }
}

#[test]
fn list_is_limited() {
    let endless: String = (0..5000).map(|n| format!("gpt-{n} - GPT {n}\n")).collect();
    assert_eq!(ids(&endless).len(), MAX_MODELS);
    assert!(ids(&format!("{} - x", "g5".repeat(MAX_ID))).is_empty());
}

#[test]
fn status_output_is_read() {
    let signed_in =
        |account: Option<&str>| SignInStatus::SignedIn { account: account.map(str::to_owned) };
    let rows = [
        ("\x1b[32m ✓ Logged in as me@example.com\x1b[0m\n", signed_in(Some("me@example.com"))),
        ("✓ Logged in as me@example.com.", signed_in(Some("me@example.com"))),
        ("✓ Logged in\nAccount: (me@example.com)\n", signed_in(Some("me@example.com"))),
        ("✓ Logged in", signed_in(None)),
        ("Checking…\rNot logged in\n", SignInStatus::SignedOut),
        ("You are not authenticated. Run cursor-agent login.", SignInStatus::SignedOut),
        (
            r#"{"status":"authenticated","isAuthenticated":true,"userInfo":{"email":"a@b.c"}}"#,
            signed_in(Some("a@b.c")),
        ),
        ("\x1b[2K{\"isAuthenticated\":false,\"message\":\"Logged in\"}\n", SignInStatus::SignedOut),
        (r#"warning {"status":"unauthenticated"}"#, SignInStatus::SignedOut),
        (r#"{"loggedIn":true}"#, signed_in(None)),
        (r#"{"isAuthenticated":"yes","message":"Not logged in"}"#, SignInStatus::SignedOut),
        (r#"{"other":1}"#, SignInStatus::Unclear),
        ("unknown command 'status' {", SignInStatus::Unclear),
        ("", SignInStatus::Unclear),
    ];
    for (output, want) in rows {
        assert_eq!(SignInStatus::read(output), want, "{output}");
    }
}

#[test]
fn version_identifies_cursor_agent() {
    let rows = [
        ("2026.01.28-fd13201\n", Some("2026.01.28-fd13201")),
        ("\x1b[1mCursor Agent 2025.9.4-0aa\x1b[0m", Some("2025.9.4-0aa")),
        ("2026.06.12-01-15-52\n", Some("2026.06.12-01-15-52")),
        ("agent 1.2.3\n", None),
        ("2026.01.28\n", None),
        ("2026.01.28-", None),
        ("2026.01.28-01-", None),
        ("2026.01.28-XYZ", None),
        ("26.01.28-abc", None),
        ("2026.1.2.3-abc", None),
        ("", None),
    ];
    for (output, want) in rows {
        assert_eq!(version(output).as_deref(), want, "{output}");
    }
}

#[test]
fn model_name_has_the_chosen_parameters() {
    let mut model = ModelPick { id: "gpt-5.4".into(), ..ModelPick::default() };
    assert_eq!(spelled(&model, None), "gpt-5.4");
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    model.parameters = vec![set("reasoning", "high"), set("fast", "true")];
    assert_eq!(spelled(&model, None), "gpt-5.4[reasoning=high,fast=true]");
    let list = models("gpt-5.4-high-fast - GPT-5.4 High Fast\n", false).list;
    assert_eq!(spelled(&model, Some(&list)), "gpt-5.4-high-fast");
    let auto = ModelPick { id: AUTO_WIRE_ID.into(), ..ModelPick::default() };
    assert_eq!(spelled(&auto, Some(&list)), AUTO_NAME);
}
