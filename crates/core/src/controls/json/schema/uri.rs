//! How a reference is resolved against the URI of the schema that it is in (RFC 3986, 5.2).

/// The parts of a URI reference without its fragment.
#[derive(Clone, Copy)]
struct UriParts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

/// The absolute form of `reference`, which has no fragment.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    let (base, target) = (parts(base), parts(reference));
    if target.scheme.is_some() {
        return join(target, &without_dots(target.path));
    }
    let scheme = base.scheme;
    if target.authority.is_some() {
        return join(UriParts { scheme, ..target }, &without_dots(target.path));
    }
    let here = UriParts { scheme, authority: base.authority, ..target };
    if target.path.is_empty() {
        let query = target.query.or(base.query);
        return join(UriParts { query, ..here }, base.path);
    }
    if target.path.starts_with('/') {
        return join(here, &without_dots(target.path));
    }
    let folder = match base.path.rfind('/') {
        Some(end) => base.path.get(..=end).unwrap_or_default(),
        None if base.authority.is_some() => "/",
        None => "",
    };
    join(here, &without_dots(&format!("{folder}{}", target.path)))
}

fn parts(uri: &str) -> UriParts<'_> {
    let is_scheme = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    let (scheme, rest) = match uri.split_once(':') {
        Some((name, rest)) if is_scheme(name) => (Some(name), rest),
        _ => (None, uri),
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (Some(authority), path)
        }
        None => (None, rest),
    };
    UriParts { scheme, authority, path, query }
}

fn join(parts: UriParts<'_>, path: &str) -> String {
    let mut uri = String::new();
    if let Some(scheme) = parts.scheme {
        uri.extend([scheme, ":"]);
    }
    if let Some(authority) = parts.authority {
        uri.extend(["//", authority]);
    }
    uri.push_str(path);
    if let Some(query) = parts.query {
        uri.extend(["?", query]);
    }
    uri
}

/// The path without its `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".."
                    && (kept.len() > 1 || kept.first().is_some_and(|s| !s.is_empty()))
                {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    kept.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_as_in_rfc_3986() {
        // The examples of RFC 3986, 5.4.
        let base = "http://a/b/c/d;p?q";
        for (reference, want) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("g..", "http://a/b/c/g.."),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
        ] {
            assert_eq!(resolve(base, reference), want, "{reference}");
        }
        assert_eq!(resolve("", "a/b.json"), "a/b.json");
        assert_eq!(resolve("a/b.json", "c.json"), "a/c.json");
        assert_eq!(resolve("urn:example:a", ""), "urn:example:a");
        assert_eq!(resolve("http://a", "g"), "http://a/g");
    }
}
