//! Requests of every dialect, nearly right.

use super::author::Author;

const MODELS: [&str; 6] =
    ["auto", "gpt-5.5-high", "claude-sonnet-4-5", "gpt-4o", "sonnet-4.5-thinking", " x "];
const TOOLS: [&str; 5] = ["read", "bash", "apply_patch", "exec_command", "übung 1"];
const IDS: [&str; 4] = ["call_1", "call_2", "sess_abababababababababababab__call_1", "toolu_1"];
/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

impl Author {
    fn image_url(&mut self) -> String {
        let whole = format!("data:image/png;base64,{PNG}");
        let url = self.pick(&[
            whole.as_str(),
            whole.as_str(),
            whole.as_str(),
            "data:image/jpeg;base64,/9j/",
            "https://example.com/a.png",
            "data:text/plain,a",
        ]);
        self.quoted(url)
    }

    /// Arguments as text, whole or not.
    fn arguments(&mut self) -> String {
        let text = self.pick(&["{}", r#"{"path":"a"}"#, r#"{"input":"*** Begin"}"#, "", "{\"a"]);
        self.quoted(text)
    }

    fn sampling(&mut self, fields: &mut Vec<(&str, String)>) {
        self.maybe(fields, 20, "temperature", Self::count);
        self.maybe(fields, 10, "top_p", |a| a.pick(&["1", "0.9", "null"]).to_owned());
        self.maybe(fields, 40, "stream", Self::boolean);
        self.maybe(fields, 10, "metadata", |a| {
            let user = a.text();
            a.object(vec![("user_id", user)])
        });
    }

    // === chat ===

    pub(super) fn chat(&mut self) -> String {
        let mut fields =
            vec![("model", self.word(&MODELS)), ("messages", self.list(1, 7, Self::chat_message))];
        self.sampling(&mut fields);
        self.maybe(&mut fields, 40, "tools", |a| a.list(0, 4, Self::chat_tool));
        self.maybe(&mut fields, 15, "tool_choice", Self::chat_choice);
        self.maybe(&mut fields, 10, "parallel_tool_calls", Self::boolean);
        self.maybe(&mut fields, 15, "max_tokens", Self::count);
        self.maybe(&mut fields, 10, "max_completion_tokens", Self::count);
        self.maybe(&mut fields, 20, "stop", Self::stop);
        self.maybe(&mut fields, 10, "reasoning_effort", Self::effort);
        self.maybe(&mut fields, 10, "response_format", |a| a.format("response_format"));
        self.maybe(&mut fields, 10, "stream_options", |a| {
            let usage = a.boolean();
            a.object(vec![("include_usage", usage)])
        });
        self.maybe(&mut fields, 3, "n", Self::number);
        self.maybe(&mut fields, 3, "logprobs", Self::boolean);
        self.maybe(&mut fields, 3, "modalities", |a| a.list(0, 2, |a| a.word(&["text", "audio"])));
        self.maybe(&mut fields, 5, "user", Self::text);
        self.object(fields)
    }

    fn chat_message(&mut self) -> String {
        let role = self.pick(&["system", "developer", "user", "user", "assistant", "tool"]);
        let mut fields = vec![("role", self.quoted(role))];
        match role {
            "assistant" => {
                let content = if self.chance(50) { "null".to_owned() } else { self.text() };
                fields.push(("content", content));
                self.maybe(&mut fields, 50, "tool_calls", |a| a.list(0, 3, Self::chat_call));
                self.maybe(&mut fields, 20, "reasoning_content", Self::text);
            }
            "tool" => {
                fields.push(("tool_call_id", self.word(&IDS)));
                fields.push(("content", self.chat_content(false)));
            }
            _ => fields.push(("content", self.chat_content(role == "user"))),
        }
        self.object(fields)
    }

    fn chat_content(&mut self, images: bool) -> String {
        if self.chance(60) {
            return self.text();
        }
        self.list(0, 3, |a| {
            if images && a.chance(30) {
                let url = a.image_url();
                let url = if a.chance(70) { a.object(vec![("url", url)]) } else { url };
                return a.object(vec![("type", a.quoted("image_url")), ("image_url", url)]);
            }
            let text = a.text();
            a.object(vec![("type", a.quoted("text")), ("text", text)])
        })
    }

    fn chat_call(&mut self) -> String {
        let name = self.word(&TOOLS);
        let arguments = self.arguments();
        let function = self.object(vec![("name", name), ("arguments", arguments)]);
        let id = self.word(&IDS);
        self.object(vec![("id", id), ("type", self.quoted("function")), ("function", function)])
    }

    fn chat_tool(&mut self) -> String {
        let name = self.word(&TOOLS);
        let about = self.text();
        let schema = self.schema(2);
        let function =
            self.object(vec![("name", name), ("description", about), ("parameters", schema)]);
        let kind = self.word(&["function", "function", "function", "web_search"]);
        self.object(vec![("type", kind), ("function", function)])
    }

    fn chat_choice(&mut self) -> String {
        if self.chance(60) {
            return self.word(&["auto", "none", "auto", "required"]);
        }
        let name = self.word(&TOOLS);
        let function = self.object(vec![("name", name)]);
        self.object(vec![("type", self.quoted("function")), ("function", function)])
    }

    fn stop(&mut self) -> String {
        if self.chance(30) {
            self.quoted("END")
        } else {
            self.list(0, 4, |a| a.word(&["\n", "END", "###"]))
        }
    }

    fn effort(&mut self) -> String {
        self.word(&["low", "medium", "high", "xhigh", "none", "minimal", "HIGH"])
    }

    /// `response_format`, or the same without its inner object.
    fn format(&mut self, of: &str) -> String {
        let kind = self.pick(&["text", "json_object", "json_schema"]);
        let mut fields = vec![("type", self.quoted(kind))];
        if kind == "json_schema" {
            let schema = self.schema(2);
            let inner = vec![("name", self.quoted("answer")), ("schema", schema)];
            if of == "response_format" {
                fields.push(("json_schema", self.object(inner)));
            } else {
                fields.extend(inner);
            }
        }
        self.object(fields)
    }

    // === completions ===

    pub(super) fn completions(&mut self) -> String {
        let prompt = match self.below(4) {
            0 => self.list(1, 2, Self::text),
            _ => self.quoted("Say hi"),
        };
        let mut fields = vec![("model", self.word(&MODELS)), ("prompt", prompt)];
        self.sampling(&mut fields);
        self.maybe(&mut fields, 30, "max_tokens", Self::count);
        self.maybe(&mut fields, 30, "stop", Self::stop);
        self.maybe(&mut fields, 5, "n", Self::number);
        self.maybe(&mut fields, 5, "best_of", Self::number);
        self.maybe(&mut fields, 5, "echo", Self::boolean);
        self.maybe(&mut fields, 5, "suffix", Self::text);
        self.maybe(&mut fields, 5, "logprobs", |a| a.any(1));
        self.object(fields)
    }

    // === messages ===

    pub(super) fn messages(&mut self) -> String {
        let mut fields = vec![
            ("model", self.word(&MODELS)),
            ("max_tokens", self.count()),
            ("messages", self.list(1, 7, Self::message)),
        ];
        self.sampling(&mut fields);
        self.maybe(&mut fields, 50, "system", |a| {
            if a.chance(50) { a.text() } else { a.list(0, 3, Self::text_block) }
        });
        self.maybe(&mut fields, 40, "tools", |a| a.list(0, 4, Self::tool));
        self.maybe(&mut fields, 15, "tool_choice", |a| {
            let kind = a.word(&["auto", "none", "any", "tool", "auto"]);
            let (name, single) = (a.word(&TOOLS), a.boolean());
            a.object(vec![("type", kind), ("name", name), ("disable_parallel_tool_use", single)])
        });
        self.maybe(&mut fields, 20, "thinking", |a| {
            let kind = a.word(&["enabled", "adaptive", "disabled"]);
            let budget = a.count();
            a.object(vec![("type", kind), ("budget_tokens", budget)])
        });
        self.maybe(&mut fields, 20, "stop_sequences", |a| {
            a.list(0, 4, |a| a.word(&["END", "###"]))
        });
        self.maybe(&mut fields, 10, "output_config", |a| {
            let effort = a.effort();
            let mut fields = vec![("effort", effort)];
            a.maybe(&mut fields, 40, "format", |a| a.format("output_config"));
            a.object(fields)
        });
        self.maybe(&mut fields, 3, "mcp_servers", |a| a.any(2));
        self.maybe(&mut fields, 3, "thread", |a| a.any(1));
        self.maybe(&mut fields, 5, "top_k", Self::number);
        self.object(fields)
    }

    fn message(&mut self) -> String {
        let role = self.pick(&["user", "user", "assistant", "system"]);
        // A message without content is a fault of its own: now and then, not mostly.
        let least = usize::from(!self.chance(3));
        let content = match role {
            _ if self.chance(40) => self.text(),
            "assistant" => self.list(least, 4, Self::assistant_block),
            "user" => self.list(least, 4, Self::user_block),
            _ => self.list(least, 2, Self::text_block),
        };
        self.object(vec![("role", self.quoted(role)), ("content", content)])
    }

    fn text_block(&mut self) -> String {
        let mut fields = vec![("type", self.quoted("text")), ("text", self.text())];
        self.maybe(&mut fields, 20, "cache_control", |a| {
            a.object(vec![("type", a.quoted("ephemeral"))])
        });
        self.object(fields)
    }

    fn image_block(&mut self) -> String {
        let data = self.pick(&[PNG, PNG, PNG, PNG, "/9j/", "%%"]);
        let kind = self.word(&["base64", "base64", "base64", "base64", "base64", "url"]);
        let source = vec![
            ("type", kind),
            (
                "media_type",
                self.word(&[
                    "image/png",
                    "image/png",
                    "image/png",
                    "image/jpeg",
                    "application/pdf",
                ]),
            ),
            ("data", self.quoted(data)),
        ];
        let source = self.object(source);
        let kind = self.word(&["image", "image", "image", "image", "document"]);
        self.object(vec![("type", kind), ("source", source)])
    }

    fn user_block(&mut self) -> String {
        match self.below(5) {
            0 => self.image_block(),
            1 => {
                let content = match self.below(3) {
                    0 => self.text(),
                    1 => self.list(0, 2, Self::text_block),
                    _ => self.list(0, 2, Self::image_block),
                };
                let (id, failed) = (self.word(&IDS), self.boolean());
                let kind = self.quoted("tool_result");
                self.object(vec![
                    ("type", kind),
                    ("tool_use_id", id),
                    ("content", content),
                    ("is_error", failed),
                ])
            }
            _ => self.text_block(),
        }
    }

    fn assistant_block(&mut self) -> String {
        match self.below(4) {
            0 => {
                let (id, name) = (self.word(&IDS), self.word(&TOOLS));
                let input =
                    if self.chance(80) { r#"{"path":"a"}"#.to_owned() } else { self.any(2) };
                let kind = self.quoted("tool_use");
                self.object(vec![("type", kind), ("id", id), ("name", name), ("input", input)])
            }
            1 => {
                let (kind, thought) = (self.word(&["thinking", "redacted_thinking"]), self.text());
                let signature = self.text();
                self.object(vec![("type", kind), ("thinking", thought), ("signature", signature)])
            }
            _ => self.text_block(),
        }
    }

    fn tool(&mut self) -> String {
        let (name, about, schema) = (self.word(&TOOLS), self.text(), self.schema(2));
        let mut fields = vec![("name", name), ("description", about), ("input_schema", schema)];
        self.maybe(&mut fields, 20, "type", |a| {
            a.word(&["custom", "custom", "web_search_20250305"])
        });
        self.object(fields)
    }

    // === responses ===

    pub(super) fn responses(&mut self) -> String {
        let input = if self.chance(20) { self.text() } else { self.list(1, 7, Self::item) };
        let mut fields = vec![("model", self.word(&MODELS)), ("input", input)];
        self.sampling(&mut fields);
        self.maybe(&mut fields, 40, "instructions", Self::text);
        self.maybe(&mut fields, 40, "tools", |a| a.list(0, 4, Self::response_tool));
        self.maybe(&mut fields, 15, "tool_choice", |a| {
            if a.chance(60) {
                return a.word(&["auto", "none", "auto", "required"]);
            }
            let (kind, name) = (a.word(&["function", "custom", "allowed_tools"]), a.word(&TOOLS));
            a.object(vec![("type", kind), ("name", name), ("mode", a.quoted("auto"))])
        });
        self.maybe(&mut fields, 20, "reasoning", |a| {
            let effort = a.effort();
            a.object(vec![("effort", effort), ("summary", a.quoted("auto"))])
        });
        self.maybe(&mut fields, 20, "text", |a| {
            let format = a.format("text");
            a.object(vec![("format", format), ("verbosity", a.quoted("low"))])
        });
        self.maybe(&mut fields, 20, "include", |a| {
            a.list(0, 2, |a| a.word(&["reasoning.encrypted_content", "file_search_call.results"]))
        });
        self.maybe(&mut fields, 20, "max_output_tokens", Self::count);
        self.maybe(&mut fields, 10, "previous_response_id", |a| a.word(&["resp_1", ""]));
        self.maybe(&mut fields, 20, "store", Self::boolean);
        self.maybe(&mut fields, 5, "background", Self::boolean);
        self.maybe(&mut fields, 5, "generate", Self::boolean);
        self.maybe(&mut fields, 10, "truncation", |a| a.word(&["auto", "disabled", "auto", "x"]));
        self.maybe(&mut fields, 20, "prompt_cache_key", Self::text);
        self.maybe(&mut fields, 2, "conversation", |a| a.any(1));
        self.maybe(&mut fields, 2, "prompt", |a| a.any(1));
        self.object(fields)
    }

    fn item(&mut self) -> String {
        let (id, call) = (self.word(&["msg_1", "rs_2", ""]), self.word(&IDS));
        match self.below(12) {
            0..=4 => {
                let role = self.word(&["user", "user", "assistant", "developer", "system"]);
                let content =
                    if self.chance(40) { self.text() } else { self.list(0, 3, Self::part) };
                let mut fields = vec![("role", role), ("content", content)];
                self.maybe(&mut fields, 80, "type", |a| a.quoted("message"));
                self.object(fields)
            }
            5 | 6 => {
                let (name, arguments) = (self.word(&TOOLS), self.arguments());
                let kind = self.word(&["function_call", "custom_tool_call"]);
                let field = if kind.contains("custom") { "input" } else { "arguments" };
                self.object(vec![
                    ("type", kind),
                    ("call_id", call),
                    ("name", name),
                    (field, arguments),
                ])
            }
            7 | 8 => {
                let output =
                    if self.chance(60) { self.text() } else { self.list(0, 3, Self::part) };
                let kind = self.word(&["function_call_output", "custom_tool_call_output"]);
                self.object(vec![("type", kind), ("call_id", call), ("output", output)])
            }
            9 => {
                let text = self.text();
                let part = self.object(vec![("type", self.quoted("summary_text")), ("text", text)]);
                let token = self.word(&["gAAAA", "ibeam-r1.aGk", "ibeam-r1.%"]);
                self.object(vec![
                    ("type", self.quoted("reasoning")),
                    ("id", id),
                    ("summary", format!("[{part}]")),
                    ("encrypted_content", token),
                ])
            }
            10 => {
                let tools = self.list(0, 2, Self::response_tool);
                self.object(vec![("type", self.quoted("additional_tools")), ("tools", tools)])
            }
            _ => {
                let kind =
                    self.word(&["item_reference", "compaction", "web_search_call", "new_kind"]);
                let token = self.word(&["ibeam-c1.aGk", "x"]);
                self.object(vec![("type", kind), ("id", id), ("encrypted_content", token)])
            }
        }
    }

    fn part(&mut self) -> String {
        match self.below(6) {
            0 => {
                let url = self.image_url();
                self.object(vec![("type", self.quoted("input_image")), ("image_url", url)])
            }
            1 => {
                let data = self.word(&[
                    "data:text/plain;base64,aGk=",
                    "data:application/pdf;base64,AA",
                    "%",
                ]);
                self.object(vec![
                    ("type", self.quoted("input_file")),
                    ("filename", self.quoted("a.txt")),
                    ("file_data", data),
                ])
            }
            _ => {
                let (kind, text) = (self.word(&["input_text", "output_text", "text"]), self.text());
                self.object(vec![("type", kind), ("text", text)])
            }
        }
    }

    fn response_tool(&mut self) -> String {
        let (name, about) = (self.word(&TOOLS), self.text());
        match self.below(8) {
            0 => self.object(vec![
                ("type", self.quoted("custom")),
                ("name", name),
                ("description", about),
            ]),
            1 => {
                let kind = self.word(&["web_search", "tool_search", "local_shell"]);
                self.object(vec![("type", kind)])
            }
            2 => {
                let inner = self.list(0, 2, |a| {
                    let name = a.word(&TOOLS);
                    let kind = a.word(&["function", "custom"]);
                    a.object(vec![("type", kind), ("name", name)])
                });
                let kind = self.quoted("namespace");
                self.object(vec![("type", kind), ("name", name), ("tools", inner)])
            }
            _ => {
                let schema = self.schema(2);
                self.object(vec![
                    ("type", self.quoted("function")),
                    ("name", name),
                    ("description", about),
                    ("parameters", schema),
                ])
            }
        }
    }
}
