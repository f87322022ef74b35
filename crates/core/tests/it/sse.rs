//! A reader of event streams that shares nothing with the code that writes them, and is
//! stricter than the format: one line of data in each frame.

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) event: Option<String>,
    pub(crate) data: String,
}

/// # Errors
/// Says which rule the bytes break.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Frame>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    if text.contains('\r') {
        return Err("a carriage return ends a line too".to_owned());
    }
    let mut frames = Vec::new();
    let mut event = None;
    let mut data = None;
    let mut open = false;
    let lines = text.split_inclusive('\n');
    for line in lines {
        let Some(line) = line.strip_suffix('\n') else {
            return Err(format!("a line without an end: {line}"));
        };
        open = !line.is_empty();
        if line.is_empty() {
            match (event.take(), data.take()) {
                (event, Some(data)) => frames.push(Frame { event, data }),
                (Some(event), None) => return Err(format!("{event} has no data")),
                // Behind a comment.
                (None, None) => {}
            }
        } else if line.starts_with(':') {
            continue;
        } else if let Some(name) = line.strip_prefix("event: ") {
            if data.is_some() || event.replace(name.to_owned()).is_some() {
                return Err("the name must come first, and once".to_owned());
            }
        } else if let Some(piece) = line.strip_prefix("data: ") {
            if data.replace(piece.to_owned()).is_some() {
                return Err(format!("two lines of data: {piece}"));
            }
        } else {
            return Err(format!("an unknown field: {line}"));
        }
    }
    if open { Err("the last frame is not ended".to_owned()) } else { Ok(frames) }
}

#[test]
fn frames_are_separated() {
    let frame = |event: Option<&str>, data: &str| Frame {
        event: event.map(str::to_owned),
        data: data.to_owned(),
    };
    assert_eq!(
        parse(b": keep-alive\n\ndata: a\n\nevent: e\ndata: {\"b\":1}\n\n"),
        Ok(vec![frame(None, "a"), frame(Some("e"), "{\"b\":1}")])
    );
    for wrong in [
        "data: a",
        "data: a\n",
        "data: a\ndata: b\n\n",
        "event: a\n\n",
        "data: a\nevent: b\n\n",
        "data: a\r\n\r\n",
        "id: 1\ndata: a\n\n",
        "data:a\n\n",
    ] {
        assert!(parse(wrong.as_bytes()).is_err(), "{wrong:?}");
    }
}
