//! Images inside messages: their data only, mostly as `data:` URLs. The gateway fetches
//! nothing that a request names.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use crate::{
    error::TurnError,
    model::{Image, ImageSource},
    wire::json::{brief, invalid},
};

/// Formats that the models read.
const FORMATS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Clients leave the padding out now and then.
pub(in crate::wire) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads `data:image/png;base64,…`; `param` names the field for the error.
pub(in crate::wire) fn from_data_url(url: &str, param: &str) -> Result<Image, TurnError> {
    let url = url.trim();
    let Some(rest) = strip_scheme(url) else {
        let http = ["http:", "https:"].iter().any(|scheme| starts_with_ignoring_case(url, scheme));
        return Err(invalid(
            param.to_owned(),
            if http {
                "image URLs on the web are not supported, because the gateway does not fetch URLs; \
             send the image itself as a `data:image/…;base64,…` URL"
            } else {
                "an image must be a `data:image/…;base64,…` URL"
            },
        ));
    };
    let Some((head, payload)) = rest.split_once(',') else {
        return Err(invalid(
            param.to_owned(),
            "the `data:` URL of the image has no `,` before its data",
        ));
    };
    let mut words = head.split(';').map(str::trim);
    let mime = words.next().unwrap_or_default();
    if !words.any(|word| word.eq_ignore_ascii_case("base64")) {
        return Err(invalid(
            param.to_owned(),
            "the `data:` URL of the image must be base64-encoded",
        ));
    }
    from_base64(mime, payload, param)
}

/// Reads the data of an image of this type; `param` names the field for the error.
pub(in crate::wire) fn from_base64(
    mime: &str,
    payload: &str,
    param: &str,
) -> Result<Image, TurnError> {
    let mime = match mime.to_ascii_lowercase() {
        mime if mime == "image/jpg" => "image/jpeg".to_owned(),
        mime => mime,
    };
    if !FORMATS.contains(&mime.as_str()) {
        return Err(invalid(
            param.to_owned(),
            format!(
                "images of type `{}` are not supported; use one of {}",
                brief(&mime),
                FORMATS.join(", ")
            ),
        ));
    }
    let decoded = if payload.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let clean: Vec<u8> = payload.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        BASE64.decode(clean)
    } else {
        BASE64.decode(payload)
    };
    match decoded {
        Ok(data) if data.is_empty() => Err(invalid(param.to_owned(), "the image is empty")),
        Ok(data) => Ok(Image { source: ImageSource::Inline { mime, data: data.into() } }),
        Err(_) => Err(invalid(param.to_owned(), "the data of the image is not valid base64")),
    }
}

fn strip_scheme(url: &str) -> Option<&str> {
    starts_with_ignoring_case(url, "data:").then(|| url.get(5..)).flatten()
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}
