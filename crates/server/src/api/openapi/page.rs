//! The document as a page: plain HTML that needs no network and no script.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Operation, tagged, tags, text};

const STYLE: &str = include_str!("page.css");

/// Where the examples send their requests, unless the reader's browser knows better.
const SERVER: &str = "http://127.0.0.1:18741";

/// How deep the types of fields are spelled out; named schemas have their own table.
const DEPTH: usize = 3;

pub(super) fn render(document: &Value) -> String {
    let mut page = DocsPage { document, html: String::with_capacity(128 << 10) };
    page.head();
    page.contents();
    for tag in tags(document) {
        page.put(format_args!("<h2 id=\"{0}\">{0}</h2>\n", HtmlText(tag.name)));
        page.put(format_args!("<p>{}</p>\n", HtmlDescription(tag.description)));
        for operation in tagged(document, tag.name) {
            page.operation(operation);
        }
    }
    page.schemas();
    page.put(format_args!("</main>\n</body>\n</html>\n"));
    page.html
}

/// The page with examples that ask the host that the page itself was asked of. That goes
/// into a shell, so it is taken only if it is nothing but a name and a port. All readers
/// share the bytes around it.
pub(super) fn seen_from(page: &'static str, host: Option<&str>) -> Vec<Bytes> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    let host = host.filter(|host| !host.is_empty() && host.chars().all(plain));
    match host.zip(page.split_once(SERVER)) {
        Some((host, (before, after))) => {
            let host = Bytes::from(format!("http://{host}"));
            vec![Bytes::from_static(before.as_bytes()), host, Bytes::from_static(after.as_bytes())]
        }
        None => vec![Bytes::from_static(page.as_bytes())],
    }
}

struct DocsPage<'a> {
    document: &'a Value,
    html: String,
}

