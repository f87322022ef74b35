//! Settings as people have them, in each format.

use std::path::Path;

use serde_json::{Value, json};

use crate::clients::edit::{SettingsDocument as _, json, toml, yaml};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFormat {
    Json,
    Toml,
    Yaml,
    Other,
}

impl TextFormat {
    pub(super) fn of(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("json" | "jsonc") => Self::Json,
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Other,
        }
    }
}

pub(super) struct SampleText {
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// Well-formed ones.
pub(super) fn good(kind: TextFormat) -> Vec<SampleText> {
    let text = |name: &'static str, text: &str| SampleText { name, text: text.to_owned() };
    match kind {
        TextFormat::Json => vec![
            text("small", "{\n  \"theme\": \"dark\"\n}\n"),
            text("empty", ""),
            text("blank", " \n\n"),
            text("an empty object", "{}"),
            text("one line", "{\"theme\":\"dark\",\"a\":{\"b\":[1,2]}}"),
            text("no line end", "{\n    \"theme\": \"dark\"\n}"),
            text("tabs", "{\n\t\"theme\": \"dark\",\n\t\"a\": {\n\t\t\"b\": 1\n\t}\n}\n"),
            text("CRLF", "{\r\n  \"theme\": \"dark\",\r\n  \"a\": [\r\n    1\r\n  ]\r\n}\r\n"),
            text("a mark", "\u{feff}{\n  \"theme\": \"dark\"\n}\n"),
            text("CRLF and a mark", "\u{feff}{\r\n  \"theme\": \"dark\"\r\n}\r\n"),
            text(
                "comments",
                "// mine\n{\n  // dark, at night\n  \"theme\": \"dark\", /* always */ \"x\": 1 // end\n  // last\n}\n// bye\n",
            ),
            text("commas at ends", "{\n  \"theme\": \"dark\",\n  \"list\": [\n    1,\n  ],\n}\n"),
            text("only a comment", "// nothing here yet\n"),
            text("odd layout", "{  \"theme\" :\"dark\"\n,\"x\":\n\n1}\n\n\n"),
            text("other scripts", "{\n  \"名前\": \"ibeam 🌉\",\n  \"e\\u0301\": \"\\n\\\\\"\n}\n"),
            text("null", "{ \"theme\": null }\n"),
            text(
                "other providers",
                "{\n  \"env\": { \"EDITOR\": \"vi\" }, // mine\n  \"provider\": { \"other\": { \"options\": {} } },\n  \"providers\": { \"other\": { \"models\": [] } },\n  \"language_models\": { \"ollama\": {} },\n  \"mcpServers\": {}\n}\n",
            ),
            SampleText { name: "deep", text: deep("{\"a\":", "{}", "}", 60) },
            SampleText { name: "huge", text: huge() },
        ],
        TextFormat::Toml => vec![
            text("small", "theme = \"dark\"\n"),
            text("empty", ""),
            text("blank", " \n\n"),
            text("no line end", "theme = \"dark\""),
            text("CRLF", "theme = \"dark\"\r\n\r\n[a]\r\nb = 1\r\n"),
            text("a mark", "\u{feff}theme = \"dark\"\n"),
            text(
                "comments",
                "# mine\n\ntheme = \"dark\" # at night\n\n# about a\n[a] # here\nb = 1 # one\n# last\n",
            ),
            text("only a comment", "# nothing here yet\n"),
            text("tabs and odd layout", "theme\t=\t'dark'\n\n\n[a]\n\tb=[1,\n\t  2,]\n\n"),
            text(
                "dotted and quoted",
                "a.b.\"c d\" = 1\n\"é\" = '''x\ny'''\n[[list]]\nn=1\n[[list]]\nn=2\n",
            ),
            text(
                "other providers",
                "model_provider = \"mine\" # why\nmodel = \"m\"\n\n[model_providers.mine]\nname = \"Mine\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n",
            ),
            text("inline", "model_providers = { other = { name = \"x\" } } # inline\n"),
            SampleText {
                name: "huge",
                text: (0..800).map(|n| format!("k{n} = \"v{n}\" # {n}\n")).collect(),
            },
        ],
        TextFormat::Yaml => vec![
            text("small", "theme: dark\n"),
            text("empty", ""),
            text("blank", " \n\n"),
            text("no line end", "theme: dark"),
            text("CRLF", "theme: dark\r\na:\r\n  b: 1\r\n"),
            text("a mark", "\u{feff}theme: dark\n"),
            text(
                "comments",
                "# mine\ntheme: dark # at night\n\n# about a\na:\n  # in a\n  b: 1\n# last\n",
            ),
            text("only a comment", "# nothing here yet\n"),
            text(
                "quoted",
                "theme: 'da''rk'\n\"x y\": \"a\\nb\"\nlong: |\n  one\n  two\nfold: >-\n  a\n  b\n",
            ),
            text(
                "other models",
                "name: mine\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: mine # keep\n    provider: ollama\n    model: x\nread: [a, b]\n",
            ),
            text(
                "lists at the left",
                "models:\n- name: mine\n  provider: ollama\n  model: x\nx: 1\n",
            ),
            text("a list", "# mine\n- model_id: mine\n  model_name: x\n"),
            text("a document start", "---\ntheme: dark\n"),
            SampleText {
                name: "huge",
                text: (0..800).map(|n| format!("k{n}: v{n} # {n}\n")).collect(),
            },
        ],
        TextFormat::Other => vec![
            text("small", "export OTHER=1\n"),
            text("empty", ""),
            text("no line end", "# mine\nexport OTHER=1"),
            text("CRLF", "# mine\r\nexport OTHER=1\r\n"),
            text("comments", "# mine\n\n# more\n"),
            text("blank", "\n\n"),
            text("indented", "  A=1\n\tB=2\n"),
        ],
    }
}

/// Texts that no client can read, and that only the user may fix.
pub(super) fn bad(kind: TextFormat) -> Vec<(&'static str, Vec<u8>)> {
    let texts: Vec<(&'static str, String)> = match kind {
        TextFormat::Json => [
            ("not closed", "{\n  \"theme\": \"dark\"\n"),
            ("a comma is missing", "{\n  \"a\": 1\n  \"b\": 2\n}\n"),
            ("two values", "{} {}"),
            ("single quotes", "{'a': 1}"),
            ("bare keys", "{a: 1}"),
            ("a list", "[1, 2]"),
            ("a word", "hello"),
            ("an open text", "{\"a\": \"b}"),
            ("an open comment", "{ /* \"a\": 1 }"),
            (
                "a merge in conflict",
                "{\n<<<<<<< ours\n\"a\": 1\n=======\n\"a\": 2\n>>>>>>> theirs\n}\n",
            ),
            ("a zero byte", "{\0}"),
        ]
        .map(|(name, text)| (name, text.to_owned()))
        .into_iter()
        .chain([("too deep", deep("{\"a\":", "{}", "}", 5000))])
        .collect(),
        TextFormat::Toml => [
            ("no value", "a = \n"),
            ("a key twice", "a = 1\na = 2\n"),
            ("a table twice", "[a]\n[a]\n"),
            ("an open text", "a = \"b\n"),
            ("JSON", "{\"a\": 1}\n"),
            ("a merge in conflict", "<<<<<<< ours\na = 1\n=======\n"),
        ]
        .map(|(name, text)| (name, text.to_owned()))
        .to_vec(),
        TextFormat::Yaml => [
            ("two colons", "a: b: c\n"),
            ("not closed", "a: [1, 2\n"),
            ("an open text", "a: 'b\n"),
            ("a key twice", "a: 1\na: 2\n"),
            ("several documents", "a: 1\n---\nb: 2\n"),
            ("a tab", "a:\n\tb: 1\n"),
        ]
        .map(|(name, text)| (name, text.to_owned()))
        .to_vec(),
        TextFormat::Other => Vec::new(),
    };
    let mut bad: Vec<_> = texts.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    bad.push(("not UTF-8", b"{\"a\": \"\xff\xfe\"}".to_vec()));
    bad.push(("another encoding", b"\xff\xfe{\0}\0".to_vec()));
    bad.push(("too long", vec![b' '; (4 << 20) + 1]));
    bad
}

/// The text with a setting more, as a user would add it by hand; `None` where that cannot
/// be said.
pub(super) fn edited(kind: TextFormat, text: &str) -> Option<String> {
    match kind {
        TextFormat::Json => {
            let mut document = json::JsonDocument::parse(text).unwrap();
            document.set(&["later"], &json!({ "mine": [1, "two"] })).unwrap();
            Some(document.to_string())
        }
        TextFormat::Toml => {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Some(format!("{text}{end}\n[later]\nmine = [1, \"two\"]\n"))
        }
        // A list at the top has no settings.
        TextFormat::Yaml => match yaml::YamlDocument::parse(text).unwrap().get(&[]) {
            Some(Value::Array(_)) => None,
            _ => Some(
                format!("# later\nlater: 1\n{text}")
                    .replace("# later\nlater: 1\n\u{feff}", "\u{feff}# later\nlater: 1\n"),
            )
            .filter(|text| yaml::YamlDocument::parse(text).is_ok()),
        },
        TextFormat::Other => Some(format!("# later\n{text}")),
    }
}

/// Both mean the same; where nothing can be said of that, they are the same.
pub(super) fn assert_same(kind: TextFormat, is: &str, wanted: &str, what: &str) {
    let values = match kind {
        TextFormat::Json => {
            [is, wanted].map(|text| json::JsonDocument::parse(text).unwrap().get(&[]))
        }
        TextFormat::Toml => {
            [is, wanted].map(|text| toml::TomlDocument::parse(text).unwrap().get(&[]))
        }
        TextFormat::Yaml => {
            [is, wanted].map(|text| yaml::YamlDocument::parse(text).unwrap().get(&[]))
        }
        TextFormat::Other => [is, wanted].map(|text| Some(Value::from(text))),
    };
    let [is, wanted] = values;
    assert_eq!(is, wanted, "{what}");
}

fn deep(open: &str, middle: &str, close: &str, depth: usize) -> String {
    open.repeat(depth) + middle + &close.repeat(depth)
}

fn huge() -> String {
    let lines: String = (0..800).map(|n| format!("  \"k{n}\": \"v{n}\", // {n}\n")).collect();
    format!("{{\n{lines}  \"last\": 0\n}}\n")
}
