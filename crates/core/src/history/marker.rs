//! The system message that names a conversation: `Session: session-<id>`.

/// Takes all markers out of the system texts and gives the name in the first, with
/// its `session-`. A marker is a whole text or a line of its own in a longer one.
pub fn take_marker(system: &mut Vec<String>) -> Option<String> {
    let mut name: Option<String> = None;
    system.retain_mut(|text| {
        let Some(first) = text.lines().find_map(marker) else {
            return true;
        };
        name.get_or_insert_with(|| first.to_owned());
        *text = text.split_inclusive('\n').filter(|line| marker(line).is_none()).collect();
        !text.trim().is_empty()
    });
    name
}

fn marker(line: &str) -> Option<&str> {
    const LONGEST: usize = 128;
    let name = line.trim().strip_prefix("Session:")?.trim_start();
    let id = name.strip_prefix("session-")?;
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    ((1..=LONGEST).contains(&id.len()) && id.bytes().all(legal)).then_some(name)
}