impl<'a> DocsPage<'a> {
    /// A string takes whatever is written to it.
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.html.write_fmt(text);
    }

    fn paragraph(&mut self, words: &str) {
        if !words.is_empty() {
            self.put(format_args!("<p>{}</p>\n", HtmlDescription(words)));
        }
    }

    fn head(&mut self) {
        let info = self.document.get("info").unwrap_or(&Value::Null);
        let (title, version) = (HtmlText(text(info, "title")), HtmlText(text(info, "version")));
        self.put(format_args!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} {version}: endpoints</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <header>\n<h1>{title} <span class=\"dim\">{version}</span></h1>\n<p>{}</p>\n\
             <p class=\"dim\">The same for programs: <a href=\"/openapi.json\">/openapi.json</a></p>\n\
             </header>\n",
            HtmlDescription(text(info, "description"))
        ));
        self.put(format_args!(
            "<p>The examples use these variables. The key may be any text unless this gateway \
             has keys. The response is a stored one: the <code>id</code> in a reply of \
             <a href=\"#createResponse\">POST /v1/responses</a>.</p>\n\
             <pre>export IBEAM={SERVER}\nexport IBEAM_KEY=ibeam\nexport RESPONSE=resp_…</pre>\n"
        ));
    }

    fn contents(&mut self) {
        self.put(format_args!("<nav aria-label=\"Endpoints\">\n<ul>\n"));
        for tag in tags(self.document) {
            for operation in tagged(self.document, tag.name) {
                let (id, summary) =
                    (text(operation.details, "operationId"), text(operation.details, "summary"));
                self.put(format_args!(
                    "<li>{} <a href=\"#{}\"><code>{}</code></a> <span class=\"dim\">{}</span></li>\n",
                    MethodBadge(operation),
                    HtmlText(id),
                    HtmlText(operation.path),
                    HtmlDescription(summary)
                ));
            }
        }
        self.put(format_args!("</ul>\n</nav>\n<main>\n"));
    }

    fn operation(&mut self, operation: Operation<'a>) {
        let details = operation.details;
        self.put(format_args!(
            "<section id=\"{}\">\n<h3>{} <code>{}</code></h3>\n<p>{}.</p>\n",
            HtmlText(text(details, "operationId")),
            MethodBadge(operation),
            HtmlText(operation.path),
            HtmlDescription(text(details, "summary"))
        ));
        self.paragraph(text(details, "description"));
        self.parameters(details);
        let body = details.pointer("/requestBody/content/application~1json");
        if let Some(body) = body {
            let schema = body.get("schema").unwrap_or(&Value::Null);
            self.put(format_args!("<h4>Body</h4>\n<p>{}</p>\n", SchemaType(schema, DEPTH)));
            self.fields(self.resolve(schema));
        }
        if !has_upgrade(details) {
            let example = body.and_then(|body| body.get("example"));
            self.put(format_args!(
                "<h4>Example</h4>\n<pre>{}</pre>\n",
                CurlExample(operation, example)
            ));
        }
        self.responses(details);
        self.put(format_args!("</section>\n"));
    }

    fn parameters(&mut self, details: &'a Value) {
        let given = details.get("parameters").and_then(Value::as_array);
        let Some(given) = given.filter(|given| !given.is_empty()) else { return };
        self.table(["Parameter", "In", "Type", ""]);
        for parameter in given {
            let parameter = self.resolve(parameter);
            let schema = parameter.get("schema").unwrap_or(&Value::Null);
            self.put(format_args!(
                "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                HtmlText(text(parameter, "name")),
                HtmlText(text(parameter, "in")),
                SchemaType(schema, DEPTH),
                HtmlDescription(text(parameter, "description"))
            ));
        }
        self.put(format_args!("</table></div>\n"));
    }

    fn responses(&mut self, details: &'a Value) {
        let Some(responses) = details.get("responses").and_then(Value::as_object) else { return };
        self.table(["Status", "Body", ""]);
        for (status, response) in responses {
            let response = self.resolve(response);
            let content = response.get("content").and_then(Value::as_object);
            let mut bodies = String::new();
            for (kind, media) in content.into_iter().flatten() {
                if kind == "application/json" {
                    let schema = media.get("schema").unwrap_or(&Value::Null);
                    let _ = write!(bodies, "{}<br>", SchemaType(schema, DEPTH));
                } else {
                    let _ = write!(bodies, "{}<br>", HtmlText(kind));
                }
            }
            self.put(format_args!(
                "<tr><td>{}</td><td>{bodies}</td><td>{}",
                HtmlText(status),
                HtmlDescription(text(response, "description"))
            ));
            let headers = response.get("headers").and_then(Value::as_object);
            for (name, header) in headers.into_iter().flatten() {
                self.put(format_args!(
                    "<br><span class=\"dim\"><code>{}</code>: {}</span>",
                    HtmlText(name),
                    HtmlDescription(text(self.resolve(header), "description"))
                ));
            }
            self.put(format_args!("</td></tr>\n"));
        }
        self.put(format_args!("</table></div>\n"));
    }

    fn schemas(&mut self) {
        let schemas = self.document.pointer("/components/schemas").and_then(Value::as_object);
        self.put(format_args!("<h2 id=\"schemas\">schemas</h2>\n"));
        for (name, schema) in schemas.into_iter().flatten() {
            self.put(format_args!("<section id=\"schema-{0}\">\n<h3>{0}</h3>\n", HtmlText(name)));
            self.paragraph(text(schema, "description"));
            match choices(schema) {
                Some(choices) => {
                    for choice in choices {
                        self.put(format_args!("<p>{}</p>\n", SchemaType(choice, 1)));
                        self.fields(choice);
                    }
                }
                None if schema.get("properties").is_none() => {
                    self.put(format_args!("<p>{}</p>\n", SchemaType(schema, DEPTH)));
                }
                None => self.fields(schema),
            }
            self.put(format_args!("</section>\n"));
        }
    }

    fn fields(&mut self, schema: &'a Value) {
        let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return };
        let required = schema.get("required").and_then(Value::as_array);
        let must = |name: &String| required.is_some_and(|all| all.iter().any(|is| is == name));
        let mut fields: Vec<_> =
            fields.iter().map(|(name, field)| (!must(name), name, field)).collect();
        fields.sort_by_key(|(optional, ..)| *optional);
        self.table(["Field", "Type", ""]);
        for (optional, name, field) in fields {
            self.put(format_args!(
                "<tr><td><code>{}</code>{}</td><td>{}</td><td>{}</td></tr>\n",
                HtmlText(name),
                if optional { "" } else { " <span class=\"dim\">required</span>" },
                SchemaType(field, DEPTH),
                HtmlDescription(text(field, "description"))
            ));
        }
        self.put(format_args!("</table></div>\n"));
    }

    fn table<const N: usize>(&mut self, columns: [&str; N]) {
        self.put(format_args!("<div class=\"wide\"><table>\n<tr>"));
        for column in columns {
            self.put(format_args!("<th>{column}</th>"));
        }
        self.put(format_args!("</tr>\n"));
    }

    /// What a reference points at.
    fn resolve(&self, value: &'a Value) -> &'a Value {
        let place = text(value, "$ref").strip_prefix('#');
        place.and_then(|place| self.document.pointer(place)).unwrap_or(value)
    }
}

