//! Writes JSON that is nearly right. What is wrong with it, and how often, is drawn from a
//! seed: the same seed writes the same request.

/// A generator of numbers (SplitMix64), so that a run can be repeated.
pub(super) struct Author {
    state: u64,
    /// Of a thousand fields and elements, how many are wrong.
    wrong: u64,
}

impl Author {
    pub(super) fn new(seed: u64) -> Self {
        let mut author = Self { state: seed, wrong: 0 };
        // Half of the requests are meant to be right.
        author.wrong = author.pick(&[0, 0, 0, 2, 10, 60]);
        author
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap();
        usize::try_from(self.next() % limit).unwrap()
    }

    pub(super) fn chance(&mut self, of_a_hundred: u64) -> bool {
        self.next() % 100 < of_a_hundred
    }

    fn is_wrong(&mut self) -> bool {
        self.next() % 1000 < self.wrong
    }

    pub(super) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }

    // === values ===

    /// A string that holds this.
    pub(super) fn quoted(&self, text: &str) -> String {
        serde_json::to_string(text).unwrap()
    }

    /// One of these words.
    pub(super) fn word(&mut self, among: &[&str]) -> String {
        let word = self.pick(among);
        self.quoted(word)
    }

    pub(super) fn boolean(&mut self) -> String {
        self.pick(&["true", "false"]).to_owned()
    }

    /// Some text, as people and programs write it, escapes and all.
    pub(super) fn text(&mut self) -> String {
        const PIECES: [&str; 12] = [
            "hello",
            " ",
            "\\n",
            "\\\"",
            "\\\\",
            "\\u00e9",
            "\\ud83e\\udd80",
            "é🦀",
            "<tag>",
            "{}",
            "x-session-id: abc",
            "data:image/png;base64,AAAA",
        ];
        let mut text = String::from("\"");
        for _ in 0..self.below(6) {
            text.push_str(self.pick(&PIECES));
        }
        if self.is_wrong() {
            text.push_str(self.pick(&["\\ud800", "\\x", "\u{1}", "\\u12"]));
        }
        text.push('"');
        text
    }

    pub(super) fn number(&mut self) -> String {
        let numbers = [
            "0",
            "1",
            "-1",
            "2",
            "0.7",
            "1.0",
            "4096",
            "1e3",
            "1e400",
            "18446744073709551615",
            "18446744073709551616",
            "-0.0",
            "9223372036854775808",
        ];
        self.pick(&numbers).to_owned()
    }

    /// A number that most fields can take.
    pub(super) fn count(&mut self) -> String {
        if self.is_wrong() { self.number() } else { (1 + self.below(5000)).to_string() }
    }

    /// Anything.
    pub(super) fn any(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => "null".to_owned(),
            1 => self.boolean(),
            2 => self.number(),
            3 | 4 => self.text(),
            5 => {
                let all: Vec<String> = (0..self.below(4)).map(|_| self.any(depth - 1)).collect();
                format!("[{}]", all.join(","))
            }
            _ => {
                let names = ["type", "a", "text", "content", "name", "input", ""];
                let all: Vec<String> = (0..self.below(4))
                    .map(|_| format!("{}:{}", self.word(&names), self.any(depth - 1)))
                    .collect();
                format!("{{{}}}", all.join(","))
            }
        }
    }

    /// A JSON Schema, more or less.
    pub(super) fn schema(&mut self, depth: usize) -> String {
        let kind = if depth == 0 {
            self.word(&["string", "integer", "boolean"])
        } else {
            self.quoted("object")
        };
        let mut fields = vec![("type", kind), ("description", self.text())];
        if depth > 0 {
            let names = ["path", "command", "a b", "é"];
            let inner: Vec<String> = names[..self.below(names.len() + 1)]
                .iter()
                .map(|name| format!("{}:{}", self.quoted(name), self.schema(depth - 1)))
                .collect();
            fields.push(("properties", format!("{{{}}}", inner.join(","))));
            fields.push(("required", r#"["path"]"#.to_owned()));
        }
        self.object(fields)
    }

    // === structure ===

    /// An object of these fields. A wrong one is missing, twice there, or of another type;
    /// and now and then an unknown one.
    pub(super) fn object(&mut self, fields: Vec<(&str, String)>) -> String {
        let mut all = Vec::with_capacity(fields.len() + 1);
        for (name, value) in fields {
            if !self.is_wrong() {
                all.push(format!("{}:{value}", self.quoted(name)));
                continue;
            }
            match self.below(5) {
                0 => {}
                1 => all.extend([format!("\"{name}\":{value}"), format!("\"{name}\":{value}")]),
                2 => all.push(format!("\"{name}\":null")),
                3 => all.push(format!("\"{name}\" : {}", self.any(3))),
                _ => all.push(format!("\"{name}\":[{value}]")),
            }
        }
        if self.chance(5) {
            all.push(format!("\"unknown\":{}", self.any(2)));
        }
        if self.chance(10) && all.len() > 1 {
            let (a, b) = (self.below(all.len()), self.below(all.len()));
            all.swap(a, b);
        }
        format!("{{{}}}", all.join(if self.chance(5) { " ,\n\t" } else { "," }))
    }

    pub(super) fn list(
        &mut self,
        least: usize,
        most: usize,
        mut element: impl FnMut(&mut Self) -> String,
    ) -> String {
        let count = least + self.below(most - least + 1);
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let element = if self.is_wrong() { self.any(2) } else { element(self) };
            all.push(element);
        }
        format!("[{}]", all.join(","))
    }

    /// Adds a field to a part of the requests.
    pub(super) fn maybe<'a>(
        &mut self,
        fields: &mut Vec<(&'a str, String)>,
        of_a_hundred: u64,
        name: &'a str,
        value: impl FnOnce(&mut Self) -> String,
    ) {
        if self.chance(of_a_hundred) {
            let value = value(self);
            fields.push((name, value));
        }
    }

    /// Harms the finished text, as no program would that writes JSON at all.
    pub(super) fn harm(&mut self, text: String) -> Vec<u8> {
        let mut bytes = text.into_bytes();
        if self.wrong == 0 || !self.chance(15) {
            return bytes;
        }
        let at = self.below(bytes.len());
        match self.below(5) {
            0 => bytes.truncate(at),
            1 => bytes[at] = u8::try_from(self.below(256)).unwrap(),
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, self.pick(&[b'"', b'{', b']', b'\\', 0xff])),
            _ => {
                let deep = self.below(200);
                let nest = [b"[".repeat(deep), b"]".repeat(deep)].concat();
                bytes.splice(at..at, nest);
            }
        }
        bytes
    }
}
