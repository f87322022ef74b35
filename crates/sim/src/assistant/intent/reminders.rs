//! What of a user's message is the user's.

/// The last is how the gateway tells what a client says as the system in between.
const BLOCKS: [&str; 4] =
    ["system-reminder", "environment_context", "user_instructions", "system_message"];

/// Cuts out blocks that clients put into user messages for the model's eyes only.
pub(crate) fn without_reminders(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let block = BLOCKS
            .iter()
            .filter_map(|tag| Some((rest.find(&format!("<{tag}>"))?, format!("</{tag}>"))))
            .min();
        let Some((start, close)) = block else { break };
        let (head, tail) = rest.split_at(start);
        out.push_str(head);
        rest = match tail.find(&close) {
            Some(end) => tail.get(end + close.len()..).unwrap_or_default(),
            None => "",
        };
    }
    out.push_str(rest);
    // Some clients put the whole message into quotes.
    let text = out.trim();
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.filter(|inner| inner.contains(' ')).unwrap_or(text).trim().to_owned()
}
