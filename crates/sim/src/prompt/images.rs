//! Images in the entries of a history: in which of the two shapes they are, and their colour where
//! an image has only one.

use base64::Engine as _;
use serde_json::Value;

use crate::behaviour::RootImages;

/// The images of an entry that the model sees.
pub(super) fn seen_in(entry: &Value, seen: RootImages) -> impl Iterator<Item = &Value> {
    let parts = entry.get("content").and_then(Value::as_array);
    parts.into_iter().flatten().filter(move |part| {
        let image = part.get("type").and_then(Value::as_str) == Some("image");
        let is_url = part.get("image").is_some_and(Value::is_string);
        image
            && match seen {
                RootImages::Both => true,
                RootImages::Hex => !is_url,
                RootImages::DataUrl => is_url,
                RootImages::Unseen => false,
            }
    })
}

/// The first colour of the palette of a PNG.
pub(super) fn colour(part: &Value) -> Option<&'static str> {
    const PALETTE: &[u8] = b"PLTE";
    let bytes = bytes(part.get("image")?)?;
    let at = bytes.windows(PALETTE.len()).position(|window| window == PALETTE)?;
    let [red, green, blue, ..] = *bytes.get(at + PALETTE.len()..)? else { return None };
    let most = red.max(green).max(blue);
    Some(match most {
        _ if red == green && green == blue => "grey",
        most if most == red => "red",
        most if most == green => "green",
        _ => "blue",
    })
}

fn bytes(image: &Value) -> Option<Vec<u8>> {
    match image.as_str() {
        Some(url) => {
            let (_, data) = url.split_once(";base64,")?;
            base64::engine::general_purpose::STANDARD.decode(data).ok()
        }
        None => {
            let hex = image.get("hex")?.as_str()?;
            let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
            pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_are_seen_in_the_shapes_of_the_switch() {
        // The part of a PNG that has the colours.
        let palette = b"\0\0\0\x03PLTE\x14\x14\xdc";
        let base64 = base64::engine::general_purpose::STANDARD.encode(palette);
        let entry = json!({ "role": "user", "content": [
            { "type": "text", "text": "two images" },
            { "type": "image", "mimeType": "image/png",
              "image": { "__type": "Uint8Array", "hex": "504c5445dc1414" } },
            { "type": "image", "image": format!("data:image/png;base64,{base64}") },
        ] });
        for (seen, want) in [
            (RootImages::Both, vec![Some("red"), Some("blue")]),
            (RootImages::Hex, vec![Some("red")]),
            (RootImages::DataUrl, vec![Some("blue")]),
            (RootImages::Unseen, vec![]),
        ] {
            let colours: Vec<_> = seen_in(&entry, seen).map(colour).collect();
            assert_eq!(colours, want, "{seen:?}");
        }
    }
}
