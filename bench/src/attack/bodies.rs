//! Large request bodies of attacks.

/// Many elements with nothing in them.
pub(super) fn wide(size: usize) -> String {
    let elements = size / 3;
    format!("{{\"model\":\"auto\",\"messages\":[{}{{}}]}}", "{},".repeat(elements))
}

/// A few less than 50,000 objects, which are the most that a request may have.
pub(super) const MOST_NESTED: usize = 6 * 49_000;

/// A tool whose schema is chains of objects of one field: six bytes each, and hundreds in a tree.
pub(super) fn deep_schema(size: usize) -> String {
    let chain = format!("{}0{}", "{\"a\":".repeat(110), "}".repeat(110));
    let chains: Vec<String> =
        (0..size / chain.len()).map(|at| format!("\"k{}\":{chain}", at % 9_000)).collect();
    let tools: Vec<String> = chains
        .chunks(9_000)
        .enumerate()
        .map(|(at, chains)| {
            let schema = chains.join(",");
            format!(
                "{{\"type\":\"function\",\"function\":\
                 {{\"name\":\"t{at}\",\"parameters\":{{{schema}}}}}}}"
            )
        })
        .collect();
    let message = "{\"role\":\"user\",\"content\":\"quick\"}";
    let tools = tools.join(",");
    format!("{{\"model\":\"auto\",\"tools\":[{tools}],\"messages\":[{message}]}}")
}

/// One message that is answered like any other.
pub(super) fn long_text(size: usize) -> String {
    let text = "quick brown foxes ".repeat(size / 18);
    let message = format!("{{\"role\":\"user\",\"content\":\"{text}\"}}");
    format!("{{\"model\":\"auto\",\"messages\":[{message}]}}")
}
