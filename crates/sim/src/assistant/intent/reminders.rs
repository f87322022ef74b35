//! Removes what clients add to the user's own words.

/// In the last one the gateway puts a client's system messages from within a conversation.
const BLOCKS: [&str; 4] =
    ["system-reminder", "environment_context", "user_instructions", "system_message"];

/// Removes blocks that clients put into user messages for the model only.
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
    // Some clients quote the whole message.
    let text = out.trim();
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.filter(|inner| inner.contains(' ')).unwrap_or(text).trim().to_owned()
}
