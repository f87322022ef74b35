use super::*;

/// Files as people have them, with a secret in each place. None of it may be seen.
#[test]
fn planted_secrets_are_not_shown() {
    for text in [
        r#"{"provider":{"x":{"options":{"apiKey":"hunter2","baseURL":"http://x"}}}}"#,
        r#"{"a":1,"token":"hunter2","headers":{"Authorization":"Bearer hunter2"}}"#,
        r#"{"apiKey":["hunter2", "hunter2"]}"#,
        "{\n  \"apiKey\":\n    \"hunter2\"\n}",
        "{\n  \"apiKeys\": [\n    \"hunter2\",\n    \"hunter2\"\n  ]\n}",
        "{\n  \"secrets\": {\n    \"mine\": \"hunter2\"\n  }\n}",
        r#"{"args":["--api-key","hunter2"],"more":["--token=hunter2"]}"#,
        r#"{"command":"run --password hunter2 --fast"}"#,
        r#"{"url":"https://me:hunter2@host/x","q":"http://x/?api_key=hunter2"}"#,
        r#"{"nested":"{\"apiKey\":\"hunter2\"}"}"#,
        r#"{"x-api-key": "hunter2",}"#,
        "// \"apiKey\": \"hunter2\"\n{}",
        "{apiKey:'hunter2'}",
        "key = { api_key = \"hunter2\", n = 1 }",
        "[a]\nprovider = { name = \"x\", token = 'hunter2' }\n",
        "api_key = \"\"\"\nhunter2\nhunter2\"\"\"\nx = 1\n",
        "# api_key = \"hunter2\"\n",
        "api_key: hunter2\n",
        "a: {api_key: hunter2, b: 1}\n",
        "api_key:\n  hunter2\nb: 1\n",
        "api_key: |\n  hunter2\n  hunter2\nb: 1\n",
        "keys:\n- hunter2\n- hunter2\nb: 1\n",
        "keys:\n  mine: hunter2\nb: 1\n",
        "list:\n  - name: x\n    apiKey: \"hunter2\"\n",
        "env:\n  - OPENAI_API_KEY=hunter2\n",
        "header: Bearer hunter2\n",
        "api_key: |2-\n    hunter2\nb: 1\n",
        "api_key: !x hunter2\n  hunter2\nb: 1\n",
        "url: http://x/?api_key=hunter2\n",
        "args:\n  - --api-key\n  - hunter2\nb: 1\n",
        "args:\n  - \"--api-key\"\n  - \"hunter2\"\n",
        "x: ${MY_KEY:-hunter2}\n",
        "a: {api_key: ${KEY}hunter2}\n",
        "# see [1\npassword:\n  hunter2\n",
        "# don't\nsecret: 'hunter2'\n# isn't\n",
        "export OPENAI_API_KEY='hunter2'\n",
        "export OPENAI_API_KEY=hunter2\n",
        "set -gx OPENAI_API_KEY 'hunter2'\n",
        "set -gx OPENAI_API_KEY hunter2\n",
        "$env:OPENAI_API_KEY = 'hunter2'\n",
        "api_key: 'hunter2\n  hunter2'\n",
        "password: \"a\\\"hunter2\"\n",
    ] {
        let shown = super::text(text);
        assert!(!shown.contains("hunter2"), "{text}\n{shown}");
        assert_eq!(shown.matches('\n').count(), text.matches('\n').count(), "{text}\n{shown}");
        let crlf = text.replace('\n', "\r\n");
        assert!(!super::text(&crlf).contains("hunter2"), "{text}");
    }
}

/// Values that are not secrets stay readable.
#[test]
fn other_values_are_shown() {
    for text in [
        "{\n  \"input_cost_per_token\": 0,\n  \"output_cost_per_token\": 0.5\n}\n",
        "- model_id: x\n  api_key_name: ibeam\n",
        r#"{"apiKey":"{env:MY_KEY}","token":"${TOKEN}","key":"$KEY","n":{"max_tokens":4096}}"#,
        "env_key = \"OPENAI_API_KEY\"\nbase_url = \"http://127.0.0.1:18741/v1\"\n",
        "a: ${KEY}\napi_key: ${KEY}\nkeyboard: dark\n",
        "{ \"tokens\": { \"max\": 5 }, \"keymap\": \"vim\", \"theme\": \"dark\" } // don't\n",
        "export OPENAI_BASE_URL='http://127.0.0.1:18741/v1'\n",
        "set -gx OPENAI_BASE_URL 'http://127.0.0.1:18741/v1'\n",
        "[model_providers.ibeam] # mine\nname = \"ibeam\"\n[projects.\"/x\"]\ntrust = \"t\"\n",
    ] {
        assert_eq!(super::text(text), text);
    }
    let line = r#"{"apiKey":"hunter2","theme":"dark"}"#;
    assert_eq!(super::text(line), r#"{"apiKey":"***","theme":"dark"}"#);
}

#[test]
fn value_is_masked_by_its_name() {
    use serde_json::json;
    assert_eq!(value("model", &json!("o3")), "\"o3\"");
    assert_eq!(value("api_key", &json!("hunter2")), "\"***\"");
    assert_eq!(value("x", &json!({ "token": "hunter2" })), "{\"token\":\"***\"}");
}

mod any {
    use proptest::prelude::*;

    proptest! {
        /// Line numbers must still match.
        #[test]
        fn number_of_lines_is_kept(text in "([a-z]{0,3}|key|[\"'`{}\\[\\]:=,#/|> \\-\n$\\\\é]){0,40}") {
            let shown = super::super::text(&text);
            prop_assert_eq!(shown.matches('\n').count(), text.matches('\n').count());
        }
    }
}

#[test]
fn secret_arguments_are_found_by_their_names() {
    let found = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        secret_arguments(&args).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found(&["-y", "server", "--token", "abc def", "--port", "80"]), ["abc def"]);
    assert_eq!(found(&["--api-key=abc", "DB_PASSWORD=hunter2"]), ["abc", "hunter2"]);
    assert_eq!(found(&["--header", "Authorization: Bearer xyz"]), ["Bearer xyz"]);
    assert_eq!(found(&["https://host.example/mcp?token=abc"]), ["abc"]);
    assert!(found(&["--token", "${TOKEN}", "--key-file", "/a/b", "--verbose", "x=y"]).is_empty());
}