/// A path that opens a WebSocket and so has no example of a plain request.
pub(super) fn has_upgrade(details: &Value) -> bool {
    details.pointer("/responses/101").is_some()
}

fn choices(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key)?.as_array())
}

// === what is written ===

/// Text between tags or in an attribute.
struct HtmlText<'a>(&'a str);

impl std::fmt::Display for HtmlText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A description: what is in backticks is code.
struct HtmlDescription<'a>(&'a str);

impl std::fmt::Display for HtmlDescription<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, piece) in self.0.split('`').enumerate() {
            if index % 2 == 1 {
                write!(f, "<code>{}</code>", HtmlText(piece))?;
            } else {
                write!(f, "{}", HtmlText(piece))?;
            }
        }
        Ok(())
    }
}

struct MethodBadge<'a>(Operation<'a>);

impl std::fmt::Display for MethodBadge<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let method = self.0.method;
        write!(f, "<span class=\"method {method}\">{}</span>", method.to_ascii_uppercase())
    }
}

/// What a schema allows, in a few words.
struct SchemaType<'a>(&'a Value, usize);

impl std::fmt::Display for SchemaType<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(schema, depth) = *self;
        if let Some(name) = text(schema, "$ref").strip_prefix("#/components/schemas/") {
            return write!(f, "<a href=\"#schema-{0}\">{0}</a>", HtmlText(name));
        }
        if let Some(value) = schema.get("const") {
            return write!(f, "<code>{}</code>", HtmlText(&value.to_string()));
        }
        let one_of = schema.get("enum").and_then(Value::as_array);
        if let Some(values) = one_of {
            return listed(f, values, |f, value| {
                write!(f, "<code>{}</code>", HtmlText(&value.to_string()))
            });
        }
        if let Some(choices) = choices(schema).filter(|_| depth > 0) {
            return listed(f, choices, |f, choice| write!(f, "{}", SchemaType(choice, depth - 1)));
        }
        if let Some(items) = schema.get("items").filter(|_| depth > 0) {
            return write!(f, "list of {}", SchemaType(items, depth - 1));
        }
        match schema.get("type") {
            Some(Value::Array(types)) => {
                listed(f, types, |f, kind| f.write_str(kind.as_str().unwrap_or_default()))
            }
            Some(Value::String(kind)) if kind == "object" => self.object(f),
            Some(Value::String(kind)) => f.write_str(kind),
            _ => f.write_str("anything"),
        }
    }
}

impl SchemaType<'_> {
    /// The names of an object's fields, or the word alone.
    fn object(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(schema, depth) = *self;
        let fields = schema.get("properties").and_then(Value::as_object);
        let Some(fields) = fields.filter(|_| depth > 0) else { return f.write_str("object") };
        f.write_str("object with ")?;
        listed_names(f, fields)
    }
}

fn listed_names(f: &mut std::fmt::Formatter<'_>, fields: &Map<String, Value>) -> std::fmt::Result {
    for (index, name) in fields.keys().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}<code>{}</code>", HtmlText(name))?;
    }
    Ok(())
}

fn listed(
    f: &mut std::fmt::Formatter<'_>,
    values: &[Value],
    each: impl Fn(&mut std::fmt::Formatter<'_>, &Value) -> std::fmt::Result,
) -> std::fmt::Result {
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            f.write_str(" or ")?;
        }
        each(f, value)?;
    }
    Ok(())
}

/// A call of an endpoint with curl.
struct CurlExample<'a>(Operation<'a>, Option<&'a Value>);

impl std::fmt::Display for CurlExample<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(operation, body) = *self;
        let path = operation.path.replace("/models/{id}", "/models/auto");
        let path = path.replace("{id}", "$RESPONSE");
        let method = match operation.method {
            "delete" => "-X DELETE ",
            "post" if body.is_none() => "-X POST ",
            _ => "",
        };
        write!(f, "curl {method}$IBEAM{}", HtmlText(&path))?;
        let open = operation.details.get("security").is_some();
        if !open {
            f.write_str(" -H &quot;authorization: Bearer $IBEAM_KEY&quot;")?;
        }
        if let Some(body) = body {
            let body = body.to_string().replace('\'', "'\\''");
            f.write_str(" \\\n  -H 'content-type: application/json' \\\n  ")?;
            write!(f, "-d '{}'", HtmlText(&body))?;
        }
        Ok(())
    }
}
